/* SPDX-License-Identifier: MIT
 *
 * Searches and evictions in segments that are written by hand: one way to room, as long as a test wants.
 */
#include "unit.h"

#include "cuckoo/directory.h"
#include "cuckoo/evict.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "harness.h"

#include <string.h>

enum { MAX_PATH_MOVES = 16 }; /* in moves: cuckoo_evict.c */

struct bench {
  struct cuckoo_geometry g;
  struct segment *segment;
  uint64_t seed;
};

static void begin(struct bench *b, unsigned width, unsigned pair_bits, bool ages)
{
  struct cuckoo_geometry *g = &b->g;
  *b = (struct bench){.g = {.shape = bucket_shape(width, ages),
                            .first_roots = 1,
                            .pair_bits = pair_bits,
                            .words_offset = sizeof(struct segment) + 64},
                      .seed = 1};
  g->segment_bytes = (g->words_offset + cuckoo_buckets(g) * sizeof(uint64_t) + 63) / 64 * 64;
  b->segment = aligned_alloc(64, g->segment_bytes);
  assert_non_null(b->segment);
  memset(b->segment, 0, g->segment_bytes);
  stripe_init(segment_stripes(b->segment));
}

static void end(struct bench *b)
{
  stripe_destroy(segment_stripes(b->segment));
  free(b->segment);
}

static word *word_of(const struct bench *b, uint32_t bucket)
{
  return &segment_words(&b->g, b->segment)[bucket];
}

static unsigned free_lanes(const struct bench *b, uint32_t bucket)
{
  return bucket_count(bucket_free(&b->g.shape, word_load(word_of(b, bucket))));
}

/* Puts an entry into a lane of `at` whose other bucket is `other`. */
static void put(struct bench *b, uint32_t at, unsigned lane, uint32_t other)
{
  uint64_t entry;
  do
    entry = bucket_entry(&b->g.shape, random_next(&b->seed));
  while (other_bucket(&b->g, b->segment, at, entry) != other);
  word_store(word_of(b, at), bucket_replace(&b->g.shape, word_load(word_of(b, at)), lane, entry));
  stripe_use(segment_stripes(b->segment), 1);
}

/* The i-th bucket of a chain: lower and upper ones in turn. */
static uint32_t link_of(const struct bench *b, unsigned i)
{
  return i / 2 + (i % 2 ? (uint32_t) cuckoo_buckets(&b->g) / 2 : 0);
}

/* Two lanes a bucket: one entry leads back, that in lane `onward` leads on; there is room after `moves`
 * moves.  The key's upper bucket leads nowhere but to its lower one. */
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

static void a_way_is_found_up_to_its_longest_and_gone(void **state)
{
  (void) state;
  for (unsigned onward = 0; onward < 2; onward++)
    for (unsigned moves = 1; moves <= 30; moves++) {
      struct bench b;
      begin(&b, 32, 5, true);
      uint32_t upper = write_chain(&b, moves, onward);
      bool possible = moves <= MAX_PATH_MOVES;
      assert_int_equal(tamis__path_exists(&b.g, b.segment, 0, upper), possible);
      assert_int_equal(tamis__evict(&b.g, b.segment, 0, upper), possible);
      /* the room has come to the key's bucket, or stays where it was */
      assert_int_equal(free_lanes(&b, 0), possible);
      assert_int_equal(free_lanes(&b, link_of(&b, moves)), !possible);
      assert_int_equal(segment_used(&b.g, b.segment), 2 * moves + 3);
      end(&b);
    }
}

/* Room at the end of a way that is too long is no room: who folds copies and finds none must not say
 * that there is some, or the add that wants it would try for ever. */
static void a_way_that_is_too_long_is_no_room(void **state)
{
  (void) state;
  for (unsigned moves = 1; moves <= 30; moves++) {
    struct bench b;
    begin(&b, 32, 5, true);
    uint32_t upper = write_chain(&b, moves, 1);
    struct generation generation = {.geometry = b.g};
    struct bucket_pair pair = {.generation = &generation, .segment = b.segment, .upper = upper};
    struct cuckoo c = {.max_bytes = 0};
    assert_int_equal(tamis__fold_duplicates(&c, &pair),
                     moves <= MAX_PATH_MOVES ? TAMIS_OK : TAMIS_EFULL);
    end(&b);
  }
}

/* Where nothing leads to room the search ends, also in a segment that is larger than its limit. */
static void a_full_segment_has_no_way(void **state)
{
  (void) state;
  for (int ages = 0; ages < 2; ages++)
    for (unsigned pair_bits = 0; pair_bits <= 11; pair_bits++) {
      struct bench b;
      begin(&b, 16, pair_bits, ages);
      for (uint32_t i = 0; i < cuckoo_buckets(&b.g); i++)
        word_store(word_of(&b, i), random_next(&b.seed) | b.g.shape.low);
      uint32_t upper = (uint32_t) cuckoo_buckets(&b.g) - 1;
      assert_false(tamis__path_exists(&b.g, b.segment, 0, upper));
      assert_false(tamis__evict(&b.g, b.segment, 0, upper));
      end(&b);
    }
}

/* ---- copies ---- */

/* A pair that is full of one entry, in a filter that gets its memory from `allocator`. */
struct full_pair {
  struct bench b;
  struct cuckoo c;
  struct generation generation;
  struct counter_shard shard;
  struct bucket_pair pair;
};

static void begin_full_pair(struct full_pair *x, tamis_allocator allocator)
{
  memset(x, 0, sizeof *x);
  begin(&x->b, 16, 3, false);
  x->generation.geometry = x->b.g;
  x->generation.counters = (struct counters){&x->shard, 0};
  x->c.head.allocator = allocator;
  assert_true(tamis__backlog_init(&x->c.backlog, tamis__segment_reclaim, &x->c, &x->c.bytes));
  x->pair = (struct bucket_pair){.generation = &x->generation, .segment = x->b.segment, .lower = 1};
  uint64_t entry = bucket_entry(&x->b.g.shape, random_next(&x->b.seed));
  x->pair.upper = other_bucket(&x->b.g, x->b.segment, 1, entry);
  stripe_init(&x->b.segment->duplicates_lock);
  word_store(word_of(&x->b, x->pair.lower), entry * x->b.g.shape.low);
  word_store(word_of(&x->b, x->pair.upper), entry * x->b.g.shape.low);
  atomic_store(&segment_stripes(x->b.segment)->used, 8);
  counter_add(&x->generation.counters, ENTRIES, 8);
}

static void end_full_pair(struct full_pair *x)
{
  struct duplicate_table *copies = atomic_load(&x->b.segment->duplicates);
  if (copies)
    tamis__cuckoo_release(&x->c, copies,
                          tamis__duplicates_bytes(tamis__duplicates_capacity(copies)));
  assert_int_equal(x->c.bytes, 0);
  tamis__backlog_destroy(&x->c.backlog);
  stripe_destroy(&x->b.segment->duplicates_lock);
  end(&x->b);
}

static uint64_t counted(const struct full_pair *x, enum generation_counter what)
{
  return tamis__counter_sum(&x->generation.counters, what);
}

static void copies_are_folded_where_there_is_no_room(void **state)
{
  (void) state;
  struct full_pair x;
  begin_full_pair(&x, (tamis_allocator){0});
  assert_int_equal(tamis__fold_duplicates(&x.c, &x.pair), TAMIS_OK);
  assert_int_equal(counted(&x, ENTRIES), 1);
  assert_int_equal(counted(&x, DUPLICATES), 7);
  assert_int_equal(segment_used(&x.b.g, x.b.segment), 1);
  end_full_pair(&x);
}

/* Somebody else has made room first. */
static void nothing_is_folded_where_there_is_room(void **state)
{
  (void) state;
  struct full_pair x;
  begin_full_pair(&x, (tamis_allocator){0});
  word_store(word_of(&x.b, x.pair.upper), 0);
  assert_int_equal(tamis__fold_duplicates(&x.c, &x.pair), TAMIS_OK);
  assert_int_equal(counted(&x, DUPLICATES), 0);
  assert_int_equal(free_lanes(&x.b, x.pair.lower), 0);
  end_full_pair(&x);
}

/* While it is asked for memory somebody else removes an entry, or not; it has none. */
static void *remove_meanwhile(void *context, size_t alignment, size_t size)
{
  (void) alignment, (void) size;
  if (context)
    word_store((word *) context, 0);
  return NULL;
}

static void release_nothing(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) block, (void) alignment, (void) size;
  fail();
}

static void without_memory_room_that_others_make_is_enough(void **state)
{
  (void) state;
  for (int others = 0; others < 2; others++) {
    struct full_pair x;
    begin_full_pair(&x, (tamis_allocator){remove_meanwhile, release_nothing, NULL});
    if (others)
      x.c.head.allocator.context = word_of(&x.b, x.pair.upper);
    assert_int_equal(tamis__fold_duplicates(&x.c, &x.pair), others ? TAMIS_OK : TAMIS_ENOMEM);
    assert_int_equal(counted(&x, ENTRIES), 8);
    assert_int_equal(counted(&x, DUPLICATES), 0);
    assert_int_equal(free_lanes(&x.b, x.pair.lower), 0);
    end_full_pair(&x);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_way_is_found_up_to_its_longest_and_gone),
      cmocka_unit_test(a_way_that_is_too_long_is_no_room),
      cmocka_unit_test(a_full_segment_has_no_way),
      cmocka_unit_test(copies_are_folded_where_there_is_no_room),
      cmocka_unit_test(nothing_is_folded_where_there_is_room),
      cmocka_unit_test(without_memory_room_that_others_make_is_enough),
  };
  return cmocka_run_group_tests_name("cuckoo_evict", tests, NULL, NULL);
}
