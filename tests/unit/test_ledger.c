/* SPDX-License-Identifier: MIT */
#include "trace_helper.h"

#include <errno.h>
#include <ledger/analyse.h>
#include <ledger/fragmentation.h>
#include <ledger/samples.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Difference arrays against the plain way: for each instant, look at every block. */
static void test_samples(void **state)
{
	enum { INSTANTS = 40, BLOCKS = 2000, LENGTH = 5000 };
	static struct vs_block blocks[BLOCKS];
	struct vs_point points[INSTANTS];
	struct vs_point *pointers[INSTANTS];
	struct vs_samples *samples;
	uint64_t random = 1;

	(void)state;
	memset(points, 0, sizeof(points));
	for (size_t i = 0; i < INSTANTS; i++) { /* unsorted, some alike */
		points[i].sequence = 1 + random_below(&random, LENGTH);
		pointers[i] = &points[i];
	}
	points[1].sequence = points[0].sequence;
	assert_int_equal(vs_samples_new(pointers, INSTANTS, &samples), 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		uint64_t born = 1 + random_below(&random, LENGTH);

		blocks[i] = (struct vs_block){
		    .size = 512 * (1 + random_below(&random, 100)),
		    .allocated_at = born,
		    .freed_at = random_below(&random, 4) ? born + 1 + random_below(&random, 1000) : 0,
		    .tag = (enum vs_tag)random_below(&random, VS_TAG_COUNT),
		    .detail = (enum vs_detail)random_below(&random, VS_DETAIL_COUNT),
		};
		vs_samples_add(samples, &blocks[i]);
	}
	vs_samples_finish(samples);
	for (size_t i = 0; i < INSTANTS; i++) {
		uint64_t tags[VS_TAG_COUNT] = {0}, details[VS_DETAIL_COUNT] = {0};

		for (size_t j = 0; j < BLOCKS; j++) {
			if (blocks[j].allocated_at > points[i].sequence ||
			    (blocks[j].freed_at && blocks[j].freed_at <= points[i].sequence))
				continue;
			tags[blocks[j].tag] += blocks[j].size;
			if (blocks[j].detail)
				details[blocks[j].detail] += blocks[j].size;
		}
		assert_memory_equal(points[i].tags, tags, sizeof(tags));
		assert_memory_equal(points[i].details, details, sizeof(details));
	}
	vs_samples_free(samples);
	vs_samples_free(NULL);
}

static void test_fragmentation(void **state)
{
	const uint64_t M = 1 << 20;
	/* One segment in use with a hole and a tail, one wholly free, two mapped neighbours. */
	const struct vs_range segments[] = {
	    {0, 20 * M, false}, {20 * M, 40 * M, false}, {100 * M, 102 * M, true}, {102 * M, 104 * M, true}};
	struct vs_extent blocks[] = {{8 * M, 10 * M}, {0, 4 * M}, {100 * M, 101 * M}};
	struct vs_extent over[] = {{101 * M, 103 * M}};
	struct vs_fragmentation got;

	(void)state;
	vs_fragmentation(segments, 4, blocks, 3, 7 * M, 44 * M, &got);
	assert_int_equal(got.unallocated, 37 * M);
	assert_int_equal(got.releasable, 20 * M + 2 * M);
	assert_int_equal(got.pinned, 14 * M + 1 * M);
	assert_int_equal(got.releasable + got.pinned, got.unallocated);
	/* Neighbouring cudaMalloc segments do not join: 20, not 30 MiB. */
	assert_int_equal(got.largest_free, 20 * M);
	assert_true(fabs(got.index - (1.0 - 20.0 / 37.0)) < 1e-12);
	assert_int_equal(got.segments, 4);
	assert_true(got.exact);

	/* Mapped neighbours do. */
	vs_fragmentation(segments + 2, 2, blocks, 0, 0, 4 * M, &got);
	assert_int_equal(got.largest_free, 4 * M);
	assert_true(got.index == 0);
	vs_fragmentation(segments + 2, 2, over, 1, 2 * M, 4 * M, &got);
	assert_int_equal(got.largest_free, 1 * M);
	assert_int_equal(got.pinned, 2 * M);
	assert_int_equal(got.releasable, 0);

	/* Without CUDA's events only the difference is known. */
	vs_fragmentation(NULL, 0, blocks, 3, 7 * M, 8 * M, &got);
	assert_int_equal(got.unallocated, M);
	assert_int_equal(got.segments, 0);
	assert_false(got.exact);
	assert_true(got.index == 0);
}

static struct vramshim_event cuda(enum vramshim_event_type type, enum vramshim_memory memory, uint64_t address,
                                  uint64_t size)
{
	return (struct vramshim_event){.type = type, .memory = memory, .address = address, .size = size};
}

#define GOT(memory, address, size)                                                                                   \
	(&(struct vramshim_event[]){cuda(VRAMSHIM_CUDA_ALLOC, VRAMSHIM_MEMORY_##memory, address, size)}[0])
#define GAVE(memory, address, size)                                                                                  \
	(&(struct vramshim_event[]){cuda(VRAMSHIM_CUDA_FREE, VRAMSHIM_MEMORY_##memory, address, size)}[0])

static void test_cuda(void **state)
{
	struct vs_cuda books = {0};
	struct vs_range *ranges;
	size_t count;

	(void)state;
	assert_int_equal(vs_cuda_event(&books, GOT(DEVICE, 0x1000, 100), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GOT(DEVICE, 0x9000, 10), VS_OWNER_NCCL), 0);
	assert_int_equal(vs_cuda_event(&books, GOT(PINNED, 0x2000, 1000), VS_OWNER_PYTORCH), 0);
	/* A handle with the number of an address. */
	assert_int_equal(vs_cuda_event(&books, GOT(PHYSICAL, 0x1000, 7), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GOT(RESERVED, 0x100000, 1 << 30), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GOT(MAPPED, 0x100000, 0x1000), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GOT(MAPPED, 0x101000, 0x1000), VS_OWNER_PYTORCH), 0);
	assert_int_equal(books.holdings.asked, 117);
	assert_int_equal(books.holdings.by_owner[VS_OWNER_NCCL], 10);
	assert_int_equal(vs_cuda_ranges(&books, &ranges, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(ranges[0].begin, 0x1000);
	assert_int_equal(ranges[0].end, 0x1000 + 100);
	assert_true(ranges[1].mapped && ranges[2].mapped);
	free(ranges);

	/* The allocation at the same number as the handle stays. */
	assert_int_equal(vs_cuda_event(&books, GAVE(MAPPED, 0x100000, 0x1000), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GAVE(MAPPED, 0x101000, 0x1000), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GAVE(PHYSICAL, 0x1000, 0), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GAVE(DEVICE, 0x9000, 0), VS_OWNER_PYTORCH), 0);
	assert_int_equal(vs_cuda_event(&books, GAVE(DEVICE, 0x7777, 0), VS_OWNER_PYTORCH), 0); /* unknown */
	assert_int_equal(books.holdings.asked, 100);
	assert_int_equal(books.holdings.by_owner[VS_OWNER_NCCL], 0);
	/* Twice at one address without a free: the first is gone. */
	assert_int_equal(vs_cuda_event(&books, GOT(DEVICE, 0x1000, 50), VS_OWNER_PYTORCH), 0);
	assert_int_equal(books.holdings.asked, 50);
	assert_int_equal(vs_cuda_ranges(&books, &ranges, &count), 0);
	assert_int_equal(count, 1);
	free(ranges);
	vs_cuda_release(&books);
}

static uint64_t sum(const uint64_t *values, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += values[i];
	return total;
}

static void asked_nothing(struct vs_holdings *holdings)
{
	static const enum vramshim_memory none[] = {VRAMSHIM_MEMORY_MANAGED, VRAMSHIM_MEMORY_PINNED,
	                                            VRAMSHIM_MEMORY_MAPPED, VRAMSHIM_MEMORY_RESERVED,
	                                            VRAMSHIM_MEMORY_FOREIGN};
	uint64_t asked = holdings->asked, taken = holdings->taken;

	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_int_equal(vs_holdings_add(holdings, none[i], 0x1000, 1 << 30, VS_OWNER_NCCL), 0);
	assert_int_equal(vs_holdings_add(holdings, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, VS_OWNER_NCCL), 0);
	assert_int_equal(holdings->asked, asked);
	assert_int_equal(holdings->taken, taken);
}

/* Bytes that the card loses, against counting the pages that any allocation touches. */
static void test_pages(void **state)
{
	enum { PIECES = 300, ROUNDS = 5000, PAGES = 64 };
	const uint64_t page = 2 << 20, base = 0x700000000000;
	static struct {
		uint64_t address, size;
		uint8_t owner;
	} pieces[PIECES];
	struct vs_holdings holdings = {0};
	uint64_t random = 7;

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = (unsigned)random_below(&random, PIECES);
		static unsigned covered[PAGES + 1];
		uint64_t asked = 0, taken = 0;

		if (pieces[i].size) {
			vs_holdings_remove(&holdings, VRAMSHIM_MEMORY_DEVICE, pieces[i].address, pieces[i].size,
			                   pieces[i].owner);
			pieces[i].size = 0;
		} else {
			uint64_t at = random_below(&random, PAGES * page);
			uint64_t most = PAGES * page - at;

			/* Small, large, and on the edges of pages. */
			if (random_below(&random, 3) == 0)
				at -= at % page;
			pieces[i].address = base + at;
			pieces[i].size = 1 + random_below(&random, random_below(&random, 2) ? most : 5000);
			if (pieces[i].size > most)
				pieces[i].size = most;
			if (random_below(&random, 3) == 0 && (at + pieces[i].size) / page * page > at)
				pieces[i].size = (at + pieces[i].size) / page * page - at;
			pieces[i].owner = (uint8_t)random_below(&random, VS_OWNERS_MAX);
			assert_int_equal(vs_holdings_add(&holdings, VRAMSHIM_MEMORY_DEVICE, pieces[i].address,
			                                 pieces[i].size, pieces[i].owner),
			                 0);
		}
		if (round % 50)
			continue;
		memset(covered, 0, sizeof(covered));
		for (unsigned j = 0; j < PIECES; j++) {
			/* Real allocations do not overlap; whole pages of those that do here count each time. */
			uint64_t from = pieces[j].address - base, to = from + pieces[j].size;

			for (uint64_t p = from / page; pieces[j].size && p * page < to; p++) {
				if (from <= p * page && to >= (p + 1) * page)
					taken += page;
				else
					covered[p] = 1;
			}
			asked += pieces[j].size;
		}
		for (unsigned p = 0; p <= PAGES; p++)
			taken += covered[p] ? page : 0;
		assert_int_equal(holdings.asked, asked);
		assert_int_equal(holdings.taken, taken);
		assert_int_equal(sum(holdings.by_owner, VS_OWNERS_MAX), asked);
	}
	/* No bytes of the card, whatever their size. */
	asked_nothing(&holdings);
	vs_holdings_release(&holdings);
}

static void test_owners(void **state)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
	    {"/x/libcublasLt.so.13", "cublaslt"},
	    {"/x/libcublas.so.13", "cublas"},
	    {"libc10_cuda.so", "pytorch"},
	    {"/x/libtorch_cuda.so", "torch"},
	    {"/x/mine.so", "mine"},
	    {"/x/libmine-2.so.4.5", "mine-2"},
	    {"/y/libmine-2.so.5", "mine-2"},
	    {"/x/_backend.cpython-311-x86_64-linux-gnu.so", "_backend"},
	    {"/x/_backend.abi3.so", "_backend"},
	    {"/v/lib/python3.11/site-packages/cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so", "cupy.cuda.memory"},
	    {"/usr/lib/python3/dist-packages/gpu.abi3.so", "gpu"},
	    {"/v/site-packages/warp/bin/warp.so", "warp"},
	    {"/v/site-packages/much/too/deep/for/a/column/of/a/report/to/show/_c.abi3.so", "_c"},
	    {"/usr/bin/a.out", "a.out"},
	    {"/usr/bin/lib", "lib"},
	    {"/usr/bin/.so", ".so"},
	    {"/x/libcudart.so.13", NULL},
	    {"/x/libcudart-1a2b3c4d.so.11.0", NULL},
	    {"/lib/libcuda.so.1", NULL},
	    {"/lib/libcuda.so.580.159.03", NULL},
	    {"/lib/libvramshim.so", NULL},
	    {"/lib/x86_64-linux-gnu/libffi.so.8", NULL},
	    {"[vdso]", NULL},
	    {"", NULL},
	};
	struct vs_owners owners = {0};
	unsigned others = 0;
	char path[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t owner = 255;

		assert_int_equal(vs_owner_of_file(&owners, cases[i].path, &owner), cases[i].name != NULL);
		if (cases[i].name)
			assert_string_equal(vs_owner_name(&owners, owner), cases[i].name);
		else
			assert_int_equal(owner, 255);
	}
	assert_string_equal(vs_owner_name(&owners, VS_OWNER_NCCL), "nccl");
	for (unsigned i = 0; i < 2 * VS_OWNERS_MAX; i++) { /* more than there is room for */
		uint8_t owner;

		snprintf(path, sizeof(path), "/x/libn%u.so", i);
		assert_true(vs_owner_of_file(&owners, path, &owner));
		assert_true(owner < VS_OWNERS_MAX);
		snprintf(path, sizeof(path), "n%u", i);
		assert_string_equal(vs_owner_name(&owners, owner), owner == VS_OWNER_OTHER ? "other" : path);
		others += owner == VS_OWNER_OTHER;
	}
	assert_true(others > VS_OWNERS_MAX && others < 2 * VS_OWNERS_MAX - 30);
	assert_string_equal(vs_owner_name(&owners, 255), "other");
}

/* A training job in miniature, written as the recorder writes: three steps on one device, units of 32 KiB, so that
 * the segment is a page of the card. */
enum {
	UNIT = 32 << 10,
	SEGMENT = 64 * UNIT,
	PAGE = 2 << 20,
	BASE = 1 << 30,
	CONTEXT = 1000,
	TOTAL = 64 << 20,
};

struct job {
	char *folder, *path;
	struct vs_writer *writer;
	struct vs_log *main, *autograd;
	uint32_t load, forward, backward, step, state, zero, user, nccl;
	uint64_t allocated, peak;
	uint64_t size[256]; /* of the block in each unit slot */
};

static uint32_t python_frame(struct job *job, const char *file, const char *function)
{
	uint32_t code = vs_writer_code(job->writer, vs_writer_string(job->writer, file, strlen(file)),
	                               vs_writer_string(job->writer, function, strlen(function)), 1, NULL, 0);

	return vs_writer_python_frame(job->writer, code, 0);
}

static uint32_t python_stack(struct job *job, const char *file, const char *function)
{
	uint32_t frames[] = {python_frame(job, file, function), python_frame(job, "train.py", "main")};

	return vs_writer_stack(job->writer, &(struct vramshim_stack){.python = frames, .python_count = 2});
}

static void job_begin(struct job *job)
{
	*job = (struct job){.folder = scratch_make()};
	job->path = scratch_path(job->folder, "job.vst");
	assert_int_equal(vs_writer_open(job->path, 0, &job->writer), 0);
	job->main = vs_log_new(job->writer, (uint32_t)getpid());
	job->autograd = vs_log_new(job->writer, (uint32_t)getpid() + 1);
	vs_writer_fact(job->writer, "python", "3.11.7");
	vs_writer_fact(job->writer, "torch", "2.15.0");
	vs_writer_fact(job->writer, "rank", "3");
	vs_writer_fact(job->writer, "device:0:name", "A card");
	vs_writer_fact(job->writer, "device:0:simulated", "1");
	vs_writer_fact(job->writer, "device:0:total_bytes", "67108864");
	vs_writer_fact(job->writer, "device:0:context_bytes", "1000");
	vs_writer_fact(job->writer, "device:0:context_source", "assumed");
	vs_writer_module(job->writer,
	                 &(struct vramshim_module){0, 0x700000000000, 0x700000001000, "/x/libnccl.so.2", ""});
	job->load = python_stack(job, "/x/torch/nn/modules/module.py", "Module._apply");
	job->forward = python_stack(job, "/x/torch/nn/modules/module.py", "Module._call_impl");
	job->backward = 0; /* no frames, and not the main thread */
	job->step = python_stack(job, "/x/torch/optim/optimizer.py", "wrapper");
	job->state = python_stack(job, "/x/torch/optim/adam.py", "Adam._init_group");
	job->zero = python_stack(job, "/x/torch/optim/optimizer.py", "Optimizer.zero_grad");
	job->user = python_stack(job, "train.py", "batch");
	job->nccl = vs_writer_stack(
	    job->writer, &(struct vramshim_stack){.native = (uint64_t[]){0x700000000100}, .native_count = 1});
}

static void job_event(struct job *job, struct vs_log *log, struct vramshim_event event)
{
	event.device = 0;
	event.allocated = job->allocated;
	event.reserved = SEGMENT;
	vs_log_append(log, &event);
}

/* `slot` is where the block lies in the segment, in units. */
static void get(struct job *job, struct vs_log *log, unsigned slot, unsigned units, uint32_t stack)
{
	job->size[slot] = (uint64_t)units * UNIT;
	job->allocated += job->size[slot];
	if (job->allocated > job->peak)
		job->peak = job->allocated;
	job_event(job, log,
	          (struct vramshim_event){.type = VRAMSHIM_TORCH_ALLOC,
	                                  .address = BASE + slot * UNIT,
	                                  .size = job->size[slot],
	                                  .stack = stack});
}

static void put(struct job *job, struct vs_log *log, unsigned slot, uint32_t stack)
{
	job->allocated -= job->size[slot];
	job_event(
	    job, log,
	    (struct vramshim_event){
	        .type = VRAMSHIM_TORCH_FREE, .address = BASE + slot * UNIT, .size = job->size[slot], .stack = stack});
}

static void mark(struct job *job, const char *name)
{
	vs_log_append(job->main, &(struct vramshim_event){.type = VRAMSHIM_MARK,
	                                                  .device = -1,
	                                                  .name = vs_writer_string(job->writer, name, strlen(name))});
}

/* Slots: 0..9 weights, 10..19 gradients, 20..39 states, 40 batch, 41..47 activations, 48.. temporaries. */
static void job_train(struct job *job, unsigned steps, bool out_of_memory)
{
	vs_log_append(job->main, &(struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
	                                                  .memory = VRAMSHIM_MEMORY_DEVICE,
	                                                  .address = BASE,
	                                                  .size = SEGMENT});
	get(job, job->main, 0, 10, job->load);
	vs_log_append(job->main, &(struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
	                                                  .memory = VRAMSHIM_MEMORY_DEVICE,
	                                                  .address = BASE + 2 * SEGMENT,
	                                                  .size = 77,
	                                                  .stack = job->nccl});
	for (unsigned step = 0; step < steps; step++) {
		get(job, job->main, 40, 1, job->user);
		get(job, job->main, 41, 7, job->forward);
		get(job, job->main, 48, 2, job->forward);
		put(job, job->main, 48, job->forward);
		if (out_of_memory && step == steps - 1) {
			vs_log_append(job->main, &(struct vramshim_event){.type = VRAMSHIM_MEMINFO, .size = 4096});
			job_event(job, job->main,
			          (struct vramshim_event){
			              .type = VRAMSHIM_TORCH_OOM, .size = 1 << 21, .stack = job->forward});
			return;
		}
		get(job, job->autograd, 48, 3, job->backward);
		get(job, job->autograd, 10, 10, job->backward);
		put(job, job->autograd, 48, job->backward);
		put(job, job->autograd, 41, job->backward);
		mark(job, "backward");
		if (!step)
			get(job, job->main, 20, 20, job->state);
		get(job, job->main, 48, 4, job->step);
		put(job, job->main, 48, job->step);
		mark(job, "optimizer");
		put(job, job->main, 10, job->zero);
		put(job, job->main, 40, job->user);
	}
}

static struct vramshim_trace *job_end(struct job *job)
{
	struct vramshim_trace *trace;

	vs_writer_finish(job->writer);
	assert_int_equal(vramshim_trace_open(job->path, &trace), 0);
	free(job->path);
	scratch_remove(job->folder);
	return trace;
}

static void test_analyse(void **state)
{
	struct vs_analyse_options options = {.blocks_at = VS_BLOCKS_MARK, .mark = "optimizer"};
	const struct vs_device_summary *device;
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	uint64_t bytes = 0;
	struct job job;

	(void)state;
	job_begin(&job);
	job_train(&job, 3, false);
	trace = job_end(&job);
	assert_int_equal(vs_analyse(trace, &options, &summary), 0);
	assert_int_equal(summary->pid, getpid());
	assert_int_equal(summary->rank, 3);
	assert_int_equal(summary->world_size, -1);
	assert_string_equal(summary->python, "3.11.7");
	assert_string_equal(summary->host, "");
	assert_int_equal(summary->exit, VS_EXIT_CLEAN);
	assert_int_equal(summary->steps, 3);
	assert_int_equal(summary->device_count, 1);

	device = &summary->devices[0];
	assert_string_equal(device->name, "A card");
	assert_true(device->simulated);
	assert_int_equal(device->total, TOTAL);
	assert_int_equal(device->allocations, 1 + 3 * 6 + 1);
	assert_int_equal(device->frees, 3 * 6);
	assert_int_equal(device->lost, 0);
	assert_int_equal(device->mismatches, 0);
	assert_int_equal(device->max_allocated, job.peak);
	assert_int_equal(device->max_reserved, SEGMENT);
	assert_int_equal(device->max_device, CONTEXT + SEGMENT + PAGE);

	/* The peak: the second step's backward, with the states there. */
	assert_int_equal(device->peak.allocated, job.peak);
	assert_int_equal(device->peak.allocated, (10 + 20 + 1 + 7 + 3 + 10) * UNIT);
	assert_int_equal(device->peak.step, 1);
	assert_int_equal(device->peak.phase, VS_PHASE_BACKWARD);
	assert_int_equal(device->peak.tags[VS_TAG_WEIGHTS], 10 * UNIT);
	assert_int_equal(device->peak.tags[VS_TAG_OPTIMIZER], 20 * UNIT);
	assert_int_equal(device->peak.tags[VS_TAG_GRADIENTS], 10 * UNIT);
	assert_int_equal(device->peak.tags[VS_TAG_ACTIVATIONS], 7 * UNIT);
	assert_int_equal(device->peak.tags[VS_TAG_INPUTS], 1 * UNIT);
	assert_int_equal(device->peak.tags[VS_TAG_TEMPORARIES], 3 * UNIT);
	assert_int_equal(device->peak.details[VS_DETAIL_TEMPORARIES_BACKWARD], 3 * UNIT);
	assert_int_equal(sum(device->peak.tags, VS_TAG_COUNT), job.peak);

	assert_int_equal(device->step_count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(device->steps[i].step, i);
		assert_int_equal(sum(device->steps[i].tags, VS_TAG_COUNT), device->steps[i].allocated);
	}
	assert_int_equal(device->steps[0].allocated, (10 + 1 + 10 + 20 + 4) * UNIT);
	assert_int_equal(device->steps[0].phase, VS_PHASE_OPTIMIZER);
	assert_int_equal(device->mark_count, 6);
	assert_string_equal(device->marks[0].name, "backward");
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(sum(device->marks[i].tags, VS_TAG_COUNT), device->marks[i].allocated);
	assert_int_equal(device->end.allocated, 30 * UNIT);
	assert_int_equal(sum(device->end.tags, VS_TAG_COUNT), 30 * UNIT);

	/* At the peak: 13 units free in the segment, the largest piece between the temporary and the end. */
	assert_int_equal(device->fragmentation.unallocated, 13 * UNIT);
	assert_int_equal(device->fragmentation.pinned, 13 * UNIT);
	assert_int_equal(device->fragmentation.releasable, 0);
	assert_int_equal(device->fragmentation.largest_free, 13 * UNIT);
	assert_true(device->fragmentation.exact);
	assert_int_equal(device->outside.at.context, CONTEXT);
	assert_string_equal(device->outside.context_source, "assumed");
	assert_int_equal(device->outside.library_count, 1);
	assert_string_equal(device->outside.libraries[0].library, "nccl");
	assert_int_equal(device->outside.libraries[0].bytes, 77);
	assert_int_equal(device->outside.at.sequence, 0);
	assert_int_equal(device->outside.at.pytorch, SEGMENT);
	assert_int_equal(device->outside.at.rounding, PAGE - 77);

	assert_int_equal(device->stacks[0].bytes, 20 * UNIT);
	assert_int_equal(device->stacks[0].tag, VS_TAG_OPTIMIZER);
	assert_int_equal(device->stacks[0].blocks, 1);

	/* The first mark of that name; ascending addresses. */
	for (size_t i = 0; i < device->block_count; i++) {
		bytes += device->blocks[i].size;
		assert_true(!i || device->blocks[i].address > device->blocks[i - 1].address);
	}
	assert_int_equal(bytes, device->marks[1].allocated);
	assert_int_equal(device->blocks[1].tag, VS_TAG_GRADIENTS);
	assert_int_equal(device->blocks[1].address, BASE + 10 * UNIT);
	vs_summary_free(summary);

	options.mark = "nowhere";
	summary = (void *)1;
	assert_int_equal(vs_analyse(trace, &options, &summary), -ENOENT);
	assert_ptr_equal(summary, (void *)1);
	assert_int_equal(vs_analyse(trace, NULL, &summary), 0);
	assert_int_equal(summary->devices[0].block_count, 0);
	vs_summary_free(summary);
	vs_summary_free(NULL);
	vramshim_trace_close(trace);
}

static void test_out_of_memory(void **state)
{
	struct vs_analyse_options options = {.blocks_at = VS_BLOCKS_OOM, .top_stacks = 2};
	const struct vs_device_summary *device;
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	struct job job;

	(void)state;
	job_begin(&job);
	job_train(&job, 2, true);
	trace = job_end(&job);
	assert_int_equal(vs_analyse(trace, &options, &summary), 0);
	device = &summary->devices[0];
	assert_int_equal(summary->exit, VS_EXIT_OOM);
	assert_int_equal(device->oom_count, 1);
	assert_false(device->ooms[0].caught);
	assert_int_equal(device->ooms[0].requested, 1 << 21);
	assert_int_equal(device->ooms[0].free, 4096);
	assert_int_equal(device->ooms[0].at.allocated, (10 + 20 + 1 + 7) * UNIT);
	assert_int_equal(device->ooms[0].at.step, 1);
	assert_int_equal(device->ooms[0].at.phase, VS_PHASE_FORWARD);
	assert_int_equal(device->ooms[0].largest_free, (64 - 48) * UNIT);
	/* The unfinished forward: known by the step before. */
	assert_int_equal(device->ooms[0].at.tags[VS_TAG_ACTIVATIONS], 7 * UNIT);
	assert_int_equal(device->block_count, 4);
	assert_int_equal(device->stack_count, 2);
	assert_int_equal(device->outside.at.used, TOTAL - 4096);
	assert_int_equal(device->outside.at.unexplained, TOTAL - 4096 - (CONTEXT + SEGMENT + PAGE));
	assert_int_equal(device->outside.sample_count, 1);
	assert_true(device->outside.split_known);
	assert_int_equal(device->outside.allocated, (10 + 20 + 1 + 7) * UNIT);
	assert_int_equal(device->outside.cached.pinned, SEGMENT - (10 + 20 + 1 + 7) * UNIT);
	vs_summary_free(summary);
	vramshim_trace_close(trace);
}

/* What is refused is often the first request of its phase: of an optimizer's state, say. */
static void test_out_of_memory_begins_a_phase(void **state)
{
	const struct vs_oom_event *oom;
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	struct job job;

	(void)state;
	job_begin(&job);
	get(&job, job.main, 0, 10, job.load);
	get(&job, job.main, 41, 7, job.forward);
	get(&job, job.autograd, 10, 10, job.backward);
	put(&job, job.autograd, 41, job.backward);
	job_event(&job, job.main,
	          (struct vramshim_event){.type = VRAMSHIM_TORCH_OOM, .size = 1 << 21, .stack = job.state});
	trace = job_end(&job);
	assert_int_equal(vs_analyse(trace, NULL, &summary), 0);
	oom = &summary->devices[0].ooms[0];
	assert_int_equal(oom->at.phase, VS_PHASE_OPTIMIZER);
	assert_int_equal(oom->at.step, 0);
	assert_int_equal(oom->at.tags[VS_TAG_GRADIENTS], 10 * UNIT);
	assert_true(oom->free_known); /* from the card's size */
	assert_int_equal(oom->free, TOTAL - CONTEXT);
	vs_summary_free(summary);
	vramshim_trace_close(trace);
}

/* An error that the job survives. */
static void test_caught(void **state)
{
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	struct job job;

	(void)state;
	job_begin(&job);
	job_train(&job, 2, true);
	get(&job, job.main, 48, 1, job.forward);
	trace = job_end(&job);
	assert_int_equal(vs_analyse(trace, NULL, &summary), 0);
	assert_true(summary->devices[0].ooms[0].caught);
	assert_int_equal(summary->exit, VS_EXIT_CLEAN);
	vs_summary_free(summary);
	vramshim_trace_close(trace);
}

/* cudaFree() says no device: the bytes leave the device that holds the address. */
static void test_free_without_device(void **state)
{
	struct vs_analyse_options options = {.blocks_at = VS_BLOCKS_END};
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	struct job job;

	(void)state;
	job_begin(&job);
	get(&job, job.main, 0, 10, job.load);
	for (unsigned i = 1; i <= 3; i++) {
		struct vramshim_event event = {.type = VRAMSHIM_CUDA_ALLOC,
		                               .memory = VRAMSHIM_MEMORY_DEVICE,
		                               .address = BASE + i * SEGMENT,
		                               .size = SEGMENT};

		vs_log_append(job.main, &event);
		event.type = VRAMSHIM_CUDA_FREE;
		event.device = -1;
		event.size = 0;
		vs_log_append(job.main, &event);
	}
	get(&job, job.main, 10, 1, job.load);
	trace = job_end(&job);
	assert_int_equal(vs_analyse(trace, &options, &summary), 0);
	assert_int_equal(summary->device_count, 1);
	assert_int_equal(summary->devices[0].max_device, CONTEXT + SEGMENT);
	assert_int_equal(summary->devices[0].peak.device, CONTEXT);
	assert_int_equal(summary->devices[0].fragmentation.segments, 0);
	vs_summary_free(summary);
	vramshim_trace_close(trace);
}

/* Every prefix of a trace can be analysed, and never claims more than it holds. */
static void test_cut(void **state)
{
	struct job job;
	uint8_t *data;
	size_t size;

	(void)state;
	job_begin(&job);
	job_train(&job, 2, false);
	vs_writer_finish(job.writer);
	data = read_whole(job.path, &size);
	for (size_t cut = 0; cut <= size; cut += cut < 6000 ? 61 : 1009) {
		struct vramshim_trace *trace;
		struct vs_summary *summary;

		if (vramshim_trace_open_memory(data, cut, &trace))
			continue;
		assert_int_equal(
		    vs_analyse(trace, &(struct vs_analyse_options){.blocks_at = VS_BLOCKS_END}, &summary), 0);
		for (size_t i = 0; i < summary->device_count; i++)
			assert_true(summary->devices[i].peak.allocated <= job.peak);
		vs_summary_free(summary);
		vramshim_trace_close(trace);
	}
	free(data);
	free(job.path);
	scratch_remove(job.folder);
}

/* Damaged bytes: any answer but a crash, a hang or a claim on the machine's memory. */
static void test_damaged(void **state)
{
	uint64_t random = 1;
	struct job job;
	uint8_t *data, *copy;
	size_t size, analysed = 0;

	(void)state;
	job_begin(&job);
	job_train(&job, 3, true);
	vs_writer_finish(job.writer);
	data = read_whole(job.path, &size);
	copy = malloc(size);
	assert_non_null(copy);
	for (unsigned round = 0; round < 400; round++) {
		struct vramshim_trace *trace;
		struct vs_summary *summary;

		memcpy(copy, data, size);
		for (uint64_t i = 1 + random_below(&random, 8); i; i--)
			copy[random_below(&random, size)] = (uint8_t)random_below(&random, 256);
		if (vramshim_trace_open_memory(copy, size, &trace))
			continue;
		if (!vs_analyse(trace, &(struct vs_analyse_options){.blocks_at = VS_BLOCKS_PEAK}, &summary)) {
			vs_summary_free(summary);
			analysed++;
		}
		vramshim_trace_close(trace);
	}
	assert_true(analysed > 0);
	free(copy);
	free(data);
	free(job.path);
	scratch_remove(job.folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_samples),       cmocka_unit_test(test_fragmentation),
	    cmocka_unit_test(test_cuda),          cmocka_unit_test(test_pages),
	    cmocka_unit_test(test_owners),        cmocka_unit_test(test_analyse),
	    cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_out_of_memory_begins_a_phase),
	    cmocka_unit_test(test_caught),        cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_damaged),       cmocka_unit_test(test_free_without_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
