/* SPDX-License-Identifier: MIT
 *
 * libc10's two functions that the recorder stands in front of: they count their calls.
 */
#include <stdint.h>

#define API __attribute__((visibility("default")))

API _Atomic int mock_reports, mock_ooms;

API void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t size, uint64_t allocated,
                                                               uint64_t reserved, uint16_t device)
{
	(void)pointer;
	(void)size;
	(void)allocated;
	(void)reserved;
	(void)device;
	mock_reports++;
}

API void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t size, uint64_t allocated, uint64_t reserved,
                                                             uint16_t device)
{
	(void)size;
	(void)allocated;
	(void)reserved;
	(void)device;
	mock_ooms++;
}
