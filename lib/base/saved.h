/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the container of a saved filter: a stream of bytes that is written and read once, from
 * its beginning to its end.  docs/reference/format.md describes it; nothing here knows a kind of
 * filter.
 *
 *    header | array, with its sums | block | block | ... | trailer
 *
 *   header    the options, the figures, and the geometry as the kind has it: 512 bytes
 *   block     at most 1 MiB, with a type and four numbers whose meaning the kind gives
 *   array     a part that look-ups can use where it lies in the file, at a multiple of 4096 bytes;
 *             a sum for each MiB follows it
 *   trailer   totals, and a sum over all sums
 *
 * A kind writes and reads the blocks and arrays; saved_write.c and saved_read.c do the rest, except
 * that `load` also reads the trailer (tamis__saved_read_end), for its totals, before it returns a
 * filter.
 *
 *    describe   Fills what the header says, except for the seed, the hash function and the figures.
 *               Of the figures it fills in `bytes`, without what differs between machines, so that
 *               a filter is saved to the same bytes everywhere.
 *    figures    Fills in those figures that follow from others by functions of libm, which differ
 *               between machines: load, fpp_estimate, estimated_count, occupancy.  The file has
 *               none of them then.  NULL: the file has all, fpp_estimate with the precision of a
 *               float.
 *    bytes_beside
 *               What the filter will take on this machine beside the header's `bytes`, as far as
 *               the header says it.
 *    own_options
 *               Fills in those options of the filter that the header's geometry says.
 *    save       Writes the body, and sets w->totals.
 *    load       Reads what `save` writes.  `head` is what the filter begins with, except its
 *               operations.  *out is written only with TAMIS_OK, after an error nothing is left.
 *
 * A file may contain anything.  A right sum says that bytes are as they were written, but not who
 * has written them.  So each number is checked against what is possible before it is used, and
 * everything that can be counted is counted again.
 */
#ifndef TAMIS_LIB_SAVED_H
#define TAMIS_LIB_SAVED_H

#include "base/filter.h"

#include <string.h>

enum {
  SAVED_CHUNK = SMALL(1 << 20, 1 << 10), /* the largest payload; the part of an array with a sum */
  SAVED_UNIT = 64,              /* all parts begin at a multiple of it, counted from the header */
  SAVED_ARRAY_ALIGNMENT = 4096, /* arrays begin at a multiple of this */
  SAVED_HEADER = 512,           /* bytes */
  SAVED_GEOMETRY = 31,          /* numbers */
  SAVED_TOTALS = 3,
  SAVED_MEANINGS = 4
};

/* Types of blocks.  A kind has types of its own, from SAVED_KIND_BLOCKS on.  A reader passes over a
 * block whose type it does not know if the type has the bit SAVED_OPTIONAL. */
enum { SAVED_END = 0, SAVED_SUMS = 1, SAVED_KIND_BLOCKS = 16 };
#define SAVED_OPTIONAL (UINT32_C(1) << 31)

/* Offsets in a header, and values of its fields. */
#define SAVED_MAGIC "\x89TAMIS\r\n"
#define SAVED_TRAILER_MAGIC "TAMISEND"
/* The beginning of a file that processes will share, while it is written in place.  It differs from
 * the magic in a single byte, so no process reads a mixture of both. */
#define SAVED_UNFINISHED "\x89TAMIS\r?"
/* The beginning of a packed file: a small filter, in which runs of zeros are left out.  After it, a
 * byte of 0 to 127 says that so many bytes and one follow, and a greater one, with the next byte,
 * that up to 2^15 zeros are left out. */
#define SAVED_PACKED "\x89TAMISp\n"
enum { SAVED_PACKED_MOST = 1 << 14 }; /* bytes, when it is unpacked */

enum {
  SAVED_VERSION = 1,
  SAVED_HASH_XXH3 = 1,
  SAVED_HASH_OWN = 2,
  SAVED_MIXING = 1, /* hash.h */
  SAVED_FIGURES = 15,
  SAVED_FIGURES_AT = 96,
  SAVED_GEOMETRY_AT = 256
};

/* Features.  LAYERS: a Bloom filter has several.  WINDOW: it is a sliding window.  LIVE: processes
 * share it and change it, so arrays have no sums, and there is no trailer.  COUNTED: it is a cuckoo
 * filter as processes share it (window/counted.h). */
#define SAVED_LAYERS UINT64_C(1)
#define SAVED_WINDOW UINT64_C(2)
#define SAVED_LIVE UINT64_C(4)
#define SAVED_COUNTED UINT64_C(8)

/* What a header says. */
struct saved_head {
  /* Of the filter, as it was asked for: kind, capacity, fpp, growable, max_bytes, layout, stripes;
   * and its seed.  But hash and hash_context are those of the load. */
  tamis_options options;
  bool own_hash;                     /* the filter has a hash function of its user's */
  uint64_t probe;                    /* the hash of a certain key */
  tamis_stats figures;               /* when the save began: only to be shown */
  uint64_t geometry[SAVED_GEOMETRY]; /* of the kind; unused ones are zero */
  uint64_t features;                 /* that a reader must know */
  /* Not in the file: the bytes that the load may take; 0: no limit. */
  uint64_t limit;
  /* Of a window that is saved, and not in the file: the number of its oldest layer, and the numbers
   * of its periods (window/epoch.h). */
  uint64_t oldest, numbers;
};

/* ---- numbers in files: little-endian ---- */

enum { SAVED_SWAPPED = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

static inline uint64_t saved_u64(uint64_t x)
{
  return SAVED_SWAPPED ? __builtin_bswap64(x) : x;
}

/* Converts words between the byte orders of the machine and of a file.  Little-endian machines
 * write nothing: the words may be mapped. */
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

/* A sum over sums: `digest` is the one over the sums before, or 0. */
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

/* How many chunks an array has. */
static inline uint64_t saved_chunks(uint64_t size)
{
  return size / SAVED_CHUNK + (size % SAVED_CHUNK != 0);
}

/* ---- writing ----
 *
 * A writer collects bytes in a buffer.  Only the functions that make room call the user's
 * function: never call these with a lock held.
 *
 * The first error stays in `result`.  After it all functions do nothing, and room is NULL. */

struct saved_writer {
  const struct saved_head *head;
  tamis_write_function write;
  void *context;
  tamis_allocator allocator;
  int result;
  int error; /* errno, as the user's function has left it when it failed */
  unsigned char *buffer;
  size_t used;                   /* bytes in the buffer */
  uint64_t at;                   /* bytes of the file, in the buffer or written */
  uint64_t blocks;               /* so far */
  uint64_t digest;               /* of all sums so far */
  uint64_t totals[SAVED_TOTALS]; /* for the kind to set */
  /* The array that is being written: */
  unsigned char *sums; /* of its chunks */
  uint64_t sums_bytes; /* that are allocated */
  uint64_t array_at;   /* bytes of the array so far */
  uint64_t array_size; /* bytes of the array in all */
  size_t chunk;        /* where in the buffer the chunk that is not full begins */
};

/* Begins a file with its header.  tamis__saved_end() follows in any case. */
void tamis__saved_begin(struct saved_writer *w, const struct saved_head *head);

/* Writes the trailer and the rest of the buffer, and releases all memory.  Returns the result; with
 * TAMIS_EIO, errno is as the user's function has left it. */
int tamis__saved_end(struct saved_writer *w);

/* Ends a file without a trailer. */
int tamis__saved_end_live(struct saved_writer *w);

/* Room for the payload of a block.  `size` is at most SAVED_CHUNK. */
void *tamis__saved_block_room(struct saved_writer *w, size_t size);

/* Adds a block whose payload has been put into the room. */
void tamis__saved_block(struct saved_writer *w, uint32_t type,
                        const uint64_t meanings[SAVED_MEANINGS], size_t size);

/* Begins an array of `size` bytes, a multiple of SAVED_UNIT. */
void tamis__saved_array_begin(struct saved_writer *w, uint64_t size);

/* Room for the next bytes of the array, at most SAVED_CHUNK. */
void *tamis__saved_array_room(struct saved_writer *w, size_t size);

/* Adds `size` bytes that have been put into the room. */
void tamis__saved_array(struct saved_writer *w, size_t size);

/* All bytes have been added: writes the sums. */
void tamis__saved_array_end(struct saved_writer *w);

/* ---- reading ----
 *
 * All functions return a result.  After an error only tamis__saved_close() may be called. */

struct saved_reader {
  tamis_read_function read; /* NULL: from the mapping */
  void *context;
  const unsigned char *mapping; /* NULL: there is none */
  uint64_t mapping_size;
  bool check_all; /* check mapped bytes, too */
  bool borrowed;  /* the mapping is another filter's */
  bool ended;     /* the trailer has been read, and is right */
  bool jumped;    /* parts of the mapping have been passed over */
  bool live;      /* the filter is live, so anything may follow it */
  bool packed;    /* the file is */
  bool zeros;     /* the run is left out */
  unsigned run;   /* bytes of a packed file until the next run begins */
  int error;      /* errno, as the user's function has left it when it failed */
  tamis_allocator allocator;
  uint64_t at; /* bytes read, with those of `next` */
  uint64_t blocks;
  uint64_t digest;
  unsigned char *buffer; /* of the payload of the last block */
  size_t buffer_size;
  unsigned char next[SAVED_UNIT]; /* what follows: the beginning of a block, or the trailer */
  bool have_next;
};

struct saved_block {
  uint32_t type; /* SAVED_END: there are no more blocks */
  uint64_t meanings[SAVED_MEANINGS];
  size_t size;
  const unsigned char *payload; /* until the next call; at a multiple of 64 bytes in memory */
};

/* Reads the header. */
int tamis__saved_read_header(struct saved_reader *r, struct saved_head *out);

/* Reads the type of the next block, and passes over optional blocks before it.  If no block
 * follows, *type is no type of a kind.  The payload of the last block is not valid any more. */
int tamis__saved_peek(struct saved_reader *r, uint32_t *type);

/* Reads the next block, and checks it. */
int tamis__saved_read_block(struct saved_reader *r, struct saved_block *out);

/* Memory for arrays, which follow one another in one block from the reader's allocator.  It grows
 * as they come.  The caller releases the block, `bytes` long, whatever the result. */
struct saved_memory {
  unsigned char *block; /* it moves when it grows */
  uint64_t bytes, used;
  uint64_t all;   /* bytes of all arrays: in the end the block is exactly as long */
  uint64_t limit; /* bytes that may be allocated at any moment; 0: no limit */
};

/* Reads an array of `size` bytes, a multiple of SAVED_UNIT, with its sums, and checks it.  In a
 * mapped file that is not to be checked, the array is not read.
 *   *out    where the array is: in the memory, or in the mapping
 *   *begin  where in the file the array begins */
int tamis__saved_read_array(struct saved_reader *r, uint64_t size, struct saved_memory *m,
                            const void **out, uint64_t *begin);

/* The same for bytes of a live filter, which have no sums. */
int tamis__saved_read_live(struct saved_reader *r, uint64_t size, struct saved_memory *m,
                           const void **out);

/* Reads the trailer.  TAMIS_ECORRUPT also: a block comes first. */
int tamis__saved_read_end(struct saved_reader *r, uint64_t totals[SAVED_TOTALS]);

/* In a mapping that is not to be checked: reads the trailer's totals before anything else is read;
 * makes the block at `to` the next one to be read. */
int tamis__saved_read_totals(const struct saved_reader *r, uint64_t totals[SAVED_TOTALS]);
int tamis__saved_jump(struct saved_reader *r, uint64_t to);

/* Releases what the reader holds, but not the mapping.  If the user's function has failed, errno is
 * as it has left it. */
void tamis__saved_close(struct saved_reader *r);

/* ---- mapped filters ----
 *
 * If r->mapping is not NULL, a kind builds a filter that uses arrays where they lie, and keeps
 * the mapping, which it unmaps when the filter is destroyed.  After an error the mapping stays. */

struct saved_mapping {
  WIDE const void *at; /* NULL: none */
  uint64_t size : 62;
  uint64_t checked : 1, borrowed : 1; /* as in the reader */
};

static inline struct saved_mapping saved_mapping_of(const struct saved_reader *r)
{
  return (struct saved_mapping){r->mapping, r->mapping_size & UINT64_MAX >> 2, r->check_all,
                                r->borrowed};
}

void tamis__saved_unmap(const struct saved_mapping *mapping);

/* The same operations, except that those that change the filter return TAMIS_EUNSUPPORTED. */
struct filter_operations tamis__read_only(const struct filter_operations *operations);

#endif
