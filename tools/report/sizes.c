/* SPDX-License-Identifier: MIT */
#include "sizes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "estimate/option.h"

/* A longer command line is a list of files, not of options. */
#define ARGUMENTS_MAX 4096

static bool names(const char *flag, const char *const *words, size_t count, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(words[i]) == length && !strncmp(flag, words[i], length))
			return true;
	}
	return false;
}

void vs_sizes_from_command(const struct vramshim_trace *trace, uint64_t *batch, uint64_t *seq)
{
	static const char *const batches[] = {
	    "--batch", "--batch-size", "--batch_size", "--micro-batch-size", "--per_device_train_batch_size", "-b"};
	static const char *const seqs[] = {
	    "--seq",        "--seq-len",    "--seq_len",    "--seq-length", "--seq_length",
	    "--max-length", "--max_length", "--block-size", "--block_size", "-s"};

	for (unsigned i = 0; i < ARGUMENTS_MAX; i++) {
		char key[32];
		const char *flag, *value;
		size_t length;
		uint64_t number;

		snprintf(key, sizeof(key), "command:%u", i);
		flag = vramshim_trace_fact(trace, key);
		if (!flag)
			return;
		length = strcspn(flag, "=");
		snprintf(key, sizeof(key), "command:%u", i + 1);
		value = flag[length] ? flag + length + 1 : vramshim_trace_fact(trace, key);
		if (!value || vs_count_parse(value, &number) || !number)
			continue;
		if (names(flag, batches, sizeof(batches) / sizeof(batches[0]), length))
			*batch = number;
		if (names(flag, seqs, sizeof(seqs) / sizeof(seqs[0]), length))
			*seq = number;
	}
}
