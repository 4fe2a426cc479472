/* SPDX-License-Identifier: MIT
 *
 * Per-thread state and the guard that every hook passes.
 */
#ifndef VS_SHIM_THREAD_H
#define VS_SHIM_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <vramshim/events.h>

struct vs_process;
struct vs_log;
struct vs_stacks;

/* The outermost CUDA call that the thread is in. Known by its frame, and valid below it on the stack only: a C++
 * exception may have passed through, and then nobody took the note away. */
struct vs_nest {
	uintptr_t frame;
	const void *caller; /* where it returns to */
	unsigned int entry; /* enum vs_entry: what the job called */
	uint64_t freeing;   /* the address it is about to free, which is in the trace already; 0: none */
};

struct vs_thread {
	uintptr_t hook;    /* frame of the outermost of our stretches that is active; 0: none */
	bool in_call;      /* between vs_sample_call_begins() and _ends() */
	bool partial;      /* more events of the call follow: until then the trace does not add up */
	uint32_t bookings; /* CUDA events recorded */
	uint64_t booked;   /* address of the last of them; 0: a failure */
	struct vs_nest nest;
	uint32_t id;                /* kernel thread id in `process` */
	struct vs_process *process; /* whose log this is: another one after a fork */
	struct vs_log *log;
	bool appending;           /* to it */
	struct vs_stacks *stacks; /* its last ones (stack.h); NULL: no memory for them */
};

/* initial-exec: no call into the loader, which may allocate, on a thread's first access. The library is
 * there from the start (LD_PRELOAD), so the space is too. */
extern __thread struct vs_thread vs_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* False: pass-through. Set while the library loads, cleared for good when recording fails and at the end. */
extern bool vs_recording __attribute__((visibility("hidden")));

/* Something is called whose frame lies outside of another one's, which therefore cannot be active any more, unless
 * this is a signal handler with a stack of its own. Whether it is not. */
bool vs_thread_was_left(void);

/* Whether a stretch of ours is active on this thread, so that this is a signal handler that interrupted it, or a call
 * which it makes itself.
 *
 * A handler may also jump out of it. That shows when the next one comes from the same frame or from further out; what
 * comes from further in before that is taken for nested. */
static inline __attribute__((always_inline)) bool vs_inside(void)
{
	return vs_thread.hook && ((uintptr_t)__builtin_frame_address(0) < vs_thread.hook || !vs_thread_was_left());
}

/* Enter a stretch of ours. True when it should record: recording is on, and none of this thread is active. Must be
 * paired with vs_leave() in the same function either way. One word tells it all, so that a signal handler finds it
 * before or after any change, never between. */
static inline __attribute__((always_inline)) bool vs_enter(void)
{
	if (vs_inside())
		return false;
	vs_thread.hook = (uintptr_t)__builtin_frame_address(0);
	/* A signal handler on this thread must see it before anything else we do. */
	__asm__ volatile("" ::: "memory");
	/* Relaxed: whoever is late records, or does not record, one event more. */
	return __atomic_load_n(&vs_recording, __ATOMIC_RELAXED);
}

static inline __attribute__((always_inline)) void vs_leave(void)
{
	__asm__ volatile("" ::: "memory");
	if (vs_thread.hook == (uintptr_t)__builtin_frame_address(0))
		vs_thread.hook = 0;
}

/* Make this thread one of the recording's, if it is not yet. Inside a hook only, before anything is taken from
 * vs_thread. */
__attribute__((cold)) void vs_thread_attach_anew(struct vs_process *process);
static inline void vs_thread_attach(struct vs_process *process)
{
	/* An append that a handler jumped out of, or that it interrupted, leaves half a record: that log is done
	 * with. */
	if (vs_thread.process != process || vs_thread.appending)
		vs_thread_attach_anew(process);
}
/* Append an event to the calling thread's log; `event->thread` is filled in. Inside a hook only. */
void vs_thread_append(struct vs_process *process, struct vramshim_event *event);

/* Once a process image, before the first event. */
void vs_thread_prepare(void);

#endif
