/* SPDX-License-Identifier: MIT
 *
 * What the files of the frontier share: frontier.c keeps its promises, next.c decides who is asked
 * next, open.c begins and ends it.
 */
#ifndef CRAWLER_FRONTIER_PARTS_H
#define CRAWLER_FRONTIER_PARTS_H

#include <pthread.h>

#include "frontier.h"
#include "hosts.h"

struct frontier {
  struct frontier_options options;
  int folder, lock_file;
  char *filter_path, *next_path;
  struct store *store;
  struct seen *seen;
  char **scope; /* sorted; it changes only before threads are started */
  size_t n_scope;
  pthread_t writer;
  bool writer_runs;

  pthread_rwlock_t claiming; /* shared: a page's links are being claimed (rule 2) */

  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t handed_over, committed;
  struct hosts hosts;
  struct page *done, **done_end; /* pages that are to be committed */
  uint64_t begun, finished;      /* transactions */
  uint64_t sync_wanted;          /* the transaction that is to be synchronised */
  int64_t last_id;               /* given to a URL; only the writer changes it */
  int64_t committed_id;
  int64_t forget; /* the journal is no longer needed up to here */
  int level;      /* pages of this depth and less are handed out */
  bool stopping, broken, closing;
  struct frontier_figures figures;
};

/* Stops the crawl because of an error: nothing more is committed or saved. */
void frontier__broken_locked(struct frontier *f);
void frontier__no_memory_locked(struct frontier *f);

/* Puts the host among those to ask if there is something to ask it for. */
void frontier__offer_locked(struct frontier *f, struct host *host);
/* A request to the host is over, and may have been answered. */
void frontier__returned_locked(struct frontier *f, struct host *host, bool answered);
/* Gives a page to the writer. */
void frontier__hand_over_locked(struct frontier *f, struct page *page);

/* The thread that commits. */
void *frontier__write_all(void *context);

void page_free(struct page *page);

#endif
