/* SPDX-License-Identifier: MIT
 *
 * Numbers of file descriptors are the job's: what it opens gets the lowest, and some programs count on which.
 */
#ifndef VS_SHIM_DESCRIPTORS_H
#define VS_SHIM_DESCRIPTORS_H

/* Numbers below are left to the job. */
#define VS_HIGH_FD 256

/* Call `work`, of another library, in such a way that descriptors it opens get VS_HIGH_FD or more: all free ones
 * below are taken meanwhile. -EMFILE, without a call, where the job's limit leaves none above. */
int vs_with_high_descriptors(void (*work)(void));

#endif
