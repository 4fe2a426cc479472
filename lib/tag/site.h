/* SPDX-License-Identifier: MIT
 *
 * What a call stack says about an event, apart from all lifetimes.
 */
#ifndef VS_TAG_SITE_H
#define VS_TAG_SITE_H

#include <stddef.h>
#include <stdint.h>

/* Which activity of the job the stack is part of: the innermost one that is recognised. */
enum vs_context {
	VS_CONTEXT_NONE,  /* frames, and none that we know */
	VS_CONTEXT_EMPTY, /* no frames at all */
	VS_CONTEXT_LOAD,  /* building, loading, converting a model */
	VS_CONTEXT_FORWARD,
	VS_CONTEXT_BACKWARD,
	VS_CONTEXT_RECOMPUTE, /* checkpointed forward, again, for the backward */
	VS_CONTEXT_OPTIMIZER,
	VS_CONTEXT_ZERO_GRAD,
	VS_CONTEXT_EXIT, /* the interpreter is finalising */
};

/* What the block itself is, where a frame can tell. */
enum vs_role {
	VS_ROLE_NONE,
	VS_ROLE_CUBLAS,
	VS_ROLE_CUBLASLT,
	VS_ROLE_CUDNN,
	VS_ROLE_GATHERED,       /* unsharded weights */
	VS_ROLE_GATHER_STAGING, /* around an all-gather */
	VS_ROLE_REDUCE,         /* around a reduction; the sharded gradient comes from here too */
	VS_ROLE_COLLECTIVE,     /* other communication */
	VS_ROLE_BUCKETS,
	VS_ROLE_GRADIENTS, /* reduced or partitioned gradients, outside of any backward's engine */
	VS_ROLE_MASTER,
	VS_ROLE_STATE, /* made where optimizers make their state */
	VS_ROLE_SCALER,
	VS_ROLE_CLIPPING,
	VS_ROLE_CONVERTED, /* Module._apply: a parameter, moved or converted */
	VS_ROLE_QUANTIZED,
	VS_ROLE_DEQUANTIZED,
	VS_ROLE_WARMUP,
	VS_ROLE_KV_CACHE,
	VS_ROLE_ACCUMULATED, /* AccumulateGrad itself */
	/* Of a free, what let go of the block: */
	VS_ROLE_SAVED, /* a graph, of what it had saved */
	VS_ROLE_NODE,  /* ... of something else, such as a leaf and its gradient */
};

enum vs_site_flags {
	VS_SITE_CAST = 1 << 0,        /* autocast's cached copy */
	VS_SITE_COPY = 1 << 1,        /* tensor.to(device): the copy of something that was elsewhere */
	VS_SITE_INTEGERS = 1 << 2,    /* randint: not a weight */
	VS_SITE_FRESH = 1 << 6,       /* made from nothing: randn, full, arange */
	VS_SITE_LIKE = 1 << 7,        /* zeros_like: in the shape of another tensor */
	VS_SITE_CLONE = 1 << 8,       /* the copy of another tensor */
	VS_SITE_CUT = 1 << 9,         /* deeper than the recorder keeps: whose it is may stand in what is missing */
	VS_SITE_OPERATOR = 1 << 10,   /* an operator that forwards consist of: a matrix product, a loss */
	VS_SITE_CHECKPOINT = 1 << 11, /* in a part of a forward that keeps only what it began with */
	VS_SITE_UNNAMED = 1 << 12,    /* its native frames have no names: which operator made it is not known */
	VS_SITE_RETURNED = 1 << 13,   /* autograd.grad(): its caller gets what it made */
	VS_SITE_CONSTRUCTOR = 1 << 3, /* below some __init__ */
	VS_SITE_ENGINE = 1 << 4,      /* on a stack of autograd's engine */
	VS_SITE_MODULE = 1 << 5,      /* below some nn.Module call */
};

struct vs_site {         /* 12 bytes: there is one for each stack of a trace */
	uint8_t context; /* enum vs_context */
	uint8_t role;    /* enum vs_role */
	uint16_t flags;  /* enum vs_site_flags */
	uint16_t rule;   /* the rule that gave the role, else the context; 0 none */
	uint32_t call;   /* where the job's own code called the module below which it is, from 1; 0: not known */
};

/* Evaluate a stack from the rules of its frames (vs_rule_native, vs_rule_python; 0 = no rule), innermost first. */
struct vs_site vs_site_evaluate(const uint16_t *native, size_t native_count, const uint16_t *python,
                                size_t python_count);

#endif
