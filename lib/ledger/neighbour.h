/* SPDX-License-Identifier: MIT
 *
 * What another recorded process held on a card at some instant.
 */
#ifndef VS_LEDGER_NEIGHBOUR_H
#define VS_LEDGER_NEIGHBOUR_H

#include <vramshim/trace.h>

/* Device bytes that the recording `trace` shows on its device `device` at `time_ns` of the event clock, which is the
 * machine's: its context of `context` bytes (0 unknown) and what CUDA had given out. 0 before its first event there
 * and after its recorded end. Rewinds the trace and leaves it anywhere. -ENOMEM; or what vramshim_trace_next() says.
 */
int vs_neighbour_bytes(struct vramshim_trace *trace, int device, uint64_t context, uint64_t time_ns,
                       uint64_t *ret_bytes);

#endif
