/* SPDX-License-Identifier: MIT
 *
 * The public functions of a later version, for test_versions.c: compiled with a header whose
 * structs have more fields (CMakeLists.txt makes it).
 */
#pragma GCC diagnostic ignored \
    "-Wmissing-field-initializers" /* in the macros, which were not changed */
#include "tamis.c"                 /* NOLINT(bugprone-suspicious-include) */
