/* SPDX-License-Identifier: MIT
 *
 * What does a filter do when a call fails: when it is refused memory, a thread or randomness, at any moment,
 * when its limit is reached?  It is left as it was, for good.
 *
 * Two filters come to one state by the same calls.  Calls fail on the first one alone: a run is played again
 * and again, and in the N-th one the N-th request to the user's allocator, or to the system, fails, once or
 * from then on (faults.h).  Then both get the same calls, and must give the same results, the same figures and
 * the same saved bytes.  What the figures call bytes is what was given, and in the end all of it has come back,
 * by the size and the alignment by which it was given.
 */
#include "faults.h"
#include "saved_unit.h"

#include "base/stripe.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/segment.h"
#include "harness.h"

#include <time.h>

/* Sanitizers slow things down: there one in so many requests is made to fail. */
enum { STEP = SCALE > 1 ? 20 : 1, TINY_STEP = SCALE > 1 ? 3 : 1 };

/* ---- the filters ---- */

enum { CAPACITY = 3000, SEED = 42, ENOUGH_BYTES = 1 << 24 /* a limit that none of them reaches */ };

/* The second filter never sees a call that fails. */
struct twins {
  const struct form *s;
  enum asked source;
  unsigned tiny; /* a cuckoo filter that opens a second generation soon: 1 + its geometry */
  tamis_options options;
  tamis_filter *f, *twin;
  uint64_t next; /* of the schedule */
};

/* From the third one on it takes slabs as if it were large. */
enum { TINY = 6 };

static int create_tiny(unsigned round, const tamis_options *options, tamis_filter **out)
{
  static const unsigned widths[] = {12, 8, 16, 10, 21};
  const bool slabs = round >= TINY / 2;
  struct cuckoo_geometry g = {.shape = bucket_shape(widths[round % 5], true)};
  g.first_roots = 1 + round % 3 + slabs; /* a small filter takes none */
  g.root0_bits = 3;
  g.pair_bits = (uint8_t) ((round + 1) % 3);
  g.depth_limit = round % 2 ? 3 : 6; /* another generation soon, or many splits */
  g.fixed_shift = g.shape.shift;
  g.uneven_at =
      (uint8_t[]){0, 2, NEVER_UNEVEN}[g.shape.width < 21 ? round % 3 : 0]; /* 2: into wider lanes */
  g.stripe_mask = round % 2;
  g.words_offset = 64 + 64;
  g.rate = cuckoo_geometry_rate(&g, g.depth_limit);
  tamis_options leaves_some = *options; /* of the rate, to later generations */
  leaves_some.fpp += g.rate;
  _Static_assert(2 * sizeof(struct stripe) <= 64, "two stripes stand before the words");
  struct tamis_filter head = {.keys = hash_keys_from_seed(SEED)};
  const struct filter_more more = {.allocator = user};
  if (options->allocator)
    filter_set_more(&head, &more);
  int result = tamis__cuckoo_create_with(&leaves_some, &head, &g, out);
  if (result == TAMIS_OK && slabs) {
    struct slabs *taken = generation_slabs(cuckoo_generation(cuckoo_of(*out), 0));
    taken->slots = 4; /* as many segments must there be for a slab */
    taken->large = 0;
  }
  return result;
}

static int create(const struct twins *t, tamis_filter **out)
{
  *out = NULL;
  return t->tiny ? create_tiny(t->tiny - 1, &t->options, out) : tamis_create(&t->options, out);
}

/* All requests of the calls that follow. */
static void refuse_all(void)
{
  arm(USER, FOR_GOOD, 1);
}

static void refuse_none(void)
{
  faults.armed = false;
}

/* ---- the schedule ---- */

/* Call number `i`: new keys, copies of a third of them, and many of a few.  A remove takes a key that was
 * added plainly. */
static int call(const struct form *s, tamis_filter *f, uint64_t i)
{
  uint64_t key = i / 4, old = i / 8, hot = i / 64 % 8;
  if (s->options.window && i % 1500 == 1499)
    return tamis_advance(f);
  if (s->removes && !s->options.window && i % 32 == 31)
    return tamis_remove(f, &old, sizeof old);
  switch (i % 4) {
  case 0:
    return tamis_add(f, &key, sizeof key);
  case 1:
    return i % 64 == 9    ? tamis_add(f, &hot, sizeof hot)
           : old % 3 == 0 ? tamis_add(f, &old, sizeof old)
                          : tamis_add_unique(f, &old, sizeof old);
  case 2:
    key = ~i;
    return tamis_add_unique(f, &key, sizeof key);
  default:
    return tamis_contains(f, &i, sizeof i);
  }
}

static void assert_same(const struct twins *t, const char *what, uint64_t i, int a, int b)
{
  if (a != b)
    fail_msg("%s: %s %d gives %d, the twin %d", t->s->name, what, (int) i, a, b);
}

static void go_on(struct twins *t, uint64_t calls)
{
  for (uint64_t end = t->next + calls; t->next < end; t->next++)
    assert_same(t, "call", t->next, call(t->s, t->f, t->next), call(t->s, t->twin, t->next));
}

/* `limit`: times the bytes that the capacity needs; 0: none. */
static struct twins begin(struct twins t, uint64_t capacity, unsigned limit)
{
  t.options = t.s->options;
  t.options.capacity = capacity;
  t.options.seed = SEED;
  t.options.allocator = t.source == USER ? &user : NULL;
  refuse_none();
  t.options.max_bytes = limit * planned_bytes(&t.options);
  assert_int_equal(create(&t, &t.f), TAMIS_OK);
  assert_int_equal(create(&t, &t.twin), TAMIS_OK);
  return t;
}

static struct twins twins_of(const struct form *s, uint64_t capacity, uint64_t calls)
{
  struct twins t = begin((struct twins){.s = s}, capacity, 0);
  go_on(&t, calls);
  return t;
}

/* Removes most of the keys that the schedule has added plainly, so that segments join. */
static void shrink(const struct twins *t)
{
  for (uint64_t key = 0; t->s->removes && key < t->next / 4; key++)
    if (key % 4 != 3)
      assert_same(t, "remove", key, tamis_remove(t->f, &key, sizeof key),
                  tamis_remove(t->twin, &key, sizeof key));
}

/* ---- what is compared ---- */

/* Saves a filter, and loads it in its own place. */
static void reload_one(tamis_filter **f, uint64_t max_bytes)
{
  struct bytes b = saved_bytes(*f);
  tamis_load_options o = TAMIS_LOAD_OPTIONS_INIT;
  o.allocator = &user, o.max_bytes = max_bytes;
  tamis_destroy(*f);
  assert_int_equal(load_from(&b, &o, f), TAMIS_OK);
  free(b.data);
}

/* With another limit, unless that is 0. */
static void reload(struct twins *t, uint64_t max_bytes)
{
  reload_one(&t->f, max_bytes);
  reload_one(&t->twin, max_bytes);
}

static size_t bytes_given(const struct twins *t)
{
  return t->source == USER ? books.bytes[USERS_BLOCK] : books.bytes[SYSTEMS_BLOCK] + books.mapped;
}

/* What filters say that they take is what was given (mapped blocks are whole pages): at once, or when the
 * thread that releases what has waited for readers is through with it. */
static void assert_bytes(const struct twins *t)
{
  time_t end = time(NULL) + PATIENCE_SECONDS;
  size_t said, given, pages = books.mapped ? 8 * 4096 : 0;
  do {
    given = bytes_given(t);
    said = (t->f ? stats_of(t->f).bytes : 0) + (t->twin ? stats_of(t->twin).bytes : 0);
  } while ((said > given || said + pages < given) && time(NULL) < end && sched_yield() == 0);
  if (said > given || said + pages < given)
    fail_msg("%s: %zu bytes are given, and the filters say %zu", t->s->name, given, said);
  assert_books();
}

/* All but what counts the failures (refused_adds, failed_searches), what is a time, and the bytes
 * of each filter: memory that waits for readers is released by another thread. */
static void compare(const struct twins *t)
{
  assert_same_figures(t->f, t->twin, t->s->name);
  assert_int_equal(stats_of(t->f).evictions, stats_of(t->twin).evictions);
  assert_bytes(t);
  struct bytes saved = saved_bytes(t->f);
  if (!is_saved_as(t->twin, &saved))
    fail_msg("%s: the saved bytes differ", t->s->name);
  free(saved.data);
}

static void end(struct twins *t)
{
  refuse_none();
  tamis_destroy(t->f), tamis_destroy(t->twin);
  t->f = t->twin = NULL;
  assert_all_released();
}

/* ---- calls that fail ---- */

static void saves_that_fail(struct twins *t)
{
  uint64_t k = 0;
  int result;
  do {
    struct bytes b = {.fail_at = (unsigned) ++k};
    result = tamis_save(t->f, write_bytes, &b);
    assert_int_equal(result, b.calls < k ? TAMIS_OK : TAMIS_EIO);
    free(b.data);
  } while (result != TAMIS_OK);
  for (k = 1; k == 1 || faults.failures; k++) {
    struct bytes b = {.size = 0};
    arm(USER, ONCE, k);
    result = tamis_save(t->f, write_bytes, &b);
    refuse_none();
    assert_int_equal(result, faults.failures ? TAMIS_ENOMEM : TAMIS_OK);
    free(b.data);
  }
  assert_true(k > 2);
}

/* Another filter with `n` keys of its own, and copies of some. */
static tamis_filter *other(const tamis_options *options, uint64_t n)
{
  tamis_options all = *options;
  all.max_bytes = 0;
  tamis_filter *f = make_with_options(&all);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t key = ~i << 32;
    for (unsigned copies = i % 16 ? 1 : 5; copies > 0; copies--)
      assert_int_equal(tamis_add(f, &key, sizeof key), TAMIS_OK);
  }
  return f;
}

static void intersections_that_fail(struct twins *t)
{
  tamis_filter *o = other(&t->options, 100), *out;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  bool supported = t->s->options.kind == TAMIS_BLOOM && !t->s->options.window;
  refuse_all();
  assert_int_equal(tamis_intersect(t->f, o, &out), supported ? TAMIS_ENOMEM : TAMIS_EUNSUPPORTED);
  refuse_none();
  assert_null(out);
  if (!supported)
    assert_int_equal(tamis_similarity(t->f, o, &similarity), TAMIS_EUNSUPPORTED);
  tamis_destroy(o);
}

TEST_BETWEEN(failed_calls_leave_no_trace, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));) {
    struct twins t = twins_of(s, CAPACITY, 5000);
    saves_that_fail(&t);
    compare(&t);
    go_on(&t, 1000);
    intersections_that_fail(&t);
    go_on(&t, 20000 / SCALE);
    shrink(&t);
    compare(&t);
    end(&t);
  }
}

/* ---- memory is refused ---- */

/* A filter is created when the N-th request fails, of those to the user or to the system. */
TEST_BETWEEN(creation_fails_without_a_trace, start_afresh, NULL)
{
  unsigned unseen = 0;
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned i = 0; i < 12; i++) {
      struct twins t = {.s = s, .source = i % 2, .options = s->options};
      const enum pattern pattern = (enum pattern)(ONCE + i / 2 % 3);
      unsigned failed = 0;
      t.options.capacity = i < 6 ? 1000 : 3000000;
      t.options.seed = t.source == USER ? SEED : 0;
      t.options.allocator = t.source == USER ? &user : NULL;
      for (uint64_t at = 1; pattern != BY_CHANCE || at < 10; at++) {
        arm(t.source, pattern, at);
        int result = create(&t, &t.f);
        refuse_none();
        if (result != TAMIS_OK)
          assert_true(result == TAMIS_ENOMEM ||
                      (result == TAMIS_EUNSUPPORTED && faults.random_failures));
        assert_true((t.f == NULL) == (result != TAMIS_OK));
        assert_true(t.f == NULL || !faults.random_failures); /* no filter has half a seed */
        tamis_destroy(t.f);
        assert_all_released();
        failed += result != TAMIS_OK;
        unseen += faults.failures && result == TAMIS_OK;
        if (pattern != BY_CHANCE && !faults.failures)
          break;
      }
      assert_true(failed > 0);
    }
  assert_true(unseen > 0); /* there is room without the slack of a large block */
}

/* A check of options asks for a random seed as a creation does. */
TEST_BETWEEN(a_seed_that_is_refused_has_words, start_afresh, NULL)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  char why[200];
  arm(SYSTEM, FOR_GOOD, 1);
  int refused = tamis_options_check(&options, why, sizeof why);
  refuse_none();
  assert_int_equal(refused, TAMIS_EUNSUPPORTED);
  assert_true(strstr(why, "seed is 0,") == why);
  assert_int_equal(tamis_options_check(&options, why, sizeof why), TAMIS_OK);
  assert_string_equal(why, "");
}

/* Removes need no memory, however many copies there are, also after counts were packed as tightly as
 * they are in a filter that is loaded within a limit. */
TEST_BETWEEN(removes_need_no_memory, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));) {
    if (s->options.kind != TAMIS_CUCKOO)
      continue;
    struct twins t = twins_of(s, CAPACITY, 0);
    for (uint64_t n = 0; n < 40000; n++) {
      uint64_t key = n / 20;
      assert_same(&t, "add", n, tamis_add(t.f, &key, sizeof key),
                  tamis_add(t.twin, &key, sizeof key));
    }
    reload(&t, ENOUGH_BYTES);
    for (uint64_t n = 0; n < 40000; n += 1 + n % 7) {
      uint64_t key = n / 20;
      refuse_all();
      int result = tamis_remove(t.f, &key, sizeof key);
      refuse_none();
      assert_same(&t, "remove", n, result, tamis_remove(t.twin, &key, sizeof key));
    }
    compare(&t);
    go_on(&t, 10000 / SCALE);
    compare(&t);
    end(&t);
  }
}

struct run {
  struct twins t;
  unsigned failed; /* calls that said so */
  bool silent;     /* some that did not: something is done later, or not at all */
};

/* After the first failures, and now and then after those that follow. */
static void note_failure(struct run *r)
{
  const struct twins *t = &r->t;
  if (++r->failed >= 4 && r->failed % 64)
    return;
  for (uint64_t key = 0; key < t->next / 4; key++)
    if (tamis_contains(t->twin, &key, sizeof key) && !tamis_contains(t->f, &key, sizeof key))
      fail_msg("%s: key %d is missing", t->s->name, (int) key);
  assert_valid(t->f);
  assert_bytes(t);
}

/* A call that fails says so, keeps no memory (but what a cuckoo filter needs for its first split may stay),
 * fails again as long as there is no memory, and succeeds when there is. */
static void attempt(struct run *r)
{
  const struct twins *t = &r->t;
  const size_t before = bytes_given(t);
  const uint64_t refused = faults.failures, i = t->next;
  faults.armed = true;
  int result = call(t->s, t->f, i);
  const bool failed = result == TAMIS_ENOMEM;
  if (failed && faults.pattern == FOR_GOOD)
    result = call(t->s, t->f, i);
  refuse_none();
  r->silent |= !failed && faults.failures > refused;
  if (failed) {
    assert_true(bytes_given(t) <= before || t->tiny ||
                (t->s->options.kind == TAMIS_CUCKOO && stats_of(t->f).growths == 0));
    note_failure(r);
  }
  if (result == TAMIS_ENOMEM)
    result = call(t->s, t->f, i);
  assert_same(t, "call", i, result, call(t->s, t->twin, i));
}

/* Each result of a batch is right, and the keys that failed are added by another one.  A batch is as many
 * calls: the twin makes these. */
static void attempt_batch(struct run *r, uint64_t first, bool unique)
{
  enum { KEYS = 30 };
  const struct twins *t = &r->t;
  uint64_t hashes[KEYS];
  int results[KEYS];
  size_t n = KEYS;
  for (size_t i = 0; i < n; i++)
    hashes[i] = random_at(first, i);
  for (bool again = false; n > 0; again = true) {
    const uint64_t refused = faults.failures;
    size_t failed = 0;
    faults.armed = !again;
    int result =
        (unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(t->f, hashes, n, results);
    refuse_none();
    for (size_t i = 0; i < n; i++)
      if (results[i] == TAMIS_ENOMEM)
        hashes[failed++] = hashes[i];
      else
        assert_same(t, "key of a batch", i, results[i],
                    (unique ? tamis_add_unique_hash : tamis_add_hash)(t->twin, hashes[i]));
    assert_true(!again || !failed);
    assert_true(failed <= (faults.pattern == ONCE ? 1 : n)); /* later ones were tried */
    assert_true((result == TAMIS_ENOMEM) == (failed > 0) || result == TAMIS_EFULL);
    r->silent |= faults.failures > refused; /* or the keys come in another order */
    if (failed)
      note_failure(r);
    n = failed;
  }
}

/* Request `at` is refused, and others after it as the pattern says.  False: there was none. */
static bool refuse_request(struct twins twins, enum pattern pattern, uint64_t at)
{
  struct run r = {.t = begin(twins, twins.s->options.growable ? 20 : 2500, 0)};
  struct twins *t = &r.t;
  arm(t->source, pattern, at);
  for (; t->next < 3000; t->next++) {
    attempt(&r);
    if (t->next % 250 == 100)
      attempt_batch(&r, t->next, t->next % 500 == 100);
  }
  const bool refused = faults.failures;
  if (!r.failed)
    shrink(t);
  if (!r.silent)
    compare(t);
  go_on(t, 1000);
  shrink(t);
  if (!r.silent)
    compare(t);
  end(t);
  return refused;
}

static void refuse_requests(struct twins twins)
{
  for (unsigned i = 0; i < 4; i++) {
    twins.source = i % 2;
    for (uint64_t at = 1; refuse_request(twins, i < 2 ? ONCE : FOR_GOOD, at); at += STEP)
      ;
  }
  for (uint64_t seed = 0; seed < 10 / SCALE + 1; seed++)
    refuse_request(twins, BY_CHANCE, seed);
}

TEST_BETWEEN(every_request_is_refused, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));) {
    refuse_requests((struct twins){.s = s});
    for (unsigned i = 1; i <= TINY && s->options.kind == TAMIS_CUCKOO && !s->options.window;
         i += TINY_STEP)
      if (s->options.growable)
        refuse_requests((struct twins){.s = s, .tiny = i});
  }
}

/* ---- limits ---- */

/* Calls that reach a limit are not made again, and the twin never sees them.  Then there is room:
 * by removes and periods that end, or by a higher limit.  (A cuckoo filter that has room for a split
 * within its limit gets a higher one, too: what waits for readers counts.) */
TEST_BETWEEN(calls_beyond_a_limit_are_forgotten, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned limit = 1; limit <= 3; limit++) {
      struct twins t = begin((struct twins){.s = s}, CAPACITY, s->options.growable ? limit : 0);
      size_t risen = 0;
      for (; t.next < 30000; t.next++) {
        size_t before = bytes_given(&t);
        int result = call(s, t.f, t.next);
        if (result == TAMIS_EFULL)
          risen += bytes_given(&t) > before ? bytes_given(&t) - before : 0;
        else
          assert_same(&t, "call", t.next, result, call(s, t.twin, t.next));
      }
      assert_same_figures(t.f, t.twin, s->name);
      assert_bytes(&t);
      /* A split may find out late that there is no room for counts. */
      assert_true(risen == 0 ||
                  (limit > 2 && s->options.kind == TAMIS_CUCKOO && !s->options.window));
      if (limit > 1)
        reload(&t, ENOUGH_BYTES);
      else
        shrink(&t);
      go_on(&t, 20000);
      compare(&t);
      end(&t);
    }
}

/* ---- unions that fail on the way ---- */

/* Some keys may have come, or segments been split for them: then nothing is compared, but no key is
 * missing. */
static void judge_failed_union(struct twins *t)
{
  tamis_stats a = stats_of(t->f), b = stats_of(t->twin);
  bool nothing = a.count == b.count && a.growths == b.growths;
  assert_true(nothing || t->s->options.kind == TAMIS_CUCKOO);
  for (uint64_t key = 0; key < t->next; key++)
    if (tamis_contains(t->twin, &key, sizeof key) && !tamis_contains(t->f, &key, sizeof key))
      fail_msg("%s: a failed union has lost a key", t->s->name);
  assert_bytes(t);
  if (!nothing)
    return;
  compare(t);
  if (t->options.max_bytes &&
      t->s->options.kind == TAMIS_CUCKOO) /* what waits for readers counts */
    reload(t, ENOUGH_BYTES);
  go_on(t, 3000);
  shrink(t);
  compare(t);
}

/* What `other` has for a union with few calls of the schedule. */
static uint64_t keys_for_union(const struct form *s)
{
  return s->options.growable && !s->options.window && s->options.kind != TAMIS_COUNTING_BLOOM ? 1000
                                                                                              : 20;
}

/* Each request of a union in turn is refused: those of the other filter, too. */
TEST_BETWEEN(unions_without_memory, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));) {
    int result;
    uint64_t k = 0;
    do {
      struct twins t = twins_of(s, 200, 300);
      tamis_filter *o = other(&t.options, keys_for_union(t.s));
      k++;
      arm(USER, ONCE, k);
      result = tamis_merge(t.f, o);
      refuse_none();
      assert_int_equal(result, faults.failures && result != TAMIS_OK ? TAMIS_ENOMEM : TAMIS_OK);
      k *= faults.failures > 0;
      tamis_destroy(o);
      if (result != TAMIS_OK)
        judge_failed_union(&t);
      end(&t);
    } while (k > 0);
  }
}

TEST_BETWEEN(unions_beyond_a_limit, start_afresh, NULL)
{
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned limit = 1; s->options.growable && limit <= 3; limit++) {
      struct twins t = begin((struct twins){.s = s}, 200, limit);
      go_on(&t, 150);
      tamis_filter *o = other(&t.options, keys_for_union(t.s));
      int result = tamis_merge(t.f, o);
      tamis_destroy(o);
      assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
      assert_true(stats_of(t.f).bytes <= t.options.max_bytes);
      if (result != TAMIS_OK)
        judge_failed_union(&t);
      end(&t);
    }
}
