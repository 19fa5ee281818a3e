/* SPDX-License-Identifier: MIT */
#include "filter_unit.h"

#include "base/memory.h"

static const tamis_allocator from_system = {NULL, NULL, NULL};

/* The pages of a block that are in memory, without those at its ends, which others may share. */
static size_t pages_present(const void *block, size_t size)
{
  enum { MOST_PAGES = 8192 };
  static unsigned char present[MOST_PAGES];
  const size_t page = (size_t) sysconf(_SC_PAGESIZE);
  const uintptr_t begin = ((uintptr_t) block + page) / page * page;
  const size_t n = ((uintptr_t) block + size - begin) / page;
  size_t sum = 0;
  assert_true(n <= MOST_PAGES);
  assert_int_equal(mincore((void *) begin, n * page, present), 0);
  for (size_t i = 0; i < n; i++)
    sum += present[i] & 1;
  return sum;
}

/* To clear them by hand would stop the add that opens a layer.  (calloc() of glibc clears what is left
 * of the last 128 KiB that it has got from the kernel, and what has been used.  So this comes first,
 * and small blocks come last.) */
TEST(large_blocks_are_not_touched)
{
  const size_t sizes[] = {5000001, (2 << 20) - 1, 1000000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = tamis__memory_allocate(&from_system, sizes[i]);
    assert_non_null(block);
    assert_true(pages_present(block, sizes[i]) <= 64);
    tamis__memory_release(&from_system, block, sizes[i]);
  }
}

TEST(blocks_are_zero_and_aligned)
{
  size_t sizes[] = {1, 64, 4095, 4096, 100000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5000001};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *block = tamis__memory_allocate(&from_system, sizes[i]);
    assert_non_null(block);
    assert_int_equal((uintptr_t) block % 64, 0);
    for (size_t j = 0; j < sizes[i]; j++)
      assert_int_equal(block[j], 0);
    memset(block, 1, sizes[i]);
    tamis__memory_release(&from_system, block, sizes[i]);
    block = tamis__memory_allocate_dense(&from_system, sizes[i]);
    assert_non_null(block);
    assert_int_equal((uintptr_t) block % 16, 0);
    assert_int_equal(block[0] | block[sizes[i] - 1], 0);
    memset(block, 1, sizes[i]);
    tamis__memory_release(&from_system, block, sizes[i]);
  }
  tamis__memory_release(&from_system, NULL, 100);
  assert_null(tamis__memory_allocate(&from_system, SIZE_MAX));
  assert_null(tamis__memory_allocate(&from_system, SIZE_MAX / 2));
}

/* The slack that is mapped for alignment is unmapped too, and so is the last page of a block. */
static size_t bytes_mapped(void)
{
  size_t bytes = 0;
  char line[512];
  FILE *file =
      fopen("/proc/self/maps", "r"); /* not statm, which an emulator adds its own memory to */
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    size_t begin, end;
    if (sscanf(line, "%zx-%zx", &begin, &end) == 2)
      bytes += end - begin;
  }
  fclose(file);
  return bytes;
}

TEST(large_blocks_leave_nothing_mapped)
{
  enum { BLOCKS = 2000 };
  size_t before = bytes_mapped();
  for (size_t i = 0; i < BLOCKS; i++) {
    void *block = tamis__memory_allocate(&from_system, (2 << 20) + i * 4097);
    assert_non_null(block);
    tamis__memory_release(&from_system, block, (2 << 20) + i * 4097);
  }
  assert_true(bytes_mapped() < before + (size_t) BLOCKS / 2 * 4096);
}

/* A key that comes to a layer brings one small page, and no huge one. */
TEST(pages_come_one_by_one)
{
  const size_t size = 5000001;
  char *block = tamis__memory_allocate(&from_system, size);
  assert_non_null(block);
  tamis__memory_use_small_pages(&from_system, block, size);
  for (size_t touched = 0; touched < 3; touched++) {
    block[(touched + 1) * 1000000] = 1;
    assert_int_equal(pages_present(block, size), touched + 1);
  }
  tamis__memory_release(&from_system, block, size);
}

/* ---- an allocator that does not align ---- */

struct crooked {
  bool armed; /* blocks begin 8 bytes after a cache line */
  size_t blocks, refused;
};

static void *crooked_allocate(void *context, size_t alignment, size_t size)
{
  struct crooked *c = context;
  char *block = aligned_alloc(alignment, (size / alignment + 2) * alignment);
  assert_non_null(block);
  c->blocks++;
  c->refused += c->armed;
  return block + (c->armed ? 8 : 0);
}

static void crooked_release(void *context, void *block, size_t alignment, size_t size)
{
  struct crooked *c = context;
  (void) size;
  c->blocks--;
  free((char *) block - (uintptr_t) block % alignment);
}

/* Adds keys, and all of those that were added stay. */
static void add_while_crooked(tamis_filter *f, struct crooked *c)
{
  enum { KEYS = 5000 };
  static bool added[KEYS];
  for (uint64_t key = 0; key < KEYS; key++) {
    c->armed = key >= KEYS / 8;
    int result = tamis_add_hash(f, key);
    added[key] = result == TAMIS_OK;
    assert_true(result == TAMIS_OK || result == TAMIS_EFULL ||
                (c->armed && result == TAMIS_ENOMEM));
  }
  c->armed = false;
  for (uint64_t key = 0; key < KEYS; key++)
    assert_true(!added[key] || tamis_contains_hash(f, key));
}

/* The block is given back, and the call says that there is no memory. */
TEST(blocks_that_are_not_aligned_are_given_back)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned large = 0; large < 2; large++) {
      struct crooked c = {.armed = true};
      const tamis_allocator allocator = {crooked_allocate, crooked_release, &c};
      tamis_options options = form->options;
      options.capacity = large ? 1000000 : 100;
      options.allocator = &allocator;
      tamis_filter *f;
      assert_int_equal(tamis_create(&options, &f), TAMIS_ENOMEM);
      assert_true(c.refused > 0 && c.blocks == 0);
      c.armed = false;
      assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
      c.refused = 0;
      add_while_crooked(f, &c);
      assert_true(large || !options.growable || options.kind == TAMIS_COUNTING_BLOOM ||
                  c.refused > 0);
      tamis_destroy(f);
      assert_int_equal(c.blocks, 0);
    }
}
