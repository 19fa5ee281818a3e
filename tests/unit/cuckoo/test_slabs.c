/* SPDX-License-Identifier: MIT
 *
 * Slabs, which hold the segments of large filters.
 */
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo_unit.h"

enum { SLOTS = 64 }; /* of a slab */

static struct slabs *slabs_of(const struct fixture *x)
{
  return generation_slabs(cuckoo_generation(x->c, 0));
}

/* A small filter that takes slabs as if it were large; returns the size of a slab. */
static size_t begin_slabs(struct fixture *x, uint64_t more_bytes)
{
  begin(x, more_bytes);
  struct slabs *slabs = slabs_of(x);
  slabs->slots = SLOTS;
  slabs->large = 0;
  cuckoo_generation(x->c, 0)->segments += SLOTS; /* as if it had as many as fill a slab */
  return sizeof(struct slab) + SLOTS * slabs->slot_bytes;
}

static struct segment *try_segment(const struct fixture *x, int *result)
{
  return tamis__segment_create(x->c, cuckoo_generation(x->c, 0), 0, 0, result);
}

static struct segment *get_segment(const struct fixture *x)
{
  int result = TAMIS_EINVAL;
  struct segment *segment = try_segment(x, &result);
  assert_non_null(segment);
  assert_int_equal(result, TAMIS_OK);
  return segment;
}

static void put_segment(const struct fixture *x, struct segment *segment)
{
  tamis__segment_destroy(x->c, &cuckoo_generation(x->c, 0)->geometry, segment);
}

static void retire_segment(const struct fixture *x, struct segment *segment)
{
  tamis__segment_retire(x->c, &cuckoo_generation(x->c, 0)->geometry, segment);
}

static bool backlog_empties(const struct fixture *x)
{
  struct backlog *backlog = &cuckoo_growth(x->c)->backlog;
  AWAIT(!backlog->held, tamis__backlog_drain(backlog, false));
  return !backlog->held;
}

static void assert_clean(const struct fixture *x, const struct segment *segment)
{
  const struct cuckoo_geometry *g = &cuckoo_generation(x->c, 0)->geometry;
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    assert_int_equal(version_after(&segment_stripes(segment)[i].version), 0);
  assert_null(atomic_load(&segment->duplicates));
  assert_int_equal(tamis__segment_used(g, segment), 0);
  for (uint64_t i = 0; i < cuckoo_buckets(g); i++)
    assert_int_equal(word_load(&segment_words(g, segment)[i]), 0);
}

/* 64 segments, which do not overlap and are clean, share a slab; it is released with the last of
 * them. */
TEST(segments_share_a_slab)
{
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 20), before = x.bank.bytes;
  struct segment *segments[SLOTS + 1];
  for (unsigned i = 0; i <= SLOTS; i++) {
    segments[i] = get_segment(&x);
    assert_non_null(segments[i]->slab);
    assert_int_equal((uintptr_t) segments[i] % 64, 0);
    assert_clean(&x, segments[i]);
    memset((char *) segments[i] + sizeof(struct segment), 0, 64);
    assert_int_equal(x.bank.bytes, before + (i < SLOTS ? 1 : 2) * slab);
    for (unsigned j = 0; j < i; j++)
      assert_true(llabs((char *) segments[i] - (char *) segments[j]) >=
                  (ptrdiff_t) slabs_of(&x)->slot_bytes);
  }
  put_segment(&x, segments[SLOTS]);
  assert_int_equal(x.bank.bytes, before + slab);
  for (unsigned i = 0; i < SLOTS; i++) {
    assert_int_equal(x.bank.bytes, before + slab);
    put_segment(&x, segments[i]);
  }
  assert_int_equal(x.bank.bytes, before);
  end(&x);
}

/* A slot is like other memory: it is not used again under a reader.  After that it is used
 * before a new slab is opened. */
TEST(a_slot_is_used_again_after_its_grace_period)
{
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 20), before = x.bank.bytes;
  const struct cuckoo_geometry *g = &cuckoo_generation(x.c, 0)->geometry;
  struct segment *segments[SLOTS];
  for (unsigned i = 0; i < SLOTS; i++)
    segments[i] = get_segment(&x);
  memset((void *) segment_words(g, segments[7]), 0xa5, 8 * cuckoo_buckets(g));
  stripe_lock(segment_stripes(segments[7]));
  stripe_use(segment_stripes(segments[7]), 3);
  stripe_unlock(segment_stripes(segments[7]));
  assert_int_equal(tamis__segment_add_copies(x.c, g, segments[7], (struct lane){1, 0}, 1, false),
                   TAMIS_OK);
  stripe_lock(segment_stripes(segments[7]));
  version_leave(segment_stripes(segments[7]));
  stripe_unlock(segment_stripes(segments[7]));
  urcu_bp_read_lock(); /* of the program's own: the library may call the allocator */
  retire_segment(&x, segments[7]);
  usleep(10000);
  struct segment *other = get_segment(&x);
  assert_true(other != segments[7]);
  assert_int_equal(word_load(segment_words(g, segments[7])), UINT64_C(0xa5a5a5a5a5a5a5a5));
  assert_int_equal(x.bank.bytes, before + 2 * slab);
  put_segment(&x, other);
  urcu_bp_read_unlock();
  assert_true(backlog_empties(&x));
  assert_int_equal(x.bank.bytes, before + slab);
  assert_ptr_equal(get_segment(&x), segments[7]);
  assert_int_equal(x.bank.bytes, before + slab);
  assert_clean(&x, segments[7]);
  for (unsigned i = 0; i < SLOTS; i++)
    put_segment(&x, segments[i]);
  assert_int_equal(x.bank.bytes, before);
  end(&x);
}

/* Segments come and go as when all of them split, in random order, and then join. */
TEST(slabs_keep_close_to_what_is_in_use)
{
  enum { SEGMENTS = 40 * SLOTS };
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 30), before = x.bank.bytes;
  static struct segment *segments[SEGMENTS];
  uint64_t n = SEGMENTS / 2, random = 1;
  for (uint64_t i = 0; i < n; i++)
    segments[i] = get_segment(&x);
  for (uint64_t whole = n; whole > 0; whole--) { /* segments[0 .. whole - 1] have not split */
    uint64_t parent = random_next(&random) % whole;
    struct segment *left = segments[parent];
    segments[parent] = segments[whole - 1];
    segments[whole - 1] = get_segment(&x);
    segments[n++] = get_segment(&x);
    put_segment(&x, left);
    assert_in_range((x.bank.bytes - before) / slab, n / SLOTS, n / SLOTS + 2);
  }
  size_t most = x.bank.bytes;
  uint64_t joined = 0;
  for (uint64_t small = n; small > 0; small -= 2) { /* segments[0 .. small - 1] have not joined */
    struct segment *parent = get_segment(&x);
    for (unsigned i = 0; i < 2; i++) {
      uint64_t child = random_next(&random) % (small - i);
      put_segment(&x, segments[child]);
      segments[child] = segments[small - i - 1];
    }
    segments[n - ++joined] = parent;
    assert_true(x.bank.bytes <= most + slab);
  }
  assert_int_equal(joined, SEGMENTS / 2);
  assert_in_range((x.bank.bytes - before) / slab, joined / SLOTS, joined / SLOTS + 4);
  for (uint64_t i = 1; i <= joined; i++)
    put_segment(&x, segments[n - i]);
  assert_int_equal(x.bank.bytes, before);
  end(&x);
}

/* Where there is no memory for a slab, within the limit or at all, there may be enough for a
 * segment. */
TEST(without_a_slab_a_segment_has_its_own_block)
{
  for (unsigned limited = 0; limited < 2; limited++) {
    struct fixture x;
    size_t slab = begin_slabs(&x, 1 << 30), before = x.bank.bytes, slot = slabs_of(&x)->slot_bytes;
    if (limited)
      x.c->max_bytes = before + slot;
    else
      x.bank.refused_from = slab;
    struct segment *alone = get_segment(&x);
    assert_null(alone->slab);
    assert_int_equal(x.bank.bytes, before + slot);
    x.bank.refused_from = 1;
    int result = TAMIS_OK;
    assert_null(try_segment(&x, &result));
    assert_int_equal(result, limited ? TAMIS_EFULL : TAMIS_ENOMEM);
    assert_int_equal(x.c->bytes, x.bank.bytes);
    assert_int_equal(x.bank.bytes, before + slot);
    retire_segment(&x, alone);
    assert_true(backlog_empties(&x));
    assert_int_equal(x.bank.bytes, before);
    x.bank.refused_from = 0;
    end(&x);
  }
}

/* At the limit a free slot is still taken, and so is one that has waited in the backlog until
 * then. */
TEST(at_the_limit_slots_are_used_again)
{
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 20), before = x.bank.bytes;
  struct segment *segments[SLOTS];
  x.c->max_bytes = before + slab;
  for (unsigned i = 0; i < SLOTS; i++)
    segments[i] = get_segment(&x);
  int result;
  assert_null(try_segment(&x, &result));
  assert_int_equal(result, TAMIS_EFULL);
  put_segment(&x, segments[5]);
  assert_ptr_equal(get_segment(&x), segments[5]);
  retire_segment(&x, segments[6]);
  struct fixture later; /* what is retired later waits longer */
  begin_slabs(&later, 1 << 20);
  retire_segment(&later, get_segment(&later));
  assert_true(backlog_empties(&later));
  end(&later);
  assert_ptr_equal(get_segment(&x), segments[6]);
  assert_int_equal(x.bank.bytes, before + slab);
  for (unsigned i = 0; i < SLOTS; i++)
    put_segment(&x, segments[i]);
  end(&x);
}

static void release_a_slot(void *fixture)
{
  struct fixture *x = fixture;
  assert_null(slabs_of(x)->open);
  put_segment(x, x->segment);
}

/* A new slab is not opened if another slab has got a free slot while memory was allocated. */
TEST(a_new_slab_is_released_if_a_slot_is_free_by_then)
{
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 20), before = x.bank.bytes;
  struct segment *segments[SLOTS];
  for (unsigned i = 0; i < SLOTS; i++)
    segments[i] = get_segment(&x);
  x.segment = segments[9];
  x.bank.meanwhile = release_a_slot;
  x.bank.context = &x;
  assert_ptr_equal(get_segment(&x), segments[9]);
  assert_int_equal(x.bank.bytes, before + slab);
  for (unsigned i = 0; i < SLOTS; i++)
    put_segment(&x, segments[i]);
  assert_int_equal(x.bank.bytes, before);
  end(&x);
}

static struct other {
  struct fixture *x;
  pthread_t thread;
  struct segment *segment;
  _Atomic bool done;
} other;

static void *get_another_segment(void *unused)
{
  int result;
  other.segment = try_segment(other.x, &result);
  atomic_store(&other.done, true);
  return unused;
}

static void start_another(void *unused)
{
  (void) unused;
  assert_int_equal(pthread_create(&other.thread, NULL, get_another_segment, NULL), 0);
  for (unsigned i = 0; i < 50 && !atomic_load(&other.done); i++)
    usleep(1000); /* it must wait for the slab and not return */
}

/* When a thread takes the last bytes for a slab, other threads wait for its slots. */
TEST(no_thread_is_refused_while_a_slab_is_allocated)
{
  struct fixture x;
  size_t slab = begin_slabs(&x, 1 << 20), before = x.bank.bytes;
  x.c->max_bytes = before + slab;
  slabs_of(&x)->planned = before + slab;
  slabs_of(&x)->large = SIZE_MAX;
  other = (struct other){.x = &x};
  x.bank.meanwhile = start_another;
  struct segment *segment = get_segment(&x);
  assert_int_equal(pthread_join(other.thread, NULL), 0);
  assert_non_null(other.segment);
  assert_ptr_equal(other.segment->slab, segment->slab);
  put_segment(&x, segment);
  put_segment(&x, other.segment);
  assert_int_equal(x.bank.bytes, before);
  end(&x);
}

/* Only filters that are large, or are planned to be, take slabs; and only for generations that fill
 * one. */
TEST(small_filters_take_no_slabs)
{
  for (unsigned large = 0; large < 2; large++) {
    struct fixture x;
    (void) begin_slabs(&x, 1 << 20);
    slabs_of(&x)->large = x.c->bytes + !large;
    struct segment *segment = get_segment(&x);
    assert_int_equal(segment->slab != NULL, large);
    put_segment(&x, segment);
    cuckoo_generation(x.c, 0)->segments = SLOTS - 1; /* of a generation, or what is left of it */
    segment = get_segment(&x);
    assert_null(segment->slab);
    put_segment(&x, segment);
    end(&x);
  }
}

/* With all segments of its first generation a filter takes the bytes that were promised, and
 * most of the segments are in slabs; also if the limit is no more than that. */
TEST(a_large_filter_takes_what_was_promised)
{
  struct bank bank = {0};
  tamis_options options = options_for(0, 0.3);
  options.allocator = allocator_of(&bank);
  for (options.capacity = 4000000; options.capacity <= 30000000; options.capacity += 1999999) {
    const uint64_t promised = planned_bytes(&options);
    options.max_bytes = options.max_bytes ? 0 : promised; /* in turn */
    tamis_filter *f = make_with_options(&options);
    struct cuckoo *c = cuckoo_of(f);
    uint64_t roots = cuckoo_roots(&cuckoo_generation(c, 0)->geometry), in_slabs = 0;
    for (uint64_t key = 0; stats_of(f).segments < roots; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    assert_int_equal(stats_of(f).growths, 0);
    for (uint64_t i = 0; i < roots; i++)
      in_slabs +=
          directory_segment(directory_load(&cuckoo_generation(c, 0)->directory[i]))->slab != NULL;
    assert_int_equal(cuckoo_segment_bytes(&cuckoo_generation(c, 0)->geometry),
                     generation_slabs(cuckoo_generation(c, 0))->slot_bytes);
    assert_int_equal(in_slabs, roots >= 256 ? roots / SLOTS * SLOTS : 0);
    assert_int_equal(bank.bytes, promised);
    assert_int_equal(c->bytes, bank.bytes);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
  }
}
