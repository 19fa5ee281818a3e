/* SPDX-License-Identifier: MIT
 *
 * Batches of look-ups in a cuckoo filter notice that an entry or a segment has moved, whether they
 * compute with vectors or not.  (That they answer as single calls do: unit/test_batches.c.)
 */
#include "base/vector.h"
#include "cuckoo/lookup.h"
#include "cuckoo_unit.h"

#include <signal.h>

typedef size_t (*batch)(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);

/* ---- the answers of one batch ---- */

/* The longest batch takes more than two read sections. */
enum { MOST_KEYS = 1200 };
_Static_assert(MOST_KEYS > 2 * READER_BATCH, "three read sections");

static void assert_answers(const tamis_filter *f, batch many, const uint64_t *hashes, size_t n)
{
  bool found[MOST_KEYS];
  size_t hits = 0, counted = many(f, hashes, n, found);
  for (size_t i = 0; i < n; i++) {
    if (found[i] != tamis_contains_hash(f, hashes[i]))
      fail_msg("key %zu of %zu: %d", i, n, found[i]);
    hits += found[i];
  }
  assert_int_equal(counted, hits);
  assert_int_equal(many(f, hashes, n, NULL), hits);
}

/* Those that find no room are among those that are not in. */
static void add_keys(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    (void) tamis_add_hash(f, random_at(1, i));
}

/* ---- cuckoo ---- */

/* Batches of so few keys do not compute with vectors. */
static size_t few_by_few(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found)
{
  enum { FEW = VECTOR_LANES - 1 };
  size_t hits = 0;
  for (size_t i = 0; i < n; i += FEW)
    hits += tamis_contains_many_hash(f, hashes + i, n - i < FEW ? n - i : FEW,
                                     found ? found + i : NULL);
  return hits;
}

static tamis_filter *make_cuckoo(uint64_t capacity, double fpp, bool growable)
{
  tamis_options options = options_for(capacity, fpp);
  options.growable = growable;
  tamis_filter *f = make_with_options(&options);
  assert_ptr_equal(operations_of(f)->contains_many, growable ? tamis__cuckoo_contains_many_growable
                                                             : tamis__cuckoo_contains_many_fixed);
  return f;
}

/* Marks the segment of one root as leaving, as a split does before it changes the directory. */
static void mark_segment(const tamis_filter *f)
{
  const struct generation *first = cuckoo_generation(const_cuckoo_of(f), 0);
  struct segment *segment = directory_segment(directory_load(&first->directory[0]));
  for (uint32_t i = 0; i <= first->geometry.stripe_mask; i++) {
    struct stripe *stripe = &segment_stripes(segment)[i];
    stripe_lock(stripe);
    version_leave(stripe);
    stripe_unlock(stripe);
  }
}

static uint64_t retries_of(const tamis_filter *f, batch many, const uint64_t *hashes, size_t n)
{
  uint64_t before = stats_of(f).lookup_retries;
  assert_answers(f, many, hashes, n);
  return stats_of(f).lookup_retries - before;
}

/* What a marked segment holds may be out of date: its keys are looked up again. */
TEST(keys_of_marked_segments_are_looked_up_again)
{
  uint64_t hashes[MOST_KEYS];
  tamis_filter *f = make_cuckoo(300000, 0.01, true);
  add_keys(f, 0, MOST_KEYS / 2);
  assert_true(stats_of(f).segments > 4);
  mark_segment(f);
  for (uint64_t i = 0; i < MOST_KEYS; i++)
    hashes[i] = random_at(1, i);
  uint64_t retries = retries_of(f, few_by_few, hashes, MOST_KEYS);
  assert_in_range(retries, 1, MOST_KEYS);
  assert_int_equal(retries_of(f, tamis_contains_many_hash, hashes, MOST_KEYS), retries);
  tamis_destroy(f);
}

/* ---- cuckoo, while an entry is moved ---- */

enum { PAGE = 4096 };

/* An entry in its upper bucket, alone in its pair; the page with that bucket; and how often the
 * entry has been moved. */
static struct {
  struct stripe *stripe;
  word *lower, *upper;
  char *page;
  unsigned moves;
} moved;

/* What another thread does while a look-up reads the upper bucket, which it may not yet: moves the
 * entry into the lower one, which the look-up has read. */
static void move_entry(int signal)
{
  (void) signal;
  (void) mprotect(moved.page, PAGE, PROT_READ | PROT_WRITE);
  stripe_lock(moved.stripe);
  word_store(moved.lower, word_load(moved.upper));
  version_bump(moved.stripe);
  word_store(moved.upper, 0);
  stripe_unlock(moved.stripe);
  moved.moves++;
}

/* Looks a key up, as all keys of a batch, whose upper bucket may not be read. */
static void find_moved(tamis_filter *f, uint64_t hash)
{
  uint64_t hashes[16];
  for (unsigned i = 0; i < 16; i++)
    hashes[i] = hash;
  const struct sigaction action = {.sa_handler = move_entry, .sa_flags = (int) SA_RESETHAND};
  struct sigaction before;
  assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
  moved.moves = 0;
  assert_int_equal(mprotect(moved.page, PAGE, PROT_NONE), 0);
  assert_int_equal(tamis_contains_many_hash(f, hashes, 16, NULL), 16);
  assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
  assert_int_equal(moved.moves, 1);
}

/* Adds a key for which find_moved() can be called: its upper bucket is in a page without anything
 * else. */
static uint64_t add_key_to_move(tamis_filter *f)
{
  struct generation *first = cuckoo_generation(const_cuckoo_of(f), 0);
  const struct cuckoo_geometry *g = &first->geometry;
  for (uint64_t hash = 0;; hash++) {
    assert_int_equal(tamis_add_hash(f, hash), TAMIS_OK);
    struct bucket_pair pair = pair_find(first, hash_mix(&f->keys, hash));
    word *words = segment_words(g, pair.segment);
    moved.stripe = stripe_of_bucket(g, pair.segment, pair.upper);
    moved.lower = &words[pair.lower], moved.upper = &words[pair.upper];
    moved.page = (char *) ((uintptr_t) moved.upper & -(uintptr_t) PAGE);
    if (moved.page > (char *) &words[cuckoo_buckets(g) / 2] &&
        moved.page + PAGE <= (char *) &words[cuckoo_buckets(g)]) {
      assert_int_equal(word_load(moved.lower), pair.entry);
      word_store(moved.lower, 0);
      word_store(moved.upper, pair.entry);
      return hash;
    }
    assert_int_equal(tamis_remove_hash(f, hash), TAMIS_OK);
  }
}

TEST(moved_keys_are_found)
{
  if (!vectors_usable() || sysconf(_SC_PAGESIZE) != PAGE)
    return;
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_filter *f = make_cuckoo(300000, 0.01, growable);
    find_moved(f, add_key_to_move(f));
    tamis_destroy(f);
  }
}
