/* SPDX-License-Identifier: MIT */
#include "environment.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "libraries.h"

/* The recorder comes first: it is to see the calls before whoever answers them. The simulated driver and NVML are
 * loaded at start so that a later dlopen() of their sonames finds them. */
static const struct {
	const char *name;
	bool simulation;
} libraries[] = {
    {"libvramshim.so", false},
    {"libvramsim.so", true},
    {"libcuda.so.1", true},
    {"libnvidia-ml.so.1", true},
};

struct list { /* of paths, as the loader reads them */
	char *text;
	const char *inherited; /* what the user had */
};

static bool contains(const char *list, const char *entry)
{
	size_t length = strlen(entry);

	for (const char *at = list; at && *at; at += strcspn(at, ": "), at += strspn(at, ": ")) {
		if (!strncmp(at, entry, length) && (!at[length] || strchr(": ", at[length])))
			return true;
	}
	return false;
}

/* Behind what we have put there, before what the user had. Entries the user has already (a vramrun inside a vramrun)
 * are not repeated. */
static int append(struct list *list, const char *entry)
{
	char *text = NULL;

	if (contains(list->inherited, entry) || contains(list->text, entry))
		return 0;
	if (asprintf(&text, "%s%s%s", list->text ? list->text : "", list->text ? ":" : "", entry) < 0)
		return -ENOMEM;
	free(list->text);
	list->text = text;
	return 0;
}

static int add_library(struct list *preload, struct list *folders, const char *name, bool simulation)
{
	char path[PATH_MAX], folder[PATH_MAX];
	int r = vs_library_find(name, path, sizeof(path));

	if (r < 0) {
		vs_complain("%s: not found beside this program: build or install vramshim again", name);
		return r;
	}
	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	if (strpbrk(folder, ":;")) {
		vs_complain("%s: the loader cannot take a path with ':' or ';': move vramshim elsewhere", folder);
		return -EINVAL;
	}
	/* LD_PRELOAD also splits at spaces, LD_LIBRARY_PATH does not: where the path has one, the loader gets the
	 * bare name and searches for it. */
	bool space = strchr(folder, ' ');
	if (simulation || space)
		r = append(folders, folder);
	if (r == 0)
		r = append(preload, space ? name : path);
	return r;
}

/* How much of a list of preloads is sanitizers' libraries at its beginning, with what separates them from the rest.
 * AddressSanitizer ends a program in which anything comes before it. */
static size_t sanitizers(const char *list)
{
	static const char *const names[] = {"libasan.", "libtsan.",  "libhwasan.",
	                                    "liblsan.", "libubsan.", "libclang_rt."};
	size_t used = 0;

	for (;;) {
		size_t length = strcspn(list + used, ": "), name = used + length;
		bool found = false;

		while (name > used && list[name - 1] != '/')
			name--;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			found |= !strncmp(list + name, names[i], strlen(names[i]));
		if (!found)
			return used;
		used += length + strspn(list + used + length, ": ");
	}
}

static int set_list(const char *name, const struct list *list, int (*set)(const char *, const char *, void *),
                    void *arg)
{
	const char *inherited = list->inherited ? list->inherited : "";
	size_t first = sanitizers(inherited);
	char *value = NULL;

	if (!list->text)
		return 0;
	if (asprintf(&value, "%.*s%s%s%s%s", (int)first, inherited,
	             first && !strchr(": ", inherited[first - 1]) ? ":" : "", list->text, inherited[first] ? ":" : "",
	             inherited + first) < 0)
		return -ENOMEM;
	int r = set(name, value, arg);
	free(value);
	return r;
}

/* vramreport is beside vramrun; the recorder runs it when memory runs out. */
static bool find_report(char *path, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", path, size);
	char *slash;

	if (length <= 0 || (size_t)length == size)
		return false;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) + sizeof("/vramreport") > size)
		return false;
	strcpy(slash, "/vramreport");
	return access(path, X_OK) == 0;
}

int vs_environment_build(const struct vs_request *request, int (*set)(const char *, const char *, void *), void *arg)
{
	struct list preload = {.inherited = getenv("LD_PRELOAD")};
	struct list folders = {.inherited = getenv("LD_LIBRARY_PATH")};
	char max_size[24], count[24], memory[24], report[PATH_MAX];
	bool reports = find_report(report, sizeof(report));
	int r = 0;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && r == 0; i++) {
		if (!libraries[i].simulation || request->gpu)
			r = add_library(&preload, &folders, libraries[i].name, libraries[i].simulation);
	}
	snprintf(max_size, sizeof(max_size), "%" PRIu64, request->max_size);
	snprintf(count, sizeof(count), "%u", request->gpu_count);
	snprintf(memory, sizeof(memory), "%" PRIu64, request->gpu_memory);

	const struct {
		const char *name, *value;
		bool wanted;
	} variables[] = {
	    {"VRAMSHIM_OUT", request->out, true},
	    {"VRAMSHIM_LEVEL", request->level, true},
	    {"VRAMSHIM_MAX_SIZE", max_size, request->max_size != 0},
	    {"VRAMSHIM_REPORT", report, reports},
	    {"VRAMSIM_GPU", request->gpu, request->gpu != NULL},
	    {"VRAMSIM_COUNT", count, request->gpu != NULL},
	    {"VRAMSIM_MEMORY", memory, request->gpu && request->gpu_memory},
	};
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && r >= 0; i++) {
		if (variables[i].wanted)
			r = set(variables[i].name, variables[i].value, arg);
	}
	if (r >= 0)
		r = set_list("LD_LIBRARY_PATH", &folders, set, arg);
	if (r >= 0)
		r = set_list("LD_PRELOAD", &preload, set, arg);
	free(preload.text);
	free(folders.text);
	return r < 0 ? r : 0;
}
