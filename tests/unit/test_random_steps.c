/* SPDX-License-Identifier: MIT
 *
 * Large steps on one filter, one after the other: fill it, empty it, unite it with others, once and again,
 * end periods, save and load it.  Three filters with the same options take steps that are drawn, and a
 * model says after each of them which keys are in, how often, and since which period.
 */
#include "saved_unit.h"

#include "harness.h"

enum { SLOTS = 3, KEYS = 700, CAPACITY = 150, ABSENT = 1000, STEPS = 40 };

/* What is known of a filter.  A union that ends with an error may have brought any of its keys. */
struct model {
  uint32_t copies[KEYS];
  uint64_t last[KEYS]; /* the period of the last add */
  bool doubtful[KEYS];
  uint64_t period;
  bool united, stuck;
};

struct slot {
  tamis_filter *f;
  struct model model;
};

struct run {
  const struct form *form;
  tamis_options options;
  bool each_copy,
      shared; /* adds of a key that is in are counted; processes may share the filters */
  uint64_t random, round;
  unsigned step;
  struct slot slots[SLOTS];
};

static uint64_t draw(struct run *r, uint64_t n)
{
  return random_next(&r->random) % n;
}

static void require(const struct run *r, bool good, const char *what, uint64_t value)
{
  if (!good)
    fail_msg("%s, round %lu, step %u: %s (%lu)", r->form->name, r->round, r->step, what, value);
}

/* ---- the model ---- */

static bool remembers(const struct run *r, const struct model *m, unsigned key)
{
  return m->copies[key] && (!r->options.window || m->period - m->last[key] <= r->options.window);
}

static uint64_t sum_of(const struct run *r, const struct model *m, bool distinct)
{
  uint64_t sum = 0;
  for (unsigned key = 0; key < KEYS; key++)
    sum += remembers(r, m, key) ? distinct ? 1 : m->copies[key] : 0;
  return sum;
}

static bool has_doubts(const struct model *m)
{
  return memchr(m->doubtful, true, sizeof m->doubtful);
}

static void note_add(const struct run *r, struct model *m, unsigned key)
{
  m->copies[key] = r->each_copy && remembers(r, m, key) ? m->copies[key] + 1 : 1;
  m->last[key] = m->period;
}

static void note_union(const struct run *r, struct model *into, const struct model *from,
                       int result)
{
  for (unsigned key = 0; key < KEYS; key++) {
    if (!remembers(r, from, key) && !from->doubtful[key])
      continue;
    if (result != TAMIS_OK || from->doubtful[key]) {
      into->doubtful[key] = true;
      continue;
    }
    uint64_t age = from->period - from->last[key];
    bool had = remembers(r, into, key);
    uint64_t since = into->period < age ? 0 : into->period - age;
    if (had && into->last[key] > since)
      since = into->last[key];
    into->copies[key] = r->each_copy ? (had ? into->copies[key] : 0) + from->copies[key] : 1;
    into->last[key] = since;
  }
  into->united = true;
  into->stuck |= from->stuck;
}

/* ---- what holds after each step ---- */

static void check_figures(const struct run *r, const struct slot *s)
{
  const tamis_stats stats = stats_of(s->f);
  const struct model *m = &s->model;
  const uint64_t sum = sum_of(r, m, !r->each_copy);
  require(r, stats.parts == (r->options.window ? r->options.window + 1 : 1), "parts", stats.parts);
  require(r, stats.oldest_part_age <= r->options.window, "oldest_part_age", stats.oldest_part_age);
  require(r, stats.period == m->period, "another period", stats.period);
  require(r, r->options.growable || stats.layers == 1, "layers", stats.layers);
  if (has_doubts(m))
    return;
  /* A key that is hidden is not counted; one may be in several layers after a union, or renewed. */
  uint64_t most = sum;
  if (!r->each_copy && (m->united || r->options.window))
    most = stats.layers * sum + 4 + sum / 25;
  require(r, stats.count <= most && (stats.count >= sum || sum - stats.count <= 4 + sum / 25),
          "another number of keys is counted than is in", stats.count);
  require(r, sum || r->options.kind == TAMIS_BLOOM || stats.occupancy <= 0,
          "a filter without keys has entries", stats.count);
}

static void check(const struct run *r, const struct slot *s)
{
  unsigned found = 0;
  const char *reason = "";
  require(r, filter_validate(s->f, &reason), reason, 0);
  for (unsigned key = 0; key < KEYS; key++) {
    if (!remembers(r, &s->model, key))
      continue;
    require(r, tamis_contains_hash(s->f, key), "a key is missing", key);
    require(r, s->model.copies[key] > 14 || tamis_count_hash(s->f, key) >= s->model.copies[key],
            "a copy is missing", key);
  }
  for (uint64_t key = KEYS; key < KEYS + ABSENT; key++)
    found += tamis_contains_hash(s->f, key);
  if (r->options.kind != TAMIS_BLOOM || r->options.window || !s->model.united)
    require(r, s->model.stuck || found <= 8 + 4 * r->options.fpp * ABSENT, "absent keys are found",
            found);
  check_figures(r, s);
}

/* ---- steps ---- */

static void add(struct run *r, struct slot *s, unsigned key, bool unique)
{
  struct model *m = &s->model;
  int result = (unique ? tamis_add_unique_hash : tamis_add_hash)(s->f, key);
  if (result == TAMIS_EFULL) {
    require(r, !r->options.growable, "a filter that grows is full", key);
    require(r,
            r->options.kind == TAMIS_COUNTING_BLOOM || has_doubts(m) || m->united ||
                sum_of(r, m, true) >= CAPACITY || remembers(r, m, key),
            "refused below the capacity", key);
  } else if (result == TAMIS_OK) {
    require(r, !unique || !remembers(r, m, key), "a key has a second winner", key);
    note_add(r, m, key);
  } else {
    require(r, result == TAMIS_PRESENT && unique, "an add fails", key);
    if (r->options.window_renews && remembers(r, m, key))
      m->last[key] = m->period;
  }
  m->stuck |= r->options.kind == TAMIS_COUNTING_BLOOM && m->copies[key] > 4;
}

static void add_some(struct run *r, struct slot *s, uint64_t n)
{
  bool unique = draw(r, 2);
  for (unsigned key = (unsigned) draw(r, KEYS); n--; key = (key + 1) % KEYS)
    add(r, s, key, unique);
}

static void remove_some(struct run *r, struct slot *s, uint64_t n)
{
  struct model *m = &s->model;
  for (unsigned key = (unsigned) draw(r, KEYS); n-- && r->form->removes; key = (key + 1) % KEYS) {
    if (!remembers(r, m, key) || m->doubtful[key])
      continue;
    require(r, tamis_remove_hash(s->f, key) == TAMIS_OK, "a copy cannot be removed", key);
    m->copies[key]--;
  }
}

static void end_periods(struct run *r, struct slot *s, uint64_t n)
{
  s->model.period += n;
  if (draw(r, 2))
    require(r, tamis_advance_to(s->f, s->model.period) == TAMIS_OK, "periods do not end", n);
  else
    for (; n; n--)
      require(r, tamis_advance(s->f) == TAMIS_OK, "a period does not end", n);
}

static tamis_filter *make(const struct run *r)
{
  tamis_options o = r->options;
  tamis_filter *f;
  o.max_bytes = o.growable ? 1 << 22 : 0;
  return r->shared && tamis_open_shared(&o, NULL, &f) == TAMIS_OK ? f
                                                                  : make_with_options(&r->options);
}

/* Everything goes: by time, by removes, or with the filter. */
static void clear(struct run *r, struct slot *s)
{
  struct model *m = &s->model;
  if (!r->form->removes && !r->options.window) {
    tamis_destroy(s->f);
    s->f = make(r);
    memset(m, 0, sizeof *m);
  } else if (r->options.window) {
    end_periods(r, s, r->options.window + 1);
    memset(m->doubtful, 0, sizeof m->doubtful);
    require(r, stats_of(s->f).count == 0, "a window that has passed has keys",
            stats_of(s->f).count);
  } else if (!has_doubts(m)) {
    while (sum_of(r, m, false))
      remove_some(r, s, KEYS);
    require(r, stats_of(s->f).count == 0, "an empty filter has keys", stats_of(s->f).count);
  }
}

static void unite(struct run *r, struct slot *into, struct slot *from)
{
  const tamis_stats old = stats_of(into->f);
  uint64_t before = old.count, more = stats_of(from->f).count, had = sum_of(r, &into->model, true);
  for (unsigned key = 0; key < KEYS; key++)
    if (into->model.copies[key] + from->model.copies[key] > 1000)
      return;
  int result = tamis_merge(into->f, from->f);
  if (into == from) {
    require(r, result == TAMIS_EINVAL, "a filter is united with itself", 0);
    return;
  }
  if (result == TAMIS_EUNSUPPORTED) { /* nothing has changed */
    require(r, stats_of(into->f).count == before, "a union that is refused counts", 0);
    return;
  }
  require(r, result == TAMIS_OK || (result == TAMIS_EFULL && !r->options.growable), "a union fails",
          (uint64_t) -result);
  note_union(r, &into->model, &from->model, result);
  into->model.stuck |= r->options.kind == TAMIS_COUNTING_BLOOM;
  if (result == TAMIS_OK && r->each_copy && !into->model.stuck)
    require(r, stats_of(into->f).count == before + more, "a union counts otherwise", before + more);
  if (result == TAMIS_OK && !r->each_copy && !r->options.window) {
    uint64_t came = sum_of(r, &into->model, true) - had,
             united = stats_of(into->f).united_count - old.united_count;
    require(r, united + 4 + came / 10 >= came, "a union does not say how many keys it brought",
            united);
  }
}

/* The filter that comes back is the same, and so are the figures of the file. */
static void save_and_load(struct run *r, struct slot *s)
{
  struct bytes b = saved_bytes(s->f);
  const tamis_stats info = info_of(&b), stats = stats_of(s->f);
  require(r,
          info.count == stats.count && info.parts == stats.parts && info.layers == stats.layers &&
              info.generations == stats.generations && info.bits_set == stats.bits_set &&
              info.united_count == stats.united_count &&
              info.oldest_part_age == stats.oldest_part_age,
          "a file has other figures than its filter", info.count);
  tamis_filter *loaded = load_bytes(&b);
  require(r, is_saved_as(loaded, &b), "a filter that was loaded is saved otherwise", b.size);
  assert_same_figures(loaded, s->f, r->form->name);
  tamis_destroy(s->f);
  s->f = loaded;
  free(b.data);
}

static void take_step(struct run *r)
{
  struct slot *s = &r->slots[draw(r, SLOTS)], *other = &r->slots[draw(r, SLOTS)];
  uint64_t n = 1 + draw(r, CAPACITY / 2);
  switch (draw(r, 10)) {
  case 0:
  case 1:
    add_some(r, s, n);
    break;
  case 2:
    add_some(r, s, r->options.growable ? 4 * CAPACITY : CAPACITY + CAPACITY / 2);
    break;
  case 3:
    remove_some(r, s, n);
    break;
  case 4:
    remove_some(r, s, KEYS);
    break;
  case 5:
    clear(r, s);
    break;
  case 6:
    save_and_load(r, s);
    break;
  case 7:
    if (r->options.window)
      end_periods(r, s, 1 + draw(r, r->options.window));
    break;
  default:
    unite(r, s, other);
    if (draw(r, 2))
      unite(r, s, other);
  }
}

/* ---- runs ---- */

static void play(const struct form *form, uint64_t round)
{
  static struct run r;
  memset(&r, 0, sizeof r);
  r.form = form, r.round = round, r.random = round, r.options = form->options;
  r.each_copy = form->removes, r.shared = round % 3 == 2;
  r.options.capacity = CAPACITY, r.options.fpp = 2e-5;
  while (tamis_options_check(&r.options, NULL, 0) != TAMIS_OK)
    r.options.fpp *= 2;
  r.options.window_renews = r.options.window && round % 2;
  for (unsigned i = 0; i < SLOTS; i++)
    r.slots[i].f = make(&r);
  for (; r.step < STEPS; r.step++) {
    take_step(&r);
    for (unsigned i = 0; i < SLOTS; i++)
      check(&r, &r.slots[i]);
  }
  for (unsigned i = 0; i < SLOTS; i++)
    tamis_destroy(r.slots[i].f);
}

TEST(steps_in_any_order)
{
  const uint64_t rounds = is_long() ? 1000 : 20 / SCALE;
  for (const struct form *form = NULL; (form = next_form(form));)
    for (uint64_t round = 0; round < rounds; round++)
      play(form, round);
}

/* ---- pairs of filters ---- */

static uint64_t own_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) key;
  return len * seed + (context ? *(const uint64_t *) context : 0);
}

/* The same options but for one thing.  False: there is no such filter. */
static bool draw_other(const struct form *form, unsigned what, tamis_options *o)
{
  static uint64_t context = 7;
  const struct form *next = next_form(form);
  o->seed += what == 0;
  o->capacity *= what == 1 ? 5 : 1;
  o->fpp *= what == 2 ? 30 : 1;
  o->growable ^= what == 3;
  o->window += what == 4 && o->window;
  o->hash = what == 5 ? own_hash : o->hash;
  o->hash_context = what == 6 ? &context : NULL;
  if (what == 6)
    o->hash = own_hash;
  if (what == 7)
    *o = next ? next->options : every_form()->all[0].options;
  return (what != 4 || o->window) && tamis_options_check(o, NULL, 0) == TAMIS_OK;
}

static bool is_bloom(const struct form *form)
{
  return form->options.kind == TAMIS_BLOOM && !form->options.window;
}

static void assert_unfit(const struct form *form, tamis_filter *a, tamis_filter *b)
{
  struct bytes before = saved_bytes(a);
  tamis_filter *out = a;
  tamis_similarity_stats similar = TAMIS_SIMILARITY_STATS_INIT, unwritten = similar;
  if (tamis_merge(a, b) != TAMIS_EINVAL)
    fail_msg("%s: filters that do not fit are united", form->name);
  const int expected = is_bloom(form) || !b ? TAMIS_EINVAL : tamis_intersect(a, b, &out);
  assert_int_equal(tamis_intersect(a, b, &out), expected);
  assert_int_equal(tamis_similarity(a, b, &similar), expected);
  assert_true(expected == TAMIS_EINVAL || expected == TAMIS_EUNSUPPORTED);
  assert_null(out);
  assert_memory_equal(&similar, &unwritten, sizeof similar);
  assert_true(is_saved_as(a, &before));
  free(before.data);
}

/* Only Bloom filters without a window have an intersection, and something in common. */
static void check_support(const struct form *form, tamis_filter *a)
{
  const int expected = is_bloom(form) ? TAMIS_OK : TAMIS_EUNSUPPORTED;
  tamis_similarity_stats similar;
  tamis_filter *b = make_with_options(&form->options), *out = a;
  assert_int_equal(tamis_intersect(a, b, &out), expected);
  assert_true((out != NULL) == is_bloom(form));
  tamis_destroy(out);
  memset(&similar, 0xA5, sizeof similar);
  tamis_similarity_stats_init(&similar);
  assert_int_equal(tamis_similarity(a, b, &similar), expected);
  similar.struct_size--;
  assert_int_equal(tamis_similarity(a, b, &similar), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(a, b, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_intersect(a, b, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(a, a), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(NULL, a), TAMIS_EINVAL);
  assert_unfit(form, a, NULL);
  tamis_destroy(b);
}

TEST(filters_that_do_not_fit_are_refused)
{
  tamis_similarity_stats_init(NULL);
  for (const struct form *form = NULL; (form = next_form(form));)
    for (uint64_t capacity = 1; capacity <= 1000; capacity *= 1000)
      for (unsigned what = 0; what < 8; what++) {
        tamis_options o = form->options, other;
        o.capacity = capacity, o.hash = what == 6 ? own_hash : NULL;
        other = o;
        if ((capacity == 1 && what != 3) || !draw_other(form, what, &other))
          continue; /* the smallest filters are of one size */
        tamis_filter *a = make_with_options(&o), *b = make_with_options(&other);
        (void) tamis_add_hash(a, 1), (void) tamis_add_hash(b, 2);
        assert_unfit(form, a, b), assert_unfit(form, b, a);
        if (what == 0 && capacity > 1)
          check_support(form, a);
        tamis_destroy(a), tamis_destroy(b);
      }
}

/* Unites two filters with each other in turn, until that is refused because of their copies.  Each
 * of the unions can be saved and loaded. */
static void unite_in_turn(tamis_filter *const f[2])
{
  int result = TAMIS_OK;
  unsigned unions = 0;
  for (; unions < 100 && result == TAMIS_OK; unions++) {
    tamis_filter *into = f[1 - unions % 2], *from = f[unions % 2];
    uint64_t before = tamis_count_hash(into, 0), more = tamis_count_hash(from, 0);
    result = tamis_merge(into, from);
    assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
    assert_int_equal(tamis_count_hash(into, 0), before + (result == TAMIS_OK ? more : 0));
    tamis_filter *loaded = copy_of(into);
    assert_int_equal(tamis_count_hash(loaded, 0), tamis_count_hash(into, 0));
    tamis_destroy(loaded);
  }
  assert_int_equal(result, TAMIS_EFULL);
  assert_in_range(unions, 50, 90);
}

/* These end before there are more than a file has room for. */
TEST(copies_have_an_end)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    if (form->options.kind != TAMIS_CUCKOO)
      continue;
    tamis_options o = form->options;
    o.capacity = 100;
    tamis_filter *f[] = {make_with_options(&o), make_with_options(&o)};
    add_range(f[0], 0, 3);
    unite_in_turn(f);
    const uint64_t copies = tamis_count_hash(f[0], 0), keys[] = {0, 5, 0};
    uint64_t counts[3];
    assert_true(copies > UINT64_C(1) << 40 && stats_of(f[0]).count > copies);
    assert_true(tamis_count_many_hash(f[0], keys, 3, counts) == 2 * copies + counts[1]);
    assert_true(counts[0] == copies && counts[1] == 0 && counts[2] == copies);
    assert_int_equal(tamis_add_hash(f[0], 0), TAMIS_OK);
    remove_range(f[0], 0, 3);
    assert_valid(f[0]);
    tamis_destroy(f[0]), tamis_destroy(f[1]);
  }
}
