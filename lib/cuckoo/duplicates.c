/* SPDX-License-Identifier: MIT */
#include "cuckoo/duplicates.h"

#include "cuckoo/duplicate_codes.h"

#include <assert.h>
#include <string.h>

enum {
  MAX_BITS = SMALL(10, 2), /* of a code; counts that differ more are exceptions */
  /* The counts for which codes are considered are this many in a row. */
  SPAN = 1 << MAX_BITS,
  SAMPLES = SMALL(33, 5),     /* counts by which the place of the span is chosen */
  FEWEST_SLOTS = SMALL(8, 1), /* exceptions for which a new block has room */
  SPARSE_PART =
      SMALL(32, 4), /* up to this part of the lanes, counts are exceptions without a choice */
  SMALL_BYTES = SMALL(256, 40) /* of a block: nothing is saved in one that takes no more */
};
static const uint64_t most_base = SMALL(UINT32_MAX, UINT8_MAX) - SPAN;

/* How a block's counts are stored. */
struct frame {
  unsigned bits;
  uint32_t base;
  bool wide;
  size_t live, exceptions;
};

static size_t positions_of(const struct duplicates *d)
{
  size_t buckets = d->buckets < DUPLICATES_BUCKETS ? d->buckets : DUPLICATES_BUCKETS;
  return buckets * d->lanes;
}

/* ---- the choice of a frame ---- */

/* How often each count of a span occurs. */
struct histogram {
  uint64_t low;       /* the first count of the span */
  size_t first, last; /* of those that occur; first > last: none does */
  uint16_t of[SPAN];
};

/* A count that is neither rare nor extreme: the median of a sample. */
static uint64_t typical_count(const uint64_t *counts, size_t positions)
{
  uint64_t sample[SAMPLES];
  size_t n = 0;
  /* An odd step, so that all lanes take part. */
  size_t step = (positions / SAMPLES / 2) | 1;
  for (size_t i = 0; i < positions && n < SAMPLES; i += counts[i] ? step : 1) {
    size_t j = n;
    if (!counts[i])
      continue;
    for (; j > 0 && sample[j - 1] > counts[i]; j--)
      sample[j] = sample[j - 1];
    sample[j] = counts[i];
    n++;
  }
  return n ? sample[n / 2] : 1;
}

static void count_counts(struct histogram *h, const uint64_t *counts, size_t positions,
                         uint64_t most)
{
  memset(h->of, 0, sizeof h->of);
  for (size_t i = 0; i < positions; i++) {
    uint64_t k = counts[i] - h->low; /* large if the count is less */
    if (k < SPAN)
      h->of[k]++;
  }
  h->first = 0;
  h->last = most - h->low < SPAN ? (size_t) (most - h->low) : SPAN - 1;
  while (h->last > 0 && !h->of[h->last])
    h->last--;
  while (h->first <= h->last && !h->of[h->first])
    h->first++;
}

/* Of all rows of `length` counts, the one in which most counts are; *inside says how many. */
static size_t fullest_row(const struct histogram *h, size_t length, size_t *inside)
{
  size_t best = h->first, sum = 0;
  *inside = 0;
  for (size_t end = h->first; end <= h->last; end++) {
    sum += h->of[end];
    if (end >= h->first + length)
      sum -= h->of[end - length];
    if (sum > *inside) {
      *inside = sum;
      best = end + 1 >= h->first + length ? end + 1 - length : h->first;
    }
  }
  return best;
}

/* The room that a block is to have for further exceptions: for as many as will probably come before
 * its frame is no longer the best.
 *   SPARE   that, if there is memory for it
 *   INSIDE  that, if the block need not become larger
 *   NONE    none, and in a frame as small as can be */
enum room { SPARE, INSIDE, NONE };

static size_t slots_for(size_t positions, const struct frame *frame, enum room room)
{
  if (room == NONE)
    return frame->exceptions;
  size_t more = frame->exceptions / 8;
  size_t least = positions / 128 > FEWEST_SLOTS ? positions / 128 : FEWEST_SLOTS;
  if (!frame->bits && frame->exceptions / 2 > more)
    more = frame->exceptions / 2;
  return frame->exceptions + (more > least ? more : least);
}

static size_t frame_bytes(size_t positions, const struct frame *frame, enum room room)
{
  return bytes_for(positions, frame->bits, frame->wide, slots_for(positions, frame, room));
}

/* Replaces *best, a frame of the same counts, by the best one with codes for a row of the span; and
 * *direct by the best one with base 1, if the span begins with 1. */
static void choose_in_span(struct histogram *h, size_t positions, enum room room,
                           struct frame *best, struct frame *direct)
{
  for (unsigned bits = 1; bits <= MAX_BITS && h->first <= h->last; bits++) {
    struct frame frame = *best;
    size_t length = ((size_t) 1 << bits) - 1, inside;
    frame.bits = bits;
    if (h->low == 1) {
      inside = 0;
      for (size_t k = 0; k < length; k++)
        inside += h->of[k];
      frame.base = 1;
      frame.exceptions = best->live - inside;
      if (frame_bytes(positions, &frame, room) < frame_bytes(positions, direct, room))
        *direct = frame;
    }
    frame.base = (uint32_t) (h->low + fullest_row(h, length, &inside));
    frame.exceptions = best->live - inside;
    if (frame_bytes(positions, &frame, room) < frame_bytes(positions, best, room))
      *best = frame;
    if (h->first + length > h->last && (h->low > 1 || length > h->last))
      break; /* more bits give no more of them a code */
  }
}

/* The frame that takes the fewest bytes.  One with base 1 is preferred if it takes less than 7/16
 * of what the buckets take, or little anyway: a remove then never needs memory.  (Not with NONE.) */
static struct frame choose_frame(const struct duplicates *d, const uint64_t *counts, enum room room)
{
  size_t positions = positions_of(d);
  struct frame best = {.base = 1};
  uint64_t most = 0;
  for (size_t i = 0; i < positions; i++) {
    best.live += counts[i] != 0;
    most = counts[i] > most ? counts[i] : most;
  }
  best.exceptions = best.live;
  best.wide = most >> COUNT_BITS;
  if (room != NONE && best.live <= positions / SPARSE_PART)
    return best;
  struct frame direct = best;
  struct histogram h = {.low = 1};
  count_counts(&h, counts, positions, most);
  choose_in_span(&h, positions, room, &best, &direct);
  uint64_t typical = most < SPAN ? 1 : typical_count(counts, positions);
  if (typical > SPAN / 2 && typical < most_base) {
    h.low = typical - SPAN / 2;
    count_counts(&h, counts, positions, most);
    choose_in_span(&h, positions, room, &best, &direct);
  }
  size_t most_bytes = positions / d->lanes * sizeof(uint64_t) * 7 / 16;
  if (most_bytes < SMALL_BYTES)
    most_bytes = SMALL_BYTES;
  return room != NONE && frame_bytes(positions, &direct, room) <= most_bytes ? direct : best;
}

/* ---- blocks ---- */

static void encode(struct duplicate_block *b, size_t positions, const struct frame *frame,
                   const uint64_t *counts)
{
  block_figure bytes = b->bytes;
  memset(b, 0, bytes);
  b->bytes = bytes;
  b->base = (block_base) frame->base;
  b->bits = (uint8_t) frame->bits;
  b->wide = frame->wide;
  b->live = (block_figure) frame->live;
  void *slots = slots_of(b, positions);
  struct code_writer writer = {.next = b->words};
  for (size_t i = 0; i < positions; i++) {
    uint64_t code = code_for(b, counts[i]);
    code_write(b, &writer, code);
    if (counts[i] && !code)
      slot_set(b, slots, b->exceptions++, i, counts[i]);
  }
  code_write_rest(&writer);
}

static void release_block(struct duplicates *d, const struct duplicates_memory *memory,
                          unsigned block)
{
  struct duplicate_block *b = d->block[block];
  if (b)
    memory->release(memory->context, b, b->bytes);
  d->block[block] = NULL;
}

/* Encodes a block. */
static bool write_block(struct duplicates *d, const struct duplicates_memory *memory,
                        unsigned block, const uint64_t *counts, enum room room)
{
  size_t positions = positions_of(d);
  struct frame frame = choose_frame(d, counts, room);
  struct duplicate_block *old = d->block[block], *new = old;
  uint64_t live = d->live - (old ? old->live : 0) + frame.live;
  if (!frame.live) {
    release_block(d, memory, block);
    d->live = live;
    return true;
  }
  size_t least = bytes_for(positions, frame.bits, frame.wide, frame.exceptions);
  size_t bytes = frame_bytes(positions, &frame, room);
  bool fits = old && least <= old->bytes;
  if (!fits || (room == SPARE && bytes > old->bytes) || bytes < (size_t) old->bytes * 15 / 16) {
    struct duplicate_block *other = memory->allocate(memory->context, bytes);
    if (!other && !fits) {
      if (old && room == SPARE && frame.wide == old->wide)
        old->refused = (block_figure) bytes;
      return false;
    }
    if (other) {
      new = other;
      new->bytes = (block_figure) bytes;
    }
  }
  encode(new, positions, &frame, counts);
  if (new != old)
    release_block(d, memory, block);
  d->block[block] = new;
  d->live = live;
  return true;
}

bool tamis__duplicates_write(struct duplicates *d, const struct duplicates_memory *memory,
                             unsigned block, const uint64_t counts[DUPLICATES_POSITIONS],
                             bool tight)
{
  return write_block(d, memory, block, counts, tight ? NONE : SPARE);
}

/* Whether so few counts are exceptions that a block with room for more of them takes less than one
 * with a code for each lane, or than one with longer codes. */
static bool has_few_exceptions(const struct duplicate_block *b, size_t positions)
{
  return b->exceptions < positions / SPARSE_PART;
}

/* A larger block with the same codes and exceptions. */
static bool extend(struct duplicates *d, const struct duplicates_memory *memory, unsigned block)
{
  static const struct duplicate_block none = {.bytes = sizeof none, .base = 1};
  const struct duplicate_block *old = d->block[block] ? d->block[block] : &none;
  struct frame frame = {.bits = old->bits, .wide = old->wide, .exceptions = old->exceptions};
  size_t slots =
      frame.bits ? slots_for(positions_of(d), &frame, SPARE) : frame.exceptions * 2 + FEWEST_SLOTS;
  size_t bytes = bytes_for(positions_of(d), frame.bits, frame.wide, slots);
  struct duplicate_block *new = memory->allocate(memory->context, bytes);
  if (!new)
    return false;
  memcpy(new, old, old->bytes);
  new->bytes = (block_figure) bytes;
  new->refused = 0;
  release_block(d, memory, block);
  d->block[block] = new;
  return true;
}

/* ---- single counts ---- */

/* After more changes a block is encoded anew. */
static size_t most_changes(size_t positions)
{
  return 2 * positions;
}

/* Whether the block can take the count as it is. */
static bool has_room(const struct duplicate_block *b, size_t positions, size_t i, uint64_t count)
{
  if (!count || code_for(b, count))
    return true;
  if (count >> count_bits(b->wide))
    return false;
  const void *slots = slots_of(b, positions);
  return b->exceptions < slots_in(b, positions) || slot_is_at(b, slots, slot_seek(b, slots, i), i);
}

static void put_exception(struct duplicate_block *b, size_t positions, size_t i, uint64_t count)
{
  void *slots = slots_of(b, positions);
  size_t j = slot_seek(b, slots, i);
  if (!slot_is_at(b, slots, j, i)) {
    slots_move(b, slots, j + 1, j);
    b->exceptions++;
  }
  slot_set(b, slots, j, i, count);
}

static void drop_exception(struct duplicate_block *b, size_t positions, size_t i)
{
  void *slots = slots_of(b, positions);
  size_t j = slot_seek(b, slots, i);
  slots_move(b, slots, j, j + 1);
  b->exceptions--;
}

/* Whether there is no exception for the count, because it is 0 or has a code. */
static bool has_no_slot(const struct duplicate_block *b, uint64_t count)
{
  return !count || code_for(b, count);
}

/* The block has room for the count `to` in place of `from`. */
static void put(struct duplicate_block *b, size_t positions, size_t i, uint64_t from, uint64_t to)
{
  code_set(b, i, code_for(b, to));
  if (!has_no_slot(b, to))
    put_exception(b, positions, i, to);
  else if (!has_no_slot(b, from))
    drop_exception(b, positions, i);
}

/* Encodes a block anew, with another count for one lane. */
static bool encode_anew(struct duplicates *d, const struct duplicates_memory *memory,
                        unsigned block, size_t i, uint64_t count, enum room room)
{
  uint64_t counts[DUPLICATES_POSITIONS];
  tamis__duplicates_read(d, block, counts);
  counts[i] = count;
  return write_block(d, memory, block, counts, room);
}

bool tamis__duplicates_change(struct duplicates *d, const struct duplicates_memory *memory,
                              uint32_t bucket, unsigned lane, uint64_t from, uint64_t to)
{
  assert(tamis__duplicates_get(d, bucket, lane) == from);
  size_t positions = positions_of(d), i = bucket % DUPLICATES_BUCKETS * (size_t) d->lanes + lane;
  unsigned block = bucket / DUPLICATES_BUCKETS;
  struct duplicate_block *b = d->block[block];
  if (!to && !b)
    return true;
  if (!b || !has_room(b, positions, i, to)) {
    if (b && b->refused && to > from && memory->fits && !memory->fits(memory->context, b->refused))
      return false;
    if (to >> count_bits(b && b->wide) || (b && !has_few_exceptions(b, positions)))
      return encode_anew(d, memory, block, i, to, SPARE);
    if (!extend(d, memory, block))
      return false;
    b = d->block[block];
  }
  put(b, positions, i, from, to);
  if (to < from)
    b->refused = 0; /* the counts may take less memory now */
  b->live = (block_figure) (b->live - (from != 0) + (to != 0));
  d->live = d->live - (from != 0) + (to != 0);
  if (!b->live)
    release_block(d, memory, block);
  else if (++b->changes > most_changes(positions)) {
    b->changes = 0;
    encode_anew(d, memory, block, i, to, INSIDE); /* refused: then it stays as it is */
  }
  return true;
}

bool tamis__duplicates_step(struct duplicates *d, uint32_t bucket, unsigned lane, uint64_t more)
{
  size_t positions = positions_of(d), i = bucket % DUPLICATES_BUCKETS * (size_t) d->lanes + lane;
  struct duplicate_block *b = d->block[bucket / DUPLICATES_BUCKETS];
  if (!b || b->changes >= most_changes(positions))
    return false;
  if (more >> 63) /* a count falls: they may take less memory then */
    b->refused = 0;
  uint64_t old = code_get(b, i);
  if (!old && b->exceptions) {
    void *slots = slots_of(b, positions);
    size_t j = slot_seek(b, slots, i);
    if (slot_is_at(b, slots, j, i)) {
      uint64_t count = slot_count(b, slots, j) + more;
      if (has_no_slot(b, count) || count >> count_bits(b->wide))
        return false;
      slot_set(b, slots, j, i, count);
      b->changes++;
      return true;
    }
  }
  uint64_t code = code_for(b, (old ? b->base + old - 1 : 0) + more);
  if (!code)
    return false;
  code_set(b, i, code);
  b->changes++;
  if (!old) {
    b->live++;
    d->live++;
  }
  return true;
}

uint64_t tamis__duplicates_get(const struct duplicates *d, uint32_t bucket, unsigned lane)
{
  const struct duplicate_block *b = d->block[bucket / DUPLICATES_BUCKETS];
  return b ? count_at(b, positions_of(d), bucket % DUPLICATES_BUCKETS * (size_t) d->lanes + lane)
           : 0;
}

/* ---- the object ---- */

static unsigned blocks_for(uint32_t buckets)
{
  return (buckets + DUPLICATES_BUCKETS - 1) / DUPLICATES_BUCKETS;
}

size_t tamis__duplicates_bytes(uint32_t buckets)
{
  return sizeof(struct duplicates) + blocks_for(buckets) * sizeof(struct duplicate_block *);
}

void tamis__duplicates_init(struct duplicates *d, uint32_t buckets, uint32_t lanes)
{
  d->buckets = buckets;
  d->lanes = lanes;
}

unsigned tamis__duplicates_blocks(const struct duplicates *d)
{
  return blocks_for(d->buckets);
}

void tamis__duplicates_clear(struct duplicates *d, const struct duplicates_memory *memory)
{
  for (unsigned i = 0; i < tamis__duplicates_blocks(d); i++)
    release_block(d, memory, i);
  d->live = 0;
}

void tamis__duplicates_read(const struct duplicates *d, unsigned block,
                            uint64_t counts[DUPLICATES_POSITIONS])
{
  const struct duplicate_block *b = d->block[block];
  size_t positions = positions_of(d);
  if (!b) {
    memset(counts, 0, positions * sizeof *counts);
    return;
  }
  struct code_reader reader = {.next = b->words};
  for (size_t i = 0; i < positions; i++) {
    uint64_t code = code_read(b, &reader);
    counts[i] = code ? b->base + code - 1 : 0;
  }
  const void *slots = slots_of(b, positions);
  for (size_t j = 0; j < b->exceptions; j++)
    counts[slot_position(b, slots, j)] = slot_count(b, slots, j);
}

size_t tamis__duplicates_copy_bytes(const struct duplicates *d)
{
  size_t bytes = tamis__duplicates_bytes(d->buckets);
  for (unsigned i = 0; i < tamis__duplicates_blocks(d); i++)
    bytes += d->block[i] ? d->block[i]->bytes : 0;
  return bytes;
}

void tamis__duplicates_copy(const struct duplicates *d, struct duplicates *to)
{
  size_t bytes = tamis__duplicates_bytes(d->buckets);
  memcpy(to, d, bytes);
  for (unsigned i = 0; i < tamis__duplicates_blocks(d); i++) {
    if (!d->block[i])
      continue;
    to->block[i] = (struct duplicate_block *) ((char *) to + bytes);
    memcpy(to->block[i], d->block[i], d->block[i]->bytes);
    bytes += d->block[i]->bytes;
  }
}

bool tamis__duplicates_validate(const struct duplicates *d)
{
  size_t positions = positions_of(d), live = 0;
  for (unsigned block = 0; block < tamis__duplicates_blocks(d); block++) {
    const struct duplicate_block *b = d->block[block];
    if (!b)
      continue;
    const void *slots = slots_of(b, positions);
    size_t codes = 0;
    for (size_t i = 0; i < positions; i++)
      codes += code_get(b, i) != 0;
    for (size_t j = 0; j < b->exceptions; j++) {
      size_t i = slot_position(b, slots, j);
      if (i >= positions || (j > 0 && i <= slot_position(b, slots, j - 1)) || code_get(b, i) ||
          !slot_count(b, slots, j) || code_for(b, slot_count(b, slots, j)))
        return false;
    }
    if (!b->live || b->live != codes + b->exceptions || b->exceptions > slots_in(b, positions))
      return false;
    live += b->live;
  }
  return live == d->live;
}
