/* SPDX-License-Identifier: MIT
 *
 * At an out-of-memory error, tell the user why, before the job's own error does.
 */
#ifndef VS_SHIM_OOM_REPORT_H
#define VS_SHIM_OOM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Once, while the library loads: reads VRAMSHIM_REPORT (the path of vramreport; absent: no reports) and VRAMSHIM_OOM
 * ("quiet": none either). */
void vs_oom_report_prepare(void);

/* Who says that memory is out. Each is told by itself, so that a library which was refused, and can do without, does
 * not silence the error that ends the job. */
enum vs_oom_of { VS_OOM_OF_PYTORCH, VS_OOM_OF_CUDA, VS_OOM_OF_COUNT };

/* PYTORCH_NO_CUDA_MEMORY_CACHING was set: what PyTorch asks of CUDA is then asked once, and its failure not reported.
 */
bool vs_oom_report_uncached(void);

/* The calling process has recorded an out-of-memory error with this stack: run `vramreport oom --brief` on its trace,
 * into its stderr. Comes back after 2 seconds at the latest. Takes no lock, allocates nothing, and the job sees no
 * child: neither by SIGCHLD nor by wait(). errno is kept. Inside a hook only. */
void vs_oom_report(const char *trace, enum vs_oom_of of, uint32_t stack);

#endif
