/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/path.h"
#include "base/section.h"
#include "shim/libraries.h"
#include "shim/loader.h"
#include "shim/modules.h"
#include "shim/real.h"
#include "shim/symbols.h"

_Atomic(void *) vs_real_slots[VS_ENTRY_COUNT][VS_INSTANCES];

/* PyTorch is loaded RTLD_LOCAL, and what it needs with it: RTLD_NEXT does not see those libraries, their
 * names do. Newest first; 11.0 is the soname of all CUDA 11 runtimes. */
static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", NULL};
static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const torch_names[] = {"libc10.so", NULL};

static const char *const *const library_names[] = {
    [VS_API_RUNTIME] = runtime_names,
    [VS_API_DRIVER] = driver_names,
    [VS_API_TORCH] = torch_names,
};

/* A runtime's symbols have its soname for a version. */
static const char *const instance_versions[VS_INSTANCES] = {
    [VS_INSTANCE_11] = "libcudart.so.11.0",
    [VS_INSTANCE_12] = "libcudart.so.12",
    [VS_INSTANCE_13] = "libcudart.so.13",
};

/* The handle's reference is kept: it pins the library that the pointer lies in. `version` may be NULL. */
static void *symbol_in(const char *library, const char *name, const char *version)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

	if (!handle)
		return NULL;
	return version ? vs_loader.dlvsym(handle, name, version) : vs_loader.dlsym(handle, name);
}

/* A wheel that brings the runtime with it has it under a name of its own: libcudart-1a2b3c4d.so.11.0. */
static void *bundled(const char *name, const char *version)
{
	char path[PATH_MAX];

	return vs_modules_find("libcudart", path, sizeof(path)) == 0 ? symbol_in(path, name, version) : NULL;
}

/* Without the loader's lock: by the names of the libraries, of several the one that is called as the version is. */
struct search {
	enum vs_api api;
	const char *name, *version;
	const void *caller; /* NULL, or what the library holds, whatever it is called */
	void *found;
};

static bool is_meant(const struct search *search, const char *path)
{
	const char *file = vs_path_file(path);

	for (const char *const *name = library_names[search->api]; *name; name++)
		if (!strcmp(file, *name))
			return true;
	return search->api == VS_API_RUNTIME && !strncmp(file, "libcudart", strlen("libcudart"));
}

static int search_in(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	bool meant = search->caller ? vs_symbol_holds(info, search->caller) : is_meant(search, info->dlpi_name);
	void *found = meant ? vs_symbol_in(info, search->name) : NULL;

	(void)size;
	if (!found || vs_real_is_ours(found))
		return 0;
	if (!search->found)
		search->found = found;
	if (search->version && !strstr(info->dlpi_name, search->version))
		return 0;
	search->found = found;
	return 1;
}

static void *without_lock(struct search search)
{
	vs_libraries_each(search_in, &search);
	return search.found;
}

/* What looks something up: the loader's lock is the job's too, so nobody may jump out while it is held. */
static bool enter(struct vs_section *section)
{
	vs_section_enter(section);
	if (vs_libraries_hold()) {
		vs_loader_resolve();
		return true;
	}
	vs_section_leave(section);
	return false;
}

static void leave(const struct vs_section *section)
{
	vs_libraries_release();
	vs_section_leave(section);
}

/* What is loaded for all; where `anywhere`, else in a library of one of the known names. */
static void *symbol_of(enum vs_api api, const char *name, bool anywhere, bool *ret_settled)
{
	int saved = errno;
	void *symbol = NULL;
	struct vs_section section;

	*ret_settled = enter(&section);
	if (!*ret_settled)
		return anywhere ? without_lock((struct search){.api = api, .name = name}) : NULL;
	if (vs_loader.dlsym)
		symbol = vs_loader.dlsym(RTLD_NEXT, name);
	anywhere = anywhere && vs_loader.dlsym;
	for (const char *const *library = library_names[api]; anywhere && !symbol && *library; library++)
		symbol = symbol_in(*library, name, NULL);
	if (anywhere && !symbol && api == VS_API_RUNTIME)
		symbol = bundled(name, NULL);
	leave(&section);
	errno = saved;
	return symbol;
}

void *vs_real_symbol(enum vs_api api, const char *name, bool *ret_settled)
{
	bool settled;

	return symbol_of(api, name, true, ret_settled ? ret_settled : &settled);
}

void *vs_real_needed_by(const void *caller, const char *name, const char *version)
{
	int saved = errno;
	void *handle = NULL, *found = NULL;
	struct vs_section section;
	Dl_info info;

	if (!enter(&section))
		return without_lock((struct search){.name = name, .caller = caller});
	if (vs_loader.dlsym && dladdr(caller, &info) && info.dli_fname)
		handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		found = version ? vs_loader.dlvsym(handle, name, version) : vs_loader.dlsym(handle, name);
		dlclose(handle);
	}
	leave(&section);
	errno = saved;
	return found && !vs_real_is_ours(found) ? found : NULL;
}

static bool is_runtime(const void *symbol)
{
	Dl_info info;

	if (!dladdr(symbol, &info) || !info.dli_fname)
		return false;
	return !strncmp(vs_path_file(info.dli_fname), "libcudart", strlen("libcudart"));
}

/* As the loader would bind a caller that asks for this version. Whoever else interposes has no versions, and is for
 * all; of the runtimes themselves each is for its own callers. */
static void *versioned_symbol(const char *name, const char *version, bool *ret_settled)
{
	int saved = errno;
	void *symbol = NULL, *other;
	struct vs_section section;

	*ret_settled = enter(&section);
	if (!*ret_settled)
		return without_lock((struct search){.api = VS_API_RUNTIME, .name = name, .version = version});
	if (vs_loader.dlsym) {
		other = vs_loader.dlsym(RTLD_NEXT, name);
		if (other && !is_runtime(other))
			symbol = other;
		if (!symbol)
			symbol = vs_loader.dlvsym(RTLD_NEXT, name, version);
		if (!symbol)
			symbol = symbol_in(version, name, NULL);
		if (!symbol)
			symbol = bundled(name, version);
		if (!symbol)
			symbol = other;
	}
	leave(&section);
	errno = saved;
	return symbol;
}

void *vs_real_look_up(enum vs_entry entry, unsigned int instance)
{
	/* Looks into the file system where a library is not loaded. Relaxed: two threads that search at once find the
	 * same. */
	static _Atomic(unsigned long long) in_vain[VS_ENTRY_COUNT][VS_INSTANCES];
	const struct vs_entry_info *info = &vs_entries[entry];
	unsigned long long next = vs_symbol_loads() + 1; /* 0: never in vain */
	bool settled = true;
	void *real = NULL;

	if (atomic_load_explicit(&in_vain[entry][instance], memory_order_relaxed) == next)
		return NULL;
	if (instance_versions[instance])
		real = versioned_symbol(info->export, instance_versions[instance], &settled);
	else if (instance == VS_INSTANCE_DEFAULT)
		real = symbol_of(info->api, info->export, info->api != VS_API_RUNTIME, &settled);
	if (!settled)
		return real;
	if (!real || vs_real_is_ours(real)) {
		atomic_store_explicit(&in_vain[entry][instance], next, memory_order_relaxed);
		return NULL;
	}
	atomic_store_explicit(&vs_real_slots[entry][instance], real, memory_order_release);
	return real;
}

void *vs_real_for(enum vs_entry entry, const void *caller)
{
	/* Looks into the file system, and stays. */
	static _Atomic(void *) elsewhere[VS_ENTRY_COUNT];
	const struct vs_entry_info *info = &vs_entries[entry];
	void *real = vs_real_needed_by(caller, info->export, NULL);
	bool settled;

	if (!real)
		real = atomic_load_explicit(&elsewhere[entry], memory_order_acquire);
	if (!real) {
		real = vs_real_symbol(info->api, info->export, &settled);
		if (real && vs_real_is_ours(real))
			real = NULL;
		if (settled)
			atomic_store_explicit(&elsewhere[entry], real, memory_order_release);
	}
	return real;
}

bool vs_real_any(enum vs_entry entry)
{
	for (unsigned int i = 0; i < VS_INSTANCES; i++)
		if (vs_entries[entry].wrappers[i] && vs_real(entry, i))
			return true;
	return false;
}

enum vs_entry vs_real_find(const char *name)
{
	unsigned int entry = 0;

	while (entry < VS_ENTRY_COUNT && strcmp(vs_entries[entry].export, name))
		entry++;
	return entry;
}

/* Both ends of this library in memory, by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool vs_real_is_ours(const void *pointer)
{
	return (uintptr_t)pointer >= (uintptr_t)__ehdr_start && (uintptr_t)pointer < (uintptr_t)_end;
}

void *vs_real_wrapper(enum vs_entry entry, void *real)
{
	const struct vs_entry_info *info = &vs_entries[entry];

	if (vs_real_is_ours(real))
		return real;
	for (unsigned int i = 0; i < VS_INSTANCE_SPARE; i++)
		if (info->wrappers[i] && vs_real(entry, i) == real)
			return info->wrappers[i];
	for (unsigned int i = VS_INSTANCE_SPARE; i < VS_INSTANCES; i++) {
		void *expected = NULL;

		if (atomic_compare_exchange_strong_explicit(&vs_real_slots[entry][i], &expected, real,
		                                            memory_order_acq_rel, memory_order_acquire) ||
		    expected == real)
			return info->wrappers[i];
	}
	return real;
}
