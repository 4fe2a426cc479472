/* SPDX-License-Identifier: MIT
 *
 * Files that are cut, damaged, or no traces at all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_helper.h"

enum { HEADER = 4096, CHUNK = 65536, EVENTS = 400 };

static char *folder, *path;
static uint8_t *data; /* of a small sound trace, with two logs */
static size_t size;
static struct vramshim_event events[EVENTS];

static int make(void **state)
{
	struct vs_writer *writer;
	struct vs_log *logs[2];
	uint64_t native[] = {1, 2, 3, 4}, seed = 8;
	uint32_t python[] = {1, 2};

	(void)state;
	folder = scratch_make();
	path = scratch_path(folder, "a.vst");
	assert_int_equal(vs_writer_open(path, 0, &writer), 0);
	logs[0] = vs_log_new(writer, 1);
	logs[1] = vs_log_new(writer, 2);
	vs_writer_fact(writer, "command:0", "python");
	vs_writer_fact(writer, "torch", "2.15.0");
	vs_writer_module(writer, &(struct vramshim_module){0, 4096, 8192, "/lib/libc10.so", "abcdef"});
	for (uint32_t i = 1; i <= 30; i++) {
		vs_writer_string(writer, "some/file.py", 12);
		vs_writer_code(writer, i, i, i, (const uint8_t *)"\x80\x01\x02", 3);
		vs_writer_python_frame(writer, i, (int32_t)i);
		native[0] = i;
		python[0] = i;
		vs_writer_stack(writer, &(struct vramshim_stack){native, python, 4, 2, false});
	}
	for (int i = 0; i < EVENTS; i++) {
		events[i] = random_event(&seed);
		vs_log_append(logs[random_below(&seed, 2)], &events[i]);
	}
	vs_writer_finish(writer);
	data = read_whole(path, &size);
	assert_int_equal(size, 3 * CHUNK);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	free(data);
	free(path);
	scratch_remove(folder);
	return 0;
}

static bool boring(size_t cut)
{
	for (size_t i = cut < 16 ? 0 : cut - 16; i < cut + 16 && i < size; i++)
		if (data[i])
			return false;
	return cut % 61 != 0;
}

/* In `cut` bytes: the longest run of whole records of each log. */
static void check_cut(size_t cut, uint64_t *least)
{
	struct vramshim_trace *trace;
	struct vramshim_event event;
	uint64_t count = 0;
	/* Exactly as long as it says, so that a sanitizer sees each byte read beyond. */
	uint8_t *copy = malloc(cut);
	int r;

	memcpy(copy, data, cut);
	r = vramshim_trace_open_memory(copy, cut, &trace);
	if (cut < HEADER) {
		assert_int_equal(r, cut ? -EBADMSG : -ENODATA);
		free(copy);
		return;
	}
	assert_int_equal(r, 0);
	while (vramshim_trace_next(trace, &event) && event.sequence <= EVENTS) {
		assert_same_content(&event, &events[event.sequence - 1]);
		count++;
	}
	assert_true(count >= *least);
	assert_int_equal(vramshim_trace_info(trace)->damaged, 0);
	*least = count;
	for (uint32_t i = 1; i <= vramshim_trace_stack_count(trace); i++)
		assert_int_equal(vramshim_trace_stack(trace, i)->native[0], i);
	vramshim_trace_close(trace);
	free(copy);
}

static void test_cut_anywhere(void **state)
{
	uint64_t least = 0;

	(void)state;
	for (size_t cut = 0; cut <= size; cut++)
		if (cut <= HEADER || !boring(cut))
			check_cut(cut, &least);
	check_cut(size, &least);
	assert_int_equal(least, EVENTS);
}

static void test_cut_file(void **state)
{
	struct vramshim_trace *trace;

	(void)state;
	for (size_t cut = size; cut > HEADER; cut -= 4999 < cut ? 4999 : cut) {
		write_whole(path, data, cut);
		assert_int_equal(vramshim_trace_open(path, &trace), 0);
		assert_true(count_events(trace) <= EVENTS + 1);
		vramshim_trace_close(trace);
	}
}

/* A file that shrinks while it is read. */
static void test_shrinking_file(void **state)
{
	struct vramshim_trace *trace;

	(void)state;
	write_whole(path, data, size);
	assert_int_equal(vramshim_trace_open(path, &trace), 0);
	assert_int_equal(truncate(path, CHUNK + 100), 0);
	vramshim_trace_rewind(trace);
	assert_true(count_events(trace) < EVENTS);
	vramshim_trace_close(trace);
}

static void read_all(struct vramshim_trace *trace)
{
	struct vramshim_event event;
	uint64_t count = 0;
	size_t facts;

	while (vramshim_trace_next(trace, &event)) {
		struct vramshim_python_frame frame;

		vramshim_trace_string(trace, event.name);
		vramshim_trace_stack(trace, event.stack);
		vramshim_trace_code(trace, event.stack);
		vramshim_trace_python_frame(trace, event.stack, &frame);
		vramshim_trace_module(trace, event.address);
		count++;
	}
	assert_true(count <= size); /* an event takes more than a byte */
	vramshim_trace_facts(trace, &facts);
}

static void test_random_damage(void **state)
{
	uint64_t seed = 77, damaged = 0;
	uint8_t *copy = malloc(size);

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct vramshim_trace *trace;
		int flips = 1 + (int)random_below(&seed, 20);

		memcpy(copy, data, size);
		while (flips--) {
			/* Where there is something: after the header's constant part, or in the first kilobytes of a
			 * chunk. */
			size_t at = random_below(&seed, 3) * CHUNK + random_below(&seed, 3000);

			if (at < 3000)
				at += random_below(&seed, 3) ? HEADER : 40;
			copy[at] = random_below(&seed, 3) ? (uint8_t)random_below(&seed, 256) : 0xff;
		}
		if (vramshim_trace_open_memory(copy, size, &trace) < 0)
			continue;
		read_all(trace);
		damaged += vramshim_trace_info(trace)->damaged > 0;
		vramshim_trace_close(trace);
	}
	assert_true(damaged > 100); /* it was noticed */
	free(copy);
}

/* A broken record costs the rest of its chunk, in its own log only. */
static void test_damage_is_local(void **state)
{
	struct vramshim_trace *trace;
	struct vramshim_event event;
	uint8_t *copy = malloc(size);
	uint64_t counts[3] = {0}, sound[3] = {0};

	(void)state;
	memcpy(copy, data, size);
	memset(copy + CHUNK + 64 + 300, 0xff, 40);
	assert_int_equal(vramshim_trace_open_memory(data, size, &trace), 0);
	while (vramshim_trace_next(trace, &event) && event.sequence <= EVENTS)
		sound[event.thread]++;
	vramshim_trace_close(trace);
	assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), 0);
	while (vramshim_trace_next(trace, &event) && event.sequence <= EVENTS)
		counts[event.thread < 3 ? event.thread : 0]++;
	assert_int_equal(vramshim_trace_info(trace)->damaged, 1);
	vramshim_trace_close(trace);
	assert_int_equal(counts[0], 0);
	/* The chunk at CHUNK is of whichever log wrote first. */
	assert_true((counts[1] == sound[1] && counts[2] < sound[2]) ||
	            (counts[2] == sound[2] && counts[1] < sound[1]));
	free(copy);
}

/* Links that would lead round in a circle or into another log. */
static void test_false_links(void **state)
{
	struct vramshim_trace *trace;
	uint8_t *copy = malloc(size);
	const size_t next = 16; /* of struct vs_chunk_header */

	(void)state;
	for (uint32_t link = 0; link < 5; link++) {
		memcpy(copy, data, size);
		for (size_t chunk = 0; chunk < 3; chunk++)
			memcpy(copy + (chunk ? chunk * CHUNK : HEADER) + next, &link, sizeof(link));
		assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), 0);
		assert_int_equal(count_events(trace), EVENTS + 1);
		vramshim_trace_close(trace);
	}
	free(copy);
}

/* A few bytes a stack, each as long as can be: more memory than the file is worth. */
static void test_greedy_stacks(void **state)
{
	struct vramshim_trace *trace;
	uint64_t native[256] = {0};
	struct vs_writer *writer;
	char *other = scratch_path(folder, "greedy.vst");
	uint8_t *copy;
	size_t greedy;
	uint64_t entries = 0;

	(void)state;
	assert_int_equal(vs_writer_open(other, 0, &writer), 0);
	for (int i = 0; i < 30000; i++)
		vs_writer_stack(writer, &(struct vramshim_stack){.native = native, .native_count = 256});
	vs_writer_finish(writer);
	copy = read_whole(other, &greedy);
	assert_int_equal(vramshim_trace_open_memory(copy, greedy, &trace), 0);
	assert_int_equal(vramshim_trace_stack_count(trace), 30000); /* ids stay what they were */
	for (uint32_t i = 1; i <= 30000; i++)
		entries += vramshim_trace_stack(trace, i)->native_count;
	assert_true(entries * 8 <= (1 << 20) + 128 * greedy);
	assert_true(vramshim_trace_info(trace)->damaged > 0);
	vramshim_trace_close(trace);
	free(copy);
	free(other);
}

static void test_no_trace(void **state)
{
	static const uint8_t png[64] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
	struct vramshim_trace *trace = NULL;
	uint8_t *garbage = malloc(size);
	uint64_t seed = 4;
	char *other = scratch_path(folder, "other"), *missing = scratch_path(folder, "missing");

	(void)state;
	assert_int_equal(vramshim_trace_open(missing, &trace), -ENOENT);
	assert_int_equal(vramshim_trace_open(folder, &trace), -EBADMSG);
	assert_int_equal(vramshim_trace_open("/dev/zero", &trace), -EBADMSG);
	write_whole(other, "", 0);
	assert_int_equal(vramshim_trace_open(other, &trace), -ENODATA);
	/* Killed between making the file and storing its magic. */
	memset(garbage, 0, size);
	write_whole(other, garbage, size);
	assert_int_equal(vramshim_trace_open(other, &trace), -ENODATA);
	write_whole(other, png, sizeof(png));
	assert_int_equal(vramshim_trace_open(other, &trace), -EBADMSG);
	for (size_t i = 0; i < size; i++)
		garbage[i] = (uint8_t)random_below(&seed, 256);
	write_whole(other, garbage, size);
	assert_int_equal(vramshim_trace_open(other, &trace), -EBADMSG);
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(vramshim_trace_open(other, &trace), -EBADMSG); /* and does not wait */
	assert_int_equal(vramshim_trace_open_memory(NULL, 0, &trace), -ENODATA);
	/* Right at the start, garbage after. */
	memcpy(garbage, data, 128);
	if (vramshim_trace_open_memory(garbage, size, &trace) == 0) {
		read_all(trace);
		vramshim_trace_close(trace);
	}
	vramshim_trace_close(NULL);
	free(garbage);
	free(other);
	free(missing);
}

static void test_other_version(void **state)
{
	struct vramshim_trace *trace = NULL;
	uint8_t *copy = malloc(size);

	(void)state;
	memcpy(copy, data, size);
	copy[8]++;
	assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), -EPROTO);
	assert_int_equal(vramshim_trace_open_memory(copy, 100, &trace), -EPROTO); /* known even where it is cut */
	/* Version 1 is read: it has less. */
	copy[8] = 1;
	assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), 0);
	read_all(trace);
	vramshim_trace_close(trace);
	trace = NULL;
	copy[8] = 0;
	assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), -EPROTO);
	copy[8] = data[8];
	copy[0] ^= 1;
	assert_int_equal(vramshim_trace_open_memory(copy, size, &trace), -EBADMSG);
	assert_null(trace);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cut_anywhere),    cmocka_unit_test(test_cut_file),
	    cmocka_unit_test(test_shrinking_file),  cmocka_unit_test(test_random_damage),
	    cmocka_unit_test(test_damage_is_local), cmocka_unit_test(test_false_links),
	    cmocka_unit_test(test_greedy_stacks),   cmocka_unit_test(test_no_trace),
	    cmocka_unit_test(test_other_version),
	};

	return cmocka_run_group_tests(tests, make, clean);
}
