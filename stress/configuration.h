/* SPDX-License-Identifier: MIT
 *
 * Random configurations, from everything that is legal: what filter is created, from which memory,
 * by how many threads it is used, and with what keys and calls.  A configuration follows from a
 * seed.
 */
#ifndef TAMIS_STRESS_CONFIGURATION_H
#define TAMIS_STRESS_CONFIGURATION_H

#include "tamis/tamis.h"

#include <stdbool.h>
#include <stdint.h>

/* What no configuration exceeds. */
struct configuration_limits {
  uint64_t bytes;   /* of a filter at its capacity */
  uint64_t keys;    /* that are added */
  uint64_t threads; /* at most 16 are useful */
};

enum memory { SYSTEM_MEMORY, LEDGER_MEMORY, FAILING_MEMORY };

struct configuration {
  uint64_t seed;         /* of keys and calls */
  tamis_options options; /* without an allocator */
  enum memory memory;
  uint64_t threads;
  uint64_t keys;  /* distinct ones, which are added first */
  uint64_t calls; /* that each thread makes when they are in */
  unsigned longest_key, longest_batch;
};

/* Longer than any group of keys that the library works on together. */
enum { LONGEST_KEY = 1024, LONGEST_BATCH = 1100 };

struct configuration configuration_draw(uint64_t seed, const struct configuration_limits *limits);

/* Prints all of it on one line. */
void configuration_print(const struct configuration *c);

/* The bytes of key number i, of which there are at most LONGEST_KEY.  No two keys of a
 * configuration are equal, and their lengths go from 0 to the longest. */
size_t configuration_key(const struct configuration *c, uint64_t i, unsigned char *bytes);

#endif
