/* SPDX-License-Identifier: MIT
 *
 * Locks of two processes that share a window or a cuckoo filter, of which one has a call that stands still, or
 * has died.  Built with the hooks.
 */
#include "play.h"

#include "filter_unit.h"
#include "window/pair.h"

#include <signal.h>

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

/* Takes one of the two stripes, and mends it. */
static int take(tamis_filter *f, uint64_t hash, unsigned number)
{
  struct window_stripe *stripe = pair_of_key(window_of(f), hash).stripe[number];
  window_lock(window_of(f), stripe);
  window_unlock(window_of(f), stripe);
  return TAMIS_OK;
}

static int take_first(tamis_filter *f, uint64_t hash)
{
  return take(f, hash, 0);
}

static int take_second(tamis_filter *f, uint64_t hash)
{
  return take(f, hash, 1);
}

static const struct setup setup = {
    .capacity = 2000, .window = 2, .fixed = true, .stripes = 16, .shared = true};

/* Two processes take over a stripe each: the one that has found the entry twice stands still. */
TEST(of_two_that_mend_one_clears)
{
  for (uint64_t key = 1; key < 40; key++) {
    open_stage(&setup);
    const uint64_t hash = key * HASH_MULTIPLIER;
    assert_int_equal(tamis_add_hash(stage.f, hash), TAMIS_OK);
    const struct pair_of_window p = pair_of_key(window_of(stage.f), hash);
    if (p.stripe[0] != p.stripe[1]) {
      pid_t child = fork();
      if (child == 0)
        die_in_a_move(stage.f, hash);
      assert_int_equal(waitpid(child, NULL, 0), child);
      struct call a = {.filter = stage.f, .hash = hash};
      const bool upper_first =
          p.stripe[0] ==
          window_stripe(window_of(stage.f), &window_of(stage.f)->first, p.pair.place.upper);
      a.function = upper_first ? take_first : take_second;
      stop_at(&a, "shared_twin_found");
      (void) (upper_first ? take_second : take_first)(stage.own, hash);
      go_on(&a);
      assert_true(tamis_contains_hash(stage.own, hash));
    }
    close_stage();
  }
}

/* A process has died between the copy and the clearing of a move.  Each copy of the key is removed once, by a
 * process that has taken no other lock before. */
TEST(copies_of_a_dead_move_are_removed_once)
{
  static const struct setup cuckoo = {
      .kind = TAMIS_CUCKOO, .capacity = 2000, .fixed = true, .stripes = 16, .shared = true};
  for (uint64_t key = 1; key < 40; key++) {
    open_stage(&cuckoo);
    const uint64_t hash = key * HASH_MULTIPLIER, copies = 1 + key % 6;
    for (uint64_t i = 0; i < copies; i++)
      assert_int_equal(tamis_add_hash(stage.f, hash), TAMIS_OK);
    const struct pair_of_window p = pair_of_key(window_of(stage.f), hash);
    pid_t child = p.stripe[0] != p.stripe[1] ? fork() : -1;
    if (child == 0)
      die_in_a_move(stage.f, hash);
    assert_true(child < 0 || waitpid(child, NULL, 0) == child);
    for (uint64_t i = copies; i; i--) {
      assert_int_equal(tamis_count_hash(stage.f, hash), i);
      assert_int_equal(tamis_remove_hash(i % 2 ? stage.f : stage.own, hash), TAMIS_OK);
    }
    assert_int_equal(tamis_remove_hash(stage.f, hash), TAMIS_ABSENT);
    assert_false(tamis_contains_hash(stage.own, hash));
    close_stage();
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
TEST(a_lock_is_not_taken_from_the_living)
{
  enum { ASKED = 5, STOPPED = 2 };
  for (unsigned i = 0; i < 3; i++) {
    open_stage(&setup);
    struct window *w = window_of(stage.f);
    const uint64_t hash = 7 * HASH_MULTIPLIER;
    struct window_stripe *stripe = pair_of_key(w, hash).stripe[0];
    struct call add = {.filter = i ? stage.own : stage.f, .hash = hash};
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
    close_stage();
  }
}
