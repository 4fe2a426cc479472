/* SPDX-License-Identifier: MIT */
#include "caching/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)

struct parser {
	const char *at;
	struct vs_caching_settings *settings;
};

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

/* The next word or sign; spaces do not matter. */
static size_t word(struct parser *p, const char **ret_word)
{
	skip_space(p);
	*ret_word = p->at;
	if (strchr(":,[]", *p->at) && *p->at)
		p->at++;
	else
		while (*p->at && !strchr(":,[]", *p->at) && !isspace((unsigned char)*p->at))
			p->at++;
	return (size_t)(p->at - *ret_word);
}

static bool sign(struct parser *p, char wanted)
{
	skip_space(p);
	if (*p->at != wanted)
		return false;
	p->at++;
	return true;
}

static int number(struct parser *p, uint64_t *ret_number)
{
	char *end;

	skip_space(p);
	if (!isdigit((unsigned char)*p->at))
		return -EINVAL;
	errno = 0;
	*ret_number = strtoull(p->at, &end, 10);
	if (errno)
		return -EINVAL;
	p->at = end;
	return 0;
}

static int fraction(struct parser *p, double *ret_fraction)
{
	char *end;

	skip_space(p);
	if (!isdigit((unsigned char)*p->at) && *p->at != '.')
		return -EINVAL;
	*ret_fraction = strtod(p->at, &end);
	p->at = end;
	return 0;
}

static int mebibytes(struct parser *p, uint64_t *ret_bytes)
{
	uint64_t n;
	int r = number(p, &n);

	if (r < 0)
		return r;
	*ret_bytes = n > UINT64_MAX / MIB ? UINT64_MAX : n * MIB;
	return 0;
}

static int parse_max_split(struct parser *p)
{
	uint64_t bytes;
	int r = mebibytes(p, &bytes);

	/* Must be more than a large segment, or every such segment would be oversize. */
	if (r < 0 || bytes <= p->settings->large_segment_size)
		return -EINVAL;
	p->settings->max_split_size = bytes;
	return 0;
}

static int parse_rounding(struct parser *p)
{
	return mebibytes(p, &p->settings->max_non_split_rounding);
}

static int parse_large_segment(struct parser *p)
{
	uint64_t bytes;
	int r = mebibytes(p, &bytes);

	if (r < 0 || bytes < 2 * MIB || bytes > UINT64_C(1) << 40)
		return -EINVAL;
	/* Unless told otherwise, as much may be left unsplit as a large segment holds. */
	if (p->settings->max_non_split_rounding == p->settings->large_segment_size)
		p->settings->max_non_split_rounding = bytes;
	p->settings->large_segment_size = bytes;
	return 0;
}

static int parse_threshold(struct parser *p)
{
	double value;
	int r = fraction(p, &value);

	if (r < 0 || !(value > 0 && value < 1))
		return -EINVAL;
	p->settings->garbage_collection_threshold = value;
	return 0;
}

static int parse_fraction(struct parser *p)
{
	double value;
	int r = fraction(p, &value);

	if (r < 0 || !(value >= 0 && value <= 1))
		return -EINVAL;
	p->settings->memory_fraction = value;
	return 0;
}

static int parse_expandable(struct parser *p)
{
	const char *text;
	size_t size = word(p, &text);

	if (size == 4 && !memcmp(text, "True", 4))
		p->settings->expandable_segments = true;
	else if (size == 5 && !memcmp(text, "False", 5))
		p->settings->expandable_segments = false;
	else
		return -EINVAL;
	return 0;
}

static int divisions(struct parser *p, uint64_t *ret_value)
{
	int r = number(p, ret_value);

	return r < 0 || (*ret_value & (*ret_value - 1)) ? -EINVAL : 0;
}

static void fill(uint64_t *classes, unsigned int from, unsigned int to, uint64_t value)
{
	for (; from < to; from++)
		classes[from] = value;
}

/* [256:1,512:2,>:4]: sizes in MiB, powers of two; the first also holds for what is smaller, the last for what is
 * larger. */
static int parse_roundup_list(struct parser *p)
{
	uint64_t *classes = p->settings->roundup_power2_divisions, size, value;
	unsigned int last = 0, index;
	bool first = true;

	while (!sign(p, ']')) {
		if (sign(p, '>')) {
			if (!sign(p, ':') || divisions(p, &value) < 0)
				return -EINVAL;
			fill(classes, last, VS_CACHING_CLASSES, value);
		} else {
			if (number(p, &size) < 0 || !size || (size & (size - 1)) || !sign(p, ':') ||
			    divisions(p, &value) < 0)
				return -EINVAL;
			index = (unsigned int)__builtin_ctzll(size);
			if (index >= VS_CACHING_CLASSES)
				index = VS_CACHING_CLASSES - 1;
			if (first)
				fill(classes, 0, index, value);
			first = false;
			classes[index] = value;
			last = index;
		}
		sign(p, ',');
		if (!*p->at)
			return -EINVAL;
	}
	return 0;
}

static int parse_roundup(struct parser *p)
{
	uint64_t value;

	if (sign(p, '['))
		return parse_roundup_list(p);
	if (divisions(p, &value) < 0)
		return -EINVAL;
	fill(p->settings->roundup_power2_divisions, 0, VS_CACHING_CLASSES, value);
	return 0;
}

static int parse_backend(struct parser *p)
{
	const char *text;
	size_t size = word(p, &text);

	return size == 6 && !memcmp(text, "native", 6) ? 0 : -EINVAL;
}

/* A value or a list that does not matter here. */
static int skip(struct parser *p)
{
	const char *text;

	if (!sign(p, '['))
		return word(p, &text) ? 0 : -EINVAL;
	while (*p->at && !sign(p, ']'))
		word(p, &text);
	return 0;
}

static const struct key {
	const char *name;
	int (*parse)(struct parser *p);
} keys[] = {
    {"backend", parse_backend},
    {"max_split_size_mb", parse_max_split},
    {"max_non_split_rounding_mb", parse_rounding},
    {"large_segment_size_mb", parse_large_segment},
    {"garbage_collection_threshold", parse_threshold},
    {"per_process_memory_fraction", parse_fraction},
    {"expandable_segments", parse_expandable},
    {"roundup_power2_divisions", parse_roundup},
    {"release_lock_on_cudamalloc", skip},
    {"release_lock_on_hipmalloc", skip},
    {"pinned_use_cuda_host_register", skip},
    {"pinned_use_hip_host_register", skip},
    {"pinned_num_register_threads", skip},
    {"pinned_use_background_threads", skip},
    {"pinned_reserve_segment_size_mb", skip},
    {"pinned_max_round_threshold_mb", skip},
    {"pinned_max_cached_size_mb", skip},
    {"pinned_free_catch_all", skip},
    {"graph_capture_record_stream_reuse", skip},
    {"throw_on_cudamalloc_oom", skip},
    {"expandable_segments_reserve", skip},
    {"expandable_segments_reserve_by_class", skip},
};

static int parse_pair(struct parser *p)
{
	const char *text;
	size_t size = word(p, &text);

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strlen(keys[i].name) == size && !memcmp(keys[i].name, text, size))
			return sign(p, ':') ? keys[i].parse(p) : -EINVAL;
	}
	return -EINVAL;
}

int vs_caching_parse_settings(const char *text, struct vs_caching_settings *settings, const char **ret_where)
{
	struct parser p = {.at = text, .settings = settings};

	for (;;) {
		const char *pair;

		skip_space(&p);
		if (!*p.at)
			return 0;
		pair = p.at;
		if (sign(&p, ','))
			continue;
		if (parse_pair(&p) < 0) {
			*ret_where = pair;
			return -EINVAL;
		}
	}
}

static void add(char *text, size_t size, const char *format, const char *name, double value)
{
	size_t used = strlen(text);

	if (used && used + 1 < size) {
		text[used++] = ',';
		text[used] = '\0';
	}
	snprintf(text + used, size - used, format, name, value);
}

static void add_roundup(char *text, size_t size, const uint64_t *classes)
{
	bool same = true;

	for (size_t i = 1; i < VS_CACHING_CLASSES; i++)
		same &= classes[i] == classes[0];
	if (same) {
		add(text, size, "%s:%.0f", "roundup_power2_divisions", (double)classes[0]);
		return;
	}
	add(text, size, "%s:[", "roundup_power2_divisions", 0);
	for (size_t i = 0; i < VS_CACHING_CLASSES; i++) {
		size_t used = strlen(text);

		snprintf(text + used, size - used, "%s%u:%" PRIu64, i ? "," : "", 1U << i, classes[i]);
	}
	snprintf(text + strlen(text), size - strlen(text), "]");
}

void vs_caching_print_settings(const struct vs_caching_settings *settings, char *text, size_t size)
{
	struct vs_caching_settings standard;

	vs_caching_defaults(&standard, settings->version);
	text[0] = '\0';
	if (settings->expandable_segments)
		snprintf(text, size, "expandable_segments:True");
	if (settings->max_split_size != standard.max_split_size)
		add(text, size, "%s:%.0f", "max_split_size_mb", (double)(settings->max_split_size / MIB));
	if (settings->max_non_split_rounding != standard.max_non_split_rounding)
		add(text, size, "%s:%.0f", "max_non_split_rounding_mb",
		    (double)(settings->max_non_split_rounding / MIB));
	if (settings->large_segment_size != standard.large_segment_size)
		add(text, size, "%s:%.0f", "large_segment_size_mb", (double)(settings->large_segment_size / MIB));
	if (settings->garbage_collection_threshold > 0)
		add(text, size, "%s:%g", "garbage_collection_threshold", settings->garbage_collection_threshold);
	if (settings->memory_fraction < 1)
		add(text, size, "%s:%g", "per_process_memory_fraction", settings->memory_fraction);
	if (memcmp(settings->roundup_power2_divisions, standard.roundup_power2_divisions,
	           sizeof(standard.roundup_power2_divisions)))
		add_roundup(text, size, settings->roundup_power2_divisions);
	if (!text[0])
		snprintf(text, size, "default");
}
