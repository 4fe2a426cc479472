/* SPDX-License-Identifier: MIT
 *
 * The type's deallocator is replaced by one that counts and goes on to it. That is a word of the interpreter's data,
 * read whenever a code object dies; PyCode_AddWatcher(), which is for this, is there from 3.12 on only and wants the
 * GIL.
 */
#include "shim/python_codes.h"

#include <stddef.h>
#include <string.h>

#include "shim/readable.h"

typedef void deallocator(void *object);

uint64_t vs_python_deaths;
static deallocator *next;

static void died(void *object)
{
	/* Before its memory can be another one's. */
	__atomic_fetch_add(&vs_python_deaths, 1, __ATOMIC_SEQ_CST);
	__atomic_load_n(&next, __ATOMIC_RELAXED)(object);
}

void vs_python_watch_codes(void *code_type, uint16_t object_type)
{
	/* PyTypeObject: ob_type and ob_size, tp_name, two sizes, tp_dealloc. So in 3.0 to 3.14, free-threaded or not.
	 */
	char *const name = (char *)code_type + object_type + 2 * sizeof(void *);
	deallocator **const slot = (deallocator **)(void *)(name + 3 * sizeof(void *));
	deallocator *own;
	const char *text;

	if (!vs_readable(name, 4 * sizeof(void *)))
		return;
	memcpy(&text, name, sizeof(text));
	own = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (!vs_readable(text, sizeof("code")) || strcmp(text, "code") || !own)
		return;
	__atomic_store_n(&next, own, __ATOMIC_RELAXED);
	/* Release: whoever calls it finds `next`. One that died a moment before was never seen by us. */
	__atomic_store_n(slot, died, __ATOMIC_RELEASE);
	__atomic_store_n(&vs_python_deaths, 1, __ATOMIC_RELEASE);
}
