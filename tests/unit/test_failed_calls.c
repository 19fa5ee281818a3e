/* SPDX-License-Identifier: MIT
 *
 * A call that fails leaves a filter as it was, for good.  Two filters come to one state by the same
 * calls.  Calls fail on the first one alone.  Then both get the same calls, and must give the same
 * results, the same figures and the same saved bytes.  What the figures call bytes is what the
 * allocator has given, and in the end all of it has come back.
 *
 * The calls that can fail, and where they do: in the test, or in the entry of failures[].
 *
 *    any call, for its arguments     invalid_arguments
 *    tamis_add, tamis_add_unique     adds_are_made_again, every_request_is_refused,
 *                                    calls_without_memory_are_forgotten,
 *                                    calls_beyond_a_limit_are_forgotten
 *    tamis_remove                    every_request_is_refused, removes_need_no_memory
 *    tamis_advance                   every_request_is_refused: it then keeps larger tables
 *    tamis_merge                     union_that_does_not_fit, union_beyond_capacity,
 *                                    unions_without_memory, unions_beyond_a_limit
 *    tamis_intersect, tamis_similarity
 *                                    intersections_that_fail
 *    tamis_save                      save_that_fails, save_without_memory
 *    tamis_load, tamis_saved_info    loads_that_fail
 *    tamis_save_file, tamis_load_file, tamis_map_file
 *                                    files_that_fail
 *    tamis_stats_text, tamis_stats_text_many
 *                                    texts_that_fail
 *    tamis_create                    creations_that_fail
 *
 * (A batch is so many calls: test_faults.c.  tamis_options_check, tamis_bytes_for, tamis_fpp_for and
 * tamis_get_stats know no filter, or change none.)
 */
#include "filter_unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the allocator ---- */

/* Requests `first` to `last` of those filters that may be refused any, counted from 1, are refused.
 * (Only the main thread asks; another one may release what has waited for readers.) */
static struct {
  uint64_t requests, first, last, refused;
  _Atomic size_t bytes;
} memory;

static void refuse(uint64_t first, uint64_t last)
{
  memory.requests = memory.refused = 0;
  memory.first = first;
  memory.last = last;
}

static void refuse_all(void)
{
  refuse(1, UINT64_MAX);
}

static void refuse_none(void)
{
  memory.first = memory.last = 0;
}

static void *allocate(void *context, size_t alignment, size_t size)
{
  uint64_t request = context ? 0 : ++memory.requests;
  if (request && request >= memory.first && request <= memory.last) {
    memory.refused++;
    return NULL;
  }
  memory.bytes += size;
  return aligned_alloc(alignment, (size + alignment - 1) & -alignment);
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment;
  memory.bytes -= size;
  free(block);
}

static const tamis_allocator allocator = {allocate, release, NULL};
static const tamis_allocator generous = {allocate, release, &memory}; /* refuses nothing */

/* ---- the filters ---- */

enum { CAPACITY = 3000, SEED = 42 };
enum { ENOUGH_BYTES = 1 << 24 }; /* a limit that none of them reaches */

static tamis_options options_of(const struct form *s, uint64_t capacity)
{
  tamis_options o = s->options;
  o.capacity = capacity, o.seed = SEED, o.allocator = &allocator;
  return o;
}

/* ---- the twins ---- */

/* The second filter never sees a call that fails. */
struct twins {
  const struct form *s;
  tamis_options options;
  tamis_filter *f, *twin;
  uint64_t next; /* of the schedule */
};

/* Call number `i` of the schedule: new keys, copies of a third of them, and many of a few.  A remove
 * takes a key that was added plainly. */
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
static struct twins twins_within(const struct form *s, uint64_t capacity, unsigned limit)
{
  struct twins t = {.s = s, .options = options_of(s, capacity)};
  assert_int_equal(tamis_bytes_for(&t.options, &t.options.max_bytes), TAMIS_OK);
  t.options.max_bytes *= limit;
  tamis_options of_twin = t.options;
  of_twin.allocator = &generous;
  refuse_none();
  t.f = make_with_options(&t.options), t.twin = make_with_options(&of_twin);
  return t;
}

static struct twins twins_of(const struct form *s, uint64_t capacity, uint64_t calls)
{
  struct twins t = twins_within(s, capacity, 0);
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

struct bytes {
  size_t size, most;
  unsigned char *data;
};

static int append(void *context, const void *data, size_t size)
{
  struct bytes *b = context;
  if (size > b->most - b->size)
    return -1;
  memcpy(b->data + b->size, data, size);
  b->size += size;
  return 0;
}

enum { MOST_SAVED = 1 << 18 };

static struct bytes saved(const tamis_filter *f)
{
  struct bytes b = {0, MOST_SAVED, malloc(MOST_SAVED)};
  assert_non_null(b.data);
  assert_int_equal(tamis_save(f, append, &b), TAMIS_OK);
  return b;
}

static int64_t take(void *context, void *data, size_t size)
{
  struct bytes *b = context;
  if (size > b->most - b->size)
    size = b->most - b->size;
  memcpy(data, b->data + b->size, size);
  b->size += size;
  return (int64_t) size;
}

static int load(const struct bytes *from, const tamis_allocator *with, uint64_t max_bytes,
                tamis_filter **out)
{
  tamis_load_options o = TAMIS_LOAD_OPTIONS_INIT;
  struct bytes b = {0, from->size, from->data};
  o.allocator = with, o.max_bytes = max_bytes;
  return tamis_load(&o, take, &b, out);
}

/* Saves a filter, and loads it in its own place. */
static void reload_one(tamis_filter **f, const tamis_allocator *with, uint64_t max_bytes)
{
  struct bytes b = saved(*f);
  tamis_destroy(*f);
  assert_int_equal(load(&b, with, max_bytes, f), TAMIS_OK);
  free(b.data);
}

/* With another limit, unless that is 0. */
static void reload(struct twins *t, uint64_t max_bytes)
{
  reload_one(&t->f, &allocator, max_bytes);
  reload_one(&t->twin, &generous, max_bytes);
}

/* What filters say that they take is what the allocator has given: at once, or when the thread that
 * releases what has waited for readers is through with it. */
static void assert_bytes(const struct twins *t)
{
  time_t end = time(NULL) + PATIENCE_SECONDS;
  size_t said, given;
  do {
    given = memory.bytes;
    said = (t->f ? stats_of(t->f).bytes : 0) + (t->twin ? stats_of(t->twin).bytes : 0);
  } while (said != given && time(NULL) < end && sched_yield() == 0);
  if (said != given)
    fail_msg("%s: %zu bytes are given, and the filters say %zu", t->s->name, given, said);
}

/* All but what counts the failures (refused_adds, failed_searches), what is a time, and the bytes
 * of each filter: memory that waits for readers is released by another thread. */
static void compare(const struct twins *t)
{
  assert_same_figures(t->f, t->twin, t->s->name);
  assert_int_equal(stats_of(t->f).evictions, stats_of(t->twin).evictions);
  assert_bytes(t);
  struct bytes x = saved(t->f), y = saved(t->twin);
  if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0)
    fail_msg("%s: the saved bytes differ", t->s->name);
  free(x.data), free(y.data);
}

static void end(struct twins *t)
{
  tamis_destroy(t->f), tamis_destroy(t->twin);
  t->f = t->twin = NULL;
  assert_bytes(t);
}

/* ---- calls that fail ---- */

static void invalid_arguments(struct twins *t)
{
  tamis_filter *f = t->f, *out;
  tamis_key keys[] = {{"a", 1}, {NULL, 1}};
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_add(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_many(f, keys, 2, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_many(f, keys, 2, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_add_many_hash(f, NULL, 2, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_many_hash(f, NULL, 2, NULL), TAMIS_EINVAL);
  assert_true(tamis_remove(f, NULL, 1) < 0);
  assert_true(t->s->options.window || tamis_advance(f) < 0);
  assert_int_equal(tamis_merge(f, f), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(f, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_intersect(f, NULL, &out), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(f, f, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_save(f, NULL, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_save_file(f, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_stats_text(f, TAMIS_JSON, NULL, NULL, NULL), TAMIS_EINVAL);
  stats.struct_size = 0;
  assert_int_equal(tamis_get_stats(f, &stats), TAMIS_EINVAL);
}

static void save_that_fails(struct twins *t)
{
  for (size_t most = 0; most < 3000; most += 500) {
    unsigned char data[3000];
    struct bytes b = {0, most, data};
    assert_int_equal(tamis_save(t->f, append, &b), TAMIS_EIO);
  }
}

static void save_without_memory(struct twins *t)
{
  struct bytes b = {0, MOST_SAVED, malloc(MOST_SAVED)};
  uint64_t k = 0;
  do {
    b.size = 0;
    k++;
    refuse(k, k);
    int result = tamis_save(t->f, append, &b);
    assert_int_equal(result, memory.refused ? TAMIS_ENOMEM : TAMIS_OK);
  } while (memory.refused);
  refuse_none();
  assert_true(k > 1);
  free(b.data);
}

static void texts_that_fail(struct twins *t)
{
  unsigned char data[8192];
  for (size_t most = 0; most < 100; most += 50) {
    struct bytes b = {0, most, data};
    assert_int_equal(tamis_stats_text(t->f, TAMIS_PROMETHEUS, "f", append, &b), TAMIS_EIO);
  }
  const tamis_filter *two[] = {t->f, t->f};
  const char *names[] = {"f", "g"};
  struct bytes b = {0, sizeof data, data};
  refuse_all();
  assert_int_equal(tamis_stats_text_many(two, names, 2, TAMIS_PROMETHEUS, append, &b),
                   TAMIS_ENOMEM);
  refuse_none();
}

static void files_that_fail(struct twins *t)
{
  static const char path[] = "/dev/null/none";
  tamis_filter *out;
  assert_int_equal(tamis_save_file(t->f, path), TAMIS_EIO);
  assert_int_equal(tamis_load_file(NULL, path, &out), TAMIS_EIO);
  assert_int_equal(tamis_map_file(NULL, path, &out), TAMIS_EIO);
}

/* ---- loads that fail, beside the filter ---- */

static void load_without_memory(const struct twins *t, const struct bytes *b)
{
  tamis_filter *out;
  for (uint64_t k = 1;; k++) {
    refuse(k, k);
    int result = load(b, &allocator, 0, &out);
    tamis_destroy(out);
    if (result == TAMIS_OK) /* refused all the same: it has asked for more than it needs */
      assert_true(k > 1);
    else
      assert_int_equal(result, TAMIS_ENOMEM);
    assert_bytes(t);
    if (!memory.refused)
      break;
  }
  refuse_none();
}

static void loads_that_fail(struct twins *t)
{
  struct bytes b = saved(t->f), part;
  tamis_filter *out;
  load_without_memory(t, &b);
  assert_int_equal(load(&b, &allocator, 500, &out), TAMIS_EFULL);
  for (size_t at = 0; at < b.size; at += at < 512 ? 64 : b.size / 16) {
    b.data[at] ^= 4;
    assert_true(load(&b, &allocator, 0, &out) < 0);
    assert_null(out);
    b.data[at] ^= 4;
    part = (struct bytes){at, 0, b.data};
    assert_int_equal(load(&part, &allocator, 0, &out), TAMIS_ECORRUPT);
  }
  part = (struct bytes){0, 100, b.data};
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(take, &part, &stats), TAMIS_ECORRUPT);
  free(b.data);
}

static void creations_that_fail(struct twins *t)
{
  tamis_filter *out;
  tamis_options o = t->options;
  o.max_bytes = 100;
  assert_int_equal(tamis_create(&o, &out), TAMIS_EFULL);
  refuse_all();
  assert_int_equal(tamis_create(&t->options, &out), TAMIS_ENOMEM);
  refuse_none();
}

/* ---- unions that fail ---- */

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

static void union_that_does_not_fit(struct twins *t)
{
  tamis_options seed = t->options, size = t->options, kind = t->options;
  seed.seed++;
  size.capacity *= 7;
  kind.kind = kind.kind == TAMIS_BLOOM ? TAMIS_CUCKOO : TAMIS_BLOOM;
  const tamis_options *const options[] = {&seed, &size, &kind};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *o = other(options[i], 100);
    assert_int_equal(tamis_merge(t->f, o), TAMIS_EINVAL);
    tamis_destroy(o);
  }
}

/* What grows takes the keys; but a window has no room for them in its only layer. */
static void union_beyond_capacity(struct twins *t)
{
  if (t->s->options.growable && !t->s->options.window)
    return;
  tamis_filter *o = other(&t->options, CAPACITY / 5 * 4);
  assert_int_equal(tamis_merge(t->f, o), t->s->options.growable ? TAMIS_EUNSUPPORTED : TAMIS_EFULL);
  tamis_destroy(o);
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

static void (*const failures[])(struct twins *t) = {
    invalid_arguments,     save_that_fails,         save_without_memory, texts_that_fail,
    files_that_fail,       loads_that_fail,         creations_that_fail, union_that_does_not_fit,
    union_beyond_capacity, intersections_that_fail,
};

static void failed_calls_leave_no_trace(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));)
    for (size_t k = 0; k < sizeof failures / sizeof failures[0]; k++) {
      struct twins t = twins_of(s, CAPACITY, 5000);
      failures[k](&t);
      compare(&t);
      go_on(&t, 20000 / SCALE);
      shrink(&t);
      compare(&t);
      end(&t);
    }
}

/* ---- memory is refused ---- */

/* An add that was refused memory, many times, is made again once there is memory. */
static void adds_are_made_again(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));) {
    struct twins t = twins_of(s, CAPACITY, 0);
    for (uint64_t key = 0; key < 20000; key++) {
      int result = TAMIS_ENOMEM;
      refuse_all();
      for (int j = 0; j < 12 && result == TAMIS_ENOMEM; j++)
        result = tamis_add(t.f, &key, sizeof key);
      refuse_none();
      if (result == TAMIS_ENOMEM) {
        assert_same(&t, "look-up", key, tamis_contains(t.f, &key, sizeof key),
                    tamis_contains(t.twin, &key, sizeof key));
        result = tamis_add(t.f, &key, sizeof key);
      }
      assert_same(&t, "key", key, result, tamis_add(t.twin, &key, sizeof key));
    }
    compare(&t);
    end(&t);
  }
}

/* Removes need no memory, however many copies there are, also after counts were packed as tightly as
 * they are in a filter that is loaded within a limit. */
static void removes_need_no_memory(void **state)
{
  (void) state;
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

/* Makes call `i` again if it fails, with memory from then on.  A call that fails keeps no memory;
 * but what a cuckoo filter needs for its first split may stay. */
static bool call_again(const struct twins *t, uint64_t i)
{
  size_t before = memory.bytes;
  int result = call(t->s, t->f, i);
  bool failed = result == TAMIS_ENOMEM;
  if (failed) {
    assert_true(memory.bytes <= before ||
                (t->s->options.kind == TAMIS_CUCKOO && stats_of(t->f).growths == 0));
    memory.last = memory.requests;
    result = call(t->s, t->f, i);
  }
  assert_same(t, "call", i, result, call(t->s, t->twin, i));
  return failed;
}

/* The k-th request of all is refused, and those that the same call makes after it if `all`.
 * Returns whether there was one. */
static bool refuse_request(const struct form *s, uint64_t k, bool all)
{
  struct twins t = twins_of(s, 20, 0);
  bool fails = false, stays = false;
  refuse(k, all ? UINT64_MAX : k);
  for (; t.next < 3000; t.next++) {
    const uint64_t before = memory.refused;
    bool failed = call_again(&t, t.next);
    /* A key of an older layer that finds none in the newest one is renewed where it is. */
    stays |=
        !failed && memory.refused > before && s->options.kind == TAMIS_BLOOM && s->options.window;
    fails |= failed;
  }
  if (!fails) /* some requests are refused in silence: something is done later, or not at all */
    shrink(&t);
  bool refused = memory.refused;
  refuse_none();
  if ((fails && !stays) || !refused)
    compare(&t);
  go_on(&t, 1000);
  shrink(&t);
  if ((fails && !stays) || !refused)
    compare(&t);
  end(&t);
  return refused;
}

static void every_request_is_refused(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned all = 0; all < 2; all++)
      for (uint64_t k = 1; refuse_request(s, k, all); k += SCALE)
        ;
}

/* Calls that were refused memory are not made again, and the twin never sees them.  A cuckoo filter
 * that grows remembers that a search has failed, and may then split its segment some keys before
 * the twin. */
static void calls_without_memory_are_forgotten(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));) {
    struct twins t = twins_of(s, 300, 0);
    for (unsigned round = 0; round < 40 / SCALE; round++) {
      refuse_all();
      for (unsigned j = 0; j < 60; j++, t.next++) {
        int result = call(s, t.f, t.next);
        if (result != TAMIS_ENOMEM)
          assert_same(&t, "call", t.next, result, call(s, t.twin, t.next));
      }
      refuse_none();
      go_on(&t, 200);
      if (s->options.kind == TAMIS_CUCKOO && s->options.growable && !s->options.window)
        assert_bytes(&t);
      else
        compare(&t);
    }
    end(&t);
  }
}

/* ---- limits ---- */

/* Calls that reach a limit are not made again, and the twin never sees them.  Then there is room:
 * by removes and periods that end, or by a higher limit.  (A cuckoo filter that has room for a split
 * within its limit gets a higher one, too: what waits for readers counts.) */
static void calls_beyond_a_limit_are_forgotten(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned limit = 1; limit <= 3; limit++) {
      struct twins t = twins_within(s, CAPACITY, s->options.growable ? limit : 0);
      size_t risen = 0;
      for (; t.next < 30000; t.next++) {
        size_t before = memory.bytes;
        int result = call(s, t.f, t.next);
        if (result == TAMIS_EFULL)
          risen += memory.bytes > before ? memory.bytes - before : 0;
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
static void unions_without_memory(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));) {
    int result;
    uint64_t k = 0;
    do {
      struct twins t = twins_of(s, 200, 300);
      tamis_filter *o = other(&t.options, keys_for_union(t.s));
      k++;
      refuse(k, k);
      result = tamis_merge(t.f, o);
      assert_int_equal(result, memory.refused && result != TAMIS_OK ? TAMIS_ENOMEM : TAMIS_OK);
      k *= memory.refused > 0;
      refuse_none();
      tamis_destroy(o);
      if (result != TAMIS_OK)
        judge_failed_union(&t);
      end(&t);
    } while (k > 0);
  }
}

static void unions_beyond_a_limit(void **state)
{
  (void) state;
  for (const struct form *s = NULL; (s = next_form(s));)
    for (unsigned limit = 1; s->options.growable && limit <= 3; limit++) {
      struct twins t = twins_within(s, 200, limit);
      go_on(&t, 150);
      tamis_filter *o = other(&t.options, keys_for_union(t.s));
      int result = tamis_merge(t.f, o);
      tamis_destroy(o);
      assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
      if (result != TAMIS_OK)
        judge_failed_union(&t);
      end(&t);
    }
}

/* So that a test that fails does not make the next ones fail too. */
static int start_afresh(void **state)
{
  (void) state;
  refuse_none();
  memory.bytes = 0;
  return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, start_afresh)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(failed_calls_leave_no_trace),
      TEST(adds_are_made_again),
      TEST(removes_need_no_memory),
      TEST(every_request_is_refused),
      TEST(calls_without_memory_are_forgotten),
      TEST(calls_beyond_a_limit_are_forgotten),
      TEST(unions_without_memory),
      TEST(unions_beyond_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
