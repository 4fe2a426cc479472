/* SPDX-License-Identifier: MIT */
#include "shim/sample.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "base/section.h"
#include "shim/device.h"
#include "shim/neighbours.h"
#include "shim/process.h"
#include "shim/real.h"
#include "shim/stack.h"
#include "shim/thread.h"

/* A sample may take a hundredth of the time. Asking who holds what is dearer (it opens files), and holds up a job
 * that waits for memory: a thousandth. */
enum { SAMPLE_SHARE = 100, NEIGHBOUR_SHARE = 1000 };
/* What NVML may use of a stack, which is not known: a thread that has less left does not ask it. */
#define NEIGHBOUR_STACK (64 << 10)
#define RETRY_NS        1000000 /* after an instant at which the driver could not be asked */

/* Begun calls in the upper half, those not ended in the lower: a value that did not change while the driver was asked
 * says that no other thread changed anything. */
static _Atomic uint64_t calls;
static _Atomic int captures;

/* Of each device. Relaxed throughout: two threads that both think it is time sample twice. */
static struct {
	_Atomic bool due;
	_Atomic uint64_t next_ns;           /* not before */
	_Atomic uint64_t next_neighbour_ns; /* likewise */
	_Atomic uint64_t cost_ns;           /* of the last sample */
} pace[VS_MAX_DEVICES];

void vs_sample_call_begins(void)
{
	atomic_fetch_add(&calls, ((uint64_t)1 << 32) + 1);
	vs_thread.in_call = true;
}

void vs_sample_call_ends(void)
{
	vs_thread.in_call = false;
	atomic_fetch_sub(&calls, 1);
}

void vs_sample_capture(bool begins)
{
	int running = atomic_load(&captures);

	if (begins)
		atomic_fetch_add(&captures, 1);
	else
		while (running > 0 && !atomic_compare_exchange_weak(&captures, &running, running - 1))
			;
}

/* Free bytes of the thread's device, if it has a context and that is on the one meant. */
static bool ask_driver(int device, uint64_t *ret_bytes)
{
	return vs_device_current(VS_API_DRIVER) == device && vs_device_free(ret_bytes) == 0;
}

/* The same without a context. */
static bool ask_nvml(int device, uint64_t *ret_bytes)
{
	return vs_stack_left() >= NEIGHBOUR_STACK && vs_neighbours_free(device, ret_bytes) == 0;
}

/* Nothing is recorded where another thread's call came between, for the trace could not say on which side of it the
 * figure belongs. `must`: if the driver does not tell, NVML is asked. */
static void sample(struct vs_process *process, int device, bool must)
{
	struct vramshim_event event = {.type = VRAMSHIM_MEMINFO, .device = (int16_t)device};
	uint64_t before = atomic_load(&calls), started = vs_clock_exact(), asked, cost;
	struct vs_section section;

	if (vs_thread.partial) /* the same call's next event is a better instant */
		return;
	atomic_store_explicit(&pace[device].next_ns, started + RETRY_NS, memory_order_relaxed);
	if ((uint32_t)before != vs_thread.in_call || atomic_load(&captures) > 0)
		return;
	/* It opens files. */
	vs_section_enter(&section);
	if (!ask_driver(device, &event.size)) {
		bool told = must && ask_nvml(device, &event.size);

		vs_section_leave(&section);
		/* Who holds what is not asked: who has no context is none of those listed. */
		if (told && atomic_load(&calls) == before)
			vs_thread_append(process, &event);
		return;
	}
	asked = vs_clock_exact();
	/* Of two, the cheaper: a thread that lost its processor meanwhile says nothing about the cost. */
	cost = atomic_exchange_explicit(&pace[device].cost_ns, asked - started, memory_order_relaxed);
	if (!cost || cost > asked - started)
		cost = asked - started;
	atomic_store_explicit(&pace[device].next_ns, asked + cost * SAMPLE_SHARE, memory_order_relaxed);
	if (asked >= atomic_load_explicit(&pace[device].next_neighbour_ns, memory_order_relaxed) &&
	    vs_stack_left() >= NEIGHBOUR_STACK) {
		uint64_t done;

		vs_neighbours_held(device, &event.allocated, &event.reserved);
		done = vs_clock_exact();
		atomic_store_explicit(&pace[device].next_neighbour_ns, done + (done - asked) * NEIGHBOUR_SHARE,
		                      memory_order_relaxed);
	}
	vs_section_leave(&section);
	if (atomic_load(&calls) != before)
		return;
	atomic_store_explicit(&pace[device].due, false, memory_order_relaxed);
	vs_thread_append(process, &event);
}

void vs_sample_now(struct vs_process *process, int device, bool must)
{
	if (device < 0 || device >= VS_MAX_DEVICES)
		return;
	atomic_store_explicit(&pace[device].next_neighbour_ns, 0, memory_order_relaxed);
	sample(process, device, must);
}

void vs_sample_event(struct vs_process *process, const struct vramshim_event *event)
{
	int device = event->device;

	if (device < 0 || device >= VS_MAX_DEVICES)
		return;
	if (event->type == VRAMSHIM_CUDA_ALLOC && event->memory != VRAMSHIM_MEMORY_PINNED)
		atomic_store_explicit(&pace[device].due, true, memory_order_relaxed);
	else if (event->type != VRAMSHIM_TORCH_ALLOC)
		return;
	if (atomic_load_explicit(&pace[device].due, memory_order_relaxed) &&
	    vs_clock_exact() >= atomic_load_explicit(&pace[device].next_ns, memory_order_relaxed))
		sample(process, device, false);
}
