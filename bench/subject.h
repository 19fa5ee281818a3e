/* SPDX-License-Identifier: MIT
 *
 * Subjects, which can be measured: filters of this library, other data structures, and operations
 * of the machine.
 *
 * A subject runs its own loop over many keys, so that nothing but the call itself is measured.  All
 * loops make their keys in the same way, and return what the calls answered, so that no compiler
 * can drop a call.
 */
#ifndef TAMIS_BENCH_SUBJECT_H
#define TAMIS_BENCH_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ---- */

/* The i-th key.  The function is a bijection, cheap, and random enough for tables that use keys as
 * hashes.  Its constants are odd and have about as many ones as zeros; the first is 2^64 over the
 * golden ratio. */
static inline uint64_t key_at(uint64_t i)
{
  uint64_t x = i * UINT64_C(0x9E3779B97F4A7C15);
  x ^= x >> 32;
  return x * UINT64_C(0xD6E8FEB86659FD93);
}

/* Keys from this index on are never added. */
static const uint64_t first_absent = UINT64_C(1) << 40;

/* Maps a key to 0 .. n-1. */
static inline uint64_t scale_to(uint64_t key, uint64_t n)
{
  return (uint64_t) (((unsigned __int128) key * n) >> 64);
}

/* ---- calls ---- */

enum call {
  CALL_ADD,
  CALL_ADD_UNIQUE,
  CALL_CONTAINS,
  CALL_REMOVE,
  CALL_ADD_BYTES, /* the key is 8 bytes, which the call hashes */
  CALL_CONTAINS_BYTES,
  CALL_ADD_MANY, /* BATCH keys at a time */
  CALL_CONTAINS_MANY,
  CALL_MIX, /* see mix_adds() */
  CALLS
};

enum { BATCH = 64, HOT_KEYS = 1 << 16 };

/* The keys of a loop. */
struct span {
  uint64_t first, count; /* indices */
  uint64_t fresh;        /* CALL_MIX: index of the first key to add */
  const uint32_t *hot;   /* NULL, or HOT_KEYS indices to use in turn instead */
};

static inline uint64_t span_key(const struct span *span, uint64_t i)
{
  return key_at(span->hot ? span->hot[(span->first + i) % HOT_KEYS] : span->first + i);
}

/* One call in ten is an add; about every second one of the others looks up an absent key. */
static inline bool mix_adds(uint64_t i)
{
  return i % 10 == 0;
}

static inline uint64_t mix_key(const struct span *span, uint64_t i)
{
  return key_at((mix_adds(i) ? span->fresh : i % 2 ? span->first : first_absent) + i);
}

/* Runs a statement for each key of a span.  It reads a copy of the span, which no call can change,
 * so the copy stays in registers. */
#define EACH_KEY(span, key, statement)                       \
  do {                                                       \
    const struct span copy_ = *(span);                       \
    for (uint64_t each_ = 0; each_ < copy_.count; each_++) { \
      const uint64_t key = span_key(&copy_, each_);          \
      statement;                                             \
    }                                                        \
  } while (0)

/* ---- subjects ---- */

/* What create() makes. */
struct spec {
  uint64_t capacity; /* keys */
  double fpp;
  uint64_t bytes;  /* of a machine's array */
  bool prefaulted; /* all pages are faulted in before the first call */
};

struct subject {
  const char *name;
  const char *what;
  unsigned calls;  /* 1 << enum call, each */
  bool concurrent; /* any number of threads may call it */
  bool exact;      /* it has no false positives */
  bool is_machine; /* it measures the machine, and its answers mean nothing */
  void *(*create)(const struct subject *subject,
                  const struct spec *spec); /* ends the program on failure */
  void (*destroy)(const struct subject *subject, void *state);
  /* Makes the calls; returns how many answered yes: found, added, new or removed. */
  uint64_t (*run)(const struct subject *subject, void *state, enum call call,
                  const struct span *span);
  /* The bytes that a filter will take, and those that it takes now.  NULL: not known. */
  uint64_t (*bytes)(const struct subject *subject, const struct spec *spec);
  uint64_t (*bytes_now)(const struct subject *subject, const void *state);
  const void *detail; /* for the functions above */
};

static inline bool subject_can(const struct subject *subject, enum call call)
{
  return (subject->calls >> call & 1) != 0;
}

/* The lists end with an entry without a name. */
extern const struct subject tamis_subjects[], machine_subjects[], bloom_subjects[];
/* This list, from C++, has pointers and ends with NULL. */
extern const struct subject *const exact_subjects[];

/* The library that the subjects other-... are filters of, before any is created.  By default, it is
 * the same as that of the others. */
void subject_set_other(const char *path);

/* NULL: no subject has that name. */
const struct subject *subject_find(const char *name);
/* The n-th of all subjects; NULL: there are fewer. */
const struct subject *subject_number(unsigned n);

/* Zeroed memory whose pages are faulted in, huge ones if the system has them. */
void *pages_allocate(size_t size);
void pages_free(void *block, size_t size);

#ifdef __cplusplus
}
#endif
#endif
