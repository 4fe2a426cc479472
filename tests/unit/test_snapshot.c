/* SPDX-License-Identifier: MIT
 *
 * Snapshots: every layout, and there and back again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "snapshot/pickle_write.h"
#include "snapshot/write.h"

struct made {
	char *data;
	size_t size;
	FILE *out;
	struct vs_pickle_writer w;
};

static void begin(struct made *m)
{
	m->out = open_memstream(&m->data, &m->size);
	assert_non_null(m->out);
	vs_pickle_begin(&m->w, m->out);
}

static void end(struct made *m)
{
	assert_int_equal(vs_pickle_end(&m->w), 0);
	fclose(m->out);
}

static void number(struct made *m, const char *key, uint64_t value)
{
	vs_pickle_text(&m->w, key);
	vs_pickle_number(&m->w, value);
}

static void text(struct made *m, const char *key, const char *value)
{
	vs_pickle_text(&m->w, key);
	vs_pickle_text(&m->w, value);
}

static void frames(struct made *m, const char *function)
{
	vs_pickle_text(&m->w, "frames");
	vs_pickle_list_begin(&m->w);
	vs_pickle_dict_begin(&m->w);
	text(m, "filename", "/job/train.py");
	text(m, "name", function);
	number(m, "line", 42);
	vs_pickle_dict_end(&m->w);
	vs_pickle_list_end(&m->w);
}

static struct vs_snapshot *parse(struct made *m)
{
	struct vs_snapshot_error error = {""};
	struct vs_snapshot *snapshot = NULL;
	int r = vs_snapshot_parse(m->data, m->size, &snapshot, &error);

	if (r < 0)
		fail_msg("%s", error.text);
	free(m->data);
	return snapshot;
}

static int refusal(struct made *m, char *ret_why)
{
	struct vs_snapshot_error error = {""};
	struct vs_snapshot *snapshot = NULL;
	int r = vs_snapshot_parse(m->data, m->size, &snapshot, &error);

	assert_null(snapshot);
	strcpy(ret_why, error.text);
	free(m->data);
	return r;
}

/* torch 1.13: the bare list, no addresses of blocks, history. */
static void layout_of_1_13(void **state)
{
	struct made m;

	(void)state;
	begin(&m);
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	number(&m, "device", 1);
	number(&m, "address", 0x7f0000000000);
	number(&m, "total_size", 2 << 20);
	text(&m, "segment_type", "small");
	vs_pickle_text(&m.w, "blocks");
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	number(&m, "size", 1024);
	text(&m, "state", "active_allocated");
	vs_pickle_text(&m.w, "history");
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	number(&m, "addr", 0x7f0000000000);
	number(&m, "real_size", 700);
	frames(&m, "forward");
	vs_pickle_dict_end(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_dict_end(&m.w);
	vs_pickle_dict_begin(&m.w);
	number(&m, "size", (2 << 20) - 1024);
	text(&m, "state", "inactive");
	vs_pickle_dict_end(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_dict_end(&m.w);
	vs_pickle_list_end(&m.w);
	end(&m);

	struct vs_snapshot *s = parse(&m);
	assert_int_equal(s->segment_count, 1);
	assert_int_equal(s->segments[0].device, 1);
	assert_false(s->segments[0].large);
	assert_int_equal(s->device_count, 2);
	assert_int_equal(s->block_count, 2);
	assert_int_equal(s->blocks[0].requested_size, 700);
	assert_int_equal(s->blocks[1].address, 0x7f0000000400);
	assert_int_equal(s->blocks[1].state, VS_SNAPSHOT_INACTIVE);
	assert_int_equal(s->stacks[s->blocks[0].stack].count, 1);
	assert_string_equal(s->frames[s->stacks[s->blocks[0].stack].frames[0]].function, "forward");
	assert_false(s->settings.present);
	vs_snapshot_free(s);
}

/* torch 2.15: pools in events, settings, device_free of a refusal, strangers that are skipped. */
static void layout_of_2_15(void **state)
{
	struct made m;

	(void)state;
	begin(&m);
	vs_pickle_dict_begin(&m.w);
	vs_pickle_text(&m.w, "segments");
	vs_pickle_list_begin(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_text(&m.w, "device_traces");
	vs_pickle_list_begin(&m.w);
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	text(&m, "action", "oom");
	number(&m, "device_free", 5000000000);
	number(&m, "size", 512);
	number(&m, "stream", 0x55aa55aa55aa);
	vs_pickle_text(&m.w, "pool_id");
	vs_pickle_number(&m.w, 0);
	vs_pickle_number(&m.w, 7);
	vs_pickle_pair(&m.w);
	text(&m, "user_metadata", "step 3");
	text(&m, "something_new", "later");
	frames(&m, "backward");
	vs_pickle_dict_end(&m.w);
	vs_pickle_dict_begin(&m.w);
	text(&m, "action", "an action of the future");
	vs_pickle_dict_end(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_list_begin(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_list_end(&m.w);
	vs_pickle_text(&m.w, "allocator_settings");
	vs_pickle_dict_begin(&m.w);
	text(&m, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
	vs_pickle_text(&m.w, "expandable_segments");
	vs_pickle_bool(&m.w, true);
	vs_pickle_text(&m.w, "max_split_size");
	vs_pickle_negative(&m.w, -1);
	vs_pickle_text(&m.w, "garbage_collection_threshold");
	vs_pickle_real(&m.w, 0.75);
	vs_pickle_text(&m.w, "roundup_power2_divisions");
	vs_pickle_dict_begin(&m.w);
	number(&m, "1", 2);
	number(&m, "32768", 8);
	vs_pickle_dict_end(&m.w);
	vs_pickle_dict_end(&m.w);
	vs_pickle_text(&m.w, "host_segments");
	vs_pickle_none(&m.w);
	vs_pickle_dict_end(&m.w);
	end(&m);

	struct vs_snapshot *s = parse(&m);
	assert_int_equal(s->device_count, 2);
	assert_int_equal(s->event_count, 2);
	assert_int_equal(s->events[0].action, VS_SNAPSHOT_OOM);
	assert_int_equal(s->events[0].address, 5000000000);
	assert_int_equal(s->events[0].stream, 0x55aa55aa55aa);
	assert_int_equal(s->events[0].pool.second, 7);
	assert_string_equal(s->events[0].user_metadata, "step 3");
	assert_int_equal(s->events[1].action, VS_SNAPSHOT_OTHER);
	assert_true(s->has_pools);
	assert_true(s->settings.expandable_segments);
	assert_true(s->settings.max_split_size == VS_SNAPSHOT_UNSET);
	assert_true(s->settings.garbage_collection_threshold == 0.75);
	assert_int_equal(s->settings.roundup_power2_divisions[0], 2);
	assert_int_equal(s->settings.roundup_power2_divisions[15], 8);
	vs_snapshot_free(s);
}

/* A list that is used twice would let a small file be read as a huge one. */
static void shared_lists_are_refused(void **state)
{
	char why[200];
	struct made m;

	(void)state;
	begin(&m);
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	number(&m, "address", 4096);
	vs_pickle_dict_end(&m.w);
	uint32_t memo = vs_pickle_remember(&m.w);
	vs_pickle_again(&m.w, memo);
	vs_pickle_list_end(&m.w);
	end(&m);
	assert_int_equal(refusal(&m, why), -EOVERFLOW);
	assert_non_null(strstr(why, "more than one place"));
}

static void wrong_things_are_refused(void **state)
{
	char why[200];
	struct made m;

	(void)state;
	begin(&m);
	vs_pickle_text(&m.w, "a text");
	end(&m);
	assert_int_equal(refusal(&m, why), -EBADMSG);
	assert_non_null(strstr(why, "no segments"));

	begin(&m);
	vs_pickle_list_begin(&m.w);
	vs_pickle_dict_begin(&m.w);
	text(&m, "address", "0x7f00");
	vs_pickle_dict_end(&m.w);
	vs_pickle_list_end(&m.w);
	end(&m);
	assert_int_equal(refusal(&m, why), -EBADMSG);
	assert_non_null(strstr(why, "'address'"));

	begin(&m);
	vs_pickle_list_begin(&m.w);
	vs_pickle_number(&m.w, 1);
	vs_pickle_list_end(&m.w);
	end(&m);
	assert_int_equal(refusal(&m, why), -EBADMSG);
}

static void *zip(const void *data, size_t size, size_t *ret_size)
{
	z_stream stream = {0};
	uint8_t *zipped = malloc(size + 1024);

	assert_non_null(zipped);
	assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (Bytef *)(uintptr_t)data;
	stream.avail_in = (uInt)size;
	stream.next_out = zipped;
	stream.avail_out = (uInt)size + 1024;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	*ret_size = stream.total_out;
	deflateEnd(&stream);
	return zipped;
}

static void gzip(void **state)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *s = NULL;
	struct made m;
	size_t size;

	(void)state;
	begin(&m);
	vs_pickle_list_begin(&m.w);
	vs_pickle_list_end(&m.w);
	end(&m);
	void *zipped = zip(m.data, m.size, &size);
	assert_int_equal(vs_snapshot_parse(zipped, size, &s, &error), 0);
	vs_snapshot_free(s);
	s = NULL;
	for (size_t cut = 2; cut < size; cut++) {
		assert_int_equal(vs_snapshot_parse(zipped, cut, &s, &error), -EBADMSG);
		assert_null(s);
	}
	free(zipped);
	free(m.data);

	/* 64 MiB of zeros in 64 KiB: a bomb. */
	void *zeros = calloc(1, 64 << 20);
	zipped = zip(zeros, 64 << 20, &size);
	assert_int_equal(vs_snapshot_parse(zipped, size, &s, &error), -EOVERFLOW);
	assert_null(s);
	free(zipped);
	free(zeros);
}

static void files(void **state)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *s = NULL;
	char path[] = "/tmp/test_snapshot.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(vs_snapshot_load("/nonexistent/x", &s, &error), -ENOENT);
	assert_int_equal(vs_snapshot_load("/", &s, &error), -EISDIR);
	assert_int_equal(vs_snapshot_load(path, &s, &error), -EBADMSG);
	assert_string_equal(error.text, "an empty file");
	assert_false(vs_snapshot_probe(path));
	assert_int_equal(write(fd, "\x80\x02].", 4), 4);
	assert_true(vs_snapshot_probe(path));
	assert_int_equal(vs_snapshot_load(path, &s, &error), 0);
	assert_int_equal(s->segment_count, 0);
	vs_snapshot_free(s);
	close(fd);
	unlink(path);
}

static void same(const struct vs_snapshot *a, const struct vs_snapshot *b)
{
	assert_int_equal(a->segment_count, b->segment_count);
	assert_int_equal(a->block_count, b->block_count);
	for (size_t i = 0; i < a->segment_count; i++) {
		const struct vs_snapshot_segment *x = &a->segments[i], *y = &b->segments[i];

		assert_true(x->address == y->address && x->total_size == y->total_size && x->stream == y->stream &&
		            x->large == y->large && x->expandable == y->expandable &&
		            x->block_count == y->block_count && x->pool.second == y->pool.second);
		for (size_t j = 0; j < x->block_count; j++) {
			const struct vs_snapshot_block *p = &a->blocks[x->first_block + j];
			const struct vs_snapshot_block *q = &b->blocks[y->first_block + j];

			assert_true(p->address == q->address && p->size == q->size &&
			            p->requested_size == q->requested_size && p->state == q->state);
			assert_int_equal(a->stacks[p->stack].count, b->stacks[q->stack].count);
		}
	}
	assert_int_equal(a->event_count, b->event_count);
	for (size_t i = 0; i < a->event_count; i++) {
		const struct vs_snapshot_event *x = &a->events[i], *y = &b->events[i];
		const struct vs_snapshot_stack *p = &a->stacks[x->stack], *q = &b->stacks[y->stack];

		assert_true(x->action == y->action && x->address == y->address && x->size == y->size &&
		            x->stream == y->stream && x->time_us == y->time_us);
		assert_int_equal(p->count, q->count);
		for (uint32_t j = 0; j < p->count; j++) {
			assert_string_equal(a->frames[p->frames[j]].file, b->frames[q->frames[j]].file);
			assert_string_equal(a->frames[p->frames[j]].function, b->frames[q->frames[j]].function);
			assert_int_equal(a->frames[p->frames[j]].line, b->frames[q->frames[j]].line);
		}
	}
}

/* What data/README.md says of each file: segments, reserved, allocated, alloc events. */
static const struct {
	const char *name;
	size_t segments;
	uint64_t reserved, allocated;
	size_t allocs;
} published[] = {
    {"gpt-2.7b-fp32-seq128-step", 1010, 61111009280, 54873829888, 6771},
    {"gpt-2.7b-bf16amp-seq256-forward", 827, 28848422912, 28387884032, 2702},
    {"qlora-llama-torch2.2-era", 215, 6471811072, 2297283072, 3505},
    {"transformer-bf16-seq128-forward", 43, 861929472, 525286400, 937},
    {"opt-inference-segments-only", 176, 11844714496, 11840159744, 0},
};

static void published_snapshots(void **state)
{
	const char *folder = getenv("VS_SHARED");
	char path[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		struct vs_snapshot_error error;
		struct vs_snapshot *s, *back;
		uint64_t reserved = 0, allocated = 0;
		size_t allocs = 0;
		struct made m;

		snprintf(path, sizeof(path), "%s/data/snapshots/%s.pickle.gz", folder ? folder : "../shared",
		         published[i].name);
		if (access(path, R_OK) < 0) {
			print_message("%s is absent: skipped\n", path);
			skip();
		}
		assert_int_equal(vs_snapshot_load(path, &s, &error), 0);
		for (size_t j = 0; j < s->segment_count; j++)
			reserved += s->segments[j].total_size;
		for (size_t j = 0; j < s->block_count; j++)
			allocated += s->blocks[j].state == VS_SNAPSHOT_ALLOCATED ? s->blocks[j].size : 0;
		for (size_t j = 0; j < s->event_count; j++)
			allocs += s->events[j].action == VS_SNAPSHOT_ALLOC;
		assert_int_equal(s->segment_count, published[i].segments);
		assert_int_equal(reserved, published[i].reserved);
		assert_int_equal(allocated, published[i].allocated);
		assert_int_equal(allocs, published[i].allocs);

		m.out = open_memstream(&m.data, &m.size);
		assert_int_equal(vs_snapshot_write(s, m.out), 0);
		fclose(m.out);
		back = parse(&m);
		same(s, back);
		vs_snapshot_free(back);
		vs_snapshot_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layout_of_1_13),
	    cmocka_unit_test(layout_of_2_15),
	    cmocka_unit_test(shared_lists_are_refused),
	    cmocka_unit_test(wrong_things_are_refused),
	    cmocka_unit_test(gzip),
	    cmocka_unit_test(files),
	    cmocka_unit_test(published_snapshots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
