/* SPDX-License-Identifier: MIT */
#include "compare_infer.h"

#include <errno.h>
#include <string.h>

#include "common/message.h"
#include "model/optimizer.h"
#include "model/preset.h"
#include "sizes.h"

/* Between optimizer steps, the largest optimizer share any point of the recording shows. */
static uint64_t optimizer_bytes(const struct vs_device_summary *d)
{
	uint64_t most = d->peak.tags[VS_TAG_OPTIMIZER];

	if (d->end.tags[VS_TAG_OPTIMIZER] > most)
		most = d->end.tags[VS_TAG_OPTIMIZER];
	for (size_t i = 0; i < d->step_count; i++) {
		if (d->steps[i].tags[VS_TAG_OPTIMIZER] > most)
			most = d->steps[i].tags[VS_TAG_OPTIMIZER];
	}
	return most;
}

/* Bytes of optimizer state a parameter, to the optimizer that they are of: where no stack names it. */
static enum vs_optimizer optimizer_of(double bytes, unsigned element)
{
	double master = element < 4 && bytes > 5 ? 4 : 0, states = bytes - master;
	double unit = master > 0 ? 4 : element;

	if (states < 0.25)
		return VS_OPTIMIZER_SGD;
	if (states > 1.9 && states < 2.2 && element >= 4)
		return VS_OPTIMIZER_ADAMW_8BIT;
	return states < 1.5 * unit ? VS_OPTIMIZER_MOMENTUM : VS_OPTIMIZER_ADAMW;
}

/* SGD's code is seen where it makes anything at all: with weight decay alone, too. What it keeps is momentum. */
static bool names_optimizer(const struct vs_inference *f, double per)
{
	return f->optimizer >= 0 &&
	       (f->optimizer != VS_OPTIMIZER_MOMENTUM || optimizer_of(per, 4) != VS_OPTIMIZER_SGD);
}

static void infer_regime(struct vs_request *r, const struct vs_option *options, size_t count,
                         const struct vs_device_summary *device, struct vs_inferred *c)
{
	/* Of adapters, the states are fp32's. */
	uint64_t trained = c->facts.adapters ? c->facts.adapter_bytes / 4 : c->count;
	double per = (double)optimizer_bytes(device) / (double)(trained ? trained : 1);
	const struct vs_inference *f = &c->facts;

	c->precision = !vs_option_given(options, count, "--precision");
	if (c->precision && c->dtype.bytes >= 4)
		r->precision = f->autocast ? VS_PRECISION_AMP : VS_PRECISION_FP32;
	else if (c->precision)
		r->precision = per > 9 && !c->facts.adapters ? VS_PRECISION_MASTER16 : VS_PRECISION_PURE16;
	c->optimizer = !vs_option_given(options, count, "--optimizer");
	if (c->optimizer)
		r->optimizer = names_optimizer(f, per)
		                   ? f->optimizer
		                   : (int)optimizer_of(per, c->facts.adapters ? 4 : c->dtype.bytes);
	c->l2_decay =
	    !vs_option_given(options, count, "--l2-decay") && f->l2_decay && vs_optimizer_takes_l2(r->optimizer);
	if (c->l2_decay)
		r->l2_decay = true;
	c->checkpointing = !vs_option_given(options, count, "--checkpointing");
	if (c->checkpointing)
		r->checkpointing = f->checkpointing;
	c->attention = !vs_option_given(options, count, "--attention") && f->attention >= 0;
	if (c->attention)
		r->attention = f->attention;
}

/* A preset with just this many parameters. Blocks are multiples of 512 bytes, so small tensors count a little more.
 */
static const char *preset_of(uint64_t parameters)
{
	struct vs_shape shape;
	const char *name;

	for (size_t i = 0; (name = vs_preset_at(i, &shape)); i++) {
		double ratio = (double)parameters / (double)vs_shape_count(&shape);

		if (ratio >= 1 && ratio < 1.0005)
			return name;
	}
	return NULL;
}

/* A shape from what was read off the blocks. Heads that are not told are assumed to be 128 wide, or 64. */
static bool take_shape(struct vs_request *r, struct vs_inferred *c)
{
	const struct vs_inference *f = &c->facts;
	uint64_t width = f->head_dim;

	if (f->family < 0 || !f->layers || !f->hidden || !f->vocab)
		return false;
	if (!width) {
		width = f->query % 128 == 0 && f->query >= 2048 ? 128 : 64;
		c->assumed = true;
	}
	if (f->query % width || f->key % width)
		return false;
	r->family_name = vs_family_name((enum vs_family)f->family);
	r->layers = f->layers;
	r->hidden = f->hidden;
	r->heads = f->query / width;
	r->kv_heads = f->key / width;
	r->head_dim = width;
	r->ffn = f->ffn;
	r->vocab = f->vocab;
	r->tied = f->tied;
	return true;
}

/* Which matrices are adapted, by their number in a layer. */
static const char *targets_of(uint64_t modules)
{
	return modules == 7 ? "all" : modules == 4 ? "attention" : "q,v";
}

static void infer_adapters(struct vs_request *r, const struct vs_option *options, size_t count, struct vs_inferred *c)
{
	c->adapters = c->facts.lora_rank && !vs_option_given(options, count, "--lora-rank") &&
	              !vs_option_given(options, count, "--lora-targets");
	if (!c->adapters)
		return;
	r->lora_rank = c->facts.lora_rank;
	r->lora_targets = targets_of(c->facts.lora_modules);
}

static int infer_model(struct vs_request *r, struct vs_inferred *c)
{
	c->model = "";
	if (r->config || r->preset || r->layers || r->hidden || r->parameters)
		return 0;
	r->preset = preset_of(c->count);
	if (r->preset) {
		c->model = " (inferred: a preset of that size)";
	} else if (take_shape(r, c)) {
		c->model = c->facts.exact ? " (inferred: the code that ran and the blocks of its weights)"
		                          : " (inferred, within 1 MiB a tensor: the code that ran and the blocks of "
		                            "its weights)";
	} else {
		c->parameters = true;
		r->parameters = c->count;
		if (!c->count) {
			vs_complain("no weights in the recording: compare: give --config, --preset or --parameters");
			return -ENODATA;
		}
	}
	return 0;
}

#define ASSUMED " (assumed)"

/* By the command line; of the two, one may follow from the number of input ids. */
static void infer_sizes(struct vs_request *r, const struct vs_option *options, size_t count, uint64_t batch,
                        uint64_t seq, struct vs_inferred *c)
{
	bool batch_said = vs_option_given(options, count, "--batch"),
	     seq_said = vs_option_given(options, count, "--seq");
	uint64_t tokens = c->facts.tokens;

	c->batch = batch_said ? "" : batch ? " (inferred: the command line)" : ASSUMED;
	c->seq = seq_said ? "" : seq ? " (inferred: the command line)" : ASSUMED;
	if (!batch_said && batch)
		r->batch = batch;
	if (!seq_said && seq)
		r->seq = seq;
	batch_said |= batch > 0;
	seq_said |= seq > 0;
	if (tokens && seq_said && !batch_said && tokens % r->seq == 0) {
		r->batch = tokens / r->seq;
		c->batch = " (inferred: the input ids)";
	} else if (tokens && batch_said && !seq_said && tokens % r->batch == 0) {
		r->seq = tokens / r->batch;
		c->seq = " (inferred: the input ids)";
	} else if (tokens && !batch_said && !seq_said) {
		r->seq = tokens;
		c->seq = " (assumed: all input ids are one sequence)";
	}
	c->assumed |= !strcmp(c->batch, ASSUMED) || strstr(c->seq, "assumed");
}

int vs_compare_infer(struct vs_request *r, const struct vs_option *options, size_t count,
                     const struct vs_subject *subject, const struct vs_device_summary *device,
                     struct vs_inferred *ret_inferred)
{
	const struct vs_point *peak = &device->peak;
	uint64_t weights = peak->tags[VS_TAG_WEIGHTS] - peak->details[VS_DETAIL_WEIGHTS_GATHERED];
	uint64_t batch = 0, seq = 0;
	struct vs_inferred c = {0};
	int error;

	c.dtype = vs_dtype_conclude(subject, device);
	vs_sizes_from_command(subject->process->trace, &batch, &seq);
	if (vs_option_given(options, count, "--seq"))
		seq = r->seq;
	error = vs_infer(subject, device, c.dtype.bytes, seq, &c.facts);
	if (error) {
		vs_complain("out of memory: compare: %s", strerror(-error));
		return error;
	}
	c.count = (weights - c.facts.adapter_bytes) / c.dtype.bytes;
	infer_adapters(r, options, count, &c);
	if (r->sharding != VS_SHARDING_NONE && !vs_option_given(options, count, "--gpus") &&
	    subject->summary->world_size > 1)
		r->ranks = (uint64_t)subject->summary->world_size;
	infer_regime(r, options, count, device, &c);
	error = infer_model(r, &c);
	if (error)
		return error;
	infer_sizes(r, options, count, batch, seq, &c);
	*ret_inferred = c;
	return 0;
}
