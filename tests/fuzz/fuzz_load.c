/* SPDX-License-Identifier: MIT
 *
 * Loads anything, under libFuzzer: a filter that is valid and works, or an error, and nothing is left
 * of either.  Most changes get right sums, or hardly any would reach what the sums protect.
 *
 *     fuzz_load -runs=100000000 CORPUS tests/saved/1
 */
#include "saved_sums.h"

#include <stdlib.h>

enum { MAX_BYTES = 1 << 26, KEYS = 50 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool condition)
{
  if (!condition)
    abort();
}

/* ---- changes ---- */

/* The size of the array before the block that says it; 0: there is no such block. */
static size_t size_of_array(const struct bytes *b)
{
  for (size_t at = SAVED_ARRAY_ALIGNMENT; at + SAVED_UNIT <= b->size; at += SAVED_UNIT)
    if (saved_get32(b->data + at) == SAVED_SUMS &&
        saved_get64(b->data + at + 24) == SAVED_ARRAY_ALIGNMENT &&
        saved_get64(b->data + at + 32) == at - SAVED_ARRAY_ALIGNMENT)
      return at - SAVED_ARRAY_ALIGNMENT;
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
  struct bytes b = {.data = data, .size = LLVMFuzzerMutate(data, size, max_size)};
  if (seed % 16 && b.size >= SAVED_HEADER + SAVED_UNIT) {
    size_t array = size_of_array(&b);
    saved_put64(data + 48, 12345); /* seed and probe fit together only by themselves */
    saved_put64(data + 56, hash_sum("tamis probe", 11, 12345));
    memcpy(data, SAVED_MAGIC, 8);
    (void) repair(&b, array);
  }
  return b.size;
}

/* ---- loads ---- */

struct source {
  const uint8_t *data;
  size_t size, at;
};

static int64_t read_source(void *context, void *data, size_t size)
{
  struct source *s = context;
  size_t n = s->size - s->at < size ? s->size - s->at : size;
  n = n > 1000 ? 1000 : n;
  memcpy(data, s->data + s->at, n);
  s->at += n;
  return (int64_t) n;
}

struct memory {
  size_t now, most;
};

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct memory *m = context;
  m->now += size;
  m->most = m->now > m->most ? m->now : m->most;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  (void) alignment;
  ((struct memory *) context)->now -= size;
  free(block);
}

static int write_to_nowhere(void *context, const void *data, size_t size)
{
  (void) data;
  *(size_t *) context += size;
  return 0;
}

static void use(tamis_filter *f)
{
  const char *reason;
  need(filter_validate(f, &reason));
  for (uint64_t key = 0; key < KEYS; key++) {
    bool added = tamis_add_hash(f, key) == TAMIS_OK;
    need(!added || tamis_contains_hash(f, key));
    (void) tamis_add_unique_hash(f, key + 1);
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  need(tamis_get_stats(f, &stats) == TAMIS_OK);
  need(filter_validate(f, &reason));
  size_t size = 0;
  need(tamis_save(f, write_to_nowhere, &size) == TAMIS_OK && size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct memory memory = {0, 0};
  tamis_allocator allocator = {allocate, release, &memory};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &allocator;
  options.max_bytes = size % 3 ? 0 : MAX_BYTES;
  struct source source = {data, size, 0};
  tamis_filter *f;
  int result = tamis_load(&options, read_source, &source, &f);
  need((result == TAMIS_OK) == (f != NULL));
  need(memory.most <= 3 * size + (2 << 20));
  if (f)
    use(f);
  tamis_destroy(f);
  need(memory.now == 0);
  tamis_stats stats = TAMIS_STATS_INIT;
  source.at = 0;
  (void) tamis_saved_info(read_source, &source, &stats);
  return 0;
}
