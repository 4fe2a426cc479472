/* SPDX-License-Identifier: MIT
 *
 * The post-mortem of a run: which error, the state at that moment, and what replay proves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caching/settings.h"
#include "estimate.h"
#include "oom.h"
#include "sizes.h"

/* As the process had them in its environment; what follows a part that cannot be read counts as not set. */
static struct vs_caching_settings settings_of(const struct vs_subject *subject)
{
	static const char *const keys[] = {"env:PYTORCH_CUDA_ALLOC_CONF", "env:PYTORCH_ALLOC_CONF"};
	struct vs_caching_settings settings;
	const char *where;

	vs_caching_defaults(&settings, 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = vramshim_trace_fact(subject->process->trace, keys[i]);
		if (text)
			vs_caching_parse_settings(text, &settings, &where);
	}
	return settings;
}

/* What ended a process comes before what was caught, then the later one. */
static uint64_t score(uint64_t time_ns, bool caught)
{
	return time_ns / 2 + 1 + (caught ? 0 : UINT64_C(1) << 63);
}

static const struct vs_device_summary *device_of(const struct vs_subject *subject, int index)
{
	for (size_t i = 0; i < subject->summary->device_count; i++) {
		if (subject->summary->devices[i].index == index)
			return &subject->summary->devices[i];
	}
	return NULL;
}

/* CUDA refused somebody else than PyTorch's allocator. */
static void consider_refusal(struct vs_oom_post *post, const struct vs_subject *subject, uint64_t *best)
{
	const struct vs_refusal refusal = subject->refusal;

	if (!refusal.sequence)
		return;
	const struct vs_device_summary *device = device_of(subject, refusal.device);
	if (!device) { /* refused the first time it asked */
		post->bare.index = refusal.device;
		post->bare.name = "";
		device = &post->bare;
	}
	post->errors++;
	if (score(refusal.time_ns, refusal.caught) <= *best)
		return;
	*best = score(refusal.time_ns, refusal.caught);
	post->subject = subject;
	post->device = device;
	post->event = NULL;
	post->refusal = refusal;
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
			if (score(event->at.time_ns, event->caught) <= best)
				continue;
			best = score(event->at.time_ns, event->caught);
			post->subject = subject;
			post->device = device;
			post->event = event;
		}
		consider_refusal(post, subject, &best);
	}
}

static int by_stack(const void *a, const void *b)
{
	const struct vs_oom_holder *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return strcmp(x->what, y->what);
}

static int by_bytes(const void *a, const void *b)
{
	const struct vs_oom_holder *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return by_stack(a, b);
}

/* Of PyTorch's error its blocks, of a refusal of CUDA's what everybody has from CUDA. */
static size_t list_holders(const struct vs_oom_post *post, struct vs_oom_holder *list)
{
	const struct vs_device_summary *device = post->device;
	size_t count = 0;

	for (size_t i = 0; post->event && i < device->block_count; i++) {
		const struct vs_block *block = &device->blocks[i];
		const char *what = block->detail ? vs_detail_path(block->detail) : vs_tag_name(block->tag);
		list[count++] = (struct vs_oom_holder){what, block->stack, block->size, 1};
	}
	for (size_t i = 0; !post->event && i < device->cuda_block_count; i++) {
		const struct vs_cuda_block *block = &device->cuda_blocks[i];
		list[count++] = (struct vs_oom_holder){block->library, block->stack, block->size, 1};
	}
	return count;
}

static int sum_holders(struct vs_oom_post *post)
{
	const struct vs_device_summary *device = post->device;
	struct vs_oom_holder *list = calloc(device->block_count + device->cuda_block_count + 1, sizeof(*list));
	size_t total, count = 0;

	if (!list)
		return -ENOMEM;
	total = list_holders(post, list);
	qsort(list, total, sizeof(*list), by_stack);
	for (size_t i = 0; i < total; i++) {
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

/* Other processes: by NVML's account, or what is used and this process is not known to hold. Without the size of its
 * context, if it has one, nobody knows. */
static void others(struct vs_oom *oom, const struct vs_device_summary *device, const struct vs_driver_said *said,
                   uint64_t ours, bool context)
{
	uint64_t total = device->total, available = said->free;

	if (available == VS_OOM_UNKNOWN)
		return;
	oom->numbers[VS_OOM_FREE] = available;
	oom->numbers[VS_OOM_OWN] = said->own;
	oom->numbers[VS_OOM_OTHERS] = said->others;
	oom->others_inferred = said->others == VS_OOM_UNKNOWN;
	if (oom->others_inferred && (device->outside.at.context || !context) && total >= available)
		oom->numbers[VS_OOM_OTHERS] = total - available > ours ? total - available - ours : 0;
}

static void numbers_of_event(struct vs_oom_post *post)
{
	const struct vs_oom_event *event = post->event;
	struct vs_caching_settings settings = settings_of(post->subject);
	struct vs_oom *oom = &post->c.oom;
	struct vs_driver_said said = vs_refusal_sample(post->subject->process->trace, event->at.sequence);

	vs_oom_init(oom, VS_OOM_PYTORCH);
	oom->expandable = settings.expandable_segments;
	oom->numbers[VS_OOM_REQUEST] =
	    settings.expandable_segments ? event->requested : vs_caching_segment_size(&settings, event->requested);
	oom->numbers[VS_OOM_ALLOCATED] = event->at.allocated;
	oom->numbers[VS_OOM_RESERVED] = event->at.reserved;
	if (event->free_known)
		oom->numbers[VS_OOM_FREE] = event->free;
	others(oom, post->device, &said, event->at.device, true);
	post->stack = event->stack;
}

/* What a context takes on this card, as far as it is known beforehand; 0: it is not. */
static uint64_t context_to_be(const struct vs_oom_post *post)
{
	char key[64];
	const char *value;

	snprintf(key, sizeof(key), "device:%d:context_bytes", post->device->index);
	value = vramshim_trace_fact(post->subject->process->trace, key);
	return value ? strtoull(value, NULL, 10) : 0;
}

static void numbers_of_refusal(struct vs_oom_post *post)
{
	const struct vs_refusal *refusal = &post->refusal;
	struct vs_oom *oom = &post->c.oom;
	bool torch = refusal->torch && !refusal->by_torch;
	uint64_t context = refusal->first ? context_to_be(post) : post->device->outside.at.context;

	vs_oom_init(oom, refusal->torch || refusal->by_torch ? VS_OOM_CUDA : VS_OOM_PLAIN);
	/* Where a context had to come first, it is not known what that takes, unless somebody knows what one takes.
	 */
	if (refusal->graph)
		oom->numbers[VS_OOM_REQUEST] = VS_OOM_UNKNOWN;
	else if (!refusal->first)
		oom->numbers[VS_OOM_REQUEST] = refusal->size;
	else if (refusal->context ? refusal->size : context)
		oom->numbers[VS_OOM_REQUEST] = refusal->context ? refusal->size : refusal->size + context;
	oom->numbers[VS_OOM_ALLOCATED] = torch ? refusal->allocated : refusal->held;
	oom->numbers[VS_OOM_RESERVED] = torch ? refusal->reserved : refusal->held;
	others(oom, post->device, &refusal->driver, refusal->held + (refusal->first ? 0 : context), !refusal->first);
	post->stack = refusal->stack;
}

/* The tags of the moment, where they are known. */
static const struct vs_point *moment(const struct vs_oom_post *post)
{
	const struct vs_point *end = &post->device->end;

	if (post->event)
		return &post->event->at;
	/* What a refused library leaves behind is the end of the recording, unless the job went on. */
	return post->refusal.torch && end->allocated && end->allocated == post->refusal.allocated ? end : NULL;
}

static void diagnose(struct vs_oom_post *post, uint64_t until_ns)
{
	struct vs_estimate_request request = {0};
	struct vs_estimate estimate = {0};
	struct vs_oom *oom = &post->c.oom;
	const struct vs_point *at = moment(post);
	struct vs_oom_job job;
	uint64_t seq = 0;

	if (post->event)
		numbers_of_event(post);
	else
		numbers_of_refusal(post);
	if (post->device->total)
		oom->numbers[VS_OOM_TOTAL] = post->device->total;
	vs_oom_complete(oom);
	post->c.cause = vs_oom_judge(oom);
	if (!at) {
		vs_oom_remedies(oom, post->c.cause, NULL, &post->c.remedies);
		return;
	}
	if (vs_estimate_make(post->subject, post->device, &request, &estimate) < 0)
		estimate = (struct vs_estimate){0};
	job = (struct vs_oom_job){
	    .tags = at->tags,
	    .details = at->details,
	    .parameters = estimate.parameters,
	    .parameter_bytes = estimate.parameter_bytes,
	    .world_size = post->subject->summary->world_size,
	};
	vs_sizes_from_command(post->subject->process->trace, &job.batch, &seq);
	vs_oom_remedies(oom, post->c.cause, &job, &post->c.remedies);
	if (!post->event || post->c.cause == VS_OOM_CAUSE_REQUEST || post->c.cause == VS_OOM_CAUSE_LIMIT) {
		post->sweep.missing = post->event ? "no setting changes this" : "it was not PyTorch's allocator";
		return;
	}
	vs_oom_sweep_run(post->subject->process->path, post->device->index, oom, until_ns, &post->sweep);
	vs_oom_sweep_remedies(oom, &post->sweep, &post->c.remedies);
}

int vs_oom_post_open(const char *path, uint64_t until_ns, struct vs_oom_post *post)
{
	struct vs_analyse_options options = {.blocks_at = VS_BLOCKS_OOM};
	int r;

	*post = (struct vs_oom_post){.c = {.recorded = true, .cause = VS_OOM_CAUSE_UNKNOWN}};
	r = vs_subjects_open(path, &options, &post->subjects);
	if (r < 0)
		return r;
	vs_oom_init(&post->c.oom, VS_OOM_PYTORCH);
	choose(post);
	if (post->subject)
		diagnose(post, until_ns);
	if (post->subject)
		r = sum_holders(post);
	if (r < 0)
		vs_oom_post_close(post);
	return r;
}

void vs_oom_post_close(struct vs_oom_post *post)
{
	free(post->holders);
	vs_subjects_close(&post->subjects);
	*post = (struct vs_oom_post){0};
}
