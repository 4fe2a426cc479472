/* SPDX-License-Identifier: MIT */
#include "infer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/analyse.h"
#include "model/job.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Code whose frames say what a job uses: a function's name, or a part of its file's path, or both. */
struct sign {
	const char *function, *file;
	int value;
};

/* In the order of what they prove: Muon leaves the vectors to Adam. */
static const struct sign optimizer_signs[] = {
    {"", "/torch/optim/_muon.py", VS_OPTIMIZER_MUON},
    {"", "/torch/optim/_adafactor.py", VS_OPTIMIZER_ADAFACTOR},
    {"", "/bitsandbytes/optim/", VS_OPTIMIZER_ADAMW_8BIT},
    {"Lion.", "", VS_OPTIMIZER_LION},
    {"_multi_tensor_adam", "/torch/optim/", VS_OPTIMIZER_ADAMW},
    {"_single_tensor_adam", "/torch/optim/", VS_OPTIMIZER_ADAMW_LOOP},
    {"_multi_tensor_sgd", "/torch/optim/", VS_OPTIMIZER_MOMENTUM},
    {"_single_tensor_sgd", "/torch/optim/", VS_OPTIMIZER_MOMENTUM},
};
/* Adam's states, made by neither of its loops: the fused step, which allocates nothing itself. */
static const struct sign adam_states = {"_init_group", "/torch/optim/adam", VS_OPTIMIZER_ADAMW_FUSED};

static const struct sign attention_signs[] = {
    {"eager_attention_forward", "", VS_ATTENTION_EAGER},
    {"sdpa_attention_forward", "", VS_ATTENTION_AUTO},
    {"scaled_dot_product_attention", "", VS_ATTENTION_AUTO},
    {"flash_attention_forward", "", VS_ATTENTION_FLASH},
};

static bool matches(const struct sign *s, const struct vs_frame *f)
{
	return strstr(f->function, s->function) && (!*s->file || strstr(f->file, s->file));
}

/* The index of the first that matches; `count`: none. */
static size_t find_sign(const struct sign *signs, size_t count, const struct vs_frame *f)
{
	size_t i = 0;

	while (i < count && !matches(&signs[i], f))
		i++;
	return i;
}

/* ".../transformers/models/llama/modeling_llama.py": the folder is the model_type. */
static bool find_family(const struct vs_frame *f, int *ret_family)
{
	static const char models[] = "/transformers/models/";
	const char *at = strstr(f->file, models);
	enum vs_family family;
	char name[40];
	size_t length;

	if (!at || !strstr(at, "/modeling_"))
		return false;
	at += sizeof(models) - 1;
	length = strcspn(at, "/");
	if (length >= sizeof(name))
		return false;
	memcpy(name, at, length);
	name[length] = '\0';
	if (vs_family_find(name, &family))
		return false;
	*ret_family = (int)family;
	return true;
}

struct seen {
	size_t optimizer, attention; /* the best signs so far */
	bool adam;
};

static void better(size_t found, size_t *best)
{
	*best = found < *best ? found : *best;
}

static void look_at_frame(const struct vs_frame *f, struct vs_inference *inference, struct seen *seen)
{
	if (f->kind == VS_FRAME_NATIVE) {
		inference->autocast |= strstr(f->function, "at::autocast::cached_cast") != NULL;
		return;
	}
	if (inference->family < 0)
		find_family(f, &inference->family);
	better(find_sign(attention_signs, COUNT(attention_signs), f), &seen->attention);
	better(find_sign(optimizer_signs, COUNT(optimizer_signs), f), &seen->optimizer);
	seen->adam |= matches(&adam_states, f);
}

/* The sizes that each stack of a device allocated, over the whole run. */
struct sizes {
	struct {
		uint64_t least, most;
		bool adapter;
	} * by_stack; /* index: the stack's id */
	uint32_t count;
	int device;
};

static int note_size(void *user, const struct vs_block *b)
{
	struct sizes *s = user;

	if (b->device != s->device || b->stack >= s->count || b->size <= 512)
		return 0;
	if (!s->by_stack[b->stack].least || b->size < s->by_stack[b->stack].least)
		s->by_stack[b->stack].least = b->size;
	if (b->size > s->by_stack[b->stack].most)
		s->by_stack[b->stack].most = b->size;
	return 0;
}

static int all_sizes(const struct vs_subject *subject, const struct vs_device_summary *device, struct sizes *s)
{
	struct vs_analyse_options options = {.symbols = subject->symbols, .every_block = note_size, .user = s};
	struct vs_summary *summary;
	int error;

	s->device = device->index;
	s->count = vramshim_trace_stack_count(subject->process->trace) + 1;
	s->by_stack = calloc(s->count, sizeof(*s->by_stack));
	if (!s->by_stack)
		return -ENOMEM;
	error = vs_analyse(subject->process->trace, &options, &summary);
	if (!error)
		vs_summary_free(summary);
	return error;
}

/* A fused kernel leaves its result, one number a row and the generator's state; eager attention leaves the scores,
 * larger than all else. */
static void measure_attention(const struct vs_subject *subject, const struct sizes *sizes, bool eager,
                              struct vs_attention_blocks *attention)
{
	for (uint32_t id = 1; id < sizes->count; id++) {
		const struct vs_frame *frames;
		bool inside = false, kernel = false, backward = false;
		size_t count;

		if (!sizes->by_stack[id].most || vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
			continue;
		for (size_t i = 0; i < count; i++) {
			const char *name = frames[i].function;

			inside |= frames[i].kind == VS_FRAME_PYTHON && strstr(name, "eager_attention_forward");
			kernel |= frames[i].kind == VS_FRAME_NATIVE && strstr(name, "_attention");
			backward |= frames[i].kind == VS_FRAME_NATIVE && strstr(name, "Backward");
		}
		if (eager && inside && sizes->by_stack[id].most > attention->scores)
			attention->scores = sizes->by_stack[id].most;
		if (!eager && kernel && !backward &&
		    (!attention->row_sums || sizes->by_stack[id].least < attention->row_sums))
			attention->row_sums = sizes->by_stack[id].least;
	}
}

/* Made, or made again in another type, by peft. */
static bool makes_adapters(const struct vs_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (frames[i].kind == VS_FRAME_PYTHON && strstr(frames[i].file, "/peft/tuners/"))
			return true;
	}
	return false;
}

static void count_adapters(const struct vs_device_summary *device, const struct sizes *sizes, struct vs_inference *r)
{
	for (size_t i = 0; i < device->block_count; i++) {
		const struct vs_block *b = &device->blocks[i];

		if (b->tag != VS_TAG_WEIGHTS || b->stack >= sizes->count || !sizes->by_stack[b->stack].adapter)
			continue;
		r->adapters++;
		r->adapter_bytes += b->size;
		if (b->allocated_at < r->adapters_from) {
			r->adapters_from = b->allocated_at;
			r->adapter_first = b->size;
		}
	}
}

/* Does this block come of running forward code again in the backward, and of what: of attention alone, as far as this
 * stack tells, or of more? Frames are innermost first. */
static enum vs_checkpointing what_runs_again(const struct vs_frame *frames, size_t count)
{
	bool attention = false, module = false;

	for (size_t i = 0; i < count; i++) {
		const struct vs_frame *f = &frames[i];

		if (f->kind != VS_FRAME_PYTHON)
			continue;
		if (strstr(f->file, "/torch/utils/checkpoint.py") &&
		    (strstr(f->function, "recompute_fn") || strstr(f->function, "unpack_hook") ||
		     strstr(f->function, "backward")))
			return attention ? VS_CHECKPOINTING_SELECTIVE
			       : module  ? VS_CHECKPOINTING_FULL
			                 : VS_CHECKPOINTING_NONE;
		attention |= find_sign(attention_signs, COUNT(attention_signs), f) < COUNT(attention_signs);
		module |= strstr(f->function, ".forward") != NULL;
	}
	return VS_CHECKPOINTING_NONE;
}

/* SGD's and Adam's _foreach_add of gradients and parameters; all else that they add, they add in place. */
static bool adds_decay(const struct vs_frame *frames, size_t count)
{
	bool sum = false;

	for (size_t i = 0; i < count; i++) {
		if (frames[i].kind == VS_FRAME_NATIVE)
			sum |= strstr(frames[i].function, "foreach_tensor_add_list") != NULL;
		else if (strstr(frames[i].function, "_multi_tensor_") && strstr(frames[i].file, "/torch/optim/"))
			return sum;
	}
	return false;
}

int vs_infer_stacks(const struct vs_subject *subject, const struct vs_device_summary *device,
                    struct vs_inference *inference, struct vs_attention_blocks *attention)
{
	struct seen seen = {COUNT(optimizer_signs), COUNT(attention_signs), false};
	struct sizes sizes;
	int error = all_sizes(subject, device, &sizes);

	for (uint32_t id = 1; !error && id < sizes.count; id++) {
		const struct vs_frame *frames;
		enum vs_checkpointing again;
		size_t count;

		if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
			continue;
		for (size_t i = 0; i < count; i++)
			look_at_frame(&frames[i], inference, &seen);
		sizes.by_stack[id].adapter = makes_adapters(frames, count);
		inference->l2_decay |= adds_decay(frames, count);
		again = what_runs_again(frames, count);
		if ((int)again > inference->checkpointing) /* none, selective, full */
			inference->checkpointing = again;
	}
	if (seen.optimizer < COUNT(optimizer_signs))
		inference->optimizer = optimizer_signs[seen.optimizer].value;
	else if (seen.adam)
		inference->optimizer = adam_states.value;
	if (seen.attention < COUNT(attention_signs))
		inference->attention = attention_signs[seen.attention].value;
	if (!error)
		count_adapters(device, &sizes, inference);
	if (!error)
		measure_attention(subject, &sizes, inference->attention == VS_ATTENTION_EAGER, attention);
	free(sizes.by_stack);
	return error;
}
