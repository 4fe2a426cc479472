/* SPDX-License-Identifier: MIT
 *
 * A model's config.json from anywhere: read, counted, and a training step of it estimated.
 */
#include "estimate/config.h"
#include "model/step.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Complaints are the answer to most inputs; nobody reads them here. */
static void quiet(void)
{
	static int null = -1;

	if (null < 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null >= 0)
			dup2(null, STDERR_FILENO);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vs_config config;
	struct vs_forecast forecast;
	struct vs_job job;

	if (getenv("FUZZ_QUIET"))
		quiet();
	if (vs_config_parse((const char *)data, size, "fuzz", &config))
		return 0;
	if (!vs_shape_count(&config.shape) || config.shape.layers > 64 || config.shape.decoder_layers > 64)
		return 0;
	job = vs_job_default(&config.shape);
	job.seq = 64;
	job.checkpointing = size % VS_CHECKPOINTING_COUNT;
	job.precision = size / 3 % VS_PRECISION_COUNT;
	if (!vs_forecast_job(&job, NULL, &forecast) && forecast.parameters != vs_shape_count(&config.shape))
		abort();
	return 0;
}
