/* SPDX-License-Identifier: MIT
 *
 * Saves while another thread changes the filter.
 *
 * What has been saved is loaded: each key that nobody touches is in, with all its copies; the keys
 * y and z, which the other thread touches, are in once at most; and nothing else is.
 */
#include "fixture.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "kinds.h"
#include "saved_sums.h"

/* ---- saving and loading ---- */

enum { LARGEST_SHARED = 1 << 16, SAVERS = 2 };

static struct saved_head head;

static struct bytes files[SAVERS];

/* The writer's buffer is known to nobody else, so it need not be in the model's memory. */
static void *allocate(void *file, size_t alignment, size_t size)
{
  static _Alignas(64) unsigned char buffers[SAVERS][3 * SAVED_CHUNK];
  return size <= LARGEST_SHARED ? model_allocate(NULL, alignment, size)
                                : buffers[(struct bytes *) file - files];
}

static void release(void *file, void *block, size_t alignment, size_t size)
{
  (void) file;
  if (size <= LARGEST_SHARED)
    model_release(NULL, block, alignment, size);
}

/* The figures that the header has for the user are left out: to read them would only make the search
 * larger. */
void describe_filter(void)
{
  memset(&head, 0, sizeof head);
  t.filter->operations->kind->describe(t.filter, &head);
  head.options.kind = t.filter->operations->kind->kind;
  head.options.seed = SEED;
  head.probe = filter_probe(t.filter);
  for (unsigned i = 0; i < SAVERS; i++)
    files[i].size = 0;
}

int save(uint64_t i)
{
  struct saved_writer w = {
      .write = write_bytes, .context = &files[i], .allocator = {allocate, release, &files[i]}};
  files[i].size = 0;
  tamis__saved_begin(&w, &head);
  w.result = t.filter->operations->kind->save(t.filter, &w);
  return tamis__saved_end(&w);
}

/* Checks each filter that has been saved. */
static const char *check_each(const char *(*check)(tamis_filter *loaded))
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &from_the_world;
  const char *reason = whole();
  for (unsigned i = 0; i < SAVERS && files[i].size && !reason; i++) {
    struct source source = {.data = files[i].data, .size = files[i].size};
    tamis_filter *loaded;
    if (tamis_load(&options, read_source, &source, &loaded) != TAMIS_OK)
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

static unsigned copies_in(tamis_filter *f, uint64_t hash)
{
  unsigned n = 0;
  while (tamis_remove_hash(f, hash) == TAMIS_OK)
    n++;
  return n;
}

static const char *check_keys(tamis_filter *loaded)
{
  for (unsigned i = 0; i < t.n; i++)
    if (tamis_remove_hash(loaded, t.in[i]) != TAMIS_OK)
      return "a key that nobody touches is not in what has been saved";
  return copies_in(loaded, t.y) > 1 || copies_in(loaded, t.z) > 1 ? "a key has been saved twice"
         : figures_of(loaded).count ? "something has been saved that was never there"
                                    : NULL;
}

static const char *check_saved(void)
{
  return check_each(check_keys);
}

/* ---- cuckoo: one generation ---- */

/* All keys stay, and the copy of x. */
static void set_up_saved_counted_move(void)
{
  set_up_counted_move();
  t.in[t.n++] = t.x;
}

static void set_up_saved_two(void)
{
  make_cuckoo(1, 0, 1);
  t.x = put_to_stay(key());
  t.y = put(key());
}

/* ---- cuckoo: two generations ---- */

enum { WIDTH = 16 };

static void make_long(void)
{
  make_cuckoo_of(WIDTH, 0.09, 1, 0, 1);
}

/* Of a generation whose entries know no more bits: of two that match, a remove takes the older one. */
static struct cuckoo_geometry short_geometry(void)
{
  struct cuckoo_geometry g = {.shape = {.width = 12, .ages = true},
                              .first_roots = 1,
                              .root_shift = WIDTH - 12,
                              .depth_limit = 1,
                              .uneven_at = NEVER_UNEVEN,
                              .rate = 0.01};
  expect(cuckoo_geometry_restore(&t.geometry, &g), "a geometry");
  return g;
}

/* It has a segment for this key (0: for none). */
static void open_with(const struct cuckoo_geometry *g, uint64_t hash)
{
  struct cuckoo *c = cuckoo();
  provide_growth();
  expect(tamis__generation_open(c, cuckoo_generation(c, 0), g) == TAMIS_OK, "a generation");
  expect(cuckoo_generation(c, 1)->geometry.shape.width == g->shape.width, "its geometry");
  struct bucket_pair pair = pair_find(cuckoo_generation(c, 1), hash_mix(&t.keys, hash));
  expect(!hash || tamis__grow(c, &pair, cuckoo_generations(c), false) == TAMIS_OK, "a segment");
}

static void open_short(uint64_t hash)
{
  struct cuckoo_geometry g = short_geometry();
  open_with(&g, hash);
}

/* A new key whose first bits are those of another one, as an entry of the first generation knows
 * them that has lost `age` bits.  It does not match an entry that has lost none. */
static uint64_t key_like(uint64_t hash, unsigned age)
{
  const unsigned lost = age + 1; /* the lowest bit is the marker */
  struct bucket_pair like = pair_of(hash), pair;
  do
    pair = pair_of(++t.last_hash);
  while (pair.segment != like.segment || pair.entry >> lost != like.entry >> lost ||
         (age && pair.entry == like.entry));
  return t.last_hash;
}

/* x is in the old generation.  y, which matches its entry there, comes to the new one.  The remove
 * of y then takes the entry of x, and that of y stands for x. */
static void set_up_save_and_exchange(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = key_like(t.x, 0);
  open_short(t.x);
}

/* The same with a union, which may get the generations in any order. */
static tamis_filter *into, *from;

static void set_up_unite_and_exchange(void)
{
  make_long();
  into = t.filter;
  set_up_save_and_exchange();
  from = t.filter;
}

static const char *check_united(void)
{
  const char *reason = check_saved();
  return reason || !filter_validate(into, &reason) ? reason : check_keys(into);
}

/* A fixed filter gets x with counted copies, while y, of the same buckets, is added to it. */
static void set_up_unite_and_add(void)
{
  make_fixed_cuckoo();
  t.x = key_at(ANY, LOWER, UPPER);
  for (unsigned i = 0; i < 4; i++)
    put(t.x);
  from = t.filter;
  make_fixed_cuckoo();
  into = t.filter;
  t.x = key_at(ANY, LOWER, UPPER);
  t.y = key_at(ANY, LOWER, UPPER);
}

static const char *check_united_copies(void)
{
  const char *reason;
  return !filter_validate(into, &reason) ? reason
         : tamis_count_hash(into, t.x) != 4 || tamis_count_hash(into, t.y) != 1
             ? "copies have come to another entry, or have been lost"
             : NULL;
}

/* y is in the old generation, and goes on to the new one. */
static void set_up_save_and_go_on(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = put(key());
  open_short(t.y);
}

/* The new generation may have no segment for y, so y goes to the old one, if at all. */
static void set_up_save_and_fall_back(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = key_like(t.x, 0);
  open_short(0);
  cuckoo()->max_bytes = atomic_load(&cuckoo()->bytes);
}

/* Segments of the old generation join twice when z has been removed, and the entry of y forgets two
 * bits.  The new generation has an entry that knows one bit less than that of y at first, and
 * matches y: that of x.  If the remove of y takes it, the one that stands for x from then on has
 * been copied with a bit that x does not have. */
static void set_up_save_and_old_joins(void)
{
  enum { OLD_WIDTH = 12, KEPT = 2 };
  make_cuckoo_of(OLD_WIDTH, 0.09, 1, 0, 2);
  while (figures().growths < 2)
    put_to_stay(key_at(t.n % 2, ANY, ANY));
  uint64_t kept[KEPT] = {put(key_at(0, ANY, ANY)), put(key_at(1, ANY, ANY))};
  t.y = put(key_at(0, ANY, ANY));
  t.z = put(key_at(1, ANY, ANY));
  expect(figures().growths == 2, "two splits");
  while (t.n)
    take(t.in[--t.n]);
  t.x = t.in[t.n++] = key_like(t.y, 1); /* to be removed first: removes join loaded segments, too */
  for (unsigned i = 0; i < KEPT; i++)
    t.in[t.n++] = kept[i];
  struct cuckoo_geometry g = {.shape = {.width = 10, .ages = true},
                              .first_roots = 1,
                              .root_shift = 2,
                              .pair_bits = 1,
                              .depth_limit = 1,
                              .uneven_at = NEVER_UNEVEN,
                              .stripe_mask = 3,
                              .rate = 0.01};
  expect(cuckoo_geometry_restore(&t.geometry, &g), "a geometry");
  open_with(&g, t.x);
  put(t.x);
  expect(figures().segments == 4, "three old segments");
}

/* y comes to a generation that is opened meanwhile, where z goes as well. */
static struct cuckoo_geometry next;

static void set_up_save_and_open(void)
{
  make_long();
  t.x = put_to_stay(key());
  t.y = key_like(t.x, 0);
  t.z = put(key());
  provide_growth();
  next = short_geometry();
}

int open_generation(uint64_t unused)
{
  (void) unused;
  return tamis__generation_open(cuckoo(), cuckoo_generation(cuckoo(), 0), &next);
}

int unite(uint64_t unused)
{
  (void) unused;
  return tamis_merge(into, from);
}

/* Adds a key, if there is room, and removes it again. */
int pass(uint64_t hash)
{
  return tamis_add_hash(t.filter, hash) == TAMIS_OK ? tamis_remove_hash(t.filter, hash) : TAMIS_OK;
}

/* ---- Bloom ---- */

static void set_up_save_bloom(void)
{
  set_up_bloom();
  put_to_stay(t.x);
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
  set_up_word_full_but_one();
  uint64_t in = t.z;
  t.z = t.x;
  t.x = t.in[t.n++] = in;
}

/* There is no room for a key. */
int refused(uint64_t hash)
{
  return tamis_add_unique_hash(t.filter, hash) == TAMIS_EFULL ? TAMIS_OK : TAMIS_EINVAL;
}

const struct shape snapshot_shapes[] = {
    {"save_and_move", "is a key saved once that is moved?", set_up_move, "save 0 | move 2",
     .instead = check_saved},
    {"save_and_counted_move", "... with a copy that is counted?", set_up_saved_counted_move,
     "save 0 | move 2", .instead = check_saved},
    {"save_and_split", "... whose segment splits?", set_up_split, "save 0 | add y",
     .instead = check_saved},
    {"save_and_join", "... or is joined?", set_up_join, "save 0 | remove y", BOUND(3), BOUND(3),
     .instead = check_saved},
    {"save_and_removes", "... while another one comes and goes?", set_up_saved_two,
     "save 0 | remove y; add y; remove y", BOUND(3), BOUND(3), .instead = check_saved},
    {"save_and_exchange", "... whose entry the remove of another key takes?",
     set_up_save_and_exchange, "save 0 | add y; remove y", BOUND(3), BOUND(3),
     .instead = check_saved},
    {"unite_and_exchange", "... and is it so in a union?", set_up_unite_and_exchange,
     "unite | add y; remove y", BOUND(3), BOUND(3), .instead = check_united},
    {"fixed_unite_and_add", "... and do counted copies come with their entry?",
     set_up_unite_and_add, "unite | add y", BOUND(3), BOUND(2), .instead = check_united_copies},
    {"save_and_fall_back", "... where another key is added at a limit?", set_up_save_and_fall_back,
     "save 0 | pass y", BOUND(3), BOUND(3), .instead = check_saved},
    {"save_and_old_joins", "... for which an entry stands that has forgotten bits?",
     set_up_save_and_old_joins, "save 0 | remove z; remove y", BOUND(2), BOUND(2),
     .instead = check_saved},
    {"save_and_go_on", "is a key saved once that goes on to a newer generation?",
     set_up_save_and_go_on, "save 0 | remove y; add y", BOUND(3), BOUND(3), .instead = check_saved},
    {"saves_and_go_on", "... by two threads?", set_up_save_and_go_on,
     "save 0 | remove y; add y | save 1", BOUND(2), BOUND(1), .instead = check_saved},
    {"save_and_open", "... which is opened meanwhile?", set_up_save_and_open,
     "save 0 | open_generation; remove z; add z", BOUND(3), BOUND(3), .instead = check_saved},
    {"save_and_open_and_exchange", "... where an entry comes to stand for it?",
     set_up_save_and_open, "save 0 | open_generation; add y; remove y", BOUND(3), BOUND(3),
     .instead = check_saved},
    {"bloom_save_and_add", "is all that is counted in what is saved?", set_up_save_bloom,
     "save 0 | add y", .instead = check_saved_bloom},
    {"word_save_and_refusal", "... of a filter that becomes full?", set_up_save_word,
     "save 0 | add y; refused z", .instead = check_saved_bloom},
    {.name = NULL},
};
