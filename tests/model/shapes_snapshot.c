/* SPDX-License-Identifier: MIT
 *
 * Saves while another thread changes the filter.
 *
 * What has been saved is loaded: each key that nobody touches is in, with all its copies; the keys y
 * and z, which the other thread touches, are in once at most; and nothing else is.
 */
#include "fixture.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "kinds.h"

#include "base/saved.h"

/* ---- saving and loading ---- */

enum { FILE_BYTES = 1 << 16, SAVERS = 2 };

static struct saved_head head;

static struct file {
  size_t size, read;
  unsigned char bytes[FILE_BYTES];
} files[SAVERS];

static unsigned savers; /* how many threads save */

/* The writer's buffer is known to nobody else, so it need not be in the model's memory. */
static void *allocate(void *file, size_t alignment, size_t size)
{
  static _Alignas(64) unsigned char buffers[SAVERS][3 * SAVED_CHUNK];
  return size <= FILE_BYTES ? model_allocate(NULL, alignment, size)
                            : buffers[(struct file *) file - files];
}

static void release(void *file, void *block, size_t alignment, size_t size)
{
  (void) file;
  if (size <= FILE_BYTES)
    model_release(NULL, block, alignment, size);
}

static int write_bytes(void *context, const void *data, size_t size)
{
  struct file *file = context;
  if (size > FILE_BYTES - file->size)
    return 1;
  memcpy(file->bytes + file->size, data, size);
  file->size += size;
  return 0;
}

static int64_t read_bytes(void *context, void *data, size_t size)
{
  struct file *file = context;
  size_t left = file->size - file->read, n = size < left ? size : left;
  memcpy(data, file->bytes + file->read, n);
  file->read += n;
  return (int64_t) n;
}

/* The end of each set-up.  The figures that the header has for the user are left out: to read them
 * would only make the search larger. */
static void describe(unsigned threads_that_save)
{
  savers = threads_that_save;
  memset(&head, 0, sizeof head);
  t.filter->operations->kind->describe(t.filter, &head);
  head.options.kind = t.filter->operations->kind->kind;
  head.options.seed = SEED;
  head.probe = filter_probe(t.filter);
}

static void save(unsigned i)
{
  struct saved_writer w = {
      .write = write_bytes, .context = &files[i], .allocator = {allocate, release, &files[i]}};
  files[i].size = files[i].read = 0;
  tamis__saved_begin(&w, &head);
  w.result = t.filter->operations->kind->save(t.filter, &w);
  if (tamis__saved_end(&w) != TAMIS_OK)
    model_fail("the save failed");
}

/* Checks each filter that has been saved. */
static const char *check_each(const char *(*check)(tamis_filter *loaded))
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &from_the_world;
  const char *reason = whole();
  for (unsigned i = 0; i < savers && !reason; i++) {
    tamis_filter *loaded;
    if (tamis_load(&options, read_bytes, &files[i], &loaded) != TAMIS_OK)
      reason = "what has been saved is no filter";
    else if (filter_validate(loaded, &reason))
      reason = check(loaded);
  }
  return reason;
}

/* ---- what must hold ---- */

static tamis_stats figures_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(f, &stats);
  return stats;
}

static bool is_in_twice(tamis_filter *f, uint64_t hash)
{
  return tamis_remove_hash(f, hash) == TAMIS_OK && tamis_remove_hash(f, hash) == TAMIS_OK;
}

static const char *check_keys(tamis_filter *loaded)
{
  for (unsigned i = 0; i < t.n; i++)
    if (tamis_remove_hash(loaded, t.in[i]) != TAMIS_OK)
      return "a key that nobody touches is not in what has been saved";
  return is_in_twice(loaded, t.y) || is_in_twice(loaded, t.z) ? "a key has been saved twice"
         : figures_of(loaded).count ? "something has been saved that was never there"
                                    : NULL;
}

static const char *check_saved(void)
{
  return check_each(check_keys);
}

/* ---- cuckoo: one generation ---- */

static void set_up_saved_move(void)
{
  set_up_move();
  describe(1);
}

static void set_up_saved_counted_move(void)
{
  set_up_counted_move();
  t.n++;             /* all keys stay, */
  t.in[t.n++] = t.x; /* and the copy of x */
  describe(1);
}

static void run_save_and_move(unsigned thread)
{
  if (thread == 0)
    save(0);
  else
    move_to_and_fro(2);
}

static void set_up_saved_split(void)
{
  set_up_split();
  describe(1);
}

static void run_save_and_add(unsigned thread)
{
  if (thread == 0)
    save(0);
  else
    must_add(t.y);
}

static void set_up_saved_join(void)
{
  set_up_join();
  describe(1);
}

static void run_save_and_remove(unsigned thread)
{
  if (thread == 0)
    save(0);
  else
    must_remove(t.y);
}

static void set_up_saved_two(void)
{
  make_cuckoo(1, 0, 1);
  t.x = put_to_stay(key());
  t.y = put(key());
  describe(1);
}

static void run_save_and_removes(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_remove(t.y);
    must_add(t.y);
    must_remove(t.y);
  }
}

/* ---- cuckoo: two generations ---- */

enum { WIDTH = 16 };

static void make_long(void)
{
  make_cuckoo_of(WIDTH, 0.1, 0.09, 1, 0, 1);
}

/* Opens a generation whose entries know fewer bits than those of the first one.  It has a segment
 * for x, or none. */
static void open_short(bool with_segment)
{
  struct cuckoo *c = cuckoo();
  struct cuckoo_geometry g = {
      .shape = {.width = 8, .ages = true}, .first_roots = 1, .depth_limit = 1, .rate = 0.01};
  expect(cuckoo_geometry_restore(&t.geometry, &g), "a geometry");
  int result;
  c->generation[1] = tamis__generation_create(c, &g, &result);
  expect(c->generation[1] != NULL, "a generation");
  c->generations = 2;
  struct bucket_pair pair = pair_find(c->generation[1], hash_mix(&t.keys, t.x));
  expect(!with_segment || tamis__grow(c, &pair, false) == TAMIS_OK, "a segment");
}

/* A new key whose first bits are those of x, as an entry of the first generation knows them that has
 * lost `age` bits.  It does not match what x has there if it is new. */
static uint64_t key_like_x(unsigned age)
{
  const unsigned lost = age + 1; /* the lowest bit is the marker */
  struct bucket_pair x = pair_of(t.x), pair;
  do
    pair = pair_of(++t.last_hash);
  while (pair.segment != x.segment || pair.entry >> lost != x.entry >> lost ||
         (age && pair.entry == x.entry));
  return t.last_hash;
}

/* x is in the old generation.  y, which matches its entry there, comes to the new one.  The remove
 * of y then takes the entry of x, and that of y stands for x. */
static void set_up_save_and_exchange(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = key_like_x(0);
  open_short(true);
  describe(1);
}

static void run_save_and_exchange(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_add(t.y);
    must_remove(t.y);
  }
}

/* y is in the old generation, and goes on to the new one. */
static void set_up_save_and_go_on(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = put(key());
  open_short(false);
  struct bucket_pair pair = pair_find(cuckoo()->generation[1], hash_mix(&t.keys, t.y));
  expect(tamis__grow(cuckoo(), &pair, false) == TAMIS_OK, "a segment for y");
  describe(1);
}

static void run_save_and_go_on(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_remove(t.y);
    must_add(t.y);
  }
}

static void set_up_saves_and_go_on(void)
{
  set_up_save_and_go_on();
  describe(2);
}

static void run_saves_and_go_on(unsigned thread)
{
  if (thread == 2)
    save(1);
  else
    run_save_and_go_on(thread);
}

/* The new generation may have no segment for y, so y goes to the old one, if at all. */
static void set_up_save_and_fall_back(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = key_like_x(0);
  open_short(false);
  cuckoo()->max_bytes = atomic_load(&cuckoo()->bytes);
  describe(1);
}

static void run_save_and_fall_back(unsigned thread)
{
  if (thread == 0)
    save(0);
  else if (tamis_add_hash(t.filter, t.y) == TAMIS_OK)
    must_remove(t.y);
}

/* x and another key are in two segments of the old generation, which join when z has been removed.
 * Then the entry of x knows one bit less, and matches y, which has an entry of its own in the new
 * generation. */
static void set_up_save_and_old_join(void)
{
  enum { LEFT = 3 };
  make_long();
  while (figures().growths == 0)
    put_to_stay(key_at(t.n % 2, ANY, ANY));
  t.x = put_to_stay(key_at(0, ANY, ANY));
  t.z = put(key_at(1, ANY, ANY));
  t.y = key_like_x(1);
  while (t.n > LEFT - 1) {
    take(t.in[0]);
    t.in[0] = t.in[t.n - 2];
    t.in[t.n - 2] = t.x;
    t.n--;
  }
  expect(figures().segments == 2, "two segments");
  open_short(true);
  put(t.y);
  describe(1);
}

static void run_save_and_old_join(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_remove(t.z);
    must_remove(t.y);
  }
}

/* The segment is full and may not split.  y opens a generation, and z goes on to it. */
static void set_up_save_and_open(void)
{
  make_cuckoo(1, 0, 1);
  for (unsigned i = 0; i < 3; i++)
    put_to_stay(key());
  t.z = put(key());
  t.y = key();
  cuckoo()->generation[0]->split_limit = 0;
  describe(1);
}

static void run_save_and_open(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_add(t.y);
    must_remove(t.z);
    must_add(t.z);
  }
}

/* ---- Bloom ---- */

static void set_up_save_bloom(void)
{
  make_bloom();
  put_to_stay(t.x);
  describe(1);
}

static const char *check_bloom(tamis_filter *loaded)
{
  return !tamis_contains_hash(loaded, t.x)
             ? "a key that nobody touches is not in what has been saved"
         : figures_of(loaded).count > 1 && !tamis_contains_hash(loaded, t.y)
             ? "a key is counted, and is not in"
         : figures_of(loaded).bits_set > figures().bits_set
             ? "something has been saved that was never there"
             : NULL;
}

static const char *check_saved_bloom(void)
{
  return check_each(check_bloom);
}

/* y takes the last room, and z is refused. */
static void set_up_save_word(void)
{
  make_word_full_but_one();
  uint64_t in = t.z;
  t.z = t.x;
  t.x = t.in[t.n++] = in;
  describe(1);
}

static void run_save_and_refusal(unsigned thread)
{
  if (thread == 0) {
    save(0);
  } else {
    must_add(t.y);
    if (tamis_add_hash(t.filter, t.z) != TAMIS_EFULL)
      model_fail("the filter is not full");
  }
}

const struct shape snapshot_shapes[] = {
    {"save_and_move", "is a key saved once that is moved?", 2, false, set_up_saved_move,
     run_save_and_move, check_saved, FULL, FULL},
    {"save_and_counted_move", "... with a copy that is counted?", 2, false,
     set_up_saved_counted_move, run_save_and_move, check_saved, FULL, FULL},
    {"save_and_split", "... whose segment splits?", 2, false, set_up_saved_split, run_save_and_add,
     check_saved, FULL, FULL},
    {"save_and_join", "... or is joined?", 2, false, set_up_saved_join, run_save_and_remove,
     check_saved, BOUND(3), BOUND(3)},
    {"save_and_removes", "... while another one comes and goes?", 2, false, set_up_saved_two,
     run_save_and_removes, check_saved, BOUND(3), BOUND(3)},
    {"save_and_exchange", "... whose entry the remove of another key takes?", 2, false,
     set_up_save_and_exchange, run_save_and_exchange, check_saved, BOUND(3), BOUND(3)},
    {"save_and_fall_back", "... where another key is added at a limit?", 2, false,
     set_up_save_and_fall_back, run_save_and_fall_back, check_saved, BOUND(3), BOUND(3)},
    {"save_and_old_join", "... whose entry would forget a bit?", 2, false, set_up_save_and_old_join,
     run_save_and_old_join, check_saved, BOUND(2), BOUND(2)},
    {"save_and_go_on", "is a key saved once that goes on to a newer generation?", 2, false,
     set_up_save_and_go_on, run_save_and_go_on, check_saved, BOUND(3), BOUND(3)},
    {"saves_and_go_on", "... by two threads?", 3, false, set_up_saves_and_go_on,
     run_saves_and_go_on, check_saved, BOUND(2), BOUND(1)},
    {"save_and_open", "... which is opened meanwhile?", 2, false, set_up_save_and_open,
     run_save_and_open, check_saved, BOUND(2), BOUND(2)},
    {"bloom_save_and_add", "is all that is counted in what is saved?", 2, false, set_up_save_bloom,
     run_save_and_add, check_saved_bloom, FULL, FULL},
    {"word_save_and_refusal", "... of a filter that becomes full?", 2, false, set_up_save_word,
     run_save_and_refusal, check_saved_bloom, FULL, FULL},
    {.name = NULL},
};
