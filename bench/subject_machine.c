/* SPDX-License-Identifier: MIT
 *
 * Operations of the machine that no filter can do without: independent reads in an array as large
 * as the filter, with and without prefetch; an atomic OR without contention; the hash of 8 bytes.
 * They show how close a filter comes to what the machine allows.  Reads in three sorts of read
 * sections show what the library's choice of readers saves.
 */
#define _LGPL_SOURCE /* liburcu's readers are inlined */
#include "base/hash.h"
#include "subject.h"

#include <ck_epoch.h>
#include <errno.h>
#include <error.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <urcu/urcu-bp.h>

/* ---- memory ---- */

static const size_t huge_page = (size_t) 2 << 20;

void *pages_allocate(size_t size)
{
  void *block = NULL;
  size_t alignment = size >= huge_page ? huge_page : 64;
  if (posix_memalign(&block, alignment, size))
    return NULL;
  if (size >= huge_page)
    (void) madvise(block, size, MADV_HUGEPAGE); /* small pages work too */
  memset(block, 0, size);
  return block;
}

void pages_free(void *block, size_t size)
{
  (void) size;
  free(block);
}

/* ---- arrays ---- */

struct array {
  size_t lines;
  struct line {
    _Alignas(64) _Atomic uint64_t word[8];
  } * line;
  struct hash_keys keys;
  /* Called through a pointer, as the library's functions are. */
  uint64_t (*read_pointer)(const struct array *array, uint64_t key);
  uint64_t (*nothing_pointer)(const struct array *array, uint64_t key);
  uint64_t (*add_pointer)(const struct array *array, uint64_t key);
};

static uint64_t add_to_word(const struct array *array, uint64_t key);
static uint64_t read_by_pointer(const struct array *array, uint64_t key);
static uint64_t nothing(const struct array *array, uint64_t key);

static void *create(const struct subject *subject, const struct spec *spec)
{
  struct array *array = calloc(1, sizeof *array);
  size_t lines = spec->bytes / sizeof(struct line) + 2;
  struct line *line = pages_allocate(lines * sizeof *line);
  if (!array || !line)
    error(2, ENOMEM, "%s", subject->name);
  *array = (struct array){.lines = lines,
                          .line = line,
                          .keys = hash_keys_from_seed(1),
                          .read_pointer = read_by_pointer,
                          .nothing_pointer = nothing,
                          .add_pointer = add_to_word};
  return array;
}

static void destroy(const struct subject *subject, void *state)
{
  (void) subject;
  struct array *array = state;
  pages_free(array->line, array->lines * sizeof *array->line);
  free(array);
}

/* A key has one or two words, in lines that do not depend on each other. */
static inline _Atomic uint64_t *first_word(const struct array *array, uint64_t key)
{
  return &array->line[scale_to(key, array->lines)].word[key & 7];
}

static inline _Atomic uint64_t *second_word(const struct array *array, uint64_t key)
{
  return first_word(array, key << 32 | key >> 32);
}

static inline uint64_t read_word(_Atomic uint64_t *word)
{
  return atomic_load_explicit(word, memory_order_relaxed);
}

static uint64_t read_by_pointer(const struct array *array, uint64_t key)
{
  return read_word(first_word(array, key));
}

static uint64_t nothing(const struct array *array, uint64_t key)
{
  (void) array;
  return key;
}

/* An add to a Bloom filter of one word a key that does nothing else: it counts no keys, knows no
 * capacity, and does not mix its hash. */
static uint64_t add_to_word(const struct array *array, uint64_t key)
{
  enum { BITS = 5 };
  _Atomic uint64_t *word = first_word(array, key);
  uint64_t mask = 0, rest = key >> 3;
  for (unsigned i = 0; i < BITS; i++, rest >>= 6)
    mask |= UINT64_C(1) << rest % 64;
  uint64_t missing = mask & ~read_word(word);
  return missing ? missing & ~atomic_fetch_or_explicit(word, mask, memory_order_relaxed) : 0;
}

/* ---- the loops ---- */

static uint64_t read_one(const struct subject *subject, void *state, enum call call,
                         const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += read_word(first_word(array, key)));
  return sum;
}

static uint64_t read_one_call(const struct subject *subject, void *state, enum call call,
                              const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += array->read_pointer(array, key));
  return sum;
}

static uint64_t call_nothing(const struct subject *subject, void *state, enum call call,
                             const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += array->nothing_pointer(array, key));
  return sum;
}

static uint64_t read_two(const struct subject *subject, void *state, enum call call,
                         const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key,
           sum += read_word(first_word(array, key)) + read_word(second_word(array, key)));
  return sum;
}

enum { AHEAD = 16 }; /* keys */

/* Keeps each key from its prefetch until its read, as a program that prefetches does. */
static inline uint64_t read_ahead(const struct array *array, const struct span *span, bool two)
{
  uint64_t sum = 0, waiting[AHEAD] = {0};
  for (uint64_t i = 0; i < span->count + AHEAD; i++) {
    uint64_t key = waiting[i % AHEAD];
    if (i >= AHEAD)
      sum += read_word(first_word(array, key)) + (two ? read_word(second_word(array, key)) : 0);
    if (i < span->count) {
      waiting[i % AHEAD] = key = span_key(span, i);
      __builtin_prefetch((const void *) first_word(array, key));
      if (two)
        __builtin_prefetch((const void *) second_word(array, key));
    }
  }
  return sum;
}

static uint64_t read_one_ahead(const struct subject *subject, void *state, enum call call,
                               const struct span *span)
{
  (void) subject, (void) call;
  return read_ahead(state, span, false);
}

static uint64_t read_two_ahead(const struct subject *subject, void *state, enum call call,
                               const struct span *span)
{
  (void) subject, (void) call;
  return read_ahead(state, span, true);
}

/* Always the same word, which belongs to the thread: the cost of the instruction. */
static uint64_t or_own(const struct subject *subject, void *state, enum call call,
                       const struct span *span)
{
  (void) subject, (void) state, (void) call;
  _Alignas(64) _Atomic uint64_t own[8] = {0};
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += atomic_fetch_or_explicit(own, key, memory_order_relaxed));
  return sum;
}

static uint64_t or_one(const struct subject *subject, void *state, enum call call,
                       const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key,
           sum += atomic_fetch_or_explicit(first_word(array, key), UINT64_C(1) << (key >> 3 & 63),
                                           memory_order_relaxed));
  return sum;
}

static uint64_t or_blind(const struct subject *subject, void *state, enum call call,
                         const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  EACH_KEY(span, key,
           atomic_fetch_or_explicit(first_word(array, key), UINT64_C(1) << (key >> 3 & 63),
                                    memory_order_relaxed));
  return 0;
}

static uint64_t add_words(const struct subject *subject, void *state, enum call call,
                          const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += array->add_pointer(array, key));
  return sum;
}

/* ---- read sections ---- */

static uint64_t read_in_urcu(const struct subject *subject, void *state, enum call call,
                             const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, urcu_bp_read_lock(); sum += read_word(first_word(array, key));
           urcu_bp_read_unlock());
  return sum;
}

static uint64_t read_in_epoch(const struct subject *subject, void *state, enum call call,
                              const struct span *span)
{
  (void) subject, (void) call;
  ck_epoch_t epoch;
  ck_epoch_record_t record;
  const struct array *array = state;
  uint64_t sum = 0;
  ck_epoch_init(&epoch);
  ck_epoch_register(&epoch, &record, NULL);
  EACH_KEY(span, key, ck_epoch_begin(&record, NULL); sum += read_word(first_word(array, key));
           ck_epoch_end(&record, NULL));
  return sum;
}

/* As a counted reader of the library, but for the phase, and with a counter of its own. */
static uint64_t read_counted(const struct subject *subject, void *state, enum call call,
                             const struct span *span)
{
  (void) subject, (void) call;
  _Alignas(64) _Atomic uint64_t inside[8] = {0};
  const struct array *array = state;
  uint64_t sum = 0;
  EACH_KEY(span, key, atomic_fetch_add(inside, 1); sum += read_word(first_word(array, key));
           atomic_fetch_sub_explicit(inside, 1, memory_order_release));
  return sum;
}

static uint64_t keys_alone(const struct subject *subject, void *state, enum call call,
                           const struct span *span)
{
  (void) subject, (void) state, (void) call;
  uint64_t sum = 0;
  EACH_KEY(span, key, sum += key; __asm__ volatile("" : "+r"(sum))); /* prevents vector code */
  return sum;
}

/* The compiler knows neither the address nor the length, as in the library. */
static uint64_t hash_eight(const struct subject *subject, void *state, enum call call,
                           const struct span *span)
{
  (void) subject, (void) call;
  const struct array *array = state;
  uint64_t sum = 0, key;
  const void *address = &key;
  size_t length = sizeof key;
  __asm__("" : "+r"(address), "+r"(length));
  for (uint64_t i = 0; i < span->count; i++) {
    key = span_key(span, i);
    __asm__ volatile("" : : "m"(key));
    sum += hash_bytes(&array->keys, NULL, address, length);
  }
  return sum;
}

#define MACHINE(name_, what_, run_)                                                  \
  {                                                                                  \
    .name = (name_), .what = (what_), .calls = (1 << CALLS) - 1, .concurrent = true, \
    .is_machine = true, .create = create, .destroy = destroy, .run = (run_)          \
  }

const struct subject machine_subjects[] = {
    MACHINE("call", "a function called through a pointer, which does nothing", call_nothing),
    MACHINE("read", "8 bytes at an independent position of an array", read_one),
    MACHINE("read-call", "the same, in a function called through a pointer", read_one_call),
    MACHINE("read-two", "8 bytes at each of two positions", read_two),
    MACHINE("read-ahead", "as read, prefetched 16 keys ahead", read_one_ahead),
    MACHINE("read-two-ahead", "as read-two, prefetched 16 keys ahead", read_two_ahead),
    MACHINE("read-urcu", "as read, in a read section of liburcu (bp)", read_in_urcu),
    MACHINE("read-epoch", "as read, in a section of ck_epoch", read_in_epoch),
    MACHINE("read-counted", "as read, by a reader that is counted while it is inside",
            read_counted),
    MACHINE("or", "atomic OR on a word that no other thread uses", or_own),
    MACHINE("or-any", "atomic OR at an independent position of an array", or_one),
    MACHINE("or-blind", "the same, without its old value", or_blind),
    MACHINE("word-filter", "an add to a bare Bloom filter of one word a key, by a pointer",
            add_words),
    MACHINE("xxh3", "XXH3 of 8 bytes", hash_eight),
    MACHINE("keys", "making a key, which is part of every other figure", keys_alone),
    {0}};
