/* SPDX-License-Identifier: MIT
 *
 * The reader of out-of-memory errors on hostile text.
 */
#include <oom/oom.h>
#include <oom/remedies.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vs_oom_remedies remedies;
	struct vs_oom oom;

	if (vs_oom_read_message((const char *)data, size, &oom) < 0)
		return 0;
	for (unsigned i = 0; i < VS_OOM_NUMBERS; i++) {
		/* Sums of a few numbers of 2^60 at most. */
		if (vs_oom_knows(&oom, i) && oom.numbers[i] > UINT64_C(1) << 62)
			abort();
	}
	vs_oom_remedies(&oom, vs_oom_judge(&oom), NULL, &remedies);
	if (remedies.count > VS_OOM_REMEDIES_MAX)
		abort();
	return 0;
}
