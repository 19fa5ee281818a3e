/* SPDX-License-Identifier: MIT
 *
 * What the tests of saved filters share: bytes in memory that a filter is saved to and loaded from,
 * and sums that are made right again after a change.
 */
#ifndef TAMIS_TESTS_SAVED_UNIT_H
#define TAMIS_TESTS_SAVED_UNIT_H

#include "filter_unit.h"

#include "base/saved.h"
#include "saved_sums.h"

/* ---- saving to memory ---- */

/* As they are in a file: packed if the filter is small. */
static inline struct bytes packed_bytes(const tamis_filter *f)
{
  struct bytes b = {0};
  assert_int_equal(tamis_save(f, write_bytes, &b), TAMIS_OK);
  return b;
}

static inline struct bytes saved_bytes(const tamis_filter *f)
{
  struct bytes b = packed_bytes(f);
  unpack_bytes(&b);
  assert_int_equal(b.size % SAVED_UNIT, 0);
  return b;
}

/* Whether a filter is saved to these bytes. */
static inline bool is_saved_as(const tamis_filter *f, const struct bytes *expected)
{
  struct bytes b = saved_bytes(f);
  bool same = b.size == expected->size && memcmp(b.data, expected->data, b.size) == 0;
  free(b.data);
  return same;
}

/* ---- loading from memory ---- */

static inline struct source source_of(const struct bytes *b)
{
  return (struct source){.data = b->data, .size = b->size};
}

static inline int load_from(const struct bytes *b, const tamis_load_options *options,
                            tamis_filter **out)
{
  struct source s = source_of(b);
  return tamis_load(options, read_source, &s, out);
}

/* The result alone. */
static inline int try_load(const struct bytes *b, const tamis_load_options *options)
{
  tamis_filter *f = (tamis_filter *) 1;
  int result = load_from(b, options, &f);
  assert_true((f != NULL) == (result == TAMIS_OK));
  tamis_destroy(f);
  return result;
}

static inline tamis_stats info_of(const struct bytes *b)
{
  struct source s = source_of(b);
  tamis_stats info = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(read_source, &s, &info), TAMIS_OK);
  return info;
}

/* ---- loading anything ---- */

/* The memory of a load. */
struct load_bank {
  struct bank bank;            /* the first member */
  const struct source *source; /* NULL: it does not matter how much of it has come */
  bool too_early;              /* more was allocated than may be, for what had come */
};

/* Three times what has come, as it is copied while it grows, a MiB, and what a filter takes beside
 * its bits. */
static inline size_t allowance(const struct source *s)
{
  return 3 * s->at + ((size_t) 1 << 20) + ((size_t) 1 << 19);
}

static inline void *allocate_for_load(void *context, size_t alignment, size_t size)
{
  struct load_bank *load = context;
  void *block = bank_allocate(&load->bank, alignment, size);
  load->too_early |= load->source && load->bank.bytes > allowance(load->source);
  return block;
}

/* What a load may take beside the filter, as a multiple of the data: the counts of copies of a
 * cuckoo filter with a window are held until all of them have come. */
static unsigned beside_filter = 0;

/* Loads, and checks what must hold whatever the bytes are: a filter that is valid, or none. */
static inline int load_any(struct source s, uint64_t max_bytes, tamis_filter **out)
{
  struct load_bank load = {.source = max_bytes ? NULL : &s};
  const tamis_allocator allocator = {allocate_for_load, bank_release, &load};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &allocator;
  options.max_bytes = max_bytes;
  tamis_filter *f = (tamis_filter *) &s;
  int result = tamis_load(&options, read_source, &s, &f);
  assert_true((f != NULL) == (result == TAMIS_OK));
  assert_false(load.too_early);
  if (max_bytes)
    assert_true(load.bank.most_bytes <= max_bytes + beside_filter * s.size);
  if (f) {
    assert_valid(f);
    assert_true(load.bank.bytes >= stats_of(f).bytes);
    tamis_destroy(f);
  }
  assert_int_equal(load.bank.blocks, 0);
  assert_int_equal(load.bank.bytes, 0);
  s.at = 0;
  if (out) /* once more, in memory that stays */
    assert_int_equal(tamis_load(NULL, read_source, &s, out), result);
  return result;
}

static inline tamis_filter *load_bytes(const struct bytes *b)
{
  tamis_filter *f;
  assert_int_equal(load_any(source_of(b), 0, &f), TAMIS_OK);
  return f;
}

/* What is loaded of a filter that is saved. */
static inline tamis_filter *copy_of(const tamis_filter *f)
{
  struct bytes b = saved_bytes(f);
  tamis_filter *copy = load_bytes(&b);
  free(b.data);
  return copy;
}

/* Maps the bytes, as a file without a name. */
static inline int map_source_with(tamis_load_options options, struct source s, tamis_filter **out)
{
  char name[40];
  int fd = memfd_create("saved", 0);
  (void) snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  assert_int_equal(write(fd, s.data, s.size), s.size);
  int result = tamis_map_file(&options, name, out);
  assert_true((*out != NULL) == (result == TAMIS_OK));
  close(fd);
  return result;
}

static inline int map_source(struct source s, bool check_all, tamis_filter **out)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.check_all = check_all;
  return map_source_with(options, s, out);
}

/* What numbers in a file are replaced by. */
static const uint64_t extremes[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    63,
                                    64,
                                    65,
                                    4095,
                                    4096,
                                    (UINT64_C(1) << 20) - 1,
                                    UINT64_C(1) << 20,
                                    (UINT64_C(1) << 20) + 1,
                                    UINT32_MAX,
                                    UINT64_C(1) << 32,
                                    (UINT64_C(1) << 41) - 1,
                                    UINT64_C(1) << 41,
                                    UINT64_C(1) << 58,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - 63,
                                    UINT64_MAX - 1,
                                    UINT64_MAX,
                                    UINT64_C(0x3FF0000000000000),  /* 1.0 */
                                    UINT64_C(0x7FF0000000000000),  /* infinity */
                                    UINT64_C(0x7FF8000000000000)}; /* no number */
enum { EXTREMES = sizeof extremes / sizeof *extremes };

/* Flips one bit after the other; a step that is odd comes by every byte. */
static inline void assert_changes_are_found(const struct bytes *b, size_t step)
{
  for (size_t bit = 0; bit < 8 * b->size; bit += step) {
    b->data[bit / 8] ^= (unsigned char) (1u << bit % 8);
    assert_int_not_equal(load_any(source_of(b), 0, NULL), TAMIS_OK);
    b->data[bit / 8] ^= (unsigned char) (1u << bit % 8);
  }
}

static inline void assert_truncations_are_found(const struct bytes *b, size_t step)
{
  for (size_t size = 0; size < b->size; size += step) {
    struct source s = {.data = b->data, .size = size};
    assert_int_equal(load_any(s, 0, NULL), TAMIS_ECORRUPT);
  }
}

/* Nothing that a file says does harm, though all sums are right.  (What a filter without an array
 * needs for its directory follows from its header: there is a limit for that.)  Returns how many
 * changes were accepted. */
static inline unsigned try_extremes(const struct bytes *b, size_t array, size_t begin, size_t end)
{
  struct bytes changed = {.data = malloc(b->size), .size = b->size};
  unsigned accepted = 0;
  assert_non_null(changed.data);
  for (size_t at = begin; at < end; at += 4)
    for (unsigned i = 0; i < 2 * EXTREMES; i++) {
      memcpy(changed.data, b->data, b->size);
      if (i < EXTREMES && at % 8 == 0)
        saved_put64(changed.data + at, extremes[i]);
      else
        saved_put32(changed.data + at, (uint32_t) extremes[i % EXTREMES]);
      (void) repair(&changed, array);
      accepted += load_any(source_of(&changed), array ? 0 : UINT64_C(64) << 20, NULL) == TAMIS_OK;
    }
  free(changed.data);
  return accepted;
}

#endif
