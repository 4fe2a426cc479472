/* SPDX-License-Identifier: MIT */
#ifndef VS_SHIM_EXPORT_H
#define VS_SHIM_EXPORT_H

/* A symbol that the job may bind to; everything else is hidden. */
#define VS_EXPORT __attribute__((visibility("default")))

#endif
