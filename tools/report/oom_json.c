/* SPDX-License-Identifier: MIT */
#include "oom.h"

static void number(struct vs_json *json, const char *key, uint64_t value)
{
	vs_json_unsigned_if(json, key, value != VS_OOM_UNKNOWN, value);
}

static void remedy_json(struct vs_json *json, const struct vs_oom_remedy *remedy)
{
	static const char *const evidence[] = {
	    [VS_OOM_STATED] = "stated", [VS_OOM_ESTIMATED] = "estimated", [VS_OOM_REPLAYED] = "replayed"};

	vs_json_object_line(json, NULL);
	vs_json_string(json, "name", remedy->name);
	number(json, "saves_bytes", remedy->saves);
	if (remedy->enough == VS_OOM_MAYBE)
		vs_json_null(json, "enough");
	else
		vs_json_bool(json, "enough", remedy->enough == VS_OOM_YES);
	vs_json_string(json, "evidence", evidence[remedy->evidence]);
	vs_json_end(json);
}

void vs_oom_json(struct vs_json *json, const struct vs_oom_case *c, bool found)
{
	static const char *const sources[] = {
	    [VS_OOM_PYTORCH] = "pytorch",
	    [VS_OOM_PYTORCH_REJECTED] = "pytorch",
	    [VS_OOM_PYTORCH_ADDRESSES] = "pytorch",
	    [VS_OOM_XLA] = "xla",
	    [VS_OOM_CUDA] = "cuda",
	    [VS_OOM_PLAIN] = "cuda",
	};
	static const struct {
		const char *key;
		enum vs_oom_number number;
	} numbers[] = {
	    {"request_bytes", VS_OOM_REQUEST},
	    {"total_bytes", VS_OOM_TOTAL},
	    {"free_bytes", VS_OOM_FREE},
	    {"allocated_bytes", VS_OOM_ALLOCATED},
	    {"reserved_bytes", VS_OOM_RESERVED},
	    {"unallocated_bytes", VS_OOM_UNALLOCATED},
	    {"private_pools_bytes", VS_OOM_PRIVATE},
	    {"limit_bytes", VS_OOM_LIMIT},
	    {"outside_pytorch_bytes", VS_OOM_OUTSIDE},
	    {"other_processes_bytes", VS_OOM_OTHERS},
	    {"shortfall_bytes", VS_OOM_SHORTFALL},
	};

	vs_json_string(json, "cause", found ? vs_oom_cause_name(c->cause) : NULL);
	vs_json_string(json, "source", found ? sources[c->oom.source] : NULL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		number(json, numbers[i].key, c->oom.numbers[numbers[i].number]);
	vs_json_array(json, "remedies");
	for (size_t i = 0; i < c->remedies.count; i++)
		remedy_json(json, &c->remedies.list[i]);
	vs_json_end(json);
}
