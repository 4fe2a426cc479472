/* SPDX-License-Identifier: MIT */
#include "ledger/analyse.h"

#include "ledger/resolve.h"
#include "ledger/second_pass.h"
#include "symbol/symbol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct analysis {
	struct vramshim_trace *trace;
	struct vs_analyse_options options;
	struct vs_symbols *own_symbols;
	struct vs_sites *sites;
	struct vs_phases phases;
	struct vs_counters counters;
	struct vs_resolver resolver;
	struct vs_second_pass second;
	bool mark_seen;
};

static const char *device_fact(const struct vramshim_trace *trace, int device, const char *what)
{
	char key[64];

	snprintf(key, sizeof(key), "device:%d:%s", device, what);
	return vramshim_trace_fact(trace, key);
}

static uint64_t device_number(const struct vramshim_trace *trace, int device, const char *what)
{
	const char *value = device_fact(trace, device, what);

	return value ? strtoull(value, NULL, 10) : 0;
}

static const char *text_fact(const struct vramshim_trace *trace, const char *key)
{
	const char *value = vramshim_trace_fact(trace, key);

	return value ? value : "";
}

static int number_fact(const struct vramshim_trace *trace, const char *key)
{
	const char *value = vramshim_trace_fact(trace, key);
	int number;

	return value && sscanf(value, "%d", &number) == 1 ? number : -1;
}

/* Of CUDA's events, what they came to. */
static int plain_event(void *user, const struct vramshim_event *event)
{
	struct analysis *a = user;
	bool torch = event->type == VRAMSHIM_TORCH_ALLOC || event->type == VRAMSHIM_TORCH_FREE ||
	             event->type == VRAMSHIM_TORCH_OOM;
	bool cuda = event->type == VRAMSHIM_CUDA_ALLOC || event->type == VRAMSHIM_CUDA_FREE;
	bool memory = torch || cuda || event->type == VRAMSHIM_MEMINFO;
	struct vs_counter *counter = NULL;
	uint8_t owner = VS_OWNER_NOBODY;
	const char *mark = NULL;

	if (torch) {
		const struct vs_site *site = vs_sites_get(a->sites, event->stack);

		if (!site)
			return -ENOMEM;
		vs_phases_event(&a->phases, event, site);
	} else if (cuda) {
		owner = vs_sites_owner(a->sites, event->stack);
	} else if (event->type == VRAMSHIM_MARK) {
		mark = vramshim_trace_string(a->trace, event->name);
		if (mark && a->options.mark && !strcmp(mark, a->options.mark))
			a->mark_seen = true;
	}
	if (memory && event->device >= 0 && event->device < VS_DEVICES_MAX) {
		bool is_new;

		counter = vs_counters_device(&a->counters, event->device, &is_new);
		if (!counter)
			return -ENOMEM;
		if (is_new) {
			/* What is known of a device on which memory was refused at once is no context. */
			if (event->type != VRAMSHIM_MEMINFO)
				counter->context = device_number(a->trace, event->device, "context_bytes");
			counter->total = device_number(a->trace, event->device, "total_bytes");
		}
	}
	return vs_counters_event(&a->counters, counter, event, &a->phases.now, owner, mark);
}

static int first_event(struct analysis *a, const struct vramshim_event *event)
{
	switch (event->type) {
	case VRAMSHIM_CUDA_ALLOC:
	case VRAMSHIM_CUDA_FREE:
	case VRAMSHIM_CUDA_FAIL:
		return vs_resolve(&a->resolver, event, plain_event, a);
	default:
		return plain_event(a, event);
	}
}

static int first_pass(struct analysis *a)
{
	struct vramshim_event event;
	int error = 0, more = 0;

	vramshim_trace_rewind(a->trace);
	while (!error && (more = vramshim_trace_next(a->trace, &event)) > 0)
		error = first_event(a, &event);
	return error ? error : more;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vs_library_bytes *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->library, y->library);
}

/* How PyTorch's segments are filled at a probe's instant. */
static void look_at(struct vs_probe *probe, const struct vs_point *point, struct vs_fragmentation *ret_fragmentation)
{
	vs_fragmentation(probe->segments, probe->segment_count, probe->extents, probe->extent_count, point->allocated,
	                 point->reserved, ret_fragmentation);
}

/* Names are copied: the owners' table goes with the analysis. */
static int libraries(struct analysis *a, const struct vs_account *account, struct vs_outside *outside)
{
	struct vs_library_bytes *list;
	size_t count = 0, used = 0;
	char *names;

	for (unsigned owner = 0; owner < VS_OWNERS_MAX; owner++)
		count += owner != VS_OWNER_PYTORCH && account->by_owner[owner];
	list = calloc(1, count * (sizeof(*list) + VS_OWNER_NAME_MAX) + 1);
	if (!list)
		return -ENOMEM;
	names = (char *)(list + count);
	for (unsigned owner = 0; owner < VS_OWNERS_MAX; owner++) {
		if (owner == VS_OWNER_PYTORCH || !account->by_owner[owner])
			continue;
		snprintf(names, VS_OWNER_NAME_MAX, "%s", vs_sites_owner_name(a->sites, (uint8_t)owner));
		list[used++] = (struct vs_library_bytes){names, account->by_owner[owner]};
		names += VS_OWNER_NAME_MAX;
	}
	qsort(list, count, sizeof(*list), by_bytes);
	outside->libraries = list;
	outside->library_count = count;
	return 0;
}

/* `fullest` looked at the instant of the account shown. */
static int outside(struct analysis *a, struct vs_counter *counter, struct vs_probe *fullest,
                   struct vs_outside *ret_outside)
{
	const struct vs_account *shown = vs_accounts_shown(&counter->accounts);
	const struct vs_sample *at = &shown->sample;
	const char *source = device_fact(a->trace, counter->index, "context_source");
	struct vs_outside *out = ret_outside;
	uint64_t known = at->context + at->pytorch + at->libraries + at->rounding;
	struct vs_point point = {.allocated = shown->allocated, .reserved = at->pytorch};

	*out = (struct vs_outside){.at = *at, .allocated = shown->allocated, .pool = shown->pool};
	if (!counter->accounts.seen) {
		out->at.sequence = 0;
		if (!counter->contexts_seen)
			out->at.context = counter->context;
	}
	/* Of that instant: at the end of a tidy program there is no context any more. */
	out->context_source = counter->context_measured ? "measured" : source && out->at.context ? source : "";
	if (at->sequence)
		look_at(fullest, &point, &out->cached);
	out->split_known = out->cached.exact && shown->reserved == at->pytorch;
	if (counter->accounts.seen && counter->max_device > known)
		out->unsampled = counter->max_device - known;
	vs_accounts_finish(&counter->accounts);
	out->samples = counter->accounts.samples;
	out->sample_count = counter->accounts.count;
	counter->accounts.samples = NULL;
	return libraries(a, shown, out);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int cuda_blocks(struct analysis *a, const struct vs_probe *asked, struct vs_device_summary *device)
{
	struct vs_cuda_block *blocks = calloc(asked->piece_count + 1, sizeof(*blocks));

	if (!blocks)
		return -ENOMEM;
	for (size_t i = 0; i < asked->piece_count; i++) {
		const struct vs_cuda_piece *piece = &asked->pieces[i];

		blocks[i] = (struct vs_cuda_block){
		    .address = piece->address, .size = piece->size, .memory = piece->memory, .stack = piece->stack};
		snprintf(blocks[i].library, sizeof(blocks[i].library), "%s",
		         vs_sites_owner_name(a->sites, piece->owner));
	}
	device->cuda_blocks = blocks;
	device->cuda_block_count = asked->piece_count;
	return 0;
}

/* Move what the passes made into the summary; on failure the rest stays where it was and is released there. */
static int summarise_device(struct analysis *a, size_t i, struct vs_device_summary *device)
{
	struct vs_counter *counter = &a->counters.devices[i];
	struct vs_device_pass *pass = &a->second.devices[i];
	struct vs_probe *peak = &pass->probes[VS_PROBE_PEAK], *asked = &pass->probes[VS_PROBE_ASKED];
	const struct vramshim_device_totals *totals = vramshim_trace_device(a->trace, counter->index);
	const char *name = device_fact(a->trace, counter->index, "name");
	size_t top = a->options.top_stacks ? a->options.top_stacks : 10;

	device->index = counter->index;
	device->name = name ? name : "";
	device->simulated = device_number(a->trace, counter->index, "simulated") == 1;
	device->total = counter->total;
	device->allocations = counter->allocations;
	device->frees = counter->frees;
	device->max_allocated = counter->peak.allocated;
	device->max_reserved = counter->max_reserved;
	if (totals) { /* right even where events were dropped */
		device->allocations = larger(totals->allocations, counter->allocations);
		device->frees = larger(totals->frees, counter->frees);
		device->max_allocated = larger(totals->allocated_peak, counter->peak.allocated);
		device->max_reserved = larger(totals->reserved_peak, counter->max_reserved);
	}
	device->lost = device->allocations - counter->allocations + device->frees - counter->frees;
	device->mismatches = counter->mismatches;
	device->max_device = counter->max_device;
	device->peak = counter->peak;
	device->end = counter->now;
	if (outside(a, counter, &pass->probes[VS_PROBE_FULLEST], &device->outside))
		return -ENOMEM;

	look_at(peak, &counter->peak, &device->fragmentation);
	for (size_t j = VS_PROBE_OOM; j < pass->probe_count; j++) {
		struct vs_oom_event *oom = &counter->ooms[pass->first_oom + j - VS_PROBE_OOM];
		struct vs_fragmentation fragmentation;

		look_at(&pass->probes[j], &oom->at, &fragmentation);
		oom->largest_free = fragmentation.largest_free;
		oom->largest_known = fragmentation.exact;
	}

	device->steps = counter->steps;
	device->step_count = counter->step_count;
	counter->steps = NULL;
	device->marks = counter->marks;
	device->mark_count = counter->mark_count;
	counter->marks = NULL;
	device->ooms = counter->ooms;
	device->oom_count = counter->oom_count;
	counter->ooms = NULL;
	device->stacks = peak->stacks;
	device->stack_count = peak->stack_count < top ? peak->stack_count : top;
	peak->stacks = NULL;
	device->blocks = asked->blocks;
	device->block_count = asked->block_count;
	asked->blocks = NULL;
	return cuda_blocks(a, asked, device);
}

static enum vs_exit how_it_ended(const struct analysis *a, const struct vramshim_trace_info *info)
{
	if (info->running)
		return VS_EXIT_RUNNING;
	for (size_t i = 0; i < a->counters.count; i++)
		if (a->counters.devices[i].caught_count < a->counters.devices[i].oom_count)
			return VS_EXIT_OOM;
	return info->clean_exit ? VS_EXIT_CLEAN : VS_EXIT_KILLED;
}

static int summarise(struct analysis *a, struct vs_summary **ret_summary)
{
	const struct vramshim_trace_info *info = vramshim_trace_info(a->trace);
	const struct vs_epoch *last = &a->phases.now;
	struct vs_summary *summary = calloc(1, sizeof(*summary));
	struct vs_device_summary *devices = calloc(a->counters.count ? a->counters.count : 1, sizeof(*devices));

	if (!summary || !devices) {
		free(summary);
		free(devices);
		return -ENOMEM;
	}
	/* A trace made of a PyTorch snapshot is dated by its conversion, not by the job. */
	summary->snapshot = vramshim_trace_fact(a->trace, "snapshot") != NULL;
	summary->pid = summary->snapshot ? 0 : info->pid;
	summary->rank = number_fact(a->trace, "rank");
	summary->world_size = number_fact(a->trace, "world_size");
	summary->host = text_fact(a->trace, "host");
	summary->python = text_fact(a->trace, "python");
	summary->torch = text_fact(a->trace, "torch");
	summary->exit = how_it_ended(a, info);
	summary->started_ns = summary->snapshot ? 0 : info->started_ns;
	if (!summary->snapshot && a->counters.last_ns > info->started_mono_ns)
		summary->duration_ns = a->counters.last_ns - info->started_mono_ns;
	summary->lost = info->lost;
	summary->evidence = *vs_sites_evidence(a->sites);
	summary->marks_dropped = a->counters.marks_dropped;
	summary->steps = last->step + a->phases.step_ends;
	summary->devices = devices;
	for (; summary->device_count < a->counters.count; summary->device_count++) {
		if (summarise_device(a, summary->device_count, &devices[summary->device_count])) {
			vs_summary_free(summary);
			return -ENOMEM;
		}
	}
	*ret_summary = summary;
	return 0;
}

int vs_analyse(struct vramshim_trace *trace, const struct vs_analyse_options *options,
               struct vs_summary **ret_summary)
{
	struct analysis a = {.trace = trace};
	struct vs_symbols *symbols;
	int error = 0;

	if (options)
		a.options = *options;
	if (a.options.blocks_at == VS_BLOCKS_MARK && !a.options.mark)
		return -EINVAL;
	symbols = a.options.symbols;
	if (!symbols) {
		error = vs_symbols_new(trace, &a.own_symbols);
		symbols = a.own_symbols;
	}
	if (!error)
		error = vs_sites_new(trace, symbols, &a.sites);
	vs_phases_init(&a.phases, vramshim_trace_info(trace)->pid);
	if (!error)
		error = first_pass(&a);
	if (!error && a.options.blocks_at == VS_BLOCKS_MARK && !a.mark_seen)
		error = -ENOENT;
	if (!error)
		error = vs_second_pass(&a.second, trace, a.sites, &a.counters, &a.options);
	if (!error)
		error = summarise(&a, ret_summary);
	vs_second_pass_release(&a.second);
	vs_counters_release(&a.counters);
	vs_resolver_release(&a.resolver);
	vs_sites_free(a.sites);
	vs_symbols_free(a.own_symbols);
	return error;
}
