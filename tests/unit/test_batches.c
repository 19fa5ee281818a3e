/* SPDX-License-Identifier: MIT
 *
 * Many keys or many filters in one call: the answers, the results and the filters afterwards are those
 * of single calls.  Everything is drawn: the form of the filter and its options, what it has been
 * through, how many keys, which of them are in, twice in, invalid, given by their hash; of a list of
 * filters how many, how many are alike, where one is another, where one is NULL.  All arrays lie beside
 * memory that must not be touched, and nothing that a call reads can be written.
 *
 * In a free_block build on a processor that has them, batches compute with vectors.
 */
#include "saved_unit.h"

#include "base/each.h"
#include "cuckoo/lookup.h"
#include "harness.h"

#include <math.h>

static uint64_t state; /* of the random numbers */

static uint64_t draw(uint64_t n)
{
  return random_next(&state) % n;
}

static bool one_in(uint64_t n)
{
  return draw(n) == 0;
}

/* Lengths at which a group, a block, a vector or a read section ends; at times a random one. */
static size_t draw_length(size_t most)
{
  static const size_t ends[] = {0, 1, 8, EACH_BLOCK, FILTER_GROUP, 2 * FILTER_GROUP, READER_BATCH};
  size_t end = ends[draw(sizeof ends / sizeof *ends)] * (1 + draw(2)) + draw(3);
  size_t n = one_in(3) ? draw(one_in(4) ? most + 1 : 40) : end ? end - 1 : 0;
  return n < most ? n : most;
}

/* ---- arrays between pages that must not be touched ---- */

enum area { KEYS, BYTES, HASHES, FILTERS, OUT, AREAS };
enum { AREA = 1 << 18, MOST_KEYS = 2600, UNTOUCHED = 0xA5 };

static unsigned char *areas[AREAS];

static void make_areas(void)
{
  const size_t page = (size_t) sysconf(_SC_PAGESIZE);
  for (int i = 0; i < AREAS; i++) {
    unsigned char *all = mmap(NULL, AREA + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    areas[i] = all + page;
    assert_int_equal(mprotect(areas[i], AREA, PROT_READ | PROT_WRITE), 0);
  }
}

/* Memory that begins or ends where its area does. */
static void *place(enum area area, size_t size)
{
  assert_true(size <= AREA);
  return areas[area] + (one_in(2) ? 0 : AREA - size);
}

/* A quarter of the time. */
static void protect_input(bool wanted)
{
  static bool protected;
  bool now = wanted && one_in(4);
  for (int i = 0; i < OUT && now != protected; i++)
    assert_int_equal(mprotect(areas[i], AREA, PROT_READ | (now ? 0 : PROT_WRITE)), 0);
  protected = now;
}

/* Where results go, which may be nowhere. */
static void *place_output(size_t size)
{
  if (one_in(5))
    return NULL;
  return memset(place(OUT, size), UNTOUCHED, size);
}

/* ---- keys ---- */

/* XXH3 has a way of its own for each range of lengths, and there is one for long keys here. */
static const size_t lengths[] = {0, 1, 3, 4, 7, 8, 9, 12, 16, 17, 33, 128, 129, 240, 241, 390};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 390 };

static size_t length_of(uint64_t number)
{
  uint64_t random = random_at(5, number);
  return lengths[random % 4 ? 5 : random / 4 % LENGTHS];
}

/* Its number, and what follows from that; short keys are equal to others. */
static void put_key(unsigned char *bytes, uint64_t number)
{
  for (size_t i = 0, len = length_of(number); i < len; i++)
    bytes[i] = (unsigned char) (i < 8 ? number >> 8 * i : number + i);
}

struct list {
  size_t n;
  uint64_t *hashes;
  tamis_key *keys;
  bool by_hash, is_bad;
};

/* Of a filter whose keys have had numbers below `next`, mostly; by their hash if there is a filter
 * that makes them. */
static struct list draw_keys(const tamis_filter *hashed_by, size_t most, uint64_t *next)
{
  static uint64_t numbers[MOST_KEYS];
  struct list list = {.n = draw_length(most), .by_hash = hashed_by && one_in(2)};
  size_t size = 0, bad = list.by_hash || draw(3) ? 0 : 1 + draw(3);
  protect_input(false);
  for (size_t i = 0; i < list.n; size += length_of(numbers[i++]))
    numbers[i] = one_in(16) && i ? numbers[draw(i)] : *next && one_in(2) ? draw(*next) : (*next)++;
  unsigned char *bytes = place(BYTES, size);
  list.keys = place(KEYS, list.n * sizeof *list.keys);
  list.hashes = place(HASHES, list.n * sizeof *list.hashes);
  for (size_t i = 0; i < list.n; i++, bytes += list.keys[i - 1].len) {
    put_key(bytes, numbers[i]);
    list.keys[i] = (tamis_key){bytes, length_of(numbers[i])};
    list.hashes[i] = hashed_by ? tamis_hash(hashed_by, bytes, list.keys[i].len) : 0;
  }
  for (; bad && list.n; bad--, list.is_bad = true) /* the memory before has another key */
    list.keys[draw(list.n)] = (tamis_key){NULL, 1 + draw(20)};
  protect_input(true);
  return list;
}

/* ---- filters ---- */

static uint64_t own_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  uint64_t first = len;
  memcpy(&first, key, len < sizeof first ? len : sizeof first);
  return (first + seed + *(const uint64_t *) context) * UINT64_C(0x9E3779B97F4A7C15);
}

static uint64_t contexts[2] = {1, 2};

/* Each rate has a shape of its own, so none is left out for long. */
static void draw_rate(tamis_options *o)
{
  do
    o->fpp = 0.9 * pow(one_in(3) ? 1e-7 : 1e-3, random_uniform(&state));
  while (tamis_options_check(o, NULL, 0) == TAMIS_EUNSUPPORTED);
}

/* Whether a filter asks for the same memory whenever it gets the same calls: not where some waits for
 * readers, which counts until another thread has released it. */
static bool asks_alike(const tamis_options *o)
{
  return !o->growable || (o->kind != TAMIS_CUCKOO && !o->window);
}

/* One thing of a filter, as the caller chooses it. */
static void draw_option(tamis_options *o, unsigned which)
{
  static const unsigned stripes[] = {0, 1, 16, 4096};
  static const uint64_t capacities[] = {1, 20, 300, 3000, 100000};
  uint64_t bytes;
  switch (which) {
  case 0:
    o->seed = 42 + draw(2);
    break;
  case 1:
    o->hash = one_in(2) ? own_hash : NULL;
    o->hash_context = &contexts[draw(2)];
    break;
  case 2:
    o->capacity = capacities[draw(5)];
    break;
  case 3:
    o->stripes = stripes[draw(4)];
    break;
  case 4:
    o->window = o->window ? 1 + (unsigned) draw(4) : 0;
    o->window_renews = o->window && one_in(2);
    break;
  default:
    draw_rate(o);
    if (asks_alike(o) && tamis_bytes_for(o, &bytes) == TAMIS_OK && one_in(4))
      o->max_bytes = bytes + draw(bytes);
  }
  if (tamis_options_check(o, NULL, 0) != TAMIS_OK)
    o->max_bytes = 0;
}
enum { DRAWN = 6 };

static tamis_options draw_options(const struct form *form, unsigned odds)
{
  tamis_options o = form->options;
  for (unsigned i = 0; i < DRAWN; i++)
    if (one_in(odds))
      draw_option(&o, i);
  return o;
}

/* What came of a filter before it is asked: it was used, saved and loaded, mapped, or shared. */
enum way { USED, LOADED, MAPPED, SHARED, WAYS };

static tamis_filter *make(const tamis_options *options, enum way way)
{
  tamis_options o = *options;
  tamis_filter *f = NULL;
  if (o.growable && !o.max_bytes)
    o.max_bytes = 1 << 20;
  if (way == SHARED && !o.hash && tamis_open_shared(&o, NULL, &f) == TAMIS_OK)
    return f;
  return make_with_options(options);
}

static tamis_filter *again(tamis_filter *f, const tamis_options *options, enum way way)
{
  tamis_load_options o = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *other = NULL;
  if (way != LOADED && way != MAPPED)
    return f;
  struct bytes b = saved_bytes(f);
  o.hash = options->hash, o.hash_context = options->hash_context;
  int result =
      way == LOADED ? load_from(&b, &o, &other) : map_source_with(o, source_of(&b), &other);
  assert_true(result == TAMIS_OK || (way == MAPPED && result == TAMIS_EUNSUPPORTED));
  free(b.data);
  if (other)
    tamis_destroy(f);
  return other ? other : f;
}

/* Keys up to a third of the capacity, around it, or many times as many, and some leave again.  The
 * same number of calls and results each time for one state of the random numbers. */
static void use(tamis_filter *f, const tamis_options *o, uint64_t keys)
{
  unsigned char bytes[LONGEST];
  for (uint64_t i = 0; i < keys; i++) {
    put_key(bytes, i);
    (void) (i % 2 ? tamis_add : tamis_add_unique)(f, bytes, length_of(i));
    if (o->window && i % (1 + keys / 3) == keys / 5)
      assert_int_equal(tamis_advance(f), TAMIS_OK);
  }
  for (uint64_t i = 0; i < keys / 2; i += 3) {
    put_key(bytes, i);
    (void) tamis_remove(f, bytes, length_of(i));
  }
}

static uint64_t draw_fill(const tamis_options *o, uint64_t most)
{
  uint64_t keys = o->capacity * (o->growable ? draw(one_in(3) ? 400 : 16) : draw(5)) / 4;
  return keys < most ? keys : draw(most);
}

/* ---- batches ---- */

/* An allocator that refuses some requests, the same ones for the same calls. */
struct refusing {
  uint64_t requests, odds; /* 0: refuses none */
};

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct refusing *r = context;
  void *block;
  if (r->odds && random_at(r->odds, ++r->requests) % r->odds == 0)
    return NULL;
  return posix_memalign(&block, alignment, size) ? NULL : block;
}

struct twins {
  const char *form;
  uint64_t trial;
  tamis_filter *f, *twin; /* the first one gets the batches */
};

static void wrong_at(const struct twins *t, const char *call, const struct list *list, size_t i)
{
  fail_msg("trial %lu, %s: %s of %zu%s: another answer for key %zu than from a single call",
           t->trial, t->form, call, list->n, list->by_hash ? " hashes" : "", i);
}

static void check_contains(const struct twins *t, const struct list *l)
{
  unsigned char *found = place_output(l->n);
  size_t hits = l->by_hash ? tamis_contains_many_hash(t->f, l->hashes, l->n, (bool *) found)
                           : tamis_contains_many(t->f, l->keys, l->n, (bool *) found);
  for (size_t i = 0; i < l->n; i++) {
    bool single = one_in(2) && l->by_hash
                      ? tamis_contains_hash(t->twin, l->hashes[i])
                      : tamis_contains(t->twin, l->keys[i].data, l->keys[i].len);
    if (found && found[i] != single)
      wrong_at(t, "contains", l, i);
    hits -= single;
  }
  if (hits)
    wrong_at(t, "the number of contains", l, l->n);
}

static void check_count(const struct twins *t, const struct list *l)
{
  uint64_t *counts = place_output(l->n * sizeof *counts);
  uint64_t sum = l->by_hash ? tamis_count_many_hash(t->f, l->hashes, l->n, counts)
                            : tamis_count_many(t->f, l->keys, l->n, counts);
  for (size_t i = 0; i < l->n; i++) {
    uint64_t single = one_in(2) && l->by_hash
                          ? tamis_count_hash(t->twin, l->hashes[i])
                          : tamis_count(t->twin, l->keys[i].data, l->keys[i].len);
    if ((single > 0) != tamis_contains(t->twin, l->keys[i].data, l->keys[i].len))
      wrong_at(t, "contains beside count", l, i);
    if (counts && counts[i] != single)
      wrong_at(t, "count", l, i);
    sum -= single;
  }
  if (sum)
    wrong_at(t, "the sum of count", l, l->n);
}

static int add_many(tamis_filter *f, const struct list *l, bool unique, int *results)
{
  if (unique)
    return l->by_hash ? tamis_add_unique_many_hash(f, l->hashes, l->n, results)
                      : tamis_add_unique_many(f, l->keys, l->n, results);
  return l->by_hash ? tamis_add_many_hash(f, l->hashes, l->n, results)
                    : tamis_add_many(f, l->keys, l->n, results);
}

/* An invalid key keeps the whole batch out. */
static void check_adds(const struct twins *t, const struct list *l)
{
  bool unique = one_in(2);
  unsigned char *bytes = place_output(l->n * sizeof(int));
  int *results = (int *) (void *) bytes;
  int result = add_many(t->f, l, unique, results), first = TAMIS_OK;
  for (size_t i = 0; l->is_bad && bytes && i < l->n * sizeof(int); i++)
    assert_int_equal(bytes[i], UNTOUCHED);
  for (size_t i = 0; i < l->n && !l->is_bad; i++) {
    const tamis_key *key = &l->keys[i];
    int single = one_in(2) && l->by_hash
                     ? (unique ? tamis_add_unique_hash : tamis_add_hash)(t->twin, l->hashes[i])
                     : (unique ? tamis_add_unique : tamis_add)(t->twin, key->data, key->len);
    first = first == TAMIS_OK && single < 0 ? single : first;
    if (results && results[i] != single)
      wrong_at(t, unique ? "add_unique" : "add", l, i);
  }
  if (result != (l->is_bad ? TAMIS_EINVAL : first))
    wrong_at(t, "the result of adds", l, l->n);
}

static void check_twins(const struct twins *t, const char *name)
{
  assert_valid(t->f);
  assert_same_figures(t->f, t->twin, name);
  assert_int_equal(stats_of(t->f).evictions, stats_of(t->twin).evictions);
  assert_int_equal(stats_of(t->f).refused_adds, stats_of(t->twin).refused_adds);
  struct bytes saved = saved_bytes(t->f);
  if (!is_saved_as(t->twin, &saved))
    fail_msg("%s: batches leave another filter than single calls", name);
  free(saved.data);
}

static void try_batches(const struct form *form, uint64_t trial)
{
  tamis_options o = draw_options(form, 2);
  enum way way = one_in(2) ? USED : (enum way) draw(WAYS);
  uint64_t keys = draw_fill(&o, 10000), next = keys;
  struct refusing of_f = {0}, of_twin = {0};
  const tamis_allocator allocators[2] = {{allocate, free_block, &of_f},
                                         {allocate, free_block, &of_twin}};
  const bool refuses = way == USED && asks_alike(&o) && one_in(3);
  tamis_options twin = o;
  if (refuses && o.max_bytes) /* the allocator is a part of the filter */
    o.max_bytes += 128, twin.max_bytes += 128;
  if (refuses)
    o.allocator = &allocators[0], twin.allocator = &allocators[1];
  struct twins t = {form->name, trial, make(&o, way), make(&twin, way)};
  of_f.odds = of_twin.odds = refuses ? 2 + draw(4) : 0;
  use(t.f, &o, keys), use(t.twin, &o, keys);
  t.f = again(t.f, &o, way), t.twin = again(t.twin, &o, way);
  for (unsigned i = 0; i < 8; i++) {
    struct list list = draw_keys(t.f, MOST_KEYS, &next);
    check_contains(&t, &list);
    if (one_in(2))
      check_adds(&t, &list);
    if (one_in(2))
      check_contains(&t, &list);
    if (one_in(2))
      check_count(&t, &list);
    if (o.window && one_in(3))
      assert_int_equal(tamis_advance(t.f), tamis_advance(t.twin));
  }
  of_f.odds = of_twin.odds = 0;
  check_twins(&t, form->name);
  tamis_destroy(t.f), tamis_destroy(t.twin);
}

TEST(many_keys_are_as_many_calls)
{
  const uint64_t trials = is_long() ? 20000 : 600 / SCALE;
  for (uint64_t trial = 0; trial < trials; trial++) {
    state = trial;
    try_batches(&every_form()->all[trial % every_form()->n], trial);
  }
}

/* A first generation that needs two hashes, which only large filters have; one whose segments get wider
 * lanes; and a full Bloom filter of two sections, which has absent keys of which it finds the first. */
TEST(batches_of_filters_of_rare_shapes)
{
  static const struct {
    const char *name;
    tamis_kind kind;
    uint64_t capacity;
    double fpp;
  } shapes[] = {{"cuckoo", TAMIS_CUCKOO, 300000000, 3.1e-8},
                {"cuckoo", TAMIS_CUCKOO, 20, 0.001},
                {"bloom", TAMIS_BLOOM, 1000, 1e-5}};
  for (unsigned shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
    const tamis_options o =
        seeded_options(shapes[shape].kind, shapes[shape].capacity, shapes[shape].fpp, true);
    state = 1;
    struct twins t = {shapes[shape].name, shape, make_with_options(&o), make_with_options(&o)};
    uint64_t next = 0;
    for (unsigned i = 0; i < 30; i++) {
      struct list list = draw_keys(t.f, MOST_KEYS, &next);
      check_adds(&t, &list);
      check_contains(&t, &list);
      if (o.kind == TAMIS_CUCKOO)
        check_count(&t, &list);
    }
    tamis_destroy(t.f), tamis_destroy(t.twin);
  }
}

/* ---- many filters ---- */

enum { POOL = 24, MOST_FILTERS = 32 * EACH_BLOCK + 20, ROWS = 2 * FILTER_GROUP + 1 };

struct pool {
  tamis_filter *filters[POOL];
  bool hash_alike; /* so that one hash can be asked for in all of them */
};

/* Filters of one form that are alike; or one in eight differs in something, or is of another form; or
 * all are drawn. */
static void make_pool(struct pool *pool, const struct form *form)
{
  const struct forms *forms = every_form();
  const tamis_options usual = draw_options(form, one_in(2) ? 4 : 1000);
  unsigned mode = (unsigned) draw(3);
  enum way way = one_in(2) ? USED : (enum way) draw(WAYS);
  pool->hash_alike = true;
  for (unsigned i = 0; i < POOL; i++) {
    tamis_options o = usual;
    if (mode == 1 && one_in(8))
      draw_option(&o, (unsigned) draw(DRAWN));
    else if (mode == 2 || (mode == 1 && one_in(16)))
      o = draw_options(&forms->all[draw(forms->n)], 3);
    enum way own = mode == 2 ? (enum way) draw(WAYS) : way;
    tamis_filter *f = make(&o, own);
    use(f, &o, draw_fill(&o, 400));
    pool->filters[i] = again(f, &o, own);
    pool->hash_alike &= o.seed == usual.seed && o.hash == usual.hash &&
                        (!o.hash || o.hash_context == usual.hash_context);
  }
}

static const tamis_filter **draw_filters(const struct pool *pool, size_t n)
{
  size_t gaps = one_in(2) ? 0 : 1 + draw(20), first = draw(POOL);
  protect_input(false);
  const tamis_filter **filters = place(FILTERS, n * sizeof *filters);
  for (size_t i = 0; i < n; i++)
    filters[i] = gaps && one_in(gaps) ? NULL : pool->filters[(first + i) % POOL];
  protect_input(true);
  return filters;
}

static void check_row(const tamis_filter *const *filters, size_t n, const struct list *l, size_t k,
                      const unsigned char *found, size_t *hits)
{
  for (size_t i = 0; i < n; i++) {
    bool single = l->by_hash ? tamis_contains_hash(filters[i], l->hashes[k])
                             : tamis_contains(filters[i], l->keys[k].data, l->keys[k].len);
    if (found && found[i] != single)
      fail_msg("filter %zu of %zu, key %zu of %zu: another answer than from a single call", i, n, k,
               l->n);
    *hits -= single;
  }
}

static void check_each(const tamis_filter *const *filters, size_t n, const struct list *l)
{
  for (size_t k = 0; k < l->n && k < 4; k++) {
    unsigned char *found = place_output(n);
    const tamis_key *key = &l->keys[k];
    size_t hits = l->by_hash ? tamis_contains_each_hash(filters, n, l->hashes[k], (bool *) found)
                             : tamis_contains_each(filters, n, key->data, key->len, (bool *) found);
    check_row(filters, n, l, k, found, &hits);
    assert_int_equal(hits, 0);
  }
}

static void check_each_of_many(const tamis_filter *const *filters, size_t n, const struct list *l)
{
  unsigned char *found = place_output(n * l->n);
  size_t hits = tamis_contains_each_many(filters, n, l->keys, l->n, (bool *) found);
  for (size_t k = 0; k < l->n; k++)
    check_row(filters, n, l, k, found ? found + k * n : NULL, &hits);
  assert_int_equal(hits, 0);
}

TEST(many_filters_are_as_many_calls)
{
  const uint64_t trials = is_long() ? 10000 : 250 / SCALE;
  for (uint64_t trial = 0; trial < trials; trial++) {
    struct pool pool;
    state = trial;
    make_pool(&pool, &every_form()->all[trial % every_form()->n]);
    for (unsigned i = 0; i < 12; i++) {
      uint64_t next = 100;
      size_t n = draw_length(one_in(12) ? MOST_FILTERS : 5 * EACH_BLOCK + 3);
      const tamis_filter **filters = draw_filters(&pool, n);
      struct list list = draw_keys(pool.hash_alike ? pool.filters[0] : NULL, ROWS, &next);
      check_each(filters, n, &list);
      list.by_hash = false;
      if (n < 64 || one_in(4))
        check_each_of_many(filters, n, &list);
    }
    for (unsigned i = 0; i < POOL; i++)
      tamis_destroy(pool.filters[i]);
  }
}

TEST(a_list_that_is_null_holds_nothing)
{
  const tamis_key keys[] = {{"x", 1}, {"y", 1}};
  bool found[6] = {true, true, true, true, true, true};
  assert_int_equal(tamis_contains_each(NULL, 3, "x", 1, found), 0);
  assert_false(found[0] || found[1] || found[2]);
  assert_int_equal(tamis_contains_each(NULL, 0, "x", 1, NULL), 0);
  assert_int_equal(tamis_contains_each_hash(NULL, 3, 1, found), 0);
  assert_int_equal(tamis_contains_each_many(NULL, 3, keys, 2, found), 0);
  for (unsigned i = 0; i < 6; i++)
    assert_false(found[i]);
}

int main(void)
{
  make_areas();
  return run_all_tests();
}
