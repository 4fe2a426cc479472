/* SPDX-License-Identifier: MIT */
#include "oom_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caching/settings.h"
#include "common/size.h"

#define NONE SIZE_MAX

/* The refusal in question: the last of the device. */
static size_t last_refusal(const struct vs_replay_recording *recording)
{
	for (size_t i = recording->event_count; i-- > 0;) {
		if (recording->events[i].kind == VS_REPLAY_OOM)
			return i;
	}
	return NONE;
}

/* What of the card was there for PyTorch. */
static bool place(struct vs_whatif *whatif, const struct vs_oom *oom)
{
	const uint64_t *n = oom->numbers;
	uint64_t room;

	if (!vs_oom_knows(oom, VS_OOM_FREE) || !vs_oom_knows(oom, VS_OOM_RESERVED))
		return false;
	room = n[VS_OOM_FREE] + n[VS_OOM_RESERVED];
	whatif->memory = vs_oom_knows(oom, VS_OOM_TOTAL) ? n[VS_OOM_TOTAL] : room;
	whatif->outside = whatif->memory > room ? whatif->memory - room : 0;
	whatif->outside_known = true;
	return true;
}

static int by_merit(const void *left, const void *right)
{
	const struct vs_oom_replayed *a = left, *b = right;

	if (a->serves != b->serves)
		return b->serves - a->serves;
	return a->reserved < b->reserved ? -1 : a->reserved > b->reserved;
}

static void collect(const struct vs_whatif *whatif, size_t event, struct vs_oom_sweep *sweep)
{
	char recorded[sizeof(whatif->scenarios[0].full)];

	vs_caching_print_settings(&whatif->input.recording.settings, recorded, sizeof(recorded));
	for (size_t i = 0; i < whatif->count; i++) {
		const struct vs_whatif_scenario *scenario = &whatif->scenarios[i];
		struct vs_oom_replayed *row = &sweep->list[sweep->count];

		if (scenario->perfect)
			continue;
		/* The run as it was, or with what was on already, which is no news. */
		if (!strcmp(scenario->full, recorded)) {
			sweep->searched |= !*scenario->text && whatif->card_known;
			sweep->smallest = scenario->smallest;
			continue;
		}
		sweep->count++;
		snprintf(row->name, sizeof(row->name), "%.31s", scenario->name);
		snprintf(row->settings, sizeof(row->settings), "%.127s", scenario->text);
		row->reserved = scenario->outcome.stats.reserved_peak;
		row->serves = vs_whatif_serves(scenario, event);
	}
	qsort(sweep->list, sweep->count, sizeof(sweep->list[0]), by_merit);
}

static void sweep_open(struct vs_whatif *whatif, struct vs_oom_sweep *sweep)
{
	size_t event = last_refusal(&whatif->input.recording), all;

	sweep->missing = "the replay is not exact for this run";
	if (!whatif->exact || whatif->input.lost || event == NONE)
		return;
	sweep->missing = "the run could not be replayed";
	if (vs_whatif_add_sweep(whatif) < 0)
		return;
	all = whatif->count;
	if (vs_whatif_run(whatif) < 0)
		return;
	sweep->partly = whatif->count < all;
	collect(whatif, event, sweep);
	sweep->missing = sweep->count ? NULL : "the time was too short";
}

void vs_oom_sweep_run(const char *path, int device, const struct vs_oom *oom, uint64_t until_ns,
                      struct vs_oom_sweep *ret_sweep)
{
	struct vs_whatif *whatif = calloc(1, sizeof(*whatif));
	struct vs_oom_sweep *sweep = ret_sweep;

	*sweep = (struct vs_oom_sweep){.missing = "the run could not be replayed"};
	if (!whatif)
		return;
	whatif->choice = (struct vs_replay_choice){.device = device, .rank = -1};
	whatif->until_ns = until_ns;
	if (!place(whatif, oom))
		sweep->missing = "what was free on the card is not known";
	else if (vs_whatif_open(whatif, path) == 0)
		sweep_open(whatif, sweep);
	vs_whatif_close(whatif);
	free(whatif);
}

static void replayed(const struct vs_oom *oom, const struct vs_oom_replayed *row, struct vs_oom_remedy *remedy)
{
	uint64_t needed = oom->numbers[VS_OOM_RESERVED] + oom->numbers[VS_OOM_REQUEST];

	remedy->evidence = VS_OOM_REPLAYED;
	remedy->enough = row->serves ? VS_OOM_YES : VS_OOM_NO;
	if (row->serves)
		remedy->saves = needed > row->reserved ? needed - row->reserved : 0;
}

static struct vs_oom_remedy *find(struct vs_oom_remedies *remedies, const char *name)
{
	for (size_t i = 0; i < remedies->count; i++) {
		if (!strcmp(remedies->list[i].name, name))
			return &remedies->list[i];
	}
	return NULL;
}

void vs_oom_sweep_remedies(const struct vs_oom *oom, struct vs_oom_sweep *sweep, struct vs_oom_remedies *remedies)
{
	const struct vs_oom_replayed *other = NULL;
	struct vs_oom_remedy *remedy;
	char size[VS_SIZE_MAX];

	for (size_t i = 0; i < sweep->count; i++) {
		struct vs_oom_replayed *row = &sweep->list[i];
		bool expandable = !strcmp(row->name, "expandable_segments");

		remedy = expandable ? find(remedies, row->name) : NULL;
		if (remedy)
			replayed(oom, row, remedy);
		if (!expandable && !strstr(row->settings, "expandable") && row->serves && !other)
			other = row;
	}
	if (other) {
		snprintf(sweep->remedies[0], sizeof(sweep->remedies[0]), "PYTORCH_CUDA_ALLOC_CONF=%s",
		         other->settings);
		remedy = vs_oom_remedy_add(remedies, "allocator_settings", sweep->remedies[0]);
		if (remedy)
			replayed(oom, other, remedy);
	}
	if (!sweep->missing && sweep->searched && sweep->smallest) {
		snprintf(sweep->remedies[1], sizeof(sweep->remedies[1]),
		         "a larger card: %s, %s, is the smallest that holds this run as it is", sweep->smallest->key,
		         vs_size_format(sweep->smallest->total, size));
		remedy = vs_oom_remedy_add(remedies, "larger_card", sweep->remedies[1]);
		if (remedy) {
			remedy->enough = VS_OOM_YES;
			remedy->evidence = VS_OOM_REPLAYED;
		}
	}
	vs_oom_remedies_sort(remedies);
}
