/* SPDX-License-Identifier: MIT */
#include "base/section.h"

#include <errno.h>
#include <pthread.h>

void vs_section_enter(struct vs_section *ret_section)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	int saved = errno;
	sigset_t set;

	sigfillset(&set);
	for (unsigned int i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&set, own[i]);
	pthread_sigmask(SIG_BLOCK, &set, &ret_section->signals);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &ret_section->type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ret_section->state);
	errno = saved;
}

void vs_section_leave(const struct vs_section *section)
{
	int saved = errno;

	/* The state first: where it is enabled with the type at "any time", glibc (2.36) ends the thread without
	 * PTHREAD_CANCELED as its result; the type's call does it right. */
	pthread_setcancelstate(section->state, NULL);
	pthread_setcanceltype(section->type, NULL);
	pthread_sigmask(SIG_SETMASK, &section->signals, NULL);
	errno = saved;
}
