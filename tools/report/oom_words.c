/* SPDX-License-Identifier: MIT
 *
 * An out-of-memory error in words.
 */
#include <inttypes.h>
#include <math.h>

#include "common/size.h"
#include "common/table.h"
#include "oom.h"

static const char *size_of(const struct vs_oom_case *c, enum vs_oom_number number, char text[VS_SIZE_MAX])
{
	if (!vs_oom_knows(&c->oom, number)) {
		snprintf(text, VS_SIZE_MAX, "unknown");
		return text;
	}
	return vs_size_format(c->oom.numbers[number], text);
}

static void request(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char asked[VS_SIZE_MAX], total[VS_SIZE_MAX];
	uint64_t bytes = c->oom.numbers[VS_OOM_REQUEST];

	if (c->oom.absurd) {
		vs_screen_text(screen, 0,
		               "More than 2^60 bytes were asked for: a size is wrong (negative, or multiplied "
		               "once too often).");
		return;
	}
	vs_screen_text(
	    screen, 0,
	    "The request of %s exceeds the whole card (%s): no setting can serve it. It is a wrong size, or "
	    "grows with the square of the sequence: attention scores of 16 bits with 32 heads take that much "
	    "at %.0f tokens, one square matrix of 4-byte numbers at %.0f rows.",
	    size_of(c, VS_OOM_REQUEST, asked), size_of(c, VS_OOM_TOTAL, total), sqrt(bytes / 2.0 / 32),
	    sqrt(bytes / 4.0));
}

static void limit(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char asked[VS_SIZE_MAX], available[VS_SIZE_MAX], allowed[VS_SIZE_MAX];

	if (c->oom.source == VS_OOM_PYTORCH_ADDRESSES)
		vs_screen_text(screen, 0,
		               "Not memory ran out but address space: each expandable segment reserves "
		               "more of it than the card has memory, and the system (ulimit -v, the "
		               "container) gives no more.");
	else if (c->oom.source == VS_OOM_PYTORCH_REJECTED)
		vs_screen_text(screen, 0,
		               "PyTorch refused %s without asking the driver: it would go beyond "
		               "per_process_memory_fraction (throw_on_cudamalloc_oom is set).",
		               size_of(c, VS_OOM_REQUEST, asked));
	else if (vs_oom_knows(&c->oom, VS_OOM_LIMIT))
		vs_screen_text(screen, 0,
		               "A limit refused %s: no more than %s are allowed to this process or its pool (memory "
		               "fraction).",
		               size_of(c, VS_OOM_REQUEST, asked), size_of(c, VS_OOM_LIMIT, allowed));
	else
		vs_screen_text(
		    screen, 0,
		    "%s were refused with %s free on the card: not memory was missing. A limit of the system, "
		    "the container, a MIG slice or a MemPool of its own stands in the way, or another process had "
		    "the memory at "
		    "that moment and gave it back.",
		    size_of(c, VS_OOM_REQUEST, asked), size_of(c, VS_OOM_FREE, available));
}

static void fragmentation(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char spare[VS_SIZE_MAX], asked[VS_SIZE_MAX], allocated[VS_SIZE_MAX];

	size_of(c, VS_OOM_UNALLOCATED, spare);
	size_of(c, VS_OOM_REQUEST, asked);
	size_of(c, VS_OOM_ALLOCATED, allocated);
	if (c->oom.source == VS_OOM_CUDA)
		vs_screen_text(
		    screen, 0,
		    "PyTorch's cache has it: %s are reserved but unallocated, more than the %s that were "
		    "asked for; live tensors are only %s. PyTorch gives back what it has cached when it needs "
		    "memory itself, not when others do.",
		    spare, asked, allocated);
	else
		vs_screen_text(
		    screen, 0,
		    "Fragmentation: %s are reserved but unallocated, more than the %s that were asked for, and "
		    "not in one piece; live tensors are only %s.",
		    spare, asked, allocated);
}

static void other_process(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char held[VS_SIZE_MAX], missing[VS_SIZE_MAX];
	unsigned named = c->oom.other_processes;

	size_of(c, VS_OOM_OTHERS, held);
	size_of(c, VS_OOM_SHORTFALL, missing);
	if (named)
		vs_screen_text(screen, 0, "%u other process%s hold%s %s of this card; %s were missing.", named,
		               named == 1 ? "" : "es", named == 1 ? "s" : "", held, missing);
	else if (!c->oom.others_inferred)
		vs_screen_text(screen, 0,
		               "Other processes hold %s of this card (nvidia-smi names them); %s were missing.", held,
		               missing);
	else
		vs_screen_text(screen, 0,
		               "%s of this card are used beyond all that this process is known to hold: by other "
		               "processes, most likely (nvidia-smi names them); %s were missing.",
		               held, missing);
}

/* Of what is free anywhere, after a request that would fit into it. */
static const char *to_spare(const struct vs_oom_case *c, char *ret_text)
{
	const uint64_t *n = c->oom.numbers;
	uint64_t cached = vs_oom_knows(&c->oom, VS_OOM_UNALLOCATED) ? n[VS_OOM_UNALLOCATED] : 0;

	return vs_size_format(n[VS_OOM_FREE] + cached - n[VS_OOM_REQUEST], ret_text);
}

static void full(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char allocated[VS_SIZE_MAX], total[VS_SIZE_MAX], missing[VS_SIZE_MAX], available[VS_SIZE_MAX];
	const uint64_t *n = c->oom.numbers;
	bool card = vs_oom_knows(&c->oom, VS_OOM_TOTAL);

	size_of(c, VS_OOM_ALLOCATED, allocated);
	size_of(c, card ? VS_OOM_TOTAL : VS_OOM_LIMIT, total);
	if (c->oom.source == VS_OOM_PLAIN)
		vs_screen_text(
		    screen, 0, "Full: this process holds %s of the card's %s, %s were free, and %s were asked for.",
		    allocated, total, size_of(c, VS_OOM_FREE, available), size_of(c, VS_OOM_REQUEST, missing));
	else if (!card && !vs_oom_knows(&c->oom, VS_OOM_LIMIT) && vs_oom_knows(&c->oom, VS_OOM_SHORTFALL))
		vs_screen_text(
		    screen, 0,
		    "Full: %s are live tensors, %s were free on the card, and even with all that PyTorch holds "
		    "unallocated %s are missing.",
		    allocated, size_of(c, VS_OOM_FREE, available), size_of(c, VS_OOM_SHORTFALL, missing));
	else if (card && n[VS_OOM_ALLOCATED] > n[VS_OOM_TOTAL])
		vs_screen_text(
		    screen, 0,
		    "Full: %s are allocated on a card of %s. The driver has moved part of it into the host's memory "
		    "(Windows, WSL), which is slow, and has no more to give.",
		    allocated, total);
	else if (vs_oom_knows(&c->oom, VS_OOM_SHORTFALL) && n[VS_OOM_SHORTFALL])
		vs_screen_text(screen, 0,
		               "Really full: %s of %s are live tensors, and even with all that is free anywhere %s "
		               "are missing. No "
		               "allocator setting helps.",
		               allocated, total, size_of(c, VS_OOM_SHORTFALL, missing));
	else if (vs_oom_knows(&c->oom, VS_OOM_SHORTFALL) && c->oom.source == VS_OOM_PYTORCH)
		vs_screen_text(
		    screen, 0,
		    "Full: %s of %s are live tensors. The request would fit into what is free on the card and "
		    "what is reserved but unallocated together, with %s to spare, so other allocator settings "
		    "may help, expandable segments first.",
		    allocated, total, to_spare(c, missing));
	else
		vs_screen_text(screen, 0, "Full: %s of %s are live tensors.", allocated, total);
}

static void unknown(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char asked[VS_SIZE_MAX];

	if (c->recorded) {
		vs_screen_text(screen, 0,
		               "What was free on the card then is not recorded: the numbers do not tell why.");
		return;
	}
	if (c->oom.source == VS_OOM_CUDA)
		vs_screen_text(screen, 0,
		               "CUDA itself or a library on it (cuBLAS, NCCL, a context) was refused, outside "
		               "PyTorch's allocator, which therefore gave nothing back before. The text has no "
		               "number that tells why.");
	else
		vs_screen_text(screen, 0, "%s were refused. The text has too few numbers to tell why.",
		               size_of(c, VS_OOM_REQUEST, asked));
	vs_screen_text(screen, 0, "To know, record the job: vramrun -o run -- COMMAND, then vramreport oom run.");
}

void vs_oom_print_cause(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	char one[VS_SIZE_MAX], two[VS_SIZE_MAX];

	fprintf(screen->out, "%sOut of memory: %s%s\n", vs_screen_style(screen, VS_BOLD), vs_oom_cause_name(c->cause),
	        vs_screen_style(screen, VS_PLAIN));
	switch (c->cause) {
	case VS_OOM_CAUSE_REQUEST:
		request(screen, c);
		break;
	case VS_OOM_CAUSE_LIMIT:
		limit(screen, c);
		break;
	case VS_OOM_CAUSE_FRAGMENTATION:
		fragmentation(screen, c);
		break;
	case VS_OOM_CAUSE_OTHER_PROCESS:
		other_process(screen, c);
		break;
	case VS_OOM_CAUSE_OUTSIDE:
		vs_screen_text(screen, 0,
		               "%s on the card are outside PyTorch's allocator, and %s were missing: NCCL, "
		               "libraries, CUDA contexts, "
		               "or processes that are not seen from here.",
		               size_of(c, VS_OOM_OUTSIDE, one), size_of(c, VS_OOM_SHORTFALL, two));
		break;
	case VS_OOM_CAUSE_FULL:
		full(screen, c);
		break;
	default:
		unknown(screen, c);
	}
	if (c->oom.own_guessed)
		vs_screen_text(screen, 0,
		               "One of the processes named holds just what PyTorch says and a little more: taken for "
		               "the job itself, whose pid differs inside a container.");
}

void vs_oom_print_numbers(const struct vs_screen *screen, const struct vs_oom_case *c)
{
	static const struct {
		enum vs_oom_number number;
		const char *name, *meaning;
		const char *plain; /* its name where there is no PyTorch, if another */
	} rows[] = {
	    {VS_OOM_REQUEST, "asked for", "of the driver: a segment, 20 MiB for a tensor of 1 to 10 MiB"},
	    {VS_OOM_TOTAL, "card", ""},
	    {VS_OOM_LIMIT, "limit", "of this process or its pool"},
	    {VS_OOM_FREE, "free", "on the card, caches given back"},
	    {VS_OOM_ALLOCATED, "allocated", "live tensors", "this process holds"},
	    {VS_OOM_UNALLOCATED, "unallocated", "reserved by the allocator, free for tensors that fit its pieces"},
	    {VS_OOM_PRIVATE, "private pools", "free, but for CUDA graphs alone"},
	    {VS_OOM_OUTSIDE, "outside PyTorch", "context, NCCL, libraries, what is not named", "CUDA context, rest"},
	    {VS_OOM_OTHERS, "other processes", "named, or else: used and not known to be this one's"},
	    {VS_OOM_SHORTFALL, "shortfall", "asked for - free - unallocated"},
	};
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_FLEX};
	struct vs_table *table = vs_table_new(",,", kinds);
	char size[VS_SIZE_MAX];
	bool any = false;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		any |= vs_oom_knows(&c->oom, rows[i].number);
	if (any)
		vs_screen_title(screen, "The numbers");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* The request's meaning is PyTorch's, and without it so are the tensors'. */
		bool plain = (rows[i].number == VS_OOM_REQUEST && c->oom.source != VS_OOM_PYTORCH) ||
		             c->oom.source == VS_OOM_PLAIN;
		if (!vs_oom_knows(&c->oom, rows[i].number) ||
		    (rows[i].number == VS_OOM_UNALLOCATED && c->oom.source == VS_OOM_PLAIN))
			continue;
		vs_table_cell(table, c->oom.source == VS_OOM_PLAIN && rows[i].plain ? rows[i].plain : rows[i].name);
		vs_table_cell(table, size_of(c, rows[i].number, size));
		vs_table_cell(table, plain ? "" : rows[i].meaning);
	}
	vs_table_print(table, screen, 2);
}

void vs_oom_print_remedies(const struct vs_screen *screen, const struct vs_oom_case *c, size_t most)
{
	static const char *const answers[] = {
	    [VS_OOM_NO] = " (not enough)", [VS_OOM_YES] = " (enough)", [VS_OOM_MAYBE] = ""};
	bool brief = most < VS_OOM_REMEDIES_MAX;
	char size[VS_SIZE_MAX], line[512], fit[512];

	for (size_t i = 0; i < c->remedies.count && most; i++) {
		const struct vs_oom_remedy *remedy = &c->remedies.list[i];
		if (!remedy->saves && remedy->enough == VS_OOM_NO)
			continue;
		most--;
		if (remedy->saves == VS_OOM_UNKNOWN)
			snprintf(line, sizeof(line), "  - %s", remedy->what);
		else
			snprintf(line, sizeof(line), "  - %s%s%s: %s",
			         remedy->evidence == VS_OOM_ESTIMATED ? "about " : "",
			         vs_size_format(remedy->saves, size), answers[remedy->enough], remedy->what);
		if (brief) {
			vs_text_fit(screen, line, screen->width, VS_CUT_END, fit, sizeof(fit));
			fprintf(screen->out, "%s\n", fit);
		} else {
			vs_screen_text(screen, 4, "%s.", line);
		}
	}
}
