/* SPDX-License-Identifier: MIT */
__attribute__((visibility("default"))) int target_value(void)
{
	return 42;
}
