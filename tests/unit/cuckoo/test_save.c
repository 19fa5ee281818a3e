/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved cuckoo filters; test_saved.c has what holds for all kinds.
 */
#include "cuckoo_unit.h"
#include "saved_unit.h"

#include "cuckoo/save.h"
#include "cuckoo/snapshot.h"

/* ---- saves and removes ---- */

/* An allocator that is never called with the snapshots' lock held, or the stripes of a segment. */
static const struct cuckoo *used;
static bool called_under_a_lock;

static void *allocate_without_locks(void *context, size_t alignment, size_t size)
{
  void *block = NULL;
  (void) context;
  called_under_a_lock |= used && lock_is_held((struct lock *) &used->snapshots_lock);
  return posix_memalign(&block, alignment, size) ? NULL : memset(block, 0xA5, size);
}

/* More keys are removed between two pieces than there are notes for at first. */
TEST(many_removes_between_two_pieces)
{
  const tamis_allocator allocator = {allocate_without_locks, free_block, NULL};
  const uint64_t keys = 300000;
  tamis_options options = options_for(4000, 0.3);
  options.allocator = &allocator;
  tamis_filter *f = make_with_options(&options);
  add_range(f, 0, keys);
  used = const_cuckoo_of(f);
  assert_int_equal(cuckoo_generations(used), 2);
  uint64_t of_first = cuckoo_count(cuckoo_generation(used, 0), ENTRIES);
  assert_true(of_first > 4 * SNAPSHOT_MANY_NOTES);
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  uint64_t noted = 0;
  tamis__snapshot_begin(&s, used);
  do
    assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  while (piece.generation->number == 0);
  called_under_a_lock = false;
  remove_range(f, 0, keys);
  assert_false(called_under_a_lock);
  while (tamis__snapshot_next(&s, &piece) == TAMIS_OK)
    ;
  struct snapshot_note *notes = tamis__snapshot_removed(&s);
  for (const struct snapshot_note *note = notes; note; note = note->next)
    noted++;
  tamis__snapshot_release_notes(s.c, notes);
  assert_int_equal(s.result, TAMIS_ABSENT);
  /* those with an entry in the first generation, but for the keys of the segment that has been
   * copied from the second one: these had become final */
  assert_in_range(noted, of_first * 7 / 10, of_first);
  tamis__snapshot_end(&s);
  used = NULL;
  tamis_destroy(f);
}

/* ---- damage ---- */

static tamis_filter *tiny_filter(bool growable)
{
  tamis_options options = options_for(40, 0.03);
  options.growable = growable;
  tamis_filter *f = make_with_options(&options);
  add_range(f, 0, 30);
  for (unsigned i = 0; i < 5; i++)
    add_range(f, 0, 3);
  return f;
}

/* No filter of this library saves that. */
TEST(a_filter_without_segments_takes_keys)
{
  tamis_filter *f = tiny_filter(true);
  struct bytes bytes = saved_bytes(f);
  unsigned char *block = bytes.data + SAVED_HEADER;
  assert_int_equal(saved_get32(block), SAVED_SEGMENT);
  size_t size = bytes.size - SAVED_HEADER - SAVED_UNIT; /* with its counts */
  bytes.size -= size;
  memmove(block, block + size, bytes.size - SAVED_HEADER);
  unsigned char *trailer = bytes.data + bytes.size - SAVED_UNIT;
  for (unsigned i = 0; i < SAVED_TOTALS; i++)
    saved_put64(trailer + 24 + (size_t) i * 8, 0);
  saved_put64(trailer + 8, bytes.size);
  saved_put64(trailer + 16, 0); /* blocks */
  (void) repair(&bytes, 0);
  tamis_filter *loaded = load_bytes(&bytes);
  assert_int_equal(stats_of(loaded).segments, 0);
  add_range(loaded, 0, 1000);
  assert_all_in(loaded, 0, 1000);
  assert_valid(loaded);
  tamis_destroy(loaded);
  free(bytes.data);
  tamis_destroy(f);
}

/* Segments of any size are claimed, and do not follow (load_any() counts). */
TEST(a_segment_is_not_asked_for_before_it_comes)
{
  tamis_filter *f = tiny_filter(false);
  struct bytes bytes = saved_bytes(f);
  unsigned char *geometry = bytes.data + SAVED_GEOMETRY_AT;
  saved_put64(geometry + (size_t) SAVED_FIRST_ROOTS * 8, 1);
  for (uint64_t pair_bits = 10; pair_bits <= 20; pair_bits++) {
    saved_put64(geometry + (size_t) SAVED_PAIR_BITS * 8, pair_bits);
    (void) repair(&bytes, 0);
    assert_int_equal(load_any(source_of(&bytes), 0, NULL), TAMIS_ECORRUPT);
    /* as many bytes as the first MiB takes do not bring the rest of 16 MiB, either */
    struct bytes longer = {.data = calloc(1, bytes.size + (1 << 21)),
                           .size = bytes.size + (1 << 21)};
    memcpy(longer.data, bytes.data, SAVED_HEADER);
    assert_int_equal(load_any(source_of(&longer), 0, NULL), TAMIS_ECORRUPT);
    free(longer.data);
  }
  free(bytes.data);
  tamis_destroy(f);
}

/* A directory that is far too large for the capacity is not asked for. */
TEST(roots_beyond_the_capacity_are_refused)
{
  tamis_filter *f = tiny_filter(true);
  struct bytes bytes = saved_bytes(f);
  unsigned char *roots = bytes.data + SAVED_GEOMETRY_AT + (size_t) SAVED_FIRST_ROOTS * 8;
  for (uint64_t n = saved_get64(roots) * 32; n < UINT64_C(1) << 24; n *= 8) {
    saved_put64(roots, n);
    (void) repair(&bytes, 0);
    assert_int_equal(load_any(source_of(&bytes), 0, NULL), TAMIS_ECORRUPT);
  }
  free(bytes.data);
  tamis_destroy(f);
}
