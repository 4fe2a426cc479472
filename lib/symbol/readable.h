/* SPDX-License-Identifier: MIT */
#ifndef VS_SYMBOL_READABLE_H
#define VS_SYMBOL_READABLE_H

/* A symbol as people say it: demangled, without arguments, template arguments and return type:
 * "at::native::mm", "c10::impl::wrapper<>::call", "foo::{lambda#1}::operator()". Returns memory for free(3), or NULL
 * when memory is out. */
char *vs_readable(const char *symbol);
/* The same of a name that is demangled already: "int foo::bar(int) const" is "foo::bar". */
char *vs_readable_demangled(const char *name);

#endif
