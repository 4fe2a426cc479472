/* SPDX-License-Identifier: MIT
 *
 * What a vramshim trace is made of: the events of one process and the tables
 * they point into by id. Id 0 always means "none". Sizes are bytes, times are
 * nanoseconds of CLOCK_MONOTONIC in the recorded process.
 */
#ifndef VRAMSHIM_EVENTS_H
#define VRAMSHIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vramshim_event_type {
	VRAMSHIM_TORCH_ALLOC = 1, /* a block handed out by PyTorch's caching allocator */
	VRAMSHIM_TORCH_FREE = 2,  /* ... given back to it */
	VRAMSHIM_TORCH_OOM = 3,   /* the caching allocator gave up: torch raises OutOfMemoryError next */
	VRAMSHIM_CUDA_ALLOC = 4,  /* memory or address space from CUDA itself, see vramshim_memory */
	VRAMSHIM_CUDA_FREE = 5,
	VRAMSHIM_CUDA_FAIL = 6, /* a CUDA allocation call that returned an error (`result`) */
	VRAMSHIM_MARK = 7,      /* vramshim_mark(): `name` */
	VRAMSHIM_MEMINFO = 8,   /* a sample: `size` free bytes on `device`; where NVML was asked, see `allocated` */
	VRAMSHIM_EXIT = 9,      /* the process ended in an orderly way */
};

/* What a CUDA event is about. */
enum vramshim_memory {
	VRAMSHIM_MEMORY_DEVICE = 1,   /* cudaMalloc and its kin: device bytes */
	VRAMSHIM_MEMORY_MANAGED = 2,  /* cudaMallocManaged: either side */
	VRAMSHIM_MEMORY_PINNED = 3,   /* page-locked host memory: no device bytes */
	VRAMSHIM_MEMORY_ARRAY = 4,    /* arrays and mipmaps */
	VRAMSHIM_MEMORY_POOL = 5,     /* stream-ordered: use inside a pool */
	VRAMSHIM_MEMORY_PHYSICAL = 6, /* cuMemCreate/Release: device bytes; `address` is the handle */
	VRAMSHIM_MEMORY_MAPPED = 7,   /* cuMemMap/Unmap: no bytes, `handle` is what is mapped */
	VRAMSHIM_MEMORY_RESERVED = 8, /* cuMemAddressReserve/Free: address space only */
	VRAMSHIM_MEMORY_FOREIGN = 9,  /* opened IPC or external memory: another owner's bytes */
	VRAMSHIM_MEMORY_HELD = 10,    /* what a pool (`address`) has from the card from now on */
	VRAMSHIM_MEMORY_CONTEXT = 11, /* a context; what was allocated in it goes with it */
	VRAMSHIM_MEMORY_CODE = 12,    /* a module or library of kernels; its bytes are not told */
	VRAMSHIM_MEMORY_GRAPHS = 13,  /* what the graphs of a device (`address` - 1) have from the card from now on */
};

struct vramshim_event {
	enum vramshim_event_type type;
	enum vramshim_memory memory; /* CUDA events */
	int16_t device;              /* ordinal; -1 unknown */
	uint32_t thread;             /* kernel thread id */
	uint32_t stack;              /* id; 0 where stacks are off */
	uint32_t name;               /* string id: the mark, or the CUDA entry point */
	int32_t result;              /* CUDA_FAIL: the error code; EXIT: 0 */
	uint64_t sequence;           /* position in the process's total order, from 1 */
	uint64_t time_ns;
	uint64_t address;   /* the block, allocation or handle */
	uint64_t handle;    /* MAPPED, PHYSICAL of a retained handle: the handle. POOL: the pool. Else: the context */
	uint64_t size;      /* of the block (PyTorch: after its rounding); OOM: what was asked */
	uint64_t allocated; /* PyTorch events: total allocated on the device after the event */
	uint64_t reserved;  /* ... and total reserved. MEMINFO: what this process, and all others, hold by NVML */
};

struct vramshim_stack {
	const uint64_t *native; /* return addresses, innermost first */
	const uint32_t *python; /* Python frame ids, innermost first */
	uint32_t native_count;
	uint32_t python_count;
	bool truncated; /* deeper than the recorder keeps */
};

struct vramshim_module {     /* a mapped ELF file */
	uint64_t base;       /* load bias: address in memory - address in the file's symbol table */
	uint64_t begin, end; /* the range of addresses it covers */
	const char *path;
	const char *build_id; /* hex; "" if none */
};

struct vramshim_code { /* a Python code object */
	const char *file;
	const char *function; /* qualified name from 3.11 on, plain name before */
	uint32_t first_line;
	const uint8_t *line_table; /* raw co_linetable (co_lnotab before 3.10); may be NULL */
	size_t line_table_size;
};

struct vramshim_python_frame {
	uint32_t code;       /* code id */
	int32_t instruction; /* byte offset of the current instruction in co_code; -1 unknown */
};

struct vramshim_fact { /* "command", "python", "torch", "rank", "env:PYTORCH_ALLOC_CONF", "device:0:name", ... */
	const char *key;
	const char *value;
};

/* The whole of a process at a glance, kept up to date in the file's first page, so that it is right
 * even where events were dropped. */
struct vramshim_device_totals {
	uint64_t allocated, reserved;           /* now */
	uint64_t allocated_peak, reserved_peak; /* each one's own maximum */
	uint64_t allocations, frees, ooms;      /* PyTorch events seen, recorded or not */
};

struct vramshim_trace_info {
	uint32_t version; /* of the format */
	uint32_t pid;
	uint64_t started_ns;      /* CLOCK_REALTIME */
	uint64_t started_mono_ns; /* the same instant on the event clock */
	uint64_t lost;            /* events that happened and were not recorded (size cap, full disk) */
	uint64_t damaged;         /* places where the file makes no sense and records were skipped, as met so far */
	bool clean_exit;          /* an EXIT event was written */
	bool running;             /* the process is alive and this file is its own */
};

#endif
