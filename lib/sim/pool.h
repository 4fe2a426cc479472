/* SPDX-License-Identifier: MIT
 *
 * Memory pools, shared by the runtime and the driver API. A pool holds whole granules of its card. What is freed stays
 * with it until it is asked to trim, the next synchronisation finds it above its threshold, or the card has nothing
 * left for somebody else. In which steps a real pool grows is not documented: this one grows by what it needs.
 *
 * Each function takes the books' lock; handles that are none are CU_INVALID_VALUE.
 */
#ifndef VS_SIM_POOL_H
#define VS_SIM_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct vs_pool;

struct vs_pool *vs_pool_default(int device);
struct vs_pool *vs_pool_current(int device);
int vs_pool_set_current(int device, struct vs_pool *pool);
int vs_pool_new(int device, struct vs_pool **ret_pool);
/* Its memory goes once nothing of it is in use. */
int vs_pool_free(struct vs_pool *pool);
int vs_pool_device(struct vs_pool *pool, int *ret_device);
int vs_pool_malloc(struct vs_pool *pool, uint64_t size, uint64_t *ret_address);
int vs_pool_trim(struct vs_pool *pool, uint64_t keep);
/* By CUDA's number (cudaMemPoolAttr). */
int vs_pool_attribute(struct vs_pool *pool, int attribute, bool set, void *value);
/* The pool that an address in use is from; NULL: of none. */
struct vs_pool *vs_pool_of(uint64_t address);
/* Something was waited for: pools go down to their thresholds. */
void vs_pool_settle(void);

#endif
