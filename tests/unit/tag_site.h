/* SPDX-License-Identifier: MIT
 *
 * Sites for tests of the tags.
 */
#ifndef TESTS_UNIT_TAG_SITE_H
#define TESTS_UNIT_TAG_SITE_H

#include <stddef.h>
#include <stdint.h>

#include <tag/rules.h>

/* Sites are written as frames, innermost first: 'N' symbol, or file and function. */
struct frame {
	const char *file; /* NULL: native */
	const char *function;
};

#define NATIVE(symbol)                                                                                               \
	{                                                                                                            \
		NULL, symbol                                                                                         \
	}
#define CALL                                                                                                         \
	{                                                                                                            \
		"/site-packages/torch/nn/modules/module.py", "Module._call_impl"                                     \
	}
#define USER                                                                                                         \
	{                                                                                                            \
		"/home/me/train.py", "main"                                                                          \
	}
#define STEP                                                                                                         \
	{                                                                                                            \
		"/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper"            \
	}
#define STATE                                                                                                        \
	{                                                                                                            \
		"/site-packages/torch/optim/adam.py", "Adam._init_group"                                             \
	}
#define ZERO_GRAD                                                                                                    \
	{                                                                                                            \
		"/site-packages/torch/optim/optimizer.py", "Optimizer.zero_grad"                                     \
	}
#define ENGINE NATIVE("torch::autograd::Engine::evaluate_function")
#define RUN_BACKWARD                                                                                                 \
	{                                                                                                            \
		"/site-packages/torch/autograd/graph.py", "_engine_run_backward"                                     \
	}
#define UNPACK                                                                                                       \
	{                                                                                                            \
		"/site-packages/torch/utils/checkpoint.py", "_checkpoint_hook.__init__.<locals>.unpack_hook"         \
	}
#define APPLY                                                                                                        \
	{                                                                                                            \
		"/site-packages/torch/nn/modules/module.py", "Module._apply"                                         \
	}
#define CONVERT                                                                                                      \
	{                                                                                                            \
		"/site-packages/torch/nn/modules/module.py", "Module.to.<locals>.convert"                            \
	}
#define DISTRIBUTE                                                                                                   \
	{                                                                                                            \
		"/site-packages/torch/distributed/tensor/_api.py", "distribute_module"                               \
	}
#define SCALER                                                                                                       \
	{                                                                                                            \
		"/site-packages/torch/amp/grad_scaler.py", "GradScaler.step"                                         \
	}
#define TO       NATIVE("at::_ops::to_dtype_layout::call")
#define RANDINT  NATIVE("at::_ops::randint::call")
#define MM       NATIVE("at::native::mm")
#define FINALIZE NATIVE("Py_FinalizeEx")

static inline struct vs_site site_of(const struct frame *frames, size_t count)
{
	uint16_t native[16] = {0}, python[16] = {0};
	size_t natives = 0, pythons = 0;

	for (size_t i = 0; i < count; i++) {
		if (frames[i].file)
			python[pythons++] = vs_rule_python(frames[i].file, frames[i].function);
		else
			native[natives++] = vs_rule_native(frames[i].function);
	}
	return vs_site_evaluate(native, natives, python, pythons);
}

#define SITE(...)                                                                                                    \
	site_of((const struct frame[]){__VA_ARGS__},                                                                 \
	        sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame))

#endif
