/* SPDX-License-Identifier: MIT
 *
 * Another process writes anything anywhere into the file of a filter that processes share, while this
 * one works on it: answers may be wrong, and no address is.  AddressSanitizer and the alarm judge.
 */
#define IN_MEMORY true
#include "saved_unit.h"
#include "shared_unit.h"

#include <signal.h>

static const uint64_t numbers[] = {
    0,         1,   2,   3,       4,          5,          7,          127,
    128,       129, 255, 1 << 16, UINT32_MAX, 1ULL << 62, 1ULL << 63, UINT64_MAX - 1,
    UINT64_MAX};

/* ---- the other process ---- */

static bool is_window;

/* Mostly the state, the versions and the stripes. */
static size_t place_in_window(uint64_t random, size_t size)
{
  const size_t state = 4096, where = (size_t) (random >> 8);
  switch (random % 8) {
  case 0:
    return where % size;
  case 1:
    return where % 512;
  case 2:
  case 3:
  case 4:
    return state + where % 8 * 8; /* epoch, locks, frozen segment, boot, checkpoint */
  default:
    return state + where % 1024 * 8;
  }
}

/* Mostly the tallies, and of these the state, which has the number of layers. */
static size_t place(uint64_t random, size_t size)
{
  if (is_window)
    return place_in_window(random, size);
  const size_t tallies = 4096, tally = 2112, where = (size_t) (random >> 8);
  switch (random % 16) {
  case 0:
    return where % size;
  case 1:
    return where % 1024; /* the header and the blocks */
  case 2:
  case 3:
  case 4:
    return tallies + where % 3 * 8; /* state, period of looks, boot */
  case 5:
  case 6:
  case 7:
    return tallies + where % 8 * tally + where / 8 % tally;
  default:
    return tallies + where % 6 * tally + 64 + where / 8 % 32 * 64 + where / 256 % 4 * 8;
  }
}

static _Noreturn void scribble(uint64_t seed)
{
  struct stat status;
  int fd = open(shared_path, O_RDWR);
  if (fd < 0 || fstat(fd, &status))
    _exit(1);
  const size_t size = (size_t) status.st_size;
  volatile unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (uint64_t i = 0;; i++) {
    uint64_t random = hash_of(seed + i), value = hash_of(~random);
    size_t where = place(random, size - 8) % (size - 8); /* the smallest file has fewer counters */
    if (value % 2)
      at[where] = (unsigned char) (value >> 8);
    else
      *(volatile uint64_t *) (at + (where & ~(size_t) 7)) =
          value % 4 ? value : numbers[(value >> 8) % (sizeof numbers / sizeof *numbers)];
  }
}

/* ---- this one ---- */

struct work {
  tamis_options options;
  unsigned char header[1024];
  tamis_filter *f, *own;
  uint64_t key;
};

/* A filter that can be united with the shared one. */
static void create_own(struct work *w)
{
  const bool cuckoo = w->options.kind == TAMIS_CUCKOO;
  assert_int_equal(cuckoo ? tamis_open_shared(&w->options, NULL, &w->own)
                          : tamis_create(&w->options, &w->own),
                   TAMIS_OK);
}

static int write_text(void *context, const void *data, size_t size)
{
  (void) context;
  (void) data;
  (void) size;
  return 0;
}

static void use_keys(struct work *w)
{
  enum { BATCH = 40 };
  uint64_t hashes[BATCH];
  int results[BATCH];
  uint64_t counts[BATCH];
  bool found[BATCH];
  for (unsigned i = 0; i < BATCH; i++) {
    hashes[i] = hash_of(w->key++ % 20000);
    (void) tamis_contains_hash(w->f, hashes[i]);
    (void) tamis_add_unique_hash(w->f, hashes[i]);
    (void) tamis_add_hash(w->f, hashes[i] + 1);
    (void) tamis_remove_hash(w->f, hash_of(w->key / 2));
  }
  (void) tamis_count_many_hash(w->f, hashes, BATCH, counts);
  (void) tamis_contains_many_hash(w->f, hashes, BATCH, found);
  (void) tamis_add_many_hash(w->f, hashes, BATCH, results);
  (void) tamis_add_unique_many_hash(w->f, hashes, BATCH, results);
  (void) tamis_advance_to(w->f, w->key / 2000);
}

static void use_figures(struct work *w)
{
  const char *reason;
  tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
  (void) stats_of(w->f);
  (void) filter_validate(w->f, &reason);
  (void) tamis_similarity(w->f, w->own, &s);
  (void) tamis_stats_text(w->f, TAMIS_JSON, "name", write_text, NULL);
}

/* What is saved loads, or not: it makes a filter that is whole, or none. */
static void use_bytes(struct work *w)
{
  struct bytes b = {0};
  tamis_filter *f = NULL;
  (void) tamis_sync(w->f);
  if (tamis_save(w->f, write_bytes, &b) == TAMIS_OK)
    (void) load_any(source_of(&b), 0, NULL);
  free(b.data);
  if (tamis_load_file(NULL, shared_path, &f) == TAMIS_OK)
    (void) stats_of(f);
  tamis_destroy(f);
}

static void use_others(struct work *w)
{
  tamis_filter *both = NULL;
  (void) tamis_intersect(w->f, w->own, &both);
  tamis_destroy(both);
  (void) tamis_merge(w->own, w->f);
  (void) tamis_merge(w->f, w->own);
  tamis_destroy(w->own);
  create_own(w);
  for (uint64_t key = 0; key < 200; key++)
    (void) tamis_add_hash(w->own, hash_of(key));
}

/* With the header as it was, or with what it has become. */
static void open_again(struct work *w, bool repaired)
{
  tamis_filter *f = NULL;
  if (repaired)
    write_file(0, w->header, sizeof w->header);
  if (tamis_open_shared(NULL, shared_path, &f) == TAMIS_OK) {
    tamis_destroy(w->f);
    w->f = f;
  }
  (void) tamis_shared_check(&w->options, shared_path, NULL, 0);
}

enum { ROUNDS = 120 };

static void work_beside(const tamis_options *options, uint64_t seed)
{
  struct work w = {.options = *options};
  w.options.seed = 7;
  w.f = open_shared(&w.options);
  read_file(0, w.header, sizeof w.header);
  create_own(&w);
  pid_t child = fork_child();
  if (child == 0)
    scribble(seed);
  for (unsigned i = 0; i < ROUNDS; i++) {
    use_keys(&w);
    use_figures(&w);
    if (i % 4 == 0)
      use_bytes(&w);
    if (i % 4 == 1)
      use_others(&w);
    if (i % 4 == 2)
      open_again(&w, i % 8 == 2);
  }
  kill(child, SIGKILL);
  assert_int_equal(wait_for(child), 128 + SIGKILL);
  tamis_destroy(w.f);
  tamis_destroy(w.own);
}

TEST_BETWEEN(any_bytes_change_answers_only, set_up, tear_down)
{
  alarm(600);
  for (unsigned i = 0; i < 9; i++) {
    is_window = i >= 6; /* or a cuckoo filter, which has the same parts */
    tamis_options options = shared_options(
        is_window ? TAMIS_LAYOUT_BLOCKED : (tamis_layout) (i / 2), is_window ? false : i % 2);
    options.kind = i == 8 ? TAMIS_CUCKOO : TAMIS_BLOOM;
    options.window = is_window && i < 8 ? 3 : 0;
    options.window_renews = is_window && i % 2;
    unlink(shared_path);
    work_beside(&options, UINT64_C(1) << 40 << i);
  }
  alarm(0);
}
