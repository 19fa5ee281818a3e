/* SPDX-License-Identifier: MIT
 *
 * How much stack the calls take: threads and coroutines with small stacks call the library, too.
 *
 * A thread whose stack has been filled with a pattern makes each call, and what the call has
 * overwritten is what it takes.  All have a limit.  Those on keys are also made by threads of
 * the least size that the system allows, with a guard page below the stack.
 *
 * The program prints what each call takes; docs/reference/platforms.md has the limit and the largest figures.
 */
#define IN_MEMORY true
#include "saved_unit.h"
#include "shared_unit.h"

#include "harness.h"

#include <limits.h>

enum { MOST_FOR_KEYS = 9 * 1024, MOST_FOR_OTHERS = 48 * 1024 }; /* bytes, of a call */

/* ---- a stack with a pattern ---- */

/* Of a thread, whose descriptor and thread-local variables take the highest bytes.  What a call takes is
 * found only within its stack, so that is several times as large as the limit. */
enum {
  KIB = 1024 / sizeof(uint64_t),
  MEMORY = 96 * KIB,
  FOR_KEYS = 40 * KIB,
  FOR_OTHERS = 64 * KIB
};

static uint64_t memory[MEMORY] __attribute__((aligned(4096)));
static uint64_t *lowest; /* of the stack; NULL: nothing is measured */

static const uint64_t pattern = UINT64_C(0x7061696E74656421);

/* From a word to just below the caller's frame. */
static __attribute__((noinline)) void paint(uint64_t *from)
{
  enum { OWN = 32 };
  volatile uint64_t *end = (uint64_t *) __builtin_frame_address(0) - OWN;
  for (volatile uint64_t *word = from; word < end; word++)
    *word = pattern;
}

/* The lowest word that has been overwritten.  Most words have not been: so this looks at many at a
 * time. */
static uint64_t *lowest_written(void)
{
  enum { PIECE = 64 };
  uint64_t *word = lowest;
  for (uint64_t other = 0;; word += PIECE) {
    for (unsigned i = 0; i < PIECE; i++)
      other |= word[i] ^ pattern;
    if (other)
      break;
  }
  while (*word == pattern)
    word++;
  return word;
}

/* How many bytes below the caller's frame have been written since the call before, which are then
 * painted again.  (0 for what takes less than 256.) */
static __attribute__((noinline)) size_t depth(void)
{
  if (!lowest)
    return 0;
  uint64_t *written = lowest_written();
  paint(written);
  return (size_t) ((char *) __builtin_frame_address(0) - (char *) written);
}

struct job {
  void (*function)(void *context);
  void *context;
};

static void *do_job(void *context)
{
  const struct job *job = context;
  if (lowest)
    paint(lowest);
  job->function(job->context);
  return NULL;
}

/* Calls a function in a thread of its own, with a stack of so many words, or of the least size. */
static void run(size_t words, bool measured, void (*function)(void *), void *context)
{
  struct job job = {function, context};
  uint64_t *low = memory + MEMORY - words;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (words)
    pthread_attr_setstack(&attributes, low, words * sizeof *low);
  else
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t) PTHREAD_STACK_MIN), 0);
  lowest = measured ? low : NULL;
  assert_int_equal(pthread_create(&thread, &attributes, do_job, &job), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  lowest = NULL;
}

/* ---- what is measured ---- */

/* The calls on keys, each with keys and with hashes, and with several filters; and all others. */
enum call {
  ADD,
  ADD_UNIQUE,
  CONTAINS,
  COUNT,
  REMOVE,
  ADD_MANY,
  CONTAINS_MANY,
  COUNT_MANY,
  CONTAINS_EACH,
  ADVANCE,
  OTHERS,
  CALLS
};

static const char *const names[CALLS] = {
    "add",           "add_unique", "contains",      "count",   "remove", "add_many",
    "contains_many", "count_many", "contains_each", "advance", "others"};

enum how { CREATED, MAPPED, SHARED };

static const struct shape {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
  unsigned window;
  double fpp;
  uint64_t capacity, keys;
  enum how how;
  uint64_t max_bytes;
} shapes[] = {
#define BLOOM(layout) TAMIS_BLOOM, TAMIS_LAYOUT_##layout
#define CUCKOO TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED
#define COUNTING TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED
    {"Bloom", BLOOM(BLOCKED), false, 0, 0.01, 2000, 2500, CREATED, 0},
    {"Bloom, 1e-9", BLOOM(BLOCKED), true, 0, 1e-9, 100, 7000, CREATED, 0},
    {"Bloom, growable", BLOOM(BLOCKED), true, 0, 1e-4, 100, 20000, CREATED, 0},
    {"Bloom, large layers", BLOOM(BLOCKED), true, 0, 1e-3, 5000, 20000, CREATED, 0},
    {"Bloom, classic", BLOOM(CLASSIC), true, 0, 1e-4, 100, 7000, CREATED, 0},
    {"Bloom, word", BLOOM(WORD), false, 0, 1e-3, 2000, 2500, CREATED, 0},
    {"Bloom, word, growable", BLOOM(WORD), true, 0, 1e-3, 150, 7000, CREATED, 0},
    {"Bloom, mapped", BLOOM(BLOCKED), true, 0, 1e-3, 120, 2500, MAPPED, 0},
    {"Bloom, shared", BLOOM(BLOCKED), false, 0, 1e-3, 2000, 2500, SHARED, 0},
    {"Bloom, shared, growable", BLOOM(BLOCKED), true, 0, 3e-3, 130, 9000, SHARED, 100000},
    {"counting Bloom", COUNTING, false, 0, 1e-3, 2000, 2500, CREATED, 0},
    {"counting Bloom, growable", COUNTING, true, 0, 1e-4, 100, 5000, CREATED, 0},
    {"cuckoo", CUCKOO, false, 0, 0.01, 6000, 7000, CREATED, 0},
    {"cuckoo, 1e-6", CUCKOO, false, 0, 1e-6, 6000, 7000, CREATED, 0},
    {"cuckoo, growable", CUCKOO, true, 0, 0.01, 1000, 30000, CREATED, 0},
    {"cuckoo, growable, 1e-7", CUCKOO, true, 0, 1e-7, 100, 30000, CREATED, 0},
    {"cuckoo, limited", CUCKOO, true, 0, 0.01, 1000, 15000, CREATED, 50000},
    {"cuckoo, mapped", CUCKOO, false, 0, 0.01, 3000, 3000, MAPPED, 0},
    {"window", BLOOM(BLOCKED), false, 3, 0.01, 1000, 6000, CREATED, 0},
    {"window, growable", BLOOM(BLOCKED), true, 3, 0.01, 500, 20000, CREATED, 0},
    {"window, shared", BLOOM(BLOCKED), false, 3, 0.01, 1000, 6000, SHARED, 0},
    {"cuckoo window", CUCKOO, false, 3, 0.01, 1000, 6000, CREATED, 0},
    {"cuckoo window, growable", CUCKOO, true, 3, 0.01, 500, 20000, CREATED, 0},
    {"cuckoo window, limited", CUCKOO, true, 3, 0.01, 500, 20000, CREATED, 40000},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static size_t bytes_of[SHAPES][CALLS];

static void note(size_t *most, size_t bytes)
{
  *most = bytes > *most ? bytes : *most;
}

#define MEASURED(most, ...) \
  do {                      \
    (void) depth();         \
    __VA_ARGS__;            \
    note(&(most), depth()); \
  } while (0)

/* ---- the calls on keys ---- */

enum { BATCH = 1100, FILTERS = 12 };

static uint64_t numbers[BATCH], hashes[BATCH], counts[BATCH];
static tamis_key keys[BATCH];
static bool found[BATCH * FILTERS];
static int results[BATCH];

static void make_batch(const tamis_filter *f, uint64_t first)
{
  for (size_t i = 0; i < BATCH; i++) {
    numbers[i] = first + i;
    keys[i] = (tamis_key){&numbers[i], sizeof numbers[i]};
    hashes[i] = tamis_hash(f, &numbers[i], sizeof numbers[i]);
  }
}

/* The last quarters of these keys are new ones, so that filters grow in a batch, too. */
static void use_batch(tamis_filter *f, uint64_t first, size_t n, size_t *most)
{
  static const tamis_filter *filters[FILTERS];
  for (unsigned i = 0; i < FILTERS; i++)
    filters[i] = i == 2 ? NULL : f;
  make_batch(f, first);
  MEASURED(most[CONTAINS_MANY], tamis_contains_many(f, keys, n, found));
  MEASURED(most[CONTAINS_MANY], tamis_contains_many_hash(f, hashes, n, found));
  MEASURED(most[CONTAINS_EACH], tamis_contains_each(filters, FILTERS, numbers, 8, found));
  MEASURED(most[CONTAINS_EACH], tamis_contains_each_hash(filters, FILTERS, hashes[0], found));
  MEASURED(most[CONTAINS_EACH], tamis_contains_each_many(filters, FILTERS, keys, n, found));
  MEASURED(most[COUNT_MANY], tamis_count_many(f, keys, n, counts));
  MEASURED(most[COUNT_MANY], tamis_count_many_hash(f, hashes, n, counts));
  const size_t part = n / 4;
  MEASURED(most[ADD_MANY], tamis_add_many(f, keys, part, results));
  MEASURED(most[ADD_MANY], tamis_add_many_hash(f, hashes + part, part, results));
  MEASURED(most[ADD_MANY], tamis_add_unique_many(f, keys + 2 * part, part, results));
  MEASURED(most[ADD_MANY], tamis_add_unique_many_hash(f, hashes + 3 * part, part, results));
}

static void add_key(tamis_filter *f, uint64_t key, uint64_t hash, size_t *most)
{
  switch (key % 4) {
  case 0:
    MEASURED(most[ADD], tamis_add(f, &key, sizeof key));
    break;
  case 1:
    MEASURED(most[ADD], tamis_add_hash(f, hash));
    break;
  case 2:
    MEASURED(most[ADD_UNIQUE], tamis_add_unique(f, &key, sizeof key));
    break;
  default:
    MEASURED(most[ADD_UNIQUE], tamis_add_unique_hash(f, hash));
  }
}

static void find_key(const tamis_filter *f, uint64_t key, uint64_t hash, size_t *most)
{
  MEASURED(most[CONTAINS], tamis_contains(f, &key, sizeof key));
  MEASURED(most[CONTAINS], tamis_contains_hash(f, ~hash));
  MEASURED(most[COUNT], tamis_count(f, &key, sizeof key));
  MEASURED(most[COUNT], tamis_count_hash(f, ~hash));
}

static void remove_key(tamis_filter *f, uint64_t key, size_t *most)
{
  if (key % 2)
    MEASURED(most[REMOVE], tamis_remove(f, &key, sizeof key));
  else
    MEASURED(most[REMOVE], tamis_remove_hash(f, tamis_hash(f, &key, sizeof key)));
}

/* Keys that come up to 70 times, so that blocks of counts are encoded anew, in place and not. */
static void add_copies(tamis_filter *f, uint64_t key, size_t *most)
{
  uint64_t random = key, times = random_next(&random) % 70;
  for (uint64_t i = 0; i < times; i++)
    MEASURED(most[ADD], tamis_add_hash(f, random_at(5, key % 4096)));
}

struct use {
  const struct shape *shape;
  tamis_filter *filter;
  size_t *most;
};

static void add_keys(const struct shape *s, tamis_filter *f, size_t *most)
{
  const uint64_t advance = s->keys / 15, batch = s->keys / 10;
  for (uint64_t key = 0; key < s->keys; key++) {
    uint64_t hash = tamis_hash(f, &key, sizeof key);
    add_key(f, key, hash, most);
    if (key % 8 == 0)
      find_key(f, key, hash, most);
    if (key % batch == 0)
      use_batch(f, key, key / batch % 2 ? BATCH : 65, most);
    if (s->kind == TAMIS_CUCKOO && key % 8 == 0)
      add_copies(f, key / 8, most);
    if (s->window && key % advance == 0)
      MEASURED(most[ADVANCE], tamis_advance(f));
    if (s->window && s->kind == TAMIS_CUCKOO && key % 3 == 0)
      remove_key(f, key / 2, most);
  }
}

static void use_filter(void *context)
{
  const struct use *use = context;
  const struct shape *s = use->shape;
  tamis_filter *f = use->filter;
  size_t *most = use->most;
  add_keys(s, f, most);
  for (uint64_t key = 0; s->kind != TAMIS_BLOOM && key < 2 * s->keys; key++)
    remove_key(f, key % s->keys, most);
  for (unsigned i = 0; s->window && i < 6; i++) {
    MEASURED(most[ADVANCE], tamis_advance(f));
    use_batch(f, i * BATCH, BATCH, most);
  }
}

/* ---- the filters ---- */

static tamis_options options_of(const struct shape *s)
{
  tamis_options o = seeded_options(s->kind, s->capacity, s->fpp, s->growable);
  o.layout = s->layout, o.window = s->window, o.max_bytes = s->max_bytes;
  return o;
}

static tamis_filter *map(tamis_filter *f)
{
  tamis_filter *mapped;
  for (uint64_t i = 0; i < 1000; i++)
    tamis_add(f, &i, sizeof i);
  assert_int_equal(tamis_save_file(f, shared_path), TAMIS_OK);
  assert_int_equal(tamis_map_file(NULL, shared_path, &mapped), TAMIS_OK);
  tamis_destroy(f);
  return mapped;
}

static tamis_filter *open_filter(const struct shape *s)
{
  const tamis_options o = options_of(s);
  tamis_filter *f;
  assert_int_equal(s->how == SHARED ? tamis_open_shared(&o, shared_path, &f) : tamis_create(&o, &f),
                   TAMIS_OK);
  return s->how == MAPPED ? map(f) : f;
}

/* Each filter is used in a thread of its own, whose first call registers it as a reader. */
static void use_all(size_t words, bool measured)
{
  for (const struct shape *s = shapes; s < shapes + SHAPES; s++) {
    struct use use = {s, open_filter(s), bytes_of[s - shapes]};
    run(words, measured, use_filter, &use);
    tamis_destroy(use.filter);
    unlink(shared_path);
  }
}

/* ---- all other calls ---- */

static void describe(const struct shape *s, const tamis_filter *f)
{
  const tamis_options o = options_of(s);
  static char why[1000];
  static struct bytes text;
  uint64_t bytes;
  double fpp;
  tamis_stats stats = TAMIS_STATS_INIT;
  text.size = 0;
  (void) tamis_options_check(&o, why, sizeof why);
  (void) tamis_bytes_for(&o, &bytes);
  (void) tamis_fpp_for(&o, 20000, &fpp);
  (void) tamis_shared_check(&o, shared_path, why, sizeof why);
  (void) tamis_get_stats(f, &stats);
  (void) tamis_stats_text(f, TAMIS_PROMETHEUS, "f", write_bytes, &text);
}

/* (Some of these are refused for some kinds.) */
static void save_and_load(const tamis_filter *f)
{
  static struct bytes saved;
  static char path[sizeof shared_path];
  tamis_filter *again[3] = {NULL};
  tamis_stats stats = TAMIS_STATS_INIT;
  saved.size = 0;
  snprintf(path, sizeof path, "%s/saved.tamis", shared_folder);
  (void) tamis_save(f, write_bytes, &saved);
  (void) tamis_save_file(f, path);
  struct source source = source_of(&saved), other = source;
  (void) tamis_load(NULL, read_source, &source, &again[0]);
  (void) tamis_load_file(NULL, path, &again[1]);
  (void) tamis_map_file(NULL, path, &again[2]);
  (void) tamis_saved_info(read_source, &other, &stats);
  for (unsigned i = 0; i < 3; i++)
    tamis_destroy(again[i]);
  unlink(path);
}

static void combine(const struct shape *s, tamis_filter *f)
{
  const tamis_options o = options_of(s);
  tamis_filter *other = NULL, *both = NULL;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  (void) tamis_create(&o, &other);
  for (uint64_t key = s->keys / 2; key < s->keys * 3 / 2; key++)
    tamis_add(other, &key, sizeof key);
  (void) tamis_similarity(f, other, &similarity);
  (void) tamis_intersect(f, other, &both);
  tamis_destroy(both);
  (void) tamis_merge(other, f);
  tamis_destroy(other);
}

static __attribute__((noinline)) void call_others(const struct shape *s)
{
  const tamis_options o = options_of(s);
  tamis_filter *f = NULL;
  for (unsigned again = 0; again < (s->how == SHARED ? 2 : 1); again++) {
    (void) (s->how == SHARED ? tamis_open_shared(again ? NULL : &o, shared_path, &f)
                             : tamis_create(&o, &f));
    for (uint64_t key = 0; key < s->keys && !again; key++)
      tamis_add(f, &key, sizeof key);
    (void) tamis_sync(f);
    describe(s, f);
    save_and_load(f);
    combine(s, f);
    tamis_destroy(f);
  }
  unlink(shared_path);
}

static void use_others(void *shape)
{
  const struct shape *s = shape;
  MEASURED(bytes_of[s - shapes][OTHERS], call_others(s));
}

/* ---- tests ---- */

/* In a process of its own, where no function of another library has been bound yet: the first call
 * of such a function binds it, which takes 3 to 4 KiB. */
TEST_WITH_THREADS_BETWEEN(a_thread_of_the_least_size_calls, set_up, tear_down)
{
  pid_t child = fork_child();
  if (child == 0) {
    use_all(0, false);
    _exit(0);
  }
  const int status = wait_for(child);
  if (status)
    fail_msg("a thread with a stack of %ld bytes ends the process: status %d",
             (long) PTHREAD_STACK_MIN, status);
}

TEST_WITH_THREADS_BETWEEN(calls_take_little_stack, set_up, tear_down)
{
  use_all(MEMORY, false); /* binds all functions */
  use_all(FOR_KEYS, true);
  for (const struct shape *s = shapes; s < shapes + SHAPES; s++)
    run(FOR_OTHERS, true, use_others, (void *) s);
  printf("\n| bytes of stack");
  for (unsigned c = 0; c < CALLS; c++)
    printf(" | %s", names[c]);
  for (unsigned s = 0; s < SHAPES; s++) {
    printf(" |\n| %s", shapes[s].name);
    for (unsigned c = 0; c < CALLS; c++)
      printf(" | %zu", bytes_of[s][c]);
  }
  printf(" |\n");
  for (unsigned s = 0; s < SHAPES; s++)
    for (unsigned c = 0; c < CALLS; c++)
      if (bytes_of[s][c] > (c == OTHERS ? MOST_FOR_OTHERS : MOST_FOR_KEYS))
        fail_msg("%s: %s takes %zu bytes of stack", shapes[s].name, names[c], bytes_of[s][c]);
}
