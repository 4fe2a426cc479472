/* SPDX-License-Identifier: MIT */
#include "outside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/neighbour.h"

static const char *device_fact(const struct vs_subject *subject, int device, const char *what)
{
	char key[48];
	const char *value;

	snprintf(key, sizeof(key), "device:%d:%s", device, what);
	value = vramshim_trace_fact(subject->process->trace, key);
	return value ? value : "";
}

/* Two processes' ordinals say nothing: CUDA_VISIBLE_DEVICES numbers the cards anew. */
static bool same_card(const struct vs_subject *a, int device_a, const struct vs_subject *b, int device_b)
{
	const char *uuid = device_fact(a, device_a, "uuid");

	return *uuid && !strcmp(uuid, device_fact(b, device_b, "uuid")) &&
	       !strcmp(a->summary->host, b->summary->host);
}

static int find_neighbours(const struct vs_subjects *subjects, const struct vs_subject *subject,
                           const struct vs_device_summary *device, struct vs_neighbours *neighbours)
{
	neighbours->list = calloc(subjects->count, sizeof(*neighbours->list));
	if (!neighbours->list)
		return -ENOMEM;
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_subject *other = &subjects->list[i];

		for (size_t j = 0; other != subject && j < other->summary->device_count; j++) {
			const struct vs_device_summary *theirs = &other->summary->devices[j];
			uint64_t bytes = 0;
			int r;

			if (!same_card(subject, device->index, other, theirs->index))
				continue;
			r = vs_neighbour_bytes(other->process->trace, theirs->index, theirs->outside.at.context,
			                       device->outside.at.time_ns, &bytes);
			if (r < 0)
				return r;
			if (!bytes)
				continue;
			neighbours->list[neighbours->count++] =
			    (struct vs_neighbour){other->summary->pid, other->summary->rank, bytes};
			neighbours->bytes += bytes;
			break; /* a process has a card once */
		}
	}
	return 0;
}

int vs_outside_account(const struct vs_subjects *subjects, const struct vs_subject *subject,
                       const struct vs_device_summary *device, struct vs_outside_account *ret_account)
{
	const struct vs_sample *at = &device->outside.at;
	struct vs_outside_account account = {
	    .device = device,
	    .outside = &device->outside,
	    .pytorch = vs_subject_has_pytorch(subject, device),
	    .started_ns = vramshim_trace_info(subject->process->trace)->started_mono_ns,
	    .sampled = at->sequence != 0,
	    .others_known = at->others_known,
	    .others = at->others,
	    .unexplained = at->unexplained,
	};
	int r = 0;

	if (account.sampled)
		r = find_neighbours(subjects, subject, device, &account.neighbours);
	if (r < 0) {
		vs_outside_account_release(&account);
		return r;
	}
	/* The driver counts them among the others; where it was not asked, theirs is what is known of others. */
	if (!account.others_known) {
		account.others = account.neighbours.bytes;
		account.unexplained -= (int64_t)account.neighbours.bytes;
	}
	*ret_account = account;
	return 0;
}

void vs_outside_account_release(struct vs_outside_account *account)
{
	free(account->neighbours.list);
	account->neighbours = (struct vs_neighbours){0};
}

static double seconds(const struct vs_outside_account *account, const struct vs_sample *sample)
{
	return sample->time_ns > account->started_ns ? (sample->time_ns - account->started_ns) / 1e9 : 0;
}

static void pytorch_json(struct vs_json *json, const struct vs_outside *outside)
{
	vs_json_object_line(json, "pytorch");
	vs_json_unsigned(json, "reserved_bytes", outside->at.pytorch);
	vs_json_unsigned(json, "allocated_bytes", outside->allocated);
	vs_json_unsigned_if(json, "releasable_bytes", outside->split_known, outside->cached.releasable);
	vs_json_unsigned_if(json, "pinned_bytes", outside->split_known, outside->cached.pinned);
	vs_json_unsigned(json, "cuda_pool_bytes", outside->pool);
	vs_json_end(json);
}

static void samples_json(struct vs_json *json, const struct vs_outside_account *account)
{
	vs_json_array(json, "samples");
	for (size_t i = 0; i < account->outside->sample_count; i++) {
		const struct vs_sample *sample = &account->outside->samples[i];

		vs_json_object_line(json, NULL);
		vs_json_number(json, "time_s", seconds(account, sample));
		vs_json_unsigned(json, "event", sample->sequence);
		vs_json_unsigned(json, "used_bytes", sample->used);
		vs_json_unsigned(json, "context_bytes", sample->context);
		vs_json_unsigned(json, "pytorch_bytes", sample->pytorch);
		vs_json_unsigned(json, "libraries_bytes", sample->libraries);
		vs_json_unsigned(json, "rounding_bytes", sample->rounding);
		vs_json_unsigned(json, "pools_idle_bytes", sample->idle);
		vs_json_unsigned_if(json, "other_processes_bytes", sample->others_known, sample->others);
		vs_json_unsigned_if(json, "process_bytes", sample->own, sample->own);
		vs_json_signed(json, "unexplained_bytes", sample->unexplained);
		vs_json_end(json);
	}
	vs_json_end(json);
}

void vs_outside_json(struct vs_json *json, const struct vs_outside_account *account)
{
	const struct vs_outside *outside = account->outside;
	const struct vs_neighbours *neighbours = &account->neighbours;
	bool known = outside->context_source[0];

	vs_json_object(json, "outside_pytorch");
	vs_json_unsigned_if(json, "context_bytes", known, outside->at.context);
	vs_json_string(json, "context_source", known ? outside->context_source : NULL);
	vs_json_object_line(json, "by_library");
	for (size_t i = 0; i < outside->library_count; i++)
		vs_json_unsigned(json, outside->libraries[i].library, outside->libraries[i].bytes);
	vs_json_end(json);
	if (account->sampled)
		vs_json_signed(json, "unexplained_bytes", account->unexplained);
	else
		vs_json_null(json, "unexplained_bytes");
	vs_json_unsigned(json, "rounding_bytes", outside->at.rounding);
	vs_json_unsigned(json, "pools_idle_bytes", outside->at.idle);
	vs_json_unsigned(json, "managed_bytes", outside->at.managed);
	pytorch_json(json, outside);
	vs_json_unsigned_if(json, "other_processes_bytes", account->others_known || neighbours->count,
	                    account->others);
	vs_json_bool(json, "other_processes_complete", account->others_known);
	vs_json_array(json, "recorded_processes");
	for (size_t i = 0; i < neighbours->count; i++) {
		vs_json_object_line(json, NULL);
		vs_json_unsigned(json, "pid", neighbours->list[i].pid);
		vs_json_unsigned(json, "bytes", neighbours->list[i].bytes);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_unsigned_if(json, "used_bytes", account->sampled, outside->at.used);
	vs_json_unsigned_if(json, "process_bytes", outside->at.own, outside->at.own);
	if (account->sampled) {
		vs_json_object_line(json, "at");
		vs_json_number(json, "time_s", seconds(account, &outside->at));
		vs_json_unsigned(json, "event", outside->at.sequence);
		vs_json_unsigned(json, "step", outside->at.step);
		vs_json_string(json, "phase", vs_phase_name(outside->at.phase));
		vs_json_end(json);
	} else {
		vs_json_null(json, "at");
	}
	vs_json_unsigned(json, "unsampled_bytes", outside->unsampled);
	samples_json(json, account);
	vs_json_end(json);
}
