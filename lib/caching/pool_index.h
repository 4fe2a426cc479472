/* SPDX-License-Identifier: MIT
 *
 * Pools by their names, which are two numbers, in the order in which they were first asked for.
 */
#ifndef VS_CACHING_POOL_INDEX_H
#define VS_CACHING_POOL_INDEX_H

#include <stdlib.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/u64map.h"

struct vs_pool_id {
	uint64_t first, second;
};

struct vs_pool_index { /* all zero is empty */
	struct vs_pool_id *ids;
	size_t count, capacity;
	struct vs_u64map by_hash;
};

/* The pool's index; one that is new gets the next. -ENOMEM. */
static inline int vs_pool_index_get(struct vs_pool_index *index, uint64_t first, uint64_t second, uint32_t *ret_index)
{
	/* Not 0, which is no key; where two hash alike, the next place. */
	uint64_t key = vs_hash_word(first ^ vs_hash_word(second)) | 1;

	for (uint32_t found; vs_u64map_get(&index->by_hash, key, &found); key += 2) {
		if (index->ids[found].first == first && index->ids[found].second == second) {
			*ret_index = found;
			return 0;
		}
	}
	if (vs_grow(&index->ids, &index->capacity, index->count + 1, sizeof(*index->ids)) < 0)
		return -ENOMEM;
	if (vs_u64map_put(&index->by_hash, key, (uint32_t)index->count) < 0)
		return -ENOMEM;
	index->ids[index->count] = (struct vs_pool_id){first, second};
	*ret_index = (uint32_t)index->count++;
	return 0;
}

static inline void vs_pool_index_done(struct vs_pool_index *index)
{
	free(index->ids);
	vs_u64map_release(&index->by_hash);
	*index = (struct vs_pool_index){0};
}

#endif
