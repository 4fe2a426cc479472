/* SPDX-License-Identifier: MIT
 *
 * A job may forbid itself to read the processor's counter (prctl(PR_SET_TSC), of a thread and those it makes): to
 * replay what it does, or to hide from itself how fast it is. From then on reading it is a segmentation fault, ours
 * as well.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "shim/export.h"
#include "shim/loader.h"
#include "shim/thread.h"
#include "trace/writer.h"

VS_EXPORT int prctl(int option, ...);

/* Looked up before main(), not when it is called: children between fork() and exec() call it, where the loader's lock
 * may be held for ever. */
static int (*next)(int option, ...);

__attribute__((constructor)) static void prepare(void)
{
	next = (int (*)(int, ...))vs_loader_next("prctl");
}

VS_EXPORT int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;

	/* However many there are: libc reads as many. */
	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_TSC && arguments[0] == PR_TSC_SIGSEGV) {
		vs_clock_forbid();
		if (vs_thread.log)
			vs_log_stop_clock(vs_thread.log);
	}
	if (!next)
		return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
	return next(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
