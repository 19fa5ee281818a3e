/* SPDX-License-Identifier: MIT
 *
 * The limit of bytes.
 */
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo_unit.h"
#include "saved_unit.h"

/* Memory of the backlog that may be released is room, although it still counts. */
TEST(at_the_limit_the_backlog_is_drained)
{
  struct fixture x;
  const struct cuckoo_geometry *g;
  begin(&x, 1 << 20);
  g = &cuckoo_generation(x.c, 0)->geometry;
  int result;
  struct segment *segment = tamis__segment_create(x.c, cuckoo_generation(x.c, 0), 0, 0, &result);
  assert_non_null(segment);
  tamis__segment_retire(x.c, g, segment);
  x.c->max_bytes = x.c->bytes; /* no more than is retired */
  void *block = NULL;
  AWAIT((block = tamis__cuckoo_allocate(x.c, cuckoo_segment_bytes(g), &result)),
        assert_int_equal(result, TAMIS_EFULL));
  assert_non_null(block);
  tamis__cuckoo_release(x.c, block, cuckoo_segment_bytes(g));
  end(&x);
}

/* A block that is larger than the limit by itself is refused, even one so large that the sum
 * would overflow. */
TEST(a_block_beyond_the_limit_is_refused)
{
  struct fixture x;
  begin(&x, 1 << 20);
  const size_t sizes[] = {x.c->max_bytes + 1, SIZE_MAX - 64, SIZE_MAX};
  for (unsigned i = 0; i < 3; i++) {
    int result = TAMIS_OK;
    assert_null(tamis__cuckoo_allocate(x.c, sizes[i], &result));
    assert_int_equal(result, TAMIS_EFULL);
    assert_int_equal(x.c->bytes, x.bank.bytes);
  }
  end(&x);
}

enum { BLOCK = 20000 };

static void take_a_second_one(void *context)
{
  int result = TAMIS_OK;
  assert_null(tamis__cuckoo_allocate(context, BLOCK, &result));
  assert_int_equal(result, TAMIS_EFULL);
}

/* A thread that asks for memory while another one does finds that one's bytes counted already. */
TEST(two_threads_at_the_limit_do_not_exceed_it)
{
  struct fixture x;
  begin(&x, 1 << 20);
  x.c->max_bytes = x.c->bytes + 2 * BLOCK - 1;
  x.bank.meanwhile = take_a_second_one;
  x.bank.context = x.c;
  int result;
  void *block = tamis__cuckoo_allocate(x.c, BLOCK, &result);
  assert_non_null(block);
  assert_null(x.bank.meanwhile);
  assert_int_equal(x.c->bytes, x.bank.bytes);
  tamis__cuckoo_release(x.c, block, BLOCK);
  end(&x);
}

TEST(max_bytes_is_never_exceeded)
{
  const double rates[] = {0.1, 0.001};
  for (unsigned r = 0; r < 2; r++)
    for (uint64_t seed = 1; seed <= (SCALE > 1 ? 3 : 6); seed++) {
      struct bank bank = {0};
      tamis_options options = options_for(seed % 3 ? 1000 : 20, rates[r]);
      options.allocator = allocator_of(&bank);
      options.seed = seed;
      options.max_bytes = planned_bytes(&options) + 20000 * seed;
      tamis_filter *f = make_with_options(&options);
      uint64_t in = 0;
      int result;
      while ((result = tamis_add_hash(f, in)) == TAMIS_OK) {
        assert_true(stats_of(f).bytes <= options.max_bytes);
        in++;
      }
      assert_int_equal(result, TAMIS_EFULL);
      assert_true(in > options.capacity / 2);
      assert_int_equal(stats_of(f).count, in);
      for (uint64_t i = 0; i < 1000; i++) { /* some keys find room, others do not */
        result = i % 2 ? tamis_add_hash(f, in) : tamis_add_unique_hash(f, in);
        assert_true(result == TAMIS_EFULL || result == TAMIS_OK || result == TAMIS_PRESENT);
        bool there = tamis_contains_hash(f, in);
        assert_true(there || result == TAMIS_EFULL);
        if (result == TAMIS_OK)
          in++;
      }
      uint64_t count = stats_of(f).count;
      assert_valid(f);
      /* room after removes */
      uint64_t some = count / 3, again = 0, waits = 10000;
      for (uint64_t i = 0; i < some; i++)
        assert_true(tamis_remove_hash(f, i) == TAMIS_OK || i < in);
      count = stats_of(f).count;
      for (uint64_t i = 0; i < some; i++) {
        while ((result = tamis_add_hash(f, i)) == TAMIS_EFULL && again <= some / 2 && waits > 0) {
          waits--;
          usleep(1000); /* memory that waits for readers counts, too */
        }
        assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
        again += result == TAMIS_OK;
        assert_true(tamis_contains_hash(f, i) || result == TAMIS_EFULL);
      }
      assert_int_equal(stats_of(f).count, count + again);
      assert_true(again > some / 2);
      assert_valid(f);
      assert_true(bank.most_bytes <= options.max_bytes);
      assert_bytes(f, &bank);
      tamis_destroy(f);
      assert_int_equal(bank.bytes, 0);
    }
}
