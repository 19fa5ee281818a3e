/* SPDX-License-Identifier: MIT
 *
 * The filter on disk, together with its position in the log.
 *
 * The position is in the name of the file, SLOT.LOG.POSITION.tamis.  Therefore one renaming, which
 * is atomic, publishes both, and no file has a position that is not its own.  LOG says whose log
 * it is: that of a database cluster, one of its timelines, one state of a publication, one entry
 * of a table in it, and one column.  A file of another log is of no use: either positions cannot
 * be compared, or the changes are those of other ids, or some were not published.
 */
#ifndef GUARD_SAVED_H
#define GUARD_SAVED_H

#include <stdbool.h>
#include <stdint.h>
#include <tamis/tamis.h>

struct log_identity {
  uint64_t system;
  uint32_t timeline, publication, entry, column;
};

bool same_log(const struct log_identity *a, const struct log_identity *b);

/* Loads the file of this log with the latest position.  False if there is none, or if it cannot be
 * used, which has been said. */
bool saved_load(const char *folder, const char *slot, const struct log_identity *log,
                tamis_filter **filter, uint64_t *at);

/* Saves the filter, and then deletes all other files of the slot.  False: that has been said, and
 * the old file is there as it was. */
bool saved_store(const char *folder, const char *slot, const struct log_identity *log,
                 const tamis_filter *filter, uint64_t at);

#endif
