/* SPDX-License-Identifier: MIT
 *
 * A volume renderer on the driver API: a context of its own, a module with its kernel, frames by cuMemAlloc, and a
 * volume that grows in place by mapping more memory behind what it has.
 */
#include "client.h"
#include "driver.h"

#define MIB ((size_t)1 << 20)

enum { BRICKS = 5, FRAMES = 3 };

static const size_t reserved = 256 * MIB;
static struct driver cu;
static struct client_books books;

static uint64_t *held(int kind)
{
	return &books.bytes[kind];
}

static void mark(const char *name)
{
	size_t available, total;

	CHECK(cu.info(&available, &total));
	books.used = total - available;
	client_mark(name, &books);
}

struct volume {
	uint64_t address, handles[BRICKS];
	size_t size, sizes[BRICKS];
	int bricks;
};

static void grow(struct volume *volume, size_t size)
{
	const struct placement placement = {.type = 1, .location = 1};
	const struct access access = {.location = 1, .flags = 3};
	int brick = volume->bricks++;

	CHECK(cu.create(&volume->handles[brick], size, &placement, 0));
	*held(VRAMSHIM_MEMORY_PHYSICAL) += size;
	CHECK(cu.map(volume->address + volume->size, size, 0, volume->handles[brick], 0));
	*held(VRAMSHIM_MEMORY_MAPPED) += size;
	CHECK(cu.set_access(volume->address + volume->size, size, &access, 1));
	volume->sizes[brick] = size;
	volume->size += size;
}

/* Released while it is mapped: the memory stays until the mapping goes. */
static void let_go(struct volume *volume)
{
	uint64_t again;

	for (int i = 0; i < volume->bricks; i++)
		CHECK(cu.drop(volume->handles[i]));
	mark("released, mapped");
	CHECK(cu.retain(&again, (void *)(uintptr_t)volume->address));
	CHECK(cu.unmap(volume->address, volume->size));
	*held(VRAMSHIM_MEMORY_MAPPED) -= volume->size;
	for (int i = 1; i < volume->bricks; i++)
		*held(VRAMSHIM_MEMORY_PHYSICAL) -= volume->sizes[i];
	mark("unmapped, one retained");
	CHECK(cu.drop(again));
	*held(VRAMSHIM_MEMORY_PHYSICAL) -= volume->sizes[0];
	CHECK(cu.unreserve(volume->address, reserved));
	*held(VRAMSHIM_MEMORY_RESERVED) -= reserved;
}

int main(void)
{
	struct volume volume = {0};
	uint64_t frames[FRAMES], depth, more;
	size_t pitch;
	void *context, *module, *function, *picture;
	int device;

	CHECK(driver_open(&cu));
	CHECK(cu.init(0));
	CHECK(cu.device_get(&device, 0));
	CHECK(cu.context_create(&context, 0, device));
	CHECK(cu.module_load(&module, "//\n.version 7.0\n.target sm_80\n.address_size 64\n"));
	CHECK(cu.module_function(&function, module, "render"));
	mark("started");

	for (int i = 0; i < FRAMES; i++) {
		CHECK(cu.allocate(&frames[i], 1920 * 1080 * 4 + i));
		*held(VRAMSHIM_MEMORY_DEVICE) += 1920 * 1080 * 4 + i;
	}
	CHECK(cu.allocate_pitch(&depth, &pitch, 1919 * 2, 1080, 8));
	*held(VRAMSHIM_MEMORY_DEVICE) += pitch * 1080;
	CHECK(cu.host_allocate(&picture, 1920 * 1080 * 4, 0));
	*held(VRAMSHIM_MEMORY_PINNED) += 1920 * 1080 * 4;
	CHECK(cu.reserve(&volume.address, reserved, 0, 0, 0));
	*held(VRAMSHIM_MEMORY_RESERVED) += reserved;
	mark("frames");

	for (size_t i = 0; i < BRICKS; i++) {
		void *parameters[] = {&frames[i % FRAMES], &volume.address, &depth};

		grow(&volume, 2 * (1 + i * i) * MIB);
		CHECK(cu.launch(function, 240, 135, 1, 8, 8, 1, 0, NULL, parameters, NULL));
		mark("grown");
	}
	client_work();
	CHECK(cu.allocate(&more, 300));
	*held(VRAMSHIM_MEMORY_DEVICE) += 300;
	mark("fullest");

	/* Refused, and nothing is held of it. */
	if (cu.allocate(&more, (size_t)1 << 50) != 2 || cu.release(frames[0] + 1) != 1)
		return 1;
	let_go(&volume);
	CHECK(cu.release(frames[1]));
	*held(VRAMSHIM_MEMORY_DEVICE) -= 1920 * 1080 * 4 + 1;
	CHECK(cu.module_unload(module));
	mark("frames left");

	/* The context takes along what was made in it. */
	CHECK(cu.context_destroy(context));
	*held(VRAMSHIM_MEMORY_DEVICE) = 0;
	*held(VRAMSHIM_MEMORY_PINNED) = 0;
	CHECK(cu.context_create(&context, 0, device));
	mark("another context");
	CHECK(cu.context_destroy(context));
	return 0;
}
