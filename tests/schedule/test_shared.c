/* SPDX-License-Identifier: MIT
 *
 * Races between two processes that share a filter, each replayed exactly: two handles of one file,
 * of which one has a call that stands still.  Built with the hooks.
 */
#include "calls.h"

#include "bloom/layers.h"
#include "filter_unit.h"

#include "window/pair.h"

#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const tamis_layout layouts[] = {TAMIS_LAYOUT_BLOCKED, TAMIS_LAYOUT_CLASSIC,
                                       TAMIS_LAYOUT_WORD};

struct handles {
  int file;
  tamis_filter *a, *b;
};

/* max_bytes 0: not growable. */
static struct handles open_pair(tamis_layout layout, uint64_t capacity, uint64_t max_bytes)
{
  struct handles pair = {.file = memfd_create("test", MFD_CLOEXEC)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = 0.0025;
  options.growable = max_bytes > 0;
  options.max_bytes = max_bytes;
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.a), TAMIS_OK);
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.b), TAMIS_OK);
  return pair;
}

static void close_pair(struct handles *pair)
{
  assert_valid(pair->a);
  assert_valid(pair->b);
  tamis_destroy(pair->a);
  tamis_destroy(pair->b);
  close(pair->file);
}

/* Another process opens a layer, and the key wins there. */
static void a_late_add_meets_a_winner(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct handles pair = open_pair(layouts[i], 10000, 1 << 20);
    struct call a = {.filter = pair.a, .hash = 7};
    struct bloom *first = bloom_of(pair.b);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(tamis_add_unique_hash(pair.b, 7), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_int_equal(stats_of(pair.a).layers, 2);
    assert_int_equal(stats_of(pair.a).count, 1);
    close_pair(&pair);
  }
}

/* Another process has added keys to a layer of which this one has not heard. */
static void a_look_up_finds_what_is_in_an_unknown_layer(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 6; i++) {
    struct handles pair = open_pair(layouts[i % 3], 10000, 1 << 20);
    struct bloom *first = bloom_of(pair.b);
    const uint64_t hash = 7;
    bool found;
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(tamis_add_hash(pair.b, hash), TAMIS_OK);
    if (i < 3)
      assert_true(tamis_contains_hash(pair.a, hash));
    else
      assert_int_equal(tamis_contains_many_hash(pair.a, &hash, 1, &found), 1);
    close_pair(&pair);
  }
}

/* A unique add has found room when another process is refused the key for good. */
static void no_unique_add_wins_after_a_refusal(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct handles pair = open_pair(layouts[i], 10000, 50000);
    struct call a = {.filter = pair.a, .hash = 7};
    struct bloom *first = bloom_of(pair.b);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_EFULL);
    assert_int_equal(tamis_add_unique_hash(pair.b, 7), TAMIS_EFULL);
    assert_int_equal(go_on(&a), TAMIS_EFULL);
    close_pair(&pair);
  }
}

/* The same in a filter that does not grow, and that the other process fills. */
static void no_unique_add_wins_in_a_full_filter(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct handles pair = open_pair(layouts[i], 1000, 0);
    struct call a = {.filter = pair.a, .hash = 7};
    uint64_t key = 100;
    stop_at(&a, "bloom_room_found");
    while (tamis_add_unique_hash(pair.b, key++) != TAMIS_EFULL)
      assert_true(key < 2000);
    const int other = tamis_add_unique_hash(pair.b, 7);
    const int own = go_on(&a);
    if (other == TAMIS_EFULL) /* else other keys have set its bits */
      assert_int_equal(own, TAMIS_EFULL);
    assert_int_equal(tamis_add_unique_hash(pair.a, key), TAMIS_EFULL);
    close_pair(&pair);
  }
}

/* Both look for room at the end of a layer, and both open the next one. */
static void of_two_openings_one_counts(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct handles pair = open_pair(layouts[i], 100, 1 << 20);
    uint64_t key = 1000;
    while (stats_of(pair.b).count < 99)
      assert_true(tamis_add_unique_hash(pair.b, key++) >= TAMIS_OK);
    for (; stats_of(pair.b).layers == 1; key++) /* the next key may be hidden */
      if (stats_of(pair.b).count < 100)
        assert_true(tamis_add_unique_hash(pair.b, key) >= TAMIS_OK);
      else
        break;
    struct call a = {.filter = pair.a, .hash = key + 1000};
    stop_at(&a, "bloom_layer_created");
    assert_true(tamis_add_unique_hash(pair.b, key + 2000) >= TAMIS_OK);
    assert_int_equal(stats_of(pair.b).layers, 2);
    assert_true(go_on(&a) >= TAMIS_OK);
    assert_int_equal(stats_of(pair.a).layers, 2);
    close_pair(&pair);
  }
}

/* The bits of keys in the layers with smaller numbers. */
static uint64_t bits_below(const tamis_filter *f, unsigned number)
{
  uint64_t bits = 0;
  for (const struct bloom *b = newest_layer(const_bloom_of(f)); b; b = bloom_older(b))
    for (uint64_t i = 0; b->number < number && i < b->word_count; i++)
      bits += (unsigned) __builtin_popcountll(word_load(&b->words[i]) & bloom_key_bits(b->layout));
  return bits;
}

/* One process has filled the filter, or opened a layer.  Another one, which has not heard of it, adds
 * key after key: a few of them set bits in a layer that is closed, until the process has learnt that it
 * is. */
static void a_process_that_lags_sets_no_bits(void **state)
{
  (void) state;
  enum { CAPACITY = 20000, MORE = 2000, MOST_BITS = 100 };
  for (unsigned i = 0; i < 9; i++) {
    const uint64_t max_bytes = i < 3 ? 0 : i < 6 ? 6 * CAPACITY : 1000 * CAPACITY;
    struct handles pair = open_pair(layouts[i % 3], CAPACITY, max_bytes);
    assert_int_equal(fullness_of(const_bloom_of(pair.b)),
                     OPEN); /* so it does not look at each key */
    uint64_t key = 1;
    int result = TAMIS_OK;
    for (; result != TAMIS_EFULL && newest_layer(const_bloom_of(pair.a))->number < 4; key++)
      result = tamis_add_unique_hash(pair.a, key * HASH_MULTIPLIER);
    assert_int_equal(result == TAMIS_EFULL, i < 6);
    const unsigned closed = i < 6 ? UINT_MAX : newest_layer(const_bloom_of(pair.a))->number;
    const uint64_t bits = bits_below(pair.b, closed);
    unsigned added = 0;
    for (uint64_t end = key + MORE; key < end; key++)
      added += tamis_add_unique_hash(pair.b, key * HASH_MULTIPLIER) == TAMIS_OK;
    if (i < 6) /* case 2: the word layout, in a word that has no mark yet */
      assert_in_range(added, 0, i == 2);
    else
      assert_true(added > MORE / 2);
    const uint64_t more = bits_below(pair.b, closed) - bits;
    if (more > MOST_BITS)
      fail_msg("case %u: %u bits in layers that are closed", i, (unsigned) more);
    close_pair(&pair);
  }
}

/* ---- windows ---- */

struct pair_of_window {
  struct pair pair;
  struct found found;
  struct window_stripe *stripe[2]; /* by their addresses */
};

static struct pair_of_window pair_of_key(struct window *w, uint64_t hash)
{
  struct pair_of_window p = {.pair = pair_in(&w->first, window_mixed(w, hash))};
  const struct view view = look_at(&p.pair);
  p.found = find_entry(&p.pair, &view);
  struct window_stripe *lower = window_stripe(w, &w->first, p.pair.place.lower);
  struct window_stripe *upper = window_stripe(w, &w->first, p.pair.place.upper);
  p.stripe[0] = lower < upper ? lower : upper;
  p.stripe[1] = lower < upper ? upper : lower;
  return p;
}

/* Takes the stripes of both buckets of a key, as a move does, writes a copy of its entry to the other
 * one, and dies. */
static _Noreturn void die_in_a_move(tamis_filter *f, uint64_t hash)
{
  struct window *w = window_of(f);
  struct window_layer *layer = &w->first;
  if (window_join(w) != TAMIS_OK)
    _exit(1);
  const struct pair_of_window p = pair_of_key(w, hash);
  window_lock(w, p.stripe[0]);
  window_lock(w, p.stripe[1]);
  window_store(layer,
               p.found.bucket == p.pair.place.lower ? p.pair.place.upper : p.pair.place.lower, 3,
               p.found.entry);
  raise(SIGKILL);
  _exit(1);
}

static int take_first(tamis_filter *f, uint64_t hash)
{
  struct window_stripe *stripe = pair_of_key(window_of(f), hash).stripe[0];
  window_lock(window_of(f), stripe);
  window_unlock(window_of(f), stripe);
  return TAMIS_OK;
}

static int take_second(tamis_filter *f, uint64_t hash)
{
  struct window_stripe *stripe = pair_of_key(window_of(f), hash).stripe[1];
  window_lock(window_of(f), stripe);
  window_unlock(window_of(f), stripe);
  return TAMIS_OK;
}

static struct handles open_window(void)
{
  struct handles pair = {.file = memfd_create("test", MFD_CLOEXEC)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 2000;
  options.fpp = 0.001;
  options.window = 2;
  options.growable = false;
  options.stripes = 16;
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.a), TAMIS_OK);
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.b), TAMIS_OK);
  return pair;
}

/* Two processes take over a stripe each: the one that has found the entry twice stands still. */
static void of_two_that_mend_one_clears(void **state)
{
  (void) state;
  for (uint64_t key = 1; key < 40; key++) {
    struct handles pair = open_window();
    const uint64_t hash = key * HASH_MULTIPLIER;
    assert_int_equal(tamis_add_hash(pair.a, hash), TAMIS_OK);
    const struct pair_of_window p = pair_of_key(window_of(pair.a), hash);
    if (p.stripe[0] != p.stripe[1]) {
      pid_t child = fork();
      if (child == 0)
        die_in_a_move(pair.a, hash);
      assert_int_equal(waitpid(child, NULL, 0), child);
      struct call a = {.filter = pair.a, .hash = hash};
      const bool upper_first =
          p.stripe[0] ==
          window_stripe(window_of(pair.a), &window_of(pair.a)->first, p.pair.place.upper);
      a.function = upper_first ? take_first : take_second;
      stop_at(&a, "shared_twin_found");
      (void) (upper_first ? take_second : take_first)(pair.b, hash);
      go_on(&a);
      assert_true(tamis_contains_hash(pair.b, hash));
    }
    close_pair(&pair);
  }
}

static void stop_with(const struct window *w, struct window_stripe *stripe)
{
  if (window_join((struct window *) w) == TAMIS_OK)
    window_lock(w, stripe);
  raise(SIGSTOP);
  _exit(1);
}

/* A thread asks, several times, for the owner of a stripe that somebody has who lives, and goes on
 * waiting: this process, with the same handle or another one, or another process, which is stopped. */
static void a_lock_is_not_taken_from_the_living(void **state)
{
  (void) state;
  enum { ASKED = 5, STOPPED = 2 };
  for (unsigned i = 0; i < 3; i++) {
    struct handles pair = open_window();
    struct window *w = window_of(pair.a);
    const uint64_t hash = 7 * HASH_MULTIPLIER;
    struct window_stripe *stripe = pair_of_key(w, hash).stripe[0];
    struct call add = {.filter = i ? pair.b : pair.a, .hash = hash};
    pid_t child = -1;
    if (i == STOPPED && (child = fork()) == 0)
      stop_with(w, stripe);
    assert_int_equal(window_join(w), TAMIS_OK);
    if (i == STOPPED)
      assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    else
      window_lock(w, stripe);
    const uint64_t owner = atomic_load(&stripe->lock.owner);
    assert_true(owner && (owner == owner_name(&w->owner)) == (i != STOPPED));
    schedule_stop_at("nowhere");
    start(&add);
    schedule_wait_either("shared_owner_asked_for", ASKED, "call_returned", 1);
    assert_int_equal(schedule_reached("call_returned"), 0);
    assert_int_equal(atomic_load(&stripe->lock.owner), owner);
    if (i == STOPPED)
      kill(child, SIGKILL);
    else
      window_unlock(w, stripe);
    assert_int_equal(finish(&add), TAMIS_OK);
    if (i == STOPPED)
      assert_int_equal(waitpid(child, NULL, 0), child);
    close_pair(&pair);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_late_add_meets_a_winner),
      cmocka_unit_test(a_look_up_finds_what_is_in_an_unknown_layer),
      cmocka_unit_test(no_unique_add_wins_after_a_refusal),
      cmocka_unit_test(no_unique_add_wins_in_a_full_filter),
      cmocka_unit_test(of_two_openings_one_counts),
      cmocka_unit_test(a_process_that_lags_sets_no_bits),
      cmocka_unit_test(of_two_that_mend_one_clears),
      cmocka_unit_test(a_lock_is_not_taken_from_the_living),
  };
  return cmocka_run_group_tests_name("shared_schedule", tests, NULL, NULL);
}
