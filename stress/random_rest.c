/* SPDX-License-Identifier: MIT
 *
 * What stress-random checks while no thread makes calls.
 *
 * Statistical bounds are wide enough that a correct library fails one of them about once in 10^9
 * times: six and a half standard deviations.
 */
#include "bloom/bloom.h"
#include "line_rate.h"
#include "random.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const double deviations = 6.5;

void require(struct run *run, bool good, const char *what, uint64_t value)
{
  if (!good)
    run_wrong(run, what, value);
}

int note_add(struct run *run, int result)
{
  atomic_fetch_add(&run->adds, 1);
  atomic_fetch_add(&run->refusals, result == TAMIS_EFULL || result == TAMIS_ENOMEM);
  return result;
}

/* ---- creation ---- */

static uint64_t size_of(struct run *run, const tamis_options *o)
{
  uint64_t bytes = 0;
  require(run, tamis_bytes_for(o, &bytes) == TAMIS_OK, "no size is known", 0);
  return bytes;
}

/* A limit that is a byte too low is refused, and nothing is kept. */
static void check_too_small_a_limit(struct run *run, const tamis_options *o)
{
  tamis_options less = *o;
  tamis_filter *f = (tamis_filter *) run;
  less.max_bytes = 0;
  less.max_bytes = size_of(run, &less) - 1;
  run->ledger.limit = less.max_bytes;
  require(run, tamis_create(&less, &f) == TAMIS_EFULL && !f, "created in too few bytes",
          less.max_bytes);
  require(run, ledger_is_even(&run->ledger), "a refused creation keeps memory", 0);
}

static void check_rate_for_bytes(struct run *run, const tamis_options *o, uint64_t needed)
{
  tamis_options other = *o;
  uint64_t bytes = 0;
  if (o->fpp > 0.99) /* which tamis_fpp_for() never answers */
    return;
  other.max_bytes = needed;
  int result = tamis_fpp_for(o, needed, &other.fpp);
  require(run, result == TAMIS_OK && other.fpp <= o->fpp * 1.01,
          "tamis_fpp_for does not find the rate that tamis_bytes_for knows", needed);
  result = tamis_bytes_for(&other, &bytes);
  require(run, result == TAMIS_OK && bytes <= needed,
          "the rate of tamis_fpp_for takes more bytes than given", bytes);
}

/* While memory is refused by chance, a filter is created or nothing is kept. */
static bool try_to_create(struct run *run, const tamis_options *o)
{
  run->filter = NULL;
  atomic_store(&run->ledger.armed, true);
  int result = tamis_create(o, &run->filter);
  atomic_store(&run->ledger.armed, false);
  if (result == TAMIS_OK)
    return true;
  require(run, result == TAMIS_ENOMEM && !run->filter, "refused memory is not TAMIS_ENOMEM", 0);
  require(run, ledger_is_even(&run->ledger), "a failed creation keeps memory", 0);
  return false;
}

void create_and_check(struct run *run)
{
  struct configuration *c = &run->configuration;
  tamis_options o = c->options;
  tamis_allocator allocator = ledger_allocator(&run->ledger);
  if (c->memory != SYSTEM_MEMORY)
    o.allocator = &allocator;
  uint64_t needed = size_of(run, &o);
  if (o.max_bytes && o.max_bytes < needed) /* drawn without the allocator, which takes some bytes */
    o.max_bytes = c->options.max_bytes = needed;
  run->needed = needed;
  run->created = harness_nanoseconds();
  check_too_small_a_limit(run, &o);
  check_rate_for_bytes(run, &o, needed);
  run->ledger.limit = o.max_bytes;
  if (c->memory != FAILING_MEMORY || !try_to_create(run, &o)) {
    int result = tamis_create(&o, &run->filter);
    if (result != TAMIS_OK)
      error(2, 0, "configuration %" PRIu64 ": cannot create a filter: %s", run->number,
            tamis_strerror(result));
  }
  tamis_stats s = stats_of(run->filter);
  require(run, s.kind != TAMIS_CUCKOO ? s.bytes == needed : s.bytes <= needed,
          "a new filter has another size than was said", s.bytes);
  require(run, s.count == 0 && s.growths == 0 && s.load == 0 && s.fpp_estimate == 0,
          "a new filter is not empty", s.count);
  if (keeps_all(run))
    require(run, s.layout == o.layout, "another layout than asked for", s.layout);
}

/* ---- counts ---- */

static uint64_t copies_in(const struct run *run)
{
  uint64_t copies = 0;
  for (uint64_t key = 0; key < run->all; key++)
    copies += run->copies[key];
  return copies;
}

/* A Bloom filter does not count keys that a false positive hid when they were added.  Each had its
 * chance at the rate of the filter at the time, which is at most that of the filter now.  (The rate
 * changes from filter to filter; the bound is wide.)  In a race another thread's add may hide a
 * key, too. */
static double most_hidden(const struct run *run, double in, double rate)
{
  double mean = 2 * rate * in + 16 * (double) run->configuration.threads;
  return mean + deviations * sqrt(mean);
}

/* Once something has been forgotten, copies of a forgotten key may be counted that the filter takes
 * for one of another key, and entries that renew for another key's sake.  The layers in which a key was
 * hidden may have left, so the rate of today says nothing: it was at most the promised one. */
static void check_count_in_window(struct run *run, const tamis_stats *s, uint64_t in)
{
  double hidden = most_hidden(run, (double) run->all, s->fpp);
  if (is_bloom(run)) {
    /* A key of an older layer that is added goes to the newest one, too. */
    require(run, (double) s->count <= (double) in * s->layers + hidden,
            "more keys are counted than are in", s->count);
    require(run, (double) s->count + hidden >= (double) in, "keys are not counted", s->count);
  } else {
    require(run, s->count >= in, "copies are not counted", s->count);
    require(run, s->count == in || atomic_load(&run->ended) > run->configuration.options.window,
            "the count is not exact", s->count);
  }
}

static void check_count(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  tamis_stats s = stats_of(run->filter);
  uint64_t in = copies_in(run);
  if (has_window(run)) {
    check_count_in_window(run, &s, in);
    return;
  }
  if (!is_bloom(run)) {
    require(run, s.count == in, "the count is not exact", s.count);
    return;
  }
  uint64_t most = in;
  if (o->growable) /* a key may be added to two layers while the later one is opened */
    most += run->configuration.threads * (s.layers - 1);
  if (!o->growable && o->capacity + 64 * run->configuration.threads < most)
    most = o->capacity + 64 * run->configuration.threads;
  require(run, s.count <= most, "more keys are counted than were let in", s.count);
  /* Keys that were refused had their chance to be hidden, too. */
  double offered = (double) (s.refused_adds ? run->all : in);
  require(run, (double) s.count + most_hidden(run, offered, s.fpp_estimate) >= (double) in,
          "keys are not counted", s.count);
}

/* The validation of Bloom filters takes it for granted that each key that has set bits is counted.
 * One that sets bits while another key's add sets the last that it lacks is not. */
static void check_structure(struct run *run)
{
  const char *reason = NULL;
  bool races = keeps_all(run) && run->configuration.threads > 1;
  if (!races && !filter_validate(run->filter, &reason))
    run_wrong(run, reason, 0);
}

static void check_figures(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  tamis_stats s = stats_of(run->filter);
  require(run, !o->max_bytes || s.bytes <= o->max_bytes, "more bytes than max_bytes", s.bytes);
  const char *ledger = atomic_load(&run->ledger.wrong);
  require(run, !ledger, ledger, atomic_load(&run->ledger.most_bytes));
  check_structure(run);
  check_each_figure(run);
}

/* ---- keys ---- */

struct look {
  uint64_t first;
  size_t n;
  tamis_key keys[LONGEST_BATCH];
  uint64_t hashes[LONGEST_BATCH];
  unsigned char bytes[LONGEST_BATCH][LONGEST_KEY];
  bool found[LONGEST_BATCH];
  uint64_t counts[LONGEST_BATCH];
};

static void load(const struct run *run, struct look *look)
{
  for (size_t i = 0; i < look->n; i++) {
    look->keys[i] = (tamis_key){
        look->bytes[i], configuration_key(&run->configuration, look->first + i, look->bytes[i])};
    look->hashes[i] = tamis_hash(run->filter, look->keys[i].data, look->keys[i].len);
  }
}

/* Batches and single calls, keys and their hashes: all give one answer. */
static void compare_calls(struct run *run, struct look *look)
{
  const tamis_filter *f = run->filter;
  size_t hits = tamis_contains_many_hash(f, look->hashes, look->n, look->found), single = 0;
  for (size_t i = 0; i < look->n; i++) {
    uint64_t key = look->first + i;
    bool found = tamis_contains(f, look->keys[i].data, look->keys[i].len);
    single += found;
    require(run, found == look->found[i] && found == tamis_contains_hash(f, look->hashes[i]),
            "a batch answers otherwise than a single call", key);
    require(run, found || !run->copies[key], "a key is missing at rest", key);
  }
  require(run,
          hits == single && tamis_contains_many(f, look->keys, look->n, NULL) == hits &&
              tamis_contains_many(f, look->keys, look->n, look->found) == hits,
          "batches differ in their number of hits", hits);
}

/* Copies are counted, at least those that were added. */
static void compare_counts(struct run *run, struct look *look)
{
  const tamis_filter *f = run->filter;
  uint64_t sum = 0, all = tamis_count_many_hash(f, look->hashes, look->n, look->counts);
  uint64_t most = is_bloom(run) ? 1 : stats_of(run->filter).count;
  for (size_t i = 0; i < look->n; i++) {
    uint64_t key = look->first + i, count = look->counts[i];
    sum += count;
    require(run, count == tamis_count(f, look->keys[i].data, look->keys[i].len),
            "a batch counts otherwise than a single call", key);
    require(run, count >= run->copies[key], "a copy is not counted at rest", key);
    require(run, count <= most, "more copies are counted than there are", key);
  }
  require(run, sum == all, "a batch returns what is not the sum of its counts", all);
}

/* Segments that split or join change what a key can be told from. */
static uint64_t steps_of_growth(struct run *run)
{
  tamis_stats stats = stats_of(run->filter);
  return stats.growths + stats.joins;
}

/* A copy less after a remove, and again one more after an add. */
static void change_counts(struct run *run, struct look *look)
{
  tamis_filter *f = run->filter;
  /* In a window of several layers another key's copies may be in a later one. */
  if (is_bloom(run) || (has_window(run) && stats_of(run->filter).layers > 1))
    return;
  for (size_t i = 0; i < look->n; i++) {
    uint64_t key = look->first + i, hash = look->hashes[i];
    if (!run->copies[key] || random_at(run->number, key) % 16)
      continue;
    uint64_t steps = steps_of_growth(run), count = tamis_count_hash(f, hash);
    require(run, tamis_remove_hash(f, hash) == TAMIS_OK, "a copy is not removed", key);
    uint64_t less = tamis_count_hash(f, hash);
    require(run, less == count - 1 || steps != steps_of_growth(run),
            "a remove does not make one copy less", key);
    steps = steps_of_growth(run);
    window_note_add(run, key, window_call_begins(run));
    if (note_add(run, tamis_add_hash(f, hash)) == TAMIS_OK)
      require(run, tamis_count_hash(f, hash) == less + 1 || steps != steps_of_growth(run),
              "an add does not make one copy more", key);
    else
      run->copies[key]--; /* its room is gone */
  }
}

static void look_for_all(struct run *run)
{
  static struct look look;
  uint64_t seed = run->configuration.seed;
  for (look.first = 0; look.first < run->all; look.first += look.n) {
    look.n = 1 + random_next(&seed) % run->configuration.longest_batch;
    look.n = look.first + look.n < run->all ? look.n : run->all - look.first;
    load(run, &look);
    compare_calls(run, &look);
    compare_counts(run, &look);
    change_counts(run, &look);
  }
}

/* ---- calls that change nothing ---- */

static void check_calls_without_effect(struct run *run)
{
  tamis_filter *f = run->filter;
  tamis_key keys[2] = {{"new", 3}, {NULL, 1}};
  int results[2] = {77, 77};
  unsigned char bytes[LONGEST_KEY];
  tamis_stats before = stats_of(run->filter);
  bool refused = tamis_add(f, NULL, 1) == TAMIS_EINVAL &&
                 tamis_add_unique(f, NULL, 1) == TAMIS_EINVAL &&
                 tamis_remove(f, NULL, 1) == TAMIS_EINVAL &&
                 tamis_add_many(f, keys, 2, results) == TAMIS_EINVAL &&
                 tamis_add_unique_many(f, keys, 2, results) == TAMIS_EINVAL &&
                 tamis_add_many_hash(f, NULL, 1, results) == TAMIS_EINVAL &&
                 !tamis_contains(f, NULL, 1) && results[0] == 77 && results[1] == 77;
  require(run, refused, "invalid arguments are taken", 0);
  for (uint64_t key = 0; key < run->all && key < 1000; key++)
    if (run->copies[key]) {
      size_t len = configuration_key(&run->configuration, key, bytes);
      if (is_bloom(run) || run->configuration.options.window_renews)
        window_note_add(run, key, window_call_begins(run));
      require(run, note_add(run, tamis_add_unique(f, bytes, len)) == TAMIS_PRESENT,
              "add_unique does not find a key", key);
      require(run, !is_bloom(run) || note_add(run, tamis_add(f, bytes, len)) == TAMIS_OK,
              "a Bloom filter refuses a key that is in", key);
    }
  tamis_stats after = stats_of(run->filter);
  /* A key of an older layer goes to the newest one of a Bloom window, too. */
  bool twice = is_bloom(run) && has_window(run) && after.layers > 1;
  require(run, (twice || before.count == after.count) && before.bits_set == after.bits_set,
          "a call without effect has changed the filter", after.count);
}

void check_at_rest(struct run *run)
{
  check_figures(run);
  check_count(run);
  look_for_all(run);
  check_calls_without_effect(run);
}

/* ---- rates ---- */

/* The exact rate of this filter, and the most that it may be with the keys of its capacity.  The
 * header promises the average over seeds.  The rates of lines are nearly independent draws, so the
 * deviation of their mean follows from themselves, if there are enough of them.
 * Source: de la Pena, Klass and Lai, "Self-normalized processes", Annals of Probability 32
 * (2004) */
static double bloom_rate(const struct bloom *b, double *most)
{
  enum { ENOUGH_LINES = 64 };
  const struct bloom_geometry g = bloom_geometry_of(b);
  double deviation, rate = rate_of_filter(b, &deviation);
  bool few = bloom_section_words(g.shape, g.words) < ENOUGH_LINES * LINE_WORDS;
  *most = few ? 1 : b->fpp + 1.2 * deviations * deviation;
  return rate;
}

/* The exact rate of all layers. */
static double layers_rate(const struct bloom *first)
{
  double none = 1, most;
  for (const struct bloom *layer = newest_layer(first); layer; layer = bloom_older(layer))
    none *= 1 - bloom_rate(layer, &most);
  return 1 - none;
}

/* The part of `most` absent keys that are found. */
static uint64_t count_false_positives(const struct run *run, uint64_t most)
{
  enum { BATCH = 1024 };
  uint64_t hashes[BATCH], hits = 0, first = UINT64_C(1) << 50;
  bool sequential = run->configuration.options.hash || run->number % 2;
  for (uint64_t i = 0; i < most; i += BATCH) {
    for (unsigned j = 0; j < BATCH; j++)
      hashes[j] = sequential ? first + i + j : random_at(~run->configuration.seed, first + i + j);
    hits += tamis_contains_many_hash(run->filter, hashes, BATCH, NULL);
  }
  return hits;
}

static bool is_at_most(double hits, double expected)
{
  return hits <= expected + deviations * sqrt(expected) + 8;
}

/* Planned from the bits of a fingerprint: two buckets of as many lanes as fit into 64 bits. */
static double planned_rate(const struct run *run, const tamis_stats *s)
{
  unsigned width = s->fingerprint_bits + run->configuration.options.growable, lanes = 64 / width;
  return 2.0 * lanes * ldexp(1, -(int) s->fingerprint_bits);
}

static void check_bloom_rate(struct run *run, const tamis_stats *s, double hits, double asked)
{
  const struct bloom *b = const_bloom_of(run->filter);
  if (s->layers > 1) {
    require(run, is_at_most(hits, 1.1 * layers_rate(b) * asked),
            "more false positives than the set bits explain", (uint64_t) hits);
    if (bloom_capacity(b) >= 1000)
      require(run, s->fpp_estimate <= s->fpp, "layers have a rate above the one asked for, 1/",
              (uint64_t) (1 / s->fpp_estimate));
    return;
  }
  double most, rate = bloom_rate(b, &most);
  /* Positions come from a short generator, which raises the rate slightly. */
  require(run, is_at_most(hits, 1.1 * rate * asked),
          "more false positives than the set bits explain", (uint64_t) hits);
  require(run, is_at_most(0.9 * rate * asked, hits + deviations * sqrt(hits)),
          "fewer false positives than the set bits explain", (uint64_t) hits);
  if (copies_in(run) <= run->configuration.options.capacity)
    require(run, rate <= 1.02 * most, "a rate above the one asked for, 1/", (uint64_t) (1 / rate));
}

/* The entries that stand in a filter that grows know different numbers of bits.  How many know few
 * varies, in small filters the most. */
static void check_cuckoo_rate(struct run *run, const tamis_stats *s, double hits, double asked)
{
  const tamis_options *o = &run->configuration.options;
  double most = o->fpp;
  if (o->growable)
    most *= 1 + 16 / sqrt((double) s->count + 1);
  require(run, is_at_most(hits, most * asked), "a rate above the one asked for, 1/",
          (uint64_t) (asked / hits));
  require(run, planned_rate(run, s) * (o->growable ? 0.75 : 1) <= o->fpp,
          "fingerprints are too short for the rate", s->fingerprint_bits);
  require(run, s->fpp_estimate <= 2 * o->fpp, "the estimate is far above the rate asked for",
          (uint64_t) (1 / s->fpp_estimate));
}

/* The rates of small tables vary. */
static void check_window_rate(struct run *run, const tamis_stats *s, double hits, double asked)
{
  const tamis_options *o = &run->configuration.options;
  double deviation = 1 + 16 / sqrt((double) s->count + 1);
  require(run, is_at_most(hits, deviation * o->fpp * asked), "a rate above the one asked for, 1/",
          (uint64_t) (asked / hits));
  require(run, is_at_most(hits, 1.1 * deviation * s->fpp_estimate * asked),
          "more false positives than the lanes in use explain", (uint64_t) hits);
  require(run, s->fpp_estimate <= 1.01 * o->fpp, "the estimate is above the rate asked for",
          (uint64_t) (1 / s->fpp_estimate));
}

void check_rate(struct run *run, uint64_t most)
{
  tamis_stats s = stats_of(run->filter);
  uint64_t asked = most;
  if (s.fpp * (double) most > 1000) /* enough for three digits */
    asked = (uint64_t) (1000 / s.fpp) + 1;
  asked = (asked + 1023) / 1024 * 1024;
  uint64_t hits = count_false_positives(run, asked);
  (has_window(run)          ? check_window_rate
   : s.kind == TAMIS_CUCKOO ? check_cuckoo_rate
                            : check_bloom_rate)(run, &s, (double) hits, (double) asked);
}

/* The rates of small filters vary too much to show that they are planned for a rate that is
 * slightly wrong.  So a larger filter with the same options is filled to its capacity, too. */
void check_rate_when_large(struct run *run, uint64_t capacity, uint64_t most)
{
  enum { BATCH = 1024 };
  static struct run large; /* none of its keys is known */
  uint64_t hashes[BATCH], seed = run->configuration.seed, in = 0;
  memset(&large, 0, sizeof large);
  large.configuration = run->configuration;
  large.number = run->number;
  tamis_options *o = &large.configuration.options;
  o->capacity = capacity / BATCH * BATCH;
  o->max_bytes = 0;
  o->fpp = fmax(o->fpp, 1e-10); /* which is legal with so many keys, too */
  if (run->configuration.options.capacity >= o->capacity ||
      (o->kind == TAMIS_CUCKOO && run->number % 4))
    return; /* cuckoo filters take longer, and the lengths of their fingerprints say more */
  if (tamis_create(o, &large.filter) != TAMIS_OK)
    error(2, 0, "configuration %" PRIu64 ": cannot create a large filter", run->number);
  for (; in < o->capacity; in += BATCH) {
    for (unsigned i = 0; i < BATCH; i++)
      hashes[i] = random_at(seed, in + i);
    require(run, tamis_add_many_hash(large.filter, hashes, BATCH, NULL) == TAMIS_OK,
            "refused before the capacity of a large filter", in);
  }
  check_rate(&large, most);
  tamis_destroy(large.filter);
  atomic_fetch_add(&run->wrong, large.wrong);
}

/* ---- removes ---- */

int call_on_key(struct run *run, uint64_t key,
                int call(tamis_filter *f, const void *key, size_t len))
{
  unsigned char bytes[LONGEST_KEY];
  return call(run->filter, bytes, configuration_key(&run->configuration, key, bytes));
}

/* Removes distinct keys until fewer than the capacity are in, and adds one that was refused. */
void check_room_after_removes(struct run *run)
{
  if (run->configuration.options.growable)
    return; /* memory that waits for readers counts */
  if (has_window(run) && run->configuration.options.max_bytes)
    return; /* the key may be taken for another one's copy, which takes memory */
  uint64_t in = copies_in(run), refused = run->configuration.keys;
  while (refused < run->all && !(atomic_load(&run->refused[refused]) && !run->copies[refused]))
    refused++;
  if (refused == run->all)
    return;
  for (uint64_t key = 0; key < run->all && in >= run->configuration.options.capacity; key++)
    if (run->copies[key]) {
      require(run, call_on_key(run, key, tamis_remove) == TAMIS_OK, "a key cannot be removed", key);
      run->copies[key]--;
      in--;
    }
  window_note_add(run, refused, window_call_begins(run));
  require(run, note_add(run, call_on_key(run, refused, tamis_add)) == TAMIS_OK,
          "there is no room after removes below the capacity", refused);
  run->copies[refused]++;
}

/* What threads competed for is removed here, the rest was. */
static void remove_rest(struct run *run)
{
  for (uint64_t key = 0; key < run->all; key++)
    for (; run->copies[key]; run->copies[key]--)
      require(run, call_on_key(run, key, tamis_remove) == TAMIS_OK, "a key cannot be removed", key);
  require(run, copies_in(run) == 0, "keys cannot be removed", copies_in(run));
}

/* What waits for readers is released soon.  A later generation keeps the words of its roots, and a few
 * empty segments stay. */
static void check_memory_comes_back(struct run *run)
{
  enum { LATER = 4 << 10, FEW = 8 << 10, MOST_SECONDS = 30 };
  double end = harness_seconds() + MOST_SECONDS;
  tamis_stats s = stats_of(run->filter);
  uint64_t most = 2 * run->needed + FEW + LATER * (uint64_t) (s.generations - 1);
  for (; s.bytes > most && harness_seconds() < end; s = stats_of(run->filter))
    usleep(1000);
  require(run, s.bytes <= most, "an empty filter keeps its memory", s.bytes);
}

void check_empty(struct run *run)
{
  remove_rest(run);
  tamis_stats s = stats_of(run->filter);
  require(run, s.count == 0 && s.occupancy == 0, "an empty filter holds keys", s.count);
  unsigned char bytes[LONGEST_KEY];
  for (uint64_t key = 0; key < run->all; key++) {
    size_t len = configuration_key(&run->configuration, key, bytes);
    require(run, !tamis_contains(run->filter, bytes, len), "an empty filter finds a key", key);
  }
  check_structure(run);
  if (run->configuration.options.growable && !has_window(run))
    check_memory_comes_back(run);
}
