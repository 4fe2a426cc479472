/* SPDX-License-Identifier: MIT
 *
 * The account of the card as people read it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/size.h"
#include "common/table.h"
#include "outside.h"
#include "report.h"

static const struct {
	const char *library, *title, *note;
} known_libraries[] = {
    {"torch", "PyTorch, past its allocator", "symmetric memory, IPC, its own buffers"},
    {"nccl", "NCCL", "communicators and their buffers"},
    {"cublas", "cuBLAS", "workspaces it made itself"},
    {"cublaslt", "cuBLASLt", ""},
    {"cudnn", "cuDNN", ""},
    {"cusolver", "cuSOLVER", ""},
    {"cusparse", "cuSPARSE", ""},
    {"cufft", "cuFFT", ""},
    {"nvshmem", "NVSHMEM", ""},
    {"bitsandbytes", "bitsandbytes", ""},
    {"triton", "Triton", ""},
    {"other", "others", "asked for with no stack that names a library"},
};

struct lines {
	struct vs_table *table;
	uint64_t whole; /* the card's used bytes, or the sum */
};

static void line(struct lines *lines, const char *name, int64_t bytes, const char *note)
{
	char size[VS_SIZE_MAX];

	vs_table_cell(lines->table, name);
	vs_table_cell(lines->table, bytes < 0 ? vs_size_format_signed(bytes, size) : vs_size_format(bytes, size));
	if (bytes >= 0 && lines->whole)
		vs_table_cellf(lines->table, "%.1f%%", 100.0 * bytes / lines->whole);
	else
		vs_table_cell(lines->table, "");
	vs_table_cell(lines->table, note);
}

static void pytorch_lines(struct lines *lines, const struct vs_outside *outside)
{
	const struct vs_sample *at = &outside->at;

	if (!at->pytorch)
		return;
	if (outside->split_known) {
		line(lines, "PyTorch, allocated", (int64_t)outside->allocated, "tensors");
		line(lines, "  cached, releasable", (int64_t)outside->cached.releasable,
		     "whole free segments: empty_cache() gives them back");
		line(lines, "  cached, pinned", (int64_t)outside->cached.pinned, "free pieces of segments in use");
	} else if (outside->pool == at->pytorch) {
		line(lines, "PyTorch", (int64_t)at->pytorch, "tensors in a memory pool of CUDA's (cudaMallocAsync)");
	} else {
		line(lines, "PyTorch, reserved", (int64_t)at->pytorch, "how it is split is not known");
	}
}

static void library_lines(struct lines *lines, const struct vs_outside *outside)
{
	const size_t count = sizeof(known_libraries) / sizeof(*known_libraries);

	for (size_t i = 0; i < outside->library_count; i++) {
		const struct vs_library_bytes *library = &outside->libraries[i];
		const char *title = library->library, *note = "by the name of its file";

		for (size_t j = 0; j < count; j++) {
			if (!strcmp(known_libraries[j].library, library->library)) {
				title = known_libraries[j].title;
				note = known_libraries[j].note;
			}
		}
		line(lines, title, (int64_t)library->bytes, note);
	}
}

static void other_lines(struct lines *lines, const struct vs_outside_account *account)
{
	const struct vs_neighbours *neighbours = &account->neighbours;
	char name[48], note[64];

	for (size_t i = 0; i < neighbours->count; i++) {
		const struct vs_neighbour *neighbour = &neighbours->list[i];

		snprintf(name, sizeof(name), "process %" PRIu32, neighbour->pid);
		note[0] = '\0';
		if (neighbour->rank >= 0)
			snprintf(note, sizeof(note), "rank %d, ", neighbour->rank);
		strcat(note, "also in this run");
		line(lines, name, (int64_t)neighbour->bytes, note);
	}
	if (!account->others_known)
		return;
	/* What the run's own processes hold beyond their recording is theirs too, and in this line. */
	line(lines, neighbours->count ? "other processes, rest" : "other processes",
	     (int64_t)(account->others - neighbours->bytes), "by the driver's account");
}

/* What may be in the line, as far as it is not a line of its own. */
static const char *unexplained_note(const struct vs_outside_account *account, char *text, size_t size)
{
	const struct vs_outside *outside = account->outside;
	const struct vs_sample *at = &outside->at;
	uint64_t known = at->context + at->pytorch + at->libraries + at->rounding;
	bool context = outside->context_source[0];
	char mine[VS_SIZE_MAX];

	if (account->unexplained < 0)
		snprintf(text, size, "the lines above say more than the card has lost");
	else if (!account->unexplained)
		snprintf(text, size, "every byte has its line");
	else if (context && at->own > known)
		snprintf(text, size, "%s of it this process's: code loaded later, or calls not recorded",
		         vs_size_format(at->own - known, mine));
	else
		snprintf(text, size, "%s%sor what no recorded call asked for", context ? "" : "the CUDA context, ",
		         account->others_known ? "" : "other processes, ");
	return text;
}

/* "PyTorch says X, nvidia-smi says Y": the answer in a sentence. */
static void answer(const struct vs_screen *screen, const struct vs_outside_account *account)
{
	const struct vs_outside *outside = account->outside;
	char used[VS_SIZE_MAX], mine[VS_SIZE_MAX], rest[VS_SIZE_MAX], when[64];
	struct vs_point instant = {.step = outside->at.step, .phase = outside->at.phase};
	uint64_t tensors = outside->split_known ? outside->allocated : outside->at.pytorch;

	if (!account->sampled) {
		vs_screen_text(screen, 2,
		               "  The driver was never asked how much is free: these are the bytes that this process "
		               "asked for, at their highest%s.",
		               outside->context_source[0] ? "" : ", without the CUDA context");
		return;
	}
	if (!account->pytorch) {
		vs_screen_text(screen, 2, "  When it was fullest, %s of the card were used:",
		               vs_size_format(outside->at.used, used));
		return;
	}
	vs_screen_text(screen, 2, "  When it was fullest, %s, %s of the card were used; %s of that %s. The other %s:",
	               vs_report_instant(&instant, when, sizeof(when)), vs_size_format(outside->at.used, used),
	               vs_size_format(tensors, mine),
	               outside->split_known ? "were PyTorch's tensors" : "PyTorch held",
	               vs_size_format(outside->at.used > tensors ? outside->at.used - tensors : 0, rest));
}

void vs_outside_print(const struct vs_screen *screen, const struct vs_outside_account *account)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_FLEX};
	const struct vs_outside *outside = account->outside;
	const struct vs_sample *at = &outside->at;
	struct lines lines = {.whole = at->used};
	char text[160], size[VS_SIZE_MAX];

	if (!account->sampled)
		lines.whole = at->context + at->pytorch + at->libraries + at->rounding;
	vs_screen_title(screen, account->pytorch ? "Outside PyTorch" : "What is on the card");
	answer(screen, account);
	lines.table = vs_table_new(",,,", kinds);
	pytorch_lines(&lines, outside);
	if (outside->context_source[0])
		line(&lines, "CUDA context", (int64_t)at->context, outside->context_source);
	library_lines(&lines, outside);
	if (at->idle)
		line(&lines, "memory pools, idle", (int64_t)at->idle, "CUDA's pools keep it, and nobody uses it");
	if (at->rounding > at->idle)
		line(&lines, "rounding", (int64_t)(at->rounding - at->idle), "the card gives whole pages of 2 MiB");
	other_lines(&lines, account);
	if (account->sampled) {
		line(&lines, "unexplained", account->unexplained, unexplained_note(account, text, sizeof(text)));
		if (account->unexplained)
			vs_table_style(lines.table, VS_YELLOW);
	}
	line(&lines, account->sampled ? "used of the card" : "known", (int64_t)lines.whole,
	     account->sampled ? "what nvidia-smi shows" : "");
	vs_table_style(lines.table, VS_BOLD);
	vs_table_print(lines.table, screen, 2);
	if (at->managed)
		vs_screen_text(
		    screen, 2,
		    "  Managed memory: %s, which CUDA moves between host and card; what of it is on the card "
		    "no call tells, so it counts as unexplained.",
		    vs_size_format(at->managed, size));
	if (outside->unsampled)
		vs_screen_text(
		    screen, 2,
		    "  For a moment this process held %s more; the driver was not asked for the free memory then.",
		    vs_size_format(outside->unsampled, size));
}
