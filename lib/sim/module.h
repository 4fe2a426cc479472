/* SPDX-License-Identifier: MIT
 *
 * Device code, shared by the runtime and the driver API.
 */
#ifndef VS_SIM_MODULE_H
#define VS_SIM_MODULE_H

#include <stdint.h>

int vs_module_load(const void *image, void **ret_module);
int vs_module_unload(void *module);
int vs_module_function(void *module, const char *name, void **ret_function);

/* A place for a device variable of `size` bytes. */
int vs_variable_address(uint64_t size, uint64_t *ret_address);

#endif
