/* SPDX-License-Identifier: MIT
 *
 * The ids that this process is about to insert, or has inserted and the follower has not yet seen.
 *
 * Without them, an id would be refused between its commit and the moment when logical decoding
 * brings it.  They are no part of the filter: a transaction that fails has nothing to take out of
 * it again, and the follower's own add of the id is the only one, so that the filter holds exactly
 * one copy for each row.
 *
 * An entry is made before the INSERT is sent.  When the transaction has ended, whatever its result,
 * the entry gets a position of the log at which it had ended.  When the follower has passed this
 * position, the filter has the id if the database has it, and the entry goes.
 *
 * Where too many entries wait, because the follower has been away for long, those that have a
 * position are replaced by one figure, the fence: until the follower has passed it, all ids are
 * pending.
 */
#ifndef GUARD_PENDING_H
#define GUARD_PENDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pending_id {
  struct pending_id *next; /* in its bucket */
  struct pending_id
      *behind;    /* in the queue of those that have a position, or for the owner's use */
  uint64_t ended; /* the position */
  char id[];
};

enum { PENDING_BUCKETS = 1 << 14, PENDING_MOST = 1 << 18 };

struct pending {
  pthread_mutex_t mutex;
  struct pending_id *first, **last; /* the queue */
  uint64_t count, queued;
  uint64_t passed, fence;
  struct pending_id *buckets[PENDING_BUCKETS];
};

void pending_init(struct pending *pending);
void pending_destroy(struct pending *pending);

/* NULL without memory; then the id must not be inserted. */
struct pending_id *pending_begin(struct pending *pending, const char *id);

/* The transaction had ended when the log ended at `ended`.  The entry belongs to the set now. */
void pending_end(struct pending *pending, struct pending_id *entry, uint64_t ended);

bool pending_has(struct pending *pending, const char *id);

/* The filter has all that ended at or before this position. */
void pending_pass(struct pending *pending, uint64_t at);

uint64_t pending_count(struct pending *pending);

#endif
