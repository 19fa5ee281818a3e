/* SPDX-License-Identifier: MIT
 *
 * Layer 1: replaces reclaim.h in a build for one thread (layer1.h), and in a build where no table
 * grows (TAMIS_WITHOUT_CUCKOO_GROWTH).  Memory is released at once, so liburcu is not needed.
 */
#ifndef TAMIS_LIB_ALONE_READERS_H
#define TAMIS_LIB_ALONE_READERS_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TAMIS_LIB_RECLAIM_H

typedef const char *reader_token;

#define reader_enter() ""
#define reader_leave(token) ((void) (token))
#define registered_reader_enter() ""
#define registered_reader_leave(token) ((void) (token))

enum { tamis__read_sections = 0 };
enum reader_pause { READER_OUTSIDE };

#define tamis__reader_pause(inside) ((void) (inside), READER_OUTSIDE)
#define tamis__reader_resume(pause) ((void) (pause))

struct retired {
  struct retired *next;
  uint64_t size;
};

typedef void backlog_release(void *owner, struct retired *block, uint64_t size);
typedef bool backlog_in_use(const struct retired *block);

struct backlog {
  WIDE backlog_release *release;
  WIDE backlog_in_use *in_use;
  WIDE void *owner;
  _Atomic uint64_t held; /* always 0 */
  uint64_t unused[4];
};

#define tamis__readers_init() true

static inline bool tamis__backlog_init(struct backlog *backlog, backlog_release *release,
                                       void *owner, const _Atomic uint64_t *bytes)
{
  (void) bytes;
  *backlog = (struct backlog){.release = release, .owner = owner};
  return true;
}

#define tamis__backlog_destroy(backlog) ((void) (backlog))

/* Releases the block at once: the only thread no longer uses it.  (A build where no table grows can
 * have other threads, but retires no block.) */
static inline void tamis__backlog_retire(struct backlog *backlog, struct retired *block,
                                         uint64_t size, bool hurry)
{
  (void) hurry;
  backlog->release(backlog->owner, block, size);
}

static inline bool tamis__backlog_drain(struct backlog *backlog, bool hurry)
{
  (void) backlog, (void) hurry;
  return false;
}

#endif
