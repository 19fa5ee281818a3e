/* SPDX-License-Identifier: MIT
 *
 * A list that `tamis build` makes, for example of access tokens that were revoked.  It is mapped,
 * so that all processes that use it share its memory, and replaced while the program runs: when the
 * path leads to another file, or when the operator says so by SIGHUP.
 */
#ifndef GUARD_BLOCKLIST_H
#define GUARD_BLOCKLIST_H

#include "filter.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct blocklist {
  const char *path; /* NULL: there is none */
  struct shared_filter filter;
  struct stat status; /* of the file that was tried last */
  _Atomic uint64_t loads, failures;
};

void blocklist_init(struct blocklist *list, const char *path);
void blocklist_destroy(struct blocklist *list);

/* Takes the file, if it is another one than before, or if `always`.  Where it cannot be used, the
 * old list stays, and the reason is said.  True if a list is there. */
bool blocklist_refresh(struct blocklist *list, bool always);

bool blocklist_has(struct blocklist *list, const char *word);

#endif
