/* SPDX-License-Identifier: MIT
 *
 * Heat on a plate: a program as nvcc links it, with libcudart. Pitched grids that are refined on the way,
 * coefficients in an array, parameters in managed memory, rows staged through page-locked buffers on two streams.
 */
#include <stdlib.h>

#include "client.h"
#include "runtime.h"

enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1, GLOBAL = 1, REFINEMENTS = 3, STEPS = 20 };

struct grid {
	void *rows;
	size_t pitch, width, height; /* width in bytes */
};

static struct client_books books;

static uint64_t *held(int kind)
{
	return &books.bytes[kind];
}

static void mark(const char *name)
{
	size_t available, total;

	CHECK(cudaMemGetInfo(&available, &total));
	books.used = total - available;
	client_mark(name, &books);
}

/* A kernel's host side: its address is the kernel's name. */
static void diffuse(void)
{
}

static struct {
	int magic, version;
	const void *data;
	void *unused;
} code = {0x466243b1, 1, "", NULL};
static void **code_handle;

__attribute__((constructor)) static void register_code(void)
{
	code_handle = __cudaRegisterFatBinary(&code);
	__cudaRegisterFunction(code_handle, (const char *)diffuse, "diffuse", "diffuse", -1, NULL, NULL, NULL, NULL,
	                       NULL);
	__cudaRegisterFatBinaryEnd(code_handle);
}

__attribute__((destructor)) static void unregister_code(void)
{
	__cudaUnregisterFatBinary(code_handle);
}

static struct grid grid_new(size_t columns, size_t rows)
{
	struct grid grid = {.width = columns * sizeof(float), .height = rows};

	CHECK(cudaMallocPitch(&grid.rows, &grid.pitch, grid.width, grid.height));
	*held(VRAMSHIM_MEMORY_DEVICE) += grid.pitch * grid.height;
	return grid;
}

static void grid_free(struct grid *grid)
{
	CHECK(cudaFree(grid->rows));
	*held(VRAMSHIM_MEMORY_DEVICE) -= grid->pitch * grid->height;
}

static void run(struct grid *from, struct grid *to, void *array, void **streams)
{
	for (int step = 0; step < STEPS; step++) {
		void *arguments[] = {&from->rows, &to->rows, &array};
		struct grid swapped = *from;

		CHECK(cudaLaunchKernel((const void *)diffuse, (struct dim3){32, 32, 1}, (struct dim3){32, 8, 1},
		                       arguments, 0, streams[step % 2]));
		*from = *to;
		*to = swapped;
	}
	CHECK(cudaDeviceSynchronize());
}

int main(void)
{
	const struct cudaChannelFormatDesc two_floats = {32, 32, 0, 0, 2};
	const size_t staging_size = 3000001, borders_size = 8 * 4096;
	size_t columns = 1001, rows = 777;
	struct grid from, to;
	void *streams[2], *array, *staging, *parameters, *residual, *borders = aligned_alloc(4096, borders_size);

	CHECK(cudaSetDevice(0));
	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], NON_BLOCKING));
	from = grid_new(columns, rows);
	to = grid_new(columns, rows);
	CHECK(cudaMallocArray(&array, &two_floats, 640, 480, 0));
	*held(VRAMSHIM_MEMORY_ARRAY) += 640 * 480 * 2 * sizeof(float);
	CHECK(cudaMallocManaged(&parameters, 12345, GLOBAL));
	*held(VRAMSHIM_MEMORY_MANAGED) += 12345;
	((float *)parameters)[3] = 0.25f;
	CHECK(cudaMallocHost(&staging, staging_size));
	*held(VRAMSHIM_MEMORY_PINNED) += staging_size;
	CHECK(cudaHostRegister(borders, borders_size, 0));
	*held(VRAMSHIM_MEMORY_PINNED) += borders_size;
	CHECK(cudaMemset2DAsync(from.rows, from.pitch, 0, from.width, from.height, streams[0]));
	CHECK(cudaMemcpyAsync(from.rows, staging, from.width, TO_DEVICE, streams[1]));
	mark("ready");

	for (int i = 0; i < REFINEMENTS; i++) {
		struct grid fine = grid_new(2 * columns, 2 * rows);

		run(&from, &to, array, streams);
		CHECK(cudaMemcpy2DAsync(fine.rows, fine.pitch, from.rows, from.pitch, from.width, from.height, 3,
		                        streams[0]));
		CHECK(cudaStreamSynchronize(streams[0]));
		grid_free(&from);
		grid_free(&to);
		columns *= 2;
		rows *= 2;
		from = fine;
		to = grid_new(columns, rows);
		mark(i < REFINEMENTS - 1 ? "refined" : "finest");
	}
	client_work();
	CHECK(cudaMalloc(&residual, 4));
	*held(VRAMSHIM_MEMORY_DEVICE) += 4;
	mark("fullest");
	CHECK(cudaMemcpyAsync(staging, from.rows, from.width, TO_HOST, streams[0]));
	CHECK(cudaStreamSynchronize(streams[0]));

	/* In no order, and the residual never. */
	CHECK(cudaFreeHost(staging));
	*held(VRAMSHIM_MEMORY_PINNED) -= staging_size;
	grid_free(&to);
	CHECK(cudaFree(parameters));
	*held(VRAMSHIM_MEMORY_MANAGED) -= 12345;
	CHECK(cudaFreeArray(array));
	*held(VRAMSHIM_MEMORY_ARRAY) -= 640 * 480 * 2 * sizeof(float);
	grid_free(&from);
	CHECK(cudaHostUnregister(borders));
	*held(VRAMSHIM_MEMORY_PINNED) -= borders_size;
	free(borders);
	for (int i = 0; i < 2; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	mark("over");
	return 3; /* its own status, which has to come through */
}
