/* SPDX-License-Identifier: MIT
 *
 * Feed the files of a corpus to a fuzz target, one by one: what a fuzzer has
 * found once stays found. Usage: TARGET FOLDER-OR-FILE...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	uint8_t *data;
	size_t size;

	if (!file || fstat(fileno(file), &status) < 0 || status.st_size < 0) {
		perror(path);
		return -1;
	}
	/* Exactly as long as the file, so that a sanitizer sees a byte read beyond. */
	data = malloc((size_t)status.st_size);
	size = data ? fread(data, 1, (size_t)status.st_size, file) : 0;
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 0;
}

static int replay(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (!folder)
		return replay_file(path) < 0 ? -1 : 1;
	while ((entry = readdir(folder))) {
		char *name = NULL;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&name, "%s/%s", path, entry->d_name) < 0 || replay_file(name) < 0) {
			free(name);
			closedir(folder);
			return -1;
		}
		free(name);
		count++;
	}
	closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int count = replay(argv[i]);

		if (count < 0)
			return 1;
		total += count;
	}
	printf("%d inputs\n", total);
	return total ? 0 : 1; /* an empty corpus proves nothing */
}
