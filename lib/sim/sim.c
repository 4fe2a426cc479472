/* SPDX-License-Identifier: MIT */
#include "sim/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/neighbours.h"

static struct vs_sim sim;
static struct vs_context primaries[VS_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool in_use; /* a context was made in this process */
static _Atomic bool forked; /* ... or in the one it was forked from */

static __thread int thread_device;
static __thread int thread_error;
static __thread struct vs_context *thread_context;

static void after_fork(void)
{
	vs_books_let();
	if (in_use)
		forked = true;
}

/* A line, written in one go: a job's threads and ranks share stderr. */
static void say(const char *what, const char *where)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "vramsim: %s: %s\n", what, where);

	if (n > 0)
		(void)!write(STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

int vs_unsupported(atomic_flag *said, const char *name, int code)
{
	/* relaxed: only "who is first" matters, nothing is published with it */
	if (!atomic_flag_test_and_set_explicit(said, memory_order_relaxed))
		say("not simulated", name);
	return code;
}

static long number(const char *name, long otherwise, long low, long high)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return otherwise;
	n = strtol(text, &end, 10);
	if (*end || n < low || n > high) {
		say("ignored, not a number in range", name);
		return otherwise;
	}
	return n;
}

/* One token of CUDA_VISIBLE_DEVICES: what begins with an index, or the start of one card's "GPU-<uuid>"; -1 for
 * neither.
 */
static int visible_device(const char *token, size_t length)
{
	int found = -1;

	if (length > 4 && !strncmp(token, "GPU-", 4)) {
		for (int i = 0; i < sim.installed; i++) {
			char text[VS_UUID_TEXT];

			vs_gpu_uuid_text(i, text);
			if (length >= sizeof(text) || strncasecmp(text, token, length))
				continue;
			if (found >= 0)
				return -1;
			found = i;
		}
		return found;
	}
	for (size_t i = 0; i < length && i < 9 && token[i] >= '0' && token[i] <= '9'; i++)
		found = (found < 0 ? 0 : found * 10) + (token[i] - '0');
	return found;
}

/*
 * As CUDA reads it: the list ends at the first entry that names no card, and
 * one that names a card twice names none (so does torch/cuda/__init__.py).
 */
static void read_visible(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (!list) {
		sim.visible = sim.installed;
		for (int i = 0; i < sim.installed; i++)
			sim.physical[i] = i;
		return;
	}
	while (*list && sim.visible < VS_DEVICES) {
		size_t length;
		int device;

		list += strspn(list, " ");
		length = strcspn(list, ", ");
		device = visible_device(list, length);
		if (device < 0 || device >= sim.installed)
			break;
		for (int i = 0; i < sim.visible; i++) {
			if (sim.physical[i] == device) {
				sim.visible = 0;
				return;
			}
		}
		sim.physical[sim.visible++] = device;
		list += length;
		list += strspn(list, " ");
		if (*list == ',')
			list++;
	}
}

/* "SIZE[,SIZE...]" in bytes, one a card; the last counts for the cards after it. */
static void numbers(const char *name, uint64_t values[VS_DEVICES])
{
	const char *text = getenv(name);
	uint64_t value = 0;
	char *end;

	memset(values, 0, VS_DEVICES * sizeof(*values));
	if (!text || !*text)
		return;
	for (int i = 0; i < VS_DEVICES; i++) {
		if (*text) {
			bool digits = *text >= '0' && *text <= '9';

			value = digits ? strtoull(text, &end, 10) : 0;
			if (!digits || (*end && *end != ',') || value >> 50) {
				say("ignored, not bytes for each card", name);
				memset(values, 0, VS_DEVICES * sizeof(*values));
				return;
			}
			text = *end ? end + 1 : end;
		}
		values[i] = value;
	}
}

static uint64_t others(int device, uint64_t used)
{
	return vs_neighbours_exchange(sim.physical[device], used);
}

static void open_neighbours(void)
{
	const char *path = getenv("VRAMSIM_SHARE");
	uint64_t planted[VS_DEVICES];

	numbers("VRAMSIM_OTHERS", planted);
	if (vs_neighbours_open(planted, VS_DEVICES, path && *path ? path : NULL) < 0)
		say("cards are not shared, the file cannot be used", path);
	vs_books_others(others);
}

static void open_sim(void)
{
	uint64_t unseen[VS_DEVICES];

	const char *key = getenv("VRAMSIM_GPU");

	if (!key || !*key) {
		say("no device", "VRAMSIM_GPU is not set");
		return;
	}
	sim.gpu = vs_gpu_find(key);
	if (!sim.gpu) {
		say("no device, VRAMSIM_GPU names no known GPU", key);
		return;
	}
	sim.total = (uint64_t)number("VRAMSIM_MEMORY", (long)((uint64_t)sim.gpu->memory_mib << 20), 1, 1L << 50);
	sim.installed = (int)number("VRAMSIM_COUNT", 1, 1, VS_DEVICES);
	read_visible();
	numbers("VRAMSIM_UNSEEN", unseen);
	for (int i = 0; i < sim.visible; i++) {
		/* What libraries take past every hook is there from the start: it goes with the context. */
		vs_books_open(i, sim.total, ((uint64_t)sim.gpu->context_kib << 10) + unseen[sim.physical[i]]);
		primaries[i] = (struct vs_context){.device = i, .primary = true};
	}
	open_neighbours();
	pthread_atfork(vs_books_hold, vs_books_let, after_fork);
}

const struct vs_sim *vs_sim_get(void)
{
	pthread_once(&once, open_sim);
	return sim.gpu ? &sim : NULL;
}

int vs_sim_check(void)
{
	if (!vs_sim_get() || !sim.visible)
		return CU_NO_DEVICE;
	return forked ? CU_NOT_INITIALIZED : CU_OK;
}

int vs_sim_check_device(int device)
{
	int r = vs_sim_check();

	if (r == CU_OK && (device < 0 || device >= sim.visible))
		r = CU_INVALID_DEVICE;
	return r;
}

/* With the contexts' lock. */
static int activate(int device)
{
	int r = CU_OK;

	if (!primaries[device].active) {
		r = vs_books_context(device, true);
		if (r == CU_OK) {
			in_use = true;
			atomic_store_explicit(&primaries[device].active, true, memory_order_release);
		}
	}
	return r;
}

int vs_sim_activate_primary(int device)
{
	int r = vs_sim_check_device(device);

	/* acquire: pairs with the release above, the context's bytes are on the books once it is seen */
	if (r != CU_OK || (atomic_load_explicit(&primaries[device].active, memory_order_acquire) &&
	                   atomic_load_explicit(&primaries[device].implicit, memory_order_relaxed)))
		return r;
	pthread_mutex_lock(&context_lock);
	r = activate(device);
	if (r == CU_OK)
		primaries[device].implicit = true;
	pthread_mutex_unlock(&context_lock);
	return r;
}

int vs_sim_activate(int device)
{
	const struct vs_context *context = thread_context;

	/* A context that the job made, and works in, needs no primary one beside it. */
	if (context && !context->primary && context->active && context->device == device)
		return vs_sim_check();
	return vs_sim_activate_primary(device);
}

int vs_sim_retain(int device)
{
	int r = vs_sim_check_device(device);

	if (r != CU_OK)
		return r;
	pthread_mutex_lock(&context_lock);
	r = activate(device);
	if (r == CU_OK)
		primaries[device].retained++;
	pthread_mutex_unlock(&context_lock);
	return r;
}

static void deactivate(int device)
{
	if (!primaries[device].active)
		return;
	vs_books_context(device, false);
	vs_books_reset(device);
	primaries[device].active = false;
	primaries[device].implicit = false;
}

int vs_sim_release(int device)
{
	int r = vs_sim_check_device(device);

	if (r != CU_OK)
		return r;
	pthread_mutex_lock(&context_lock);
	if (!primaries[device].retained)
		r = CU_INVALID_CONTEXT;
	else if (!--primaries[device].retained && !primaries[device].implicit)
		deactivate(device);
	pthread_mutex_unlock(&context_lock);
	return r;
}

int vs_sim_own(int r, uint64_t address)
{
	if (r == CU_OK && address && vs_sim_contexts_made())
		vs_books_own(address, thread_context ? thread_context->id : 0);
	return r;
}

int vs_sim_activate_current(void)
{
	return vs_sim_activate(vs_thread_device());
}

void vs_sim_deactivate(int device)
{
	pthread_mutex_lock(&context_lock);
	deactivate(device);
	pthread_mutex_unlock(&context_lock);
}

bool vs_sim_is_active(int device)
{
	return primaries[device].active;
}

struct vs_context *vs_sim_primary(int device)
{
	return &primaries[device];
}

int vs_thread_device(void)
{
	return thread_context ? thread_context->device : thread_device;
}

void vs_thread_set_device(int device)
{
	thread_device = device;
	thread_context = NULL;
}

struct vs_context *vs_thread_context(void)
{
	if (thread_context)
		return thread_context;
	return primaries[thread_device].active ? &primaries[thread_device] : NULL;
}

void vs_thread_set_context(struct vs_context *context)
{
	thread_context = context;
	if (context)
		thread_device = context->device;
}

int vs_error(int error)
{
	if (error != CU_OK)
		thread_error = error;
	return error;
}

int vs_last_error(bool clear)
{
	int error = thread_error;

	if (clear)
		thread_error = CU_OK;
	return error;
}

void vs_gpu_uuid(int installed, struct vs_uuid *ret_uuid)
{
	/* "vramsim" and the index: the same in every process, and nobody's real card. */
	memcpy(ret_uuid->bytes, "vramsim\0\0\0\0\0\0\0\0", 15);
	ret_uuid->bytes[15] = (unsigned char)installed;
}

void vs_gpu_uuid_text(int installed, char ret_text[VS_UUID_TEXT])
{
	struct vs_uuid uuid;
	int n = sprintf(ret_text, "GPU-");

	vs_gpu_uuid(installed, &uuid);
	for (int i = 0; i < 16; i++)
		n += sprintf(ret_text + n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
}

int vs_gpu_bus(int installed)
{
	return 1 + installed; /* bus 0 is the host bridge's */
}

VS_API const int vramsim_active = 1;

VS_API uint64_t vramsim_context_bytes(int device)
{
	if (!vs_sim_get() || device < 0 || device >= sim.visible)
		return 0;
	return (uint64_t)sim.gpu->context_kib << 10;
}
