/* SPDX-License-Identifier: MIT */
#include "fuzz/hostile.h"

#include "cuckoo/save.h"
#include "saved_sums.h"
#include "validate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  HASHES = 128,        /* that are looked up: the first ones are those of the corpus */
  NEW_HASHES = 1 << 20 /* from here on, those that are added */
};

#define demand(condition, ...) ((condition) ? (void) 0 : wrong(__VA_ARGS__))

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fputs("wrong: ", stderr);
  (void) vfprintf(stderr, format, arguments);
  fputs("\n", stderr);
  va_end(arguments);
  abort();
}

/* Of a filter that processes share: it has no trailer, and anything may follow it. */
static bool is_live(const struct source *s)
{
  return s->size >= SAVED_HEADER && saved_get64(s->data + 16) & SAVED_LIVE;
}

/* The hash function of filters that have one of their user's. */
static uint64_t own_hash_of(void *context, const void *key, size_t len, uint64_t seed)
{
  return hash_sum(key, len, seed ^ *(const uint64_t *) context);
}

static uint64_t own_context = 0x746D73;

/* ---- memory ---- */

struct memory {
  size_t now, most, blocks;
  uint64_t limit;              /* 0: none */
  const struct source *source; /* NULL: nothing is being loaded */
  unsigned calls, fail_at;
  bool refused; /* more than there is */
};

enum { MOST_AT_ONCE = 1 << 25 }; /* there is no more memory than that */

/* The directories of a cuckoo filter that grows follow from its geometry and the depths of its
 * segments.  They are asked for when all of the data has come. */
static bool directories_may_come(const struct source *s)
{
  return s->at >= SAVED_HEADER + SAVED_UNIT && saved_get32(s->data + 32) == TAMIS_CUCKOO &&
         saved_get32(s->data + 44) &&
         memcmp(s->data + s->at - SAVED_UNIT, SAVED_TRAILER_MAGIC, 8) == 0;
}

/* While a block is copied into a larger one there are three times as many bytes as have come.  A
 * filter has something beside its bits, and the first MiB is asked for at once. */
static size_t allowance(const struct source *s)
{
  return directories_may_come(s) ? SIZE_MAX : 3 * s->at + ((size_t) 1 << 20) + ((size_t) 1 << 19);
}

/* What the reader may have beside the filter: blocks as they come, and the first part of the next
 * one. */
static size_t reading(const struct source *s)
{
  return s->at + ((size_t) 1 << 16) + 128;
}

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct memory *m = context;
  void *block;
  if (++m->calls == m->fail_at)
    return NULL;
  if (m->source) {
    demand(size <= allowance(m->source) && m->now + size <= allowance(m->source),
           "%zu bytes are asked for, beside %zu, when %zu have come", size, m->now, m->source->at);
    demand(!m->limit || m->now + size <= m->limit + reading(m->source),
           "%zu bytes are asked for, beside %zu, over max_bytes %llu", size, m->now,
           (unsigned long long) m->limit);
  }
  if (size > MOST_AT_ONCE) {
    m->refused = true;
    return NULL;
  }
  if (posix_memalign(&block, alignment, size))
    return NULL;
  memset(block, 0xA5, size);
  m->now += size;
  m->most = m->now > m->most ? m->now : m->most;
  m->blocks++;
  return block;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  struct memory *m = context;
  (void) alignment;
  m->now -= size;
  m->blocks--;
  free(block);
}

static void demand_nothing_left(const struct memory *m)
{
  demand(!m->now && !m->blocks, "%zu bytes in %zu blocks are left", m->now, m->blocks);
}

/* ---- loading ---- */

static tamis_load_options options_for(bool own_hash, const tamis_allocator *allocator)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = allocator;
  if (own_hash) {
    options.hash = own_hash_of;
    options.hash_context = &own_context;
  }
  return options;
}

/* Loads with memory that is watched. */
static int load(struct source *s, bool own_hash, struct memory *m, tamis_filter **out)
{
  const tamis_allocator allocator = {allocate, release, m};
  tamis_load_options options = options_for(own_hash, &allocator);
  options.max_bytes = m->limit;
  m->source = s;
  *out = (tamis_filter *) s;
  int result = tamis_load(&options, read_source, s, out);
  m->source = NULL;
  demand((*out != NULL) == (result == TAMIS_OK), "%s, and a filter is %p", tamis_strerror(result),
         (void *) *out);
  demand(result <= 0, "tamis_load() returns %d", result);
  demand(result != TAMIS_ENOMEM || m->refused || m->fail_at, "memory that there is was refused");
  if (!*out)
    demand_nothing_left(m);
  return result;
}

static void destroy(tamis_filter *f, const struct memory *m)
{
  tamis_destroy(f);
  demand_nothing_left(m);
}

/* ---- a filter that has been loaded ---- */

static void demand_valid(const tamis_filter *f, const char *when)
{
  const char *reason = "";
  demand(filter_validate(f, &reason), "not valid %s: %s", when, reason);
}

static tamis_stats stats_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  demand(tamis_get_stats(f, &stats) == TAMIS_OK, "no figures");
  return stats;
}

static void look_up(const tamis_filter *f, bool found[HASHES])
{
  uint64_t hashes[HASHES];
  bool many[HASHES];
  size_t n = 0;
  for (unsigned i = 0; i < HASHES; i++) {
    hashes[i] = hostile_hash(i);
    found[i] = tamis_contains_hash(f, hashes[i]);
    n += found[i];
  }
  uint64_t counts[HASHES], copies = tamis_count_many_hash(f, hashes, HASHES, counts);
  for (unsigned i = 0; i < HASHES; i++) {
    demand((counts[i] > 0) == found[i], "a key that is in has no copy, or one that is not has");
    copies -= counts[i];
  }
  demand(copies == 0, "a batch of counts has another sum");
  demand(tamis_contains_many_hash(f, hashes, HASHES, many) == n &&
             memcmp(many, found, sizeof many) == 0,
         "a batch of look-ups has other answers");
}

/* The filter with the same bytes, which must be the same filter. */
static void load_again(const tamis_filter *f, bool own_hash, const bool found[HASHES])
{
  struct bytes saved = {0}, again = {0};
  tamis_load_options options = options_for(own_hash, NULL);
  tamis_filter *g = NULL;
  bool same[HASHES];
  demand(tamis_save(f, write_bytes, &saved) == TAMIS_OK, "it cannot be saved");
  struct source s = {.data = saved.data, .size = saved.size};
  int result = tamis_load(&options, read_source, &s, &g);
  demand(result == TAMIS_OK, "what was saved cannot be loaded: %s", tamis_strerror(result));
  demand(s.at == saved.size, "%zu of %zu bytes that were saved have been read", s.at, saved.size);
  demand_valid(g, "when it was saved and loaded");
  look_up(g, same);
  demand(memcmp(found, same, sizeof same) == 0, "other answers when it was saved and loaded");
  demand(stats_of(f).count == stats_of(g).count, "another count when it was saved and loaded");
  demand(tamis_save(g, write_bytes, &again) == TAMIS_OK, "it cannot be saved again");
  unpack_bytes(&saved);
  unpack_bytes(&again);
  demand(again.size == saved.size && memcmp(again.data + SAVED_HEADER, saved.data + SAVED_HEADER,
                                            saved.size - SAVED_HEADER - SAVED_UNIT) == 0,
         "it is saved to other bytes");
  tamis_destroy(g);
  free(saved.data);
  free(again.data);
}

/* Adds keys, and takes out those that it has added.  How many are in is counted as it should be.
 * (A layer of a Bloom filter may say that the next one is larger than all memory.) */
static void change(tamis_filter *f, unsigned n, uint64_t first, const struct memory *m)
{
  tamis_stats before = stats_of(f);
  bool cuckoo = before.kind == TAMIS_CUCKOO;
  uint64_t added = 0;
  for (unsigned i = 0; i < n; i++) {
    uint64_t hash = hostile_hash(first + i);
    int result = i % 4 ? tamis_add_hash(f, hash) : tamis_add_unique_hash(f, hash);
    demand(result == TAMIS_OK || result == TAMIS_EFULL || (result == TAMIS_ENOMEM && m->refused) ||
               (result == TAMIS_PRESENT && i % 4 == 0),
           "an add returns %s", tamis_strerror(result));
    demand(result < 0 || tamis_contains_hash(f, hash), "an added key is not in");
    added += result == TAMIS_OK;
    if (cuckoo && result == TAMIS_OK && i % 2) {
      result = tamis_remove_hash(f, hash);
      demand(result == TAMIS_OK, "to remove a key that was added returns %s",
             tamis_strerror(result));
      added--;
    }
  }
  uint64_t count = stats_of(f).count;
  demand(!cuckoo || count - before.count == added, "%llu keys were counted for %llu",
         (unsigned long long) (count - before.count), (unsigned long long) added);
  demand_valid(f, "after adds and removes");
}

static void demand_still_in(const tamis_filter *f, const bool found[HASHES])
{
  for (unsigned i = 0; i < HASHES; i++)
    demand(!found[i] || tamis_contains_hash(f, hostile_hash(i)), "a key is not in any more");
}

static void remove_some(tamis_filter *f, bool found[HASHES])
{
  uint64_t count = stats_of(f).count;
  for (unsigned i = 0; i < HASHES; i += 3) {
    bool in = tamis_contains_hash(f, hostile_hash(i));
    int result = tamis_remove_hash(f, hostile_hash(i));
    demand(result == (in ? TAMIS_OK : TAMIS_ABSENT), "to remove a key that is %s returns %s",
           in ? "in" : "not in", tamis_strerror(result));
    count -= in;
  }
  demand(stats_of(f).count == count, "removes are not counted");
  demand_valid(f, "after removes");
  look_up(f, found);
}

/* What any caller may do with it. */
static void use(tamis_filter *f, bool own_hash, uint64_t chance, const struct memory *m)
{
  bool found[HASHES];
  demand_valid(f, "when it was loaded");
  tamis_stats stats = stats_of(f);
  demand(stats.bytes <= m->now, "it takes %llu bytes, and %zu are allocated",
         (unsigned long long) stats.bytes, m->now);
  demand(!m->limit || stats.bytes <= m->limit, "it takes %llu bytes, over max_bytes",
         (unsigned long long) stats.bytes);
  look_up(f, found);
  load_again(f, own_hash, found);
  change(f, 24, NEW_HASHES, m);
  demand_still_in(f, found);
  if (stats.kind == TAMIS_CUCKOO && chance % 2)
    remove_some(f, found);
  if (chance % 8 == 0)
    change(f, 600, NEW_HASHES + 1000, m);
  demand_still_in(f, found);
  look_up(f, found);
  load_again(f, own_hash, found);
}

/* ---- the same bytes under other circumstances ---- */

static void with_a_limit(struct source s, bool own_hash, int expected, size_t most, uint64_t chance)
{
  const uint64_t limits[] = {
      1,    4096,     s.size / 2, s.size + 8192, 2 * s.size,          most - 1,
      most, most + 1, most / 2,   65536,         4 * most + (1 << 20)};
  enum { LIMITS = sizeof limits / sizeof *limits };
  unsigned which = (unsigned) (chance % LIMITS);
  struct memory m = {.limit = limits[which] ? limits[which] : 1};
  tamis_filter *f;
  int result = load(&s, own_hash, &m, &f);
  demand(result == expected || result == TAMIS_EFULL, "with max_bytes: %s instead of: %s",
         tamis_strerror(result), tamis_strerror(expected));
  demand(which != LIMITS - 1 || expected != TAMIS_OK || result == TAMIS_OK,
         "with a max_bytes that is large enough: %s", tamis_strerror(result));
  if (!f)
    return;
  use(f, own_hash, chance / 16, &m);
  destroy(f, &m);
}

static void with_failures(struct source s, bool own_hash, int expected, uint64_t chance)
{
  struct memory m = {0};
  tamis_filter *f;
  if (chance % 2)
    m.fail_at = 1 + (unsigned) (chance / 2 % 8);
  else
    s.fail_at = 1 + (unsigned) (chance / 2 % 8);
  s.most = chance % 5 ? 1 + (size_t) (chance / 32 % 2000) : 0;
  int result = load(&s, own_hash, &m, &f), failure = s.fail_at ? TAMIS_EIO : TAMIS_ENOMEM;
  bool failed = s.fail_at ? s.calls >= s.fail_at : m.calls >= m.fail_at;
  demand(result == expected || (failed && result == failure), "with failures: %s instead of: %s",
         tamis_strerror(result), tamis_strerror(expected));
  demand(!failed || s.fail_at == 0 || result == TAMIS_EIO, "an error of the source is %s",
         tamis_strerror(result));
  if (f)
    destroy(f, &m);
}

/* One byte less is not enough; and one more is not read. */
static void cut_short(struct source s, bool own_hash, size_t needed)
{
  struct memory m = {0};
  tamis_filter *f;
  demand(needed <= s.size, "more has been read than there is");
  s.size = needed;
  demand(load(&s, own_hash, &m, &f) == TAMIS_OK, "it needs what follows it");
  destroy(f, &m);
  s.size = needed - 1;
  s.at = 0;
  demand(load(&s, own_hash, &m, &f) == TAMIS_ECORRUPT, "it is loaded without its end");
}

/* All that the trailer says is compared with what has been read; but how many keys there are, a
 * Bloom filter does not know, nor whether it refused some; and one that counts does not know it where
 * counters are stuck.  In which period a window was saved, only its trailer says. */
static void change_trailer(struct source s, bool own_hash, size_t end, uint64_t chance)
{
  bool bloom = saved_get32(s.data + 32) != TAMIS_CUCKOO || saved_get64(s.data + 16) & SAVED_WINDOW;
  size_t first = chance % 2 && !bloom ? 24 : 8, at = first + chance / 2 % (first == 8 ? 16 : 32);
  struct memory m = {0};
  tamis_filter *f;
  unsigned char *changed = malloc(end);
  demand(changed, "no memory for the test");
  memcpy(changed, s.data, end);
  unsigned char *trailer = changed + end - SAVED_UNIT;
  trailer[at] ^= (unsigned char) (1u << chance / 64 % 8);
  saved_put64(trailer + SAVED_UNIT - 8, hash_sum(trailer, SAVED_UNIT - 8, 0));
  s.data = changed;
  s.size = end;
  demand(load(&s, own_hash, &m, &f) != TAMIS_OK, "byte %zu of the trailer is not compared", at);
  free(changed);
}

/* ---- files ---- */

/* A file that lives in memory. */
static const char *file_with(const unsigned char *data, size_t size)
{
  static int fd = -1;
  static char path[64];
  if (fd < 0) {
    fd = memfd_create("hostile", 0);
    demand(fd >= 0, "no file for the test");
    (void) snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  demand(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t) size) == 0 &&
             pwrite(fd, data, size, 0) == (ssize_t) size,
         "the test's file cannot be written");
  return path;
}

/* What may be done to a filter that does not change.  If the file has not been checked, answers may
 * be wrong, but it is saved only if it is whole. */
static void use_mapped(tamis_filter *f, bool own_hash, bool checked, const tamis_filter *same)
{
  bool found[HASHES], expected[HASHES];
  struct bytes saved = {0};
  tamis_stats stats = stats_of(f);
  look_up(f, found);
  demand(tamis_add_hash(f, 1) == TAMIS_EUNSUPPORTED &&
             tamis_add_unique_hash(f, 1) == TAMIS_EUNSUPPORTED &&
             tamis_remove_hash(f, 1) == TAMIS_EUNSUPPORTED,
         "a mapped filter can be changed");
  if (same) {
    look_up(same, expected);
    demand(!checked || memcmp(found, expected, sizeof found) == 0,
           "a mapped filter has other answers");
    demand(!checked || stats.count == stats_of(same).count, "a mapped filter has another count");
  }
  int result = tamis_save(f, write_bytes, &saved);
  free(saved.data);
  demand(result == TAMIS_OK || (result == TAMIS_ECORRUPT && !checked && !same),
         "to save a mapped filter: %s", tamis_strerror(result));
  if (result != TAMIS_OK)
    return;
  demand_valid(f, "when it was mapped");
  load_again(f, own_hash, found);
}

/* Adds the keys of a mapped filter to one that was loaded from the same bytes. */
static void merge_mapped(const tamis_filter *from, struct source s, bool own_hash, bool checked)
{
  struct memory m = {0};
  tamis_filter *into;
  if (load(&s, own_hash, &m, &into) != TAMIS_OK)
    return;
  int result = tamis_merge(into, from);
  demand(result == TAMIS_OK || result == TAMIS_EFULL || result == TAMIS_EUNSUPPORTED || !checked,
         "to merge a mapped filter: %s", tamis_strerror(result));
  demand_valid(into, "after a union");
  destroy(into, &m);
}

static void map(struct source s, bool own_hash, bool check_all, int expected, bool whole,
                const tamis_filter *same, uint64_t chance)
{
  struct memory m = {0};
  const tamis_allocator allocator = {allocate, release, &m};
  const struct source all = {.data = s.data, .size = s.size, .at = s.size};
  tamis_load_options options = options_for(own_hash, &allocator);
  options.check_all = check_all;
  tamis_filter *f = (tamis_filter *) &s;
  m.source = &all;
  int result = tamis_map_file(&options, file_with(s.data, s.size), &f);
  m.source = NULL;
  demand((f != NULL) == (result == TAMIS_OK), "%s, and a mapped filter", tamis_strerror(result));
  if (check_all || expected == TAMIS_OK)
    demand(result == (whole ? expected : TAMIS_ECORRUPT) || result == TAMIS_EUNSUPPORTED ||
               (expected != TAMIS_OK && result < 0),
           "mapped: %s, and loaded: %s", tamis_strerror(result), tamis_strerror(expected));
  if (!f) {
    demand_nothing_left(&m);
    return;
  }
  use_mapped(f, own_hash, check_all, same);
  if (chance % 4 == 0)
    merge_mapped(f, s, own_hash, check_all);
  destroy(f, &m);
}

static void load_file(const struct source *s, bool own_hash, int expected, bool whole)
{
  tamis_load_options options = options_for(own_hash, NULL);
  tamis_filter *f;
  int result = tamis_load_file(&options, file_with(s->data, s->size), &f);
  demand(result == (expected == TAMIS_OK && !whole ? TAMIS_ECORRUPT : expected),
         "from a file: %s instead of: %s", tamis_strerror(result), tamis_strerror(expected));
  tamis_destroy(f);
}

/* ---- all of it ---- */

static void inform(struct source s, int loaded)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  int result = tamis_saved_info(read_source, &s, &stats);
  demand(s.at <= SAVED_HEADER || is_live(&s), "more than the header is read for its figures");
  demand(result == TAMIS_OK || result == TAMIS_ECORRUPT || result == TAMIS_EUNSUPPORTED,
         "figures: %s", tamis_strerror(result));
  demand(result == TAMIS_OK || loaded != TAMIS_OK, "it is loaded, but its figures are: %s",
         tamis_strerror(result));
}

int hostile_try(const unsigned char *data, size_t size)
{
  const struct source all = {.data = data, .size = size};
  uint64_t chance = hash_sum(data, size, 0);
  struct source s = all;
  struct memory m = {0};
  tamis_filter *f;
  bool own_hash = false;
  int result = load(&s, own_hash, &m, &f);
  if (result == TAMIS_EINVAL) {
    own_hash = true;
    s = all;
    result = load(&s, own_hash, &m, &f);
  }
  bool whole = s.at == size || is_live(&all);
  inform(all, result);
  if (result == TAMIS_ENOMEM) /* other memory may have been there */
    return result;
  switch (chance % 8) {
  case 0:
    with_a_limit(all, own_hash, result, m.most, chance / 8);
    break;
  case 1:
    with_failures(all, own_hash, result, chance / 8);
    break;
  case 2:
    load_file(&all, own_hash, result, whole);
    break;
  default:;
  }
  if (f && chance % 8 > 4)
    cut_short(all, own_hash, s.at);
  if (f && chance % 8 < 4 && !is_live(&all))
    change_trailer(all, own_hash, s.at, chance / 8);
  if (f || chance / 64 % 4 == 0)
    map(all, own_hash, true, result, whole, f, chance / 256);
  if (chance / 64 % 2)
    map(all, own_hash, false, result, whole, f, chance / 256);
  if (f) {
    use(f, own_hash, chance / 1024, &m);
    destroy(f, &m);
  }
  return result;
}
