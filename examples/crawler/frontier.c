/* SPDX-License-Identifier: MIT
 *
 * What is promised
 *
 *   once      A page whose links are in the queue is never fetched again.  After kill -9 only pages
 *             are fetched again that were in flight: at most `window` of them.
 *   all       Each page is fetched that can be reached, but for false positives of the filter.
 *   power     After a loss of power, pages may be fetched again that were fetched since the last
 *   save;
 *             none is missed.
 *
 * A claim is in the filter, which is in memory, before it is in the queue, which is on the disk;
 * and the filter on the disk is older than either.  Three rules keep them together:
 *
 *   1. One transaction puts the links of a page that were claimed for it into the queue and into
 *      the journal, and takes the page out of the queue.
 *   2. A page is not committed before the claims that it has lost against.  Threads claim under the
 *      shared lock, and hand the page over before they leave it; the writer takes all that was
 *      handed over under the exclusive lock, for one transaction.  So nothing is claimed then by a
 *      page that is not in this transaction, or in an earlier one.
 *   3. A saved filter takes its name when all that it can contain has been committed: it is
 *      written; a transaction that begins afterwards is committed, and synchronised; then it is
 *      renamed.  Only then the journal forgets, and only what was committed before the save began.
 *
 * After a start, the filter is the saved one and all of the journal.
 *
 *   once      What was committed is in the filter: a save that began after the commit has it; and
 *             until such a save has its name, the journal has it (rule 3).
 *   all       What is in the saved filter, or in the journal, was committed (rules 3 and 1), so it
 *             is in the queue or has been fetched.  A claim that was not committed is in neither;
 *             its page is still in the queue, and is fetched again.  If that page has changed, so
 *             that the link is gone, another page that has the link may be needed to find it; but
 *             each page that was refused it is committed later than the claim, or with it (rule 2),
 *             so it is still in the queue, too.
 *   power     Transactions are lost from the end.  None is lost that the filter with its name knows
 *             of (rule 3), so the argument for `all` holds; what was lost is fetched again.
 *
 * Save the filter on a timer without rule 3, and a kill after the save loses for ever what was
 * claimed and not committed.  Commit before the filter is asked, and the queue fills with
 * duplicates.  Let the journal forget what was committed while the save ran, and pages are fetched
 * twice.
 *
 * Levels.  With a limit of depth, all pages of a depth are committed before the first deeper one is
 * handed out.  So each URL is first found on a shortest way, and no page within the limit is
 * missed.  Seeds that are given when a crawl has already begun come too late for this: what was
 * found before them keeps its depth.
 */
#include "frontier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "frontier_parts.h"
#include "url.h"

void frontier__broken_locked(struct frontier *f)
{
  f->broken = f->stopping = true;
  pthread_cond_broadcast(&f->handed_over);
  pthread_cond_broadcast(&f->committed);
}

void frontier__no_memory_locked(struct frontier *f)
{
  complain("out of memory");
  frontier__broken_locked(f);
}

void page_free(struct page *page)
{
  for (size_t i = 0; i < page->n_new_pages; i++)
    free(page->new_pages[i].url);
  free(page->new_pages);
  free(page);
}

void frontier__hand_over_locked(struct frontier *f, struct page *page)
{
  page->next = NULL;
  *f->done_end = page;
  f->done_end = &page->next;
  pthread_cond_signal(&f->handed_over);
}

/* ---- claims ---- */

static bool in_scope(const struct frontier *f, const char *url, size_t origin)
{
  for (size_t low = 0, high = f->n_scope; !f->options.any_host && low < high;) {
    size_t middle = (low + high) / 2;
    int order = strncmp(url, f->scope[middle], origin);
    if (order == 0 && f->scope[middle][origin] != '\0')
      order = -1;
    if (order == 0)
      return true;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return f->options.any_host;
}

/* Claims what is new of the links, for this page. */
static bool claim(struct frontier *f, struct page *page, struct links *links)
{
  size_t room = 0;
  for (const char *url = links->text; url < links->text + links->used; url += strlen(url) + 1) {
    if (!in_scope(f, url, url_origin(url)))
      continue;
    if (page->n_new_pages == room) {
      struct claim *more = realloc(page->new_pages, (room = 2 * room + 8) * sizeof *more);
      if (!more)
        return false;
      page->new_pages = more;
    }
    struct claim *new = &page->new_pages[page->n_new_pages];
    int claimed = seen_claim(f->seen, url, strlen(url), &new->hash);
    if (claimed < 0)
      return false;
    if (claimed == 0)
      continue;
    new->url = strdup(url);
    if (!new->url)
      return false;
    page->n_new_pages++;
  }
  return true;
}

void frontier_done(struct frontier *f, struct page *page, struct links *links)
{
  bool last_level = f->options.max_depth >= 0 && page->depth >= f->options.max_depth;
  pthread_rwlock_rdlock(&f->claiming);
  bool good = !links->no_memory && (last_level || claim(f, page, links));
  pthread_mutex_lock(&f->lock);
  if (page->host)
    frontier__returned_locked(f, page->host, true);
  if (good && !f->broken) {
    f->figures.links += links->n;
    frontier__hand_over_locked(f, page);
  } else {
    /* The page stays in the queue.  What was claimed for it must not be saved. */
    if (!f->broken)
      complain("the crawl stops at %s", page->url);
    frontier__broken_locked(f);
    page_free(page);
  }
  pthread_mutex_unlock(&f->lock);
  pthread_rwlock_unlock(&f->claiming);
  links_free(links);
}

/* ---- the writer: one transaction after the other ---- */

static bool commit(struct frontier *f, struct page *pages, bool sync, int64_t forget)
{
  store_begin(f->store, sync);
  if (forget > 0)
    store_forget_journal(f->store, forget);
  for (struct page *page = pages; page; page = page->next) {
    for (size_t i = 0; i < page->n_new_pages; i++) {
      page->new_pages[i].id = ++f->last_id;
      store_add(f->store, &page->new_pages[i], page->depth + 1);
    }
    if (page->failure[0] != '\0')
      store_give_up(f->store, page);
    if (page->id != 0)
      store_remove(f->store, page);
    if (f->options.pages && page->status != 0)
      fprintf(f->options.pages, "%d\t%d\t%zu\t%s\n", page->status, page->depth, page->bytes,
              page->url);
  }
  if (f->options.pages && fflush(f->options.pages) != 0) {
    complain("cannot write the list of pages: %s", strerror(errno));
    return false;
  }
  return store_commit(f->store);
}

/* What has been committed may be handed out. */
static void publish_locked(struct frontier *f, const struct page *page)
{
  f->figures.in_flight--;
  f->figures.waiting += page->n_new_pages - (page->id != 0);
  f->figures.fetched += page->status != 0;
  f->figures.bytes += page->bytes;
  f->figures.given_up += page->failure[0] != '\0';
  for (size_t i = 0; i < page->n_new_pages; i++) {
    const struct claim *new = &page->new_pages[i];
    struct host *host = hosts_find(&f->hosts, new->url, url_origin(new->url));
    if (!host) {
      frontier__no_memory_locked(f);
      return;
    }
    host->last = new->id;
    frontier__offer_locked(f, host);
  }
}

void *frontier__write_all(void *context)
{
  struct frontier *f = context;
  for (;;) {
    pthread_mutex_lock(&f->lock);
    while (!f->done && f->sync_wanted <= f->finished && f->forget == 0 && !f->closing && !f->broken)
      pthread_cond_wait(&f->handed_over, &f->lock);
    bool end = f->broken || (f->closing && !f->done && f->forget == 0);
    pthread_mutex_unlock(&f->lock);
    if (end)
      return NULL;

    pthread_rwlock_wrlock(&f->claiming); /* rule 2 */
    pthread_mutex_lock(&f->lock);
    struct page *pages = f->done;
    f->done = NULL, f->done_end = &f->done;
    bool sync = f->sync_wanted >= ++f->begun;
    int64_t forget = f->forget;
    f->forget = 0;
    pthread_mutex_unlock(&f->lock);
    pthread_rwlock_unlock(&f->claiming);

    bool good = commit(f, pages, sync, forget);
    pthread_mutex_lock(&f->lock);
    if (!good)
      frontier__broken_locked(f);
    f->finished = f->begun;
    f->committed_id = f->last_id;
    while (pages) {
      struct page *page = pages;
      pages = page->next;
      if (good)
        publish_locked(f, page);
      page_free(page);
    }
    pthread_cond_broadcast(&f->committed);
    pthread_mutex_unlock(&f->lock);
  }
}

/* Waits for a transaction that begins after this call, and that is on the disk when it ends. */
static bool await_commit(struct frontier *f)
{
  pthread_mutex_lock(&f->lock);
  uint64_t wanted = f->begun + 1;
  f->sync_wanted = wanted;
  pthread_cond_signal(&f->handed_over);
  while (f->finished < wanted && !f->broken)
    pthread_cond_wait(&f->committed, &f->lock);
  bool good = !f->broken;
  pthread_mutex_unlock(&f->lock);
  return good;
}

bool frontier_save(struct frontier *f) /* rule 3 */
{
  pthread_mutex_lock(&f->lock);
  int64_t position = f->committed_id;
  pthread_mutex_unlock(&f->lock);
  if (!seen_save(f->seen, f->next_path) || !await_commit(f))
    return false;
  if (rename(f->next_path, f->filter_path) != 0 || fsync(f->folder) != 0) {
    complain("cannot replace %s: %s", f->filter_path, strerror(errno));
    return false;
  }
  pthread_mutex_lock(&f->lock);
  f->forget = position;
  f->figures.saves++;
  pthread_cond_signal(&f->handed_over);
  pthread_mutex_unlock(&f->lock);
  return true;
}
