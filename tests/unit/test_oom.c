/* SPDX-License-Identifier: MIT
 *
 * Out-of-memory errors as they are found in logs, and the cause of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oom/oom.h"
#include "oom/remedies.h"

#define NONE   VS_OOM_UNKNOWN
#define MIB(x) ((uint64_t)((x)*1048576.0 + 0.5))
#define GIB(x) MIB((x)*1024.0)

static const struct row {
	const char *name;
	enum vs_oom_source source;
	enum vs_oom_cause cause;
	uint64_t request, total, free, allocated, unallocated, others;
} rows[] = {
    {"torch-1.3-cached", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(512), GIB(10.76), MIB(4.44), GIB(9.9), MIB(29.3),
     NONE},
    {"torch-1.13-fragmentation", VS_OOM_PYTORCH, VS_OOM_CAUSE_FRAGMENTATION, GIB(2), GIB(23.69), GIB(1.31),
     GIB(15.02), GIB(6.18), NONE},
    {"torch-2.0-full", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(20), GIB(14.56), MIB(11.75), GIB(13.61), GIB(0.01),
     NONE},
    {"torch-2.0-fraction", VS_OOM_PYTORCH, VS_OOM_CAUSE_LIMIT, GIB(1), GIB(79.2), GIB(38.55), GIB(39.1), GIB(0.2),
     NONE},
    {"torch-2.1-capacty", VS_OOM_PYTORCH, VS_OOM_CAUSE_FRAGMENTATION, MIB(224), GIB(23.65), MIB(92.06), GIB(22.71),
     MIB(380.61), NONE},
    {"torch-2.4-full", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, GIB(1.25), GIB(79.14), MIB(403.75), GIB(77.63), MIB(430.17),
     NONE},
    {"torch-2.5-other-process", VS_OOM_PYTORCH, VS_OOM_CAUSE_OTHER_PROCESS, GIB(2), GIB(79.14), GIB(1.1), GIB(17.2),
     MIB(310), GIB(60.02)},
    {"torch-2.6-container-processes", VS_OOM_PYTORCH, VS_OOM_CAUSE_OTHER_PROCESS, MIB(896), GIB(44.4), MIB(21.31),
     GIB(13.7), MIB(68.44), GIB(30.11)},
    {"torch-2.6-fragmentation-rich", VS_OOM_PYTORCH, VS_OOM_CAUSE_FRAGMENTATION, GIB(6), GIB(79.33), GIB(3.7),
     GIB(58.25), GIB(16.6), NONE},
    {"torch-2.7-nccl-outside", VS_OOM_PYTORCH, VS_OOM_CAUSE_OUTSIDE, GIB(1.5), GIB(95), MIB(712.44),
     GIB(79.8) - MIB(72), MIB(506), NONE},
    {"torch-2.8-request-too-large", VS_OOM_PYTORCH, VS_OOM_CAUSE_REQUEST, GIB(512), GIB(23.53), GIB(21.9), GIB(1.12),
     MIB(26.5), NONE},
    {"torch-2.9-wsl-above-card", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(128), GIB(8), 0, GIB(14.05), MIB(96.2), NONE},
    {"torch-2.15-graphs", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(34), GIB(79.11), MIB(12.81), GIB(78.55) - GIB(2.1),
     MIB(18.7), NONE},
    {"torch-2.10-full", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(896), GIB(44.4), MIB(512.31), GIB(43.2), MIB(214.5),
     NONE},
    {"torch-2.15-mempool", VS_OOM_PYTORCH, VS_OOM_CAUSE_LIMIT, MIB(512), GIB(79.11), GIB(61.02), GIB(16.5) - MIB(128),
     MIB(310.25), NONE},
    {"torch-2.15-rejected", VS_OOM_PYTORCH_REJECTED, VS_OOM_CAUSE_LIMIT, GIB(2), NONE, NONE, NONE, NONE, NONE},
    {"torch-exabyte", VS_OOM_PYTORCH, VS_OOM_CAUSE_REQUEST, NONE, NONE, NONE, NONE, NONE, NONE},
    {"torch-cuda-malloc-async", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, GIB(1.12), GIB(23.64), MIB(18.81), GIB(21.6), NONE,
     NONE},
    {"torch-expandable-address-space", VS_OOM_PYTORCH_ADDRESSES, VS_OOM_CAUSE_LIMIT, NONE, NONE, NONE, NONE, NONE,
     NONE},
    {"torch-free-exceeds-request", VS_OOM_PYTORCH, VS_OOM_CAUSE_LIMIT, MIB(20), GIB(5.8), GIB(3.11), MIB(900.1),
     MIB(17.9), NONE},
    {"torch-json-log", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, GIB(3.91), GIB(39.39), GIB(2.21), GIB(36.2), MIB(480.12),
     NONE},
    {"torch-ray-prefix", VS_OOM_PYTORCH, VS_OOM_CAUSE_FRAGMENTATION, GIB(4), GIB(79.25), GIB(2.94), GIB(69.88),
     GIB(5.91), NONE},
    {"torch-powershell-utf16", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, MIB(256), GIB(11.99), 0, GIB(11.02), MIB(94.3),
     NONE},
    {"torch-several", VS_OOM_PYTORCH, VS_OOM_CAUSE_FULL, GIB(2.5), GIB(23.53), GIB(1.9), GIB(20.62), MIB(506.5),
     NONE},
    {"torch-korean-kubernetes", VS_OOM_PYTORCH, VS_OOM_CAUSE_OTHER_PROCESS, GIB(1.96), GIB(22.06), GIB(1.07),
     GIB(11.31), MIB(212.9), GIB(9.02)},
    {"torch-markdown-issue", VS_OOM_PYTORCH, VS_OOM_CAUSE_OUTSIDE, MIB(86), GIB(7.79), MIB(45.12), GIB(5.9), MIB(64),
     NONE},
    {"torch-srun-glog", VS_OOM_PYTORCH, VS_OOM_CAUSE_FRAGMENTATION, MIB(700), GIB(31.73), MIB(300), GIB(22.5),
     GIB(8.11), NONE},
    {"torch-truncated", VS_OOM_PYTORCH, VS_OOM_CAUSE_UNKNOWN, GIB(2), NONE, NONE, NONE, NONE, NONE},
    {"cuda-plain", VS_OOM_CUDA, VS_OOM_CAUSE_UNKNOWN, NONE, NONE, NONE, NONE, NONE, NONE},
    {"cublas-create", VS_OOM_CUDA, VS_OOM_CAUSE_UNKNOWN, NONE, NONE, NONE, NONE, NONE, NONE},
    {"nccl-calloc", VS_OOM_CUDA, VS_OOM_CAUSE_UNKNOWN, NONE, NONE, NONE, NONE, NONE, NONE},
    {"jax-request-only", VS_OOM_XLA, VS_OOM_CAUSE_UNKNOWN, 7406166528, NONE, NONE, NONE, NONE, NONE},
    {"jax-pool-full", VS_OOM_XLA, VS_OOM_CAUSE_FULL, GIB(2), NONE, NONE, 15703474176, 402653184, NONE},
    {"jax-larger-than-pool", VS_OOM_XLA, VS_OOM_CAUSE_LIMIT, GIB(27), NONE, NONE, GIB(1), GIB(14), NONE},
    {"tensorflow-tensor", VS_OOM_XLA, VS_OOM_CAUSE_UNKNOWN, GIB(4), NONE, NONE, NONE, NONE, NONE},
};

static char *load(const char *name, size_t *ret_size)
{
	char path[512], *text = malloc(1 << 16);

	snprintf(path, sizeof(path), VS_TEST_DATA "/oom-messages/%s.txt", name);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	assert_non_null(text);
	*ret_size = fread(text, 1, 1 << 16, file);
	fclose(file);
	return text;
}

/* Sums and differences of numbers with two decimals, in GiB: 10 MiB off at the most. */
static void assert_near(const char *name, const char *what, uint64_t is, uint64_t expected)
{
	uint64_t distance = is > expected ? is - expected : expected - is;

	if ((is == NONE) != (expected == NONE) || (is != NONE && distance > MIB(0.1)))
		fail_msg("%s: %s is %llu, not %llu", name, what, (unsigned long long)is,
		         (unsigned long long)expected);
}

static void check(const struct row *row, const char *text, size_t size)
{
	struct vs_oom oom;

	if (vs_oom_read_message(text, size, &oom) != 0)
		fail_msg("%s: not seen", row->name);
	assert_int_equal(oom.source, row->source);
	if (vs_oom_judge(&oom) != row->cause)
		fail_msg("%s: %s, not %s", row->name, vs_oom_cause_name(vs_oom_judge(&oom)),
		         vs_oom_cause_name(row->cause));
	assert_near(row->name, "request", oom.numbers[VS_OOM_REQUEST], row->request);
	assert_near(row->name, "total", oom.numbers[VS_OOM_TOTAL], row->total);
	assert_near(row->name, "free", oom.numbers[VS_OOM_FREE], row->free);
	assert_near(row->name, "allocated", oom.numbers[VS_OOM_ALLOCATED], row->allocated);
	assert_near(row->name, "unallocated", oom.numbers[VS_OOM_UNALLOCATED], row->unallocated);
	assert_near(row->name, "others", oom.numbers[VS_OOM_OTHERS], row->others);
}

static void test_messages(void **state)
{
	(void)state;
	assert_true(sizeof(rows) / sizeof(rows[0]) >= 20);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t size;
		char *text = load(rows[i].name, &size);
		check(&rows[i], text, size);
		free(text);
	}
}

/* Broken at any width, even within words, each line behind a logger's prefix: the same numbers. */
static void test_wrapped(void **state)
{
	static const char message[] =
	    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of "
	    "79.14 GiB of which 403.75 MiB is free. Process 1471 has 78.73 GiB memory in use. Of the allocated "
	    "memory "
	    "77.63 GiB is allocated by PyTorch, and 430.17 MiB is reserved by PyTorch but unallocated.";
	static const char *const prefixes[] = {"",
	                                       "[rank12]: ",
	                                       "> ",
	                                       "2026-01-31 12:00:00,123 - INFO - ",
	                                       "(Worker pid=3, ip=10.1.2.3) ",
	                                       "Jan 31 12:00:00 n1 python[77]: ",
	                                       "\x1b[36m[1,3]<stderr>\x1b[0m: "};
	char *wrapped = malloc(1 << 16);

	(void)state;
	assert_non_null(wrapped);
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		for (size_t width = 7; width < sizeof(message); width++) {
			size_t used = 0;
			for (size_t at = 0; at < sizeof(message) - 1; at += width)
				used += (size_t)sprintf(wrapped + used, "%s%.*s\n", prefixes[i], (int)width,
				                        message + at);
			check(&rows[5], wrapped, used);
		}
	}
	free(wrapped);
}

static void test_no_error(void **state)
{
	static const char *const texts[] = {
	    "",  "\n",    "all is well", "memory: 3 GiB free; out of", "\x1b[", "\x1b]0;out of memory", "\\u001b",
	    "[", "(pid=", "12:"};
	struct vs_oom oom = {.absurd = true};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(vs_oom_read_message(texts[i], strlen(texts[i]), &oom), -ENODATA);
	assert_true(oom.absurd); /* untouched */
}

static void test_numbers_beyond_reason(void **state)
{
	static const char text[] =
	    "CUDA out of memory. Tried to allocate 99999999999999999999.00 GiB. GPU 0 has a total capacity "
	    "of 1.2.3 GiB of which GiB is free.";
	struct vs_oom oom;

	(void)state;
	assert_int_equal(vs_oom_read_message(text, strlen(text), &oom), 0);
	for (unsigned i = 0; i < VS_OOM_NUMBERS; i++)
		assert_false(vs_oom_knows(&oom, i));
	assert_int_equal(vs_oom_judge(&oom), VS_OOM_CAUSE_UNKNOWN);
}

static const struct vs_oom_remedy *remedy(const struct vs_oom_remedies *remedies, const char *name)
{
	for (size_t i = 0; i < remedies->count; i++) {
		if (!strcmp(remedies->list[i].name, name))
			return &remedies->list[i];
	}
	return NULL;
}

static void test_remedies_of_a_job(void **state)
{
	uint64_t tags[VS_TAG_COUNT] = {0}, details[VS_DETAIL_COUNT] = {0};
	struct vs_oom_job job = {
	    .tags = tags, .details = details, .parameters = GIB(1), .parameter_bytes = 4, .world_size = 1};
	struct vs_oom_remedies remedies;
	struct vs_oom oom;

	(void)state;
	vs_oom_init(&oom, VS_OOM_PYTORCH);
	oom.numbers[VS_OOM_REQUEST] = GIB(7);
	oom.numbers[VS_OOM_TOTAL] = GIB(40);
	oom.numbers[VS_OOM_FREE] = GIB(1);
	oom.numbers[VS_OOM_ALLOCATED] = GIB(37);
	oom.numbers[VS_OOM_RESERVED] = GIB(38);
	tags[VS_TAG_WEIGHTS] = tags[VS_TAG_GRADIENTS] = GIB(4);
	tags[VS_TAG_OPTIMIZER] = GIB(8);
	tags[VS_TAG_ACTIVATIONS] = GIB(20);
	tags[VS_TAG_OUTPUTS] = GIB(1);
	vs_oom_complete(&oom);
	assert_int_equal(oom.numbers[VS_OOM_SHORTFALL], GIB(5));
	assert_int_equal(vs_oom_judge(&oom), VS_OOM_CAUSE_FULL);
	vs_oom_remedies(&oom, VS_OOM_CAUSE_FULL, &job, &remedies);
	for (size_t i = 1; i < remedies.count; i++)
		assert_true(remedies.list[i - 1].saves >= remedies.list[i].saves);
	assert_int_equal(remedy(&remedies, "half_the_batch")->saves, (GIB(20) + GIB(1)) / 2);
	assert_int_equal(remedy(&remedies, "checkpointing")->saves, GIB(20) / 100 * 70);
	assert_int_equal(remedy(&remedies, "checkpointing")->enough, VS_OOM_YES);
	assert_int_equal(remedy(&remedies, "offload")->saves, GIB(8));
	/* Two moments of 4 bytes become two of 1. */
	assert_int_equal(remedy(&remedies, "8bit_optimizer")->saves, GIB(6));
	assert_int_equal(remedy(&remedies, "expandable_segments")->saves, GIB(1));
	assert_int_equal(remedy(&remedies, "expandable_segments")->enough, VS_OOM_NO);
	assert_null(remedy(&remedies, "zero"));
	/* A job that has done it already is not told to. */
	details[VS_DETAIL_ACTIVATIONS_RECOMPUTED] = 1;
	tags[VS_TAG_GRADIENTS] = tags[VS_TAG_OPTIMIZER] = MIB(10);
	job.world_size = 4;
	vs_oom_remedies(&oom, VS_OOM_CAUSE_FULL, &job, &remedies);
	assert_null(remedy(&remedies, "checkpointing"));
	assert_null(remedy(&remedies, "lora"));
	assert_int_equal(remedy(&remedies, "zero")->saves, MIB(20) / 4 * 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_messages),          cmocka_unit_test(test_wrapped),
	    cmocka_unit_test(test_no_error),          cmocka_unit_test(test_numbers_beyond_reason),
	    cmocka_unit_test(test_remedies_of_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
