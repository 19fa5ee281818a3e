/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the container of a saved filter: a stream of bytes that is written and read once, from
 * its beginning to its end.  docs/reference/format.md describes it.  All kinds share this code.
 *
 *    header | array, with its sums | block | block | ... | trailer
 *
 *   header    the options, the figures (statistics), and the kind's geometry numbers: 512 bytes
 *   block     at most 1 MiB, with a type and four numbers whose meaning the kind defines
 *   array     a part that look-ups can use where it lies in the file, at a multiple of 4096 bytes;
 *             a sum (a checksum) for each MiB follows it
 *   trailer   totals, and a sum over all sums
 *
 * A kind writes and reads the blocks and arrays; saved_write.c and saved_read.c do everything else.
 * The members of struct filter_kind for this:
 *
 *    describe   Fills in the header, except for the seed, the hash function and most figures.  Sets
 *               the figure `bytes` without the parts that differ between machines, so that a filter
 *               is saved to the same bytes everywhere.
 *    saves_estimates
 *               The file has the figures load, estimated_count, occupancy, and (with the precision
 *               of a float) fpp_estimate, which in other kinds follow from other figures.
 *    read_info  Completes the header's figures: adds to `bytes` the parts that depend on the
 *               machine, and reads the counts of a live filter.  Leaves the figures alone if no
 *               filter can have this header.
 *    save       Writes the blocks and arrays, and sets w->totals.
 *    load       Reads what `save` writes, and the trailer (tamis__saved_read_end), whose totals it
 *               checks.  `head` has the values of the filter's head, except for the operations.
 *               Sets *out only with TAMIS_OK.  After an error, keeps no memory.
 *
 * A file may contain any bytes.  A correct sum shows that the bytes are as they were written, but
 * not who wrote them.  So each number is checked against what is possible before it is used, and
 * everything that can be counted is counted again.
 */
#ifndef TAMIS_LIB_SAVED_H
#define TAMIS_LIB_SAVED_H

#include "base/filter.h"

#include <string.h>

enum {
  SAVED_CHUNK = SMALL(1 << 20, 1 << 10), /* the most bytes of a payload and of an array's chunk */
  SAVED_UNIT = 64,              /* the offset of each part in the file is a multiple of this */
  SAVED_ARRAY_ALIGNMENT = 4096, /* each array's offset is a multiple of this */
  SAVED_HEADER = 512,
  SAVED_GEOMETRY = 31,
  SAVED_TOTALS = 3,  /* numbers in the trailer that the kind defines */
  SAVED_MEANINGS = 4 /* numbers in a block's head that the kind defines */
};

/* A kind of filter has block types of its own, from SAVED_KIND_BLOCKS on.  A reader skips a block
 * of unknown type if the type has the bit SAVED_OPTIONAL. */
enum { SAVED_END = 0, SAVED_SUMS = 1, SAVED_KIND_BLOCKS = 16 };
#define SAVED_OPTIONAL (UINT32_C(1) << 31)

#define SAVED_MAGIC "\x89TAMIS\r\n"
#define SAVED_TRAILER_MAGIC "TAMISEND"
/* A file for several processes begins with these bytes while it is written in place.  Only one byte
 * differs from SAVED_MAGIC, so no process reads a mixture of both. */
#define SAVED_UNFINISHED "\x89TAMIS\r?"
/* A packed file, which only a small filter can have, begins with these bytes.  Runs follow: of n +
 * 1 bytes, after a byte n below 128, or of n + 1 zeros, as the bytes n / 256 + 128 and n % 256. */
#define SAVED_PACKED "\x89TAMISp\n"
enum { SAVED_PACKED_MOST = 1 << 14 }; /* the most bytes that an unpacked file has */

enum {
  SAVED_VERSION = 1,
  SAVED_HASH_XXH3 = 1,
  SAVED_HASH_OWN = 2,
  SAVED_MIXING = 1, /* the only mixing function: hash_mix() */
  SAVED_GROWABLE_AT = 44,
  SAVED_FIGURES_AT = 96,
  SAVED_RESERVED_AT = 216, /* from here to the geometry, all bytes are zero */
  SAVED_GEOMETRY_AT = 256
};

/* The fields of a header that are members of struct saved_head, with their offsets.  INT and LONG
 * are unsigned numbers of 32 and 64 bits, and REAL is a double. */
/* clang-format off */
#define SAVED_FIELDS(INT, LONG, REAL) \
  LONG(16, features) LONG(56, probe) \
  INT(32, options.kind) INT(SAVED_GROWABLE_AT, options.growable) LONG(48, options.seed) \
  LONG(64, options.capacity) REAL(72, options.fpp) LONG(80, options.max_bytes) \
  INT(88, options.stripes) INT(92, options.layout) \
  LONG(SAVED_FIGURES_AT, figures.count) LONG(104, figures.bytes) \
  LONG(112, figures.growths) \
  REAL(120, figures.load) REAL(128, figures.fpp_estimate) REAL(136, figures.estimated_count) \
  LONG(144, figures.bits) LONG(152, figures.bits_set) LONG(160, figures.bits_per_key) \
  LONG(168, figures.segments) LONG(176, figures.joins) LONG(184, figures.generations) \
  LONG(192, figures.fingerprint_bits) REAL(200, figures.occupancy) LONG(208, figures.united_count)
/* clang-format on */

/* LAYERS: the file has several layers of a Bloom filter.  WINDOW: the filter is a sliding window.
 * LIVE: processes share the file and change it, so arrays have no sums, and the file has no
 * trailer.  COUNTED: a cuckoo filter made for several processes (window/counted.h). */
#define SAVED_LAYERS UINT64_C(1)
#define SAVED_WINDOW UINT64_C(2)
#define SAVED_LIVE UINT64_C(4)
#define SAVED_COUNTED UINT64_C(8)

/* In the geometry of a window file: the options `window` and `window_renews`. */
enum { SAVED_WINDOW_PERIODS, SAVED_WINDOW_RENEWS };

struct saved_head {
  /* The options at the filter's creation.  The file lacks `hash` and `hash_context`. */
  tamis_options options;
  bool own_hash;                     /* the filter has a hash function of the user's */
  uint64_t probe;                    /* filter_probe(), which differs between hash functions */
  tamis_stats figures;               /* the figures when the save began; no check depends on them */
  uint64_t geometry[SAVED_GEOMETRY]; /* numbers that the kind defines; unused ones are zero */
  uint64_t features;                 /* SAVED_LAYERS and others; a reader must know all of them */
  /* The most bytes that the load may take.  0: no limit.  Not in the file. */
  uint64_t limit;
  /* The number of the oldest layer of a window that is saved, and how the window's periods are
   * numbered (window/epoch.h).  Not in the file. */
  uint64_t oldest, numbers;
};

/* ---- numbers in files: little-endian ---- */

enum { SAVED_SWAPPED = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

static inline uint64_t saved_u64(uint64_t x)
{
  return SAVED_SWAPPED ? __builtin_bswap64(x) : x;
}

/* Converts words between the byte orders of machine and file.  On a little-endian machine, leaves
 * the words alone, as they may be mapped read-only. */
static inline void saved_swap(uint64_t *words, uint64_t n)
{
  for (uint64_t i = 0; SAVED_SWAPPED && i < n; i++)
    words[i] = saved_u64(words[i]);
}

static inline uint64_t saved_get64(const void *from)
{
  uint64_t x;
  memcpy(&x, from, sizeof x);
  return saved_u64(x);
}

static inline void saved_put64(void *to, uint64_t x)
{
  x = saved_u64(x);
  memcpy(to, &x, sizeof x);
}

static inline uint32_t saved_get32(const void *from)
{
  const unsigned char *b = from;
  return b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24;
}

static inline void saved_put32(void *to, uint32_t x)
{
  unsigned char *b = to;
  for (unsigned i = 0; i < 4; i++)
    b[i] = (unsigned char) (x >> 8 * i);
}

static inline uint64_t saved_of_double(double x)
{
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double saved_to_double(uint64_t bits)
{
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* ---- sums ---- */

/* Adds a sum to a digest, which is a sum over sums.  The digest of no sums is 0. */
static inline uint64_t saved_next_digest(uint64_t digest, uint64_t sum)
{
  sum = saved_u64(sum);
  return hash_sum(&sum, sizeof sum, digest);
}

/* The sum of a block, over the first 56 bytes of its head and over its payload. */
static inline uint64_t saved_block_sum(const void *head, const void *payload, size_t size)
{
  return hash_sum(payload, size, hash_sum(head, SAVED_UNIT - 8, 0));
}

static inline uint64_t saved_chunks(uint64_t size)
{
  return size / SAVED_CHUNK + (size % SAVED_CHUNK != 0);
}

/* The size of the chunk that begins at offset `at` of an array of `size` bytes. */
static inline size_t saved_chunk(uint64_t size, uint64_t at)
{
  return size - at < SAVED_CHUNK ? (size_t) (size - at) : SAVED_CHUNK;
}

/* ---- writing ----
 *
 * A writer collects bytes in a buffer.  Every function except tamis__saved_block() may call the
 * user's write function, so its caller must hold no lock.  After the first error, which stays in
 * the member `result`, the functions write nothing more. */

struct saved_writer {
  const struct saved_head *head;
  tamis_write_function write;
  void *context;
  tamis_allocator allocator;
  int result;
  int error; /* errno when the user's function failed */
  unsigned char *buffer;
  size_t used;
  uint64_t at; /* bytes of the file so far, including those in the buffer */
  uint64_t blocks;
  uint64_t digest;
  uint64_t totals[SAVED_TOTALS]; /* the kind sets them */
};

/* Begins a file with its header.  The caller must end the file, even after an error. */
void tamis__saved_begin(struct saved_writer *w, const struct saved_head *head);

/* Writes the trailer and all bytes in the buffer, and releases all memory.  Returns the result.  If
 * it is TAMIS_EIO, errno is as the user's function has left it. */
int tamis__saved_end(struct saved_writer *w);

/* As tamis__saved_end(), for the file of a live filter, which has no trailer. */
int tamis__saved_end_live(struct saved_writer *w);

/* Makes room for the payload of a block, at most SAVED_CHUNK bytes. */
void *tamis__saved_block_room(struct saved_writer *w, size_t size);

/* Adds a block, whose payload is in the room of tamis__saved_block_room(). */
void tamis__saved_block(struct saved_writer *w, uint32_t type,
                        const uint64_t meanings[SAVED_MEANINGS], size_t size);

/* Copies to `to` the n bytes that begin at the offset `at` of an array. */
typedef void saved_fill(void *context, uint64_t at, size_t n, void *to);

/* Writes an array of `size` bytes, a multiple of SAVED_UNIT, and its sums.  Calls `fill` for each
 * chunk, in their order.  Returns the offset in the file at which the array begins. */
uint64_t tamis__saved_array(struct saved_writer *w, uint64_t size, saved_fill *fill, void *context);

/* ---- reading ----
 *
 * All functions return a result.  After an error only tamis__saved_close() may be called. */

struct saved_reader {
  tamis_read_function read; /* NULL: the mapping is read */
  void *context;
  const unsigned char *mapping; /* NULL: the file is not mapped */
  uint64_t mapping_size;
  bool check_all; /* the sums of mapped arrays are checked, too */
  bool borrowed;  /* the mapping belongs to another filter */
  bool jumped;    /* tamis__saved_jump() has skipped parts of the mapping */
  bool live;      /* the filter is live (SAVED_LIVE); other bytes may follow it */
  bool packed;
  bool zeros;   /* the current run of a packed file consists of zeros */
  unsigned run; /* bytes of the current run that have not been read */
  int error;
  tamis_allocator allocator;
  uint64_t at; /* bytes read, including those in `next` */
  uint64_t blocks;
  uint64_t digest;
  unsigned char *buffer; /* holds the payload of the last block */
  size_t buffer_size;
  unsigned char next[SAVED_UNIT]; /* the bytes after the payload, if have_next is true */
  bool have_next;
};

struct saved_block {
  uint32_t type; /* SAVED_END: the trailer follows */
  uint64_t meanings[SAVED_MEANINGS];
  size_t size;
  const unsigned char *payload; /* valid until the next call; aligned to 64 bytes */
};

int tamis__saved_read_bytes(struct saved_reader *r, void *to, size_t size);

int tamis__saved_read_header(struct saved_reader *r, struct saved_head *out);

/* Skips optional blocks, then reads the type of the next block.  If no block follows, *type becomes
 * a number that is no kind's type.  Invalidates the payload of the last block. */
int tamis__saved_peek(struct saved_reader *r, uint32_t *type);

int tamis__saved_read_block(struct saved_reader *r, struct saved_block *out);

/* Memory for arrays, which follow one another in one block from the reader's allocator.  The block
 * grows while arrays are read.  The caller must release the block, even after an error. */
struct saved_memory {
  unsigned char *block; /* the memory; it moves when it grows */
  uint64_t bytes, used; /* the size of the block, and the bytes that arrays fill */
  uint64_t all;         /* the final size, for all arrays; 0: there is only one array */
  uint64_t limit;       /* the most bytes that may be allocated at a time; 0: no limit */
  const void *array;    /* the array that was read last, in the block or in the mapping */
  uint64_t begin;       /* the offset at which `array` begins in the file */
};

/* Reads an array of `size` bytes, a multiple of SAVED_UNIT.  Checks the array by its sums, which a
 * live filter lacks.  If the file is mapped and r->check_all is false, reads only the sums. */
int tamis__saved_read_array(struct saved_reader *r, uint64_t size, struct saved_memory *m);

/* Reads the trailer.  Returns TAMIS_ECORRUPT if a block comes instead. */
int tamis__saved_read_end(struct saved_reader *r, uint64_t totals[SAVED_TOTALS]);

/* For a mapping whose arrays are not checked: tamis__saved_read_totals() reads the trailer's
 * totals, and tamis__saved_jump() makes the reader go on with the block at the offset `to`. */
int tamis__saved_read_totals(const struct saved_reader *r, uint64_t totals[SAVED_TOTALS]);
int tamis__saved_jump(struct saved_reader *r, uint64_t to);

/* Releases all but the mapping.  If the user's function has failed, restores its errno. */
void tamis__saved_close(struct saved_reader *r);

/* ---- mapped filters ----
 *
 * If r->mapping is not NULL, a kind builds a filter that uses the arrays in the mapping and owns
 * the mapping: tamis_destroy() unmaps it.  After an error the caller owns the mapping. */

struct saved_mapping {
  WIDE const void *at; /* NULL: there is no mapping */
  uint64_t size : 62;
  uint64_t checked : 1, borrowed : 1; /* see struct saved_reader */
};

static inline struct saved_mapping saved_mapping_of(const struct saved_reader *r)
{
  return (struct saved_mapping){r->mapping, r->mapping_size & UINT64_MAX >> 2, r->check_all,
                                r->borrowed};
}

void tamis__saved_unmap(const struct saved_mapping *mapping);

/* Returns operations for a read-only filter: those that change it return TAMIS_EUNSUPPORTED. */
struct filter_operations tamis__read_only(const struct filter_operations *operations);

#endif
