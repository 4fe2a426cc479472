/* SPDX-License-Identifier: MIT
 *
 * Makes an interpreter claim the version in LYING_VERSION.
 */
#include <stdlib.h>

__attribute__((visibility("default"))) const char *Py_GetVersion(void)
{
	const char *version = getenv("LYING_VERSION");

	return version ? version : "";
}
