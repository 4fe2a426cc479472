/* SPDX-License-Identifier: MIT
 *
 * A snapshot does not tell which PyTorch wrote it. Versions decide differently, so a recording tells by itself, where
 * it matters at all.
 */
#include "caching/replay.h"

/* One of each stretch between two changes of the rules, the newest first (caching.c, blocks.c). */
static const uint32_t versions[] = {215, 211, 206};

static int judge(struct vs_replay_recording *recording, uint32_t version, uint64_t *ret_right, bool *ret_exact)
{
	struct vs_replay_exactness e;
	uint32_t before = recording->settings.version;
	int r;

	recording->settings.version = version;
	r = vs_replay_baseline(recording, &e, NULL);
	recording->settings.version = before;
	if (r < 0)
		return r;
	*ret_right = e.addresses_exact + e.segments_exact + e.ooms_exact;
	*ret_exact = *ret_right == e.addresses + e.segments + e.ooms;
	return 0;
}

int vs_replay_find_version(struct vs_replay_recording *recording)
{
	uint32_t best = recording->settings.version;
	uint64_t most, right;
	bool exact;
	int r = judge(recording, best, &most, &exact);

	for (size_t i = 0; r == 0 && !exact && i < sizeof(versions) / sizeof(versions[0]); i++) {
		r = judge(recording, versions[i], &right, &exact);
		if (r == 0 && right > most) {
			most = right;
			best = versions[i];
		}
	}
	if (r == 0)
		recording->settings.version = best;
	return r;
}
