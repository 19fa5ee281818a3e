/* SPDX-License-Identifier: MIT */
#include "cuckoo/segment.h"

#include "cuckoo/memory.h"

#include "base/hook.h"
#include "table/image.h"

enum { SCARCE_SEGMENTS = 16 /* if max_bytes has room for fewer, retired memory is needed soon */ };

/* Releases the counts without a grace period.  No other call can use them: calls use counts only
 * while they hold a stripe of a segment in the directory, or the segment's growth stripe. */
static void release_duplicates(struct cuckoo *c, struct segment *segment)
{
  struct budget budget = tamis__cuckoo_budget(c);
  tamis__plane_clear(&segment->duplicates, &budget);
}

uint64_t tamis__segment_used(const struct cuckoo_geometry *g, const struct segment *segment)
{
  const word *words = segment_words(g, segment);
  uint64_t used = 0, sums = 0;
  for (uint32_t i = 0; g->shape.ages && i <= g->stripe_mask; i++)
    used += stripe_used(&segment_stripes(segment)[i]);
  for (uint64_t i = 0; !g->shape.ages && i < cuckoo_buckets(g); i++) {
    sums += lanes_as_ones(&g->shape, word_load(&words[i]));
    if ((i + 1) % LANES_ROWS == 0 || i + 1 == cuckoo_buckets(g)) {
      used += lanes_sum(&g->shape, sums);
      sums = 0;
    }
  }
  return used;
}

/* Checks `rows` rows of words.  Column j has the words of stripe j.  Each lane of sums[j] counts
 * the words of column j in which this lane is in use.  Returns 0 if all entries are valid.
 * Compilers use vectors, because the loop's only condition, `ages`, is a constant. */
FORCE_INLINE uint64_t check_rows(const struct lane_shape *s, const uint64_t *words, uint32_t rows,
                                 uint32_t columns, uint64_t markers, bool ages, uint64_t *sums)
{
  const struct lane_shape shape = *s;
  const uint64_t lanes = shape.low * lane_bits(shape.width);
  uint64_t wrong = 0;
  for (uint32_t row = 0; row < rows; row++, words += columns)
    for (uint32_t j = 0; j < columns; j++) {
      uint64_t in_use = lanes_as_ones(&shape, words[j]);
      sums[j] += in_use;
      wrong |= words[j] & ~lanes;
      if (ages)
        wrong |= lanes_as_ones(&shape, words[j] & markers) ^ in_use;
    }
  return wrong;
}

bool tamis__check_words(const struct cuckoo_geometry *g, const uint64_t *words, unsigned most_age,
                        uint32_t used[CUCKOO_FIXED_STRIPES])
{
  const struct lane_shape *s = &g->shape;
  const uint32_t stripes = g->stripe_mask + 1, buckets = (uint32_t) cuckoo_buckets(g);
  const uint32_t columns = stripes < buckets ? stripes : buckets; /* both are powers of two */
  /* The bits at which the marker of an entry may be (bucket.h).  An entry has one of them set. */
  const uint64_t markers = s->low * ((UINT64_C(2) << most_age) - 1);
  uint64_t wrong = 0;
  memset(used, 0, stripes * sizeof *used);
  for (uint32_t left = buckets / columns, rows; left; left -= rows, words += rows * columns) {
    uint64_t sums[CUCKOO_FIXED_STRIPES] = {0};
    rows = left < LANES_ROWS ? left : LANES_ROWS;
    wrong |= s->ages ? check_rows(s, words, rows, columns, markers, true, sums)
                     : check_rows(s, words, rows, columns, 0, false, sums);
    for (uint32_t j = 0; j < columns; j++)
      used[j] += (uint32_t) lanes_sum(s, sums[j]);
  }
  return !wrong;
}

void tamis__segment_init(const struct cuckoo_geometry *g, struct segment *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++) {
    lock_init(&segment_stripes(segment)[i].lock);
    version_begin(&segment_stripes(segment)[i].version);
  }
  lock_init(&segment->duplicates_lock);
}

static void destroy_stripes(uint32_t stripe_mask, struct segment *segment)
{
  for (uint32_t i = 0; i < stripe_mask + 1; i++)
    lock_destroy(&segment_stripes(segment)[i].lock);
  lock_destroy(&segment->duplicates_lock);
}

void tamis__segment_close(struct cuckoo *c, const struct cuckoo_geometry *g,
                          struct segment *segment)
{
  release_duplicates(c, segment);
  destroy_stripes(g->stripe_mask, segment);
}

struct segment *tamis__segment_create(struct cuckoo *c, struct generation *generation,
                                      uint64_t index, unsigned depth, int *result)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct segment *segment = tamis__segment_memory_allocate(c, generation, result);
  if (!segment)
    return NULL;
  segment->prefix = cuckoo_prefix(g, cuckoo_first_index(g, index, depth));
  segment->depth = (uint8_t) depth;
  segment->class = depth > g->uneven_at && cuckoo_class_of_index(g, index);
  tamis__segment_init(g, segment);
  return segment;
}

void tamis__segment_destroy(struct cuckoo *c, const struct cuckoo_geometry *g,
                            struct segment *segment)
{
  if (!segment)
    return;
  tamis__segment_close(c, g, segment);
  tamis__segment_memory_release(c, segment, cuckoo_segment_bytes(g));
}

void tamis__segment_retire(struct cuckoo *c, const struct cuckoo_geometry *g,
                           struct segment *segment)
{
  release_duplicates(c, segment);
  bool scarce = !cuckoo_fits(c, SCARCE_SEGMENTS * cuckoo_segment_bytes(g));
  tamis__backlog_retire(&cuckoo_growth(c)->backlog, &segment->retired, cuckoo_segment_bytes(g),
                        scarce);
  fullness_count(&c->rooms);
}

/* ---- waiting for stripes ---- */

void tamis__wait_outside(struct lock *lock, bool inside)
{
  enum reader_pause pause = tamis__reader_pause(inside);
  lock_take(lock);
  HOOK(cuckoo_waited);
  tamis__reader_resume(pause);
}

/* The increment is relaxed: the call is still in a read section, for which grace periods wait.
 * ORDER segment.waited (release)
 *   pairs with     segment.in_use
 *   makes visible  that the call no longer uses the segment, which may have left
 *   if weakened    tamis__retired_in_use() could return false, and the backlog release the segment,
 *                  while the call still unlocks a stripe
 *   checked by     mutants/waiting_ends_relaxed */
bool tamis__segment_wait(bool inside, struct segment *segment, struct stripe *stripe)
{
  atomic_fetch_add_explicit(&segment->waiting, 1, memory_order_relaxed);
  tamis__wait_outside(&stripe->lock, inside);
  bool left = stripe_has_left(stripe);
  if (left)
    stripe_unlock(stripe);
  atomic_fetch_sub_explicit(&segment->waiting, 1, memory_order_release);
  return !left;
}

bool tamis__segment_wait_second(bool inside, struct stripe *first, struct stripe *second)
{
  bool left = stripe_has_left(first);
  if (left)
    stripe_unlock(first);
  else
    tamis__wait_outside(&second->lock, inside);
  return !left;
}

bool tamis__segment_wait_both(bool inside, struct segment *segment, struct stripe *first,
                              struct stripe *second)
{
  return tamis__segment_wait(inside, segment, first) &&
         (first == second || stripe_trylock(second) ||
          tamis__segment_wait_second(inside, first, second));
}

/* ORDER segment.in_use (acquire)
 *   pairs with     segment.waited, whose comment says why
 *   checked by     mutants/waiting_calls_read_relaxed,
 *                  mutants/waiting_calls_not_looked_at (shows that the number is read at all) */
bool tamis__retired_in_use(const struct retired *block)
{
  return block->size % 2 != RETIRED_ARRAY &&
         atomic_load_explicit(&((const struct segment *) block)->waiting, memory_order_acquire) !=
             0;
}

static void release_segment(struct cuckoo *c, struct segment *segment, uint64_t size)
{
  /* The memory of slots and of the home stays allocated, so TSan must forget their stripes here. */
  if (segment == cuckoo_home(c))
    destroy_stripes(c->first.geometry.stripe_mask, segment);
  else if (segment->slab)
    destroy_stripes(segment->slab->of->stripe_mask, segment);
  tamis__segment_memory_release(c, segment, size);
}

void tamis__retired_release(void *owner, struct retired *block, uint64_t size)
{
  struct cuckoo *c = owner;
  if (size % 2 == RETIRED_ARRAY)
    tamis__cuckoo_release(c, block, size - RETIRED_ARRAY);
  else
    release_segment(c, (struct segment *) block, size);
  fullness_count(&c->rooms);
}

/* ---- duplicate counts ---- */

/* Sets a count.  Returns false after an error.  (Only made-up files have counts near the limit.) */
static bool set(const struct cuckoo_geometry *g, struct segment *segment, struct lane lane,
                uint64_t count, struct budget *budget)
{
  if (count >= saved_most_copies) {
    budget->result = TAMIS_EFULL;
    return false;
  }
  const struct plane_size size = {cuckoo_buckets(g), g->shape.lanes};
  return tamis__plane_set(&segment->duplicates, size, budget, lane.bucket, lane.lane, count);
}

/* Adds `n`, which may be negative (modulo 2^64), to a count.  A lower count needs no memory. */
static int add_copies(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                      struct lane lane, uint64_t n, bool inside)
{
  struct budget budget = tamis__cuckoo_budget(c);
  uint64_t count = segment_copies(segment, lane);
  const bool lower = n >> 63;
  if (lower && count < -n)
    return TAMIS_ABSENT;
  if (lower && c->max_bytes)
    budget.rooms = &c->rooms;
  enum reader_pause pause = tamis__reader_pause(inside);
  bool added = set(g, segment, lane, count + n, &budget);
  tamis__reader_resume(pause);
  return added ? TAMIS_OK : budget.result;
}

int tamis__segment_add_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                              struct segment *segment, struct lane lane, uint64_t n, bool inside)
{
  inside &= c->growable;
  segment_lock_counts(segment, inside);
  int result = tamis__plane_step(&segment->duplicates, lane.bucket, lane.lane, n)
                   ? TAMIS_OK
                   : add_copies(c, g, segment, lane, n, inside);
  lock_release(&segment->duplicates_lock);
  return result;
}

int tamis__segment_move_copies(struct cuckoo *c, const struct cuckoo_geometry *g,
                               struct segment *segment, struct lane from, struct lane to,
                               uint64_t more, bool inside)
{
  struct budget budget = tamis__cuckoo_budget(c);
  enum reader_pause pause = tamis__reader_pause(inside && c->growable);
  lock_take(&segment->duplicates_lock);
  uint64_t sum = segment_copies(segment, from) + segment_copies(segment, to) + more;
  bool moved = set(g, segment, to, sum, &budget);
  if (moved)
    set(g, segment, from, 0, &budget); /* needs no memory */
  lock_release(&segment->duplicates_lock);
  tamis__reader_resume(pause);
  return moved ? TAMIS_OK : budget.result;
}

uint64_t tamis__segment_counts_bytes(struct segment *segment)
{
  lock_take(&segment->duplicates_lock);
  const struct table_counts *d = plane_counts(&segment->duplicates);
  uint64_t bytes = d ? tamis__counts_copy_bytes(d) : 0;
  lock_release(&segment->duplicates_lock);
  return bytes;
}
