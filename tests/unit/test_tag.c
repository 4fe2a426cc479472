/* SPDX-License-Identifier: MIT
 *
 * What becomes of a block in a stream of events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <tag/rules.h>
#include <tag/tagger.h>
#include <tag/verdict.h>

#include "tag_site.h"

/* Verdicts of a stream. Each block has a name, its address; what was said of it is kept for the asserts. */
enum { MAIN = 1, AUTOGRAD = 2, BLOCKS = 64 };

struct stream {
	struct vs_tagger *tagger;
	struct vs_block verdicts[BLOCKS];
	unsigned spoken[BLOCKS];
	uint64_t sequence;
};

static struct stream s; /* of the test that runs */

static int keep(void *user, const struct vs_block *block)
{
	struct stream *stream = user;

	stream->verdicts[block->address >> 9] = *block;
	stream->spoken[block->address >> 9]++;
	return 0;
}

static void begin(void)
{
	struct vs_tagger_ops ops = {.user = &s, .verdict = keep, .main_thread = MAIN};

	memset(&s, 0, sizeof(s));
	assert_int_equal(vs_tagger_new(&ops, &s.tagger), 0);
}

static void end(void)
{
	assert_int_equal(vs_tagger_finish(s.tagger), 0);
	assert_int_equal(vs_tagger_finish(s.tagger), 0);
	vs_tagger_free(s.tagger);
}

static void feed_sized(enum vramshim_event_type type, unsigned block, struct vs_site site, uint32_t stack,
                       uint32_t thread, uint64_t size)
{
	struct vramshim_event event = {
	    .type = type,
	    .thread = thread,
	    .sequence = ++s.sequence,
	    .address = (uint64_t)block << 9,
	    .size = size,
	    .stack = stack,
	};

	assert_int_equal(vs_tagger_event(s.tagger, &event, &site), 0);
}

static void feed(enum vramshim_event_type type, unsigned block, struct vs_site site, uint32_t stack)
{
	bool backward = site.context == VS_CONTEXT_BACKWARD || site.context == VS_CONTEXT_RECOMPUTE;

	feed_sized(type, block, site, stack, backward ? AUTOGRAD : MAIN, 512);
}

/* A stack id is where in the test the call stands, so that one line is one stack. */
#define ALLOC(block, ...) feed(VRAMSHIM_TORCH_ALLOC, block, SITE(__VA_ARGS__), __LINE__)
#define FREE(block, ...)  feed(VRAMSHIM_TORCH_FREE, block, SITE(__VA_ARGS__), __LINE__)

static void assert_tag(unsigned block, enum vs_tag tag, enum vs_detail detail)
{
	if (s.spoken[block] != 1 || s.verdicts[block].tag != tag || s.verdicts[block].detail != detail)
		fail_msg("block %u: %u verdicts, %s %s, not %s %s", block, s.spoken[block],
		         vs_tag_name(s.verdicts[block].tag), vs_detail_path(s.verdicts[block].detail),
		         vs_tag_name(tag), vs_detail_path(detail));
}

#define TAG(block, tag)       assert_tag(block, VS_TAG_##tag, VS_DETAIL_NONE)
#define DETAIL(block, detail) assert_tag(block, vs_detail_tag(VS_DETAIL_##detail), VS_DETAIL_##detail)

enum {
	WEIGHT = 1,
	SETUP_TEMPORARY,
	BATCH,
	ACTIVATION,
	FORWARD_TEMPORARY,
	CAST,
	LOSS,
	LOGITS,
	WORKSPACE,
	GRADIENT,
	BACKWARD_TEMPORARY,
	RECOMPUTED,
	RECOMPUTE_TEMPORARY,
	STATES,
	OPTIMIZER_TEMPORARY,
	SCALE,
	NORM,
	FOREACH = 20, /* one of each step: + step */
	NEXT_BATCH = 30,
	NEXT_ACTIVATION = 40,
	NEXT_GRADIENT = 50,
};

static void a_step(unsigned step)
{
	ALLOC(NEXT_BATCH + step, TO, USER);
	if (step)
		FREE(NEXT_BATCH + step - 1, USER);
	ALLOC(NEXT_ACTIVATION + step, MM, CALL, USER);
	ALLOC(NEXT_GRADIENT + step, MM, ENGINE);
	FREE(NEXT_ACTIVATION + step, ENGINE);
	ALLOC(FOREACH + step, STEP, USER);
	FREE(FOREACH + step, STEP, USER);
	FREE(NEXT_GRADIENT + step, ZERO_GRAD, USER);
}

static void test_training(void **state)
{
	(void)state;
	begin();
	ALLOC(WEIGHT, TO, CONVERT, APPLY, USER);
	ALLOC(SETUP_TEMPORARY, MM, USER);
	FREE(SETUP_TEMPORARY, USER);
	ALLOC(BATCH, RANDINT, USER);
	ALLOC(CAST, NATIVE("at::autocast::cached_cast"), CALL, USER);
	ALLOC(ACTIVATION, MM, CALL, USER);
	ALLOC(FORWARD_TEMPORARY, MM, CALL, USER);
	FREE(FORWARD_TEMPORARY, CALL, USER);
	ALLOC(WORKSPACE, NATIVE("at::cuda::getCUDABlasLtWorkspace"), MM, CALL, USER);
	ALLOC(LOGITS, MM, CALL, USER);
	ALLOC(LOSS, MM, USER); /* a loss in the job's own code */
	ALLOC(SCALE, {"/x/torch/amp/grad_scaler.py", "GradScaler._lazy_init_scale_growth_tracker"}, SCALER, USER);
	ALLOC(BACKWARD_TEMPORARY, MM, ENGINE);
	ALLOC(GRADIENT, MM, ENGINE);
	ALLOC(RECOMPUTED, MM, CALL, UNPACK, ENGINE);
	ALLOC(RECOMPUTE_TEMPORARY, MM, CALL, UNPACK, ENGINE);
	FREE(RECOMPUTE_TEMPORARY, CALL, UNPACK, ENGINE);
	FREE(RECOMPUTED, ENGINE);
	FREE(ACTIVATION, ENGINE);
	FREE(CAST, ENGINE);
	FREE(BACKWARD_TEMPORARY, ENGINE);
	ALLOC(NORM, MM, {"/x/torch/nn/utils/clip_grad.py", "_get_total_norm"}, USER);
	FREE(NORM, USER);
	ALLOC(STATES, STATE, STEP, USER);
	ALLOC(OPTIMIZER_TEMPORARY, STEP, USER);
	FREE(OPTIMIZER_TEMPORARY, STEP, USER);
	FREE(GRADIENT, ZERO_GRAD, USER);
	FREE(BATCH, USER);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.step, 0);
	a_step(0);
	FREE(LOGITS, USER);
	FREE(LOSS, USER);
	a_step(1);
	a_step(2);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.step, 3);
	FREE(WORKSPACE, FINALIZE);
	FREE(WEIGHT, FINALIZE);
	end();

	TAG(WEIGHT, WEIGHTS);
	DETAIL(SETUP_TEMPORARY, TEMPORARIES_SETUP);
	TAG(BATCH, INPUTS);
	DETAIL(CAST, ACTIVATIONS_CAST);
	TAG(ACTIVATION, ACTIVATIONS);
	DETAIL(FORWARD_TEMPORARY, TEMPORARIES_FORWARD);
	DETAIL(WORKSPACE, WORKSPACE_CUBLASLT);
	TAG(LOGITS, OUTPUTS);
	TAG(LOSS, OUTPUTS);
	DETAIL(SCALE, OPTIMIZER_SCALER);
	TAG(GRADIENT, GRADIENTS);
	DETAIL(BACKWARD_TEMPORARY, TEMPORARIES_BACKWARD);
	DETAIL(RECOMPUTED, ACTIVATIONS_RECOMPUTED);
	DETAIL(RECOMPUTE_TEMPORARY, TEMPORARIES_RECOMPUTE);
	DETAIL(NORM, TEMPORARIES_CLIPPING);
	TAG(STATES, OPTIMIZER);
	DETAIL(OPTIMIZER_TEMPORARY, TEMPORARIES_OPTIMIZER);
	for (unsigned step = 0; step < 3; step++) {
		TAG(NEXT_BATCH + step, INPUTS);
		TAG(NEXT_ACTIVATION + step, ACTIVATIONS);
		TAG(NEXT_GRADIENT + step, GRADIENTS);
		DETAIL(FOREACH + step, TEMPORARIES_OPTIMIZER);
		assert_int_equal(s.verdicts[NEXT_GRADIENT + step].step, step + 1);
		assert_int_equal(s.verdicts[NEXT_GRADIENT + step].phase, VS_PHASE_BACKWARD);
		assert_int_equal(s.verdicts[NEXT_BATCH + step].phase, VS_PHASE_OTHER);
	}
	assert_int_equal(s.verdicts[WEIGHT].phase, VS_PHASE_SETUP);
	assert_int_equal(s.verdicts[STATES].freed_at, 0);
	assert_true(s.verdicts[WEIGHT].freed_at > 0);
	assert_int_equal(vs_rule(s.verdicts[STATES].rule)->role, VS_ROLE_STATE);
}

/* One stack, many blocks: its history decides what an unfinished block is. */
static void layer(unsigned activation, unsigned temporary, bool finish)
{
	for (unsigned i = 0; i < 3; i++) {
		ALLOC(activation + i, MM, CALL, USER);
		ALLOC(temporary + i, MM, CALL, USER);
		if (finish || i < 2)
			FREE(temporary + i, CALL, USER);
	}
}

static void backward_layer(unsigned gradient, unsigned temporary, bool finish)
{
	for (unsigned i = 0; i < 3; i++) {
		ALLOC(gradient + i, MM, ENGINE);
		ALLOC(temporary + i, MM, ENGINE);
		if (finish || i < 2)
			FREE(temporary + i, ENGINE);
	}
}

/* Out of memory in the second forward: the last temporary is known by what the first forward did. */
static void test_unfinished_by_history(void **state)
{
	(void)state;
	begin();
	layer(1, 4, true);
	backward_layer(7, 10, true);
	for (unsigned i = 1; i < 4; i++)
		FREE(i, ENGINE);
	for (unsigned i = 7; i < 10; i++)
		FREE(i, ZERO_GRAD, USER);
	layer(13, 16, false);
	end();
	TAG(13, ACTIVATIONS);
	TAG(15, ACTIVATIONS);
	DETAIL(16, TEMPORARIES_FORWARD);
	DETAIL(18, TEMPORARIES_FORWARD);
	assert_int_equal(s.verdicts[18].freed_at, 0);
}

/* ... in the very first backward: by what the same stack's other blocks do. */
static void test_unfinished_by_rule(void **state)
{
	(void)state;
	begin();
	layer(1, 4, true);
	backward_layer(7, 10, false);
	FREE(1, ENGINE);
	end();
	TAG(1, ACTIVATIONS);
	TAG(2, ACTIVATIONS);
	TAG(7, GRADIENTS);
	TAG(9, GRADIENTS);
	DETAIL(12, TEMPORARIES_BACKWARD);
}

/* A process that stops in its first optimizer step: what it made there and kept is state. */
static void test_unfinished_optimizer(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, CALL, USER);
	ALLOC(2, MM, ENGINE);
	ALLOC(3, STATE, STEP, USER);
	for (unsigned i = 4; i < 7; i++) {
		ALLOC(i, STEP, USER);
		if (i < 6)
			FREE(i, STEP, USER);
	}
	end();
	TAG(2, GRADIENTS);
	TAG(3, OPTIMIZER);
	DETAIL(6, TEMPORARIES_OPTIMIZER);
}

/* Python stacks only: no stack on another thread is autograd's. */
static void test_light(void **state)
{
	struct vs_site none = site_of(NULL, 0);
	(void)state;
	begin();
	ALLOC(6, NATIVE("at::autocast::cached_cast"), USER); /* before any module was called: by hand */
	ALLOC(1, CALL, USER);
	for (unsigned i = 2; i < 5; i++)
		assert_int_equal(vs_tagger_event(s.tagger,
		                                 &(struct vramshim_event){.type = VRAMSHIM_TORCH_ALLOC,
		                                                          .thread = AUTOGRAD,
		                                                          .sequence = ++s.sequence,
		                                                          .address = i << 9,
		                                                          .size = 512},
		                                 &none),
		                 0);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.phase, VS_PHASE_BACKWARD);
	assert_int_equal(vs_tagger_event(s.tagger,
	                                 &(struct vramshim_event){.type = VRAMSHIM_TORCH_FREE,
	                                                          .thread = AUTOGRAD,
	                                                          .sequence = ++s.sequence,
	                                                          .address = 3 << 9,
	                                                          .size = 512},
	                                 &none),
	                 0);
	feed(VRAMSHIM_TORCH_FREE, 4, none, 0); /* by the main thread, which waits while a backward runs */
	ALLOC(5, STEP, USER);
	feed(VRAMSHIM_TORCH_FREE, 2, none, 0);
	end();
	DETAIL(6, ACTIVATIONS_CAST);
	DETAIL(3, TEMPORARIES_BACKWARD);
	TAG(4, GRADIENTS);
	TAG(2, GRADIENTS);
}

/* Without native frames cuBLAS's workspace is known by its size and by never being freed. */
static void test_workspace_without_frames(void **state)
{
	const uint64_t size = (4096 * 2 + 16 * 8) << 10; /* ":4096:2:16:8" */
	struct vs_site none = site_of(NULL, 0);
	(void)state;
	begin();
	feed_sized(VRAMSHIM_TORCH_ALLOC, 1, SITE(CALL, USER), 1, MAIN, size);
	ALLOC(2, CALL, USER);
	feed_sized(VRAMSHIM_TORCH_ALLOC, 3, none, 0, AUTOGRAD, size);
	feed_sized(VRAMSHIM_TORCH_ALLOC, 4, none, 0, AUTOGRAD, size); /* a gradient of that size */
	feed_sized(VRAMSHIM_TORCH_ALLOC, 5, none, 0, AUTOGRAD, size + 512);
	FREE(4, ZERO_GRAD, USER);
	ALLOC(6, CALL, USER);
	feed_sized(VRAMSHIM_TORCH_ALLOC, 7, none, 0, AUTOGRAD, size); /* perhaps the next gradient */
	end();
	DETAIL(1, WORKSPACE_CUBLAS);
	DETAIL(3, WORKSPACE_CUBLAS);
	TAG(4, GRADIENTS);
	TAG(5, GRADIENTS);
	TAG(7, GRADIENTS);
}

/* A hand-written loop: no module, no optimizer, momentum in a list, gradients dropped by assignment. */
static void test_by_hand(void **state)
{
	(void)state;
	begin();
	ALLOC(1, NATIVE("at::_ops::randn::call"), USER);
	for (unsigned step = 0; step < 4; step++) {
		ALLOC(40 + step, TO, USER);
		if (step) {
			FREE(40 + step - 1, USER);
			FREE(50 + step - 1, USER);
		}
		ALLOC(10 + step, MM, USER);
		ALLOC(50 + step, MM, USER); /* a result that a variable holds on to */
		ALLOC(20 + step, MM, ENGINE);
		FREE(10 + step, ENGINE);
		if (!step)
			ALLOC(30, NATIVE("at::_ops::zeros_like::call"), USER);
		ALLOC(31 + step, MM, USER);
		FREE(31 + step, USER);
		FREE(20 + step, USER);
	}
	end();
	TAG(1, WEIGHTS);
	TAG(30, OPTIMIZER);
	for (unsigned step = 0; step < 4; step++) {
		TAG(40 + step, INPUTS);
		TAG(10 + step, ACTIVATIONS);
		TAG(20 + step, GRADIENTS);
		DETAIL(31 + step, TEMPORARIES_OTHER);
		if (step < 3)
			TAG(50 + step, OUTPUTS);
	}
}

/* Data beside modules: on the card before training begins, for the whole of it. */
static void test_data_in_setup(void **state)
{
	(void)state;
	begin();
	ALLOC(1, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	ALLOC(2, NATIVE("at::_ops::randn::call"), USER);
	ALLOC(3, TO, USER);
	ALLOC(4, NATIVE("at::_ops::tril::call"), {"/home/me/net.py", "Net.__init__"}, USER);
	ALLOC(5, RANDINT, {"/home/me/net.py", "Data.__init__"}, USER);
	ALLOC(6, MM, {"/x/torch/nn/init.py", "kaiming_uniform_"}, USER);
	FREE(6, {"/x/torch/nn/init.py", "kaiming_uniform_"}, USER);
	ALLOC(7, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	FREE(7, USER); /* the model itself, thrown away */
	ALLOC(8, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	FREE(8, CONVERT, APPLY, USER); /* ... put in another type */
	/* Tensor parallel: the whole weight, this rank's share of it. */
	ALLOC(9, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	ALLOC(30, {"/x/torch/distributed/tensor/placement_types.py", "Shard._shard_tensor"}, DISTRIBUTE, USER);
	FREE(9, {"/x/torch/nn/modules/module.py", "Module.register_parameter"}, DISTRIBUTE, USER);
	for (unsigned step = 0; step < 2; step++) {
		ALLOC(10 + step, MM, CALL, USER);
		ALLOC(20 + step, MM, ENGINE);
		FREE(10 + step, ENGINE);
		FREE(20 + step, ZERO_GRAD, USER);
	}
	end();
	TAG(1, WEIGHTS);
	TAG(2, INPUTS);
	TAG(3, INPUTS);
	TAG(4, WEIGHTS);
	TAG(5, INPUTS);
	DETAIL(6, TEMPORARIES_SETUP);
	TAG(7, WEIGHTS);
	TAG(8, WEIGHTS);
	TAG(9, WEIGHTS);
	TAG(30, WEIGHTS);
}

static void mark_on(uint32_t thread)
{
	struct vramshim_event event = {.type = VRAMSHIM_MARK, .thread = thread, .sequence = ++s.sequence};

	assert_int_equal(vs_tagger_event(s.tagger, &event, NULL), 0);
}

/* Two models in one backward: what one line makes is added to a gradient and freed, or is a gradient. Where the trace
 * ends after the backward, that its caller has gone on says which. */
static void one_line_makes_both(uint32_t marks_on, enum vs_tag tag)
{
	begin();
	ALLOC(1, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	ALLOC(2, MM, CALL, USER);
	for (unsigned i = 10; i < 14; i++) { /* one stack */
		ALLOC(i, MM, ENGINE);
		if (i == 10 || i == 11) {
			ALLOC(20 + i, MM, ENGINE);
			ALLOC(30 + i, MM, ENGINE);
			FREE(i, ENGINE);
		}
	}
	mark_on(marks_on);
	end();
	assert_tag(13, tag, tag == VS_TAG_GRADIENTS ? VS_DETAIL_NONE : VS_DETAIL_TEMPORARIES_BACKWARD);
}

static void test_backward_over(void **state)
{
	(void)state;
	one_line_makes_both(MAIN, VS_TAG_GRADIENTS);
	one_line_makes_both(AUTOGRAD, VS_TAG_TEMPORARIES); /* a hook inside the backward */
}

/* Where the trace ends after a forward that kept nothing but its result, the result is one; while a graph is kept, or
 * a checkpointed part might keep what it began with, it is an activation like the others. */
static void forward_ends(unsigned kept, bool checkpointed, enum vs_tag tag)
{
	begin();
	ALLOC(1, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	for (unsigned i = 10; i < 50; i++) {
		if (checkpointed)
			ALLOC(i, MM, CALL, {"/x/torch/utils/checkpoint.py", "CheckpointFunction.forward"}, CALL,
			      USER);
		else
			ALLOC(i, MM, CALL, USER);
		if (i >= 10 + kept)
			FREE(i, CALL, USER);
	}
	ALLOC(50, MM, CALL, CALL, USER);
	end();
	TAG(1, WEIGHTS);
	assert_tag(50, tag, VS_DETAIL_NONE);
}

static void test_forward_without_graph(void **state)
{
	(void)state;
	forward_ends(0, false, VS_TAG_OUTPUTS);
	forward_ends(20, false, VS_TAG_ACTIVATIONS);
	forward_ends(0, true, VS_TAG_ACTIVATIONS);
}

/* A teacher has a call of its own beside the pupil's, in one forward. */
static void test_teacher(void **state)
{
	struct vs_site teacher = SITE(MM, CALL, USER), pupil = SITE(MM, CALL, USER);

	(void)state;
	teacher.call = 1;
	pupil.call = 2;
	begin();
	ALLOC(1, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	for (unsigned i = 10; i < 34; i++) {
		feed(VRAMSHIM_TORCH_ALLOC, i, teacher, 100);
		if (i < 33)
			feed(VRAMSHIM_TORCH_FREE, i, teacher, 101);
	}
	for (unsigned i = 40; i < 60; i++)
		feed(VRAMSHIM_TORCH_ALLOC, i, pupil, 102);
	end();
	TAG(33, OUTPUTS);
	TAG(40, ACTIVATIONS);
	TAG(59, ACTIVATIONS);
}

#define RESET NATIVE("torch::autograd::SavedVariable::reset_data")
#define META  NATIVE("torch::autograd::AutogradMeta::~AutogradMeta")

/* Whether a graph or a variable lets go of a result says what it was; so does it of what a backward made. */
static void test_let_go_by_graph(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, CALL, USER);
	ALLOC(2, MM, CALL, USER);
	ALLOC(3, MM, CALL, USER);
	ALLOC(10, MM, ENGINE);
	ALLOC(11, MM, ENGINE);
	ALLOC(4, MM, CALL, USER);
	FREE(1, RESET, META, USER);
	FREE(2, META, RESET, USER); /* a leaf's, which was saved */
	FREE(3, USER);
	FREE(10, RESET, USER);
	FREE(11, META, RESET, USER);
	end();
	TAG(1, ACTIVATIONS);
	TAG(2, OUTPUTS);
	TAG(3, OUTPUTS);
	TAG(10, ACTIVATIONS);
	TAG(11, GRADIENTS);
}

/* The trace ends after a backward that kept its graph, or that did not reach an older one. */
static void backward_frees(unsigned freed, enum vs_tag oldest, enum vs_tag youngest)
{
	begin();
	ALLOC(1, {"/x/torch/nn/modules/linear.py", "Linear.__init__"}, USER);
	ALLOC(2, MM, CALL, USER);
	ALLOC(3, MM, CALL, USER);
	ALLOC(4, MM, CALL, USER);
	ALLOC(5, MM, CALL, USER);
	ALLOC(10, MM, ENGINE);
	if (freed)
		FREE(freed, ENGINE);
	mark_on(MAIN);
	end();
	assert_tag(3, oldest, VS_DETAIL_NONE);
	assert_tag(5, youngest, VS_DETAIL_NONE);
}

static void test_other_graphs(void **state)
{
	(void)state;
	backward_frees(0, VS_TAG_ACTIVATIONS, VS_TAG_ACTIVATIONS);
	backward_frees(4, VS_TAG_ACTIVATIONS, VS_TAG_OUTPUTS);
	backward_frees(2, VS_TAG_OUTPUTS, VS_TAG_OUTPUTS);
}

/* One line makes many activations and a result that lives longer: the next is taken for one of the many. */
static void test_majority(void **state)
{
	struct vs_site line = SITE(MM, CALL, USER);

	(void)state;
	begin();
	for (unsigned i = 1; i <= 6; i++)
		feed(VRAMSHIM_TORCH_ALLOC, i, line, 100);
	ALLOC(20, MM, ENGINE);
	for (unsigned i = 1; i <= 5; i++)
		FREE(i, ENGINE);
	ALLOC(21, STEP, USER);
	ALLOC(22, MM, CALL, USER);
	FREE(6, USER);
	feed(VRAMSHIM_TORCH_ALLOC, 30, line, 100);
	end();
	TAG(6, OUTPUTS);
	TAG(30, ACTIVATIONS);
	assert_true(s.verdicts[30].by_history);
}

/* A forward by hand in which the trace ends: no module is called, so that it looks like setup. */
static void test_first_forward_by_hand(void **state)
{
	(void)state;
	begin();
	ALLOC(1, NATIVE("at::_ops::randn::call"), USER);
	ALLOC(2, NATIVE("at::_ops::mul_Tensor::call"), USER);
	ALLOC(3, NATIVE("at::_ops::zeros_like::call"), USER);
	ALLOC(4, NATIVE("at::_ops::mm::call"), USER);
	ALLOC(5, NATIVE("at::_ops::relu::call"), USER);
	ALLOC(6, TO, USER);
	end();
	TAG(1, WEIGHTS);
	TAG(2, WEIGHTS);
	TAG(3, OPTIMIZER);
	TAG(4, ACTIVATIONS);
	TAG(5, ACTIVATIONS);
	TAG(6, INPUTS);
}

/* Gradients that are reset twice, after the step and before the next one's backward, end one step. */
static void test_reset_twice(void **state)
{
	(void)state;
	begin();
	for (unsigned step = 0; step < 3; step++) {
		assert_int_equal(vs_tagger_phases(s.tagger)->now.step, step ? step - 1 : 0);
		ALLOC(1 + step, MM, CALL, USER);
		ALLOC(10 + step, STEP, USER); /* gradients of another model are reset, and space is used for it */
		FREE(10 + step, ZERO_GRAD, USER);
		ALLOC(20 + step, MM, CALL, USER);
		assert_int_equal(vs_tagger_phases(s.tagger)->now.step, step);
		ALLOC(30 + step, MM, ENGINE);
		ALLOC(40 + step, STEP, USER);
		FREE(30 + step, ZERO_GRAD, USER);
	}
	end();
}

/* Accumulation: two backwards a step; the second one's contributions are added and freed. */
static void test_accumulation(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, CALL, USER);
	ALLOC(2, MM, ENGINE);
	FREE(1, ENGINE);
	ALLOC(3, MM, CALL, USER);
	ALLOC(4, MM, ENGINE);
	FREE(4, ENGINE);
	FREE(3, ENGINE);
	ALLOC(5, STEP, USER);
	FREE(5, STEP, USER);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.step, 0);
	FREE(2, ZERO_GRAD, USER);
	ALLOC(6, MM, CALL, USER);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.step, 1);
	end();
	TAG(1, ACTIVATIONS);
	TAG(2, GRADIENTS);
	TAG(3, ACTIVATIONS);
	DETAIL(4, TEMPORARIES_BACKWARD);
}

/* Optimizers that run inside the backward, from hooks, end neither the backward nor a step. */
static void test_optimizer_in_backward(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, CALL, USER);
	for (unsigned i = 0; i < 3; i++) {
		ALLOC(2 + i, MM, ENGINE);
		ALLOC(10 + i, STATE, STEP, ENGINE);
		FREE(2 + i, ZERO_GRAD, ENGINE);
	}
	assert_int_equal(vs_tagger_phases(s.tagger)->now.phase, VS_PHASE_BACKWARD);
	assert_int_equal(vs_tagger_phases(s.tagger)->now.step, 0);
	FREE(1, ENGINE);
	ALLOC(5, MM, CALL, USER);
	end();
	for (unsigned i = 0; i < 3; i++) {
		TAG(2 + i, GRADIENTS);
		TAG(10 + i, OPTIMIZER);
	}
}

/* Holes in a trace: a free that was lost, a free of the unknown. */
static void test_lost(void **state)
{
	(void)state;
	begin();
	FREE(1, USER);
	ALLOC(1, MM, CALL, USER);
	ALLOC(1, MM, CALL, USER);
	assert_int_equal(s.spoken[1], 1);
	assert_int_equal(s.verdicts[1].freed_at, 3);
	end();
	assert_int_equal(s.spoken[1], 2);
	vs_tagger_free(NULL);
}

static int refuse(void *user, const struct vs_block *block)
{
	(void)user;
	(void)block;
	return -42;
}

static void test_callback_error(void **state)
{
	struct vs_site site = SITE(MM, USER);
	struct vramshim_event event = {.type = VRAMSHIM_TORCH_ALLOC, .address = 512, .size = 512, .sequence = 1};
	struct vs_tagger *tagger;

	(void)state;
	assert_int_equal(vs_tagger_new(&(struct vs_tagger_ops){.verdict = refuse}, &tagger), 0);
	assert_int_equal(vs_tagger_event(tagger, &event, &site), 0);
	assert_int_equal(vs_tagger_finish(tagger), -42);
	vs_tagger_free(tagger);
}

/* Evaluations follow each other in one phase: what the job's own code lets go of was a result. */
static void test_evaluation(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 2; i++) {
		ALLOC(1 + i, MM, CALL, USER);
		ALLOC(11 + i, MM, CALL, USER);
		FREE(1 + i, CALL, USER);
		FREE(11 + i, USER);
	}
	end();
	DETAIL(1, TEMPORARIES_FORWARD);
	DETAIL(2, TEMPORARIES_FORWARD);
	TAG(11, OUTPUTS);
	TAG(12, OUTPUTS);
}

#define CACHE                                                                                                        \
	{                                                                                                            \
		"/site-packages/transformers/cache_utils.py", "DynamicLayer.update"                                  \
	}

/* Generation is one long forward, in which each token's cache replaces the last one's. */
static void test_kv_cache(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, CACHE, CALL, USER);
	ALLOC(2, MM, CACHE, CALL, USER);
	FREE(1, CACHE, CALL, USER);
	ALLOC(3, MM, CACHE, CALL, USER);
	ALLOC(4, MM, ENGINE);
	FREE(3, ENGINE); /* trained with the cache left on */
	end();
	DETAIL(1, ACTIVATIONS_KV_CACHE);
	TAG(3, ACTIVATIONS);
}

static void shapes_and_copies(bool optimizer)
{
	begin();
	ALLOC(1, APPLY, USER);
	ALLOC(2, NATIVE("at::_ops::zeros_like::call"), USER);
	ALLOC(3, NATIVE("at::_ops::clone::call"), USER);
	for (unsigned step = 0; step < 3; step++) {
		ALLOC(10 + step, MM, CALL, USER);
		FREE(10 + step, ENGINE);
		ALLOC(20 + step, MM, ENGINE);
		if (optimizer)
			ALLOC(30 + step, STEP, USER);
	}
	end();
}

/* Momentum and averages by hand, made before the training. */
static void test_shapes_and_copies(void **state)
{
	(void)state;
	shapes_and_copies(false);
	TAG(2, OPTIMIZER);
	TAG(3, WEIGHTS);
	shapes_and_copies(true);
	TAG(2, INPUTS); /* the momentum is the optimizer's that was seen */
	TAG(3, WEIGHTS);
}

/* A trace that ends in a backward: what is younger than a block that it has let go of is held by somebody else. */
static void test_overtaken(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 1; i <= 3; i++)
		feed(VRAMSHIM_TORCH_ALLOC, i, SITE(MM, CALL, USER), 100 + i);
	ALLOC(4, MM, ENGINE);
	FREE(2, ENGINE);
	end();
	TAG(1, ACTIVATIONS);
	TAG(2, ACTIVATIONS);
	TAG(3, OUTPUTS);
}

/* One stack makes temporaries and what is saved; a block that has lived longer than any temporary did is none. */
static void test_older_than_temporaries(void **state)
{
	struct vs_site site = SITE(MM, CALL, USER);

	(void)state;
	begin();
	feed(VRAMSHIM_TORCH_ALLOC, 1, site, 7);
	for (unsigned i = 2; i < 6; i++) {
		feed(VRAMSHIM_TORCH_ALLOC, i, site, 7);
		feed(VRAMSHIM_TORCH_FREE, i, SITE(CALL, USER), 8);
	}
	feed(VRAMSHIM_TORCH_ALLOC, 6, site, 7);
	end();
	TAG(1, ACTIVATIONS);
	DETAIL(5, TEMPORARIES_FORWARD);
	DETAIL(6, TEMPORARIES_FORWARD);
}

/* One stack adds up all gradients that have several parts. The weights' are larger than what flows between layers. */
static void test_larger_than_temporaries(void **state)
{
	struct vs_site site = SITE(MM, ENGINE);
	struct vramshim_event large = {
	    .type = VRAMSHIM_TORCH_ALLOC, .thread = AUTOGRAD, .address = 6 << 9, .size = 4096, .stack = 7};

	(void)state;
	begin();
	ALLOC(1, MM, CALL, USER);
	for (unsigned i = 2; i < 5; i++) {
		feed(VRAMSHIM_TORCH_ALLOC, i, site, 7);
		feed(VRAMSHIM_TORCH_FREE, i, SITE(ENGINE), 8);
	}
	feed(VRAMSHIM_TORCH_ALLOC, 5, site, 7);
	large.sequence = ++s.sequence;
	assert_int_equal(vs_tagger_event(s.tagger, &large, &site), 0);
	end();
	DETAIL(5, TEMPORARIES_BACKWARD);
	TAG(6, GRADIENTS);
}

/* No modules, no backward, and over: nothing tells weights from data. While it runs, weights are the better guess. */
static void test_no_training(void **state)
{
	(void)state;
	begin();
	ALLOC(1, MM, USER);
	ALLOC(2, MM, USER); /* killed, or out of memory: weights by hand, or data */
	FREE(1, FINALIZE);
	end();
	TAG(1, UNKNOWN);
	TAG(2, UNKNOWN);
	begin();
	ALLOC(1, MM, USER);
	ALLOC(2, NATIVE("at::_ops::mm::call"), USER); /* a forward by hand has begun */
	end();
	TAG(1, WEIGHTS);
	TAG(2, ACTIVATIONS);
}

/* A stack that is cut may lack the frame that says whose the block is. */
static void test_cut_stack(void **state)
{
	struct vs_site cut = SITE(MM, USER);

	(void)state;
	cut.flags |= VS_SITE_CUT;
	begin();
	feed(VRAMSHIM_TORCH_ALLOC, 1, cut, 7);
	ALLOC(2, MM, CALL, USER);
	feed(VRAMSHIM_TORCH_ALLOC, 3, cut, 7);
	FREE(2, ENGINE);
	end();
	TAG(1, UNKNOWN);
	TAG(2, ACTIVATIONS);
	TAG(3, UNKNOWN);
}

static void test_partitions(void **state)
{
	static const char zero2[] = "/x/deepspeed/runtime/zero/stage_1_and_2.py";

	(void)state;
	begin();
	ALLOC(1, TO, {zero2, "DeepSpeedZeroOptimizer.__init__"}, USER);
	ALLOC(2, MM, {zero2, "DeepSpeedZeroOptimizer.flatten_dense_tensors_aligned"},
	      {zero2, "DeepSpeedZeroOptimizer.__init__"}, USER);
	ALLOC(3, MM, CALL, USER);
	ALLOC(4, MM, ENGINE);
	ALLOC(5, MM, {zero2, "DeepSpeedZeroOptimizer.copy_grads_in_partition"}, USER);
	end();
	DETAIL(1, OPTIMIZER_MASTER);
	TAG(2, WEIGHTS);
	TAG(5, GRADIENTS);
}

/* Every verdict can be explained. */
static void test_why(void **state)
{
	(void)state;
	begin();
	for (unsigned step = 0; step < 3; step++)
		a_step(step);
	end();
	for (unsigned block = 0; block < BLOCKS; block++) {
		if (s.spoken[block])
			assert_non_null(s.verdicts[block].why);
	}
	assert_int_equal(s.verdicts[NEXT_ACTIVATION].freed_by, VS_CONTEXT_BACKWARD);
	assert_int_equal(s.verdicts[NEXT_ACTIVATION].backwards, 1);
	assert_int_equal(s.verdicts[NEXT_GRADIENT].phase_freed, VS_PHASE_ZERO_GRAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_training),
	    cmocka_unit_test(test_unfinished_by_history),
	    cmocka_unit_test(test_unfinished_by_rule),
	    cmocka_unit_test(test_unfinished_optimizer),
	    cmocka_unit_test(test_light),
	    cmocka_unit_test(test_workspace_without_frames),
	    cmocka_unit_test(test_by_hand),
	    cmocka_unit_test(test_data_in_setup),
	    cmocka_unit_test(test_backward_over),
	    cmocka_unit_test(test_forward_without_graph),
	    cmocka_unit_test(test_teacher),
	    cmocka_unit_test(test_let_go_by_graph),
	    cmocka_unit_test(test_other_graphs),
	    cmocka_unit_test(test_majority),
	    cmocka_unit_test(test_first_forward_by_hand),
	    cmocka_unit_test(test_reset_twice),
	    cmocka_unit_test(test_accumulation),
	    cmocka_unit_test(test_optimizer_in_backward),
	    cmocka_unit_test(test_lost),
	    cmocka_unit_test(test_callback_error),
	    cmocka_unit_test(test_evaluation),
	    cmocka_unit_test(test_kv_cache),
	    cmocka_unit_test(test_shapes_and_copies),
	    cmocka_unit_test(test_overtaken),
	    cmocka_unit_test(test_older_than_temporaries),
	    cmocka_unit_test(test_larger_than_temporaries),
	    cmocka_unit_test(test_no_training),
	    cmocka_unit_test(test_cut_stack),
	    cmocka_unit_test(test_partitions),
	    cmocka_unit_test(test_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
