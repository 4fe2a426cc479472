/* SPDX-License-Identifier: MIT
 *
 * Optional marks for the job's own code. The symbols exist only where the job
 * runs under libvramshim.so: look them up (dlsym(RTLD_DEFAULT, ...), or
 * ctypes.CDLL(None) in Python) and do without them where they are absent.
 */
#ifndef VRAMSHIM_ANNOTATE_H
#define VRAMSHIM_ANNOTATE_H

#ifdef __cplusplus
extern "C" {
#endif

/* A named instant in the trace, ordered with the allocations of all threads. The name is copied. Any
 * thread, any time; never fails, never blocks on the GPU. NULL is ignored. */
void vramshim_mark(const char *name);

/* 1 while this process is being recorded, else 0. */
int vramshim_active(void);

#ifdef __cplusplus
}
#endif
#endif
