/* SPDX-License-Identifier: MIT
 *
 * The subcommands of vramreport that rest on lib/model. Each takes the arguments after the program's name, argv[0]
 * being the subcommand, and returns the exit status: 0 success, 1 the answer is "no", 2 bad usage or input.
 */
#ifndef VS_ESTIMATE_H
#define VS_ESTIMATE_H

int vs_float_main(int argc, char **argv);
int vs_plan_main(int argc, char **argv);
int vs_compare_main(int argc, char **argv);
int vs_extrapolate_main(int argc, char **argv);

#endif
