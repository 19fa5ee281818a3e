/* SPDX-License-Identifier: MIT
 *
 * This library in three builds: as it is shipped, for one thread (alone/layer1.h), and another
 * build of the user's choice, such as one by another compiler or of an earlier state.  All are
 * loaded at run time and called in the same manner, so that nothing else differs.
 */
#include "subject.h"
#include "tamis/tamis.h"

#include <dlfcn.h>
#include <error.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- the libraries ---- */

#define EACH_FUNCTION(f)                                                                  \
  f(create) f(destroy) f(bytes_for) f(add) f(add_hash) f(add_unique_hash) f(contains)     \
      f(contains_hash) f(remove_hash) f(add_many_hash) f(contains_many_hash) f(get_stats) \
          f(strerror)

struct library {
  const char *path;
#define MEMBER(name) __typeof__ (&tamis_##name)(name);
  EACH_FUNCTION(MEMBER)
};

static struct library shipped = {.path = BENCH_SHIPPED}, alone = {.path = BENCH_ALONE},
                      other = {.path = BENCH_SHIPPED};

void subject_set_other(const char *path)
{
  other.path = path;
}

static void *function(void *handle, const char *name)
{
  void *found = dlsym(handle, name);
  if (!found)
    error(2, 0, "%s", dlerror());
  return found;
}

static void load(struct library *library)
{
  void *handle = dlopen(library->path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    error(2, 0, "%s", dlerror());
/* The pointer is stored as void *, as C does not convert that to a pointer to a function. */
#define LOOK_UP(name) *(void **) &library->name = function(handle, "tamis_" #name);
  EACH_FUNCTION(LOOK_UP)
}

static void load_all(void)
{
  load(&shipped);
  load(&alone);
  load(&other);
}

/* ---- filters ---- */

struct variant {
  struct library *library;
  tamis_kind kind;
  tamis_layout layout;
  bool fixed;
  unsigned window;
};

static const struct variant *variant_of(const struct subject *subject)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_all);
  return subject->detail;
}

static void *allocate(void *context, size_t alignment, size_t size)
{
  (void) context, (void) alignment; /* pages_allocate() aligns to a line at least */
  return pages_allocate(size);
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment;
  pages_free(block, size);
}

static tamis_options options_of(const struct variant *variant, const struct spec *spec)
{
  static const tamis_allocator prefaulting = {.allocate = allocate, .release = release};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = variant->kind;
  options.layout = variant->layout;
  options.growable = !variant->fixed;
  options.window = variant->window;
  options.capacity = spec->capacity;
  options.fpp = spec->fpp;
  options.seed = 1; /* the same in every filter and run */
  if (spec->prefaulted)
    options.allocator = &prefaulting;
  return options;
}

static void *create(const struct subject *subject, const struct spec *spec)
{
  const struct variant *variant = variant_of(subject);
  tamis_options options = options_of(variant, spec);
  tamis_filter *filter;
  int result = variant->library->create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "%s: %s", subject->name, variant->library->strerror(result));
  return filter;
}

static void destroy(const struct subject *subject, void *state)
{
  variant_of(subject)->library->destroy(state);
}

static uint64_t bytes(const struct subject *subject, const struct spec *spec)
{
  const struct variant *variant = variant_of(subject);
  tamis_options options = options_of(variant, spec);
  uint64_t bytes;
  int result = variant->library->bytes_for(&options, &bytes);
  if (result != TAMIS_OK)
    error(2, 0, "%s: %s", subject->name, variant->library->strerror(result));
  return bytes;
}

static uint64_t bytes_now(const struct subject *subject, const void *state)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  variant_of(subject)->library->get_stats(state, &stats);
  return stats.bytes;
}

static uint64_t add_batches(const struct library *t, tamis_filter *f, const struct span *span)
{
  uint64_t yes = 0, hashes[BATCH];
  int results[BATCH];
  for (uint64_t i = 0; i < span->count; i += BATCH) {
    size_t n = span->count - i < BATCH ? span->count - i : BATCH;
    for (size_t j = 0; j < n; j++)
      hashes[j] = span_key(span, i + j);
    t->add_many_hash(f, hashes, n, results);
    for (size_t j = 0; j < n; j++)
      yes += results[j] == TAMIS_OK;
  }
  return yes;
}

static uint64_t contains_batches(const struct library *t, const tamis_filter *f,
                                 const struct span *span)
{
  uint64_t yes = 0, hashes[BATCH];
  for (uint64_t i = 0; i < span->count; i += BATCH) {
    size_t n = span->count - i < BATCH ? span->count - i : BATCH;
    for (size_t j = 0; j < n; j++)
      hashes[j] = span_key(span, i + j);
    yes += t->contains_many_hash(f, hashes, n, NULL);
  }
  return yes;
}

static uint64_t mix(const struct library *t, tamis_filter *f, const struct span *span)
{
  uint64_t yes = 0;
  for (uint64_t i = 0; i < span->count; i++) {
    uint64_t key = mix_key(span, i);
    yes += mix_adds(i) ? t->add_hash(f, key) == TAMIS_OK : t->contains_hash(f, key);
  }
  return yes;
}

static uint64_t run(const struct subject *subject, void *f, enum call call, const struct span *span)
{
  const struct library *t = ((const struct variant *) subject->detail)->library;
  uint64_t yes = 0;
  switch (call) {
  case CALL_ADD:
    EACH_KEY(span, key, yes += t->add_hash(f, key) == TAMIS_OK);
    break;
  case CALL_ADD_UNIQUE:
    EACH_KEY(span, key, yes += t->add_unique_hash(f, key) == TAMIS_OK);
    break;
  case CALL_CONTAINS:
    EACH_KEY(span, key, yes += t->contains_hash(f, key));
    break;
  case CALL_REMOVE:
    EACH_KEY(span, key, yes += t->remove_hash(f, key) == TAMIS_OK);
    break;
  case CALL_ADD_BYTES:
    EACH_KEY(span, key, yes += t->add(f, &key, sizeof key) == TAMIS_OK);
    break;
  case CALL_CONTAINS_BYTES:
    EACH_KEY(span, key, yes += t->contains(f, &key, sizeof key));
    break;
  case CALL_ADD_MANY:
    return add_batches(t, f, span);
  case CALL_CONTAINS_MANY:
    return contains_batches(t, f, span);
  case CALL_MIX:
    return mix(t, f, span);
  case CALLS:
    break;
  }
  return yes;
}

enum { ALL = (1 << CALLS) - 1, NO_REMOVE = ALL & ~(1 << CALL_REMOVE) };

#define WINDOW(periods, name_, what_, calls_, concurrent_, ...)                               \
  {                                                                                           \
    .name = (name_), .what = (what_), .calls = (calls_), .concurrent = (concurrent_),         \
    .create = create, .destroy = destroy, .run = run, .bytes = bytes, .bytes_now = bytes_now, \
    .detail = &(const struct variant)                                                         \
    {                                                                                         \
      __VA_ARGS__, (periods)                                                                  \
    }                                                                                         \
  }
#define FILTER(...) WINDOW(0, __VA_ARGS__)

const struct subject tamis_subjects[] = {
    FILTER("bloom", "Bloom filter, blocked", NO_REMOVE, true, &shipped, TAMIS_BLOOM, 0, false),
    FILTER("bloom-fixed", "the same, not growable", NO_REMOVE, true, &shipped, TAMIS_BLOOM, 0,
           true),
    FILTER("bloom-classic", "Bloom filter, classic", NO_REMOVE, true, &shipped, TAMIS_BLOOM,
           TAMIS_LAYOUT_CLASSIC, false),
    FILTER("bloom-word", "Bloom filter, word", NO_REMOVE, true, &shipped, TAMIS_BLOOM,
           TAMIS_LAYOUT_WORD, false),
    FILTER("cuckoo", "cuckoo filter", ALL, true, &shipped, TAMIS_CUCKOO, 0, false),
    FILTER("cuckoo-fixed", "the same, not growable", ALL, true, &shipped, TAMIS_CUCKOO, 0, true),
    WINDOW(4, "window", "Bloom filter with a window of 4 periods", NO_REMOVE, true, &shipped,
           TAMIS_BLOOM, 0, false),
    WINDOW(4, "window-fixed", "the same, not growable", NO_REMOVE, true, &shipped, TAMIS_BLOOM, 0,
           true),
    FILTER("counting", "Bloom filter that counts", ALL, true, &shipped, TAMIS_COUNTING_BLOOM, 0,
           false),
    FILTER("counting-alone", "the same, built without concurrency", ALL, false, &alone,
           TAMIS_COUNTING_BLOOM, 0, false),
    FILTER("bloom-alone", "as bloom, built without concurrency", NO_REMOVE, false, &alone,
           TAMIS_BLOOM, 0, false),
    FILTER("bloom-classic-alone", "as bloom-classic, built without concurrency", NO_REMOVE, false,
           &alone, TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, false),
    FILTER("bloom-word-alone", "as bloom-word, built without concurrency", NO_REMOVE, false, &alone,
           TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false),
    FILTER("cuckoo-alone", "as cuckoo, built without concurrency", ALL, false, &alone, TAMIS_CUCKOO,
           0, false),
    FILTER("cuckoo-fixed-alone", "as cuckoo-fixed, built without concurrency", ALL, false, &alone,
           TAMIS_CUCKOO, 0, true),
    FILTER("other-bloom", "as bloom, of the build that --other names", NO_REMOVE, true, &other,
           TAMIS_BLOOM, 0, false),
    FILTER("other-bloom-classic", "as bloom-classic, of that build", NO_REMOVE, true, &other,
           TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, false),
    FILTER("other-cuckoo", "as cuckoo, of that build", ALL, true, &other, TAMIS_CUCKOO, 0, false),
    FILTER("other-cuckoo-fixed", "as cuckoo-fixed, of that build", ALL, true, &other, TAMIS_CUCKOO,
           0, true),
    {0}};
