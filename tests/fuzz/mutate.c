/* SPDX-License-Identifier: MIT */
#include "fuzz/mutate.h"

#include "cuckoo/save.h"
#include "fuzz/hostile.h"
#include "fuzz/parts.h"
#include "harness.h"

/* ---- choices ---- */

struct chance {
  uint64_t state;
};

static uint64_t any(struct chance *c)
{
  return random_next(&c->state);
}

static size_t below(struct chance *c, size_t n)
{
  return n ? (size_t) (any(c) % n) : 0;
}

static bool once_in(struct chance *c, size_t n)
{
  return below(c, n) == 0;
}

/* ---- numbers ---- */

static uint64_t any_double(struct chance *c)
{
  static const double extremes[] = {0.0,
                                    -0.0,
                                    1.0,
                                    -1.0,
                                    0.5,
                                    0.01,
                                    1e-7,
                                    1e-300,
                                    5e-324,
                                    1e18,
                                    0x1p64,
                                    1e300,
                                    __builtin_inf(),
                                    -1e300,
                                    2.0,
                                    64.0,
                                    1048576.0,
                                    0x1p41,
                                    __builtin_nan("")};
  return saved_of_double(extremes[below(c, sizeof extremes / sizeof *extremes)]);
}

static uint64_t changed(struct chance *c, uint64_t x)
{
  static const uint64_t extremes[] = {0,
                                      1,
                                      2,
                                      (UINT64_C(1) << 20) + 1,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      UINT64_C(1) << 53,
                                      INT64_MAX,
                                      UINT64_MAX - 63,
                                      UINT64_MAX};
  switch (below(c, 8)) {
  case 0:
    return extremes[below(c, sizeof extremes / sizeof *extremes)];
  case 1:
    return x + 1 + below(c, 4);
  case 2:
    return x - 1 - below(c, 4);
  case 3:
    return x ^ UINT64_C(1) << below(c, 64);
  case 4:
    return once_in(c, 2) ? x * 2 : x / 2;
  case 5:
    return below(c, 66);
  case 6:
    return any_double(c);
  default:
    return any(c) >> below(c, 64);
  }
}

static void change64(struct chance *c, unsigned char *at)
{
  saved_put64(at, changed(c, saved_get64(at)));
}

static void change32(struct chance *c, unsigned char *at)
{
  saved_put32(at, (uint32_t) changed(c, saved_get32(at)));
}

/* ---- parts ---- */

static void change_header(struct chance *c, struct parts *p)
{
  switch (below(c, 4)) {
  case 0: /* version to layout */
    change32(c, p->header + 8 + below(c, 22) * 4);
    break;
  case 1:
    change64(c, p->header + 8 + below(c, 11) * 8);
    break;
  case 2: /* the first numbers, which kinds use */
    change64(c, p->header + SAVED_GEOMETRY_AT + below(c, 12) * 8);
    break;
  default:
    change64(c, p->header + below(c, SAVED_HEADER / 8) * 8);
  }
}

/* An element of the data: a word, or a part of one that is as wide as a lane may be. */
static void change_word(struct chance *c, struct part *part)
{
  size_t words = part->size / 8;
  if (!words)
    return;
  unsigned char *at = part->data + below(c, words) * 8;
  uint64_t value = saved_get64(at);
  unsigned width = 4 + (unsigned) below(c, 28), shift = (unsigned) below(c, 64);
  uint64_t lane = (UINT64_C(1) << width) - 1;
  switch (below(c, 6)) {
  case 0:
    value &= ~(lane << shift);
    break;
  case 1:
    value |= lane << shift;
    break;
  case 2:
    value ^= UINT64_C(1) << shift;
    break;
  case 3:
    value = 0;
    break;
  case 4:
    value = saved_get64(part->data + below(c, words) * 8);
    break;
  default:
    value = changed(c, value);
  }
  saved_put64(at, value);
}

static void change_data(struct chance *c, struct parts *p, struct part *part,
                        mutate_bytes_function bytes)
{
  size_t most = part->size + 64;
  unsigned char *room;
  if (!bytes || !(room = parts_room(p, most))) {
    if (part->size)
      part->data[below(c, part->size)] = (unsigned char) any(c);
    return;
  }
  memcpy(room, part->data, part->size);
  size_t size = bytes(room, part->size, most);
  bool tail = size < part->size && once_in(c, 2); /* often, the size stays */
  if (part->kind == PART_ARRAY || tail)
    size = part->size;
  part->said += size - part->size;
  part->data = room;
  part->size = size;
}

/* Gives a part other room, with what it has and then `fill`.  False: there is no room. */
static bool resize_to(struct parts *p, struct part *part, size_t size, int fill)
{
  unsigned char *room = parts_room(p, size);
  if (!room)
    return false;
  memset(room, fill, size);
  memcpy(room, part->data, size < part->size ? size : part->size);
  part->said += size - part->size;
  part->data = room;
  part->size = size;
  return true;
}

static void resize(struct chance *c, struct parts *p, struct part *part)
{
  size_t unit = part->kind == PART_ARRAY ? SAVED_UNIT : once_in(c, 2) ? 8 : 1;
  size_t by = (1 + below(c, once_in(c, 4) ? 512 : 4)) * unit, size;
  if (once_in(c, 2))
    size = part->size > by ? part->size - by : unit;
  else
    size = part->size + by;
  if (size <= SAVED_CHUNK)
    (void) resize_to(p, part, size, once_in(c, 2) ? 0 : (int) below(c, 256));
}

static void put(struct parts *p, size_t at, struct part part)
{
  memmove(&p->part[at + 1], &p->part[at], (p->n++ - at) * sizeof part);
  p->part[at] = part;
}

static void insert(struct chance *c, struct parts *p, struct part part)
{
  if (p->n == PARTS)
    return;
  size_t at = below(c, p->n + 1);
  if (resize_to(p, &part, part.size, 0)) /* later changes are to one of them */
    put(p, at, part);
}

static void insert_block(struct chance *c, struct parts *p)
{
  static unsigned char zeros[SAVED_HEADER];
  struct part part = {.kind = PART_BLOCK,
                      .type = (uint32_t) (below(c, 8) + (once_in(c, 2) ? SAVED_KIND_BLOCKS : 0)) |
                              (once_in(c, 4) ? SAVED_OPTIONAL : 0),
                      .data = zeros,
                      .size = below(c, 17) * 8};
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    part.meanings[i] = below(c, 4);
  part.said = part.size;
  insert(c, p, part);
}

/* Keys of the corpus are to be removed from what the file holds. */
static void insert_removed(struct chance *c, struct parts *p)
{
  unsigned char hashes[64];
  struct hash_keys keys = hash_keys_from_seed(saved_get64(p->header + 48));
  struct part part = {.kind = PART_BLOCK,
                      .type = SAVED_REMOVED,
                      .data = hashes,
                      .size = (1 + below(c, sizeof hashes / 8)) * 8};
  for (size_t i = 0; i < part.size; i += 8)
    saved_put64(hashes + i, hash_mix(&keys, hostile_hash(below(c, 64))));
  part.said = part.size;
  insert(c, p, part);
}

static void drop(struct parts *p, size_t at)
{
  p->n--;
  memmove(&p->part[at], &p->part[at + 1], (p->n - at) * sizeof *p->part);
}

static void change_block(struct chance *c, struct part *part)
{
  uint64_t *meaning = &part->meanings[below(c, SAVED_MEANINGS)];
  switch (below(c, 8)) {
  case 0:
    part->type = (uint32_t) changed(c, part->type);
    break;
  case 1:
    part->said = changed(c, part->said);
    break;
  case 2: /* two numbers in one */
    *meaning = (*meaning & UINT32_MAX) | changed(c, *meaning >> 32) << 32;
    break;
  case 3:
    *meaning = (*meaning & ~UINT64_C(0xFFFFFFFF)) | (uint32_t) changed(c, *meaning);
    break;
  default:
    *meaning = changed(c, *meaning);
  }
  if (once_in(c, 64))
    part->zero = (uint32_t) any(c);
}

static void change_order(struct chance *c, struct parts *p, size_t at)
{
  size_t other = once_in(c, 2) ? below(c, p->n) : (at + 1) % p->n;
  struct part moved = p->part[at];
  p->part[at] = p->part[other];
  p->part[other] = moved;
}

static void change_part(struct chance *c, struct parts *p, mutate_bytes_function bytes)
{
  size_t at = below(c, p->n);
  struct part *part = &p->part[at];
  switch (below(c, 13)) {
  case 0:
    drop(p, at);
    break;
  case 1:
    insert(c, p, *part);
    break;
  case 2:
    change_order(c, p, at);
    break;
  case 3:
    resize(c, p, part);
    break;
  case 4:
  case 5:
    change_data(c, p, part, bytes);
    break;
  case 6:
  case 7:
  case 8:
    change_block(c, part);
    break;
  case 9:
    if (once_in(c, 2))
      insert_removed(c, p);
    else
      insert_block(c, p);
    break;
  default:
    for (size_t i = 1 + below(c, once_in(c, 8) ? 64 : 2); i > 0; i--)
      change_word(c, part);
  }
}

static void change_trailer(struct chance *c, struct parts *p)
{
  if (once_in(c, 16))
    p->has_trailer = !p->has_trailer;
  change64(c, p->trailer + 24 + below(c, SAVED_TOTALS) * 8);
}

/* ---- whole files ---- */

static unsigned any_repair(struct chance *c, bool totals_changed)
{
  unsigned repair = REPAIR_ALL;
  if (totals_changed || once_in(c, 8))
    repair &= ~(unsigned) REPAIR_COUNTS;
  if (once_in(c, 32))
    repair &= (unsigned) any(c);
  return repair;
}

/* What no part is: padding, cut files. */
static size_t change_whole(struct chance *c, unsigned char *data, size_t size, size_t most)
{
  if (once_in(c, 32) && size)
    data[below(c, size)] ^= (unsigned char) (1u << below(c, 8));
  if (once_in(c, 32))
    size = below(c, size + 1);
  if (once_in(c, 64) && size < most) {
    size_t more = 1 + below(c, most - size < 64 ? most - size : 64);
    memset(data + size, (int) below(c, 256), more);
    size += more;
  }
  return size;
}

size_t mutate_saved(unsigned char *data, size_t size, size_t most, uint64_t seed,
                    mutate_bytes_function bytes)
{
  static struct parts parts; /* too large for a stack */
  static unsigned char whole[PARTS_ROOM];
  struct chance c = {seed};
  bool totals_changed = false;
  if (!parts_split(&parts, data, size))
    return bytes ? bytes(data, size, most) : change_whole(&c, data, size, most);
  for (size_t i = 1 + below(&c, once_in(&c, 4) ? 6 : 2); i > 0; i--) {
    size_t choice = below(&c, 16);
    if (choice < 3 || !parts.n) {
      change_header(&c, &parts);
    } else if (choice == 3) {
      change_trailer(&c, &parts);
      totals_changed = true;
    } else {
      change_part(&c, &parts, bytes);
    }
  }
  size_t joined = parts_join(&parts, any_repair(&c, totals_changed), whole, sizeof whole);
  if (joined && joined <= most) {
    memcpy(data, whole, joined);
    size = joined;
  }
  return change_whole(&c, data, size, most);
}

size_t mutate_cross(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size,
                    unsigned char *to, size_t most, uint64_t seed)
{
  static struct parts first, second;
  static unsigned char whole[PARTS_ROOM];
  struct chance c = {seed};
  if (!parts_split(&first, a, a_size) || !parts_split(&second, b, b_size) || !second.n)
    return 0;
  size_t from = below(&c, second.n);
  for (size_t i = 1 + below(&c, 4); i > 0 && from < second.n; i--)
    insert(&c, &first, second.part[from++]);
  if (first.n && once_in(&c, 2))
    drop(&first, below(&c, first.n));
  if (once_in(&c, 4))
    memcpy(first.header + SAVED_GEOMETRY_AT, second.header + SAVED_GEOMETRY_AT,
           (size_t) SAVED_GEOMETRY * 8);
  size_t joined = parts_join(&first, any_repair(&c, false), whole, sizeof whole);
  if (!joined || joined > most)
    return 0;
  memcpy(to, whole, joined);
  return joined;
}

/* ---- each change by itself ---- */

static struct {
  const unsigned char *data;
  size_t size;
  mutate_try_function try;
  void *context;
  struct parts parts;
} each;

static void restore(void)
{
  (void) parts_split(&each.parts, each.data, each.size);
}

/* Tries what the parts have become, and makes them again what they were. */
static void try_parts(unsigned repair)
{
  static unsigned char joined[PARTS_ROOM];
  size_t size = parts_join(&each.parts, repair, joined, sizeof joined);
  if (size)
    each.try(each.context, joined, size);
  restore();
}

/* Replaces a word: by numbers that are extremes of something, by neighbours, without some bits, and of
 * lanes with one of them doubled. */
static void try_word(unsigned char *at, bool counted)
{
  static const unsigned char bits[] = {0, 1, 2, 6, 12, 31, 32, 40, 53, 63},
                             widths[] = {8, 9, 10, 12, 16, 21, 32};
  static const uint64_t numbers[] = {0,
                                     2,
                                     3,
                                     10,
                                     12,
                                     64,
                                     SAVED_CHUNK + 64,
                                     1U << 31,
                                     1ULL << 41,
                                     0x3FEULL << 52,
                                     0xBFEULL << 52,
                                     0x3FFULL << 52,
                                     0xFFFULL << 51,
                                     UINT64_MAX};
  enum { BITS = sizeof bits, WIDTHS = BITS + sizeof widths, NUMBERS = WIDTHS + sizeof numbers / 8 };
  const uint64_t was = saved_get64(at);
  for (unsigned i = 0; i < NUMBERS + 2; i++) {
    const uint64_t number = i < BITS      ? was ^ UINT64_C(1) << bits[i]
                            : i < WIDTHS  ? was | was << widths[i - BITS]
                            : i < NUMBERS ? numbers[i - WIDTHS]
                                          : was + (i == NUMBERS ? 1 : UINT64_MAX);
    for (unsigned repair = 0; repair <= counted && number != was; repair++) {
      saved_put64(at, number);
      try_parts(repair ? REPAIR_ALL & ~(unsigned) REPAIR_COUNTS : REPAIR_ALL);
    }
  }
}

/* Of many words only some, and the last one, which may be padding. */
static void try_words(struct part *part)
{
  enum { MOST_WORDS = 10 };
  const size_t words = part->size / 8, step = words / MOST_WORDS + 1;
  for (size_t i = 0; i < words; i += i + step < words || i + 1 == words ? step : words - 1 - i)
    try_word(part->data + i * 8, part->type == SAVED_PLACES);
  if (part->kind != PART_BLOCK)
    return;
  try_word((unsigned char *) &part->said, false);
  for (unsigned i = 0; i < SAVED_MEANINGS; i++)
    try_word((unsigned char *) &part->meanings[i], true);
}

/* A part is missing, is there twice, at another place, or has another type or size; or something
 * unknown stands before it. */
static void try_order(size_t at)
{
  struct parts *p = &each.parts;
  static const uint32_t types[] = {1, 16, 17, 18, 19, 20, 21, 32, 33, 77, 77 | SAVED_OPTIONAL};
  static const ptrdiff_t sizes[] = {-64, -8, -4, -1, 8, 64};
  const struct part moved = p->part[at];
  const size_t n = p->n, places[] = {at, at + 1, n - 1};
  drop(p, at);
  try_parts(REPAIR_ALL);
  put(p, at, moved); /* it is there twice */
  try_parts(REPAIR_ALL);
  for (unsigned i = 1; i < 3 && places[i] < n; i++) {
    drop(p, at);
    put(p, places[i], moved);
    try_parts(REPAIR_ALL);
  }
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    put(p, at, (struct part){.kind = PART_BLOCK, .type = types[i], .data = p->room});
    try_parts(REPAIR_ALL);
    p->part[at].type = types[i];
    try_parts(REPAIR_ALL);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct part *part = &p->part[at];
    const bool gone = sizes[i] < 0 && part->size <= (size_t) -sizes[i];
    (void) resize_to(p, part, gone ? 0 : part->size + (size_t) sizes[i], 0);
    try_parts(REPAIR_ALL);
  }
}

void mutate_each(const unsigned char *data, size_t size, mutate_try_function try, void *context)
{
  struct parts *p = &each.parts;
  each.data = data, each.size = size, each.try = try, each.context = context;
  if (!parts_split(p, data, size) || !p->has_trailer)
    return;
  for (size_t at = 8; at < SAVED_HEADER - 8;
       at += at == SAVED_FIGURES_AT - 8 ? SAVED_RESERVED_AT - at : 8)
    try_word(p->header + at, false);
  for (size_t i = 0; i < p->n; i++) {
    try_words(&p->part[i]);
    if (p->n + 1 < PARTS)
      try_order(i);
  }
  for (size_t i = 0; i < SAVED_TOTALS; i++)
    try_word(p->trailer + 24 + i * 8, true);
}
