/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "shim/idmap.h"

static struct vs_key key_of(uint64_t n)
{
	return vs_key_words(7, &n, 1);
}

static void test_empty(void **state)
{
	struct vs_idmap map;

	(void)state;
	vs_idmap_init(&map, 10);
	assert_int_equal(vs_idmap_find(&map, key_of(1)), 0);
}

static void test_grows_and_finds(void **state)
{
	const uint32_t count = 100000;
	struct vs_idmap map;

	(void)state;
	vs_idmap_init(&map, count);
	for (uint32_t i = 1; i <= count; i++)
		assert_int_equal(vs_idmap_add(&map, key_of(i), i), 0);
	for (uint32_t i = 1; i <= count; i++)
		assert_int_equal(vs_idmap_find(&map, key_of(i)), i);
	for (uint32_t i = count + 1; i <= 2 * count; i++)
		assert_int_equal(vs_idmap_find(&map, key_of(i)), 0);
	assert_true(vs_idmap_full(&map));
	assert_int_equal(vs_idmap_add(&map, key_of(count + 1), 1), -ENOSPC);
}

static void test_colliding_slots(void **state)
{
	struct vs_idmap map;

	(void)state;
	vs_idmap_init(&map, 1000);
	/* Keys of one slot, told apart by their other half. */
	for (uint32_t i = 1; i <= 1000; i++)
		assert_int_equal(vs_idmap_add(&map, (struct vs_key){42, i}, i), 0);
	for (uint32_t i = 1; i <= 1000; i++)
		assert_int_equal(vs_idmap_find(&map, (struct vs_key){42, i}), i);
	assert_int_equal(vs_idmap_find(&map, (struct vs_key){42, 0}), 0);
}

/* Words that real stacks consist of: close addresses, small numbers, the same frames in another order. */
static void test_keys_differ(void **state)
{
	uint64_t words[6] = {0x7f1234567890, 0x7f1234567898, 0x7f1234567890, 0x55d000001000, 8, 16};
	struct vs_key base = vs_key_words(6, words, 6), other;

	(void)state;
	for (int i = 0; i < 6; i++) {
		for (int bit = 0; bit < 64; bit++) {
			words[i] ^= (uint64_t)1 << bit;
			other = vs_key_words(6, words, 6);
			assert_int_not_equal(other.low, base.low);
			assert_int_not_equal(other.high, base.high);
			words[i] ^= (uint64_t)1 << bit;
		}
	}
	for (int i = 0; i < 6; i++) {
		for (int j = i + 1; j < 6; j++) {
			uint64_t word = words[i];

			if (words[i] == words[j])
				continue;
			words[i] = words[j];
			words[j] = word;
			other = vs_key_words(6, words, 6);
			assert_int_not_equal(other.low, base.low);
			words[j] = words[i];
			words[i] = word;
		}
	}
	other = vs_key_words(5, words, 6);
	assert_int_not_equal(other.low, base.low);
	other = vs_key_words(6, words, 5);
	assert_int_not_equal(other.low, base.low);
}

static void test_text_keys_differ(void **state)
{
	static const char *const texts[] = {
	    "", "a", "b", "aa", "a\0b", "forward", "backward", "0123456789abcdef", "0123456789abcdef0"};
	enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
	static const size_t sizes[COUNT] = {0, 1, 1, 2, 3, 7, 8, 16, 17};

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		struct vs_key a = vs_key_text(texts[i], sizes[i]);

		for (int j = 0; j < COUNT; j++) {
			struct vs_key b = vs_key_text(texts[j], sizes[j]);

			assert_int_equal(a.low == b.low && a.high == b.high, i == j);
		}
	}
}

/* Readers while the table grows under them: a key once added is always found, with its own id. */
static struct vs_idmap shared;
static _Atomic uint32_t added;
static _Atomic int wrong;

static void *reader(void *argument)
{
	uint32_t n = 0, seen;

	(void)argument;
	do {
		seen = atomic_load(&added);
		if (seen && vs_idmap_find(&shared, key_of(n % seen + 1)) != n % seen + 1)
			atomic_fetch_add(&wrong, 1);
		n += 7919;
	} while (seen < 200000);
	return NULL;
}

static void test_readers_while_growing(void **state)
{
	pthread_t threads[3];

	(void)state;
	vs_idmap_init(&shared, 200000);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, NULL), 0);
	for (uint32_t i = 1; i <= 200000; i++) {
		assert_int_equal(vs_idmap_add(&shared, key_of(i), i), 0);
		atomic_store(&added, i);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
}

#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define ADDRESS_SANITIZER 1 /* which needs terabytes of address space for itself */
#endif

#ifndef ADDRESS_SANITIZER
/* Last: the process has little address space left after it. */
static void test_out_of_memory(void **state)
{
	struct rlimit limit;
	struct vs_idmap map;
	uint32_t count = 0;
	char text[256] = "";
	FILE *file;
	long pages;
	int r = 0;

	(void)state;
	vs_idmap_init(&map, 1 << 20);
	file = fopen("/proc/self/statm", "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	pages = strtol(text, NULL, 10);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = (rlim_t)pages * 4096 + (1 << 20);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	while (!(r = vs_idmap_add(&map, key_of(count + 1), count + 1)))
		count++;
	assert_int_equal(r, -ENOMEM);
	assert_true(count > 1000 && vs_idmap_full(&map));
	for (uint32_t i = 1; i <= count; i++)
		assert_int_equal(vs_idmap_find(&map, key_of(i)), i);
	assert_int_equal(vs_idmap_find(&map, key_of(count + 1)), 0);
	assert_int_equal(vs_idmap_add(&map, key_of(count + 1), 1), -ENOSPC);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_grows_and_finds),
	    cmocka_unit_test(test_colliding_slots),
	    cmocka_unit_test(test_keys_differ),
	    cmocka_unit_test(test_text_keys_differ),
	    cmocka_unit_test(test_readers_while_growing),
#ifndef ADDRESS_SANITIZER
	    cmocka_unit_test(test_out_of_memory),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
