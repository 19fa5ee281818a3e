/* SPDX-License-Identifier: MIT
 *
 * Question: is each key of a window remembered for as long as the add that gave it its end said, and
 * no longer, whatever runs beside?
 *
 * Threads add keys for random numbers of periods, look them up, count and remove them, and let
 * periods end, one or many at a time.  The periods have the numbers of one clock: `asked` is the
 * highest number that a call has asked for, and `reached` the highest one that a call has reached.
 * A key that was added for n periods must be found while `asked` is at most the `reached` before the
 * add plus n.  It must be gone when `reached` is above the `asked` after the add plus n.
 *
 *    own keys   one thread's, of which it knows both ends and the copies
 *    contested  keys that all threads add uniquely: of two winners, the life of the first must have
 *               been able to end before the second one returned
 *
 * A key may be taken for another one, at a low rate.  So an answer that says more than was added is
 * counted for its key, once, and only many such keys are wrong.
 *
 * Each round has a window of another form.  In one of four forms, threads use two handles of a
 * window that processes may share.
 */
#include "create.h"
#include "harness.h"
#include "pauses.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_OWN = 600, CONTESTED = 24, MOST_BATCH = 24, PAUSE_PERIOD = 60, ONE_LONG_IN = 64 };

static const double rate = 2e-6;

struct contested {
  _Atomic uint64_t stays; /* a winner's key does until this period is over */
  _Atomic uint64_t winners;
};

struct round {
  tamis_filter *handle[2];
  unsigned window;
  bool renews, copies, growable;
  uint64_t own; /* keys of each thread */
  _Atomic uint64_t asked, reached;
  struct contested contested[CONTESTED];
  _Atomic uint64_t unlucky, wrong;
};

/* What a thread knows of a key. */
struct key {
  uint64_t stays, gone; /* it is there while period `stays` runs; not any more after `gone` */
  uint64_t least, most; /* copies */
  bool unlucky;         /* another key is taken for it */
};

struct caller {
  struct round *round;
  tamis_filter *f;
  uint64_t seed, first; /* the hash of its key number 0 */
  struct key keys[MOST_OWN];
};

static void require(struct round *r, bool good, const char *what, uint64_t value)
{
  if (!good && atomic_fetch_add(&r->wrong, 1) < 4)
    fprintf(stderr, "%s (%" PRIu64 ")\n", what, value);
}

/* Something is found that was not added. */
static void note_unlucky(struct round *r, struct key *key)
{
  atomic_fetch_add(&r->unlucky, !key->unlucky);
  key->unlucky = true;
}

static uint64_t draw(struct caller *c, uint64_t n)
{
  return random_next(&c->seed) % n;
}

static void end_periods(struct round *r, tamis_filter *f, uint64_t n)
{
  const uint64_t to = atomic_load(&r->reached) + n;
  raise_to(&r->asked, to);
  require(r, tamis_advance_to(f, to) == TAMIS_OK, "a period does not end", to);
  raise_to(&r->reached, to);
}

/* ---- own keys ---- */

/* The clock around a call. */
struct around {
  uint64_t before, after; /* `reached` before the call, and `asked` after it */
};

static struct around begin(const struct caller *c)
{
  return (struct around){.before = atomic_load(&c->round->reached)};
}

static bool was_in(const struct key *key, const struct around *a)
{
  return key->least && a->after <= key->stays;
}

static bool was_out(const struct key *key, const struct around *a)
{
  return !key->most || a->before > key->gone;
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

static void forget(struct key *key)
{
  key->least = key->most = key->stays = key->gone = 0;
}

static void note_end(struct key *key, const struct around *a, unsigned periods)
{
  key->stays = most_of(key->stays, a->before + periods);
  key->gone = most_of(key->gone, a->after + periods);
}

static void judge_add(struct caller *c, struct key *key, const struct around *a, unsigned periods,
                      bool unique, int result)
{
  const bool in = was_in(key, a), out = was_out(key, a);
  if (result < 0) { /* at such rates, growth ends early */
    require(c->round, result == TAMIS_EFULL && c->round->growable, "a key is refused", periods);
    return;
  }
  if (out)
    forget(key);
  if (!in)
    key->stays = 0; /* its copies may be gone */
  if (unique && result == TAMIS_OK) {
    require(c->round, !in, "a key is won that is in", periods);
    key->least = key->most = 1;
    note_end(key, a, periods);
  } else if (unique) {
    if (out)
      note_unlucky(c->round, key);
    else if (c->round->renews)
      note_end(key, a, periods);
  } else {
    key->least = c->round->copies && in ? key->least + 1 : 1;
    key->most = c->round->copies ? key->most + 1 : 1;
    note_end(key, a, periods);
  }
}

static void add_own(struct caller *c)
{
  const bool unique = draw(c, 2), batch = draw(c, 4) == 0;
  const unsigned periods = (unsigned) draw(c, c->round->window + 1);
  const size_t n = batch ? draw(c, MOST_BATCH) : 1;
  uint64_t hashes[MOST_BATCH], number[MOST_BATCH];
  int results[MOST_BATCH];
  const uint64_t from = draw(c, c->round->own);
  for (size_t i = 0; i < n; i++) { /* different ones */
    number[i] = (from + i) % c->round->own;
    hashes[i] = c->first + number[i];
  }
  struct around a = begin(c);
  if (batch)
    (unique ? tamis_add_unique_for_many_hash : tamis_add_for_many_hash)(c->f, hashes, n, periods,
                                                                        results);
  else
    results[0] =
        (unique ? tamis_add_unique_for_hash : tamis_add_for_hash)(c->f, hashes[0], periods);
  a.after = atomic_load(&c->round->asked);
  for (size_t i = 0; i < n; i++)
    judge_add(c, &c->keys[number[i]], &a, periods, unique, results[i]);
}

static void look_up_own(struct caller *c, uint64_t number)
{
  struct key *key = &c->keys[number];
  struct around a = begin(c);
  const uint64_t count = draw(c, 2) ? tamis_contains_hash(c->f, c->first + number)
                                    : tamis_count_hash(c->f, c->first + number);
  a.after = atomic_load(&c->round->asked);
  require(c->round, count || !was_in(key, &a), "a key is forgotten too early", key->stays);
  if (count > (was_out(key, &a) ? 0 : key->most))
    note_unlucky(c->round, key);
}

/* Only of a key that is in, so that no other one is removed. */
static void remove_own(struct caller *c, uint64_t number)
{
  struct key *key = &c->keys[number];
  if (!key->least || atomic_load(&c->round->asked) > key->stays)
    return;
  const int result = tamis_remove_hash(c->f, c->first + number);
  const bool stayed = atomic_load(&c->round->asked) <= key->stays;
  require(c->round, result == TAMIS_OK || !stayed, "a copy cannot be removed", key->stays);
  if (result != TAMIS_OK || !--key->most)
    forget(key);
  else
    key->least -= key->least > 0;
}

/* ---- contested keys ---- */

/* A winner says how long its key stays at least.  When another winner finds that no period after it
 * has been asked for, and that its own key stays as long, both had the key at one time. */
static void contest(struct caller *c)
{
  struct round *r = c->round;
  const uint64_t number = draw(c, CONTESTED);
  const unsigned periods = (unsigned) draw(c, r->window + 1);
  struct contested *key = &r->contested[number];
  const uint64_t stays = atomic_load(&r->reached) + periods;
  if (tamis_add_unique_for_hash(c->f, ~number, periods) != TAMIS_OK)
    return;
  const uint64_t other = atomic_load(&key->winners) ? atomic_load(&key->stays) : 0;
  const uint64_t asked = atomic_load(&r->asked);
  require(r, !other || asked > other || asked > stays, "a key has two winners", number);
  raise_to(&key->stays, stays);
  atomic_fetch_add(&key->winners, 1);
}

/* ---- rounds ---- */

static void make_calls(struct worker *worker)
{
  static _Thread_local struct caller c;
  struct round *r = worker->arg;
  c = (struct caller){.round = r, .f = r->handle[worker->index % 2], .seed = worker->seed};
  c.first = (uint64_t) (worker->index + 1) << 40;
  const uint64_t calls = 20 * r->own, ends = r->window > 8 ? 40 : 200;
  pauses_on(worker->seed, 0);
  for (uint64_t i = 0; i < calls; i++) {
    const uint64_t what = draw(&c, 100);
    if (draw(&c, ends) == 0)
      end_periods(r, c.f, draw(&c, 3) ? 1 : draw(&c, r->window + 3));
    if (what < 40)
      add_own(&c);
    else if (what < 75)
      look_up_own(&c, draw(&c, r->own));
    else if (what < 90)
      contest(&c);
    else if (r->copies)
      remove_own(&c, draw(&c, r->own));
  }
  pauses_off();
  worker->result = calls;
}

static void open_handles(struct round *r, const tamis_options *options, bool shared)
{
  if (!shared) {
    r->handle[0] = r->handle[1] = create_filter(options);
    return;
  }
  const int file = memfd_create("ends", MFD_CLOEXEC);
  for (unsigned i = 0; i < 2; i++)
    require_created(tamis_open_shared_fd(options, file, &r->handle[i]));
  close(file);
}

static bool play(const struct harness_settings *s, uint64_t number, uint64_t *calls)
{
  static struct round r;
  uint64_t random = random_at(s->seed, number);
  struct worker workers[MAX_THREADS];
  tamis_options options = TAMIS_OPTIONS_INIT;
  memset(&r, 0, sizeof r);
  const unsigned form = (unsigned) (number % 4);
  r.own = 50 + random_next(&random) % (MOST_OWN - 50);
  options.window = r.window = 1 + (unsigned) (random_next(&random) % (number % 5 ? 6 : 64));
  options.window_renews = r.renews = random_next(&random) % 2;
  options.kind = form % 2 ? TAMIS_CUCKOO : TAMIS_BLOOM;
  options.growable = r.growable = form < 2 && random_next(&random) % 2;
  options.fpp = rate;
  options.capacity = options.growable ? 64 : 2 * s->threads * r.own + CONTESTED;
  options.stripes = number % 3 ? 0 : 1;
  options.seed = random_next(&random) | 1;
  r.copies = options.kind == TAMIS_CUCKOO;
  open_handles(&r, &options, form == 2);
  harness_run(s->threads, random_next(&random), make_calls, &r, workers);
  *calls += harness_results(workers, s->threads);
  end_periods(&r, r.handle[0], r.window + 1);
  require(&r, stats_of(r.handle[0]).count == 0, "something outlives the window", number);
  require(&r, r.unlucky <= 3 + s->threads * r.own / 1000, "many keys outlive their ends",
          r.unlucky);
  if (r.handle[1] != r.handle[0])
    tamis_destroy(r.handle[1]);
  tamis_destroy(r.handle[0]);
  return !r.wrong;
}

int main(int argc, char **argv)
{
  struct harness_settings s = {.threads = 4, .rounds = 200};
  const struct harness_option options[] = {{0}};
  uint64_t calls = 0, round = 0;
  bool good = true;
  harness_parse("Checks that keys of windows end when their adds say.", options, argc, argv, &s);
  pauses_install(PAUSE_PERIOD, ONE_LONG_IN);
  for (; good && harness_more(&s, round); round++)
    good = play(&s, round, &calls);
  printf("%" PRIu64 " calls in %" PRIu64 " windows\n", calls, round);
  return harness_verdict(&s, good);
}
