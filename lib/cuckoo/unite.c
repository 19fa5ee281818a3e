/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the union of two cuckoo filters that are in use.
 *
 * A union adds every entry of a snapshot of `from` (snapshot.c) to `into`, with the entry's copies.
 * It holds no lock of one filter while it works on the other, so opposite unions cannot deadlock.
 *
 * Where an entry may go.  An entry of `from` is a prefix of the hash string of its keys.  In `into`
 * it becomes the same prefix, or a shorter one if new entries of `into` know fewer bits there:
 *
 *    1. The entry must know the bits that lead to its buckets: root, pair, and the first w - 1 bits
 *       of the fingerprint (a lane has w bits), which give the other bucket.  Every entry knows
 *       enough bits for a generation of the same geometry, and for any older generation.  An entry
 *       of an older generation often knows too few for a newer one.
 *    2. The entry may be in a segment of any depth.  There it knows depth + w - 1 bits, as a new
 *       entry does, or fewer, and then has an age.  It always knows at least w - 1 bits, so its age
 *       is at most the segment's depth.  Splits and joins keep this true.
 *    3. In an older generation, a root without a segment never gets one (growth.c), so it cannot
 *       take entries.  A segment splits there only for a union.  Such a split is safe: look-ups
 *       handle it like a join, and unique adds hold stripes in each generation.
 *
 * The union adds an entry to the newest generation that can take it or, if there is no room, to an
 * older one.  It splits segments of `into` as deep as those of `from`, and puts an entry into the
 * same bucket if it can.  So a union of an empty filter with one of the same options is a copy, and
 * always finds room.  If `into` lacks a generation of `from`, the union opens one like it.
 *
 * [A] No false negative ([A] in lookup.c).  In the snapshot, each key has an entry of its own, and
 *     this entry is in `into` when the union returns.  Keys of `into` keep their entries.  A remove
 *     takes the longest match, as always, and the argument in remove.c needs only that entries are
 *     prefixes, not which filter they come from.
 *
 * [B] One winner ([B] in insert.c).  The union writes an entry under both stripes of its pair.  A
 *     unique add of a key that the entry stands for holds the stripes of the key's pair in every
 *     generation that the add has seen.  So the add finds the entry, or has won before the union
 *     wrote the entry or opened its generation.
 *
 * [F] Duplicates ([F] in insert.c).  The union counts copies only with an entry that is a prefix of
 *     the incoming entry.  An entry that knows more bits might not match the key.
 *
 * Removes.  During the union, the snapshot notes the keys that are removed from the copied part of
 * `from`.  When `into` has all entries, the union removes these keys from it.  (An earlier remove
 * might take the entry of another key y, and leave an entry that does not stand for y.)
 *
 * unite_plan.c plans rate and room before anything changes.  If the union meets a limit on the way,
 * because of max_bytes or because other calls add keys meanwhile, it ends early.  Then `into` has
 * all its own entries, and some of the entries of `from`, each with all its copies or with none.
 */
#include "cuckoo/operations.h"
#include "cuckoo/unite_plan.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"

#include "base/hook.h"
#include "table/put.h"

/* ---- one entry ---- */

/* An entry of `from`, with its copies. */
struct incoming {
  const struct cuckoo_geometry *geometry; /* the geometry of the entry's generation */
  struct cuckoo_address address;          /* the entry's address in that generation */
  uint64_t bucket;
  unsigned known;  /* the number of known bits of the fingerprint */
  uint64_t copies; /* the duplicate count of the entry */
};

/* The address of an incoming entry in a generation of `into`. */
struct place {
  struct generation *generation;
  struct cuckoo_address address;
  unsigned known; /* the number of fingerprint bits that the entry knows there */
  bool same;      /* this generation and that of the entry have the same geometry */
};

/* Finds an entry's place in a generation.  Returns false if the entry knows too few bits. */
static bool place_in(struct generation *generation, const struct incoming *e, struct place *place)
{
  const struct cuckoo_geometry *g = &generation->geometry, *own = e->geometry;
  const struct cuckoo_address *a = &e->address;
  unsigned known = cuckoo_place_bits(own) + e->known;
  *place = (struct place){generation, *a, e->known, cuckoo_same_geometry(g, own)};
  if (!cuckoo_can_take(g, own, known))
    return false;
  if (!place->same) {
    place->known = (known < 64 ? known : 64) - cuckoo_place_bits(g);
    place->address = cuckoo_address_in(g, own, a->root, a->lower, a->fingerprint);
  }
  return true;
}

/* Writes an entry into a free lane.  If both generations have the same geometry, prefers the bucket
 * that the entry had in `from`; otherwise, or if that bucket is full, the emptier bucket.  Returns
 * a result, or RETRY if a plain add has filled the lane meanwhile.  Here and in add_entry_locked(),
 * the caller must hold the stripes of the pair. */
static int write_with_copies_locked(struct cuckoo *c, const struct bucket_pair *pair,
                                    struct pair_words words, const struct place *place,
                                    const struct incoming *e)
{
  const struct cuckoo_geometry *g = pair->geometry;
  if (place->same && e->bucket == pair->lower && words.room_lower)
    words.room_upper = 0;
  if (place->same && e->bucket == pair->upper && words.room_upper)
    words.room_lower = 0;
  const struct free_place to = choose_place(pair, &g->shape, words);
  uint64_t room = to.bucket == pair->lower ? words.room_lower : words.room_upper;
  struct lane lane = {to.bucket, lanes_first(&g->shape, room)};
  int result = TAMIS_OK;
  if (e->copies) /* the count comes first, so that the entry never lacks it */
    result = tamis__segment_add_copies(c, g, pair->segment, lane, e->copies, true);
  if (result != TAMIS_OK)
    return result;
  if (write_entry(pair, g, to)) {
    cuckoo_count_change(pair->generation, DUPLICATES, (int64_t) e->copies);
    return TAMIS_OK;
  }
  if (e->copies)
    (void) tamis__segment_add_copies(c, g, pair->segment, lane, -e->copies, true);
  return RETRY;
}

/* Writes or counts an entry.  `no_path`: no eviction makes room.  May return NO_ROOM or RETRY. */
static int add_entry_locked(struct cuckoo *c, const struct bucket_pair *pair,
                            const struct place *place, const struct incoming *e, unsigned age,
                            bool no_path)
{
  const struct cuckoo_geometry *g = pair->geometry;
  assert(stripe_held(stripe_of_bucket(g, pair->segment, pair->lower)));
  const struct best_match best = match_pair_with(pair, g, age, false); /* prefixes of the entry */
  const struct pair_words words = pair_load(pair, g);
  const bool room = pair_has_room(words);
  if (best.matches && (best.matches >= max_lanes_per_key(g) ||
                       segment_counts_copies(pair->segment) || (!room && no_path))) {
    struct lane lane = {best.bucket, best.lane};
    int result = tamis__segment_add_copies(c, g, pair->segment, lane, e->copies + 1, true);
    if (result == TAMIS_OK)
      cuckoo_count_change(pair->generation, DUPLICATES, (int64_t) e->copies + 1);
    if (result != TAMIS_EFULL || !room) /* if it cannot be counted, the copy gets the free lane */
      return result;
  }
  if (!room)
    return NO_ROOM;
  int result = write_with_copies_locked(c, pair, words, place, e);
  if (result == TAMIS_OK && best.matches)
    tamis__note_copy_in_lane(pair->segment);
  return result;
}

/* Tries once to add an entry, in a read section.  Returns a result, NO_ROOM or RETRY. */
static int try_entry(struct cuckoo *c, struct bucket_pair *pair, const struct place *place,
                     const struct incoming *e, bool no_path, struct survey *come)
{
  const struct cuckoo_geometry *g = pair->geometry;
  unsigned depth = directory_depth(pair->own_value);
  pair->entry = cuckoo_entry(g, place->address.fingerprint, place->known, depth);
  unsigned age = bucket_age(&g->shape, pair->entry);
  HOOK(cuckoo_union_pair_found);
  if (!pair_lock(pair, g))
    return RETRY;
  int result = pair_lets_add(c, pair, cuckoo_generations(c))
                   ? add_entry_locked(c, pair, place, e, age, no_path)
                   : TAMIS_EFULL;
  pair_unlock(pair, g);
  if (result == TAMIS_OK) {
    come->entries++;
    come->rate += cuckoo_entry_rate(g, cuckoo_known_bits(g, depth, age));
  }
  return result == NO_ROOM && segment_is_full(c, pair->segment) ? TAMIS_EFULL : result;
}

static int add_entry(struct cuckoo *c, const struct place *place, const struct incoming *e,
                     struct survey *come)
{
  bool no_path = false;
  for (;;) {
    unsigned n = cuckoo_generations(c);
    reader_token token = cuckoo_enter(c);
    struct bucket_pair pair =
        pair_at(&place->generation->geometry, place->generation, place->address);
    int result = NO_ROOM;
    if (pair.segment) {
      result = try_entry(c, &pair, place, e, no_path, come);
      if (result == NO_ROOM && !no_path)
        result = evict_for(c, &pair, &no_path);
    }
    cuckoo_leave(c, token);
    if (result == NO_ROOM) {
      result = tamis__grow(c, &pair, n, true);
      no_path = false;
      if (result == TAMIS_OK)
        continue;
    }
    if (result != RETRY)
      return result;
  }
}

/* ---- all entries ---- */

/* Adds an entry of generation `number` of `from`.  May open a generation for it. */
static int unite_entry(struct union_plan *plan, unsigned number, const struct incoming *e)
{
  for (;;) {
    unsigned n = cuckoo_generations(plan->into);
    int result = TAMIS_EFULL;
    struct place place;
    for (unsigned j = n; j-- > 0 && result == TAMIS_EFULL;)
      if (place_in(cuckoo_generation(plan->into, j), e, &place))
        result = add_entry(plan->into, &place, e, &plan->come[j]);
    if (result != TAMIS_EFULL)
      return result;
    if (cuckoo_generations(plan->into) != n)
      continue;
    if (plan->into->growable && number >= n) /* else e has too few bits for a new generation */
      result =
          tamis__generation_open(plan->into, cuckoo_generation(plan->into, n - 1), e->geometry);
    if (result != TAMIS_OK)
      return result;
  }
}

/* Splits the segments of `into` that will take the piece's entries, to the depth of the piece. */
static void split_for(struct cuckoo *into, const struct snapshot_piece *piece)
{
  for (unsigned j = cuckoo_generations(into); j-- > 0;) {
    struct generation *generation = cuckoo_generation(into, j);
    if (!cuckoo_can_take(&generation->geometry, &piece->generation->geometry,
                         cuckoo_least_bits(&piece->generation->geometry)))
      continue;
    if (cuckoo_same_geometry(&generation->geometry, &piece->generation->geometry))
      tamis__split_to(into, generation, piece->index, piece->depth);
    return;
  }
}

static int unite_piece(struct union_plan *plan, const struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = piece->geometry;
  const uint64_t prefix = cuckoo_prefix(g, piece->index);
  struct incoming e = {.geometry = &piece->generation->geometry};
  if (plan->into->growable)
    split_for(plan->into, piece);
  HOOK(cuckoo_union_piece);
  for (e.bucket = 0; e.bucket < cuckoo_buckets(g); e.bucket++)
    for (uint64_t set = lanes_in_use(&g->shape, piece->words[e.bucket]); set; set &= set - 1) {
      unsigned lane = lanes_first(&g->shape, set);
      uint64_t entry = lane_get(&g->shape, piece->words[e.bucket], lane);
      uint64_t fingerprint = cuckoo_fingerprint(g, entry, prefix, piece->depth);
      uint64_t lower = cuckoo_lower_bucket(g, e.bucket, fingerprint);
      e.known = cuckoo_known_of_fingerprint(g, piece->depth, bucket_age(&g->shape, entry));
      e.address = (struct cuckoo_address){cuckoo_root_of_index(g, piece->index), fingerprint, lower,
                                          lower ^ cuckoo_other_mask(g, fingerprint),
                                          cuckoo_class(g, fingerprint)};
      e.copies = piece->duplicates ? tamis__counts_get(piece->duplicates, e.bucket, lane) : 0;
      int result = unite_entry(plan, piece->generation->number, &e);
      if (result != TAMIS_OK)
        return result;
    }
  return TAMIS_OK;
}

/* Adds all entries, then removes from `into` the keys that calls have removed from `from`
 * meanwhile.  (After an error it removes none, because `into` may lack entries of these keys.) */
static int unite_pieces(struct union_plan *plan, struct cuckoo_snapshot *s)
{
  struct snapshot_piece piece;
  int result;
  while ((result = tamis__snapshot_next(s, &piece)) == TAMIS_OK)
    if ((result = unite_piece(plan, &piece)) != TAMIS_OK)
      return result;
  if (result != TAMIS_ABSENT)
    return result;
  struct snapshot_note *notes = tamis__snapshot_removed(s);
  for (const struct snapshot_note *note = notes; note; note = note->next)
    (void) tamis__cuckoo_remove_mixed(plan->into, note->hash);
  tamis__snapshot_release_notes(s->c, notes);
  return TAMIS_OK;
}

int tamis__cuckoo_merge(tamis_filter *into, const tamis_filter *from_filter)
{
  const struct cuckoo *from = const_cuckoo_of(from_filter);
  struct union_plan plan;
  if (!cuckoo_same_geometry(&cuckoo_generation(cuckoo_of(into), 0)->geometry,
                            &cuckoo_generation(from, 0)->geometry))
    return TAMIS_EINVAL;
  int result = tamis__union_begin(cuckoo_of(into), from, &plan);
  if (result != TAMIS_OK)
    return result;
  struct cuckoo_snapshot s;
  tamis__snapshot_begin(&s, from);
  result = unite_pieces(&plan, &s);
  tamis__snapshot_end(&s);
  if (plan.into->growable)
    tamis__union_settle(&plan, result != TAMIS_OK);
  return result;
}
