/* SPDX-License-Identifier: MIT */
#include "sim/readback.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/u64map.h"

enum answer {
	ANSWER_NO,
	ANSWER_EQUAL, /* a comparison: yes if it is ==, not != */
	ANSWER_YES,
};

/* Kernels whose answer matters, by parts of the mangled name that both have to be there (PyTorch 1.13 to 2.15,
 * aten/src/ATen/native/cuda/ReduceLogicKernel.cu and CompareEQKernel.cu). The lengths keep look-alikes out:
 * logical_and_kernel_cuda works element by element. Floating point numbers compare as unequal: isinf(x) is such a
 * comparison, and is asked to hear "no". */
static const struct {
	const char *family, *functor;
	enum answer answer;
} kernels[] = {
    {"reduce_kernel", "15and_kernel_cuda", ANSWER_YES},
    /* all() of a single element is a copy of that element, so what was compared is what is read; and transformers 5
     * write all() as mask.sum() == mask.numel(). */
    {"vectorized_elementwise_kernel", "16CompareEqFunctorIlE", ANSWER_EQUAL},
    {"unrolled_elementwise_kernel", "16CompareEqFunctorIlE", ANSWER_EQUAL},
};

#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vs_u64map answers; /* by host stub: some hundreds of PyTorch's many thousand kernels */

static __thread enum answer answer;

void vs_readback_register(const void *function, const char *name)
{
	for (size_t i = 0; name && i < KERNELS; i++) {
		if (!strstr(name, kernels[i].functor) || !strstr(name, kernels[i].family))
			continue;
		pthread_mutex_lock(&lock);
		/* Without memory the kernel stays one of those that answer "no". */
		(void)vs_u64map_put(&answers, (uintptr_t)function, kernels[i].answer);
		pthread_mutex_unlock(&lock);
	}
}

/* CompareEqFunctor's only member says which of == and != it is, and it comes first in the functors that wrap it; the
 * functor is the second argument, after the number of elements. */
static bool is_equal(void *const *arguments)
{
	int32_t operation;

	if (!arguments || !arguments[1])
		return false;
	memcpy(&operation, arguments[1], sizeof(operation));
	return operation == 0; /* EqOpType::EQ */
}

void vs_readback_launched(const void *function, void *const *arguments)
{
	uint32_t found = ANSWER_NO;

	pthread_mutex_lock(&lock);
	vs_u64map_get(&answers, (uintptr_t)function, &found);
	pthread_mutex_unlock(&lock);
	answer = (enum answer)found;
	if (answer == ANSWER_EQUAL)
		answer = is_equal(arguments) ? ANSWER_YES : ANSWER_NO;
}

void vs_readback_copied(size_t size)
{
	if (size != sizeof(bool))
		answer = ANSWER_NO;
}

int vs_readback_byte(size_t size)
{
	return size == sizeof(bool) && answer == ANSWER_YES;
}
