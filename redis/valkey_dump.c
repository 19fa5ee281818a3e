/* SPDX-License-Identifier: MIT */
#include "valkey_dump.h"

#include "bytes.h"
#include "memory.h"

enum { VERSION = 1, BITS_VERSION = 1, BITS_HEAD = 1 + 8 + 4 + FOREIGN_SEED_BYTES };

/* What is left of the data.  Reading past its end is noted, and gives zeros. */
struct rest {
  const unsigned char *at;
  size_t left;
  bool overrun;
};

static const unsigned char *take(struct rest *r, uint64_t size)
{
  static const unsigned char nothing[FOREIGN_SEED_BYTES];
  const unsigned char *at = r->at;
  r->overrun = r->overrun || size > r->left;
  if (r->overrun)
    return nothing;
  r->at += size;
  r->left -= (size_t) size;
  return at;
}

static uint64_t take_number(struct rest *r, unsigned size)
{
  return get_number(take(r, size), size);
}

static double take_real(struct rest *r)
{
  return real_of(take_number(r, 8));
}

/* Whether the layer has the seed of all.  The first one brings it. */
static bool take_seed(struct rest *r, struct foreign *f)
{
  const unsigned char *seed = take(r, FOREIGN_SEED_BYTES);
  if (f->layers == 1)
    memcpy(f->seed, seed, FOREIGN_SEED_BYTES);
  return memcmp(f->seed, seed, FOREIGN_SEED_BYTES) == 0;
}

static int read_layer(struct rest *r, double rate, struct foreign *f)
{
  struct foreign_layer *l = foreign_open_layer(f);
  if (!l)
    return f->layers < FOREIGN_MOST_LAYERS ? TAMIS_ENOMEM : TAMIS_ECORRUPT;
  const uint64_t size = take_number(r, 8);
  const bool known = take_number(r, 1) == BITS_VERSION;
  l->bytes = take_number(r, 8);
  l->hashes = take_number(r, 4);
  if (!take_seed(r, f) || !known || r->overrun || l->bytes > r->left ||
      size != l->bytes + BITS_HEAD)
    return TAMIS_ECORRUPT;
  l->data = memory_take(l->bytes + !l->bytes);
  if (!l->data)
    return TAMIS_ENOMEM;
  memcpy(l->data, take(r, l->bytes), l->bytes);
  l->size = take_number(r, 8);
  l->entries = take_number(r, 8);
  l->bits = l->bytes * 8;
  l->bits_per_entry = (double) l->bits / (double) l->entries;
  l->rate = rate;
  f->bytes += l->bytes;
  const bool counts = !__builtin_add_overflow(f->count, l->size, &f->count);
  return counts && l->size <= l->entries ? TAMIS_OK : TAMIS_ECORRUPT;
}

static int read_all(struct rest *r, uint64_t limit, struct foreign *f)
{
  if (take_number(r, 1) != VERSION)
    return r->overrun ? TAMIS_ECORRUPT : TAMIS_EUNSUPPORTED;
  f->options = FOREIGN_VALKEY;
  f->growth = take_number(r, 4);
  double rate = take_real(r);
  f->tightening = take_real(r);
  const uint64_t random = take_number(r, 1), layers = take_number(r, 8);
  int result = random <= 1 ? TAMIS_OK : TAMIS_ECORRUPT;
  for (uint64_t i = 0; i < layers && result == TAMIS_OK; i++, rate *= f->tightening) {
    result = read_layer(r, rate, f);
    if (result == TAMIS_OK && limit && f->bytes > limit)
      result = TAMIS_EFULL;
  }
  if (result != TAMIS_OK)
    return result;
  return !r->overrun && !r->left && foreign_is_possible(f) ? TAMIS_OK : TAMIS_ECORRUPT;
}

int valkey_dump_read(const void *data, size_t size, uint64_t limit, struct foreign **out)
{
  struct rest r = {.at = data, .left = size};
  struct foreign *f = foreign_create(TAMIS_BLOOM);
  int result = f ? read_all(&r, limit, f) : TAMIS_ENOMEM;
  if (result == TAMIS_OK) {
    f->arrived = f->bytes;
  } else {
    foreign_free(f);
    f = NULL;
  }
  *out = f;
  return result;
}
