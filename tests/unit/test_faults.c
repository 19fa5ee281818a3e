/* SPDX-License-Identifier: MIT
 *
 * What does a filter do when it is refused memory, a thread or randomness, at any moment?
 *
 * A scenario is played again and again: in the N-th run the N-th request fails, once or from then
 * on, until a run is through without a failure; and then with requests that fail by chance.
 * Requests are those to the user's allocator, or those to the system (see faults.h).
 *
 * After a call that failed nothing may have changed, and when there is memory again it succeeds.
 * In the end all memory has come back, by the size and the alignment by which it was given.
 */
#include "unit.h"

#include "base/memory.h"
#include "base/reclaim.h"
#include "base/stripe.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "cuckoo/evict.h"
#include "cuckoo/growth.h"
#include "faults.h"
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sanitizers and counting slow things down: there one in so many requests is made to fail.  Where
 * only one thread is at work, TSan has little to see. */
#if defined(TAMIS_TSAN)
enum { STEP = 16, LIMIT_STEP = 16, CROWD_ROUNDS = 3 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STEP = 10, LIMIT_STEP = 10, CROWD_ROUNDS = 3 };
#elif defined(TAMIS_SLOW)
enum { STEP = 10, LIMIT_STEP = 50, CROWD_ROUNDS = 3 };
#else
enum { STEP = 1, LIMIT_STEP = 1, CROWD_ROUNDS = 12 };
#endif

/* ---- filters ---- */

struct kind {
  const char *name;
  tamis_options options;
  bool tiny;  /* a degenerate first generation, by `round` */
  bool slabs; /* takes slabs as if it were large */
  unsigned round;
};

static tamis_options cuckoo_options(uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.fpp = fpp;
  return options;
}

static struct kind growing(uint64_t capacity, double fpp)
{
  return (struct kind){.name = "growing", .options = cuckoo_options(capacity, fpp)};
}

static struct kind fixed(uint64_t capacity, double fpp)
{
  struct kind kind = {.name = "fixed", .options = cuckoo_options(capacity, fpp)};
  kind.options.growable = false;
  return kind;
}

static struct kind tiny(unsigned round)
{
  return (struct kind){
      .name = "tiny", .options = cuckoo_options(16, 0.9), .tiny = true, .round = round};
}

static struct kind bloom(uint64_t capacity, tamis_layout layout, bool growable)
{
  struct kind kind = {.name = "bloom", .options = TAMIS_OPTIONS_INIT};
  kind.options.capacity = capacity;
  kind.options.layout = layout;
  kind.options.growable = growable;
  return kind;
}

static struct cuckoo_geometry tiny_geometry(unsigned round)
{
  static const unsigned widths[] = {12, 8, 16, 10, 21};
  struct cuckoo_geometry g = {.shape = bucket_shape(widths[round % 5], true)};
  g.first_roots = 1 + round % 3;
  g.root0_bits = 3;
  g.pair_bits = (uint8_t) ((round + 1) % 3);
  g.depth_limit = round % 2 ? 3 : 6; /* another generation soon, or many splits */
  g.stripe_mask = round % 2;
  g.words_offset = 64 + 64;
  g.rate = 0.001; /* leaves the rest to later generations */
  _Static_assert(2 * sizeof(struct stripe) <= 64, "two stripes stand before the words");
  return g;
}

static struct kind counting(uint64_t capacity, bool growable)
{
  struct kind kind = bloom(capacity, TAMIS_LAYOUT_BLOCKED, growable);
  kind.name = "counting";
  kind.options.kind = TAMIS_COUNTING_BLOOM;
  return kind;
}

static struct kind window(uint64_t capacity, bool growable)
{
  struct kind kind = bloom(capacity, TAMIS_LAYOUT_BLOCKED, growable);
  kind.name = "window";
  kind.options.fpp = 0.001;
  kind.options.window = 4;
  return kind;
}

static struct kind cuckoo_window(uint64_t capacity, bool growable)
{
  struct kind kind = window(capacity, growable);
  kind.name = "window of the cuckoo kind";
  kind.options.kind = TAMIS_CUCKOO;
  return kind;
}

static int create(const struct kind *kind, enum source source, tamis_filter **out)
{
  tamis_options options = kind->options;
  *out = NULL;
  if (source == USER) {
    options.allocator = &user;
    options.seed = 42;
  }
  if (!kind->tiny)
    return tamis_create(&options, out);
  struct tamis_filter head = {.keys = hash_keys_from_seed(42)};
  const struct filter_more more = {.allocator = user};
  if (source == USER)
    filter_set_more(&head, &more);
  struct cuckoo_geometry g = tiny_geometry(kind->round);
  g.first_roots += kind->slabs; /* a small filter takes none */
  int result = tamis__cuckoo_create_with(&options, &head, &g, out);
  if (result == TAMIS_OK && kind->slabs) {
    struct slabs *slabs = generation_slabs(cuckoo_generation(cuckoo_of(*out), 0));
    slabs->slots = 4; /* as many segments must there be for a slab */
    slabs->large = 0;
  }
  return result;
}

/* ---- a run ---- */

enum { MOST_KEYS = 4096, GROUP_KEYS = 100 };

struct run {
  const struct kind *kind;
  tamis_filter *f;
  enum source source;
  uint64_t count;        /* adds less removes */
  unsigned failed_calls; /* that said so */
  unsigned char in[MOST_KEYS];
};

static bool contains(const tamis_filter *f, uint64_t key)
{
  return key % 2 ? tamis_contains(f, &key, sizeof key) : tamis_contains_hash(f, key);
}

static int add(tamis_filter *f, uint64_t key)
{
  return key % 2 ? tamis_add(f, &key, sizeof key) : tamis_add_hash(f, key);
}

static int add_unique(tamis_filter *f, uint64_t key)
{
  return key % 2 ? tamis_add_unique(f, &key, sizeof key) : tamis_add_unique_hash(f, key);
}

static int remove_key(tamis_filter *f, uint64_t key)
{
  return key % 2 ? tamis_remove(f, &key, sizeof key) : tamis_remove_hash(f, key);
}

static bool is_cuckoo(const struct run *r)
{
  return r->kind->options.kind == TAMIS_CUCKOO;
}

/* What the filter says that it takes is what it was given.  (Mapped blocks are whole pages.) */
static void assert_bytes(const struct run *r)
{
  tamis_stats stats = stats_of(r->f); /* first: it may release what has waited */
  size_t given = books.bytes[r->source == USER ? USERS_BLOCK : SYSTEMS_BLOCK] + books.mapped;
  if (books.mapped)
    assert_in_range(given, stats.bytes, stats.bytes + 4 * 4096);
  else
    assert_int_equal(given, stats.bytes);
  if (is_cuckoo(r))
    assert_int_equal(stats.count, r->count);
  if (r->kind->options.max_bytes)
    assert_true(books.most_bytes <= r->kind->options.max_bytes);
}

/* None of this needs memory.  (The figures may start the thread that waits for readers.) */
static void assert_whole(const struct run *r)
{
  uint64_t requests = faults.requests;
  for (uint64_t key = 0; key < MOST_KEYS; key++)
    if (r->in[key] && !contains(r->f, key))
      fail_msg("%s: key %lu is missing", r->kind->name, key);
  assert_bytes(r);
  if (is_cuckoo(r)) {
    const char *reason;
    if (!filter_validate(r->f, &reason))
      fail_msg("%s: %s", r->kind->name, reason);
  }
  if (r->source == USER)
    assert_int_equal(faults.requests, requests);
  assert_books();
}

/* All is looked at after the first failures, and now and then after those that follow. */
static void note_failure(struct run *r)
{
  r->failed_calls++;
  if (r->failed_calls < 4 || r->failed_calls % 64 == 0)
    assert_whole(r);
}

static bool may_be_full(const struct run *r)
{
  return r->kind->options.max_bytes || !r->kind->options.growable;
}

static bool good_failure(const struct run *r, int result)
{
  return (result == TAMIS_ENOMEM && faults.failures) || (result == TAMIS_EFULL && may_be_full(r));
}

/* What waited gives room: bytes below the limit, or a place in a slab. */
static bool may_succeed_without_memory(const struct run *r)
{
  return may_be_full(r) || r->kind->slabs;
}

typedef int call_on_key(tamis_filter *f, uint64_t key);

/* A call that may meet a failure: it says so, has done no harm, goes on saying so as long as there
 * is no memory, and succeeds when there is again. */
static int attempt(struct run *r, call_on_key *call, uint64_t key)
{
  bool before = contains(r->f, key);
  int result = call(r->f, key);
  if (result < 0) {
    assert_true(good_failure(r, result));
    assert_int_equal(contains(r->f, key), before);
    note_failure(r);
    if (faults.pattern == FOR_GOOD) {
      result = call(r->f, key);
      assert_true(good_failure(r, result) || may_succeed_without_memory(r));
    }
  }
  if (result < 0) {
    faults.armed = false;
    result = call(r->f, key);
    faults.armed = true;
    assert_true(result >= 0 || (result == TAMIS_EFULL && may_be_full(r)));
  }
  assert_true(result == TAMIS_OK || call == add_unique || result == TAMIS_EFULL);
  if (result == TAMIS_OK) {
    r->count++;
    r->in[key]++;
  }
  if (result >= 0)
    assert_true(contains(r->f, key));
  return result;
}

static void add_keys(struct run *r, uint64_t begin, uint64_t end, call_on_key *call)
{
  for (uint64_t key = begin; key < end; key++)
    attempt(r, call, key);
}

/* Removes always succeed: what they would give back can wait. */
static void remove_keys(struct run *r, uint64_t begin, uint64_t end)
{
  for (uint64_t key = begin; key < end; key++)
    for (; r->in[key]; r->in[key]--, r->count--)
      assert_int_equal(remove_key(r->f, key), TAMIS_OK);
}

/* ---- batches ---- */

struct batch {
  bool unique, hashes;
  size_t n;
  uint64_t keys[GROUP_KEYS];
  int results[GROUP_KEYS];
};

static int call_batch(tamis_filter *f, struct batch *b)
{
  if (b->hashes)
    return (b->unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(f, b->keys, b->n,
                                                                          b->results);
  tamis_key keys[GROUP_KEYS];
  for (size_t i = 0; i < b->n; i++)
    keys[i] = (tamis_key){&b->keys[i], sizeof b->keys[i]};
  return (b->unique ? tamis_add_unique_many : tamis_add_many)(f, keys, b->n, b->results);
}

/* Each result is right; the keys that failed are left in the batch. */
static void judge_batch(struct run *r, struct batch *b, int result)
{
  size_t failed = 0;
  int first = TAMIS_OK;
  for (size_t i = 0; i < b->n; i++) {
    if (b->results[i] < 0) {
      assert_true(good_failure(r, b->results[i]));
      first = first ? first : b->results[i];
      b->keys[failed++] = b->keys[i];
      continue;
    }
    assert_true(b->results[i] == TAMIS_OK || b->unique);
    assert_true(contains(r->f, b->keys[i]));
    if (b->results[i] == TAMIS_OK) {
      r->count++;
      r->in[b->keys[i]]++;
    }
  }
  assert_int_equal(result, first);
  assert_true(faults.pattern != ONCE || failed <= 1 || may_be_full(r)); /* later ones were tried */
  b->n = failed;
}

/* Even keys are added by their hash, odd ones by their bytes, as in contains(). */
static void add_batch(struct run *r, uint64_t from, bool unique)
{
  for (unsigned odd = 0; odd < 2; odd++) {
    struct batch b = {.unique = unique, .hashes = !odd, .n = GROUP_KEYS};
    for (size_t i = 0; i < GROUP_KEYS; i++)
      b.keys[i] = from + 2 * i + odd;
    judge_batch(r, &b, call_batch(r->f, &b));
    if (b.n == 0)
      continue;
    note_failure(r);
    faults.armed = false;
    judge_batch(r, &b, call_batch(r->f, &b));
    faults.armed = true;
    assert_true(b.n == 0 || may_be_full(r));
  }
}

/* ---- scenarios ---- */

typedef void play_scenario(struct run *r);

/* Splits, copies that go along in them, generations, joins, and growth once more. */
static void come_and_go(struct run *r)
{
  enum { N = 300 };
  for (uint64_t key = 0; key < N; key++)
    for (unsigned copies = key < 20 ? 6 : 1; copies > 0; copies--)
      attempt(r, add, key);
  add_keys(r, N - 50, N + 50, add_unique);
  add_batch(r, N + 50, false);
  add_batch(r, N + 150, true);
  for (unsigned copy = 0; copy < 6; copy++)
    add_keys(r, 0, 40, add);
  assert_whole(r);
  remove_keys(r, 30, 2 * N);
  assert_whole(r);
  add_keys(r, 100, 200, add);
}

/* The side tables: they are made, and grow. */
static void many_copies(struct run *r)
{
  for (uint64_t key = 0; key < 60; key++)
    for (unsigned copy = 0; copy < 5; copy++)
      attempt(r, add, key);
  assert_whole(r);
  remove_keys(r, 0, 30);
  add_keys(r, 30, 60, add);
}

/* Up to a limit, and back. */
static void to_the_limit(struct run *r)
{
  add_keys(r, 0, 1500, add);
  add_batch(r, 1500, false);
  add_keys(r, 0, 50, add);
  remove_keys(r, 0, 1000);
  add_keys(r, 500, 700, add_unique);
}

/* A Bloom filter asks for memory when it is created, and never again. */
static void need_nothing(struct run *r)
{
  uint64_t requests = faults.requests;
  for (uint64_t key = 0; key < 500; key++) {
    int result = key % 3 ? add(r->f, key) : add_unique(r->f, key);
    assert_true(result >= 0);
    /* A key that was present by mistake goes with the one that it was taken for. */
    r->in[key] = result == TAMIS_OK || r->kind->options.kind != TAMIS_COUNTING_BLOOM;
  }
  if (r->kind->options.kind != TAMIS_COUNTING_BLOOM) {
    assert_int_equal(tamis_remove_hash(r->f, 1), TAMIS_EUNSUPPORTED);
  } else {
    assert_int_equal(remove_key(r->f, 1), TAMIS_OK);
    r->in[1] = 0;
  }
  assert_int_equal(faults.requests, requests);
}

/* Layers of a window, and periods, which need nothing. */
static void open_layers(struct run *r)
{
  add_keys(r, 0, 600, add);
  add_keys(r, 500, 900, add_unique);
  add_batch(r, 900, false);
  uint64_t requests = faults.requests;
  assert_int_equal(tamis_advance(r->f), TAMIS_OK);
  assert_int_equal(faults.requests, requests);
  add_batch(r, 1100, true);
  assert_whole(r);
}

/* Of the cuckoo kind also counts of copies.  At the end of a period smaller blocks are asked for,
 * without which it ends as well. */
static void open_layers_with_copies(struct run *r)
{
  many_copies(r);
  add_keys(r, 60, 500, add_unique);
  assert_int_equal(tamis_advance(r->f), TAMIS_OK);
  assert_whole(r);
  add_batch(r, 500, false);
  add_keys(r, 480, 520, add); /* copies in two layers */
  remove_keys(r, 0, 515);
  assert_int_equal(tamis_advance(r->f), TAMIS_OK);
  assert_whole(r);
  for (unsigned i = 0; i <= r->kind->options.window; i++)
    assert_int_equal(tamis_advance(r->f), TAMIS_OK);
  r->count = 0;
  memset(r->in, 0, sizeof r->in);
  assert_whole(r);
  add_keys(r, 0, 50, add);
}

static void only_create(struct run *r)
{
  if (r->kind->options.kind == TAMIS_CUCKOO)
    attempt(r, add, 1);
}

/* ---- playing them ---- */

static bool is_reason(int result)
{
  return result == TAMIS_ENOMEM || (result == TAMIS_EUNSUPPORTED && faults.random_failures);
}

struct outcome {
  unsigned runs, failed_creates, failed_calls;
  unsigned unseen;     /* runs in which no call failed, although a request did */
  tamis_stats at_best; /* of the last run without a failure, in the end */
};

/* One run.  False: no request was left to fail. */
static bool play(const struct kind *kind, enum source source, enum pattern pattern, uint64_t at,
                 play_scenario *scenario, struct outcome *outcome)
{
  static struct run r;
  r = (struct run){.kind = kind, .source = source};
  books.most_bytes = 0;
  arm(source, pattern, at);
  faults.armed = pattern != BY_CHANCE || at % 4 == 0; /* most of these would not come further */
  int result = create(kind, source, &r.f);
  faults.armed = true;
  if (result == TAMIS_OK) {
    assert_int_equal(faults.random_failures, 0); /* no filter has half a seed */
    assert_whole(&r);
    scenario(&r);
    assert_whole(&r);
    if (!faults.failures)
      outcome->at_best = stats_of(r.f);
    tamis_destroy(r.f);
  } else {
    assert_true(faults.failures && is_reason(result));
    assert_null(r.f);
    outcome->failed_creates++;
  }
  assert_all_released();
  faults.armed = false;
  outcome->runs++;
  outcome->failed_calls += r.failed_calls > 0;
  outcome->unseen += faults.failures && !r.failed_calls && result == TAMIS_OK;
  return faults.failures > 0;
}

/* Every request in turn, `step` at a time, by each pattern and both ways. */
static struct outcome play_all(const struct kind *kind, play_scenario *scenario, unsigned step)
{
  struct outcome all = {0};
  for (enum source source = USER; source <= SYSTEM; source++) {
    for (enum pattern pattern = ONCE; pattern <= FOR_GOOD; pattern++)
      for (uint64_t at = 1; play(kind, source, pattern, at, scenario, &all); at += step)
        ;
    for (uint64_t seed = 0; seed < 28 / STEP + 2; seed++)
      play(kind, source, BY_CHANCE, seed, scenario, &all);
  }
  if (getenv("TAMIS_FAULTS_VERBOSE"))
    print_message("%s %u: %u runs, %u failed creates, %u with failed calls, %u unseen; %u "
                  "generations, %lu joins\n",
                  kind->name, kind->round, all.runs, all.failed_creates, all.failed_calls,
                  all.unseen, all.at_best.generations, all.at_best.joins);
  return all;
}

/* ---- tests ---- */

/* The first test: the thread that waits for readers has not been started by any other. */
static void without_a_thread_memory_waits(void **state)
{
  (void) state;
  struct outcome unused = {0};
  struct kind kind = growing(1, 0.3);
  faults.threads = true;
  play(&kind, USER, NEVER, 0, come_and_go, &unused); /* destroy releases it, all the same */
  play(&kind, SYSTEM, NEVER, 0, come_and_go, &unused);
  static struct run r;
  r = (struct run){.kind = &kind, .source = USER};
  arm(USER, NEVER, 0);
  assert_int_equal(create(&kind, USER, &r.f), TAMIS_OK);
  add_keys(&r, 0, 1000, add);
  const struct backlog *backlog = &cuckoo_growth(cuckoo_of(r.f))->backlog;
  uint64_t bytes = stats_of(r.f).bytes, held = backlog->held;
  /* The filter keeps the memory of the home, which waits with the rest. */
  const struct cuckoo_geometry *g = &cuckoo_of(r.f)->first.geometry;
  held -= cuckoo_of(r.f)->has_home ? cuckoo_segment_bytes(g) : 0;
  assert_true(held > 0);
  assert_whole(&r);
  faults.threads = false;
  double end = harness_seconds() + PATIENCE_SECONDS;
  do
    usleep(1000);
  while (stats_of(r.f).bytes > bytes - held && harness_seconds() < end);
  assert_int_equal(backlog->held, 0);
  assert_int_equal(stats_of(r.f).bytes, bytes - held);
  assert_whole(&r);
  tamis_destroy(r.f);
  assert_all_released();
}

static void creation_fails_without_a_trace(void **state)
{
  (void) state;
  const struct kind kinds[] = {
      bloom(1000, TAMIS_LAYOUT_BLOCKED, true),
      bloom(1000, TAMIS_LAYOUT_CLASSIC, true),
      bloom(1000, TAMIS_LAYOUT_BLOCKED, false),
      bloom(1000, TAMIS_LAYOUT_WORD, true),
      bloom(1000, TAMIS_LAYOUT_WORD, false),
      bloom(3000000, TAMIS_LAYOUT_BLOCKED, true), /* from mmap */
      bloom(3000000, TAMIS_LAYOUT_CLASSIC, false),
      counting(1000, true),
      counting(1000, false),
      counting(3000000, false),
      window(1000, true),
      window(1000, false),
      window(3000000, false),
  };
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct outcome outcome = play_all(&kinds[i], need_nothing, 1);
    assert_true(outcome.failed_creates >= 8 && outcome.failed_calls == 0);
    if (kinds[i].options.capacity > 1000000) /* there is room without the slack */
      assert_true(outcome.unseen > 0);
  }
  const struct kind cuckoo_kinds[] = {
      growing(1, 0.3),
      fixed(1, 0.3),
      growing(100000, 0.001),
      fixed(2000000, 0.001),    /* one slab, from mmap */
      growing(50000000, 0.001), /* a directory from mmap */
      tiny(0),
      tiny(2),
      cuckoo_window(1000, true),
      cuckoo_window(1000, false),
      cuckoo_window(3000000, false),
  };
  for (unsigned i = 0; i < sizeof cuckoo_kinds / sizeof *cuckoo_kinds; i++) {
    struct outcome outcome = play_all(&cuckoo_kinds[i], only_create, 1);
    assert_true(outcome.failed_creates >= 6); /* a small filter is one block */
  }
}

/* A check of options asks for a random seed as a creation does. */
static void a_seed_that_is_refused_has_words(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  char why[200];
  arm(SYSTEM, FOR_GOOD, 1);
  faults.armed = true;
  int refused = tamis_options_check(&options, why, sizeof why);
  faults.armed = false;
  assert_int_equal(refused, TAMIS_EUNSUPPORTED);
  assert_true(strstr(why, "seed is 0,") == why);
  assert_int_equal(tamis_options_check(&options, why, sizeof why), TAMIS_OK);
  assert_string_equal(why, "");
}

static void growth_fails_without_harm(void **state)
{
  (void) state;
  const double rates[] = {0.3, 0.001};
  for (unsigned i = 0; i < 10; i++) {
    struct kind kind = i < 8 ? tiny(i % 5) : growing(1, rates[i - 8]);
    kind.slabs = i >= 5 && i < 8;
    struct outcome outcome = play_all(&kind, come_and_go, STEP);
    assert_true(outcome.failed_calls > 10);
    assert_true(outcome.at_best.joins > 0 || outcome.at_best.generations > 1);
    /* Joins fail in silence; with larger steps it may be that none does. */
    if (outcome.at_best.joins && !kind.slabs && STEP == 1)
      assert_true(outcome.unseen > 0);
  }
}

static void layers_of_a_window_fail_without_harm(void **state)
{
  (void) state;
  struct kind kind = window(20, true);
  struct outcome outcome = play_all(&kind, open_layers, STEP);
  assert_true(outcome.failed_calls > (STEP == 1 ? 10 : 0));
  assert_true(outcome.at_best.layers > 3);
}

static void copies_in_a_window_fail_without_harm(void **state)
{
  (void) state;
  struct kind kind = cuckoo_window(20, true);
  struct outcome outcome = play_all(&kind, open_layers_with_copies, STEP);
  assert_true(outcome.failed_calls > (STEP == 1 ? 10 : 0));
  assert_true(outcome.at_best.growths > 1);
  if (STEP == 1) /* advances ask for smaller tables in silence */
    assert_true(outcome.unseen > 0);
}

/* max_bytes leaves no room for the counts of all copies, nor for a layer. */
static void copies_in_a_window_fail_at_the_limit(void **state)
{
  (void) state;
  struct kind kind = cuckoo_window(20, true);
  uint64_t needed;
  assert_int_equal(tamis_bytes_for(&kind.options, &needed), TAMIS_OK);
  kind.options.max_bytes = needed + 2000;
  struct outcome outcome = play_all(&kind, to_the_limit, LIMIT_STEP);
  assert_true(outcome.failed_calls > (LIMIT_STEP == 1 ? 10 : 0));
}

static void side_tables_fail_without_harm(void **state)
{
  (void) state;
  const struct kind kinds[] = {fixed(1000, 0.001), fixed(1000, 1e-6), growing(1000, 0.001),
                               growing(10, 1e-6)};
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct outcome outcome = play_all(&kinds[i], many_copies, 1);
    assert_true(outcome.failed_calls >= 4);
  }
}

static void failures_at_the_limit_do_no_harm(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.001};
  for (unsigned i = 0; i < 2; i++) {
    struct kind kind = growing(20, rates[i]);
    uint64_t needed;
    assert_int_equal(tamis_bytes_for(&kind.options, &needed), TAMIS_OK);
    kind.options.max_bytes = needed + 4000;
    struct outcome outcome = play_all(&kind, to_the_limit, LIMIT_STEP);
    assert_true(outcome.failed_calls > 10);
  }
}

/* ---- many threads ---- */

enum { CROWD = 4, CROWD_KEYS = 400 };

struct member {
  tamis_filter *f;
  uint64_t base, seed;
  uint64_t count, failed;
  bool in[CROWD_KEYS];
  const char *wrong;
  pthread_barrier_t *start;
};

static void look_at_own(struct member *m)
{
  for (uint64_t i = 0; i < CROWD_KEYS; i++)
    if (m->in[i] && !contains(m->f, m->base + i))
      m->wrong = "a key is missing";
}

static void *come_and_go_in_a_crowd(void *argument)
{
  struct member *m = argument;
  pthread_barrier_wait(m->start);
  for (unsigned round = 0; round < CROWD_ROUNDS && !m->wrong; round++) {
    for (uint64_t n = 0; n < (uint64_t) 2 * CROWD_KEYS; n++) {
      uint64_t i = random_next(&m->seed) % CROWD_KEYS;
      int result = m->in[i] ? TAMIS_OK : add(m->f, m->base + i);
      if (result == TAMIS_OK)
        m->in[i] = true;
      else if (result == TAMIS_ENOMEM)
        m->failed++;
      else
        m->wrong = tamis_strerror(result);
      if (n % 64 == 0)
        look_at_own(m);
    }
    for (uint64_t i = 0; i < CROWD_KEYS; i++)
      if (m->in[i] && random_next(&m->seed) % 8) {
        m->in[i] = false;
        if (remove_key(m->f, m->base + i) != TAMIS_OK)
          m->wrong = "a key could not be removed";
      }
    look_at_own(m);
  }
  for (uint64_t i = 0; i < CROWD_KEYS; i++)
    m->count += m->in[i];
  return NULL;
}

static void crowd_of(const struct kind *kind, enum source source, uint64_t seed)
{
  static struct member members[CROWD];
  struct run r = {.kind = kind, .source = source};
  pthread_t threads[CROWD];
  arm(source, BY_CHANCE, seed);
  faults.odds = 4;
  faults.armed = false;
  assert_int_equal(create(kind, source, &r.f), TAMIS_OK);
  pthread_barrier_t start;
  assert_int_equal(pthread_barrier_init(&start, NULL, CROWD + 1), 0);
  for (unsigned i = 0; i < CROWD; i++) {
    members[i] = (struct member){
        .f = r.f, .base = (uint64_t) (i + 1) << 40, .seed = seed + i, .start = &start};
    assert_int_equal(__real_pthread_create(&threads[i], NULL, come_and_go_in_a_crowd, &members[i]),
                     0);
  }
  faults.armed =
      true; /* only now: a sanitizer that starts a thread must not be refused what it needs */
  pthread_barrier_wait(&start);
  uint64_t failed = 0;
  for (unsigned i = 0; i < CROWD; i++) {
    pthread_join(threads[i], NULL);
    r.count += members[i].count;
    failed += members[i].failed;
  }
  faults.armed = false;
  pthread_barrier_destroy(&start);
  for (unsigned i = 0; i < CROWD; i++) {
    look_at_own(&members[i]);
    if (members[i].wrong)
      fail_msg("%s", members[i].wrong);
  }
  assert_true(failed > 0);
  assert_whole(&r);
  tamis_destroy(r.f);
  assert_all_released();
}

static void no_key_is_lost_in_a_crowd(void **state)
{
  (void) state;
  for (enum source source = USER; source <= SYSTEM; source++) {
    for (unsigned round = 0; round < 5; round++) {
      struct kind kind = tiny(round);
      crowd_of(&kind, source, round);
    }
    struct kind kind = growing(1, 0.3);
    crowd_of(&kind, source, 5);
  }
}

/* liburcu ends the process when it cannot map memory for a new thread: it is not asked. */
static void threads_that_liburcu_does_not_know_are_readers(void **state)
{
  (void) state;
  for (unsigned round = 0; round < 3; round++) {
    struct kind kind = tiny(round);
    faults.maps = true;
    crowd_of(&kind, USER, round);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(without_a_thread_memory_waits, start_afresh),
      TEST_WITH_THREADS_BETWEEN(threads_that_liburcu_does_not_know_are_readers, start_afresh, NULL),
      cmocka_unit_test_setup(creation_fails_without_a_trace, start_afresh),
      cmocka_unit_test_setup(a_seed_that_is_refused_has_words, start_afresh),
      cmocka_unit_test_setup(growth_fails_without_harm, start_afresh),
      cmocka_unit_test_setup(layers_of_a_window_fail_without_harm, start_afresh),
      cmocka_unit_test_setup(copies_in_a_window_fail_without_harm, start_afresh),
      cmocka_unit_test_setup(copies_in_a_window_fail_at_the_limit, start_afresh),
      cmocka_unit_test_setup(side_tables_fail_without_harm, start_afresh),
      cmocka_unit_test_setup(failures_at_the_limit_do_no_harm, start_afresh),
      TEST_WITH_THREADS_BETWEEN(no_key_is_lost_in_a_crowd, start_afresh, NULL),
  };
  return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
