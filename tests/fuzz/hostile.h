/* SPDX-License-Identifier: MIT
 *
 * What must hold for any bytes that somebody gives to tamis_load(), tamis_saved_info(),
 * tamis_load_file() and tamis_map_file(): memory is asked for as bytes come, and never more than
 * max_bytes; there is an error and nothing is left, or a filter that is valid, and that behaves as
 * a filter does; and all of these calls agree.
 */
#ifndef TAMIS_TESTS_FUZZ_HOSTILE_H
#define TAMIS_TESTS_FUZZ_HOSTILE_H

#include "tamis/tamis.h"

/* Ends the program, after it has said why, if something does not hold.  The same is done whenever
 * the bytes are the same.  Returns what tamis_load() returns. */
int hostile_try(const unsigned char *data, size_t size);

/* The hashes that saved filters of the corpus have, from 0 on. */
static inline uint64_t hostile_hash(uint64_t i)
{
  return i * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

#endif
