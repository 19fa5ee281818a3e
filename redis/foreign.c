/* SPDX-License-Identifier: MIT */
#include "foreign.h"

#include "memory.h"
#include "murmur.h"
#include "siphash.h"

#include <math.h>

/* ---- a filter and its layers ---- */

struct foreign *foreign_create(tamis_kind kind)
{
  struct foreign *f = memory_take(sizeof *f);
  if (f)
    *f = (struct foreign){.kind = kind};
  return f;
}

void foreign_free(struct foreign *f)
{
  if (!f)
    return;
  for (size_t i = 0; i < f->layers; i++)
    memory_free(f->layer[i].data);
  memory_free(f->layer);
  memory_free(f);
}

static size_t most_layers(const struct foreign *f)
{
  return f->kind == TAMIS_CUCKOO ? FOREIGN_MOST_TABLES : FOREIGN_MOST_LAYERS;
}

struct foreign_layer *foreign_open_layer(struct foreign *f)
{
  if (f->layers == most_layers(f))
    return NULL;
  if (f->layers == f->room) {
    const size_t room = f->room ? 2 * f->room : 4;
    struct foreign_layer *larger = memory_take(room * sizeof *larger);
    if (!larger)
      return NULL;
    if (f->layers)
      memcpy(larger, f->layer, f->layers * sizeof *larger);
    memory_free(f->layer);
    f->layer = larger;
    f->room = room;
  }
  struct foreign_layer *layer = &f->layer[f->layers++];
  *layer = (struct foreign_layer){0};
  return layer;
}

static bool is_power_of_two(uint64_t number)
{
  return number && !(number & (number - 1));
}

static bool bloom_layer_is_possible(const struct foreign_layer *l)
{
  return l->bytes && l->bytes <= (uint64_t) 1 << 60 && l->bits && l->bits <= l->bytes * 8 &&
         l->log2_bits < 64 && (!l->log2_bits || (uint64_t) 1 << l->log2_bits <= l->bits) &&
         l->hashes && l->hashes <= FOREIGN_MOST_HASHES && l->entries <= INT64_MAX &&
         l->size <= INT64_MAX && l->rate > 0 && l->rate < 1 && l->bits_per_entry > 0 &&
         isfinite(l->bits_per_entry);
}

static bool multiply(uint64_t a, uint64_t b, uint64_t *out)
{
  return !__builtin_mul_overflow(a, b, out);
}

/* Table number i has `buckets` times the i-th power of `expansion` buckets.  0: too many. */
static uint64_t buckets_of_table(const struct foreign *f, size_t number)
{
  uint64_t buckets = f->buckets;
  for (size_t i = 0; i < number && f->expansion != 1; i++)
    if (!multiply(buckets, f->expansion, &buckets) || !buckets)
      return 0;
  return buckets;
}

static bool tables_are_possible(const struct foreign *f)
{
  uint64_t buckets = f->buckets;
  for (size_t i = 0; i < f->layers; i++) {
    const struct foreign_layer *l = &f->layer[i];
    uint64_t bytes;
    if (!buckets || l->buckets != buckets || !multiply(buckets, f->bucket_size, &bytes) ||
        l->bytes != bytes || !multiply(buckets, f->expansion, &buckets))
      return false;
  }
  return is_power_of_two(f->buckets) && f->bucket_size && f->bucket_size <= 255 &&
         f->max_iterations <= UINT16_MAX && f->deleted <= INT64_MAX &&
         (!f->expansion || (is_power_of_two(f->expansion) && f->expansion <= UINT16_MAX));
}

static bool options_are_possible(const struct foreign *f)
{
  if (f->options != FOREIGN_VALKEY)
    return !(f->options & ~(uint64_t) FOREIGN_OPTIONS);
  for (size_t i = 0; i < f->layers; i++)
    if (f->layer[i].log2_bits)
      return false;
  return f->tightening > 0 && f->tightening < 1;
}

bool foreign_is_possible(struct foreign *f)
{
  const bool cuckoo = f->kind == TAMIS_CUCKOO;
  bool possible = f->layers && f->layers <= most_layers(f) && f->count <= FOREIGN_MOST_ITEMS;
  f->bytes = 0;
  for (size_t i = 0; i < f->layers && possible; i++) {
    possible = (cuckoo || bloom_layer_is_possible(&f->layer[i])) &&
               !__builtin_add_overflow(f->bytes, f->layer[i].bytes, &f->bytes) &&
               f->bytes <= INT64_MAX;
  }
  if (!possible)
    return false;
  return cuckoo ? tables_are_possible(f) : f->growth <= UINT32_MAX && options_are_possible(f);
}

bool foreign_allocate(struct foreign *f)
{
  for (size_t i = 0; i < f->layers; i++) {
    f->layer[i].data = memory_take_cleared(f->layer[i].bytes);
    if (!f->layer[i].data)
      return false;
  }
  return true;
}

void foreign_move(struct foreign *f, void *(*move)(void *context, void *block), void *context)
{
  if (!f->layer)
    return;
  void *moved = move(context, f->layer);
  if (moved)
    f->layer = moved;
  for (size_t i = 0; i < f->layers; i++) {
    moved = move(context, f->layer[i].data);
    f->layer[i].data = moved ? moved : f->layer[i].data;
  }
}

bool foreign_is_whole(const struct foreign *f)
{
  return f->arrived == f->bytes;
}

size_t foreign_memory(const struct foreign *f)
{
  size_t bytes = memory_size(f, sizeof *f) + memory_size(f->layer, f->room * sizeof *f->layer);
  for (size_t i = 0; i < f->layers; i++)
    bytes += memory_size(f->layer[i].data, f->layer[i].bytes);
  return bytes;
}

uint64_t foreign_capacity(const struct foreign *f)
{
  uint64_t capacity = 0;
  for (size_t i = 0; i < f->layers; i++)
    if (__builtin_add_overflow(capacity, f->layer[i].entries, &capacity) || capacity > INT64_MAX)
      return INT64_MAX;
  return f->kind == TAMIS_CUCKOO ? f->bytes : capacity;
}

/* ---- Bloom ---- */

struct hashes {
  uint64_t a, b;
};

static struct hashes bloom_hashes(const struct foreign *f, const void *item, size_t size)
{
  struct hashes h;
  if (f->options & FOREIGN_VALKEY) {
    h.a = sip_13(f->seed, item, size);
    h.b = sip_13(f->seed + SIP_KEY_BYTES, item, size);
  } else if (f->options & FOREIGN_HASH_64) {
    h.a = murmur_64(item, size, UINT64_C(0xc6a4a7935bd1e995));
    h.b = murmur_64(item, size, h.a);
  } else {
    h.a = murmur_32(item, size, UINT32_C(0x9747b28c));
    h.b = murmur_32(item, size, (uint32_t) h.a);
  }
  return h;
}

static uint64_t bit_of(const struct foreign *f, const struct foreign_layer *l, struct hashes h,
                       uint64_t number)
{
  const uint64_t largest_prime = UINT64_C(0xffffffffffffffc5), sum = h.a + number * h.b;
  if (f->options & FOREIGN_VALKEY)
    return (number > 1 ? sum % largest_prime : number ? h.b : h.a) % l->bits;
  return l->log2_bits ? sum & (((uint64_t) 1 << l->log2_bits) - 1) : sum % l->bits;
}

static bool layer_contains(const struct foreign *f, const struct foreign_layer *l, struct hashes h)
{
  for (uint64_t i = 0; i < l->hashes; i++) {
    const uint64_t bit = bit_of(f, l, h, i);
    if (!(l->data[bit / 8] & 1U << bit % 8))
      return false;
  }
  return true;
}

static bool bloom_contains(const struct foreign *f, struct hashes h)
{
  for (size_t i = f->layers; i; i--)
    if (layer_contains(f, &f->layer[i - 1], h))
      return true;
  return false;
}

static int bloom_add(struct foreign *f, struct hashes h)
{
  struct foreign_layer *last = &f->layer[f->layers - 1];
  if (bloom_contains(f, h))
    return TAMIS_PRESENT;
  if (last->size >= last->entries)
    return TAMIS_EFULL;
  for (uint64_t i = 0; i < last->hashes; i++) {
    const uint64_t bit = bit_of(f, last, h, i);
    last->data[bit / 8] |= (unsigned char) (1U << bit % 8);
  }
  last->size++;
  f->count += f->count < FOREIGN_MOST_ITEMS;
  return TAMIS_OK;
}

/* ---- cuckoo ---- */

/* Of the hash, each table uses the lowest bits: its number of buckets is a power of two. */
static uint64_t cuckoo_hash(const void *item, size_t size)
{
  return murmur_64(item, size, 0);
}

static unsigned char fingerprint_of(uint64_t hash)
{
  return (unsigned char) (hash % 255 + 1);
}

static uint64_t other_hash(uint64_t hash, unsigned char fingerprint)
{
  return hash ^ fingerprint * UINT64_C(0x5bd1e995);
}

/* Where a bucket begins: a number of 32 bits in RedisBloom, so also in a table that has more than
 * that many bytes. */
static unsigned char *bucket_of(const struct foreign *f, const struct foreign_layer *l,
                                uint64_t hash)
{
  return l->data + (uint32_t) ((hash & (l->buckets - 1)) * f->bucket_size);
}

static uint64_t occurrences(const struct foreign *f, const unsigned char *bucket,
                            unsigned char fingerprint)
{
  uint64_t n = 0;
  for (uint64_t i = 0; i < f->bucket_size; i++)
    n += bucket[i] == fingerprint;
  return n;
}

/* The first byte of a table that has this value and may hold the fingerprint; NULL: none. */
static unsigned char *find_slot(const struct foreign *f, const struct foreign_layer *l,
                                uint64_t hash, unsigned char fingerprint, unsigned char value)
{
  unsigned char *slot = memchr(bucket_of(f, l, hash), value, f->bucket_size);
  if (slot)
    return slot;
  return memchr(bucket_of(f, l, other_hash(hash, fingerprint)), value, f->bucket_size);
}

/* The same in all tables, the newest one first.  Removes take from there first, too: of two items
 * that are alike in a large table, both are in that one or in a smaller one, where they are alike
 * as well; the other way round, one of them could lose its only copy to the other. */
static unsigned char *find_in_all(const struct foreign *f, uint64_t hash, unsigned char value)
{
  for (size_t i = f->layers; i; i--) {
    unsigned char *slot = find_slot(f, &f->layer[i - 1], hash, fingerprint_of(hash), value);
    if (slot)
      return slot;
  }
  return NULL;
}

static unsigned char swap(unsigned char *slot, unsigned char fingerprint)
{
  const unsigned char old = *slot;
  *slot = fingerprint;
  return old;
}

/* Moves fingerprints of the newest table to their other buckets until one finds a free byte.
 * False: none did, and all are where they were. */
static bool push_aside(const struct foreign *f, uint64_t hash)
{
  const struct foreign_layer *l = &f->layer[f->layers - 1];
  unsigned char moved = fingerprint_of(hash);
  uint64_t at = hash, victim = 0, moves = 0;
  for (; moves < f->max_iterations; moves++) {
    moved = swap(bucket_of(f, l, at) + victim, moved);
    at = other_hash(at, moved);
    unsigned char *slot = memchr(bucket_of(f, l, at), 0, f->bucket_size);
    if (slot) {
      *slot = moved;
      return true;
    }
    victim = (victim + 1) % f->bucket_size;
  }
  for (; moves; moves--) {
    victim = (victim + f->bucket_size - 1) % f->bucket_size;
    at = other_hash(at, moved);
    moved = swap(bucket_of(f, l, at) + victim, moved);
  }
  return false;
}

static int open_table(struct foreign *f, struct foreign_limits limits)
{
  const uint64_t buckets = buckets_of_table(f, f->layers);
  uint64_t bytes, all;
  if (!buckets || !multiply(buckets, f->bucket_size, &bytes) ||
      __builtin_add_overflow(f->bytes, bytes, &all) || all > INT64_MAX ||
      (limits.bytes && all > limits.bytes) || (limits.tables && f->layers >= limits.tables) ||
      f->layers == most_layers(f))
    return TAMIS_EFULL;
  unsigned char *data = memory_take_cleared(bytes);
  struct foreign_layer *l = data ? foreign_open_layer(f) : NULL;
  if (!l) {
    memory_free(data);
    return TAMIS_ENOMEM;
  }
  *l = (struct foreign_layer){.data = data, .bytes = bytes, .buckets = buckets};
  f->bytes = f->arrived = all;
  return TAMIS_OK;
}

static int cuckoo_add(struct foreign *f, uint64_t hash, bool unique, struct foreign_limits limits)
{
  if (unique && find_in_all(f, hash, fingerprint_of(hash)))
    return TAMIS_PRESENT;
  unsigned char *slot = find_in_all(f, hash, 0);
  if (!slot && !push_aside(f, hash)) {
    const int result = f->expansion ? open_table(f, limits) : TAMIS_EFULL;
    if (result != TAMIS_OK)
      return result;
    slot = find_in_all(f, hash, 0);
  }
  if (slot)
    *slot = fingerprint_of(hash);
  f->count += f->count < FOREIGN_MOST_ITEMS;
  return TAMIS_OK;
}

/* ---- both ---- */

bool foreign_contains(const struct foreign *f, const void *item, size_t size)
{
  if (f->kind != TAMIS_CUCKOO)
    return bloom_contains(f, bloom_hashes(f, item, size));
  const uint64_t hash = cuckoo_hash(item, size);
  return find_in_all(f, hash, fingerprint_of(hash)) != NULL;
}

uint64_t foreign_count(const struct foreign *f, const void *item, size_t size)
{
  const uint64_t hash = cuckoo_hash(item, size);
  const unsigned char fingerprint = fingerprint_of(hash);
  uint64_t n = 0;
  for (size_t i = 0; i < f->layers; i++) {
    const struct foreign_layer *l = &f->layer[i];
    n += occurrences(f, bucket_of(f, l, hash), fingerprint);
    n += occurrences(f, bucket_of(f, l, other_hash(hash, fingerprint)), fingerprint);
  }
  return n;
}

int foreign_add(struct foreign *f, const void *item, size_t size, bool unique,
                struct foreign_limits limits)
{
  return f->kind == TAMIS_CUCKOO ? cuckoo_add(f, cuckoo_hash(item, size), unique, limits)
                                 : bloom_add(f, bloom_hashes(f, item, size));
}

int foreign_remove(struct foreign *f, const void *item, size_t size)
{
  const uint64_t hash = cuckoo_hash(item, size);
  unsigned char *slot = find_in_all(f, hash, fingerprint_of(hash));
  if (!slot)
    return TAMIS_ABSENT;
  *slot = 0;
  f->count -= f->count > 0;
  f->deleted += f->deleted < INT64_MAX;
  return TAMIS_OK;
}
