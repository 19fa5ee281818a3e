/* SPDX-License-Identifier: MIT
 *
 * A key's bytes (image.h), cut into chunks.  SCANDUMP gives them out, LOADCHUNK takes them, an AOF
 * contains them, and a copy is made through them.
 *
 *    chunk: a head of 64 bytes, then at most CHUNK_BYTES bytes of records: a u32 with a number of
 *           bytes that are zero, a u32 with a number of other bytes, and these
 *
 * So what has been reserved and not used takes no room.
 *
 *    head, all numbers little-endian:
 *       0  8 bytes  the magic TAMISCHK
 *       8  u64      1, the version
 *      16  u64      the kind of filter, as in tamis_kind
 *      24  u64      id: the same in all chunks of one key
 *      32  u64      number of the chunk, from 0
 *      40  u64      1 in the last chunk, else 0
 *      48  u64      bytes after the head
 *      56  u64      sum of the other bytes
 *
 * A chunk says what it is, so one that is damaged, that comes in the wrong order, or that belongs
 * to another dump is refused when it comes, and nothing has changed.
 */
#ifndef TAMIS_REDIS_CHUNKS_H
#define TAMIS_REDIS_CHUNKS_H

#include "tamis/tamis.h"

enum {
  CHUNK_HEAD = 64,
  CHUNK_BYTES = (1 << 20) - CHUNK_HEAD, /* so a whole chunk has 1 MiB at most */
  CURSOR_BITS = 20,                     /* of a cursor, for the number of the next chunk */
  TAG_BITS = 31,                        /* before them, of which the first one is set */
  MOST_CHUNKS = (1 << CURSOR_BITS) - 2
};

/* What the head says. */
struct chunk {
  tamis_kind kind;
  uint64_t id;
  uint64_t number;
  bool last;
  size_t size; /* of what follows the head */
};

/* Reads a chunk.  False: it is none, or damaged. */
bool chunk_parse(const void *data, size_t size, struct chunk *out);

/* Writes the head before the bytes that follow it. */
void chunk_seal(unsigned char *data, const struct chunk *chunk);

/* The id of chunks, from the contents of the first one. */
uint64_t chunk_id(const void *contents, size_t size);

/* The cursor that comes with a chunk: a tag of its dump, and the number of the chunk that follows, or
 * CURSOR_END.  It is from CURSOR_FROM to below twice that: JavaScript's numbers are exact up to 2^53,
 * and numbers that count bytes or chunks are no cursors. */
#define CURSOR_FROM (1LL << (CURSOR_BITS + TAG_BITS - 1))
enum { CURSOR_END = (1 << CURSOR_BITS) - 1 };
long long chunk_cursor(const struct chunk *chunk);

/* What becomes of a cut piece: CHUNK_HEAD bytes of room, then `size` bytes.  Not 0: stop. */
typedef int (*chunk_taker)(void *context, unsigned char *with_head, size_t size, bool last);

/* Cuts what is written to it: as it is, or (`sparse`) as the records of chunks. */
struct cutter {
  chunk_taker take;
  void *context;
  unsigned char *buffer;
  size_t used;
  bool sparse;
  size_t record;   /* where the open record begins, plus 1; 0: none is open */
  uint64_t zeros;  /* before what comes */
  uint64_t looked; /* how many bytes this chunk stands for */
};

/* False: no memory. */
bool cutter_begin(struct cutter *c, bool sparse, chunk_taker take, void *context);
/* A tamis_write_function. */
int cutter_write(void *cutter, const void *data, size_t size);
/* Passes the last piece on, unless that failed before or `result` is a failure; returns the
 * result. */
int cutter_end(struct cutter *c, int result);

/* Chunks in memory, in order. */
struct chunks {
  unsigned char **chunk; /* with their heads */
  size_t count, room;
  uint64_t bytes; /* of all, without the heads */
};

/* Adds a copy of a chunk with its head.  False: no memory, or too many; nothing changed. */
bool chunks_append(struct chunks *c, const void *data, size_t size);
void chunks_remove_last(struct chunks *c);
void chunks_clear(struct chunks *c);
size_t chunks_size_of(const struct chunks *c, size_t number);
size_t chunks_memory(const struct chunks *c);
/* A chunk_taker, with struct chunks as its context.  The heads have the size, and no more. */
int chunks_take(void *chunks, unsigned char *with_head, size_t size, bool last);

/* Reads what chunks contain. */
struct chunks_reader {
  struct chunks *chunks;
  size_t number, at;
  uint32_t zeros, others; /* left of a record */
  bool consumes;          /* frees each chunk when it has been read, and leaves NULL in its place */
};

/* A tamis_read_function.  Memory that is zero already is not written to, so it takes no pages. */
int64_t chunks_read(void *reader, void *data, size_t size);

#endif /* TAMIS_REDIS_CHUNKS_H */
