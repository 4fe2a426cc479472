/* SPDX-License-Identifier: MIT */
#include "whatif.h"

#include <inttypes.h>
#include <string.h>

#include "caching/settings.h"
#include "common/json.h"
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"

/* --- JSON --- */

static void json_baseline(struct vs_json *json, const struct vs_whatif *whatif)
{
	const struct vs_replay_exactness *e = &whatif->exactness;
	char settings[512];

	vs_caching_print_settings(&whatif->input.recording.settings, settings, sizeof(settings));
	vs_json_object(json, "baseline");
	vs_json_unsigned(json, "addresses_total", e->addresses);
	vs_json_unsigned(json, "addresses_exact", e->addresses_exact);
	vs_json_unsigned(json, "segments_total", e->segments);
	vs_json_unsigned(json, "segments_exact", e->segments_exact);
	vs_json_unsigned(json, "refusals_total", e->ooms);
	vs_json_unsigned(json, "refusals_exact", e->ooms_exact);
	vs_json_bool(json, "exact", whatif->exact);
	vs_json_string(json, "settings", settings);
	vs_json_unsigned(json, "allocated_peak_bytes", e->stats.allocated_peak);
	vs_json_unsigned(json, "reserved_peak_bytes", e->stats.reserved_peak);
	vs_json_unsigned(json, "retries", e->stats.retries);
	vs_json_unsigned(json, "cuda_allocations", e->stats.device_allocations);
	vs_json_unsigned(json, "empty_caches", e->empty_caches);
	vs_json_unsigned(json, "start_blocks", e->start_blocks);
	vs_json_unsigned(json, "start_bytes", e->start_bytes);
	vs_json_unsigned(json, "start_guessed_blocks", e->start_guessed);
	vs_json_end(json);
}

static void json_refusal(struct vs_json *json, const struct vs_replay_outcome *outcome)
{
	if (!outcome->refused) {
		vs_json_null(json, "oom");
		return;
	}
	vs_json_object(json, "oom");
	vs_json_unsigned(json, "requested_bytes", outcome->refused_size);
	vs_json_unsigned(json, "allocated_bytes", outcome->refused_allocated);
	vs_json_unsigned(json, "reserved_bytes", outcome->refused_reserved);
	vs_json_unsigned(json, "pinned_bytes", outcome->refused_pinned);
	vs_json_unsigned(json, "largest_free_bytes", outcome->refused_largest_free);
	vs_json_unsigned(json, "event", outcome->refused_event);
	vs_json_bool(json, "replay_stopped", outcome->stopped);
	vs_json_end(json);
}

static void json_scenario(struct vs_json *json, const struct vs_whatif *whatif, const struct vs_whatif_scenario *s)
{
	vs_json_object(json, NULL);
	vs_json_string(json, "name", s->name);
	vs_json_string(json, "settings", s->full);
	vs_json_unsigned(json, "allocated_peak_bytes", s->outcome.stats.allocated_peak);
	vs_json_unsigned(json, "reserved_peak_bytes", s->outcome.stats.reserved_peak);
	json_refusal(json, &s->outcome);
	if (whatif->card_known)
		vs_json_bool(json, "fits", s->fits);
	else
		vs_json_null(json, "fits");
	vs_json_string(json, "smallest_gpu", s->smallest ? s->smallest->key : NULL);
	vs_json_unsigned(json, "retries", s->outcome.stats.retries);
	vs_json_unsigned(json, "cuda_allocations", s->outcome.stats.device_allocations);
	vs_json_unsigned(json, "refusals_served", s->outcome.served);
	vs_json_end(json);
}

int vs_whatif_json(const struct vs_whatif *whatif, FILE *out)
{
	struct vs_json json = vs_json_on(out);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/whatif/1");
	vs_json_unsigned_if(&json, "pid", whatif->input.pid, whatif->input.pid);
	vs_json_unsigned(&json, "device", (uint64_t)whatif->input.device);
	if (whatif->card_known) {
		vs_json_unsigned(&json, "total_bytes", whatif->on.total);
		vs_json_unsigned(&json, "outside_bytes", whatif->on.outside);
		vs_json_string(&json, "outside_source", whatif->outside_source);
	} else {
		vs_json_null(&json, "total_bytes");
		vs_json_null(&json, "outside_bytes");
		vs_json_null(&json, "outside_source");
	}
	if (whatif->scale)
		vs_json_number(&json, "scale_activations", whatif->scale);
	json_baseline(&json, whatif);
	vs_json_array(&json, "scenarios");
	for (size_t i = 0; i < whatif->count; i++)
		json_scenario(&json, whatif, &whatif->scenarios[i]);
	vs_json_end(&json);
	vs_json_end(&json);
	return vs_whatif_status(whatif);
}

/* --- text --- */

static void say_share(const struct vs_screen *screen, const char *what, uint64_t exact, uint64_t all)
{
	char part[VS_SIZE_MAX], whole[VS_SIZE_MAX];

	if (!all)
		return;
	fprintf(screen->out, "  %-24s %s of %s as recorded (%.*f %%)\n", what, vs_count_format(exact, part),
	        vs_count_format(all, whole), exact == all ? 0 : 2, 100.0 * (double)exact / (double)all);
}

/* Why a replay may not be exact, as far as the recording shows. */
static void say_reasons(const struct vs_screen *screen, const struct vs_whatif *whatif)
{
	const struct vs_replay_input *input = &whatif->input;
	const struct vs_replay_exactness *e = &whatif->exactness;

	vs_screen_text(screen, 2,
	               "%sThe replay is not exact:%s what follows is an estimate, by as much as the replay is off.",
	               vs_screen_style(screen, VS_YELLOW), vs_screen_style(screen, VS_PLAIN));
	if (input->lost)
		vs_screen_text(screen, 4, "  - events are missing from the recording (--max-size was reached)");
	if (input->unknown)
		vs_screen_text(screen, 4, "  - a setting that this program does not know: %s", input->unknown);
	if (e->unknown_frees)
		vs_screen_text(screen, 4, "  - %" PRIu64 " blocks were freed that the recording does not know",
		               e->unknown_frees);
	if (e->overlaps)
		vs_screen_text(screen, 4, "  - %" PRIu64 " blocks at the start lie in no segment", e->overlaps);
	if (!input->snapshot)
		vs_screen_text(
		    screen, 4,
		    "  - traces do not tell streams, private pools (CUDA graphs, MemPool), record_stream and "
		    "set_per_process_memory_fraction: a job that uses them is replayed as if it did not");
	else if (input->from_snapshot && !input->from_snapshot->has_pools)
		vs_screen_text(screen, 4, "  - before torch 2.15 events do not tell their private pool");
}

/* A recording that begins within a job leaves open how its first blocks came to lie where they do. */
static void say_start(const struct vs_screen *screen, const struct vs_replay_exactness *e)
{
	char bytes[VS_SIZE_MAX], blocks[VS_SIZE_MAX], guessed[VS_SIZE_MAX], sizes[96] = "";

	if (!e->start_blocks)
		return;
	if (e->start_guessed)
		snprintf(sizes, sizeof(sizes), "; the exact size of %s of them is a guess",
		         vs_count_format(e->start_guessed, guessed));
	vs_screen_text(
	    screen, 2,
	    "  %sThe state at the start is approximate:%s the recording begins with %s live in %s block%s. "
	    "In which order they came, and where other settings would have put them, is not recorded%s.",
	    vs_screen_style(screen, VS_YELLOW), vs_screen_style(screen, VS_PLAIN),
	    vs_size_format(e->start_bytes, bytes), vs_count_format(e->start_blocks, blocks),
	    e->start_blocks == 1 ? "" : "s", sizes);
}

static void text_baseline(const struct vs_screen *screen, const struct vs_whatif *whatif)
{
	const struct vs_replay_exactness *e = &whatif->exactness;
	char settings[512], text[VS_SIZE_MAX], other[VS_SIZE_MAX];

	vs_caching_print_settings(&whatif->input.recording.settings, settings, sizeof(settings));
	fprintf(screen->out, "%sReplay under the recorded settings (%s)%s\n", vs_screen_style(screen, VS_BOLD),
	        settings, vs_screen_style(screen, VS_PLAIN));
	if (!whatif->input.history)
		vs_screen_text(screen, 2, "  The snapshot has no history: nothing to replay but its segments.");
	say_share(screen, "addresses of blocks", e->addresses_exact, e->addresses);
	say_share(screen, "segments", e->segments_exact, e->segments);
	say_share(screen, "refused requests", e->ooms_exact, e->ooms);
	fprintf(screen->out, "  %-24s %s allocated, %s reserved\n", "peak",
	        vs_size_format(e->stats.allocated_peak, text), vs_size_format(e->stats.reserved_peak, other));
	if (whatif->input.history)
		say_start(screen, e);
	if (!whatif->exact)
		say_reasons(screen, whatif);
	else if (!whatif->input.snapshot)
		vs_screen_text(
		    screen, 2,
		    "  Traces record the sizes of blocks: under other settings a large request may be up to "
		    "1 MiB less than replayed.");
}

static void text_card(const struct vs_screen *screen, const struct vs_whatif *whatif)
{
	char total[VS_SIZE_MAX], outside[VS_SIZE_MAX];
	const char *name = whatif->card ? whatif->card->name : whatif->memory ? "" : whatif->input.device_name;

	if (!whatif->card_known) {
		vs_screen_text(
		    screen, 0,
		    "The recording does not tell the card; name one with --gpu or --gpu-memory to see what "
		    "fits. Replayed as if memory had no end.\n");
		return;
	}
	vs_size_format(whatif->on.total, total);
	if (!strcmp(whatif->outside_source, "unknown"))
		vs_screen_text(
		    screen, 2,
		    "On %s%s%s, all of it for PyTorch: what the CUDA context and others take is not known; "
		    "--outside says it.",
		    name, *name ? ", " : "", total);
	else
		vs_screen_text(screen, 2, "On %s%s%s, of which %s%s taken by the CUDA context and others:", name,
		               *name ? ", " : "", total, vs_size_format(whatif->on.outside, outside),
		               !strcmp(whatif->outside_source, "assumed") ? " (assumed)" : "");
}

static const char *verdict(const struct vs_whatif *whatif, const struct vs_whatif_scenario *s)
{
	if (!whatif->card_known)
		return "";
	return s->fits ? "fits" : s->perfect ? "too big" : "refused";
}

static void text_scenarios(const struct vs_screen *screen, const struct vs_whatif *whatif)
{
	static const enum vs_column kinds[] = {VS_FLEX, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_LEFT, VS_LEFT};
	struct vs_table *table =
	    vs_table_new("scenario,reserved peak,above live,retries,CUDA calls,verdict,smallest card", kinds);
	char text[VS_SIZE_MAX];

	for (size_t i = 0; i < whatif->count; i++) {
		const struct vs_whatif_scenario *s = &whatif->scenarios[i];
		const struct vs_caching_stats *stats = &s->outcome.stats;
		uint64_t above = stats->reserved_peak > whatif->perfect ? stats->reserved_peak - whatif->perfect : 0;

		vs_table_cell(table, s->name);
		vs_table_cell(table, vs_size_format(stats->reserved_peak, text));
		if (s->outcome.stopped)
			vs_table_cell(table, "");
		else
			vs_table_cellf(table, "%+.1f %%",
			               whatif->perfect ? 100.0 * (double)above / (double)whatif->perfect : 0.0);
		vs_table_cell(table, s->perfect ? "" : vs_count_format(stats->retries, text));
		vs_table_cell(table, s->perfect ? "" : vs_count_format(stats->device_allocations, text));
		vs_table_cell(table, verdict(whatif, s));
		vs_table_cell(table, s->smallest ? s->smallest->key : "none");
		vs_table_style(table, s->perfect ? VS_DIM : s->fits ? VS_PLAIN : VS_RED);
	}
	vs_table_print(table, screen, 2);
}

static void text_refusals(const struct vs_screen *screen, const struct vs_whatif *whatif)
{
	char asked[VS_SIZE_MAX], allocated[VS_SIZE_MAX], pinned[VS_SIZE_MAX], largest[VS_SIZE_MAX];

	for (size_t i = 0; i < whatif->count; i++) {
		const struct vs_whatif_scenario *s = &whatif->scenarios[i];
		const struct vs_replay_outcome *o = &s->outcome;

		if (o->refused)
			vs_screen_text(
			    screen, 4,
			    "  %s: a request of %s is refused with %s live and %s free in segments in use, "
			    "the largest piece %s.",
			    s->name, vs_size_format(o->refused_size, asked),
			    vs_size_format(o->refused_allocated, allocated),
			    vs_size_format(o->refused_pinned, pinned),
			    vs_size_format(o->refused_largest_free, largest));
		if (o->served)
			vs_screen_text(screen, 4,
			               "  %s: serves %" PRIu64
			               " request%s that had been refused; what the job would have "
			               "asked for next is not recorded.\n",
			               s->name, o->served, o->served == 1 ? "" : "s");
	}
}

int vs_whatif_text(const struct vs_whatif *whatif, FILE *out)
{
	struct vs_screen screen = vs_screen_on(out);

	text_baseline(&screen, whatif);
	fputc('\n', out);
	if (whatif->scale)
		vs_screen_text(&screen, 2,
		               "With %" PRIu64
		               " requests for activations, outputs, inputs and temporaries of forward and "
		               "backward times %g: a first look at another batch size.",
		               whatif->scaled, whatif->scale);
	text_card(&screen, whatif);
	text_scenarios(&screen, whatif);
	text_refusals(&screen, whatif);
	return vs_whatif_status(whatif);
}
