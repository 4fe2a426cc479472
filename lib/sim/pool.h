/* SPDX-License-Identifier: MIT
 *
 * Memory pools, shared by the runtime and the driver API.
 */
#ifndef VS_SIM_POOL_H
#define VS_SIM_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct vs_pool {
	int device;
	bool reuse[3]; /* switched off */
	uint64_t threshold;
};

struct vs_pool *vs_pool_default(int device);
struct vs_pool *vs_pool_current(int device);
int vs_pool_set_current(int device, struct vs_pool *pool);
int vs_pool_new(int device, struct vs_pool **ret_pool);
int vs_pool_free(struct vs_pool *pool);
int vs_pool_malloc(int device, uint64_t size, uint64_t *ret_address);
int vs_pool_attribute(struct vs_pool *pool, int attribute, bool set, void *value);

#endif
