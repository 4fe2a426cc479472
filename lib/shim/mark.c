/* SPDX-License-Identifier: MIT */
#include <vramshim/annotate.h>

#include "shim/export.h"
#include "shim/record.h"
#include "shim/thread.h"

VS_EXPORT void vramshim_mark(const char *name)
{
	if (vs_enter() && name)
		vs_record_mark(name);
	vs_leave();
}

VS_EXPORT int vramshim_active(void)
{
	return __atomic_load_n(&vs_recording, __ATOMIC_RELAXED);
}
