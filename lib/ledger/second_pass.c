/* SPDX-License-Identifier: MIT */
#include "ledger/second_pass.h"

#include "tag/tagger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A job that catches its out-of-memory errors can have thousands; each probe costs a list of live blocks. */
enum { OOM_PROBES = 16 };

static uint64_t oom_instant(const struct vs_counter *counter, const struct vs_refused *refused)
{
	const struct vs_oom_event *last = counter->oom_count ? &counter->ooms[counter->oom_count - 1] : NULL;
	bool is_here = refused->sequence && refused->device == counter->index;

	if (!last)
		return is_here ? refused->sequence : 0;
	if (!is_here || (last->caught == refused->caught ? last->at.sequence > refused->sequence : refused->caught))
		return last->at.sequence;
	return refused->sequence;
}

static uint64_t asked_instant(const struct vs_counter *counter, const struct vs_analyse_options *options)
{
	switch (options->blocks_at) {
	case VS_BLOCKS_PEAK:
		/* Without PyTorch it is when the card was fullest. */
		return counter->peak.sequence ? counter->peak.sequence
		                              : vs_accounts_shown(&counter->accounts)->sample.sequence;
	case VS_BLOCKS_END:
		return counter->now.sequence;
	case VS_BLOCKS_OOM:
		return oom_instant(counter, &options->refused);
	case VS_BLOCKS_MARK:
		for (size_t i = 0; i < counter->mark_count; i++)
			if (counter->marks[i].name && !strcmp(counter->marks[i].name, options->mark))
				return counter->marks[i].sequence;
		return 0;
	default:
		return 0;
	}
}

static int prepare(struct vs_device_pass *device, struct vs_counter *counter,
                   const struct vs_analyse_options *options)
{
	size_t count = counter->step_count + counter->mark_count + counter->oom_count + 2, n = 0;
	struct vs_point **points = calloc(count, sizeof(*points));
	int error;

	if (!points)
		return -ENOMEM;
	for (size_t i = 0; i < counter->step_count; i++)
		points[n++] = &counter->steps[i];
	for (size_t i = 0; i < counter->mark_count; i++)
		points[n++] = &counter->marks[i];
	for (size_t i = 0; i < counter->oom_count; i++)
		points[n++] = &counter->ooms[i].at;
	if (counter->peak.sequence)
		points[n++] = &counter->peak;
	points[n++] = &counter->now;
	error = vs_samples_new(points, n, &device->samples);
	free(points);
	if (error)
		return error;

	device->first_oom = counter->oom_count > OOM_PROBES ? counter->oom_count - OOM_PROBES : 0;
	device->probe_count = VS_PROBE_OOM + counter->oom_count - device->first_oom;
	device->probes = calloc(device->probe_count, sizeof(*device->probes));
	if (!device->probes)
		return -ENOMEM;
	device->probes[VS_PROBE_PEAK].sequence = counter->peak.sequence;
	device->probes[VS_PROBE_PEAK].want_stacks = true;
	device->probes[VS_PROBE_ASKED].sequence = asked_instant(counter, options);
	device->probes[VS_PROBE_ASKED].want_blocks = true;
	device->probes[VS_PROBE_FULLEST].sequence = vs_accounts_shown(&counter->accounts)->sample.sequence;
	for (size_t i = 0; i < device->probe_count; i++) {
		device->probes[i].device = counter->index;
		if (i >= VS_PROBE_OOM)
			device->probes[i].sequence = counter->ooms[device->first_oom + i - VS_PROBE_OOM].at.sequence;
	}
	return 0;
}

static struct vs_device_pass *device_of(struct vs_second_pass *pass, int index)
{
	for (size_t i = 0; i < pass->device_count; i++)
		if (pass->counters->devices[i].index == index)
			return &pass->devices[i];
	return NULL;
}

static int on_verdict(void *user, const struct vs_block *block)
{
	struct vs_device_pass *device = device_of(user, block->device);
	const struct vs_analyse_options *options = ((struct vs_second_pass *)user)->options;
	int error = 0;

	if (options->every_block)
		error = options->every_block(options->user, block);
	if (error < 0)
		return error;
	if (!device)
		return 0;
	vs_samples_add(device->samples, block);
	for (size_t i = 0; i < device->probe_count && !error; i++)
		error = vs_probe_block(&device->probes[i], block);
	return error;
}

static int pass_probes(struct vs_device_pass *device, uint64_t next_sequence)
{
	int error = 0;

	for (size_t i = 0; i < device->probe_count && !error; i++)
		error = vs_probe_pass(&device->probes[i], next_sequence, &device->cuda);
	return error;
}

struct cuda_pass {
	struct vs_second_pass *pass;
	struct vs_sites *sites;
};

static int on_cuda(void *user, const struct vramshim_event *event)
{
	struct cuda_pass *cuda = user;
	struct vs_device_pass *device = device_of(cuda->pass, event->device);
	int error;

	if (!device)
		return 0;
	error = pass_probes(device, event->sequence); /* only these events change what segments there are */
	return error ? error : vs_cuda_event(&device->cuda, event, vs_sites_owner(cuda->sites, event->stack));
}

static int replay(struct vs_second_pass *pass, struct vramshim_trace *trace, struct vs_sites *sites,
                  struct vs_tagger *tagger, uint64_t end)
{
	struct cuda_pass cuda = {pass, sites};
	struct vramshim_event event;
	int error = 0, more = 0;

	vramshim_trace_rewind(trace);
	while (!error && (more = vramshim_trace_next(trace, &event)) > 0) {
		if (event.sequence > end) {
			more = 0;
			break;
		}
		/* The tagger's memory goes with the largest id, so an id that a cut or damaged trace does not define
		 * is none. */
		if (event.stack > vramshim_trace_stack_count(trace))
			event.stack = 0;
		if (event.type == VRAMSHIM_TORCH_ALLOC || event.type == VRAMSHIM_TORCH_FREE ||
		    event.type == VRAMSHIM_TORCH_OOM) {
			const struct vs_site *site = vs_sites_get(sites, event.stack);

			error = site ? vs_tagger_event(tagger, &event, site) : -ENOMEM;
		} else if (event.type == VRAMSHIM_CUDA_ALLOC || event.type == VRAMSHIM_CUDA_FREE ||
		           event.type == VRAMSHIM_CUDA_FAIL) {
			error = vs_resolve(&pass->resolver, &event, on_cuda, &cuda);
		} else if (event.type == VRAMSHIM_MARK) {
			error = vs_tagger_event(tagger, &event, NULL);
		}
	}
	if (!error)
		error = more;
	return error ? error : vs_tagger_finish(tagger);
}

int vs_second_pass(struct vs_second_pass *pass, struct vramshim_trace *trace, struct vs_sites *sites,
                   struct vs_counters *counters, const struct vs_analyse_options *options)
{
	struct vs_tagger_ops ops = {
	    .user = pass,
	    .verdict = on_verdict,
	    .main_thread = vramshim_trace_info(trace)->pid,
	};
	struct vs_tagger *tagger = NULL;
	uint64_t end = options->cut ? 0 : UINT64_MAX;
	int error = 0;

	*pass = (struct vs_second_pass){.options = options, .counters = counters};
	pass->devices = calloc(counters->count ? counters->count : 1, sizeof(*pass->devices));
	if (!pass->devices)
		return -ENOMEM;
	pass->device_count = counters->count;
	for (size_t i = 0; i < counters->count && !error; i++)
		error = prepare(&pass->devices[i], &counters->devices[i], options);
	for (size_t i = 0; i < counters->count && !error && options->cut; i++) {
		uint64_t asked = pass->devices[i].probes[VS_PROBE_ASKED].sequence;

		end = asked > end ? asked : end; /* of a mark there is one for all devices */
	}
	if (!error)
		error = vs_tagger_new(&ops, &tagger);
	if (!error)
		error = replay(pass, trace, sites, tagger, end);
	vs_tagger_free(tagger);
	for (size_t i = 0; i < pass->device_count && !error; i++) {
		error = pass_probes(&pass->devices[i], UINT64_MAX);
		vs_samples_finish(pass->devices[i].samples);
		for (size_t j = 0; j < pass->devices[i].probe_count; j++)
			vs_probe_finish(&pass->devices[i].probes[j]);
	}
	return error;
}

void vs_second_pass_release(struct vs_second_pass *pass)
{
	for (size_t i = 0; i < pass->device_count; i++) {
		struct vs_device_pass *device = &pass->devices[i];

		vs_samples_free(device->samples);
		vs_cuda_release(&device->cuda);
		for (size_t j = 0; j < device->probe_count; j++)
			vs_probe_release(&device->probes[j]);
		free(device->probes);
	}
	free(pass->devices);
	vs_resolver_release(&pass->resolver);
	*pass = (struct vs_second_pass){0};
}
