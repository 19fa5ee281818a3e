/* SPDX-License-Identifier: MIT
 *
 * Validation of a whole filter notices every error.
 */
#include "cuckoo/segment.h"
#include "cuckoo_unit.h"

/* Everything that validation checks is broken, noticed, and repaired. */
TEST(validate_notices_whatever_is_broken)
{
  tamis_filter *f = make(1000, 0.001);
  add_range(f, 0, 100);
  struct generation *generation = cuckoo_generation(cuckoo_of(f), 0);
  const struct cuckoo_geometry *g = &generation->geometry;
  struct segment *segment = directory_segment(directory_at(generation, 0));
  assert_int_equal(segment->depth, 0);
  assert_true(g->depth_limit > 0);

  struct stripe *stripe = &segment_stripes(segment)[g->stripe_mask];
  stripe_lock(stripe);
  assert_broken(f, "a stripe is still locked");
  uint64_t version = version_after(&stripe->version);
  version_leave(stripe);
  stripe_unlock(stripe);
  assert_broken(f, "a segment is in the directory that has left");
  stripe->version = version;

  atomic_fetch_add(&segment_stripes(segment)[0].used, 1);
  assert_broken(f, "stripes count other entries than there are");
  atomic_fetch_sub(&segment_stripes(segment)[0].used, 1);

  segment->depth++; /* the directory entry holds it too */
  assert_broken(f, "a segment has the wrong directory entry");
  segment->depth--;

  segment->prefix = UINT64_C(1) << 63;
  assert_broken(f, "a segment has the wrong directory entry");
  segment->prefix = 0;

  cuckoo_count_change(generation, ENTRIES, 1);
  assert_broken(f, "counted entries are not those in buckets");
  cuckoo_count_change(generation, ENTRIES, -1);

  atomic_fetch_add(&generation->segments, 1);
  assert_broken(f, "counted segments are not those in the directory");
  atomic_fetch_sub(&generation->segments, 1);

  word *words = segment_words(g, segment);
  unsigned i = 0;
  while (!lane_get(&g->shape, word_load(&words[i]), 0))
    i++;
  uint64_t before = word_load(&words[i]), entry = lane_get(&g->shape, before, 0);
  uint64_t aged = entry << 1 & lane_bits(g->shape.width); /* as a split would do */
  word_store(&words[i], lane_put(&g->shape, before, 0, 0));
  assert_broken(f, "stripes count other entries than there are");
  word_store(&words[i], lane_put(&g->shape, before, 0, aged));
  assert_broken(f, "an entry is older than its segment is deep");
  word_store(&words[i], before);

  cuckoo_count_change(generation, DUPLICATES, 1);
  assert_broken(f, "counted duplicates are not those that segments count");
  cuckoo_count_change(generation, DUPLICATES, -1);

  for (uint64_t key = 0; !has_duplicates(segment); key++)
    for (unsigned n = 0; n < 4; n++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  struct table_counts *d = atomic_load(&segment->duplicates);
  d->live++;
  assert_broken(f, "duplicate counts are not whole");
  d->live--;
  struct lane counted = {0, 0}, empty = {0, 0};
  while (!segment_copies(segment, counted))
    counted = counted.lane + 1 < d->lanes ? (struct lane){counted.bucket, counted.lane + 1}
                                          : (struct lane){counted.bucket + 1, 0};
  while (lane_get(&g->shape, word_load(&words[empty.bucket]), empty.lane))
    empty = empty.lane + 1 < d->lanes ? (struct lane){empty.bucket, empty.lane + 1}
                                      : (struct lane){empty.bucket + 1, 0};
  struct cuckoo *c = cuckoo_of(f);
  assert_int_equal(tamis__segment_move_copies(c, g, segment, counted, empty, 0, false), TAMIS_OK);
  assert_broken(f, "copies are counted of a lane without an entry");
  assert_int_equal(tamis__segment_move_copies(c, g, segment, empty, counted, 0, false), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

/* So is what is broken in the array of a root: here of a segment that fills two entries. */
TEST(validate_notices_a_broken_array)
{
  tamis_filter *f = make(10, 0.03);
  for (uint64_t i = 0; stats_of(f).segments < 3; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  unsigned bits, i = 0;
  struct directory_array *array =
      directory_array_of(directory_load(root_entry(&cuckoo_of(f)->first, 0)), &bits);
  while ((i % 2 == 0 || array->entry[i] != array->entry[i - 1]) &&
         (i % 4 < 2 || array->entry[i] != array->entry[i - 2])) /* it is not the first one */
    assert_true(++i < 2U << bits);
  directory_entry *entry = &array->entry[i];
  directory_value value = directory_load(entry);
  directory_publish(entry, NULL);
  assert_broken(f, "directory entries of one segment differ");
  directory_publish(entry, value);

  assert_valid(f);
  tamis_destroy(f);
}

/* An error in one generation is noticed, whatever the others are like. */
TEST(validate_checks_all_generations)
{
  tamis_filter *f = make(1, 0.3);
  for (uint64_t i = 0; stats_of(f).generations < 3; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  for (unsigned i = 0; i < 3; i++) {
    struct generation *generation = cuckoo_generation(cuckoo_of(f), i);
    atomic_fetch_add(&generation->segments, 1);
    assert_broken(f, "counted segments are not those in the directory");
    atomic_fetch_sub(&generation->segments, 1);
    assert_valid(f);
  }
  tamis_destroy(f);
}
