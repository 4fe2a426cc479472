/* SPDX-License-Identifier: MIT
 *
 * The post-mortem as people read it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/size.h"
#include "frames.h"
#include "oom.h"
#include "report.h"

/* For a job's stderr: what fits beside its own traceback. */
#define BRIEF_LINES 25

static void who(const struct vs_oom_post *post, char *text, size_t size)
{
	const struct vs_summary *summary = post->subject->summary;
	char name[VS_WHO_MAX], rank[32] = "";

	if (summary->rank >= 0)
		snprintf(rank, sizeof(rank), ", rank %d", summary->rank);
	snprintf(text, size, "%s%s, GPU %d", vs_who(summary, name), rank, post->device->index);
}

/* The error before this one: a job that catches them tries again with less. */
static void earlier(const struct vs_oom_post *post, char *text, size_t size)
{
	size_t errors = post->errors - 1;

	text[0] = '\0';
	if (errors)
		snprintf(text, size, " %zu earlier error%s, which the job caught.", errors, errors == 1 ? "" : "s");
}

/* "20.00 GiB", "a context", "memory of a graph", "20.00 GiB, and the context before that". */
static void refused(const struct vs_refusal *refusal, char *text, size_t size)
{
	char asked[VS_SIZE_MAX];

	if (refusal->context || refusal->graph)
		snprintf(text, size, refusal->graph ? "memory of a graph" : "a context");
	else
		snprintf(text, size, "%s%s", vs_size_format(refusal->size, asked),
		         refusal->first ? ", and the context before that," : "");
}

static void headline(const struct vs_screen *screen, const struct vs_oom_post *post)
{
	const struct vs_refusal *refusal = &post->refusal;
	char when[64] = "", asked[VS_SIZE_MAX + 64], name[96], before[64];
	bool running = post->subject->summary->exit == VS_EXIT_RUNNING;
	const char *after = "";

	who(post, name, sizeof(name));
	refused(refusal, asked, sizeof(asked));
	earlier(post, before, sizeof(before));
	if (post->event ? post->event->caught : refusal->caught)
		after =
		    post->event ? " The job caught the error and went on." : " The process went on and got memory.";
	else if (!post->event && running)
		after = " The caller may yet do with less.";
	if (post->event)
		vs_screen_text(screen, 0, "%s, %s: %s were asked for.%s%s", name,
		               vs_report_instant(&post->event->at, when, sizeof(when)),
		               vs_size_format(post->event->requested, asked), after, before);
	else
		vs_screen_text(screen, 0, "%s: CUDA refused %s to %s (%.64s)%s.%s%s", name, asked,
		               refusal->library[0] ? refusal->library : "somebody unknown",
		               refusal->entry ? refusal->entry : "an unknown function",
		               refusal->first      ? ""
		               : refusal->by_torch ? ", which PyTorch uses without its own cache here"
		               : refusal->torch    ? ", not to PyTorch's allocator"
		                                   : "",
		               after, before);
}

static void by_tag(const struct vs_screen *screen, const struct vs_oom_post *post)
{
	const struct vs_point *at = &post->event->at;
	char text[512] = "", size[VS_SIZE_MAX];
	bool said[VS_TAG_COUNT] = {false};
	size_t used = 0;

	for (unsigned i = 0; i < VS_TAG_COUNT && used < sizeof(text); i++) {
		unsigned most = VS_TAG_COUNT;
		for (unsigned j = 0; j < VS_TAG_COUNT; j++) {
			if (!said[j] && at->tags[j] && (most == VS_TAG_COUNT || at->tags[j] > at->tags[most]))
				most = j;
		}
		if (most == VS_TAG_COUNT)
			break;
		said[most] = true;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", used ? ", " : "",
		                         vs_tag_name(most), vs_size_format(at->tags[most], size));
	}
	vs_screen_text(screen, 2, "Allocated then: %s.", used ? text : "nothing");
}

static void holders(const struct vs_screen *screen, const struct vs_oom_post *post, bool brief)
{
	size_t most = brief ? 3 : 8;
	char size[VS_SIZE_MAX], line[1024], fit[1024];

	if (!brief && post->holder_count)
		vs_screen_title(screen, "Who holds it: call stacks");
	for (size_t i = 0; i < post->holder_count && i < most; i++) {
		const struct vs_oom_holder *holder = &post->holders[i];
		const struct vs_frame *frames;
		struct vs_telling telling = {0};
		size_t count, used;

		used = (size_t)snprintf(line, sizeof(line), "%s %s, %" PRIu64 " %s%s",
		                        vs_size_format(holder->bytes, size), holder->what, holder->blocks,
		                        post->event ? "block" : "allocation", holder->blocks == 1 ? "" : "s");
		if (!brief) {
			fprintf(screen->out, "  %s, stack %" PRIu32 "\n", line, holder->stack);
			vs_report_stack(screen, post->subject, holder->stack);
			continue;
		}
		if (vs_symbol_stack(post->subject->symbols, holder->stack, &frames, &count) == 0)
			vs_frames_telling(frames, count, &telling);
		for (unsigned j = 0; j < telling.count && used < sizeof(line); j++)
			used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s", j ? " < " : ": ",
			                         telling.frames[j]);
		vs_text_fit(screen, line, screen->width - 2, VS_CUT_END, fit, sizeof(fit));
		fprintf(screen->out, "  %s\n", fit);
	}
}

/* "expandable_segments (14.28 GiB), max_split_size 64 (14.31 GiB)"; how many. */
static size_t list_replays(const struct vs_oom_sweep *sweep, bool serves, char *text, size_t size)
{
	size_t count = 0, used = 0;
	char needs[VS_SIZE_MAX];

	text[0] = '\0';
	for (size_t i = 0; i < sweep->count; i++) {
		const struct vs_oom_replayed *row = &sweep->list[i];
		if (row->serves != serves)
			continue;
		if (used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", count ? ", " : "", row->name);
		if (used < size && serves)
			used += (size_t)snprintf(text + used, size - used, " (needs %s)",
			                         vs_size_format(row->reserved, needs));
		count++;
	}
	return count;
}

static void evidence(const struct vs_screen *screen, const struct vs_oom_post *post)
{
	const struct vs_oom_sweep *sweep = &post->sweep;
	char helps[768], not [512], card[96] = "";
	size_t good, bad;

	if (!post->event)
		return;
	if (sweep->missing) {
		vs_screen_text(screen, 0, "What other settings would do was not replayed: %s.", sweep->missing);
		return;
	}
	good = list_replays(sweep, true, helps, sizeof(helps));
	bad = list_replays(sweep, false, not, sizeof(not ));
	if (sweep->searched && !sweep->smallest)
		snprintf(card, sizeof(card), " Nor does any larger card in the table.");
	if (!good)
		vs_screen_text(screen, 0,
		               "Replayed with %zu other allocator settings, this run is out of memory as well%s.%s",
		               bad, post->c.oom.expandable ? "" : ", expandable segments among them", card);
	else
		vs_screen_text(screen, 0, "Replayed, this run gets past this point with %s%s%s.", helps,
		               bad ? "; not with " : "", not );
	if (sweep->partly)
		vs_screen_text(screen, 0, "There was no time for all settings: vramreport oom RUN tries the rest.");
}

static void print(const struct vs_screen *screen, const struct vs_oom_post *post, bool brief)
{
	vs_oom_print_cause(screen, &post->c);
	headline(screen, post);
	if (post->stack && !brief)
		vs_report_stack(screen, post->subject, post->stack);
	vs_oom_print_numbers(screen, &post->c);
	if (post->event) {
		if (!brief)
			vs_screen_title(screen, "What the memory held");
		by_tag(screen, post);
	}
	holders(screen, post, brief);
	if (!brief)
		vs_screen_title(screen, "What helps");
	evidence(screen, post);
	vs_oom_print_remedies(screen, &post->c, brief ? 5 : VS_OOM_REMEDIES_MAX);
}

void vs_oom_post_print(const struct vs_screen *screen, const struct vs_oom_post *post, bool brief)
{
	struct vs_screen own = *screen;
	unsigned lines = 0;
	char *text = NULL;
	size_t size = 0;

	own.out = brief ? open_memstream(&text, &size) : screen->out;
	if (!own.out)
		return;
	print(&own, post, brief);
	if (!brief)
		return;
	if (fclose(own.out) == 0) {
		/* Blank lines are for those who have room. */
		for (char *line = text, *end; lines < BRIEF_LINES && (end = strchr(line, '\n')); line = end + 1) {
			if (end == line)
				continue;
			fwrite(line, 1, (size_t)(end + 1 - line), screen->out);
			lines++;
		}
	}
	free(text);
}

static void segments(const struct vs_screen *screen, const struct vs_device_summary *device)
{
	const struct vs_fragmentation *f = &device->fragmentation;
	char allocated[VS_SIZE_MAX], reserved[VS_SIZE_MAX], releasable[VS_SIZE_MAX], pinned[VS_SIZE_MAX],
	    largest[VS_SIZE_MAX];

	vs_screen_text(screen, 2, "GPU %d, when most was allocated: %s of %s reserved.", device->index,
	               vs_size_format(device->peak.allocated, allocated),
	               vs_size_format(device->peak.reserved, reserved));
	if (!f->segments)
		return;
	vs_screen_text(
	    screen, 2,
	    "  Unallocated: %s in whole segments, which a request or empty_cache() gives back, and %s in "
	    "pieces of segments in use, which only expandable segments make use of for larger requests; the "
	    "largest free piece is %s.",
	    vs_size_format(f->releasable, releasable), vs_size_format(f->pinned, pinned),
	    vs_size_format(f->largest_free, largest));
}

void vs_oom_post_print_none(const struct vs_screen *screen, const struct vs_oom_post *post)
{
	const struct vs_summary *summary = post->subjects.count ? post->subjects.list[0].summary : NULL;

	if (!summary || !summary->snapshot) {
		fputs("Memory did not run out in this run.\n", screen->out);
		return;
	}
	vs_screen_text(
	    screen, 0,
	    "No out-of-memory error is in this snapshot: it did not happen, or its history was not recorded "
	    "or does not reach back to it.");
	for (size_t i = 0; i < summary->device_count; i++)
		segments(screen, &summary->devices[i]);
}
