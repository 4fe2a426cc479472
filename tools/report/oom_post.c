/* SPDX-License-Identifier: MIT
 *
 * The post-mortem of a run: which error, the state at that moment, and what replay proves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "caching/settings.h"
#include "estimate.h"
#include "oom.h"
#include "whatif.h"

/* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY are the same number. */
#define OUT_OF_MEMORY 2

#define MIB ((uint64_t)1 << 20)

/* What PyTorch asks of CUDA for a block that none of its segments can hold (CUDACachingAllocator.cpp,
 * get_allocation_size). */
static uint64_t segment_size(uint64_t size)
{
	if (size <= MIB)
		return 2 * MIB;
	if (size < 10 * MIB)
		return 20 * MIB;
	return size > UINT64_MAX - 2 * MIB ? size : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static bool expandable(const struct vs_subject *subject)
{
	static const char *const keys[] = {"env:PYTORCH_CUDA_ALLOC_CONF", "env:PYTORCH_ALLOC_CONF"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *value = vramshim_trace_fact(subject->process->trace, keys[i]);
		if (value && strstr(value, "expandable_segments:True"))
			return true;
	}
	return false;
}

static void choose(struct vs_oom_post *post)
{
	uint64_t best = 0;

	for (size_t i = 0; i < post->subjects.count; i++) {
		const struct vs_subject *subject = &post->subjects.list[i];
		for (size_t j = 0; j < subject->summary->device_count; j++) {
			const struct vs_device_summary *device = &subject->summary->devices[j];
			post->errors += device->oom_count;
			if (!device->oom_count)
				continue;
			const struct vs_oom_event *event = &device->ooms[device->oom_count - 1];
			/* What ended a process before what was caught, then the later one. */
			uint64_t score = event->at.time_ns / 2 + 1 + (event->caught ? 0 : UINT64_C(1) << 63);
			if (score <= best)
				continue;
			best = score;
			post->subject = subject;
			post->device = device;
			post->event = event;
		}
	}
}

/* CUDA refused memory and nothing was asked of PyTorch's allocator afterwards, so that it was not its own request,
 * which it would have repeated or given up: the context's, a library's. */
static void find_foreign(const struct vs_subject *subject, struct vs_oom_post *post)
{
	struct vramshim_trace *trace = subject->process->trace;
	struct vramshim_event event, failed = {.device = -1};
	uint64_t allocated = 0, reserved = 0, available = VS_OOM_UNKNOWN;
	struct vs_oom *oom = &post->c.oom;

	vramshim_trace_rewind(trace);
	while (vramshim_trace_next(trace, &event) > 0) {
		if (event.type == VRAMSHIM_CUDA_FAIL && event.result == OUT_OF_MEMORY &&
		    event.memory != VRAMSHIM_MEMORY_PINNED && event.memory != VRAMSHIM_MEMORY_RESERVED)
			failed = event;
		else if (event.type == VRAMSHIM_TORCH_ALLOC || event.type == VRAMSHIM_TORCH_OOM)
			failed.device = -1;
		if (failed.device >= 0)
			continue; /* what the unwinding program frees is not the state at that moment */
		if (event.type == VRAMSHIM_TORCH_ALLOC || event.type == VRAMSHIM_TORCH_FREE) {
			allocated = event.allocated;
			reserved = event.reserved;
		}
		available = event.type == VRAMSHIM_MEMINFO ? event.size : VS_OOM_UNKNOWN;
	}
	for (size_t i = 0; failed.device >= 0 && i < subject->summary->device_count; i++) {
		const struct vs_device_summary *device = &subject->summary->devices[i];
		if (device->index != failed.device)
			continue;
		post->subject = subject;
		post->device = device;
		post->stack = failed.stack;
		post->entry = vramshim_trace_string(trace, failed.name);
		post->errors++;
		vs_oom_init(oom, VS_OOM_CUDA);
		oom->numbers[VS_OOM_REQUEST] = failed.size;
		oom->numbers[VS_OOM_FREE] = available;
		oom->numbers[VS_OOM_ALLOCATED] = allocated;
		oom->numbers[VS_OOM_RESERVED] = reserved;
		if (device->total)
			oom->numbers[VS_OOM_TOTAL] = device->total;
	}
}

static int by_stack(const void *a, const void *b)
{
	const struct vs_stack_bytes *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->detail < y->detail ? -1 : x->detail > y->detail;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vs_stack_bytes *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return by_stack(a, b);
}

static int sum_holders(struct vs_oom_post *post)
{
	const struct vs_device_summary *device = post->device;
	struct vs_stack_bytes *list = calloc(device->block_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < device->block_count; i++) {
		const struct vs_block *block = &device->blocks[i];
		list[i] = (struct vs_stack_bytes){block->stack, block->tag, block->detail, block->size, 1};
	}
	qsort(list, device->block_count, sizeof(*list), by_stack);
	for (size_t i = 0; i < device->block_count; i++) {
		if (count && !by_stack(&list[count - 1], &list[i])) {
			list[count - 1].bytes += list[i].bytes;
			list[count - 1].blocks++;
		} else {
			list[count++] = list[i];
		}
	}
	qsort(list, count, sizeof(*list), by_bytes);
	post->holders = list;
	post->holder_count = count;
	return 0;
}

/* The same requests with expandable segments, on the card as it was at that moment. */
static void replay(struct vs_oom_post *post)
{
	struct vs_whatif whatif = {.choice = {.device = post->device->index, .rank = -1}};
	const uint64_t *n = post->c.oom.numbers;
	struct vs_caching_settings settings;
	struct vs_replay_outcome outcome;
	const char *where;

	post->not_replayed = "the card's size is not known";
	if (!vs_oom_knows(&post->c.oom, VS_OOM_TOTAL) || !vs_oom_knows(&post->c.oom, VS_OOM_FREE))
		return;
	if (n[VS_OOM_TOTAL] > n[VS_OOM_FREE] + n[VS_OOM_RESERVED])
		whatif.outside = n[VS_OOM_TOTAL] - n[VS_OOM_FREE] - n[VS_OOM_RESERVED];
	whatif.outside_known = true;
	post->not_replayed = "the run could not be replayed";
	if (vs_whatif_open(&whatif, post->subject->process->path) < 0)
		goto out;
	settings = whatif.input.recording.settings;
	post->not_replayed = "they were on already";
	if (settings.expandable_segments)
		goto out;
	post->not_replayed = "the replay is not exact for this run";
	if (!whatif.exact || whatif.input.lost)
		goto out;
	post->not_replayed = "the run could not be replayed";
	if (vs_caching_parse_settings("expandable_segments:True", &settings, &where) < 0 ||
	    vs_replay_scenario(whatif.program, &settings, &whatif.on, &outcome) < 0)
		goto out;
	post->replay = outcome.refused || outcome.stopped ? VS_OOM_REFUSED : VS_OOM_SERVED;
	post->replayed_bytes = outcome.stats.reserved_peak;
out:
	vs_whatif_close(&whatif);
}

static void use_replay(struct vs_oom_post *post)
{
	const uint64_t *n = post->c.oom.numbers;

	if (post->replay == VS_OOM_NOT_REPLAYED)
		return;
	for (size_t i = 0; i < post->c.remedies.count; i++) {
		struct vs_oom_remedy *remedy = &post->c.remedies.list[i];
		if (strcmp(remedy->name, "expandable_segments"))
			continue;
		remedy->evidence = VS_OOM_REPLAYED;
		remedy->enough = post->replay == VS_OOM_SERVED ? VS_OOM_YES : VS_OOM_NO;
		if (post->replay == VS_OOM_SERVED && n[VS_OOM_RESERVED] + n[VS_OOM_REQUEST] > post->replayed_bytes)
			remedy->saves = n[VS_OOM_RESERVED] + n[VS_OOM_REQUEST] - post->replayed_bytes;
	}
}

static void diagnose(struct vs_oom_post *post)
{
	const struct vs_oom_event *event = post->event;
	struct vs_estimate_request request = {0};
	struct vs_estimate estimate = {0};
	struct vs_oom *oom = &post->c.oom;
	struct vs_oom_job job;

	if (event) {
		vs_oom_init(oom, VS_OOM_PYTORCH);
		oom->expandable = expandable(post->subject);
		oom->numbers[VS_OOM_REQUEST] = oom->expandable ? event->requested : segment_size(event->requested);
		oom->numbers[VS_OOM_ALLOCATED] = event->at.allocated;
		oom->numbers[VS_OOM_RESERVED] = event->at.reserved;
		if (event->free_known)
			oom->numbers[VS_OOM_FREE] = event->free;
		if (post->device->total)
			oom->numbers[VS_OOM_TOTAL] = post->device->total;
		post->stack = event->stack;
	}
	vs_oom_complete(oom);
	post->c.cause = vs_oom_judge(oom);
	if (!event) {
		vs_oom_remedies(oom, post->c.cause, NULL, &post->c.remedies);
		return;
	}
	if (vs_estimate_make(post->subject, post->device, &request, &estimate) < 0)
		estimate = (struct vs_estimate){0};
	job = (struct vs_oom_job){
	    .tags = event->at.tags,
	    .details = event->at.details,
	    .parameters = estimate.parameters,
	    .parameter_bytes = estimate.parameter_bytes,
	    .world_size = post->subject->summary->world_size,
	};
	vs_oom_remedies(oom, post->c.cause, &job, &post->c.remedies);
	replay(post);
	use_replay(post);
}

int vs_oom_post_open(const char *path, struct vs_oom_post *ret_post)
{
	struct vs_analyse_options options = {.blocks_at = VS_BLOCKS_OOM};
	struct vs_oom_post post = {.c.cause = VS_OOM_CAUSE_UNKNOWN};
	int r = vs_subjects_open(path, &options, &post.subjects);

	if (r < 0)
		return r;
	vs_oom_init(&post.c.oom, VS_OOM_PYTORCH);
	choose(&post);
	for (size_t i = 0; (!post.event || post.event->caught) && i < post.subjects.count; i++) {
		struct vs_oom_post foreign = post;
		foreign.subject = NULL;
		find_foreign(&post.subjects.list[i], &foreign);
		if (!foreign.subject)
			continue;
		post = foreign;
		post.event = NULL;
		break;
	}
	if (post.subject)
		diagnose(&post);
	if (post.event)
		r = sum_holders(&post);
	if (r < 0) {
		vs_oom_post_close(&post);
		return r;
	}
	*ret_post = post;
	return 0;
}

void vs_oom_post_close(struct vs_oom_post *post)
{
	free(post->holders);
	vs_subjects_close(&post->subjects);
	*post = (struct vs_oom_post){0};
}
