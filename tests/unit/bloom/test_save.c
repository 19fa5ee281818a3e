/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved Bloom filters; test_saved.c has what holds for all kinds.
 */
#include "saved_unit.h"

#include "bloom/bloom.h"

/* A filter that does not grow, with the keys from 0 on. */
static tamis_filter *create(tamis_layout layout, uint64_t capacity, uint64_t keys)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, 0.01, false);
  options.layout = layout;
  tamis_filter *f = make_with_options(&options);
  add_range(f, 0, keys);
  return f;
}

/* A filter of the word layout that became full while it was saved: the marks are not in the file,
 * and nothing that was in is missing. */
TEST(a_mark_that_came_during_the_save_is_left_out)
{
  enum { CAPACITY = 1000 };
  tamis_filter *f = create(TAMIS_LAYOUT_WORD, CAPACITY, CAPACITY / 2);
  struct bloom *b = bloom_of(f);
  b->words[3] |= WORD_MARK; /* as if it had been set after `fullness` was read */
  tamis_filter *g = copy_of(f);
  b->words[3] &= ~WORD_MARK;
  assert_same_figures(f, g, "loaded");
  assert_valid(g);
  tamis_destroy(f);
  tamis_destroy(g);
}

/* The write function adds keys, which is allowed; the part that it is called with is the first one
 * of two, so all words of the second come later. */
struct late {
  struct bytes bytes;
  tamis_filter *f;
  uint64_t next;
};

static int add_and_write(void *context, const void *data, size_t size)
{
  struct late *late = context;
  for (unsigned i = 0; i < 1000; i++)
    if (tamis_add_hash(late->f, late->next++) != TAMIS_OK)
      return 1;
  return write_bytes(&late->bytes, data, size);
}

/* No key is counted that is not in, or only in part.  The bits show about how many came later, for which the
 * filter has no room any more. */
TEST(keys_are_counted_before_the_words)
{
  enum { KEYS_BEFORE = 1000 };
  for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++) {
    struct late late = {.f = create((tamis_layout) layout, 3000000, KEYS_BEFORE),
                        .next = KEYS_BEFORE};
    const uint64_t count = stats_of(late.f).count;
    assert_int_equal(tamis_save(late.f, add_and_write, &late), TAMIS_OK);
    assert_true(late.bytes.calls > 1 && stats_of(late.f).count > count);
    tamis_filter *g = load_bytes(&late.bytes);
    assert_int_equal(stats_of(g).count, count);
    assert_in_range(bloom_most_keys(const_bloom_of(g)), 1,
                    bloom_most_keys(const_bloom_of(late.f)) - 1);
    assert_all_in(g, 0, KEYS_BEFORE);
    tamis_destroy(g);
    tamis_destroy(late.f);
    free(late.bytes.data);
  }
}

/* Blocks without headers, each directly after the last one that is not released, as some allocators
 * give them. */
enum { CELL = 64, CELLS = 1024 };
struct arena {
  _Alignas(CELL) char bytes[CELLS * CELL];
  bool given[CELLS];
  size_t sizes[CELLS]; /* of the block that begins here */
};

static void *allocate_next(void *context, size_t alignment, size_t size)
{
  struct arena *arena = context;
  size_t at = CELLS, cells = (size + CELL - 1) / CELL;
  assert_true(alignment <= CELL);
  while (at && !arena->given[at - 1])
    at--;
  if (at + cells > CELLS)
    return NULL;
  arena->sizes[at] = size;
  memset(arena->given + at, true, cells);
  return arena->bytes + at * CELL;
}

static void release_cells(void *context, void *block, size_t alignment, size_t size)
{
  struct arena *arena = context;
  const ptrdiff_t at = ((char *) block - arena->bytes) / CELL;
  (void) alignment;
  assert_int_equal(size, arena->sizes[at]);
  memset(arena->given + at, false, (size + CELL - 1) / CELL);
}

/* The struct of a loaded filter may not follow its words, since one block would be released for both. */
TEST(words_and_struct_are_released_side_by_side)
{
  for (uint64_t capacity = 20; capacity <= 200; capacity += 20) {
    static struct arena arena;
    const tamis_allocator allocator = {allocate_next, release_cells, &arena};
    tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
    options.allocator = &allocator;
    tamis_filter *f = create(TAMIS_LAYOUT_BLOCKED, capacity, 10), *g;
    struct bytes saved = saved_bytes(f);
    struct source source = source_of(&saved);
    assert_int_equal(tamis_load(&options, read_source, &source, &g), TAMIS_OK);
    tamis_destroy(f);
    tamis_destroy(g);
    assert_null(memchr(arena.given, true, CELLS));
    free(saved.data);
  }
}
