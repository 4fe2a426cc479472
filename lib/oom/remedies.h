/* SPDX-License-Identifier: MIT
 *
 * What would have helped, and by how much.
 */
#ifndef VS_OOM_REMEDIES_H
#define VS_OOM_REMEDIES_H

#include "oom/oom.h"
#include "tag/tag.h"

enum vs_oom_evidence {
	VS_OOM_STATED,    /* generally true; this error does not tell how much */
	VS_OOM_ESTIMATED, /* computed from the numbers of this moment */
	VS_OOM_REPLAYED,  /* the allocator's own decisions were replayed under it */
};

enum vs_oom_answer { VS_OOM_NO, VS_OOM_YES, VS_OOM_MAYBE };

struct vs_oom_remedy {
	const char *name; /* static, never changed */
	const char *what; /* a sentence without its end; static, but of vs_oom_remedy_add() */
	uint64_t saves;   /* bytes; VS_OOM_UNKNOWN */
	enum vs_oom_answer enough;
	enum vs_oom_evidence evidence;
};

#define VS_OOM_REMEDIES_MAX 14

struct vs_oom_remedies {
	struct vs_oom_remedy list[VS_OOM_REMEDIES_MAX];
	size_t count;
};

/* The job at that moment, where there is a trace. */
struct vs_oom_job {
	const uint64_t *tags;     /* VS_TAG_COUNT, bytes */
	const uint64_t *details;  /* VS_DETAIL_COUNT, bytes */
	uint64_t parameters;      /* of the model; 0 unknown */
	uint64_t parameter_bytes; /* of one weight; 0 unknown */
	uint64_t batch;           /* samples in a forward; 0 unknown */
	int world_size;           /* -1 unknown */
};

/* `job` may be NULL: then what helps is only stated. In a job: the largest first, equal ones in the order in which
 * they are best tried: what costs least first. */
void vs_oom_remedies(const struct vs_oom *oom, enum vs_oom_cause cause, const struct vs_oom_job *job,
                     struct vs_oom_remedies *ret_remedies);

/* One more, of which nothing is known yet; NULL: too many. `name` is static, `what` lives as long as the remedies. */
struct vs_oom_remedy *vs_oom_remedy_add(struct vs_oom_remedies *remedies, const char *name, const char *what);
/* The largest first, those that save nobody knows how much last; else as they were. */
void vs_oom_remedies_sort(struct vs_oom_remedies *remedies);

/* Whether `saves` bytes more would have been enough. */
enum vs_oom_answer vs_oom_enough(const struct vs_oom *oom, uint64_t saves);

#endif
