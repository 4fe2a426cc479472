/* SPDX-License-Identifier: MIT
 *
 * The weights in the order they were made are a few tensors, then the same few again for every layer: the period
 * gives the layers, and what a family puts into one gives the sizes.
 */
#include "infer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/preset.h"

/* A block is its request rounded up to 512 bytes; one above 1 MiB may keep up to 1 MiB more, which the allocator does
 * not split off (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kSmallSize). */
#define BLOCK UINT64_C(512)
#define SLACK (UINT64_C(1) << 20)
/* Smaller requests share segments of 20 MiB (kMinLargeAlloc, kLargeBuffer): what one keeps more is a segment's rest.
 * Of many of one size the first in a segment keeps nothing. Larger ones have segments of their own, of whole 2 MiB.
 */
#define SHARED (UINT64_C(10) << 20)

/* A longer period than any family's layer has tensors. */
#define PERIOD_MAX 48

/* The tensors of one layer in the order the classes make them. Matrices: Q K V O projections, G gate, up and (D) down
 * of the feed-forward. Vectors: N norms and biases of the hidden size, q k f biases of the projections' sizes, d
 * norms of a head. C: GPT-2's projection to all three, c its bias. */
static const struct {
	enum vs_family family;
	const char *roles;
} templates[] = {
    {VS_FAMILY_LLAMA, "QKVOGGDNN"},    {VS_FAMILY_MISTRAL, "QKVOGGDNN"},     {VS_FAMILY_GEMMA, "QKVOGGDNN"},
    {VS_FAMILY_QWEN2, "QqKkVkOGGDNN"}, {VS_FAMILY_QWEN3, "QKVOddGGDNN"},     {VS_FAMILY_GEMMA2, "QKVOGGDNNNN"},
    {VS_FAMILY_GPT2, "NNCcONNNGfDN"},  {VS_FAMILY_BERT, "QqKkVkONNNGfDNNN"},
};

struct weights {
	uint64_t *sizes;
	size_t count;
	bool ordered;                 /* when each was made is known */
	size_t start, period, layers; /* of the repetition, by the order */
	uint64_t element;
};

static int by_age(const void *a, const void *b)
{
	const struct vs_block *const *x = a, *const *y = b;

	return ((*x)->allocated_at > (*y)->allocated_at) - ((*x)->allocated_at < (*y)->allocated_at);
}

static int collect(const struct vs_device_summary *device, uint64_t adapters_from, struct weights *w)
{
	const struct vs_block **blocks = calloc(device->block_count + 1, sizeof(*blocks));
	size_t count = 0;

	w->sizes = calloc(device->block_count + 1, sizeof(*w->sizes));
	if (!blocks || !w->sizes) {
		free(blocks);
		return -ENOMEM;
	}
	for (size_t i = 0; i < device->block_count; i++) {
		const struct vs_block *b = &device->blocks[i];

		if (b->tag == VS_TAG_WEIGHTS && b->detail == VS_DETAIL_NONE && b->allocated_at < adapters_from)
			blocks[count++] = b;
	}
	if (count)
		qsort(blocks, count, sizeof(*blocks), by_age);
	w->ordered = true;
	for (size_t i = 0; i < count; i++) {
		w->sizes[i] = blocks[i]->size;
		w->ordered &= !i || blocks[i]->allocated_at > blocks[i - 1]->allocated_at;
	}
	w->count = count;
	free(blocks);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static bool same(uint64_t a, uint64_t b)
{
	return a == b || (a > SLACK && b > SLACK && (a > b ? a - b : b - a) <= SLACK);
}

/* Matrices outside of the layers are one of a size within them at most: a pooler, the transform before a head.
 * Vectors may be some more: norms, biases of a head. */
#define BESIDE 1
/* Fewer tensors of a size than this are no layers'; more matrices of a size than this are not in one. */
#define FEWEST 3
#define MOST   8

struct group {
	uint64_t bytes, count; /* tensors of one size */
};

/* Could `n` be the layers? Then every size comes in multiples of it, and these have nothing more in common. */
static bool divides(uint64_t n, const struct group *groups, size_t count, uint64_t all)
{
	uint64_t common = 0;

	for (size_t i = 0; i < count; i++) {
		bool matrices = groups[i].bytes > all / 50;

		if (groups[i].count < n || (matrices && (groups[i].count % n > BESIDE || groups[i].count / n > MOST)))
			return false;
		common = greatest_divisor(groups[i].count / n, common);
	}
	return common == 1;
}

/* In whatever order they were made. 0: not told. */
static int count_layers(const struct weights *w, uint64_t *ret_layers)
{
	struct group *groups = calloc(w->count + 1, sizeof(*groups));
	uint64_t *sizes = calloc(w->count + 1, sizeof(*sizes)), all = 0, grouped = 0, most = 0;
	size_t count = 0;

	if (!sizes || !groups) {
		free(groups);
		free(sizes);
		return -ENOMEM;
	}
	memcpy(sizes, w->sizes, w->count * sizeof(*sizes));
	qsort(sizes, w->count, sizeof(*sizes), by_size);
	for (size_t i = 0, next; i < w->count; i = next) {
		struct group g = {0};

		for (next = i; next < w->count && same(sizes[next], sizes[i]); next++) {
			g.bytes += sizes[next];
			g.count++;
		}
		all += g.bytes;
		if (g.count < FEWEST || sizes[i] <= BLOCK) /* scalars and small buffers say nothing */
			continue;
		grouped += g.bytes;
		most = g.count > most ? g.count : most;
		groups[count++] = g;
	}
	*ret_layers = 0;
	for (uint64_t n = most; n > 1 && count > 1 && grouped > all / 4 && !*ret_layers; n--) {
		if (divides(n, groups, count, all))
			*ret_layers = n;
	}
	free(groups);
	free(sizes);
	return 0;
}

/* The shortest period whose repetition holds a quarter of the bytes or more: embeddings can be larger than all else.
 */
static bool find_period(struct weights *w)
{
	uint64_t all = 0;

	for (size_t i = 0; i < w->count; i++)
		all += w->sizes[i];
	for (size_t p = 2; p <= PERIOD_MAX && 2 * p <= w->count; p++) {
		for (size_t i = 0, run; i + p < w->count; i += run + 1) {
			uint64_t bytes = 0;

			for (run = 0; i + run + p < w->count && same(w->sizes[i + run], w->sizes[i + run + p]); run++)
				bytes += w->sizes[i + run];
			if (run < p || bytes < all / 4)
				continue;
			w->start = i;
			w->period = p;
			w->layers = run / p + 1;
			return true;
		}
	}
	return false;
}

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Blocks of equal requests: the smallest of them, and how much of that may be more than was asked for. */
struct piece {
	uint64_t size, slack;
	size_t count;
};

static struct piece single(uint64_t size)
{
	return (struct piece){size, SLACK, 1};
}

/* Can a request of so many bytes have become these? */
static bool holds(struct piece block, uint64_t bytes)
{
	uint64_t rounded = round_up(bytes);

	return block.size == rounded ||
	       (rounded > SLACK && block.size > rounded && block.size - rounded <= block.slack);
}

/* Larger is rounder: sizes of models are multiples of powers of two. */
static uint64_t roundness(uint64_t n)
{
	return n & -n;
}

/* Elements of `unit` bytes in a block: those a published model has come first (0: none given), then what fills many
 * small ones, then the roundest; 0: no whole number fits. */
static uint64_t pick(struct piece block, uint64_t unit, uint64_t step, const uint64_t *known, size_t known_count)
{
	uint64_t most = block.size / unit / step * step, best = 0;
	uint64_t least = block.size > block.slack ? (block.size - block.slack) / unit : 0;

	for (size_t i = 0; i < known_count; i++) {
		if (known[i] && holds(block, known[i] * unit))
			return known[i];
	}
	if (block.count > 1 && block.size < SHARED && most * unit == block.size)
		return most;
	for (uint64_t n = most; n && n >= least && holds(block, n * unit); n -= step) {
		if (roundness(n) > roundness(best) || !best)
			best = n;
	}
	return best;
}

/* The tensors of role `role`, and of `twin` where there is one that has the same size, in every layer from the one
 * that begins at `at`; size 0: the template has none. */
static struct piece size_of(const struct weights *w, const char *roles, size_t at, char role, char twin)
{
	struct piece found = {UINT64_MAX, 0, 0};
	uint64_t most = 0;

	for (size_t i = at; i < w->start + w->layers * w->period; i++) {
		char here = roles[(i - at) % w->period];

		if (here != role && here != twin)
			continue;
		found.size = w->sizes[i] < found.size ? w->sizes[i] : found.size;
		most = w->sizes[i] > most ? w->sizes[i] : most;
		found.count++;
	}
	if (!found.count)
		return (struct piece){0};
	/* The largest keeps the most. */
	found.slack = most - found.size < SLACK ? SLACK - (most - found.size) : 0;
	return found;
}

/* Tensors of one role have one size, in this layer and the next. */
static bool consistent(const struct weights *w, const char *roles, size_t at)
{
	uint64_t query = size_of(w, roles, at, 'Q', 'Q').size, output = size_of(w, roles, at, 'O', 'O').size;

	for (size_t i = 0; roles[i]; i++) {
		if (!same(w->sizes[at + i], size_of(w, roles, at, roles[i], roles[i]).size))
			return false;
	}
	return (!query || same(output, query)) &&
	       same(size_of(w, roles, at, 'D', 'D').size, size_of(w, roles, at, 'G', 'G').size);
}

/* Feed-forward sizes of published models of this width. */
static size_t known_sizes(uint64_t hidden, uint64_t *ffn, uint64_t *vocab, size_t room)
{
	struct vs_shape shape;
	size_t count = 0;

	for (size_t i = 0; count < room && vs_preset_at(i, &shape); i++) {
		ffn[count] = shape.hidden == hidden ? shape.ffn : 0;
		vocab[count++] = shape.vocab;
	}
	return count;
}

#define KNOWN 128

/* All sizes, given the hidden one; false: they do not fit together. */
static bool solve(const struct weights *w, const char *roles, size_t at, uint64_t hidden, struct vs_inference *r)
{
	uint64_t ffn[KNOWN], vocab[KNOWN], row = hidden * w->element, q, kv, f, v;
	uint64_t edge = w->start ? w->sizes[0] : 0; /* the embedding comes first */
	struct piece all = size_of(w, roles, at, 'C', 'C'), gate = size_of(w, roles, at, 'G', 'D');
	struct piece query_bias = size_of(w, roles, at, 'q', 'q'), key_bias = size_of(w, roles, at, 'k', 'k');
	struct piece gate_bias = size_of(w, roles, at, 'f', 'f');
	size_t known = known_sizes(hidden, ffn, vocab, KNOWN);

	if (all.size) {
		if (!holds(all, 3 * hidden * row) || !holds(size_of(w, roles, at, 'O', 'O'), hidden * row))
			return false;
		q = kv = hidden;
	} else {
		q = pick(size_of(w, roles, at, 'Q', 'O'), row, 8, &hidden, 1);
		kv = pick(size_of(w, roles, at, 'K', 'V'), row, 8, &q, 1);
	}
	f = pick(gate, row, 8, ffn, known);
	v = edge ? pick(single(edge), row, 1, vocab, known) : 0;
	if (!q || !kv || !f || q % kv)
		return false;
	if ((query_bias.size && !holds(query_bias, q * w->element)) ||
	    (key_bias.size && !holds(key_bias, kv * w->element)) ||
	    (gate_bias.size && !holds(gate_bias, f * w->element)))
		return false;
	r->hidden = hidden;
	r->ffn = f;
	r->vocab = v;
	r->query = q;
	r->key = kv;
	r->tied = !edge || !same(w->sizes[w->count - 1], edge);
	r->exact = round_up(f * row) == gate.size && (!edge || round_up(v * row) == edge);
	return true;
}

/* Try every place where a layer may begin and every hidden size that its norm allows, the roundest first. */
static bool match(const struct weights *w, const char *roles, struct vs_inference *r)
{
	for (size_t at = w->start; at < w->start + w->period && at + w->period <= w->count; at++) {
		struct piece norm = size_of(w, roles, at, 'N', 'N');
		uint64_t most = norm.size / w->element, tried = UINT64_MAX;

		if (norm.size > SLACK || !consistent(w, roles, at)) /* no vector of a model is that long */
			continue;
		for (;;) {
			uint64_t best = 0;

			for (uint64_t n = most / 8 * 8; n && holds(norm, n * w->element); n -= 8) {
				uint64_t rank = roundness(n) << 32 | n;

				if (rank < tried && (!best || rank > (roundness(best) << 32 | best)))
					best = n;
			}
			if (!best)
				break;
			if (solve(w, roles, at, best, r))
				return true;
			tried = roundness(best) << 32 | best;
		}
	}
	return false;
}

/* How wide a head is: the attention's own blocks count the heads. */
static uint64_t head_width(const struct vs_attention_blocks *attention, uint64_t seq, const struct vs_inference *r)
{
	static const uint64_t widths[] = {128, 64, 256, 80, 96, 32, 192, 112, 48, 40, 16};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]) && r->tokens; i++) {
		uint64_t width = widths[i], rows = r->query / width * r->tokens;

		if (r->query % width || r->key % width)
			continue;
		if ((attention->row_sums && holds(single(attention->row_sums), rows * 4)) ||
		    (attention->scores && seq && holds(single(attention->scores), rows * seq * 4)))
			return width;
	}
	return 0;
}

static uint64_t tokens_of(const struct vs_device_summary *device)
{
	uint64_t most = 0;

	for (size_t i = 0; i < device->block_count; i++) {
		if (device->blocks[i].tag == VS_TAG_INPUTS && device->blocks[i].size > most)
			most = device->blocks[i].size;
	}
	return most / 8; /* int64 */
}

int vs_infer_blocks(const struct vs_device_summary *device, unsigned element, uint64_t seq,
                    const struct vs_attention_blocks *attention, struct vs_inference *r)
{
	struct weights w = {.element = element};
	int error = collect(device, r->adapters_from, &w);

	if (!error)
		error = count_layers(&w, &r->layers);
	if (!error && w.ordered && find_period(&w) && w.layers == r->layers) {
		r->tokens = tokens_of(device);
		for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]) && !r->hidden; i++) {
			if (templates[i].family == (enum vs_family)r->family &&
			    strlen(templates[i].roles) == w.period)
				match(&w, templates[i].roles, r);
		}
		if (r->hidden)
			r->head_dim = head_width(attention, seq, r);
	}
	free(w.sizes);
	return error;
}
