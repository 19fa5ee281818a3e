/* SPDX-License-Identifier: MIT
 *
 * A bank of filters, one or two for each partition, in files of one folder:
 *
 *    DAY.open     shared by all processes: the ids of a partition that takes rows
 *    DAY.closed   saved, and mapped by readers: the ids of a partition that was closed
 *    DAY.late     shared: the ids of rows that came to it since
 *    DAY.lock     held shared by who adds ids and then inserts their rows, until the rows are
 *                 committed; held alone by who closes the partition
 *
 * An id is in a filter of its partition before the row is sent to the database.  So a reader that
 * asks the filters first, and the database then, finds every row whose insert was acknowledged
 * before the look-up began:
 *
 *   - A partition without files may hold anything, and is searched.
 *   - While a partition is closed, nobody adds: DAY.late is made, DAY.closed is written whole, and
 *     then DAY.open is removed.  Whoever adds later sees DAY.closed, and adds to DAY.late.
 *   - A reader looks whether its DAY.open still has its name before it asks the filters.  If not, it
 *     opens the bank anew.
 *   - Whatever is killed at any moment, an id may be in a filter without a row, which costs a needless
 *     search, but no row is without its id.  Locks end with their process.
 */
#ifndef PARTITIONS_BANK_H
#define PARTITIONS_BANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tamis/tamis.h>

/* What a partition is made for: the rows of a day, and the rate of needless searches. */
struct bank_plan {
  const char *folder;
  unsigned long rows;
  double rate;
};

struct partition {
  int day;
  tamis_filter *filter; /* DAY.open, or DAY.closed; NULL: unknown */
  tamis_filter *late;   /* NULL: it is not closed */
  bool is_open;
  uint64_t file; /* of an inserter's filter: the number of its inode, as the file may be replaced */
  int lock;      /* -1: not held */
};

/* These print a message and return false, or NULL, if they fail. */

/* Opens what files a partition has, for a reader. */
bool bank_open(const struct bank_plan *plan, int day, struct partition *p);

/* Whether an open partition is still open. */
bool bank_is_current(const struct bank_plan *plan, const struct partition *p);

/* Makes DAY.open, before the partition itself is made: only then are all ids of it known. */
bool bank_create_day(const struct bank_plan *plan, int day);

/* Holds the lock for an inserter, and opens the filter that takes ids: DAY.late or DAY.open; none if
 * the partition is unknown.  The handle of an earlier call is used again, if it has not been closed. */
bool bank_begin_insert(const struct bank_plan *plan, int day, struct partition *p);
bool bank_add(struct partition *p, const char *id);
void bank_end_insert(struct partition *p);

bool bank_close_day(const struct bank_plan *plan, int day);

/* Makes an unknown partition a closed one, of the ids that `next` gives: it returns false if it fails,
 * and sets the id to NULL after the last one.  It is called with the lock held alone, so that nobody
 * inserts through the bank. */
bool bank_rebuild_day(const struct bank_plan *plan, int day,
                      bool (*next)(void *context, const char **id), void *context);

/* Removes the files of a partition, which is then unknown: before one is attached whose rows came
 * past the bank. */
bool bank_forget(const struct bank_plan *plan, int day);

void bank_free(struct partition *p);

#endif
