/* SPDX-License-Identifier: MIT
 *
 * Look-ups while generations change, batches, and which of several entries a remove takes.
 */
#include "cuckoo_schedule.h"

/* ---- filters ---- */

static unsigned in_first; /* keys of the first one of two generations */

static tamis_filter *make_two(const struct setup *setup)
{
  (void) setup;
  small = make_tiny_with_two(64 / LANES);
  in_first = small.n;
  return small.filter;
}

static const struct setup setups[] = {
    {"tiny", SMALL_FILTER(64 / LANES, 0.5, 1, 1), .finish = finish_small},
    {"of 32 bits", SMALL_FILTER(32, 0.5, 1, 1), .finish = finish_small},
    {"of 8 bits", SMALL_FILTER(8, 0.5, 1, 1), .finish = finish_small},
    {"of 32 bits, without splits", SMALL_FILTER(32, 0.5, 1, 0), .finish = finish_small},
    {"of two roots", SMALL_FILTER(64 / LANES, 0.5, 2, 1), .finish = finish_small},
    {"of two roots, without splits", SMALL_FILTER(64 / LANES, 0.5, 2, 0), .finish = finish_small},
    {"of two generations", .make = make_two, .finish = finish_small},
};
enum {
  TINY = 1,
  OF_32_BITS = 2,
  OF_8_BITS = 4,
  NO_SPLITS = 8,
  ROOTS = 16,
  ROOTS_WITHOUT_SPLITS = 32,
  TWO = 64
};

/* ---- verbs ---- */

/* Whether there is no room for a key, or it seems to be there already. */
static bool no_room_for(const struct tiny *t, unsigned generation, uint64_t hash)
{
  struct generation *in = cuckoo_generation(cuckoo_of(t->filter), generation);
  const struct cuckoo_geometry *g = &in->geometry;
  struct bucket_pair pair = pair_find(in, hash_mix(&t->keys, hash));
  uint64_t lower = word_load(&segment_words(g, pair.segment)[pair.lower]);
  uint64_t upper = word_load(&segment_words(g, pair.segment)[pair.upper]);
  return bucket_has_match(&g->shape, lower, pair.entry) ||
         bucket_has_match(&g->shape, upper, pair.entry) ||
         !(lanes_empty(&g->shape, lower) | lanes_empty(&g->shape, upper));
}

/* Adds copies of a key, and others, until its pair is full but for one lane. */
DEED(crowd, hash)
{
  const struct cuckoo_address address = address_of(&small, hash);
  add_at(&small, (uint32_t) address.lower, (uint32_t) address.upper,
         2U * small.geometry.shape.lanes - 1);
}

/* y is a key of the first generation. */
DEED(y_of_first, n)
{
  stage.y = small.in[in_first - 2];
}

/* Removes keys of the first generation until segments join there. */
DEED(join_first, n)
{
  uint64_t keys[MAX_KEYS], before = stats_of(f).joins;
  memcpy(keys, small.in, sizeof keys);
  for (unsigned i = 0; stats_of(f).joins == before; i++) {
    assert_true(i < in_first - 2);
    take(&small, keys[i]);
  }
}

/* Adds a copy of a key of the second generation, whose pair is full there.  It goes to the first
 * generation, as the limit of bytes leaves no other room.  Then the copy in the second one is
 * removed: so there is always one. */
DEED(take_back, hash)
{
  const uint64_t first_has = entries_of(&small, 0), second_has = entries_of(&small, 1);
  struct cuckoo *c = cuckoo_of(f);
  c->max_bytes = c->bytes;
  assert_int_equal(tamis_add_hash(f, hash), TAMIS_OK);
  assert_int_equal(entries_of(&small, 0), first_has + 1);
  assert_int_equal(tamis_remove_hash(f, hash), TAMIS_OK);
  assert_int_equal(entries_of(&small, 1), second_has - 1);
  c->max_bytes = 0;
}

/* Adds a copy of a key of the first generation, which goes to the newest one.  Then the copy in the
 * first one is removed, as entries of this width know more there: so there is always one. */
DEED(replace, hash)
{
  const uint64_t first_has = entries_of(&small, 0);
  assert_int_equal(tamis_add_hash(f, hash), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(f, hash), TAMIS_OK);
  assert_int_equal(entries_of(&small, 0), first_has - 1);
}

/* Whether an add of the key puts its entry into the upper bucket of the first generation: into
 * the one whose first free lane is the lower one. */
static bool upper_is_emptier(const struct bucket_pair *pair)
{
  const struct cuckoo_geometry *g = &pair->generation->geometry;
  const word *words = segment_words(g, pair->segment);
  uint64_t lower = lanes_empty(&g->shape, word_load(&words[pair->lower]));
  uint64_t upper = lanes_empty(&g->shape, word_load(&words[pair->upper]));
  return (upper & -upper) - 1 < (lower & -lower) - 1;
}

/* Whether a key has an entry in this bucket of the first generation, or shares one. */
static bool stands_in(const struct tiny *t, uint64_t hash, const struct bucket_pair *where,
                      uint64_t bucket)
{
  const struct cuckoo_geometry *g = &where->generation->geometry;
  struct bucket_pair pair = pair_find(where->generation, hash_mix(&t->keys, hash));
  return pair.segment == where->segment && (pair.lower == bucket || pair.upper == bucket) &&
         bucket_has_match(&g->shape, word_load(&segment_words(g, pair.segment)[bucket]),
                          pair.entry);
}

/* Makes room for x in its lower (0) or its upper bucket (1) in the first generation, while the
 * second one has none.  Keys of other fingerprints fill the lower bucket if it is to be the
 * upper. */
DEED(make_room, in_upper)
{
  struct tiny *t = &small;
  struct cuckoo *c = cuckoo_of(f);
  struct generation *first = cuckoo_generation(c, 0);
  struct bucket_pair pair = pair_find(first, hash_mix(&t->keys, stage.x));
  while (no_room_for(t, 0, stage.x))
    take(t, t->in[0]);
  for (unsigned tries = 0; tries < 50 && in_upper && !upper_is_emptier(&pair); tries++) {
    for (unsigned i = 0; i < t->n; i++)
      if (stands_in(t, t->in[i], &pair, pair.upper)) {
        take(t, t->in[i]);
        break;
      }
    c->max_bytes = c->bytes;
    uint64_t filler = hash_at(t, HOME, (uint32_t) address_of(t, stage.x).upper);
    if (pair_find(first, hash_mix(&t->keys, filler)).upper != pair.upper &&
        tamis_add_hash(f, filler) == TAMIS_OK)
      expect_in(t, filler);
    c->max_bytes = 0;
  }
  assert_false(no_room_for(t, 0, stage.x));
  assert_int_equal(upper_is_emptier(&pair), in_upper);
}

/* As an eviction does. */
static void move_by_hand(const struct tiny *t, const struct bucket_pair *pair, uint64_t from,
                         uint64_t to)
{
  const struct cuckoo_geometry *g = &t->geometry;
  const struct lane_shape *s = &g->shape;
  word *words = segment_words(g, pair->segment);
  segment_lock(g, pair->segment, from, to);
  uint64_t match = bucket_match(s, word_load(&words[from]), pair->entry);
  assert_int_equal(lanes_count(match), 1);
  uint64_t entry = lane_get(s, word_load(&words[from]), lanes_first(s, match));
  unsigned free = lanes_first(s, lanes_empty(s, word_load(&words[to])));
  word_store(&words[to], lane_put(s, word_load(&words[to]), free, entry));
  version_bump(stripe_of_bucket(g, pair->segment, from));
  word_store(&words[from], lane_put(s, word_load(&words[from]), lanes_first(s, match), 0));
  stripe_use(stripe_of_bucket(g, pair->segment, to), 1);
  stripe_use(stripe_of_bucket(g, pair->segment, from), -1);
  segment_unlock(g, pair->segment, from, to);
}

/* Moves the entry of a key in the first generation to its other bucket. */
DEED(move, hash)
{
  struct bucket_pair pair =
      pair_find(cuckoo_generation(cuckoo_of(f), 0), hash_mix(&small.keys, hash));
  const bool lower = stands_in_bucket(&small, hash, pair.lower);
  move_by_hand(&small, &pair, lower ? pair.lower : pair.upper, lower ? pair.upper : pair.lower);
}

static struct segment *second_segment_of(uint64_t hash)
{
  struct generation *second = cuckoo_generation(cuckoo_of(small.filter), 1);
  return pair_find(second, hash_mix(&small.keys, hash)).segment;
}

/* Adds keys to the second generation until one has come to the key's root. */
DEED(reach, hash)
{
  while (!second_segment_of(hash))
    add(&small, hash_at(&small, LOWER, UPPER));
}

/* Adds keys until the key's segment of the second generation has split. */
DEED(split_second, hash)
{
  const struct segment *segment = second_segment_of(hash);
  while (second_segment_of(hash) == segment) {
    uint64_t other = hash_at(&small, LOWER, UPPER);
    if (second_segment_of(other) == segment)
      add(&small, other);
  }
}

/* The same for a segment of a root. */
DEED(split_root, root)
{
  while (stats_of(f).growths == 0)
    add(&small, hash_in_root(&small, root, LOWER, UPPER));
}

/* y is a key of the same pair as x.  Its fingerprint is equal in all bits that an entry from before
 * a split knows, and different in the next one. */
DEED(y_like_x, n)
{
  struct cuckoo_address a = address_of(&small, stage.x), b;
  unsigned equal = small.geometry.shape.width - 1;
  do
    b = address_of(&small, ++small.last_hash);
  while (b.lower != a.lower || b.upper != a.upper ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal) != 0 ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal + 1) == 0);
  stage.y = small.last_hash;
}

/* A batch of x and y.  Bit 0: whether x is found; bit 1: whether y is. */
VERB(both, n)
{
  const uint64_t keys[] = {stage.x, stage.y};
  bool found[2];
  tamis_contains_many_hash(f, keys, 2, found);
  return found[0] | found[1] << 1;
}

/* Whether the second key of a batch of two is found. */
VERB(after_another, hash)
{
  const uint64_t hashes[] = {hash + 1, hash};
  bool found[2];
  tamis_contains_many_hash(f, hashes, 2, found);
  return found[1];
}

/* ---- schedules ---- */

static const struct row rows[] = {
    /* Two generations: there is always a copy of x.  The reader has read the directory entry of the
     * first one, whose segment is then joined with another one.  It finds x neither there nor in
     * the second generation: only the directory entry has changed. */
    {"a_copy_goes_into_a_joined_segment", TWO, "cuckoo_older_pair_found",
     "x_at 26; add x; crowd x; drain; a: contains x @*; join_first; take_back x; a = 1"},
    /* It has found nothing in the first generation.  Then the copy comes there, into either bucket,
     * before it reads the second one. */
    {"a_copy_goes_to_an_older_generation", TWO, "cuckoo_versions_read",
     "each 0..1; x_at 25; add x; crowd x; make_room %; drain; a: contains x @*; take_back x;"
     "a = 1"},
    /* x moves each time that the reader has read the bucket to which it goes: before the read of
     * the second bucket, and again when the reader reads both once more.  The words have not
     * changed then. */
    {"moves_in_an_older_generation", TINY, NULL,
     "x_at 26; add x; open; reach x; in_home x = 1; move x; a: contains x @cuckoo_older_lower_read;"
     "move x; a @cuckoo_versions_read; move x; a @cuckoo_older_lower_read_again; move x; a = 1"},
    /* It has found the pairs in the two generations that it knows.  The second one has no segment:
     * the copy goes there, or to a third generation. */
    {"a_copy_goes_to_a_new_segment", OF_32_BITS, "cuckoo_older_pair_found",
     "fill 151; x_at 26; add x; open_bare; a: contains x @*; replace x; entries 1 = 1; a = 1"},
    {"a_copy_goes_to_a_third_generation", OF_32_BITS, "cuckoo_older_pair_found",
     "fill 151; x_at 26; add x; open_bare; a: contains x @*; open_bare; replace x; entries 2 = 1;"
     "a = 1"},
    /* Both have a segment for x.  The younger one splits before the copy comes, or a third
     * generation is opened, to which it goes. */
    {"a_copy_goes_to_a_segment_that_has_split", OF_32_BITS, "cuckoo_older_pair_found",
     "split; x_at 26; add x; open_bare; reach x; a: contains x @*; split_second x; replace x;"
     "a = 1"},
    {"a_copy_goes_to_a_third_generation", OF_32_BITS, "cuckoo_older_pair_found",
     "split; x_at 26; add x; open_bare; reach x; a: contains x @*; open_bare; replace x; a = 1"},
    /* The copy goes from the first generation to the second one, which the reader has not read
     * yet. */
    {"a_copy_changes_generations", OF_32_BITS, "cuckoo_older_pair_found",
     "x_at 26; add x; in_home x = 1; open; a: contains x @*; replace x; a = 1"},
    {"a_copy_changes_generations", OF_32_BITS, "cuckoo_older_lower_read",
     "fill 261; x_at 26; add x; in_upper x = 1; open; a: contains x @*; replace x; a = 1"},

    /* A generation that opens.  The reader knows of one, and has read one of its two buckets
     * there.  By the time it reads the other one, the only copy of x is in a second
     * generation.  Either answer is right: the add has overlapped with the look-up. */
    {"a_generation_opens_under_a_reader", TINY, "cuckoo_lower_read",
     "x_at 15; split; a: contains x @*; open; add x; a; contains x = 1"},
    /* It compares the version of the upper bucket only. */
    {"a_key_goes_to_a_generation_that_is_new", OF_32_BITS, "cuckoo_versions_read",
     "x_at 26; add x; fill 261; split; in_home x = 1; a: contains x @*; open; replace x;"
     "in_home x = 0; a = 1"},

    /* Batches.  y was added before x, to a segment that has split since the batch found its pair,
     * or that has been made since.  If x is found, y must be. */
    {"a_batch_answers_in_order", ROOTS, "cuckoo_versions_read",
     "x_at 26; y_at 126; a: both @*; split_root 1; add y; add x; a = 3"},
    {"a_batch_asks_again_where_there_was_no_segment", ROOTS_WITHOUT_SPLITS, "cuckoo_versions_read",
     "x_at 26; y_at 126; lose 1; a: both @*; add y; add x; a = 3"},
    /* y is removed before x, from a segment that has been joined with another one since.  It still
     * stands in the old segment, of the older of two generations. */
    {"a_batch_answers_in_order_with_two_generations", TWO, "cuckoo_older_lower_read",
     "x_at 26; y_of_first; add x; drain; a: both @*; join_first; remove y; remove x; a = 0"},
    /* When it looks for x, that is in the second generation already, of which the batch does not
     * know. */
    {"a_copy_changes_generations_under_a_batch", NO_SPLITS, "cuckoo_lower_read",
     "x_at 26; add x; a: after_another x @*; open; replace x; a = 1"},
    /* So it is with many filters, which had one generation when they were found alike. */
    {"a_copy_changes_generations_in_many_filters", NO_SPLITS, "cuckoo_versions_read",
     "x_at 26; add x; a: each_of_many x @*; open; replace x; a = 1"},

    /* Removes.  An older entry matches x and y, and a younger one only y: a remove of y takes the
     * younger one, in the upper or the lower bucket, or in a later generation. */
    {"the_longest_match_is_removed", OF_8_BITS, NULL,
     "x_at 26; add x; in_home x = 1; split; y_like_x; add y; remove y; contains x = 1"},
    {"the_longest_match_is_removed", OF_8_BITS, NULL,
     "fill 261; x_at 26; add x; unfill 1; in_upper x = 1; split; y_like_x; add y; remove y;"
     "contains x = 1"},
    {"the_longest_match_is_removed", OF_8_BITS, NULL,
     "x_at 26; add x; open; y_like_x; add y; generations = 2; remove y; contains x = 1"},
    /* It knows of one generation, and holds no stripe yet. */
    {"a_remove_that_knows_a_generation_too_few", OF_8_BITS, "cuckoo_generations_read",
     "x_at 26; add x; y_like_x; a: remove y @*; open; add y; a = OK; contains x = 1"},
};

int main(void)
{
  return run_schedules(setups, rows, sizeof rows / sizeof *rows);
}
