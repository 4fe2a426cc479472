/* SPDX-License-Identifier: MIT */
#include "whatif.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "caching/map.h"
#include "caching/settings.h"
#include "command.h"
#include "common/message.h"
#include "ledger/analyse.h"

/* What the card has where nobody knows: so much that it never matters. */
#define UNKNOWN_TOTAL (UINT64_C(1) << 40)

int vs_whatif_add(struct vs_whatif *whatif, const char *name, const char *settings)
{
	struct vs_whatif_scenario *scenario = &whatif->scenarios[whatif->count];
	struct vs_caching_settings probe;
	const char *where;

	if (whatif->count == VS_WHATIF_SCENARIOS) {
		vs_complain("%s: too many scenarios, %d at a time", name, VS_WHATIF_SCENARIOS);
		return -E2BIG;
	}
	vs_caching_defaults(&probe, 215);
	if (settings && strlen(settings) >= sizeof(scenario->text)) {
		vs_complain("%.40s...: settings longer than %zu characters", settings, sizeof(scenario->text) - 1);
		return -EINVAL;
	}
	if (settings && vs_caching_parse_settings(settings, &probe, &where) < 0) {
		vs_complain("%s: PyTorch does not take this setting, or not with this value", where);
		return -EINVAL;
	}
	snprintf(scenario->name, sizeof(scenario->name), "%s", name);
	snprintf(scenario->text, sizeof(scenario->text), "%s", settings ? settings : "");
	scenario->perfect = !settings;
	whatif->count++;
	return 0;
}

/* What people are told to try, alone, and expandable segments with what can stand beside them. */
static const struct {
	const char *name, *settings;
} sweep[] = {
    {"as recorded", ""},
    {"expandable_segments", "expandable_segments:True"},
    {"max_split_size 64", "max_split_size_mb:64"},
    {"max_split_size 128", "max_split_size_mb:128"},
    {"max_split_size 256", "max_split_size_mb:256"},
    {"max_split_size 512", "max_split_size_mb:512"},
    {"roundup 4", "roundup_power2_divisions:4"},
    {"roundup 8", "roundup_power2_divisions:8"},
    {"gc_threshold 0.8", "garbage_collection_threshold:0.8,per_process_memory_fraction:0.99"},
    {"expandable + roundup 8", "expandable_segments:True,roundup_power2_divisions:8"},
    {"perfect", NULL},
};

int vs_whatif_add_sweep(struct vs_whatif *whatif)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(sweep) / sizeof(sweep[0]); i++)
		r = vs_whatif_add(whatif, sweep[i].name, sweep[i].settings);
	return r;
}

/* What others took of the card at a refusal that told its free bytes: the rest was PyTorch's. */
static uint64_t outside_at_refusal(const struct vs_replay_recording *recording, uint64_t start)
{
	uint64_t reserved = start;

	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];

		switch (event->kind) {
		case VS_REPLAY_SEGMENT_ALLOC:
		case VS_REPLAY_SEGMENT_MAP:
			reserved += event->size;
			break;
		case VS_REPLAY_SEGMENT_FREE:
		case VS_REPLAY_SEGMENT_UNMAP:
			reserved -= event->size < reserved ? event->size : reserved;
			break;
		case VS_REPLAY_OOM:
			if (event->address && reserved + event->address < recording->total)
				return recording->total - reserved - event->address;
			break;
		default:
			break;
		}
	}
	return 0;
}

static void choose_card(struct vs_whatif *whatif)
{
	const struct vs_replay_input *input = &whatif->input;

	whatif->outside_source = "unknown";
	whatif->on.total = whatif->memory ? whatif->memory
	                   : whatif->card ? whatif->card->total
	                                  : input->recording.total;
	whatif->card_known = whatif->on.total;
	if (!whatif->card_known) {
		whatif->on.total = UNKNOWN_TOTAL;
		return;
	}
	if (whatif->outside_known) {
		whatif->on.outside = whatif->outside;
		whatif->outside_source = "stated";
	} else if (whatif->card || input->context) { /* traces have a figure only of simulated cards */
		whatif->on.outside = whatif->card ? whatif->card->context : input->context;
		whatif->outside_source = "assumed";
	} else if (input->snapshot && !whatif->memory) {
		whatif->on.outside = outside_at_refusal(&input->recording, 0);
		if (whatif->on.outside)
			whatif->outside_source = "recorded";
	}
}

/* What a step makes anew from its batch grows with it; what the model and the optimizer own does not. */
struct scaling {
	struct vs_map sequences; /* of the allocations that grow */
	int device;
};

static int on_block(void *user, const struct vs_block *block)
{
	struct scaling *scaling = user;

	if (block->device != scaling->device || block->phase == VS_PHASE_OPTIMIZER)
		return 0;
	switch (block->tag) {
	case VS_TAG_ACTIVATIONS:
	case VS_TAG_OUTPUTS:
	case VS_TAG_INPUTS:
	case VS_TAG_TEMPORARIES:
		return vs_map_set(&scaling->sequences, block->allocated_at, 1);
	default:
		return 0;
	}
}

static int scale(struct vs_whatif *whatif)
{
	const struct vs_trace_recording *recording = &whatif->input.trace_recording;
	struct scaling scaling = {.device = whatif->input.device};
	struct vs_analyse_options options = {.every_block = on_block, .user = &scaling};
	unsigned char *marked = calloc(recording->recording.event_count + 1, 1);
	struct vs_summary *summary = NULL;
	int r = marked ? vs_analyse(whatif->input.trace, &options, &summary) : -ENOMEM;

	vs_summary_free(summary);
	for (size_t i = 0; r == 0 && i < recording->recording.event_count; i++) {
		marked[i] = recording->events[i].kind == VS_REPLAY_ALLOC &&
		            vs_map_find(&scaling.sequences, recording->sequences[i]);
		whatif->scaled += marked[i];
	}
	if (r == 0)
		vs_replay_scale(whatif->program, marked, whatif->scale);
	free(marked);
	vs_map_done(&scaling.sequences);
	return r;
}

int vs_whatif_open(struct vs_whatif *whatif, const char *path)
{
	struct vs_replay_recording *recording;
	int r;

	r = vs_replay_open(path, &whatif->choice, &whatif->input);
	if (r < 0)
		return r;
	recording = &whatif->input.recording;
	if (recording->total > whatif->input.context && !whatif->input.snapshot)
		recording->room = 0; /* libraries may have had some: not proved */
	r = vs_replay_baseline(recording, &whatif->exactness, &whatif->program);
	if (r < 0) {
		vs_complain("%s: %s", path, r == -EOVERFLOW ? "sizes or addresses that no GPU has" : "out of memory");
		return r;
	}
	whatif->exact = whatif->exactness.addresses == whatif->exactness.addresses_exact &&
	                whatif->exactness.segments == whatif->exactness.segments_exact &&
	                whatif->exactness.ooms == whatif->exactness.ooms_exact;
	choose_card(whatif);
	if (!whatif->scale)
		return 0;
	if (whatif->input.snapshot) {
		vs_complain(
		    "%s: --scale-activations needs a run of vramrun: a snapshot does not tell what is an activation",
		    path);
		return -EINVAL;
	}
	r = scale(whatif);
	if (r < 0)
		vs_complain("%s: %s", path, strerror(-r));
	return r;
}

static bool outcome_fits(const struct vs_replay_outcome *outcome)
{
	return !outcome->refused && !outcome->stopped;
}

/* The lower bound asks for whole granules, in one piece. */
static void run_perfect(struct vs_whatif *whatif, struct vs_whatif_scenario *scenario)
{
	uint64_t needs = (whatif->perfect + ((UINT64_C(2) << 20) - 1)) >> 21 << 21;

	scenario->outcome.stats.allocated_peak = whatif->perfect;
	scenario->outcome.stats.reserved_peak = needs;
	scenario->fits = needs <= whatif->on.total - whatif->on.outside;
	for (size_t i = 0; vs_card_at(i) && !scenario->smallest; i++) {
		if (needs <= vs_card_at(i)->total - vs_card_at(i)->context)
			scenario->smallest = vs_card_at(i);
	}
}

static int find_smallest(struct vs_whatif *whatif, struct vs_whatif_scenario *scenario)
{
	for (size_t i = 0; vs_card_at(i); i++) {
		const struct vs_gpu_memory *card = vs_card_at(i);
		struct vs_replay_card on = {card->total, card->context};
		struct vs_replay_outcome outcome;
		int r;

		if (scenario->perfect || whatif->perfect > card->total - card->context)
			continue;
		r = vs_replay_scenario(whatif->program, &scenario->settings, &on, &outcome);
		if (r < 0)
			return r;
		if (outcome_fits(&outcome)) {
			scenario->smallest = card;
			return 0;
		}
	}
	return 0;
}

static int run_scenario(struct vs_whatif *whatif, struct vs_whatif_scenario *scenario)
{
	const char *where;
	int r;

	if (scenario->perfect) {
		snprintf(scenario->full, sizeof(scenario->full), "perfect");
		run_perfect(whatif, scenario);
		return 0;
	}
	scenario->settings = whatif->input.recording.settings;
	vs_caching_parse_settings(scenario->text, &scenario->settings, &where);
	vs_caching_print_settings(&scenario->settings, scenario->full, sizeof(scenario->full));
	r = vs_replay_scenario(whatif->program, &scenario->settings, &whatif->on, &scenario->outcome);
	if (r < 0)
		return r;
	scenario->fits = outcome_fits(&scenario->outcome);
	return 0;
}

/* The best first: fits, the least reserved, the fewest retries, the fewest calls. */
static int by_merit(const void *left, const void *right)
{
	const struct vs_whatif_scenario *a = left, *b = right;
	const struct vs_caching_stats *x = &a->outcome.stats, *y = &b->outcome.stats;

	if (a->perfect != b->perfect)
		return a->perfect - b->perfect; /* the bound is no setting: last */
	if (a->fits != b->fits)
		return b->fits - a->fits;
	if (x->reserved_peak != y->reserved_peak)
		return x->reserved_peak < y->reserved_peak ? -1 : 1;
	if (x->retries != y->retries)
		return x->retries < y->retries ? -1 : 1;
	return x->device_allocations < y->device_allocations ? -1 : x->device_allocations > y->device_allocations;
}

static bool in_time(const struct vs_whatif *whatif)
{
	struct timespec now;

	if (!whatif->until_ns)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < whatif->until_ns;
}

bool vs_whatif_serves(const struct vs_whatif_scenario *scenario, size_t event)
{
	/* What was refused before, the job caught. */
	return scenario->perfect ? scenario->fits
	                         : !scenario->outcome.stopped && scenario->outcome.last_refused != event;
}

int vs_whatif_run(struct vs_whatif *whatif)
{
	size_t count = 0;
	int r = 0;

	whatif->perfect = vs_replay_perfect(whatif->program);
	if (!whatif->count)
		r = vs_whatif_add(whatif, "as recorded", "");
	for (; r == 0 && count < whatif->count && in_time(whatif); count++)
		r = run_scenario(whatif, &whatif->scenarios[count]);
	whatif->count = count;
	for (size_t i = 0; r == 0 && i < whatif->count && in_time(whatif); i++)
		r = find_smallest(whatif, &whatif->scenarios[i]);
	if (r == 0 && whatif->sweep)
		qsort(whatif->scenarios, whatif->count, sizeof(whatif->scenarios[0]), by_merit);
	return r;
}

int vs_whatif_status(const struct vs_whatif *whatif)
{
	bool fits = false;

	for (size_t i = 0; i < whatif->count; i++)
		fits |= whatif->scenarios[i].fits;
	return whatif->exact && fits ? VS_ANSWER_YES : VS_ANSWER_NO;
}

void vs_whatif_close(struct vs_whatif *whatif)
{
	vs_replay_program_free(whatif->program);
	vs_replay_close(&whatif->input);
}
