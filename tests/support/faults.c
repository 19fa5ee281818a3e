/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include "harness.h"

#include <time.h>

/* ---- which requests fail ---- */

struct faults faults;

static bool refuse(enum asked source)
{
  if (!atomic_load(&faults.armed) || source != faults.source)
    return false;
  uint64_t n = atomic_fetch_add(&faults.requests, 1) + 1;
  bool refused = (faults.pattern == ONCE && n == faults.at) ||
                 (faults.pattern == FOR_GOOD && n >= faults.at) ||
                 (faults.pattern == BY_CHANCE && random_at(faults.seed, n) % faults.odds == 0);
  atomic_fetch_add(&faults.failures, refused);
  return refused;
}

void arm(enum asked source, enum pattern pattern, uint64_t at)
{
  faults.pattern = pattern;
  faults.source = source;
  faults.at = at;
  faults.odds = 2 + at % 7; /* 1/2 .. 1/8 */
  faults.seed = at;
  faults.requests = faults.failures = faults.random_failures = 0;
  faults.armed = true;
}

/* ---- the books: what was given, and has not come back ---- */

struct block {
  struct block *next;
  const void *address;
  size_t size, alignment;
  enum owner owner;
};

enum { CHAINS = 4096 };

static struct block *chains[CHAINS];

struct books books = {.lock = PTHREAD_MUTEX_INITIALIZER};

void __real_free(void *block);
void *__real_calloc(size_t n, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *start, size_t size);
int __real_getentropy(void *buffer, size_t size);

static struct block **find_block(const void *address)
{
  struct block **at = &chains[random_at(0, (uintptr_t) address) % CHAINS];
  while (*at && (*at)->address != address)
    at = &(*at)->next;
  return at;
}

static void book(enum owner owner, const void *address, size_t size, size_t alignment)
{
  struct block *block = __real_calloc(1, sizeof *block);
  if (!block)
    abort();
  *block = (struct block){NULL, address, size, alignment, owner};
  pthread_mutex_lock(&books.lock);
  struct block **at = find_block(address);
  if (*at)
    books.wrong = "a block was given twice";
  *at = block;
  books.blocks++;
  books.bytes[owner] += size;
  if (books.bytes[owner] > books.most_bytes)
    books.most_bytes = books.bytes[owner];
  pthread_mutex_unlock(&books.lock);
}

/* The block that begins there, taken out of the books; NULL: there is none. */
static struct block *unbook(const void *address)
{
  pthread_mutex_lock(&books.lock);
  struct block **at = find_block(address), *block = *at;
  if (block) {
    *at = block->next;
    books.blocks--;
    books.bytes[block->owner] -= block->size;
  }
  pthread_mutex_unlock(&books.lock);
  return block;
}

static void *user_allocate(void *context, size_t alignment, size_t size)
{
  (void) context;
  void *block;
  if (refuse(USER) || __real_posix_memalign(&block, alignment, size))
    return NULL;
  memset(block, 0xa5, size);
  book(USERS_BLOCK, block, size, alignment);
  return block;
}

static void user_release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context;
  struct block *known = unbook(block);
  if (!known || known->owner != USERS_BLOCK) {
    books.wrong = "released what was not given, or twice";
    return;
  }
  if (known->size != size || known->alignment != alignment)
    books.wrong = "released with another size or alignment";
  memset(block, 0xdd, known->size);
  __real_free(known);
  __real_free(block);
}

const tamis_allocator user = {user_allocate, user_release, NULL};

/* ---- the system, as the library sees it ---- */

/* What the library adds to a large block to align it is no memory of a filter's, as little as what
 * malloc() adds itself. */
static size_t without_alignment(size_t size)
{
  enum { LARGE = 4 << 10, ALIGNMENT = 64 };
  return size >= LARGE + ALIGNMENT ? size - ALIGNMENT : size;
}

void *__wrap_calloc(size_t n, size_t size)
{
  void *block = refuse(SYSTEM) ? NULL : __real_calloc(n, size);
  if (block)
    book(SYSTEMS_BLOCK, block, without_alignment(n * size), 0);
  return block;
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
  if (refuse(SYSTEM) || __real_posix_memalign(out, alignment, size))
    return ENOMEM;
  memset(*out, 0xa5, size);
  book(SYSTEMS_BLOCK, *out, size, alignment);
  return 0;
}

void __wrap_free(void *block)
{
  struct block *known = block ? unbook(block) : NULL;
  if (known && known->owner == USERS_BLOCK)
    books.wrong = "the user's block was freed";
  __real_free(known);
  __real_free(block);
}

static size_t whole_pages(size_t size)
{
  size_t page_size = (size_t) sysconf(_SC_PAGESIZE);
  return (size + page_size - 1) / page_size * page_size;
}

static void book_mapped(size_t change)
{
  pthread_mutex_lock(&books.lock);
  books.mapped += change;
  pthread_mutex_unlock(&books.lock);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
  errno = ENOMEM;
  void *start = faults.maps || refuse(SYSTEM)
                    ? MAP_FAILED
                    : __real_mmap(at, size, protection, flags, fd, offset);
  if (start != MAP_FAILED)
    book_mapped(whole_pages(size));
  return start;
}

int __wrap_munmap(void *start, size_t size)
{
  book_mapped(-whole_pages(size));
  return __real_munmap(start, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
  if (faults.threads || refuse(SYSTEM))
    return EAGAIN;
  return __real_pthread_create(thread, attributes, start, argument);
}

/* A failure may leave a part of the bytes. */
int __wrap_getentropy(void *buffer, size_t size)
{
  if (!refuse(SYSTEM))
    return __real_getentropy(buffer, size);
  memset(buffer, 1, size / 2);
  errno = ENOSYS;
  atomic_fetch_add(&faults.random_failures, 1);
  return -1;
}

_Atomic uint64_t pauses;

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
  (void) time;
  (void) left;
  atomic_fetch_add(&pauses, 1);
  return sched_yield();
}

void assert_books(void)
{
  if (books.wrong)
    fail_msg("%s", books.wrong);
}

void assert_all_released(void)
{
  assert_books();
  assert_int_equal(books.blocks, 0);
  for (unsigned owner = 0; owner < OWNERS; owner++)
    assert_int_equal(books.bytes[owner], 0);
  assert_int_equal(books.mapped, 0);
}

int start_afresh(void **state)
{
  (void) state;
  faults.armed = faults.threads = faults.maps = false;
  memset(chains, 0, sizeof chains);
  for (unsigned owner = 0; owner < OWNERS; owner++)
    books.bytes[owner] = 0;
  books.blocks = books.mapped = 0;
  books.wrong = NULL;
  return 0;
}
