/* SPDX-License-Identifier: MIT
 *
 * Searches and evictions in segments that a test has filled by hand: there is one cuckoo path to
 * room, as long as the test wants.
 */
#include "unit.h"

#include "cuckoo/directory.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "harness.h"

enum { MAX_PATH_MOVES = 16 }; /* as in lib/cuckoo/evict.c */

struct bench {
  struct cuckoo_geometry g;
  struct counter_shard shard;
  struct segment *segment;
  uint64_t seed;
};

static void begin(struct bench *b, unsigned width, unsigned pair_bits, bool ages)
{
  struct cuckoo_geometry *g = &b->g;
  *b = (struct bench){.g = {.shape = bucket_shape(width, ages),
                            .first_roots = 1,
                            .pair_bits = (uint8_t) pair_bits,
                            .uneven_at = NEVER_UNEVEN,
                            .fixed_shift = (uint8_t) (64 - width),
                            .words_offset = sizeof(struct segment) + 64},
                      .seed = 1};
  b->segment = aligned_alloc(64, cuckoo_segment_bytes(g));
  assert_non_null(b->segment);
  memset(b->segment, 0, cuckoo_segment_bytes(g));
  lock_init(&segment_stripes(b->segment)->lock);
}

static void end(struct bench *b)
{
  lock_destroy(&segment_stripes(b->segment)->lock);
  free(b->segment);
}

static word *word_of(const struct bench *b, uint64_t bucket)
{
  return &segment_words(&b->g, b->segment)[bucket];
}

static unsigned free_lanes(const struct bench *b, uint32_t bucket)
{
  return lanes_count(lanes_empty(&b->g.shape, word_load(word_of(b, bucket))));
}

/* Puts an entry into a lane of `at` whose other bucket is `other`. */
static void put(struct bench *b, uint32_t at, unsigned lane, uint32_t other)
{
  uint64_t entry;
  do
    entry = bucket_entry(&b->g.shape, random_next(&b->seed));
  while (other_bucket(&b->g, b->segment, at, entry) != other);
  word_store(word_of(b, at), lane_put(&b->g.shape, word_load(word_of(b, at)), lane, entry));
  stripe_use(segment_stripes(b->segment), 1);
}

/* The i-th bucket of a chain: lower and upper ones in turn. */
static uint32_t link_of(const struct bench *b, unsigned i)
{
  return i / 2 + (i % 2 ? (uint32_t) cuckoo_buckets(&b->g) / 2 : 0);
}

/* Each bucket has two lanes: the entry in lane `onward` leads to the next bucket, the other one
 * leads back. There is room after `moves` moves.  The key's upper bucket leads only to its lower
 * one. */
static uint32_t write_chain(struct bench *b, unsigned moves, unsigned onward)
{
  uint32_t upper = (uint32_t) cuckoo_buckets(&b->g) - 1;
  stripe_lock(segment_stripes(b->segment));
  put(b, upper, 0, 0);
  put(b, upper, 1, 0);
  for (unsigned i = 0; i < moves; i++) {
    put(b, link_of(b, i), !onward, i ? link_of(b, i - 1) : upper);
    put(b, link_of(b, i), onward, link_of(b, i + 1));
  }
  put(b, link_of(b, moves), 0, link_of(b, moves - 1));
  stripe_unlock(segment_stripes(b->segment));
  return upper;
}

TEST(a_path_is_found_and_taken_up_to_its_longest)
{
  for (unsigned onward = 0; onward < 2; onward++)
    for (unsigned moves = 1; moves <= 30; moves++) {
      struct bench b;
      begin(&b, 32, 5, true);
      uint32_t upper = write_chain(&b, moves, onward);
      struct cuckoo c = {.first = {.shards = &b.shard}};
      bool possible = moves <= MAX_PATH_MOVES;
      assert_int_equal(tamis__path_exists(&b.g, b.segment, 0, upper), possible);
      assert_int_equal(tamis__evict(&c, &b.g, b.segment, 0, upper, false),
                       possible ? TAMIS_OK : TAMIS_ABSENT);
      /* the room has moved to the key's bucket, or stays where it was */
      assert_int_equal(free_lanes(&b, 0), possible);
      assert_int_equal(free_lanes(&b, link_of(&b, moves)), !possible);
      assert_int_equal(tamis__segment_used(&b.g, b.segment), 2 * moves + 3);
      end(&b);
    }
}

/* A count of copies is carried along.  Without memory for it in the new lane, nothing is moved. */
TEST(copies_are_carried_along)
{
  for (int refused = 0; refused < 2; refused++)
    for (unsigned moves = 1; moves <= MAX_PATH_MOVES; moves++) {
      struct bench b;
      begin(&b, 32, 9, true); /* the two halves are different blocks of counts */
      uint32_t upper = write_chain(&b, moves, 1);
      struct cuckoo c = {.first = {.shards = &b.shard}};
      lock_init(&b.segment->duplicates_lock);
      uint64_t sum = 0;
      for (unsigned i = refused ? moves - 1 : 0; i < moves; i++, sum += i)
        assert_int_equal(tamis__segment_add_copies(&c, &b.g, b.segment,
                                                   (struct lane){link_of(&b, i), 1}, i + 1, false),
                         TAMIS_OK);
      c.max_bytes = refused ? c.bytes : 0;
      assert_int_equal(tamis__evict(&c, &b.g, b.segment, 0, upper, false),
                       refused ? TAMIS_EFULL : TAMIS_OK);
      c.max_bytes = 0;
      assert_int_equal(free_lanes(&b, 0), !refused);
      uint64_t found = 0;
      for (unsigned i = 0; i <= moves; i++)
        for (unsigned lane = 0; lane < 2; lane++) {
          uint64_t count = segment_copies(b.segment, (struct lane){link_of(&b, i), lane});
          bool in_use = lane_get(&b.g.shape, word_load(word_of(&b, link_of(&b, i))), lane);
          assert_true(count == 0 || in_use);
          assert_true(count == 0 || count == (refused ? i + 1 : i));
          found += count;
        }
      assert_int_equal(found, sum);
      for (unsigned i = 0; i <= moves; i++)
        for (unsigned lane = 0; lane < 2; lane++)
          while (tamis__segment_add_copies(&c, &b.g, b.segment, (struct lane){link_of(&b, i), lane},
                                           UINT64_MAX, true) == TAMIS_OK)
            found--;
      assert_int_equal(found, 0);
      assert_int_equal(c.bytes, 0);
      lock_destroy(&b.segment->duplicates_lock);
      end(&b);
    }
}

/* Where no path leads to room the search ends, also in a segment with more buckets than it may
 * visit. */
TEST(a_full_segment_has_no_path)
{
  /* Of four lanes a bucket, and of three, where the search looks two steps further. */
  for (unsigned i = 0; i < 4; i++)
    for (unsigned pair_bits = 0; pair_bits <= 11; pair_bits++) {
      struct bench b;
      begin(&b, i % 2 ? 21 : 16, pair_bits, i / 2);
      for (uint32_t at = 0; at < cuckoo_buckets(&b.g); at++)
        word_store(word_of(&b, at), random_next(&b.seed) | b.g.shape.low);
      uint32_t upper = (uint32_t) cuckoo_buckets(&b.g) - 1;
      assert_false(tamis__path_exists(&b.g, b.segment, 0, upper));
      struct cuckoo c = {.first = {.shards = &b.shard}};
      assert_int_equal(tamis__evict(&c, &b.g, b.segment, 0, upper, false), TAMIS_ABSENT);
      end(&b);
    }
}

/* ---- folding ---- */

/* A pair that is full of one entry. */
struct full_pair {
  struct bench b;
  struct cuckoo c;
  struct generation generation;
  struct counter_shard shard;
  tamis_allocator allocator;
  struct bucket_pair pair;
};

static void begin_full_pair(struct full_pair *x)
{
  memset(x, 0, sizeof *x);
  begin(&x->b, 16, 3, false);
  x->generation.geometry = x->b.g;
  x->generation.shards = &x->shard;
  filter_set_allocator(&x->c.head, &x->allocator);
  x->pair = (struct bucket_pair){.generation = &x->generation, .segment = x->b.segment, .lower = 1};
  uint64_t entry = bucket_entry(&x->b.g.shape, random_next(&x->b.seed));
  x->pair.upper = other_bucket(&x->b.g, x->b.segment, 1, entry);
  lock_init(&x->b.segment->duplicates_lock);
  word_store(word_of(&x->b, x->pair.lower), entry * x->b.g.shape.low);
  word_store(word_of(&x->b, x->pair.upper), entry * x->b.g.shape.low);
  atomic_store(&segment_stripes(x->b.segment)->used, 8);
  cuckoo_count_change(&x->generation, ENTRIES, 8);
}

static void end_full_pair(struct full_pair *x)
{
  for (uint32_t i = 0; i < cuckoo_buckets(&x->b.g) * x->b.g.shape.lanes; i++)
    while (tamis__segment_add_copies(&x->c, &x->b.g, x->b.segment, (struct lane){i / 4, i % 4},
                                     UINT64_MAX, true) == TAMIS_OK)
      ;
  assert_int_equal(x->c.bytes, 0);
  lock_destroy(&x->b.segment->duplicates_lock);
  end(&x->b);
}

static uint64_t counted(const struct full_pair *x, enum generation_counter what)
{
  return cuckoo_count(&x->generation, what);
}

TEST(equal_entries_of_a_pair_become_one)
{
  struct full_pair x;
  begin_full_pair(&x);
  assert_int_equal(tamis__fold(&x.c, &x.generation, x.b.segment), TAMIS_OK);
  assert_int_equal(counted(&x, ENTRIES), 1);
  assert_int_equal(counted(&x, DUPLICATES), 7);
  assert_int_equal(tamis__segment_used(&x.b.g, x.b.segment), 1);
  assert_int_equal(segment_copies(x.b.segment, (struct lane){x.pair.lower, 0}), 7);
  assert_true(segment_counts_copies(x.b.segment));
  end_full_pair(&x);
}
