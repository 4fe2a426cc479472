/* SPDX-License-Identifier: MIT */
#include "import.h"
#include "import_shapes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caching/from_snapshot.h"
#include "caching/initial.h"
#include "common/message.h"
#include "symbol/merge.h"
#include "symbol/readable.h"
#include "trace/writer.h"

/* The largest file that a conversion may make. */
#define MAX_TRACE (UINT64_C(64) << 30)

struct importer {
	const struct vs_snapshot *snapshot;
	struct vs_writer *writer;
	bool started;                  /* what follows happened while PyTorch recorded */
	struct vs_log *log, *backward; /* of the main thread, and of who was not started by Python */
	uint32_t main_thread;
	uint32_t *frames, *stacks; /* the writer's ids, by index; stacks twice: as they are, and of rows in the shapes
	                            * of others; 0: not written yet */
	uint32_t shapes_frame;     /* ... and what tells these apart */
	bool shaped;               /* the event at hand is of such a row */
	bool *foreign;             /* of a stack: its thread was not started by Python */
	bool starts;               /* stacks go back to where Python starts */
	bool operators;            /* native frames tell them */
	bool frees_tell;           /* stacks of frees are of who freed, not of who had allocated */
};

static uint32_t text(struct importer *im, const char *string)
{
	return *string ? vs_writer_string(im->writer, string, strlen(string)) : 0;
}

static bool is_python(const struct vs_snapshot_frame *frame)
{
	size_t size = strlen(frame->file);

	return (size > 3 && !strcmp(frame->file + size - 3, ".py")) || frame->file[0] == '<';
}

/* Where the stacks of Python's own threads begin. */
static bool is_start(const struct vs_snapshot_frame *frame)
{
	static const char *const functions[] = {"<module>", "_bootstrap", "_run_module_as_main"};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(frame->function, functions[i]))
			return true;
	return false;
}

/* The outermost frame of Python's; NULL: there is none. */
static const struct vs_snapshot_frame *outermost(const struct vs_snapshot *snapshot,
                                                 const struct vs_snapshot_stack *stack)
{
	uint32_t count = stack->count;

	while (count && !is_python(&snapshot->frames[stack->frames[count - 1]]))
		count--;
	return count ? &snapshot->frames[stack->frames[count - 1]] : NULL;
}

/* C++ threads, which a backward runs on, have no frames of Python's, or those that C++ called: hooks, backwards and
 * operators written in Python. */
static bool is_foreign(const struct importer *im, const struct vs_snapshot_stack *stack)
{
	const struct vs_snapshot_frame *frame = outermost(im->snapshot, stack);

	return !frame || (im->starts && !is_start(frame));
}

static uint32_t import_frame(struct importer *im, uint32_t index)
{
	const struct vs_snapshot_frame *frame = &im->snapshot->frames[index];

	if (!im->frames[index]) {
		bool python = is_python(frame);
		char *name = python ? NULL : vs_readable_demangled(frame->function);
		uint32_t file = python ? text(im, frame->file) : 0;
		uint32_t line = frame->line > UINT32_MAX ? 0 : (uint32_t)frame->line;
		uint32_t code =
		    vs_writer_code(im->writer, file, text(im, name ? name : frame->function), line, NULL, 0);

		im->frames[index] = vs_writer_python_frame(im->writer, code, -1);
		free(name);
	}
	return im->frames[index];
}

/* The unwinder at work, and the interpreter's own machinery, whose Python frames stand beside it. */
static bool is_machinery(const struct vs_snapshot_frame *frame)
{
	static const char *const unwinder[] = {
	    "torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::(anonymous namespace)::gather"};
	enum vs_native_role role;

	if (is_python(frame))
		return false;
	for (size_t i = 0; i < sizeof(unwinder) / sizeof(unwinder[0]); i++) {
		if (!strncmp(frame->function, unwinder[i], strlen(unwinder[i])))
			return true;
	}
	role = vs_native_role(frame->function, "");
	return role == VS_NATIVE_INTERPRETER || role == VS_NATIVE_EVALUATION;
}

/* The frame that tells of rows in the shapes of other tensors. */
static uint32_t shapes_frame(struct importer *im)
{
	if (!im->shapes_frame)
		im->shapes_frame = vs_writer_python_frame(
		    im->writer,
		    vs_writer_code(im->writer, text(im, VS_SHAPES_FILE), text(im, VS_SHAPES_FRAME), 0, NULL, 0), -1);
	return im->shapes_frame;
}

static uint32_t import_stack(struct importer *im, uint32_t index, bool shaped)
{
	const struct vs_snapshot_stack *stack = &im->snapshot->stacks[index];
	uint32_t *known = &im->stacks[2 * (size_t)index + shaped];
	struct vramshim_stack out = {0};
	uint32_t *python;

	if (!index || *known)
		return index ? *known : 0;
	python = calloc(stack->count + 1U, sizeof(*python));
	if (!python)
		return 0;
	if (shaped)
		python[out.python_count++] = shapes_frame(im);
	for (uint32_t i = 0; i < stack->count; i++)
		if (!is_machinery(&im->snapshot->frames[stack->frames[i]]))
			python[out.python_count++] = import_frame(im, stack->frames[i]);
	out.python = python;
	im->foreign[index] = is_foreign(im, stack);
	*known = vs_writer_stack(im->writer, &out);
	free(python);
	return *known;
}

/* One device's replay, for the sizes of blocks and the running totals. */
struct device {
	struct vs_snapshot_recording recording;
	struct vs_map live; /* address -> size */
	uint64_t allocated, reserved;
};

static void append(struct importer *im, const struct vramshim_event *event, uint32_t stack)
{
	struct vramshim_event out = *event;
	bool elsewhere;

	out.stack = import_stack(im, stack, im->shaped);
	elsewhere = im->started && (!stack || im->foreign[stack]) &&
	            (out.type == VRAMSHIM_TORCH_ALLOC || (out.type == VRAMSHIM_TORCH_FREE && im->frees_tell));
	out.thread = im->main_thread + elsewhere;
	vs_log_append(elsewhere ? im->backward : im->log, &out);
}

static int on_alloc(struct importer *im, struct device *d, int device, uint64_t address, uint64_t size,
                    uint32_t stack)
{
	d->allocated += size;
	append(im,
	       &(struct vramshim_event){.type = VRAMSHIM_TORCH_ALLOC,
	                                .device = (int16_t)device,
	                                .address = address,
	                                .size = size,
	                                .allocated = d->allocated,
	                                .reserved = d->reserved},
	       stack);
	return vs_map_set(&d->live, address, size);
}

static void on_free(struct importer *im, struct device *d, int device, uint64_t address, uint32_t stack)
{
	uint64_t size;

	if (!vs_map_take(&d->live, address, &size))
		return;
	d->allocated -= size;
	append(im,
	       &(struct vramshim_event){.type = VRAMSHIM_TORCH_FREE,
	                                .device = (int16_t)device,
	                                .address = address,
	                                .size = size,
	                                .allocated = d->allocated,
	                                .reserved = d->reserved},
	       stack);
}

static void on_segment(struct importer *im, struct device *d, int device, const struct vs_replay_event *event,
                       uint32_t stack)
{
	bool taken = event->kind == VS_REPLAY_SEGMENT_ALLOC || event->kind == VS_REPLAY_SEGMENT_MAP;
	bool mapped = event->kind == VS_REPLAY_SEGMENT_MAP || event->kind == VS_REPLAY_SEGMENT_UNMAP;
	struct vramshim_event out = {.type = taken ? VRAMSHIM_CUDA_ALLOC : VRAMSHIM_CUDA_FREE,
	                             .memory = VRAMSHIM_MEMORY_DEVICE,
	                             .device = (int16_t)device,
	                             .address = event->address,
	                             .size = event->size};

	d->reserved = taken ? d->reserved + event->size : d->reserved - event->size;
	append(im, &out, stack);
	if (!mapped)
		return;
	out.memory = VRAMSHIM_MEMORY_MAPPED; /* device bytes above, the segment here */
	append(im, &out, stack);
}

/* The segment of the device that holds an address, or NULL: they are by device, then address. */
static const struct vs_snapshot_segment *final_segment(const struct vs_snapshot *snapshot, int32_t device,
                                                       uint64_t address)
{
	size_t low = 0, high = snapshot->segment_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct vs_snapshot_segment *segment = &snapshot->segments[middle];

		if (segment->device < device || (segment->device == device && segment->address <= address))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || snapshot->segments[low - 1].device != device ||
	    address - snapshot->segments[low - 1].address >= snapshot->segments[low - 1].total_size)
		return NULL;
	return &snapshot->segments[low - 1];
}

/* The stack of a block that lives at the end; the only trace of who made it. */
static uint32_t final_stack(const struct vs_snapshot *snapshot, int32_t device, uint64_t address)
{
	const struct vs_snapshot_segment *segment = final_segment(snapshot, device, address);
	size_t low = 0, high = segment ? segment->block_count : 0;

	while (low < high) { /* the first that does not begin before */
		size_t middle = low + (high - low) / 2;

		if (snapshot->blocks[segment->first_block + middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!segment || low == segment->block_count ||
	    snapshot->blocks[segment->first_block + low].address != address)
		return 0;
	return snapshot->blocks[segment->first_block + low].stack;
}

/* Who made a block that was there before the first event. Freed later: PyTorch tells with the free who had made it,
 * unless it tells who freed. */
static uint32_t start_stack(const struct importer *im, const struct vs_map *ended, int device, uint64_t address)
{
	uint64_t source;

	if (!vs_map_get(ended, address, &source))
		return final_stack(im->snapshot, device, address);
	return im->frees_tell ? 0 : im->snapshot->events[source].stack;
}

static void start_segment(struct importer *im, struct device *d, int device, const struct vs_initial *initial,
                          size_t i)
{
	struct vs_replay_event event = {
	    .kind = VS_REPLAY_SEGMENT_ALLOC, .address = initial->about[i].address, .size = initial->about[i].size};

	for (size_t j = 0; initial->about[i].expandable && j < initial->segments[i].piece_count; j++) {
		const struct vs_caching_piece *piece = &initial->segments[i].pieces[j];

		event = (struct vs_replay_event){
		    .kind = VS_REPLAY_SEGMENT_MAP, .address = piece->address, .size = piece->size};
		if (piece->state != VS_PIECE_UNMAPPED)
			on_segment(im, d, device, &event, 0);
	}
	if (!initial->about[i].expandable)
		on_segment(im, d, device, &event, 0);
}

/* Blocks of which nothing is known come before those whose stacks tell of a forward or an optimizer: they are older,
 * or they would seem to be of that phase. */
static int start_blocks(struct importer *im, struct device *d, int device, const struct vs_initial *initial,
                        const struct vs_map *ended, bool with_stack)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < initial->count; i++) {
		for (size_t j = 0; r == 0 && j < initial->segments[i].piece_count; j++) {
			const struct vs_caching_piece *piece = &initial->segments[i].pieces[j];
			uint32_t stack;

			if (piece->state != VS_PIECE_ALLOCATED)
				continue;
			stack = start_stack(im, ended, device, piece->address);
			if ((stack != 0) == with_stack)
				r = on_alloc(im, d, device, piece->address, piece->size, stack);
		}
	}
	return r;
}

static int import_start(struct importer *im, struct device *d, int device)
{
	struct vs_initial initial;
	struct vs_map ended = {0};
	int r = vs_initial_find(&d->recording.recording, &initial);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < d->recording.recording.event_count; i++) {
		const struct vs_replay_event *event = &d->recording.events[i];

		if (event->kind == VS_REPLAY_FREE && !vs_map_find(&ended, event->address))
			r = vs_map_set(&ended, event->address, d->recording.sources[i]);
	}
	for (size_t i = 0; i < initial.count; i++)
		start_segment(im, d, device, &initial, i);
	if (r == 0)
		r = start_blocks(im, d, device, &initial, &ended, false);
	if (r == 0)
		r = start_blocks(im, d, device, &initial, &ended, true);
	vs_map_done(&ended);
	vs_initial_done(&initial);
	return r;
}

static int import_event(struct importer *im, struct device *d, int device, size_t index, uint64_t block_size)
{
	const struct vs_replay_event *event = &d->recording.events[index];
	uint32_t stack = im->snapshot->events[d->recording.sources[index]].stack;

	switch (event->kind) {
	case VS_REPLAY_ALLOC:
		on_free(im, d, device, event->address, 0); /* of which nothing was recorded */
		return on_alloc(im, d, device, event->address, block_size ? block_size : event->size, stack);
	case VS_REPLAY_FREE:
		on_free(im, d, device, event->address, stack);
		return 0;
	case VS_REPLAY_OOM:
		if (event->address) /* free bytes of the card, as PyTorch was told just before */
			append(im,
			       &(struct vramshim_event){
			           .type = VRAMSHIM_MEMINFO, .device = (int16_t)device, .size = event->address},
			       0);
		append(im,
		       &(struct vramshim_event){.type = VRAMSHIM_TORCH_OOM,
		                                .device = (int16_t)device,
		                                .size = event->size,
		                                .allocated = d->allocated,
		                                .reserved = d->reserved},
		       stack);
		return 0;
	case VS_REPLAY_COMPLETE:
		return 0;
	default:
		on_segment(im, d, device, event, stack);
		return 0;
	}
}

static int import_device(struct importer *im, int device)
{
	struct device d = {0};
	struct vs_replay_exactness exactness;
	unsigned char *shaped = NULL;
	uint64_t *sizes = NULL;
	int r;

	r = vs_snapshot_recording(im->snapshot, device, 0, &d.recording);
	if (r < 0)
		return r;
	sizes = calloc(d.recording.recording.event_count + 1, sizeof(*sizes));
	r = sizes ? vs_replay_find_version(&d.recording.recording) : -ENOMEM;
	d.recording.recording.block_sizes = sizes;
	if (r == 0)
		r = vs_replay_baseline(&d.recording.recording, &exactness, NULL);
	im->started = false;
	if (r == 0)
		r = import_start(im, &d, device);
	im->started = true;
	if (r == 0 && !im->operators)
		r = vs_shapes_find(im->snapshot, &d.recording, &shaped);
	for (size_t i = 0; r == 0 && i < d.recording.recording.event_count; i++) {
		im->shaped = shaped && shaped[i];
		r = import_event(im, &d, device, i, sizes[i]);
	}
	im->shaped = false;
	free(shaped);
	free(sizes);
	vs_map_done(&d.live);
	vs_snapshot_recording_done(&d.recording);
	return r;
}

/* Several devices may use one address. Device addresses have 57 bits at most. */
static uint64_t key_of(const struct vs_snapshot_event *event)
{
	return event->address ^ ((uint64_t)(uint32_t)(event->device + 1) << 57);
}

/* PyTorch records who freed only with context="all"; else it repeats with the free who had allocated. */
static int find_what_frees_tell(struct importer *im)
{
	const struct vs_snapshot *s = im->snapshot;
	struct vs_map made = {0}; /* address -> stack of the allocation */
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->event_count && !im->frees_tell; i++) {
		const struct vs_snapshot_event *event = &s->events[i];
		uint64_t stack;

		if (event->action == VS_SNAPSHOT_ALLOC)
			r = vs_map_set(&made, key_of(event), event->stack);
		else if (event->action == VS_SNAPSHOT_FREE_COMPLETED && vs_map_take(&made, key_of(event), &stack))
			im->frees_tell = event->stack && event->stack != stack;
	}
	vs_map_done(&made);
	return r;
}

static int import_all(struct importer *im)
{
	const struct vs_snapshot *s = im->snapshot;
	int r = 0;

	im->frames = calloc(s->frame_count + 1, sizeof(*im->frames));
	im->stacks = calloc(2 * (s->stack_count + 1), sizeof(*im->stacks));
	im->foreign = calloc(s->stack_count + 1, sizeof(*im->foreign));
	im->main_thread = (uint32_t)getpid();
	im->log = vs_log_new(im->writer, im->main_thread);
	im->backward = vs_log_new(im->writer, im->main_thread + 1);
	if (!im->frames || !im->stacks || !im->foreign || !im->log || !im->backward)
		r = -ENOMEM;
	for (size_t i = 0; i < s->frame_count; i++)
		im->operators |= !is_python(&s->frames[i]);
	for (size_t i = 0; i < s->stack_count; i++) {
		const struct vs_snapshot_frame *frame = outermost(s, &s->stacks[i]);

		im->starts |= frame && is_start(frame);
	}
	if (r == 0)
		r = find_what_frees_tell(im);
	if (r == 0 && s->settings.present)
		vs_writer_fact(im->writer, "env:PYTORCH_CUDA_ALLOC_CONF", s->settings.text);
	vs_writer_fact(im->writer, "snapshot", "PyTorch");
	for (int32_t device = 0; r == 0 && device < s->device_count; device++)
		r = import_device(im, device);
	vs_log_retire(im->log);
	vs_log_retire(im->backward);
	vs_writer_finish(im->writer);
	free(im->frames);
	free(im->stacks);
	free(im->foreign);
	return r;
}

/* The trace has a name only until it is open. */
static int convert(const struct vs_snapshot *snapshot, struct vramshim_trace **ret_trace)
{
	const char *folder = getenv("TMPDIR");
	struct importer im = {.snapshot = snapshot};
	char *directory = NULL, *path = NULL;
	int r;

	if (asprintf(&directory, "%s/vramreport.XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		return -ENOMEM;
	if (!mkdtemp(directory)) {
		r = -errno;
		free(directory);
		return r;
	}
	r = asprintf(&path, "%s/snapshot.vst", directory) < 0 ? -ENOMEM : vs_writer_open(path, MAX_TRACE, &im.writer);
	if (r == 0)
		r = import_all(&im);
	if (r == 0)
		r = vramshim_trace_open(path, ret_trace);
	if (path)
		unlink(path);
	rmdir(directory);
	free(path);
	free(directory);
	return r;
}

int vs_import(const char *path, struct vramshim_trace **ret_trace)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *snapshot;
	int r = vs_snapshot_load(path, &snapshot, &error);

	if (r < 0) {
		vs_complain("%s: %s", path, error.text);
		return r;
	}
	r = convert(snapshot, ret_trace);
	vs_snapshot_free(snapshot);
	if (r < 0)
		vs_complain("%s: cannot be converted: %s", path, strerror(-r));
	return r;
}
