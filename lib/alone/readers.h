/* SPDX-License-Identifier: MIT
 *
 * Layer 1: reclaim.h where nothing is taken from readers: for one thread (layer1.h), and for many if no
 * table grows (TAMIS_WITHOUT_CUCKOO_GROWTH).  It needs no liburcu.
 */
#ifndef TAMIS_LIB_ALONE_READERS_H
#define TAMIS_LIB_ALONE_READERS_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TAMIS_LIB_RECLAIM_H

typedef const char *reader_token;

static inline reader_token reader_enter(void)
{
  return "";
}

static inline void reader_leave(reader_token token)
{
  (void) token;
}

static inline reader_token registered_reader_enter(void)
{
  return "";
}

static inline void registered_reader_leave(reader_token token)
{
  (void) token;
}

enum { tamis__read_sections = 0 };
enum reader_pause { READER_OUTSIDE };

static inline enum reader_pause tamis__reader_pause(bool inside)
{
  (void) inside;
  return READER_OUTSIDE;
}

static inline void tamis__reader_resume(enum reader_pause pause)
{
  (void) pause;
}

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

static inline bool tamis__readers_init(void)
{
  return true;
}

static inline bool tamis__backlog_init(struct backlog *backlog, backlog_release *release,
                                       void *owner, const _Atomic uint64_t *bytes)
{
  (void) bytes;
  *backlog = (struct backlog){.release = release, .owner = owner};
  return true;
}

static inline void tamis__backlog_destroy(struct backlog *backlog)
{
  (void) backlog;
}

/* Released at once: there are no other threads, or no table grows, and then nothing is ever retired. */
static inline void tamis__backlog_retire(struct backlog *backlog, struct retired *block,
                                         uint64_t size, bool hurry)
{
  (void) hurry;
  backlog->release(backlog->owner, block, size);
}

static inline bool tamis__backlog_drain(struct backlog *backlog)
{
  (void) backlog;
  return false;
}

static inline bool tamis__backlog_hurry(struct backlog *backlog)
{
  (void) backlog;
  return false;
}

#endif
