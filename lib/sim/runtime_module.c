/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: device code and its symbols. Code is taken on trust and never
 * read; device variables get addresses of their own.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/module.h"
#include "sim/readback.h"
#include "sim/sim.h"

/* A device variable of a fat binary, by the address of its host shadow. */
struct variable {
	const void *shadow;
	size_t size;
	uint64_t address; /* on first use */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct variable *variables;
static size_t variable_count, variable_capacity;

VS_API void **__cudaRegisterFatBinary(void *fat_binary)
{
	/* Only a non-null handle is wanted. The binary itself stays in the library that brings it. */
	return fat_binary;
}

VS_API void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

VS_API void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

VS_API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name)
{
	(void)handle;
	(void)device;
	vs_readback_register(host, name);
}

VS_API void __cudaRegisterVar(void **handle, char *shadow, char *address, const char *name, int external, size_t size,
                              int constant, int global)
{
	(void)handle;
	(void)address;
	(void)name;
	(void)external;
	(void)constant;
	(void)global;
	pthread_mutex_lock(&lock);
	if (variable_count == variable_capacity) {
		size_t grown = variable_capacity ? variable_capacity * 2 : 256;
		struct variable *fresh = realloc(variables, grown * sizeof(*fresh));

		if (fresh) {
			variables = fresh;
			variable_capacity = grown;
		}
	}
	if (variable_count < variable_capacity)
		variables[variable_count++] = (struct variable){.shadow = shadow, .size = size};
	pthread_mutex_unlock(&lock);
}
VS_ALIAS(__cudaRegisterHostVar, __cudaRegisterVar);

VS_API void __cudaRegisterManagedVar(void **handle, void **shadow, char *address, const char *name, int external,
                                     size_t size, int constant, int global)
{
	/* The shadow is a pointer that the runtime fills: host code reads through it. */
	*shadow = calloc(1, size ? size : 1);
	__cudaRegisterVar(handle, (char *)shadow, address, name, external, size, constant, global);
}

VS_API char __cudaInitModule(void **handle)
{
	(void)handle;
	return 0;
}

VS_API int __cudaGetKernel(void **kernel, const void *function)
{
	*kernel = (void *)(uintptr_t)function; /* the host stub is as good a handle as any */
	return CU_OK;
}
VS_ALIAS(cudaGetKernel, __cudaGetKernel);
VS_ALIAS(cudaGetFuncBySymbol, __cudaGetKernel);

/*
 * Addresses for device variables. They lie in the code's part of the context,
 * whose size is assumed as a whole, so they cost no bytes of their own.
 */
int vs_variable_address(uint64_t size, uint64_t *ret_address)
{
	static uint64_t next, end;
	int r = CU_OK;

	size = (size + 255) / 256 * 256;
	pthread_mutex_lock(&lock);
	if (end - next < size) {
		uint64_t chunk = size > 16 << 20 ? size : 16 << 20;

		r = vs_books_code(vs_thread_device(), chunk, &next);
		end = r == CU_OK ? next + chunk : next;
	}
	if (r == CU_OK) {
		*ret_address = next;
		next += size;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static int find(const void *symbol, uint64_t *ret_address, size_t *ret_size)
{
	struct variable found = {0};
	size_t i;
	int r;

	pthread_mutex_lock(&lock);
	for (i = 0; i < variable_count; i++)
		if (variables[i].shadow == symbol)
			break;
	if (i < variable_count)
		found = variables[i];
	pthread_mutex_unlock(&lock);
	if (!found.shadow)
		return CU_INVALID_SYMBOL;
	if (!found.address) {
		r = vs_variable_address(found.size, &found.address);
		if (r != CU_OK)
			return r;
		pthread_mutex_lock(&lock);
		if (variables[i].address)
			found.address = variables[i].address;
		else
			variables[i].address = found.address;
		pthread_mutex_unlock(&lock);
	}
	*ret_address = found.address;
	*ret_size = found.size;
	return CU_OK;
}

VS_API int cudaGetSymbolAddress(void **pointer, const void *symbol)
{
	uint64_t address;
	size_t size;
	int r = pointer ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = find(symbol, &address, &size);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(r);
}

VS_API int cudaGetSymbolSize(size_t *ret_size, const void *symbol)
{
	uint64_t address;
	int r = ret_size ? vs_sim_check() : CU_INVALID_VALUE;

	return vs_error(r == CU_OK ? find(symbol, &address, ret_size) : r);
}

VS_API int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind)
{
	uint64_t address;
	size_t whole;
	int r = vs_sim_check();

	(void)from;
	(void)kind;
	if (r == CU_OK)
		r = find(symbol, &address, &whole);
	if (r == CU_OK && (offset > whole || size > whole - offset))
		r = CU_INVALID_VALUE;
	return vs_error(r);
}
VS_ALIAS(cudaMemcpyToSymbol_ptds, cudaMemcpyToSymbol);
VS_ALIAS(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbol); /* the stream comes last */
VS_ALIAS(cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbol);

VS_API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind)
{
	uint64_t address;
	size_t whole;
	int r = to ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = find(symbol, &address, &whole);
	if (r == CU_OK && (offset > whole || size > whole - offset))
		r = CU_INVALID_VALUE;
	if (r == CU_OK)
		vs_copy(to, (void *)(uintptr_t)(address + offset), size, kind);
	return vs_error(r);
}
VS_ALIAS(cudaMemcpyFromSymbol_ptds, cudaMemcpyFromSymbol);
VS_ALIAS(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbol);
VS_ALIAS(cudaMemcpyFromSymbolAsync_ptsz, cudaMemcpyFromSymbol);

/* Libraries and modules: one handle, which any name looks itself up in. */
struct module {
	uint32_t names;
};

int vs_module_load(const void *image, void **ret_module)
{
	if (!image)
		return CU_INVALID_VALUE;
	*ret_module = calloc(1, sizeof(struct module));
	return *ret_module ? CU_OK : CU_OUT_OF_MEMORY;
}

int vs_module_unload(void *module)
{
	if (!module)
		return CU_INVALID_HANDLE;
	free(module);
	return CU_OK;
}

int vs_module_function(void *module, const char *name, void **ret_function)
{
	struct module *m = module;

	if (!m || !name)
		return CU_INVALID_VALUE;
	/* Distinct within the module, never followed. */
	*ret_function = (char *)m + 16 * (uintptr_t)++m->names;
	return CU_OK;
}

VS_API int cudaLibraryLoadData(void **library, const void *code)
{
	int r = library ? vs_sim_check() : CU_INVALID_VALUE;

	return vs_error(r == CU_OK ? vs_module_load(code, library) : r);
}
VS_ALIAS(cudaLibraryLoadFromFile, cudaLibraryLoadData);

VS_API int cudaLibraryUnload(void *library)
{
	return vs_error(vs_module_unload(library));
}

VS_API int cudaLibraryGetKernel(void **kernel, void *library, const char *name)
{
	return vs_error(kernel ? vs_module_function(library, name, kernel) : CU_INVALID_VALUE);
}

VS_API int cudaLibraryGetUnifiedFunction(void **function, void *library, const char *name)
{
	return vs_error(function ? vs_module_function(library, name, function) : CU_INVALID_VALUE);
}
