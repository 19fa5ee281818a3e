/* SPDX-License-Identifier: MIT
 *
 * A user's allocator that keeps a ledger: what is allocated, whether it comes back with its own
 * size and alignment, and whether a limit was exceeded at any moment.  It overwrites what is
 * released, and may fail by chance.
 */
#ifndef TAMIS_STRESS_LEDGER_H
#define TAMIS_STRESS_LEDGER_H

#include "tamis/tamis.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ledger {
  uint64_t limit; /* bytes that must never be exceeded; 0: none */
  uint64_t seed;
  uint64_t odds;       /* while it is armed, one request in so many fails */
  _Atomic bool armed;  /* requests may fail */
  _Atomic bool yields; /* the calling thread lets others run, as it might in a slow allocator */
  _Atomic uint64_t requests, failures, blocks, bytes, most_bytes;
  const char *_Atomic wrong; /* what the library did wrong first, or NULL */
};

/* An allocator that uses the ledger, which must outlive it. */
tamis_allocator ledger_allocator(struct ledger *ledger);

/* Whether everything has come back. */
bool ledger_is_even(const struct ledger *ledger);

#endif
