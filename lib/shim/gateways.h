/* SPDX-License-Identifier: MIT
 *
 * The calls that hand out CUDA's functions by name.
 */
#ifndef VS_SHIM_GATEWAYS_H
#define VS_SHIM_GATEWAYS_H

struct vs_call;

/* After such a call: *out is the driver's own choice of version and flavour, and its errors and status are what the
 * caller gets. Where the pointer is that of an entry, it is exchanged for the entry's wrapper. `base` may be any
 * string, even "", and `out` NULL. */
void vs_call_entry_point(struct vs_call *call, const char *base, void **out, unsigned long long flags);

#endif
