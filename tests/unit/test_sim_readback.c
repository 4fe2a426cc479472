/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/readback.h"

/* Host stubs: only their addresses count. */
static const char all, any, equal, unrolled, infinite, logical, other;

static void compare(const void *kernel, int32_t operation)
{
	int elements = 1;
	void *arguments[] = {&elements, &operation};

	vs_readback_launched(kernel, arguments);
}

static int register_kernels(void **state)
{
	(void)state;
	vs_readback_register(&all,
	                     "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIbNS0_14func_wrapper_tIbZZZNS0_"
	                     "15and_kernel_cudaERNS_14TensorIteratorEENKUlvE_clE");
	vs_readback_register(&any,
	                     "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIbNS0_14func_wrapper_tIbZZZNS0_"
	                     "14or_kernel_cudaERNS_14TensorIteratorEENKUlvE_clE");
	vs_readback_register(&equal, "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIllbNS0_51_"
	                             "GLOBAL__N__28ce311f_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIlEEEE");
	vs_readback_register(&unrolled, "_ZN2at6native27unrolled_elementwise_kernelINS0_13BinaryFunctorIllbNS0_51_"
	                                "GLOBAL__N__28ce311f_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIlEEEE");
	vs_readback_register(&infinite,
	                     "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIffbNS0_51_"
	                     "GLOBAL__N__28ce311f_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIfEEEE");
	vs_readback_register(&logical, "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_"
	                               "13AUnaryFunctorIbbbZZZNS0_23logical_and_kernel_cudaERNS_14TensorIteratorE");
	vs_readback_register(&other, NULL);
	return 0;
}

static void all_is_true_and_any_is_not(void **state)
{
	(void)state;
	vs_readback_launched(&all, NULL);
	assert_int_equal(vs_readback_byte(1), 1);
	assert_int_equal(vs_readback_byte(1), 1);
	vs_readback_launched(&any, NULL);
	assert_int_equal(vs_readback_byte(1), 0);
	vs_readback_launched(&logical, NULL);
	assert_int_equal(vs_readback_byte(1), 0);
}

static void only_one_byte_is_a_truth_value(void **state)
{
	(void)state;
	vs_readback_launched(&all, NULL);
	assert_int_equal(vs_readback_byte(4), 0);
	assert_int_equal(vs_readback_byte(0), 0);
	assert_int_equal(vs_readback_byte(1), 1);
}

static void another_kernel_ends_it(void **state)
{
	(void)state;
	vs_readback_launched(&all, NULL);
	vs_readback_launched(&other, NULL);
	assert_int_equal(vs_readback_byte(1), 0);
	vs_readback_launched(&all, NULL);
	vs_readback_copied(4096);
	assert_int_equal(vs_readback_byte(1), 0);
}

static void integers_are_equal(void **state)
{
	const void *kernels[] = {&equal, &unrolled};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		compare(kernels[i], 0);
		assert_int_equal(vs_readback_byte(1), 1); /* mask.sum() == mask.numel() */
		vs_readback_copied(1);
		assert_int_equal(vs_readback_byte(1), 1); /* all() of one element */
		compare(kernels[i], 1);                   /* != */
		assert_int_equal(vs_readback_byte(1), 0);
	}
	vs_readback_launched(&equal, NULL);
	assert_int_equal(vs_readback_byte(1), 0);
}

static void floating_point_numbers_are_not(void **state)
{
	(void)state;
	compare(&infinite, 0); /* isinf(x) is |x| == infinity */
	assert_int_equal(vs_readback_byte(1), 0);
	vs_readback_copied(1);
	assert_int_equal(vs_readback_byte(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_is_true_and_any_is_not),     cmocka_unit_test(only_one_byte_is_a_truth_value),
	    cmocka_unit_test(another_kernel_ends_it),         cmocka_unit_test(integers_are_equal),
	    cmocka_unit_test(floating_point_numbers_are_not),
	};

	return cmocka_run_group_tests(tests, register_kernels, NULL);
}
