/* SPDX-License-Identifier: MIT
 *
 * What each stack of a trace says, worked out once: names from lib/symbol,
 * meaning from lib/tag. All string work of an analysis is here.
 */
#ifndef VS_LEDGER_SITES_H
#define VS_LEDGER_SITES_H

#include "ledger/owner.h"
#include "ledger/summary.h"
#include "tag/site.h"
#include <vramshim/trace.h>

struct vs_symbols;
struct vs_sites;

/* Both must outlive the result. -ENOMEM. */
int vs_sites_new(const struct vramshim_trace *trace, struct vs_symbols *symbols, struct vs_sites **ret_sites);
/* Accepts NULL. */
void vs_sites_free(struct vs_sites *sites);

/* The site of a stack id; unknown ids are empty stacks. NULL when memory is out. Good until the next call. */
const struct vs_site *vs_sites_get(struct vs_sites *sites, uint32_t stack);

/* Of the stacks that vs_sites_get() was asked for. */
const struct vs_evidence *vs_sites_evidence(const struct vs_sites *sites);

/* Who asked CUDA for memory with this stack; NOBODY where the stack does not tell. */
uint8_t vs_sites_owner(struct vs_sites *sites, uint32_t stack);
const char *vs_sites_owner_name(const struct vs_sites *sites, uint8_t owner); /* good as long as `sites` */

#endif
