/* SPDX-License-Identifier: MIT
 *
 * Layer 1: sizes that follow the number of processor cores.
 */
#ifndef TAMIS_LIB_CORES_H
#define TAMIS_LIB_CORES_H

/* The smallest power of two that is at least `per_core` times the number of online cores, limited
 * to `min` to `max`, which are powers of two themselves. */
unsigned tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max);

#endif
