/* SPDX-License-Identifier: MIT */
#include "fuzz/parts.h"

unsigned char *parts_room(struct parts *p, size_t size)
{
  size_t at = round_up(p->used, SAVED_UNIT);
  if (at > PARTS_ROOM || size > PARTS_ROOM - at)
    return NULL;
  p->used = at + size;
  return p->room + at;
}

/* ---- cutting ---- */

static struct part *append(struct parts *p, enum part_kind kind, const unsigned char *data,
                           size_t size)
{
  unsigned char *copy = p->n < PARTS ? parts_room(p, size) : NULL;
  if (!copy)
    return NULL;
  memcpy(copy, data, size);
  p->part[p->n] = (struct part){.kind = kind, .data = copy, .size = size, .said = size};
  return &p->part[p->n++];
}

/* Whether the unit begins a block of that number, which may not be longer than what is left. */
static bool is_block(const unsigned char *unit, uint64_t number, size_t left)
{
  uint64_t size = saved_get64(unit + 8);
  uint32_t type = saved_get32(unit) & ~SAVED_OPTIONAL;
  return type && type < 256 && !saved_get32(unit + 4) && saved_get64(unit + 16) == number &&
         size <= SAVED_CHUNK && round_up((size_t) size, SAVED_UNIT) <= left - SAVED_UNIT;
}

static size_t split_block(struct parts *p, const unsigned char *unit)
{
  struct part *part = append(p, PART_BLOCK, unit + SAVED_UNIT, (size_t) saved_get64(unit + 8));
  if (!part)
    return 0;
  part->type = saved_get32(unit);
  part->zero = saved_get32(unit + 4);
  part->number = saved_get64(unit + 16);
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    part->meanings[i] = saved_get64(unit + 24 + (size_t) i * 8);
  part->sum = saved_get64(unit + 56);
  return SAVED_UNIT + round_up(part->size, SAVED_UNIT);
}

/* Finds the sums of an array that would begin at the next multiple of its alignment. */
static size_t split_array(struct parts *p, const unsigned char *data, size_t at, size_t size)
{
  size_t begin = round_up(at, SAVED_ARRAY_ALIGNMENT), end = begin + SAVED_UNIT;
  for (; end + SAVED_UNIT <= size; end += SAVED_UNIT)
    if (saved_get32(data + end) == SAVED_SUMS && saved_get64(data + end + 24) == begin &&
        saved_get64(data + end + 32) == end - begin)
      return append(p, PART_ARRAY, data + begin, end - begin) ? end - at : 0;
  return 0;
}

bool parts_split(struct parts *p, const unsigned char *data, size_t size)
{
  uint64_t blocks = 0;
  p->n = 0;
  p->used = 0;
  p->has_trailer = false;
  if (size < SAVED_HEADER || size > PARTS_ROOM / 4)
    return false;
  memcpy(p->header, data, SAVED_HEADER);
  size_t at = SAVED_HEADER;
  while (size - at >= SAVED_UNIT && memcmp(data + at, SAVED_TRAILER_MAGIC, 8) != 0) {
    size_t step = 0;
    if (is_block(data + at, blocks, size - at)) {
      /* The sums of an array belong to it. */
      bool sums =
          saved_get32(data + at) == SAVED_SUMS && p->n && p->part[p->n - 1].kind == PART_ARRAY;
      step = sums ? SAVED_UNIT + round_up((size_t) saved_get64(data + at + 8), SAVED_UNIT)
                  : split_block(p, data + at);
      blocks++;
    } else {
      step = split_array(p, data, at, size);
    }
    if (!step)
      break;
    at += step;
  }
  if (size - at >= SAVED_UNIT && memcmp(data + at, SAVED_TRAILER_MAGIC, 8) == 0) {
    memcpy(p->trailer, data + at, SAVED_UNIT);
    p->has_trailer = true;
    return true;
  }
  return at == size || append(p, PART_REST, data + at, size - at);
}

/* ---- putting together ---- */

struct join {
  unsigned char *to;
  size_t size, room;
  uint64_t blocks, digest;
  unsigned repair;
};

static unsigned char *add(struct join *j, size_t size)
{
  if (j->size > j->room || size > j->room - j->size) {
    j->size = SIZE_MAX;
    return NULL;
  }
  unsigned char *at = j->to + j->size;
  memset(at, 0, size);
  j->size += size;
  return at;
}

static void add_sum(struct join *j, uint64_t sum)
{
  j->digest = saved_next_digest(j->digest, sum);
}

static void join_block(struct join *j, const struct part *part)
{
  unsigned char *unit = add(j, SAVED_UNIT + round_up(part->size, SAVED_UNIT));
  if (!unit)
    return;
  bool repair = j->repair & REPAIR_BLOCKS;
  saved_put32(unit, part->type);
  saved_put32(unit + 4, part->zero);
  saved_put64(unit + 8, part->said);
  saved_put64(unit + 16, repair ? j->blocks : part->number);
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    saved_put64(unit + 24 + (size_t) i * 8, part->meanings[i]);
  memcpy(unit + SAVED_UNIT, part->data, part->size);
  uint64_t sum = repair ? saved_block_sum(unit, unit + SAVED_UNIT, part->size) : part->sum;
  saved_put64(unit + 56, sum);
  j->blocks++;
  add_sum(j, sum);
}

static void join_array(struct join *j, const struct part *part)
{
  size_t begin = round_up(j->size, SAVED_ARRAY_ALIGNMENT),
         sums = (size_t) saved_chunks(part->size) * 8;
  unsigned char payload[PARTS_ROOM / SAVED_CHUNK * 8 + 8] = {0};
  add(j, begin - j->size);
  unsigned char *array = add(j, part->size);
  if (!array)
    return;
  memcpy(array, part->data, part->size);
  for (size_t i = 0; i < sums / 8 && j->repair & REPAIR_ARRAYS; i++) {
    size_t from = i * SAVED_CHUNK, left = part->size - from;
    saved_put64(payload + i * 8,
                hash_sum(part->data + from, left < SAVED_CHUNK ? left : SAVED_CHUNK, i));
  }
  join_block(j, &(struct part){.type = SAVED_SUMS,
                               .meanings = {begin, part->size},
                               .number = j->blocks,
                               .data = payload,
                               .size = sums,
                               .said = sums});
}

static void join_trailer(struct join *j, const unsigned char *trailer)
{
  unsigned char *unit = add(j, SAVED_UNIT);
  if (!unit)
    return;
  memcpy(unit, trailer, SAVED_UNIT);
  if (!(j->repair & REPAIR_TRAILER))
    return;
  saved_put64(unit + 8, j->size);
  saved_put64(unit + 16, j->blocks);
  saved_put64(unit + 48, j->digest);
  saved_put64(unit + 56, hash_sum(unit, 56, 0));
}

size_t parts_join(struct parts *p, unsigned repair, unsigned char *to, size_t room)
{
  struct join j = {.to = to, .room = room, .repair = repair};
  if (repair & REPAIR_COUNTS)
    parts_recount(p);
  unsigned char *header = add(&j, SAVED_HEADER);
  if (!header)
    return 0;
  if (repair & REPAIR_HEADER)
    saved_put64(p->header + SAVED_HEADER - 8, hash_sum(p->header, SAVED_HEADER - 8, 0));
  memcpy(header, p->header, SAVED_HEADER);
  add_sum(&j, saved_get64(header + SAVED_HEADER - 8));
  for (unsigned i = 0; i < p->n; i++) {
    const struct part *part = &p->part[i];
    unsigned char *rest;
    switch (part->kind) {
    case PART_BLOCK:
      join_block(&j, part);
      break;
    case PART_ARRAY:
      join_array(&j, part);
      break;
    case PART_REST:
      rest = add(&j, part->size);
      if (rest)
        memcpy(rest, part->data, part->size);
    }
  }
  if (p->has_trailer)
    join_trailer(&j, p->trailer);
  return j.size == SIZE_MAX ? 0 : j.size;
}
