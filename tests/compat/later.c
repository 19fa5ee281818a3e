/* SPDX-License-Identifier: MIT
 *
 * The public functions of a later version, for test_versions.c: compiled with a header whose
 * structs have more fields (CMakeLists.txt makes it).
 */
#include "tamis.c" /* NOLINT(bugprone-suspicious-include) */
