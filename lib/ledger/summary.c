/* SPDX-License-Identifier: MIT */
#include "ledger/analyse.h"

#include <stdlib.h>

void vs_summary_free(struct vs_summary *summary)
{
	if (!summary)
		return;
	for (size_t i = 0; i < summary->device_count; i++) {
		const struct vs_device_summary *device = &summary->devices[i];

		free((void *)device->outside.libraries);
		free((void *)device->outside.samples);
		free((void *)device->steps);
		free((void *)device->marks);
		free((void *)device->ooms);
		free((void *)device->stacks);
		free((void *)device->blocks);
		free((void *)device->cuda_blocks);
	}
	free((void *)summary->devices);
	free(summary);
}
