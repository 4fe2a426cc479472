/* SPDX-License-Identifier: MIT
 *
 * Traces as recordings to replay.
 */
#include "trace_helper.h"

#include <stdlib.h>
#include <string.h>

#include "caching/from_trace.h"

#define MIB  (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f0000000000)

struct job {
	char *folder, *path;
	struct vs_writer *writer;
	struct vs_log *log, *other; /* of two threads */
	uint64_t allocated;
};

static void open_job(struct job *job, const char *settings)
{
	*job = (struct job){.folder = scratch_make()};
	job->path = scratch_path(job->folder, "trace");
	assert_int_equal(vs_writer_open(job->path, 0, &job->writer), 0);
	job->log = vs_log_new(job->writer, 100);
	job->other = vs_log_new(job->writer, 101);
	vs_writer_fact(job->writer, "torch", "2.15.0");
	vs_writer_fact(job->writer, "env:PYTORCH_CUDA_ALLOC_CONF", settings);
}

static void torch(struct job *job, enum vramshim_event_type type, uint64_t address, uint64_t size)
{
	job->allocated += type == VRAMSHIM_TORCH_ALLOC ? size : -size;
	vs_log_append(job->log, &(struct vramshim_event){
	                            .type = type, .address = address, .size = size, .allocated = job->allocated});
}

static void cuda(struct vs_log *log, enum vramshim_event_type type, enum vramshim_memory memory, uint64_t address,
                 uint64_t size)
{
	vs_log_append(log, &(struct vramshim_event){.type = type,
	                                            .memory = memory,
	                                            .address = address,
	                                            .size = size,
	                                            .result = type == VRAMSHIM_CUDA_FAIL ? 1 : 0,
	                                            .device = type == VRAMSHIM_CUDA_ALLOC ? 0 : -1});
}

/* Ends the job. The kinds of the events come out by their numbers in `kinds`. */
static struct vs_replay_exactness replay(struct job *job, char *kinds)
{
	struct vs_trace_recording recording;
	struct vs_replay_exactness e;
	struct vramshim_trace *trace;

	vs_writer_finish(job->writer);
	assert_int_equal(vramshim_trace_open(job->path, &trace), 0);
	assert_int_equal(vs_trace_recording(trace, 0, &recording), 0);
	for (size_t i = 0; i < recording.recording.event_count; i++)
		*kinds++ = (char)('0' + recording.events[i].kind);
	*kinds = 0;
	assert_int_equal(vs_replay_baseline(&recording.recording, &e, NULL), 0);
	vs_trace_recording_done(&recording);
	vramshim_trace_close(trace);
	scratch_remove(job->folder);
	free(job->path);
	return e;
}

/* A cached segment that CUDA would not take back is cached still; another thread's call in between is its own. */
static void refused_frees_never_were(void **state)
{
	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		struct vs_replay_exactness e;
		struct job job;
		char kinds[64];

		open_job(&job, "");
		cuda(job.log, VRAMSHIM_CUDA_ALLOC, VRAMSHIM_MEMORY_DEVICE, BASE, 20 * MIB);
		torch(&job, VRAMSHIM_TORCH_ALLOC, BASE, 4 * MIB);
		torch(&job, VRAMSHIM_TORCH_FREE, BASE, 4 * MIB);
		cuda(job.log, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_DEVICE, BASE, 0);
		cuda(job.other, VRAMSHIM_CUDA_ALLOC, VRAMSHIM_MEMORY_DEVICE, BASE + 64 * MIB, 2 * MIB);
		cuda(job.other, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_DEVICE, BASE + 64 * MIB, 0);
		if (refused)
			cuda(job.log, VRAMSHIM_CUDA_FAIL, VRAMSHIM_MEMORY_DEVICE, BASE, 0);
		torch(&job, VRAMSHIM_TORCH_ALLOC, BASE, 6 * MIB);
		e = replay(&job, kinds);
		/* Else the block comes from nowhere. */
		assert_string_equal(kinds, refused ? "51239:1" : "512369:1");
		assert_int_equal(e.addresses_exact, refused ? 2 : 1);
		assert_int_equal(e.segments, e.segments_exact + !refused);
	}
}

/* Pages unmapped in a row are one event; one that is refused takes only itself back. */
static void refused_unmappings(void **state)
{
	struct vs_replay_exactness e;
	struct job job;
	char kinds[64];

	(void)state;
	open_job(&job, "expandable_segments:True");
	for (uint64_t i = 0; i < 3; i++) {
		vs_log_append(job.log, &(struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
		                                                .memory = VRAMSHIM_MEMORY_PHYSICAL,
		                                                .address = i + 1,
		                                                .size = 20 * MIB});
		vs_log_append(job.log, &(struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
		                                                .memory = VRAMSHIM_MEMORY_MAPPED,
		                                                .address = BASE + i * 20 * MIB,
		                                                .handle = i + 1,
		                                                .size = 20 * MIB});
	}
	torch(&job, VRAMSHIM_TORCH_ALLOC, BASE, 60 * MIB);
	torch(&job, VRAMSHIM_TORCH_FREE, BASE, 60 * MIB);
	for (uint64_t i = 0; i < 3; i++)
		cuda(job.log, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_MAPPED, BASE + i * 20 * MIB, 20 * MIB);
	cuda(job.log, VRAMSHIM_CUDA_FAIL, VRAMSHIM_MEMORY_MAPPED, BASE + 40 * MIB, 20 * MIB);
	e = replay(&job, kinds);
	assert_string_equal(kinds, "71238");
	assert_int_equal(e.addresses_exact, 1);
	/* PyTorch unmaps all of a block, or none. */
	assert_int_equal(e.segments_exact, 1);
}

/* A second free of the same address, and a free of what never was, are nothing. */
static void frees_of_nothing(void **state)
{
	struct job job;
	char kinds[64];

	(void)state;
	open_job(&job, "");
	cuda(job.log, VRAMSHIM_CUDA_ALLOC, VRAMSHIM_MEMORY_DEVICE, BASE, 20 * MIB);
	torch(&job, VRAMSHIM_TORCH_ALLOC, BASE, 4 * MIB);
	torch(&job, VRAMSHIM_TORCH_FREE, BASE, 4 * MIB);
	cuda(job.log, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_DEVICE, BASE, 0);
	cuda(job.log, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_DEVICE, BASE, 0);
	cuda(job.log, VRAMSHIM_CUDA_FAIL, VRAMSHIM_MEMORY_DEVICE, BASE, 0);
	cuda(job.log, VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_DEVICE, BASE + MIB, 0);
	replay(&job, kinds);
	assert_string_equal(kinds, "51236");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refused_frees_never_were),
	    cmocka_unit_test(refused_unmappings),
	    cmocka_unit_test(frees_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
