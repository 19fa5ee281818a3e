/* SPDX-License-Identifier: MIT
 *
 * All pairs of a call that stands at a hook and a call that runs meanwhile.  Built with the hooks.
 *
 * Each kind of filter has a script, a fixed sequence of calls.  A first run of the script notes the
 * hooks that each call passes, and chooses cases: a call of the script, and a hook that it passes,
 * if few calls with the same function have passed that hook before.  So a new hook in the library
 * is tried as soon as the script comes by it; the last test fails if no script does.
 *
 * In each case, and with each of the companions below, the script is run up to the call; the call
 * runs in a thread until it stands at the hook; the companion, a sequence of calls, runs in another
 * thread, until it has returned or waits for a stripe or a layer; and the first call goes on.  Then
 * pairs_model.h says whether the answers are possible, and what the filters hold.  Nothing is
 * timed.
 */
#include "calls.h"
#include "cuckoo_schedule.h"
#include "pairs_model.h"
#include "saved_unit.h"

#include <glob.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

enum { DIRTY = 1 << 14 }; /* more than any filter takes here; the buffer of a save is larger */

static _Atomic size_t allocated;

static void *allocate(void *context, size_t alignment, size_t size)
{
  void *block;
  (void) context;
  if (posix_memalign(&block, alignment, size))
    return NULL;
  memset(block, 0xA5, size < DIRTY ? size : DIRTY);
  atomic_fetch_add(&allocated, size);
  return block;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context;
  (void) alignment;
  atomic_fetch_sub(&allocated, size);
  free(block);
}

static const tamis_allocator allocator = {allocate, release, NULL};

/* ---- kinds of filter ---- */

enum { KEYS = 128 };

struct kind {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
  unsigned window;
  uint64_t capacity;
  double fpp;
  unsigned added;     /* how many keys the script adds */
  bool is_tiny;       /* a cuckoo filter that is opened a second generation soon */
  uint64_t max_bytes; /* beside what the new filter takes; 0: no limit */
};

static const struct kind kinds[] = {
    {"blocked", TAMIS_BLOOM, .capacity = 48, .fpp = 1e-4, .added = 56},
    {"blocked, growable", TAMIS_BLOOM, .growable = true, .capacity = 16, .fpp = 1e-4, .added = 56},
    {"blocked, limited", TAMIS_BLOOM, .growable = true, .capacity = 16, .fpp = 1e-4, .added = 56,
     .max_bytes = 500},
    {"classic", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, .capacity = 48, .fpp = 1e-6, .added = 56},
    {"classic, growable", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, true, .capacity = 16, .fpp = 1e-6,
     .added = 56},
    {"word", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, .capacity = 48, .fpp = 0.0025, .added = 56},
    {"word, growable", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, true, .capacity = 16, .fpp = 0.0025,
     .added = 56},
    {"word, limited", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, true, .capacity = 16, .fpp = 0.0025,
     .added = 56, .max_bytes = 200},
    {"counting", TAMIS_COUNTING_BLOOM, .capacity = 96, .fpp = 1e-4, .added = 56},
    {"counting, growable", TAMIS_COUNTING_BLOOM, .growable = true, .capacity = 96, .fpp = 1e-4,
     .added = 56},
    {"cuckoo", TAMIS_CUCKOO, .capacity = 4, .fpp = 3e-4, .added = 40},
    {"cuckoo, growable", TAMIS_CUCKOO, .growable = true, .capacity = 4, .fpp = 1e-5, .added = 72},
    {"cuckoo, two generations", TAMIS_CUCKOO, .growable = true, .capacity = 32, .fpp = 0.003,
     .added = 76, .is_tiny = true},
    {"window of Bloom", TAMIS_BLOOM, .window = 1, .capacity = 4, .fpp = 1e-5, .added = 30},
    {"window of Bloom, growable", TAMIS_BLOOM, .growable = true, .window = 1, .capacity = 4,
     .fpp = 1e-5, .added = 44},
    {"window of cuckoo", TAMIS_CUCKOO, .window = 1, .capacity = 4, .fpp = 1e-5, .added = 30},
    {"window of cuckoo, growable", TAMIS_CUCKOO, .growable = true, .window = 1, .capacity = 4,
     .fpp = 1e-5, .added = 44},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind;
static struct model model;
static uint64_t hashes[KEYS];
static tamis_filter *filters[FILTERS];

static bool removes(void)
{
  return kind->kind != TAMIS_BLOOM;
}

static tamis_filter *make(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *f = NULL;
  if (kind->is_tiny)
    return make_with(64 / LANES, kind->fpp, 1, 1).filter;
  options.kind = kind->kind;
  options.layout = kind->layout;
  options.growable = kind->growable;
  options.window = kind->window;
  options.capacity = kind->capacity;
  options.fpp = kind->fpp;
  options.seed = 42;
  options.stripes = 4;
  options.allocator = &allocator;
  if (kind->max_bytes) {
    assert_int_equal(tamis_bytes_for(&options, &options.max_bytes), TAMIS_OK);
    options.max_bytes += kind->max_bytes;
  }
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

static void make_filters(void)
{
  for (unsigned i = 0; i < FILTERS; i++)
    filters[i] = make();
}

static void destroy_filters(void)
{
  for (unsigned i = 0; i < FILTERS; i++)
    tamis_destroy(filters[i]);
  assert_int_equal(atomic_load(&allocated), 0);
}

/* Whether a filter with all keys but this one finds it. */
static bool is_hidden(unsigned key)
{
  tamis_filter *f = make();
  for (unsigned i = 0; i < KEYS; i++)
    if (i != key)
      (void) tamis_add_hash(f, hashes[i]);
  bool hidden = tamis_contains_hash(f, hashes[key]);
  tamis_destroy(f);
  return hidden;
}

/* Keys that are not false positives beside one another.  (At higher rates, the last bit of a key
 * that is being added is now and then set by another one of them meanwhile.  That hides the key,
 * too.) */
static void choose_keys(void)
{
  uint64_t next = 1000;
  for (unsigned i = 0; i < KEYS; i++)
    hashes[i] = next++;
  for (unsigned i = 0, good = 0; good < KEYS; i = (i + 1) % KEYS)
    if (is_hidden(i))
      hashes[i] = next++, good = 0;
    else
      good++;
}

/* ---- steps ---- */

static struct bytes saved[THREADS];

static int drop(void *unused, const void *data, size_t size)
{
  (void) unused, (void) data, (void) size;
  return 0;
}

static int save(const tamis_filter *f, struct bytes *b)
{
  b->size = 0;
  return tamis_save(f, write_bytes, b);
}

static tamis_filter *load(const struct bytes *b)
{
  struct source from = source_of(b);
  tamis_filter *f;
  return tamis_load(NULL, read_source, &from, &f) == TAMIS_OK ? f : NULL;
}

/* All that only reads. */
static int read_figures(const tamis_filter *f, const tamis_filter *other)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  tamis_filter *common = NULL;
  int result = tamis_get_stats(f, &stats);
  if (result == TAMIS_OK)
    result = tamis_stats_text(f, TAMIS_JSON, "f", drop, NULL);
  (void) tamis_similarity(f, other, &similarity);
  if (tamis_intersect(f, other, &common) == TAMIS_OK)
    tamis_destroy(common);
  return result;
}

/* A filter several times over: the answer is that of the last look-up. */
static int contains_each(const tamis_filter *f, uint64_t hash)
{
  enum { N = 8 };
  const tamis_filter *all[N] = {f, f, f, f, f, f, f, f};
  bool found[N];
  (void) tamis_contains_each_hash(all, N, hash, found);
  return found[N - 1];
}

static int make_step(const struct step *step, unsigned thread)
{
  tamis_filter *f = filters[step->at], *other = filters[1 - step->at];
  uint64_t hash = hashes[step->key];
  switch (step->op) {
  case ADD:
    return tamis_add_hash(f, hash);
  case UNIQUE:
    return tamis_add_unique_hash(f, hash);
  case REMOVE:
    return tamis_remove_hash(f, hash);
  case CONTAINS:
    return tamis_contains_hash(f, hash);
  case EACH:
    return contains_each(f, hash);
  case COUNT:
    return (int) tamis_count_hash(f, hash);
  case ADVANCE:
    return tamis_advance(f);
  case MERGE:
    return tamis_merge(f, other);
  case SAVE:
    return save(f, &saved[thread]);
  default:
    return read_figures(f, other);
  }
}

struct steps {
  unsigned n, thread;
  struct step all[MOST_STEPS];
  int results[MOST_STEPS];
};

static void append(struct steps *s, enum op op, unsigned at, unsigned key)
{
  bool is_possible = (op != REMOVE || removes()) && (op != ADVANCE || kind->window);
  if (!is_possible)
    return;
  assert_true(s->n < MOST_STEPS);
  s->all[s->n++] = (struct step){op, at, key};
}

static void append_some(struct steps *s, enum op op, unsigned at, unsigned from, unsigned to)
{
  for (unsigned key = from; key < to; key++)
    append(s, op, at, key);
}

static struct steps stopped, beside; /* those of the two threads */

static int make_steps(struct call *call)
{
  struct steps *s = call->context;
  for (unsigned i = 0; i < s->n; i++)
    s->results[i] = make_step(&s->all[i], s->thread);
  return 0;
}

/* ---- the script ---- */

enum { COPIES = 10 };

static struct steps script;
static unsigned late; /* from this step on, the filter is nearly full, or about to grow */
static struct key_state before[KEYS]; /* when the script has run up to a step */

static void write_script(void)
{
  struct steps *s = &script;
  const unsigned added = kind->added;
  s->n = late = 0;
  append_some(s, ADD, 1, 1, 3); /* of the other filter */
  append_some(s, ADD, 0, 2, 4);
  append(s, MERGE, 0, 0); /* of a few keys, for which there is room in all kinds */
  append_some(s, ADD, 1, 0, 8);
  for (unsigned key = 0; key < 12; key++) {
    append(s, key % 2 ? UNIQUE : ADD, 0, key);
    append(s, CONTAINS, 0, key);
  }
  append(s, MERGE, 0, 0);
  append(s, UNIQUE, 0, 3);
  append(s, CONTAINS, 0, 100);
  append(s, EACH, 0, 100);
  append(s, REMOVE, 0, 9); /* its only copy */
  append(s, REMOVE, 0, 3);
  append(s, SAVE, 0, 0);
  append(s, FIGURES, 0, 0);
  append(s, ADVANCE, 0, 0);
  append_some(s, COUNT, 0, 2, 6);
  append_some(s, ADD, 0, 2, 6);
  append_some(s, REMOVE, 0, 4, 5);
  append_some(s, UNIQUE, 0, 6, 8);
  for (unsigned key = 12; key < added; key++) {
    append(s, key % 3 ? ADD : UNIQUE, 0, key);
    if (key < added * 2 / 3)
      continue;
    if (!late)
      late = s->n;
    append(s, CONTAINS, 0, key - 8);
    append(s, COUNT, 0, key - 9);
    if (key % 4 == 0)
      append(s, REMOVE, 0, key - 10);
  }
  append_some(s, CONTAINS, 0, added - 4, added + 4);
  append_some(s, EACH, 0, added - 1, added + 1);
  append_some(s, COUNT, 0, added - 4, added + 2);
  append(s, SAVE, 0, 0);
  append_some(s, ADD, 1, 8, 12);
  append(s, ADVANCE, 1, 0);
  append_some(s, ADD, 0, 0, 12); /* younger than there */
  append(s, MERGE, 0, 0);
  append(s, MERGE, 1, 0); /* into the smaller filter */
  append(s, REMOVE, 0, 10);
  append(s, ADVANCE, 0, 0);
  append_some(s, ADD, 0, 20, 22);
  for (unsigned i = 0; i < COPIES; i++)
    append_some(s, ADD, 0, 20, 22);
  append_some(s, COUNT, 0, 20, 22);
  append_some(s, REMOVE, 0, 20, 22);
  append(s, SAVE, 0, 0);
  for (unsigned i = 0; i < COPIES; i++)
    append_some(s, REMOVE, 0, 20, 22);
  for (unsigned i = 0; i < 4; i++)
    append_some(s, REMOVE, 0, 0, added);
  append(s, ADVANCE, 0, 0);
  append_some(s, UNIQUE, 0, 30, 50);
}

/* Applies a step of the script to the model. */
static void follow(const struct step *step, int result)
{
  for (unsigned key = is_of_key(step->op) ? step->key : 0; key < KEYS; key++) {
    struct changes changes = {0};
    note_step(&changes, step, result, 0);
    for (unsigned i = 0; i < changes.n; i++)
      if (!may_come(&model, &before[key], &changes.all[i], step->op == MERGE && result != TAMIS_OK))
        fail_msg("%s: %s of key %u returns %d", kind->name, op_names[step->op], key, result);
    if (step->op == MERGE && result == TAMIS_OK)
      unite_all(&model, &before[key], step->at, 0);
    if (is_of_key(step->op))
      break;
  }
}

static void run_script(unsigned n)
{
  memset(before, 0, sizeof before);
  make_filters();
  for (unsigned i = 0; i < n; i++)
    follow(&script.all[i], make_step(&script.all[i], 0));
  for (unsigned key = 0; key < KEYS; key++) /* what a save of the script had is of no interest */
    for (unsigned i = 0; i < THREADS; i++)
      before[key].saved[i] = before[key].aged[i] = (struct copies){0};
}

/* ---- the hooks of the library ---- */

enum { MOST_HOOKS = 128, NAME = 48 };

static struct hook_name {
  char name[NAME];
  bool reached;
} hooks[MOST_HOOKS];
static unsigned hook_count;

/* No call stops at these, and none need come there. */
static const struct {
  const char *name, *reason;
} passed_over[] = {
    {"reclaim_begun", "only the thread of the library that waits for readers comes there"},
    {"reclaim_waited", "as reclaim_begun"},
    {"backlog_moved", "whether a call comes there depends on when a grace period has ended, and it "
                      "holds a mutex of the process, for which others would wait at no hook"},
    {"window_layer_released",
     "whether a call comes there depends on when a grace period has ended"},
    {"window_jump_begun", "only tamis_advance_to comes there, whose jumps the model searches"},
    {"counted_phase_read", "only threads come there that cannot be registered as readers"},
};

static bool is_left_out(const char *name)
{
  for (unsigned i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
    if (strcmp(passed_over[i].name, name) == 0)
      return true;
  return false;
}

static unsigned hook_of(const char *name)
{
  unsigned i = 0;
  while (i < hook_count && strcmp(hooks[i].name, name) != 0)
    i++;
  return i;
}

static void read_hooks_of(const char *path)
{
  char line[256], name[NAME];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *at = strstr(line, "HOOK(");
    if (line[0] == '#' || !at || sscanf(at, "HOOK(%47[a-z_]);", name) != 1)
      continue;
    if (!is_left_out(name) && hook_of(name) == hook_count) {
      assert_true(hook_count < MOST_HOOKS);
      memcpy(hooks[hook_count++].name, name, sizeof name);
    }
  }
  fclose(file);
}

static int read_hooks(void **state)
{
  (void) state;
  glob_t sources;
  assert_int_equal(glob(LIBRARY "/*/*.[ch]", 0, NULL, &sources), 0);
  for (size_t i = 0; i < sources.gl_pathc; i++)
    read_hooks_of(sources.gl_pathv[i]);
  globfree(&sources);
  return hook_count == 0;
}

/* ---- cases ---- */

struct pause {
  unsigned step, hook, nth;
  unsigned every; /* of so many companions it meets one */
};

enum { MOST_CASES = 512, MOST_PASSED = 256, TRIES = 2, TRIES_OF_READS = 8 };

static struct pause cases[MOST_CASES];
static unsigned case_count;
static unsigned passed[MOST_PASSED], passed_count;

static void note_hook(const char *name)
{
  unsigned hook = hook_of(name);
  if (hook == hook_count)
    return; /* one of a test */
  hooks[hook].reached = true;
  if (passed_count < MOST_PASSED)
    passed[passed_count++] = hook;
}

static void add_case(struct pause p)
{
  assert_true(case_count < MOST_CASES);
  cases[case_count++] = p;
}

/* The call stops at the hook when it comes there first, and at a union or a save also in the middle
 * and when it comes there for the last time.  The first call of its function that does so meets all
 * companions; others meet a part of them.  Reads are tried with several keys, as few are moved. */
static void add_cases(unsigned step, unsigned tried[MOST_HOOKS])
{
  const enum op op = script.all[step].op;
  const bool reads = step >= late && (op == CONTAINS || op == EACH || op == COUNT);
  unsigned times[MOST_HOOKS] = {0};
  for (unsigned i = 0; i < passed_count; i++)
    times[passed[i]]++;
  for (unsigned hook = 0; hook < hook_count; hook++) {
    if (!times[hook] || tried[hook]++ >= (reads ? TRIES_OF_READS : TRIES))
      continue;
    add_case((struct pause){step, hook, 1, tried[hook] == 1 ? 1 : 4});
    if (times[hook] > 1)
      add_case((struct pause){step, hook, times[hook], 4});
    if (times[hook] > 2 && !is_of_key(op))
      add_case((struct pause){step, hook, (times[hook] + 1) / 2, 2});
  }
}

static void choose_cases(void)
{
  static unsigned tried[2][OPS][MOST_HOOKS];
  memset(tried, 0, sizeof tried);
  bool united = false;
  case_count = 0;
  run_script(0);
  for (unsigned i = 0; i < script.n; i++) {
    stopped = (struct steps){.n = 1, .all = {script.all[i]}};
    struct call call = {.whole = make_steps, .context = &stopped};
    passed_count = 0;
    atomic_store(&tamis__hook, note_hook);
    start(&call); /* a thread that remembers nothing, as later */
    finish(&call);
    atomic_store(&tamis__hook, NULL);
    follow(&script.all[i], stopped.results[0]);
    united |= script.all[i].op == MERGE && stopped.results[0] == TAMIS_OK;
    add_cases(i, tried[i >= late][script.all[i].op]);
  }
  destroy_filters();
  assert_true(united);
}

/* ---- companions ---- */

/* Of which keys a companion makes a call: none, the one at which a call stands, those that the script never
 * adds, all up to them, all that it adds; the present ones, with that key or without. */
enum keys { NONE, SAME, FREE, UP_TO_FREE, ADDED, FIRST, SECOND, ALL, PRESENT, OTHERS };
enum { MANY = 30 };

/* The calls that run while a call stands at a hook. */
static const struct part {
  enum op op;
  enum keys keys;
  unsigned at;
} companions[][5] = {
    {{UNIQUE, SAME, 0}, {COUNT, SAME, 0}},
    {{ADD, SAME, 0}, {CONTAINS, SAME, 0}},
    {{REMOVE, SAME, 0}},
    {{REMOVE, SAME, 0}, {UNIQUE, SAME, 0}},
    {{UNIQUE, SAME, 0}, {REMOVE, SAME, 0}, {COUNT, SAME, 0}},
    {{CONTAINS, ALL, 0}},
    {{COUNT, ALL, 0}},
    {{ADD, FREE, 0}},
    {{UNIQUE, UP_TO_FREE, 0}},
    {{REMOVE, OTHERS, 0}},
    {{ADVANCE, NONE, 0}},
    {{ADVANCE, NONE, 0}, {ADVANCE, NONE, 0}, {UNIQUE, SAME, 0}},
    {{SAVE, NONE, 0}},
    {{MERGE, NONE, 0}},
    {{MERGE, NONE, 1}},
    /* the filter that a union reads changes */
    {{UNIQUE, SAME, 1}, {ADD, FREE, 1}, {REMOVE, FIRST, 1}, {ADVANCE, NONE, 1}},
    {{FIGURES, NONE, 0}},
    {{REMOVE, PRESENT, 0}, {UNIQUE, ADDED, 0}},
    {{ADD, SECOND, 0}, {ADD, SECOND, 0}, {ADD, SECOND, 0}, {ADD, SECOND, 0}}, /* copies */
};
enum { COMPANIONS = sizeof companions / sizeof *companions, PARTS = 5 };

static void append_part(struct steps *s, const struct part *p, unsigned key)
{
  const unsigned added = kind->added;
  const struct {
    unsigned from, to;
  } ranges[] = {
      {0, 1}, {key, key + 1}, {added, added + MANY}, {0, added + MANY}, {0, added}, {0, 4},
      {0, 8}, {0, KEYS}};
  if (p->keys < PRESENT) {
    append_some(s, p->op, p->at, ranges[p->keys].from, ranges[p->keys].to);
    return;
  }
  for (unsigned i = 0; i < KEYS && removes(); i++)
    for (unsigned n = i == key && p->keys == OTHERS ? 0 : before[i].in[0].n; n > 0; n--)
      append(s, p->op, p->at, i);
}

/* False: the kind has no such. */
static bool companion(unsigned number, unsigned key, struct steps *s)
{
  s->n = 0;
  for (unsigned i = 0; i < PARTS; i++)
    if (companions[number][i].op != ADD || companions[number][i].keys != NONE) /* left out */
      append_part(s, &companions[number][i], key);
  return s->n > 0;
}

/* ---- what must hold afterwards ---- */

static void say_case(const struct pause *p, unsigned number)
{
  const struct step *step = &script.all[p->step];
  fail_msg("%s: step %u, %s of key %u in filter %u, at %s (%u), beside companion %u", kind->name,
           p->step, op_names[step->op], step->key, step->at, hooks[p->hook].name, p->nth, number);
}

static const struct pause *now; /* what is tried, with which companion */
static unsigned beside_it;

static void expect(bool holds, const char *what)
{
  if (!holds) {
    printf("%s\n", what);
    say_case(now, beside_it);
  }
}

static void expect_valid(const tamis_filter *f)
{
  const char *reason = "";
  expect(filter_validate(f, &reason), reason);
}

/* How many periods end until the keys are forgotten. */
static void find_ages(tamis_filter *f, unsigned at, struct found found[KEYS])
{
  for (unsigned periods = 1; periods <= model.periods; periods++) {
    assert_int_equal(tamis_advance(f), TAMIS_OK);
    for (unsigned key = 0; key < KEYS; key++)
      if (found[key].in[at].n && !found[key].in[at].left && !tamis_contains_hash(f, hashes[key]))
        found[key].in[at].left = periods;
  }
}

static uint64_t find_counts(tamis_filter *f, unsigned at, struct found found[KEYS])
{
  uint64_t sum = 0;
  for (unsigned key = 0; key < KEYS; key++)
    sum += found[key].in[at].n = (unsigned) tamis_count_hash(f, hashes[key]);
  return sum;
}

/* A key that is removed and added again, while a window of several layers is saved, goes to the
 * newest layer; so it may be in the saved filter once in each of two layers. */
static bool may_be_saved_twice(void)
{
  return kind->window && kind->growable && removes();
}

/* A key of an older layer that is added to a window of the Bloom kind goes to the newest one, too. */
static bool is_count_of(uint64_t count, uint64_t sum)
{
  return kind->window && kind->growable && !removes() ? count >= sum && count <= 2 * sum
                                                      : count == sum;
}

/* A saved filter has the copies that its keys have, and no more. */
static void find_saved(unsigned thread, struct found found[KEYS])
{
  tamis_filter *f = load(&saved[thread]);
  uint64_t sum = 0;
  expect(f, "what was saved is not loaded");
  expect_valid(f);
  for (unsigned key = 0; key < KEYS; key++)
    sum += found[key].saved[thread] = (unsigned) tamis_count_hash(f, hashes[key]);
  if ((kind->kind == TAMIS_CUCKOO || kind->window) && !may_be_saved_twice())
    expect(is_count_of(stats_of(f).count, sum),
           "the count of a saved filter is not that of its copies");
  tamis_destroy(f);
}

/* A filter is valid, counts its keys, and is the same when it is saved and loaded. */
static void check_filter(unsigned at, uint64_t count, struct found found[KEYS], bool estimates)
{
  tamis_filter *f = filters[at], *loaded;
  expect_valid(f);
  uint64_t sum = find_counts(f, at, found);
  expect(estimates || is_count_of(count, sum), "the count is not that of the copies");
  static struct bytes whole;
  expect(save(f, &whole) == TAMIS_OK, "it is not saved");
  expect((loaded = load(&whole)) != NULL, "what was saved is not loaded");
  expect_valid(loaded);
  for (unsigned key = 0; key < KEYS; key++)
    expect(tamis_count_hash(loaded, hashes[key]) == found[key].in[at].n, "a loaded filter differs");
  expect(stats_of(loaded).count == count, "a loaded filter counts otherwise");
  tamis_destroy(loaded);
}

/* A counter of a counting filter that reaches 15 stays there.  (Keys share counters.) */
static bool may_be_stuck(unsigned at, const struct found found[KEYS])
{
  bool many = false;
  for (unsigned key = 0; key < KEYS; key++)
    many |= found[key].in[at].n > 10;
  return many && kind->kind == TAMIS_COUNTING_BLOOM;
}

/* Nothing is left when all copies have been removed. */
static void remove_all(tamis_filter *f, unsigned at, const struct found found[KEYS], bool estimates)
{
  for (unsigned key = 0; key < KEYS; key++)
    for (unsigned n = found[key].in[at].n; n > 0; n--)
      expect(tamis_remove_hash(f, hashes[key]) == TAMIS_OK, "a copy is not removed");
  for (unsigned key = 0; key < KEYS; key++)
    expect(!tamis_contains_hash(f, hashes[key]), "a key is left");
  expect(estimates || stats_of(f).count == 0, "copies are left");
  expect_valid(f);
}

static void changes_of(const struct steps *s, unsigned key, struct changes *out)
{
  out->n = 0;
  for (unsigned i = 0; i < s->n; i++)
    if (!is_of_key(s->all[i].op) || s->all[i].key == key)
      note_step(out, &s->all[i], s->results[i], s->thread);
}

static bool has(const struct steps *s, enum op op)
{
  for (unsigned i = 0; i < s->n; i++)
    if (s->all[i].op == op)
      return true;
  return false;
}

/* Whether other keys are added while the add of a Bloom filter stands still, and so may set the last
 * bits that its key lacks: then nobody wins, and nobody counts the key. */
static bool meets_other_keys(void)
{
  const struct step *step = &stopped.all[0];
  if (kind->kind != TAMIS_BLOOM || kind->window || kind->layout == TAMIS_LAYOUT_WORD ||
      (step->op != ADD && step->op != UNIQUE))
    return false;
  for (unsigned i = 0; i < beside.n; i++)
    if ((beside.all[i].op == ADD || beside.all[i].op == UNIQUE) && beside.all[i].key != step->key)
      return true;
  return has(&beside, MERGE);
}

static bool is_an_estimate(const struct pause *p)
{
  if (kind->kind == TAMIS_CUCKOO || kind->window)
    return false;
  if ((model.refused_stay && kind->layout == TAMIS_LAYOUT_WORD) || meets_other_keys())
    return true;
  for (unsigned i = 0; i <= p->step; i++)
    if (script.all[i].op == MERGE)
      return true;
  return has(&beside, MERGE);
}

static void check(const struct pause *p, unsigned number)
{
  static struct found found[KEYS];
  model.may_lose = meets_other_keys();
  now = p;
  beside_it = number;
  memset(found, 0, sizeof found);
  const tamis_stats stats[FILTERS] = {stats_of(filters[0]), stats_of(filters[1])};
  expect(kind->is_tiny || stats[0].bytes + stats[1].bytes == atomic_load(&allocated),
         "they take other memory than they say");
  for (unsigned at = 0; at < FILTERS; at++)
    check_filter(at, stats[at].count, found, is_an_estimate(p));
  if (has(&stopped, SAVE))
    find_saved(stopped.thread, found);
  if (has(&beside, SAVE))
    find_saved(beside.thread, found);
  for (unsigned at = 0; at < FILTERS; at++)
    if (kind->window)
      find_ages(filters[at], at, found);
    else if (removes() && !may_be_stuck(at, found))
      remove_all(filters[at], at, found, is_an_estimate(p));
  for (unsigned key = 0; key < KEYS; key++) {
    struct changes a, b;
    changes_of(&stopped, key, &a);
    changes_of(&beside, key, &b);
    if (is_possible(&model, before[key], &a, 0, &b, 0, &found[key]))
      continue;
    printf("key %u, of which there were %u and %u, and are %u and %u\n", key, before[key].in[0].n,
           before[key].in[1].n, found[key].in[0].n, found[key].in[1].n);
    for (unsigned i = 0; i < a.n + b.n; i++) {
      const struct change *c = i < a.n ? &a.all[i] : &b.all[i - a.n];
      printf("  thread %u: %s in filter %u: %d\n", c->thread, op_names[c->op], c->at, c->result);
    }
    say_case(p, number);
  }
}

/* ---- a pair ---- */

static void play(const struct pause *p, unsigned number)
{
  static const char *const ways_to_go_on[] = {"call_returned", "stripe_wait", "bloom_layer_awaited",
                                              NULL};
  const char *hook = hooks[p->hook].name;
  run_script(p->step);
  stopped = (struct steps){.n = 1, .thread = 0, .all = {script.all[p->step]}};
  beside.thread = 1;
  if (companion(number, stopped.all[0].key, &beside)) {
    struct call a = {.whole = make_steps, .context = &stopped},
                b = {.whole = make_steps, .context = &beside};
    schedule_stop_at_nth(hook, p->nth);
    start(&a);
    schedule_wait_either(hook, p->nth, "call_returned", 1);
    if (schedule_reached(hook) < p->nth)
      say_case(p, number); /* it has passed by another way than in the script */
    start(&b);
    schedule_wait_any(ways_to_go_on);
    go_on(&a);
    finish(&b);
    for (unsigned i = 0; i < hook_count; i++)
      hooks[i].reached |= schedule_reached(hooks[i].name) > 0;
    atomic_store(&tamis__hook, NULL);
    check(p, number);
  }
  destroy_filters();
}

/* In slow builds, a part of the pairs. */
static void all_pairs(void **state)
{
  kind = *state;
  model = (struct model){.counts_copies = removes(),
                         .most = kind->kind == TAMIS_COUNTING_BLOOM ? 15 : 0,
                         .periods = kind->window ? kind->window + 1 : 0,
                         .may_refuse = !kind->growable || kind->max_bytes,
                         .refused_stay = kind->kind == TAMIS_BLOOM && !kind->window &&
                                         (!kind->growable || kind->max_bytes) &&
                                         (kind->layout != TAMIS_LAYOUT_WORD || kind->max_bytes)};
  atomic_store(&allocated, 0); /* of a kind that has failed */
  choose_keys();
  write_script();
  choose_cases();
  for (unsigned i = 0; i < case_count; i++) {
    const unsigned step = cases[i].every * SCALE;
    for (unsigned number = i % step; number < COMPANIONS; number += step)
      play(&cases[i], number);
  }
}

/* ---- all hooks ---- */

static void every_hook_of_the_library_is_reached(void **state)
{
  unsigned missed = 0;
  (void) state;
  for (unsigned i = 0; i < hook_count; i++)
    if (!hooks[i].reached && !strstr(hooks[i].name, "shared_")) { /* of filters of one process */
      printf("no call has reached %s\n", hooks[i].name);
      missed++;
    }
  if (SCALE == 1)
    assert_int_equal(missed, 0);
}

int main(void)
{
  mallopt(M_MMAP_THRESHOLD, 1 << 26); /* so that the buffers of saves stay in the process */
  mallopt(M_TRIM_THRESHOLD, 1 << 26);
  struct CMUnitTest tests[KINDS + 1] = {{0}};
  for (unsigned i = 0; i < KINDS; i++)
    tests[i] = (struct CMUnitTest){kinds[i].name, all_pairs, NULL, NULL, (void *) &kinds[i]};
  tests[KINDS] = (struct CMUnitTest) cmocka_unit_test(every_hook_of_the_library_is_reached);
  return cmocka_run_group_tests_name("pairs", tests, read_hooks, NULL);
}
