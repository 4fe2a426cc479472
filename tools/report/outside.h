/* SPDX-License-Identifier: MIT
 *
 * "PyTorch says 60 GiB, nvidia-smi says 75": where the difference is.
 */
#ifndef VS_REPORT_OUTSIDE_H
#define VS_REPORT_OUTSIDE_H

#include "common/json.h"
#include "common/screen.h"
#include "subject.h"

struct vs_neighbour { /* another process of the run on the same card */
	uint32_t pid;
	int rank; /* -1 unknown */
	uint64_t bytes;
};

struct vs_neighbours {
	struct vs_neighbour *list;
	size_t count;
	uint64_t bytes;
};

/* The device's account, with what the run's other processes held on that card at its instant. */
struct vs_outside_account {
	const struct vs_device_summary *device;
	const struct vs_outside *outside;
	uint64_t started_ns; /* of the process, on the event clock */
	struct vs_neighbours neighbours;
	bool pytorch; /* it has a part in this */
	bool sampled;
	bool others_known; /* by the driver; else only the recorded ones are */
	uint64_t others;   /* bytes of all other processes that are known */
	int64_t unexplained;
};

/* -ENOMEM, or an error of reading another process's trace. To be released. */
int vs_outside_account(const struct vs_subjects *subjects, const struct vs_subject *subject,
                       const struct vs_device_summary *device, struct vs_outside_account *ret_account);
void vs_outside_account_release(struct vs_outside_account *account);

/* The section for people, and the object "outside_pytorch" of vramshim/report/1. */
void vs_outside_print(const struct vs_screen *screen, const struct vs_outside_account *account);
void vs_outside_json(struct vs_json *json, const struct vs_outside_account *account);

#endif
