/* SPDX-License-Identifier: MIT
 *
 * The work: put your own in the place of work.c.
 */
#ifndef CONSUMERS_WORK_H
#define CONSUMERS_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* False: it has said why. */
bool work_open(const char *path);
/* False: what was written is not safe, and it has said so. */
bool work_close(void);

/* Works one message, by several threads at once.  When it returns true, the effect of the work must
 * be as durable as it is meant to be, for then the message is acknowledged.  When it returns false,
 * there must be no effect; the message is worked again a second later.  A message that nobody can
 * work must be put aside by the work itself, which then returns true. */
bool work(unsigned thread, const void *id, size_t id_len, const void *body, size_t len);

#endif /* CONSUMERS_WORK_H */
