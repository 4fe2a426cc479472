/* SPDX-License-Identifier: MIT
 *
 * vramreport extrapolate: from a few small runs of a job, what a larger batch or a longer sequence will take.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/message.h"
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"
#include "estimate/estimate.h"
#include "estimate/option.h"
#include "model/extrapolate.h"
#include "model/gpu.h"
#include "subject.h"

static const char usage[] =
    "usage: vramreport extrapolate RUN@BATCHxSEQ RUN@BATCHxSEQ [RUN@BATCHxSEQ...] --batch B --seq S [--json]\n"
    "Two or three small runs of one job, at different batch sizes and sequence lengths, predict a larger one: every\n"
    "block's size is followed over the runs, and the largest run is played again with the new sizes.\n"
    "  RUN@2x512          the run's batch and sequence; without them they are read from its command line\n"
    "                     (--batch, --batch-size, --seq, --seq-len, --max-length, ...)\n"
    "  --batch B --seq S  what to predict\n"
    "  --gpu NAME         does that fit this card\n"
    "  --json             one JSON object\n"
    "Exit status: 0 predicted (and fits), 1 it does not fit, or the runs cannot support an answer, 2 bad usage or "
    "input.\n";

/* Beyond any run that is meant to be small. */
#define EVENTS_MAX (32u << 20)

struct recording {
	struct vs_series series;
	struct vs_series_event *events;
	struct vs_subjects subjects;
	bool open;
	char path[4096];
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	/* splitmix64's finalizer over both: keys must not collide by accident, nobody attacks them. */
	hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
	hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
	return hash ^ hash >> 31;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return mix(hash, 1);
}

/* Where in the program: Python frames by function and instruction, else native ones by file and offset. Addresses
 * differ from run to run, places do not. */
static uint64_t key_of(const struct vramshim_trace *trace, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);
	uint64_t hash = 7;

	if (!stack)
		return 0;
	for (uint32_t i = 0; i < stack->python_count; i++) {
		struct vramshim_python_frame frame;
		const struct vramshim_code *code;

		if (!vramshim_trace_python_frame(trace, stack->python[i], &frame))
			continue;
		code = vramshim_trace_code(trace, frame.code);
		hash = mix_text(hash, code ? code->function : "");
		hash = mix(hash, (uint64_t)frame.instruction);
	}
	for (uint32_t i = 0; i < stack->native_count && !stack->python_count; i++) {
		const struct vramshim_module *module = vramshim_trace_module(trace, stack->native[i]);

		hash = mix(hash, module ? stack->native[i] - module->base : 0);
	}
	return hash;
}

struct live {
	uint64_t address;
	size_t event;
};

/* Open addressing by block address. */
struct live_map {
	struct live *slots;
	size_t room, used;
};

static struct live *slot_of(const struct live_map *m, uint64_t address)
{
	size_t i = mix(3, address) & (m->room - 1);

	while (m->slots[i].address && m->slots[i].address != address)
		i = (i + 1) & (m->room - 1);
	return &m->slots[i];
}

static int put_live(struct live_map *m, uint64_t address, size_t event)
{
	struct live *slot;

	if (m->used * 2 >= m->room) {
		struct live_map bigger = {.room = m->room ? m->room * 2 : 4096};

		bigger.slots = calloc(bigger.room, sizeof(*bigger.slots));
		if (!bigger.slots)
			return -ENOMEM;
		for (size_t i = 0; i < m->room; i++) {
			if (m->slots[i].address) {
				*slot_of(&bigger, m->slots[i].address) = m->slots[i];
				bigger.used++;
			}
		}
		free(m->slots);
		*m = bigger;
	}
	slot = slot_of(m, address);
	m->used += !slot->address;
	*slot = (struct live){address, event};
	return 0;
}

static int append(struct recording *r, size_t *room, struct vs_series_event event)
{
	if (r->series.count == *room) {
		size_t more = *room ? *room * 2 : 4096;
		void *bigger = more > EVENTS_MAX ? NULL : realloc(r->events, more * sizeof(*r->events));

		if (!bigger)
			return -ENOMEM;
		r->events = bigger;
		*room = more;
	}
	r->events[r->series.count++] = event;
	return 0;
}

/* PyTorch's allocations and frees on one device, in order. `keys` caches what a stack hashes to. */
static int read_events(struct recording *r, struct vramshim_trace *trace, int device, uint64_t *keys)
{
	struct live_map map = {0};
	struct vramshim_event e;
	size_t room = 0;
	int error = 0;

	vramshim_trace_rewind(trace);
	while (!error && vramshim_trace_next(trace, &e) == 1) {
		if (e.device != device || !e.address || !e.size)
			continue;
		if (e.type == VRAMSHIM_TORCH_ALLOC) {
			uint64_t key = 0;

			if (e.stack && e.stack <= vramshim_trace_stack_count(trace)) {
				if (!keys[e.stack])
					keys[e.stack] = key_of(trace, e.stack);
				key = keys[e.stack];
			}
			error = put_live(&map, e.address, r->series.count);
			if (!error)
				error = append(
				    r, &room,
				    (struct vs_series_event){.key = key, .size = e.size, .category = VS_TAG_UNKNOWN});
		} else if (e.type == VRAMSHIM_TORCH_FREE && map.room) {
			struct live *slot = slot_of(&map, e.address);

			/* The slot stays, for the probing; a later block there takes it over. */
			if (slot->address && slot->event != SIZE_MAX) {
				error = append(r, &room, (struct vs_series_event){.freed = slot->event});
				slot->event = SIZE_MAX;
			}
		}
	}
	free(map.slots);
	r->series.events = r->events;
	return error;
}

static int sequence_order(const void *a, const void *b)
{
	const struct vs_block *x = a, *y = b;

	return (x->allocated_at > y->allocated_at) - (x->allocated_at < y->allocated_at);
}

/* Blocks alive at the measured peak have a tag; others made by Python code are activations, the rest temporaries. */
static void categorise(struct recording *r, struct vramshim_trace *trace, const struct vs_device_summary *d)
{
	struct vs_block *blocks = malloc((d->block_count + 1) * sizeof(*blocks));
	struct vramshim_event e;
	size_t next = 0, event = 0;

	if (!blocks)
		return;
	memcpy(blocks, d->blocks, d->block_count * sizeof(*blocks));
	qsort(blocks, d->block_count, sizeof(*blocks), sequence_order);
	vramshim_trace_rewind(trace);
	while (event < r->series.count && vramshim_trace_next(trace, &e) == 1) {
		const struct vramshim_stack *stack;

		if (e.device != d->index || !e.address || !e.size)
			continue;
		if (e.type != VRAMSHIM_TORCH_ALLOC && e.type != VRAMSHIM_TORCH_FREE)
			continue;
		if (e.type == VRAMSHIM_TORCH_FREE) {
			event += !r->events[event].size;
			continue;
		}
		while (next < d->block_count && blocks[next].allocated_at < e.sequence)
			next++;
		stack = vramshim_trace_stack(trace, e.stack);
		if (next < d->block_count && blocks[next].allocated_at == e.sequence)
			r->events[event].category = blocks[next].tag;
		else
			r->events[event].category =
			    stack && stack->python_count ? VS_TAG_ACTIVATIONS : VS_TAG_TEMPORARIES;
		event++;
	}
	free(blocks);
}

static bool names(const char *flag, const char *const *words, size_t count, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(words[i]) == length && !strncmp(flag, words[i], length))
			return true;
	}
	return false;
}

/* Batch and sequence from the recorded command line. */
static void sizes_from_command(struct recording *r, const struct vramshim_trace *trace)
{
	static const char *const batches[] = {
	    "--batch", "--batch-size", "--batch_size", "--micro-batch-size", "--per_device_train_batch_size", "-b"};
	static const char *const seqs[] = {
	    "--seq",        "--seq-len",    "--seq_len",    "--seq-length", "--seq_length",
	    "--max-length", "--max_length", "--block-size", "--block_size", "-s"};

	for (unsigned i = 0; i < 4096; i++) {
		char key[32];
		const char *flag, *value;
		size_t length;
		uint64_t number;

		snprintf(key, sizeof(key), "command:%u", i);
		flag = vramshim_trace_fact(trace, key);
		if (!flag)
			return;
		length = strcspn(flag, "=");
		snprintf(key, sizeof(key), "command:%u", i + 1);
		value = flag[length] ? flag + length + 1 : vramshim_trace_fact(trace, key);
		if (!value || vs_count_parse(value, &number) || !number)
			continue;
		if (names(flag, batches, sizeof(batches) / sizeof(batches[0]), length))
			r->series.batch = number;
		if (names(flag, seqs, sizeof(seqs) / sizeof(seqs[0]), length))
			r->series.seq = number;
	}
}

static int parse_operand(const char *text, struct recording *r)
{
	const char *at = strrchr(text, '@'), *x = at ? strchr(at, 'x') : NULL;
	char batch[32];

	snprintf(r->path, sizeof(r->path), "%.*s", at ? (int)(at - text) : (int)sizeof(r->path) - 1, text);
	if (!at)
		return 0;
	if (!x || (size_t)(x - at) > sizeof(batch)) {
		vs_complain("bad sizes of a run: %s: write RUN@BATCHxSEQ, such as run1@2x512", text);
		return -EINVAL;
	}
	snprintf(batch, sizeof(batch), "%.*s", (int)(x - at - 1), at + 1);
	if (vs_count_parse(batch, &r->series.batch) || vs_count_parse(x + 1, &r->series.seq) || !r->series.batch ||
	    !r->series.seq || r->series.batch > 1 << 24 || r->series.seq > 1 << 28) {
		vs_complain("bad sizes of a run: %s: write RUN@BATCHxSEQ, such as run1@2x512", text);
		return -EINVAL;
	}
	return 0;
}

static int open_recording(const char *text, struct recording *r)
{
	const struct vs_analyse_options analysis = {.blocks_at = VS_BLOCKS_PEAK};
	const struct vs_device_summary *device;
	const struct vs_subject *subject = NULL;
	struct vramshim_trace *trace;
	uint64_t *keys;
	int error = parse_operand(text, r);

	if (error)
		return error;
	if (vs_subjects_open(r->path, &analysis, &r->subjects) < 0)
		return -EINVAL;
	r->open = true;
	device = vs_subjects_worst(&r->subjects, &subject);
	if (!device) {
		vs_complain("no GPU memory was used: %s: record a run that trains", r->path);
		return -ENODATA;
	}
	trace = subject->process->trace;
	if (!r->series.batch)
		sizes_from_command(r, trace);
	if (!r->series.batch || !r->series.seq) {
		vs_complain("unknown batch and sequence: %s: write them, RUN@BATCHxSEQ", r->path);
		return -EINVAL;
	}
	if (vramshim_trace_info(trace)->lost) {
		vs_complain("events were lost: %s: record it again with a larger --max-size", r->path);
		return -ENODATA;
	}
	keys = calloc((size_t)vramshim_trace_stack_count(trace) + 1, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	error = read_events(r, trace, device->index, keys);
	free(keys);
	if (error)
		vs_complain("cannot read the run: %s: %s", r->path, strerror(-error));
	else
		categorise(r, trace, device);
	return error;
}

struct answer {
	struct vs_extrapolation e;
	uint64_t batch, seq;
	struct vs_gpu_memory gpu;
	bool with_gpu, fits;
	double error; /* expected, a share of the peak */
};

static void print_text(const struct answer *a)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT};
	struct vs_screen screen = vs_screen_on(stdout);
	struct vs_table *table = vs_table_new("at the peak,predicted,fixed,batch x seq,batch x seq^2,other", kinds);
	char text[VS_SIZE_MAX];

	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		const uint64_t *live = a->e.live[tag];
		uint64_t other = live[VS_GROWTH_SEQUENCE] + live[VS_GROWTH_SQUARE] + live[VS_GROWTH_BATCH];
		uint64_t parts[] = {live[VS_GROWTH_FIXED] + live[VS_GROWTH_TOKENS] + live[VS_GROWTH_SCORES] + other,
		                    live[VS_GROWTH_FIXED], live[VS_GROWTH_TOKENS], live[VS_GROWTH_SCORES], other};

		if (!parts[0])
			continue;
		vs_table_cell(table, vs_tag_name(tag));
		for (int i = 0; i < 5; i++)
			vs_table_cell(table, parts[i] ? vs_size_format(parts[i], text) : "-");
	}
	printf("Batch %llu, sequence %llu: %s allocated at the peak", (unsigned long long)a->batch,
	       (unsigned long long)a->seq, vs_size_format(a->e.peak, text));
	printf(" (largest run: %s), expected error %.1f %%\n", vs_size_format(a->e.measured, text), 100 * a->error);
	vs_table_print(table, &screen, 2);
	printf("  %.2f %% of the largest run's allocations were found in every run", 100 * a->e.matched);
	if (a->e.unsure)
		printf("; the growth of %s is not settled by these runs", vs_size_format(a->e.unsure, text));
	putchar('\n');
	if (a->with_gpu)
		printf("  %s %s (%s, context %.0f MiB assumed)\n", a->fits ? "It fits" : "It does not fit",
		       a->gpu.name, vs_size_format(a->gpu.total, text), (double)a->gpu.context / (1 << 20));
}

static void print_json(const struct answer *a)
{
	json_t *rows = json_array(), *root;

	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		const uint64_t *live = a->e.live[tag];
		uint64_t other = live[VS_GROWTH_SEQUENCE] + live[VS_GROWTH_SQUARE] + live[VS_GROWTH_BATCH];
		uint64_t sum = live[VS_GROWTH_FIXED] + live[VS_GROWTH_TOKENS] + live[VS_GROWTH_SCORES] + other;

		if (sum)
			json_array_append_new(rows, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "category",
			                                      vs_tag_name(tag), "predicted_bytes", (json_int_t)sum,
			                                      "fixed_bytes", (json_int_t)live[VS_GROWTH_FIXED],
			                                      "linear_bytes", (json_int_t)live[VS_GROWTH_TOKENS],
			                                      "quadratic_bytes", (json_int_t)live[VS_GROWTH_SCORES],
			                                      "other_bytes", (json_int_t)other));
	}
	root = json_pack("{s:s, s:I, s:I, s:o, s:{s:I, s:I}, s:f, s:f, s:I, s:o}", "schema", "vramshim/extrapolate/1",
	                 "batch", (json_int_t)a->batch, "seq", (json_int_t)a->seq, "rows", rows, "peak",
	                 "predicted_bytes", (json_int_t)a->e.peak, "largest_run_bytes", (json_int_t)a->e.measured,
	                 "expected_error", a->error, "matched", a->e.matched, "unsure_bytes", (json_int_t)a->e.unsure,
	                 "fits", a->with_gpu ? json_boolean(a->fits) : json_null());
	json_dumpf(root, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(root);
}

static int extrapolate(const struct recording *recordings, size_t count, struct answer *a, bool json)
{
	struct vs_series runs[VS_SERIES_MAX];
	const char *why = "";
	int error;

	for (size_t i = 0; i < count; i++)
		runs[i] = recordings[i].series;
	error = vs_extrapolate(runs, count, a->batch, a->seq, &a->e, &why);
	if (error == -ENODATA || error == -ESRCH) {
		vs_complain("the runs cannot support an answer: extrapolate: %s", why);
		return VS_ANSWER_NO;
	}
	if (error) {
		vs_complain("cannot extrapolate: extrapolate: %s", strerror(-error));
		return VS_ANSWER_NONE;
	}
	a->error = a->e.peak ? (double)(a->e.residual + a->e.unsure) / (double)a->e.peak : 0;
	a->fits = !a->with_gpu || a->e.peak + a->gpu.context <= a->gpu.total;
	if (json)
		print_json(a);
	else
		print_text(a);
	return a->fits ? VS_ANSWER_YES : VS_ANSWER_NO;
}

int vs_extrapolate_main(int argc, char **argv)
{
	struct recording *recordings;
	const char *operands[VS_SERIES_MAX], *gpu = NULL;
	struct answer a = {0};
	bool json = false;
	struct vs_option options[] = {
	    {"--batch", VS_OPTION_COUNT, &a.batch, 1 << 24},
	    {"--seq", VS_OPTION_COUNT, &a.seq, 1 << 28},
	    {"--gpu", VS_OPTION_TEXT, &gpu},
	    {"--json", VS_OPTION_FLAG, &json},
	};
	int found = vs_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), operands,
	                             VS_SERIES_MAX, usage);
	int status = VS_ANSWER_NONE;

	if (found < 0)
		return found == -ECANCELED ? VS_ANSWER_YES : VS_ANSWER_NONE;
	if (found < 2 || !a.batch || !a.seq) {
		vs_complain("too little to go on: extrapolate: give two runs or more, --batch and --seq, see --help");
		return VS_ANSWER_NONE;
	}
	if (gpu && vs_gpu_memory_find(gpu, &a.gpu)) {
		vs_complain("unknown GPU: %s: see vramrun --list-gpus", gpu);
		return VS_ANSWER_NONE;
	}
	a.with_gpu = gpu != NULL;
	recordings = calloc((size_t)found, sizeof(*recordings));
	if (!recordings)
		return VS_ANSWER_NONE;
	for (int i = 0; i < found; i++) {
		if (open_recording(operands[i], &recordings[i]))
			goto out;
	}
	status = extrapolate(recordings, (size_t)found, &a, json);
out:
	for (int i = 0; i < found; i++) {
		if (recordings[i].open)
			vs_subjects_close(&recordings[i].subjects);
		free(recordings[i].events);
	}
	free(recordings);
	return status;
}
