/* SPDX-License-Identifier: MIT
 *
 * What has been mapped stays (dlopen.h), so what was learned of an address holds for good.
 */
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/libraries.h"
#include "shim/symbols.h"
#include "shim/unwind_rule.h"

/* Distinct return addresses of a process that are remembered: 1 MiB of untouched memory. A training job meets some
 * ten thousand. */
#define SLOTS (1u << 16)
/* Slots looked at before an address is given up as one too many. */
#define MAX_PROBES 32

/* The rule is written last: a slot whose address is there and whose rule is not is being filled. */
static struct slot {
	_Atomic uint64_t address, rule;
} slots[SLOTS];

/* Of <dlfcn.h>, glibc 2.35: fixed ABI, declared here to be built with older ones. */
struct found_object {
	unsigned long long flags;
	void *begin, *end;
	struct link_map *map;
	void *tables; /* PT_GNU_EH_FRAME */
	unsigned long long reserved[7];
};

/* Relaxed: threads that prepare at once find the same. */
static _Atomic(int (*)(void *, struct found_object *)) find_object;

void vs_unwind_prepare(void)
{
	atomic_store_explicit(&find_object, (int (*)(void *, struct found_object *))vs_symbol_find("_dl_find_object"),
	                      memory_order_relaxed);
}

struct search {
	uint64_t address;
	struct found_object object;
	bool found;
};

static int match(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	uint64_t begin = UINT64_MAX, end = 0, tables = 0;
	bool inside = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_GNU_EH_FRAME)
			tables = at;
		if (header->p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + header->p_memsz > end ? at + header->p_memsz : end;
		inside |= search->address >= at && search->address - at < header->p_memsz;
	}
	if (!inside)
		return 0;
	search->object = (struct found_object){
	    .begin = (void *)(uintptr_t)begin, .end = (void *)(uintptr_t)end, .tables = (void *)(uintptr_t)tables};
	search->found = true;
	return 1;
}

/* The library that holds an address. */
static bool find(uint64_t address, struct found_object *ret_object)
{
	int (*ask)(void *, struct found_object *) = atomic_load_explicit(&find_object, memory_order_relaxed);
	struct search search = {.address = address};

	if (ask)
		return ask((void *)(uintptr_t)address, ret_object) == 0;
	vs_libraries_each(match, &search);
	*ret_object = search.object;
	return search.found;
}

/* .eh_frame_hdr as every linker writes it (LSB, 10.6.2): a sorted table of distances from its own start. */
struct index {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
	struct {
		int32_t function, entry;
	} table[];
};

enum {
	ENCODED_U32 = 0x03,
	ENCODED_S32_TO_ITSELF = 0x1b,
	ENCODED_S32_TO_INDEX = 0x3b,
};

static struct vs_unwind_rule learn(uint64_t target)
{
	const struct vs_unwind_rule foreign = {.kind = VS_UNWIND_FOREIGN};
	struct found_object object;
	const struct index *index;
	const uint8_t *base, *low, *high;
	uint32_t from = 0, to;
	int64_t distance;

	if (!find(target, &object) || !object.tables)
		return foreign;
	index = object.tables;
	base = object.tables;
	low = object.begin;
	high = object.end;
	if (base < low || base > high || (size_t)(high - base) < sizeof(*index) || index->version != 1 ||
	    index->frame_encoding != ENCODED_S32_TO_ITSELF || index->count_encoding != ENCODED_U32 ||
	    index->table_encoding != ENCODED_S32_TO_INDEX ||
	    index->count > ((size_t)(high - base) - sizeof(*index)) / sizeof(index->table[0]))
		return foreign;
	distance = (int64_t)(target - (uint64_t)(uintptr_t)base);
	to = index->count;
	/* The last function that starts at or before the target. */
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (index->table[middle].function <= distance)
			from = middle + 1;
		else
			to = middle;
	}
	if (!from)
		return foreign;
	return vs_unwind_read(base + index->table[from - 1].entry, low, high, target);
}

static uint64_t pack(struct vs_unwind_rule rule)
{
	return (uint64_t)(uint32_t)rule.cfa_offset << 32 | (uint64_t)(uint16_t)rule.rbp_offset << 16 |
	       (uint64_t)rule.rbp_saved << 9 | (uint64_t)rule.cfa_from_rbp << 8 | rule.kind;
}

static inline struct vs_unwind_rule unpack(uint64_t packed)
{
	return (struct vs_unwind_rule){.kind = (uint8_t)packed,
	                               .cfa_from_rbp = packed >> 8 & 1,
	                               .rbp_saved = packed >> 9 & 1,
	                               .rbp_offset = (int16_t)(packed >> 16),
	                               .cfa_offset = (int32_t)(packed >> 32)};
}

static __attribute__((noinline)) struct vs_unwind_rule learn_into(uint32_t at, uint64_t address)
{
	/* A call is the last thing before the address it returns to: with it may end its function, and the rule. */
	struct vs_unwind_rule rule = learn(address - 1);

	for (int i = 0; i < MAX_PROBES; i++, at = (at + 1) % SLOTS) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&slots[at].address, &there, address) || there == address) {
			/* Release: whoever finds the rule has seen its address. Two threads that learn the same
			 * address write the same. */
			atomic_store_explicit(&slots[at].rule, pack(rule), memory_order_release);
			break;
		}
	}
	return rule;
}

struct vs_unwind_rule vs_unwind_rule(uint64_t address)
{
	/* Fibonacci hashing: the upper half of the product is well mixed. */
	uint32_t at = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 48) % SLOTS;

	for (uint32_t i = 0, probe = at; i < MAX_PROBES; i++, probe = (probe + 1) % SLOTS) {
		uint64_t there = atomic_load_explicit(&slots[probe].address, memory_order_relaxed), rule;

		if (there == address) {
			/* Acquire: pairs with learn_into(). Nothing else hangs on it: the word is all. */
			rule = atomic_load_explicit(&slots[probe].rule, memory_order_acquire);
			return rule ? unpack(rule) : learn_into(at, address);
		}
		if (!there)
			return learn_into(at, address);
	}
	/* No room: learning it each time would be slower than libunwind. */
	return (struct vs_unwind_rule){.kind = VS_UNWIND_FOREIGN};
}
