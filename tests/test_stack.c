/* SPDX-License-Identifier: MIT
 *
 * How much stack the calls take: small threads and coroutines call the library, too.
 *
 * A thread whose stack is full of a pattern makes each call, and what the call has overwritten is
 * what it takes.  The calls on keys have a limit, and the program prints the deepest one of each,
 * in each kind of filter.  Before that, a thread of the least size that the system allows makes the
 * same calls, with a guard page below its stack.
 */
#include "shared_unit.h"

#include "harness.h"

#include <pthread.h>

/* What a call on keys may take: a thread of 16 KiB has about 12 KiB of them for its calls, of which
 * the dynamic linker takes 3 to 4 KiB in the first call of a function of the C library. */
enum { MOST_BYTES = 9 * 1024, SMALLEST = 16 * 1024 };

/* ---- a stack with a pattern ---- */

enum { STACK_WORDS = 48 * 1024 / 8, PIECE = 64, KEPT_WORDS = 32 /* of the function that paints */ };

static uint64_t stack_memory[STACK_WORDS] __attribute__((aligned(4096)));
static bool measuring;

static const uint64_t pattern = UINT64_C(0x7061696E74656421);

/* From the word `from` on, to just below the caller's frame. */
static __attribute__((noinline)) void paint(uint64_t *from)
{
  volatile uint64_t *end = (uint64_t *) __builtin_frame_address(0) - KEPT_WORDS;
  for (volatile uint64_t *word = from; word < end; word++)
    *word = pattern;
}

/* How many bytes below the caller's frame have been written since paint().  They get the pattern
 * again. */
static __attribute__((noinline)) size_t depth(void)
{
  if (!measuring)
    return 0;
  uint64_t *word = stack_memory;
  for (uint64_t other = 0; !other;) { /* a few at a time, which is faster */
    for (unsigned i = 0; i < PIECE; i++)
      other |= word[i] ^ pattern;
    word += other ? 0 : PIECE;
  }
  while (*word == pattern)
    word++;
  paint(word);
  return (size_t) ((char *) __builtin_frame_address(0) - (char *) word);
}

/* ---- what is measured ---- */

/* The calls on keys.  Each column has the calls by a key and by a hash. */
enum call {
  ADD,
  ADD_UNIQUE,
  CONTAINS,
  COUNT,
  REMOVE,
  ADD_MANY,
  ADD_UNIQUE_MANY,
  CONTAINS_MANY,
  COUNT_MANY,
  CONTAINS_EACH,
  ADVANCE,
  CALLS
};

static const char *const call_names[CALLS] = {
    "add",      "add_unique",    "contains",   "count",         "remove",  "add_many",
    "add_unique_many", "contains_many", "count_many", "contains_each", "advance"};

static const struct shape {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
  unsigned window;
  double fpp;
  uint64_t capacity, keys;
  bool shared, mapped;
  uint64_t max_bytes;
} shapes[] = {
    {"Bloom, blocked", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, 0.01, 10000, 11000},
    {"Bloom, blocked, low rate", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, 1e-9, 5000, 6000},
    {"Bloom, blocked, growable", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-4, 100, 60000},
    {"Bloom, classic, growable", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, true, 0, 1e-4, 100, 30000},
    {"Bloom, word, growable", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, true, 0, 1e-3, 100, 30000},
    {"Bloom, word", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false, 0, 1e-3, 5000, 6000},
    {"Bloom, large layers", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-3, 20000, 100000},
    {"Bloom, mapped", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-3, 100, 3000, .mapped = true},
    {"Bloom, shared", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, 1e-3, 5000, 6000, .shared = true},
    {"Bloom, shared, growable", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-3, 100, 30000,
     .shared = true, .max_bytes = 1 << 20},
    {"counting", TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, 1e-3, 3000, 4000},
    {"counting, growable", TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-3, 100, 20000},
    {"cuckoo", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 0, 0.01, 20000, 23000},
    {"cuckoo, two lanes", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 0, 1e-6, 20000, 23000},
    {"cuckoo, mapped", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 0, 0.01, 3000, 3000, .mapped = true},
    {"cuckoo, growable", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 0, 0.01, 1000, 100000},
    {"cuckoo, growable, low rate", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 0, 1e-7, 100, 60000},
    {"cuckoo, limited", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 0, 0.01, 1000, 60000,
     .max_bytes = 120000},
    {"window", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 3, 0.01, 10000, 14000},
    {"window, growable", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 3, 0.01, 500, 40000},
    {"window, shared", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 3, 0.01, 5000, 7000, .shared = true},
    {"cuckoo window", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 3, 0.01, 10000, 14000},
    {"cuckoo window, growable", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 3, 0.01, 500, 40000},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static size_t deepest[SHAPES][CALLS];

/* All other calls. */
enum other {
  CREATE,
  OPTIONS_CHECK,
  BYTES_FOR,
  FPP_FOR,
  GET_STATS,
  STATS_TEXT,
  SAVE,
  SAVE_FILE,
  LOAD,
  LOAD_FILE,
  MAP_FILE,
  SAVED_INFO,
  OPEN_SHARED,
  SHARED_CHECK,
  SYNC,
  MERGE,
  INTERSECT,
  SIMILARITY,
  DESTROY,
  OTHERS
};

static const char *const other_names[OTHERS] = {
    "create", "options_check", "bytes_for",  "fpp_for",     "get_stats",    "stats_text", "save",
    "save_file", "load",       "load_file",  "map_file",    "saved_info",   "open_shared",
    "shared_check", "sync",    "merge",      "intersect",   "similarity",   "destroy"};

static size_t deepest_other[OTHERS];

static void note(size_t *most, size_t bytes)
{
  *most = bytes > *most ? bytes : *most;
}

#define MEASURED(most, ...) \
  do {                      \
    (void) depth();         \
    __VA_ARGS__;            \
    note(most, depth());    \
  } while (0)

/* ---- the calls ---- */

enum { BATCH = 1100, FILTERS = 12 };

static uint64_t numbers[BATCH], hashes[BATCH], counts[BATCH];
static tamis_key keys[BATCH];
static bool found[BATCH * FILTERS];
static int results[BATCH];

static void batches(tamis_filter *f, uint64_t first, size_t n, size_t *most)
{
  for (size_t i = 0; i < n; i++) {
    numbers[i] = first + i;
    keys[i] = (tamis_key){&numbers[i], sizeof numbers[i]};
    hashes[i] = tamis_hash(f, &numbers[i], sizeof numbers[i]);
  }
  const tamis_filter *filters[FILTERS] = {f, f, NULL, f, f, f, f, f, f, f, f, f};
  MEASURED(&most[CONTAINS_MANY], tamis_contains_many(f, keys, n, found));
  MEASURED(&most[CONTAINS_MANY], tamis_contains_many_hash(f, hashes, n, found));
  MEASURED(&most[CONTAINS_EACH], tamis_contains_each(filters, FILTERS, numbers, 8, found));
  MEASURED(&most[CONTAINS_EACH], tamis_contains_each_hash(filters, FILTERS, hashes[0], found));
  MEASURED(&most[CONTAINS_EACH], tamis_contains_each_many(filters, FILTERS, keys, n, found));
  MEASURED(&most[COUNT_MANY], tamis_count_many(f, keys, n, counts));
  MEASURED(&most[COUNT_MANY], tamis_count_many_hash(f, hashes, n, counts));
  MEASURED(&most[ADD_MANY], tamis_add_many(f, keys, n / 4, results));
  MEASURED(&most[ADD_MANY], tamis_add_many_hash(f, hashes + n / 4, n / 4, results));
  MEASURED(&most[ADD_UNIQUE_MANY], tamis_add_unique_many(f, keys + n / 2, n / 4, results));
  MEASURED(&most[ADD_UNIQUE_MANY],
           tamis_add_unique_many_hash(f, hashes + n * 3 / 4, n / 4, results));
}

static void single(tamis_filter *f, uint64_t key, size_t *most)
{
  uint64_t hash = tamis_hash(f, &key, sizeof key);
  if (key % 4 == 0)
    MEASURED(&most[ADD], tamis_add(f, &key, sizeof key));
  else if (key % 4 == 1)
    MEASURED(&most[ADD], tamis_add_hash(f, hash));
  else if (key % 4 == 2)
    MEASURED(&most[ADD_UNIQUE], tamis_add_unique(f, &key, sizeof key));
  else
    MEASURED(&most[ADD_UNIQUE], tamis_add_unique_hash(f, hash));
  if (key % 8 < 5)
    return;
  MEASURED(&most[CONTAINS], tamis_contains(f, &key, sizeof key));
  MEASURED(&most[CONTAINS], tamis_contains_hash(f, ~hash));
  MEASURED(&most[COUNT], tamis_count(f, &key, sizeof key));
  MEASURED(&most[COUNT], tamis_count_hash(f, ~hash));
}

static void removal(tamis_filter *f, uint64_t key, size_t *most)
{
  uint64_t hash = tamis_hash(f, &key, sizeof key);
  if (key % 2)
    MEASURED(&most[REMOVE], tamis_remove(f, &key, sizeof key));
  else
    MEASURED(&most[REMOVE], tamis_remove_hash(f, hash));
}

/* Keys that come often: one in a few is added up to 70 times, in an order in which counts are of
 * all sizes while the filter grows. */
static void copies(tamis_filter *f, uint64_t key, size_t *most)
{
  uint64_t random = key, times = random_next(&random) % 70;
  for (uint64_t i = 0; i < times; i++)
    MEASURED(&most[ADD], tamis_add_hash(f, random_at(5, key % 32768)));
}

static void use(const struct shape *s, tamis_filter *f, size_t *most)
{
  uint64_t key = 0;
  for (; key < s->keys; key++) {
    single(f, key, most);
    if (s->window && key % (s->keys / 12) == 0)
      MEASURED(&most[ADVANCE], tamis_advance(f));
    if (key % (s->keys / 10) == 0) {
      batches(f, key, key & 1 ? BATCH : 65, most);
    }
    if (s->kind == TAMIS_CUCKOO && key % 8 == 0)
      copies(f, key / 8, most);
    if (s->window && s->kind == TAMIS_CUCKOO && key % 3 == 0)
      removal(f, key / 2, most);
  }
  batches(f, key, BATCH, most);
  for (unsigned i = 0; s->kind != TAMIS_BLOOM && i < 2; i++)
    for (key = 0; key < s->keys; key++)
      removal(f, key, most);
  for (unsigned i = 0; s->window && i < 6; i++) {
    MEASURED(&most[ADVANCE], tamis_advance(f));
    batches(f, i * BATCH, BATCH, most);
  }
}

/* ---- the filters ---- */

static tamis_options options_of(const struct shape *s)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = s->kind, o.layout = s->layout, o.growable = s->growable, o.window = s->window;
  o.capacity = s->capacity, o.fpp = s->fpp, o.seed = 42, o.max_bytes = s->max_bytes;
  return o;
}

static void open_and_use(const struct shape *s)
{
  size_t *most = deepest[s - shapes];
  tamis_options o = options_of(s);
  tamis_filter *f = NULL;
  if (s->shared)
    MEASURED(&deepest_other[OPEN_SHARED], tamis_open_shared(&o, shared_path, &f));
  else
    MEASURED(&deepest_other[CREATE], tamis_create(&o, &f));
  use(s, f, most);
  if (s->mapped) {
    tamis_filter *mapped = NULL;
    tamis_save_file(f, shared_path);
    tamis_map_file(NULL, shared_path, &mapped);
    use(s, mapped, most);
    tamis_destroy(mapped);
  }
  if (getenv("VERBOSE")) {
    tamis_stats st = TAMIS_STATS_INIT;
    tamis_get_stats(f, &st);
    printf("%s: growths %ju joins %ju generations %u evictions %ju failed %ju refused %ju layers %u bytes %ju\n", s->name, st.growths, st.joins, st.generations, st.evictions, st.failed_searches, st.refused_adds, st.layers, st.bytes);
  }
  tamis_destroy(f);
  unlink(shared_path);
}

static void *run(void *context)
{
  (void) context;
  if (measuring)
    paint(stack_memory);
  for (const struct shape *s = shapes; s < shapes + SHAPES; s++)
    open_and_use(s);
  return NULL;
}

int main(void)
{
  pthread_attr_t a;
  pthread_t t;
  set_up(NULL);
  measuring = true;
  pthread_attr_init(&a);
  pthread_attr_setstack(&a, stack_memory, sizeof stack_memory);
  if (pthread_create(&t, &a, run, NULL)) abort();
  pthread_join(t, NULL);
  tear_down(NULL);
  printf("%-28s", "");
  for (int c = 0; c < CALLS; c++) printf(" %*s", (int) (strlen(call_names[c]) < 6 ? 6 : strlen(call_names[c])), call_names[c]);
  puts("");
  for (int s = 0; s < SHAPES; s++) {
    printf("%-28s", shapes[s].name);
    for (int c = 0; c < CALLS; c++) printf(" %*zu", (int) (strlen(call_names[c]) < 6 ? 6 : strlen(call_names[c])), deepest[s][c]);
    puts("");
  }
  for (int c = 0; c < OTHERS; c++) printf("%s %zu\n", other_names[c], deepest_other[c]);
}
