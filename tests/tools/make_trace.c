/* SPDX-License-Identifier: MIT
 *
 * Writes a small trace for the tests of the command line: make_trace FILE [SCENARIO]. A job of three steps with
 * weights, an optimizer, and activations of 16 MiB a step; "killed" stops in the third step, "running" stays there
 * until its standard input ends, "oom" runs out of memory in it by one
 * large request, "full" by many, "capped" loses events to the size limit. "frozen"
 * has an optimizer for few of the weights, "inference" has none, "cuda" never asks PyTorch for memory, "unattributed"
 * has a library's memory without a stack beside PyTorch's, "refused" ends with
 * memory refused to a library. Prints the allocated peak in bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/writer.h"

#define MIB    ((uint64_t)1 << 20)
#define STEPS  3
#define LAYERS 4

struct job {
	struct vs_writer *writer;
	struct vs_log *log;
	uint64_t allocated, reserved, peak, next_address;
};

/* A stack of Python frames, innermost first: file and function by turns, ended by NULL. */
static uint32_t stack(struct job *job, const char *const *names)
{
	uint32_t frames[16];
	struct vramshim_stack stack = {.python = frames};

	for (; *names; names += 2) {
		uint32_t file = vs_writer_string(job->writer, names[0], strlen(names[0]));
		uint32_t function = vs_writer_string(job->writer, names[1], strlen(names[1]));
		uint32_t code = vs_writer_code(job->writer, file, function, 10, NULL, 0);
		frames[stack.python_count++] = vs_writer_python_frame(job->writer, code, -1);
	}
	return vs_writer_stack(job->writer, &stack);
}

static void torch_event(struct job *job, enum vramshim_event_type type, uint64_t address, uint64_t size, uint32_t id)
{
	struct vramshim_event event = {
	    .type = type,
	    .device = 0,
	    .stack = id,
	    .address = address,
	    .size = size,
	    .allocated = job->allocated,
	    .reserved = job->reserved,
	};

	vs_log_append(job->log, &event);
}

static uint64_t allocate_cuda(struct job *job, uint64_t size, uint32_t id)
{
	uint64_t address = job->next_address;

	struct vramshim_event segment = {
	    .type = VRAMSHIM_CUDA_ALLOC,
	    .memory = VRAMSHIM_MEMORY_DEVICE,
	    .device = 0,
	    .address = address,
	    .size = size,
	    .name = vs_writer_string(job->writer, "cudaMalloc", 10),
	    .stack = id,
	};
	vs_log_append(job->log, &segment);
	job->next_address += size;
	return address;
}

static uint64_t allocate(struct job *job, uint64_t size, uint32_t id)
{
	uint64_t address = allocate_cuda(job, size, id);

	job->allocated += size;
	job->reserved += size;
	if (job->allocated > job->peak)
		job->peak = job->allocated;
	torch_event(job, VRAMSHIM_TORCH_ALLOC, address, size, id);
	return address;
}

static void release(struct job *job, uint64_t address, uint64_t size, uint32_t id)
{
	job->allocated -= size;
	torch_event(job, VRAMSHIM_TORCH_FREE, address, size, id);
}

static void mark(struct job *job, const char *name)
{
	struct vramshim_event event = {
	    .type = VRAMSHIM_MARK, .device = -1, .name = vs_writer_string(job->writer, name, strlen(name))};

	vs_log_append(job->log, &event);
}

static void facts(struct job *job)
{
	static const char *const pairs[][2] = {
	    {"command:0", "python"},
	    {"command:1", "train \"it\",\x1b[31m now.py"},
	    {"host", "somewhere"},
	    {"python", "3.11.7"},
	    {"torch", "2.15.0"},
	    {"rank", "0"},
	    {"device:0:name", "NVIDIA Test 1GB"},
	    {"device:0:total_bytes", "1073741824"},
	    {"device:0:simulated", "1"},
	    {"device:0:context_bytes", "104857600"},
	    {"device:0:context_source", "assumed"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		vs_writer_fact(job->writer, pairs[i][0], pairs[i][1]);
}

int main(int argc, char **argv)
{
	static const char *const setup[] = {"/site-packages/torch/nn/modules/linear.py", "Linear.__init__",
	                                    "/home/me/train.py", "build", NULL};
	static const char *const forward[] = {"/site-packages/torch/nn/modules/linear.py",
	                                      "Linear.forward",
	                                      "/site-packages/torch/nn/modules/module.py",
	                                      "Module._call_impl",
	                                      "/site-packages/transformers/models/llama/modeling_llama.py",
	                                      "LlamaMLP.forward",
	                                      "/home/me/train.py",
	                                      "train",
	                                      NULL};
	static const char *const backward[] = {"/site-packages/torch/autograd/graph.py", "_engine_run_backward",
	                                       "/home/me/train.py", "train", NULL};
	static const char *const optimizer[] = {"/site-packages/torch/optim/adamw.py",
	                                        "_multi_tensor_adamw",
	                                        "/site-packages/torch/optim/adamw.py",
	                                        "AdamW.step",
	                                        "/home/me/train.py",
	                                        "train",
	                                        NULL};
	const char *scenario = argc > 2 ? argv[2] : "clean";
	struct job job = {.next_address = 0x7f0000000000};
	uint64_t activations[LAYERS];

	if (argc < 2 || vs_writer_open(argv[1], strcmp(scenario, "capped") ? 0 : 256 << 10, &job.writer) < 0)
		return 1;
	job.log = vs_log_new(job.writer, (uint32_t)getpid());
	facts(&job);
	uint32_t at_setup = stack(&job, setup), at_forward = stack(&job, forward), at_step = stack(&job, optimizer);
	uint32_t at_backward = stack(&job, backward);
	if (!strcmp(scenario, "cuda") || !strcmp(scenario, "unattributed"))
		allocate_cuda(&job, 48 * MIB, 0);
	if (!strcmp(scenario, "cuda")) {
		vs_writer_finish(job.writer);
		return puts("0") < 0;
	}
	for (unsigned i = 0; i < LAYERS; i++)
		allocate(&job, 32 * MIB, at_setup);
	mark(&job, "built");
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < LAYERS; i++)
			activations[i] = allocate(&job, 4 * MIB, at_forward);
		if (step == STEPS - 1 && (!strcmp(scenario, "killed") || !strcmp(scenario, "running")))
			break;
		if (step == STEPS - 1 && !strcmp(scenario, "oom")) {
			torch_event(&job, VRAMSHIM_TORCH_OOM, 0, 2048 * MIB, at_forward);
			break;
		}
		if (step == STEPS - 1 && !strcmp(scenario, "full")) {
			for (unsigned i = 0; i < 31; i++)
				allocate(&job, 16 * MIB, at_forward);
			torch_event(&job, VRAMSHIM_TORCH_OOM, 0, 16 * MIB, at_forward);
			break;
		}
		if (strcmp(scenario, "inference"))
			release(&job, allocate(&job, 1 * MIB, at_backward), 1 * MIB, at_backward);
		for (unsigned i = 0; i < LAYERS; i++)
			release(&job, activations[i], 4 * MIB, at_forward);
		if (!strcmp(scenario, "inference"))
			continue;
		for (unsigned i = 0; i < 2 * LAYERS && step == 0; i++)
			allocate(&job, strcmp(scenario, "frozen") ? 32 * MIB : MIB, at_step);
		uint64_t temporary = allocate(&job, 1 * MIB, at_step);
		release(&job, temporary, 1 * MIB, at_step);
		mark(&job, "step, done");
	}
	if (!strcmp(scenario, "refused"))
		vs_log_append(job.log,
		              &(struct vramshim_event){.type = VRAMSHIM_CUDA_FAIL,
		                                       .memory = VRAMSHIM_MEMORY_DEVICE,
		                                       .size = 64 * MIB,
		                                       .result = 2, /* cudaErrorMemoryAllocation */
		                                       .name = vs_writer_string(job.writer, "cuMemAlloc_v2", 13),
		                                       .stack = at_forward});
	for (unsigned i = 0; i < 100000 && !strcmp(scenario, "capped"); i++)
		release(&job, allocate(&job, MIB, at_forward), MIB, at_forward);
	if (!strcmp(scenario, "running")) {
		printf("%" PRIu64 "\n", job.peak);
		fflush(stdout);
		getchar();
		return 0;
	}
	if (strcmp(scenario, "killed"))
		vs_writer_finish(job.writer);
	printf("%" PRIu64 "\n", job.peak);
	return 0;
}
