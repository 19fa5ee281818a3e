/* SPDX-License-Identifier: MIT */
#include "table/counts.h"

#include "base/compiler.h"
#include "table/count_codes.h"

#include <string.h>

enum {
  MAX_BITS = SMALL(21, 2),    /* bits of the widest code; a count with more bits is an exception */
  FEWEST_SLOTS = SMALL(8, 1), /* at least this many exceptions can be added to a new block */
  SPARSE_PART = SMALL(32, 4), /* if at most 1 lane in 32 has a count, all counts are exceptions */
  /* The largest block that encode_anywhere() copies to the stack, to encode it in place.  (A block
   * is no larger if all counts are below 2^7.) */
  MOST_COPIED = SMALL(2048, 64)
};

/* The format of a block.  The members mean the same as those of struct count_block. */
struct frame {
  unsigned bits;
  bool wide;
  size_t live, exceptions;
};

static const struct count_block no_counts = {.bytes = sizeof no_counts};

NEVER_INLINE size_t tamis__counts_read(struct count_reader *r, uint64_t counts[COUNTS_AT_ONCE])
{
  size_t left = r->positions - r->at, n = left < COUNTS_AT_ONCE ? left : COUNTS_AT_ONCE;
  codes_get(r->b, r->at, counts, n);
  for (; r->exception < r->b->exceptions; r->exception++) {
    size_t i = slot_position(r->b, r->slots, r->exception) - r->at;
    if (i >= n)
      break;
    counts[i] = slot_count(r->b, r->slots, r->exception);
  }
  r->at += n;
  return n;
}

/* Reads the counts of a source.  `next` points to the next counts, in the source's array or in
 * `copy`, which then has counts that were decoded from the source's block. */
struct source_reader {
  const struct counts_source *from;
  const uint64_t *next;
  struct count_reader block;
  uint64_t copy[COUNTS_AT_ONCE];
};

static void read_source(struct source_reader *r, const struct counts_source *from, size_t positions)
{
  r->from = from;
  r->block = count_reader_begin(from->block ? from->block : &no_counts, positions);
}

static size_t next_counts(struct source_reader *r)
{
  const struct counts_source *from = r->from;
  size_t first = r->block.at, n = tamis__counts_read(&r->block, r->copy);
  r->next = from->array ? from->array + first : r->copy;
  if (from->count && from->at - first < n)
    r->copy[from->at - first] = *from->count;
  return n;
}

/* The number of exceptions for which a block gets room.  `spare`: also for those that will probably
 * be added before the block needs another frame. */
static size_t slots_for(size_t positions, const struct frame *frame, bool spare)
{
  if (!spare)
    return frame->exceptions;
  size_t more = frame->exceptions / 8;
  size_t least = positions / 128 > FEWEST_SLOTS ? positions / 128 : FEWEST_SLOTS;
  if (!frame->bits && frame->exceptions / 2 > more)
    more = frame->exceptions / 2;
  return frame->exceptions + (more > least ? more : least);
}

static size_t frame_bytes(size_t positions, const struct frame *frame, bool spare)
{
  return bytes_for(positions, frame->bits, frame->wide, slots_for(positions, frame, spare));
}

/* The frame with which a block is smallest.  A code of n bits holds any count of up to n bits. */
static NEVER_INLINE struct frame choose_frame(size_t positions, const struct counts_source *from,
                                              bool spare)
{
  struct source_reader source;
  struct frame best = {0};
  uint16_t of_length[64] = {0}; /* of_length[n]: how many counts have n bits */
  read_source(&source, from, positions);
  for (size_t n; (n = next_counts(&source)) > 0;)
    for (size_t i = 0; i < n; i++)
      of_length[63 ^ __builtin_clzll(source.next[i] << 1 | 1)]++;
  best.live = best.exceptions = positions - of_length[0];
  for (unsigned length = COUNT_BITS + 1; length < 64; length++)
    best.wide |= of_length[length] != 0;
  if (spare && best.live <= positions / SPARSE_PART)
    return best;
  struct frame frame = best;
  for (frame.bits = 1; frame.bits <= MAX_BITS && frame.exceptions; frame.bits++) {
    frame.exceptions -= of_length[frame.bits];
    if (frame_bytes(positions, &frame, spare) < frame_bytes(positions, &best, spare))
      best = frame;
  }
  return best;
}

/* Encodes a block from counts that are not stored in it.  (Not inlined, like choose_frame(), so
 * that the stack never has the arrays of both.) */
static NEVER_INLINE void encode(struct count_block *b, size_t positions, const struct frame *frame,
                                const struct counts_source *from)
{
  struct source_reader source;
  read_source(&source, from, positions);
  block_figure bytes = b->bytes;
  memset(b, 0, bytes);
  b->bytes = bytes;
  b->bits = (uint8_t) frame->bits;
  b->wide = frame->wide;
  b->live = (block_figure) frame->live;
  void *slots = slots_of(b, positions);
  for (size_t n, first = 0; (n = next_counts(&source)) > 0; first += n)
    for (size_t i = 0; i < n; i++) {
      const uint64_t count = source.next[i];
      if (code_for(b, count))
        code_set(b, first + i, count);
      else if (count)
        slot_set(b, slots, b->exceptions++, first + i, count);
    }
}

static NEVER_INLINE void encode_anywhere(struct count_block *b, size_t positions,
                                         const struct frame *frame,
                                         const struct counts_source *from)
{
  uint64_t copy[MOST_COPIED / sizeof(uint64_t)];
  struct counts_source copied = *from;
  if (from->block == b)
    copied.block = memcpy(copy, b, b->bytes);
  encode(b, positions, frame, &copied);
}

static void release_block(struct table_counts *d, struct budget *budget, unsigned block)
{
  struct count_block *b = d->block[block];
  if (b)
    tamis__budget_release(budget, b, b->bytes);
  d->block[block] = NULL;
}

/* Encodes the counts: in the old block if they fit and a new one would not be much smaller. */
static bool write_block(struct table_counts *d, struct budget *budget, unsigned block,
                        const struct counts_source *from, bool spare)
{
  size_t positions = counts_positions(d);
  struct frame frame = choose_frame(positions, from, spare);
  struct count_block *old = d->block[block], *new = old;
  uint64_t live = d->live - (old ? old->live : 0) + frame.live;
  if (!frame.live) {
    release_block(d, budget, block);
    d->live = live;
    return true;
  }
  size_t least = bytes_for(positions, frame.bits, frame.wide, frame.exceptions);
  size_t bytes = frame_bytes(positions, &frame, spare);
  bool fits = old && least <= old->bytes && (from->block != old || old->bytes <= MOST_COPIED);
  if (!fits || bytes > old->bytes || bytes < (size_t) old->bytes * 15 / 16) {
    struct count_block *other = tamis__budget_allocate(budget, bytes, bytes);
    if (!other && !fits) {
      if (old && spare && frame.wide == old->wide)
        old->refused = (block_figure) bytes;
      return false;
    }
    if (other) {
      new = other;
      new->bytes = (block_figure) bytes;
    }
  }
  encode_anywhere(new, positions, &frame, from);
  if (new != old)
    release_block(d, budget, block);
  d->block[block] = new;
  d->live = live;
  return true;
}

/* Moves a block's codes and exceptions to a larger block.  Returns false if memory was refused. */
static bool extend(struct table_counts *d, struct budget *budget, unsigned block)
{
  const struct count_block *old = d->block[block] ? d->block[block] : &no_counts;
  struct frame frame = {.bits = old->bits, .wide = old->wide, .exceptions = old->exceptions};
  size_t slots = frame.bits ? slots_for(counts_positions(d), &frame, true)
                            : frame.exceptions * 2 + FEWEST_SLOTS;
  size_t bytes = bytes_for(counts_positions(d), frame.bits, frame.wide, slots);
  struct count_block *new = tamis__budget_allocate(budget, bytes, bytes);
  if (!new)
    return false;
  memcpy(new, old, old->bytes);
  new->bytes = (block_figure) bytes;
  new->refused = 0;
  release_block(d, budget, block);
  d->block[block] = new;
  return true;
}

static size_t most_changes(size_t positions)
{
  return 2 * positions;
}

/* Whether the count needs no exception, and so no slot, because it is 0 or has a code. */
static bool has_no_slot(const struct count_block *b, uint64_t count)
{
  return !count || code_for(b, count);
}

/* Whether lane i can get the count without a new encoding of the block. */
static bool has_room(const struct count_block *b, size_t positions, size_t i, uint64_t count)
{
  if (has_no_slot(b, count))
    return true;
  if (count >> count_bits(b->wide))
    return false;
  const void *slots = slots_of(b, positions);
  return b->exceptions < slots_in(b, positions) || slot_is_at(b, slots, slot_seek(b, slots, i), i);
}

static void put_exception(struct count_block *b, size_t positions, size_t i, uint64_t count)
{
  void *slots = slots_of(b, positions);
  size_t j = slot_seek(b, slots, i);
  if (!slot_is_at(b, slots, j, i)) {
    slots_move(b, slots, j + 1, j);
    b->exceptions++;
  }
  slot_set(b, slots, j, i, count);
}

static void drop_exception(struct count_block *b, size_t positions, size_t i)
{
  void *slots = slots_of(b, positions);
  size_t j = slot_seek(b, slots, i);
  slots_move(b, slots, j, j + 1);
  b->exceptions--;
}

/* Replaces the count of lane i, which is `from`, by `to`.  The block must have room for `to`. */
static void put(struct count_block *b, size_t positions, size_t i, uint64_t from, uint64_t to)
{
  code_set(b, i, code_for(b, to));
  if (!has_no_slot(b, to))
    put_exception(b, positions, i, to);
  else if (!has_no_slot(b, from))
    drop_exception(b, positions, i);
}

static bool encode_anew(struct table_counts *d, struct budget *budget, unsigned block, size_t i,
                        uint64_t count, bool spare)
{
  const struct counts_source from = {.block = d->block[block], .count = &count, .at = i};
  return write_block(d, budget, block, &from, spare);
}

/* Changes the count of a lane from `from` to `to`, which is another one. */
static bool change(struct table_counts *d, struct budget *budget, uint64_t bucket, unsigned lane,
                   uint64_t from, uint64_t to)
{
  size_t positions = counts_positions(d), i = bucket % COUNTS_BUCKETS * (size_t) d->lanes + lane;
  unsigned block = (unsigned) (bucket / COUNTS_BUCKETS);
  struct count_block *b = d->block[block];
  if (!b || !has_room(b, positions, i, to)) {
    if (b && b->refused && to > from && !tamis__budget_fits(budget, b->refused))
      return false;
    if (to >> count_bits(b && b->wide) || (b && b->exceptions >= positions / SPARSE_PART))
      return encode_anew(d, budget, block, i, to, true);
    if (!extend(d, budget, block)) /* room for a few more exceptions costs less than wider codes */
      return false;
    b = d->block[block];
  }
  put(b, positions, i, from, to);
  if (to < from)
    b->refused = 0; /* forgets the refused size: the next block may be smaller */
  b->live = (block_figure) (b->live - (from != 0) + (to != 0));
  d->live = d->live - (from != 0) + (to != 0);
  if (!b->live)
    release_block(d, budget, block);
  else if (++b->changes > most_changes(positions)) {
    b->changes = 0;
    encode_anew(d, budget, block, i, to, false); /* if memory is refused, *b stays as it is */
  }
  return true;
}

bool tamis__plane_step(plane *p, uint64_t bucket, unsigned lane, uint64_t more)
{
  struct table_counts *d = plane_counts(p);
  struct count_block *b = d ? d->block[bucket / COUNTS_BUCKETS] : NULL;
  if (!b)
    return false;
  size_t positions = counts_positions(d), i = bucket % COUNTS_BUCKETS * (size_t) d->lanes + lane;
  if (b->changes >= most_changes(positions))
    return false;
  if (more >> 63) /* `more` is negative, so the next block may be smaller */
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
  uint64_t code = code_for(b, old + more);
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

uint64_t tamis__counts_get(const struct table_counts *d, uint64_t bucket, unsigned lane)
{
  const struct count_block *b = d->block[bucket / COUNTS_BUCKETS];
  const size_t i = bucket % COUNTS_BUCKETS * (size_t) d->lanes + lane;
  const uint64_t code = b ? code_get(b, i) : 0;
  if (code || !b || !b->exceptions)
    return code;
  const void *slots = slots_of(b, counts_positions(d));
  size_t j = slot_seek(b, slots, i);
  return slot_is_at(b, slots, j, i) ? slot_count(b, slots, j) : 0;
}

/* The size in bytes of a struct table_counts without its blocks. */
static uint64_t bytes_without_blocks(uint64_t buckets)
{
  return sizeof(struct table_counts) + counts_blocks(buckets) * sizeof(struct count_block *);
}

uint64_t tamis__counts_copy_bytes(const struct table_counts *d)
{
  uint64_t bytes = bytes_without_blocks(d->buckets);
  for (unsigned i = 0; i < counts_blocks(d->buckets); i++)
    bytes += d->block[i] ? d->block[i]->bytes : 0;
  return bytes;
}

void tamis__counts_copy(const struct table_counts *d, struct table_counts *to)
{
  uint64_t bytes = bytes_without_blocks(d->buckets);
  memcpy(to, d, (size_t) bytes);
  for (unsigned i = 0; i < counts_blocks(d->buckets); i++) {
    if (!d->block[i])
      continue;
    to->block[i] = (struct count_block *) ((char *) to + bytes);
    memcpy(to->block[i], d->block[i], d->block[i]->bytes);
    bytes += d->block[i]->bytes;
  }
}

/* ---- planes ---- */

void tamis__plane_clear(plane *p, struct budget *budget)
{
  struct table_counts *counts = plane_counts(p);
  if (!counts)
    return;
  for (unsigned i = 0; i < counts_blocks(counts->buckets); i++)
    release_block(counts, budget, i);
  tamis__budget_release(budget, counts, bytes_without_blocks(counts->buckets));
  atomic_store_explicit(p, NULL, memory_order_relaxed); /* see plane_counts() */
}

/* Returns the plane's counts, which it creates if there are none, or NULL if memory is refused. */
static struct table_counts *provide(plane *p, struct plane_size size, struct budget *budget)
{
  struct table_counts *counts = plane_counts(p);
  if (counts)
    return counts;
  const uint64_t bytes = bytes_without_blocks(size.buckets);
  counts = tamis__budget_allocate(budget, bytes, bytes);
  if (!counts)
    return NULL;
  counts->buckets = size.buckets;
  counts->lanes = size.lanes;
  atomic_store_explicit(p, counts, memory_order_relaxed); /* see plane_counts() */
  return counts;
}

static void release_if_empty(plane *p, struct budget *budget)
{
  const struct table_counts *counts = plane_counts(p);
  if (counts && !counts->live)
    tamis__plane_clear(p, budget);
}

bool tamis__plane_set(plane *p, struct plane_size size, struct budget *budget, uint64_t bucket,
                      unsigned lane, uint64_t count)
{
  uint64_t old = plane_get(p, bucket, lane);
  if (count == old)
    return true;
  struct table_counts *counts = provide(p, size, budget);
  bool set = counts && change(counts, budget, bucket, lane, old, count);
  release_if_empty(p, budget);
  return set;
}

bool tamis__plane_write(plane *p, struct plane_size size, struct budget *budget, unsigned block,
                        const struct counts_source *from, bool spare)
{
  struct table_counts *counts = provide(p, size, budget);
  bool written = counts && write_block(counts, budget, block, from, spare);
  release_if_empty(p, budget);
  return written;
}
