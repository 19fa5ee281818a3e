/* SPDX-License-Identifier: MIT
 *
 * How a crawl begins, goes on after whatever ended it, and ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "frontier_parts.h"
#include "url.h"

static const char filter_name[] = "seen.tamis", next_name[] = "seen.tamis.next";
static const char unfinished[] = "seen.tamis."; /* what files that are being saved begin with */

static char *path_in(const char *folder, const char *name)
{
  char *path = NULL;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* A process that was killed while it saved has left an unfinished file. */
static void remove_unfinished(const char *folder)
{
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (strncmp(entry->d_name, unfinished, strlen(unfinished)) == 0)
      unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir)
    closedir(dir);
}

static bool lock_folder(struct frontier *f)
{
  const char *name = f->options.folder;
  if (mkdir(name, 0700) != 0 && errno != EEXIST)
    return complain("cannot make the folder %s: %s", name, strerror(errno)), false;
  f->folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->folder >= 0)
    f->lock_file = openat(f->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (f->lock_file < 0)
    return complain("cannot use the folder %s: %s", name, strerror(errno)), false;
  if (flock(f->lock_file, LOCK_EX | LOCK_NB) != 0)
    return complain("another crawler uses the folder %s", name), false;
  return true;
}

static bool restore_claim(void *context, int64_t id, uint64_t hash)
{
  struct frontier *f = context;
  if (id > f->last_id)
    f->last_id = id;
  f->figures.restored++;
  return seen_restore(f->seen, hash);
}

static bool restore_host(void *context, const char *origin, int64_t last_id, int64_t waiting)
{
  struct frontier *f = context;
  struct host *host = hosts_find(&f->hosts, origin, strlen(origin));
  if (!host)
    return complain("out of memory"), false;
  if (last_id > f->last_id)
    f->last_id = last_id;
  f->figures.waiting += (uint64_t) waiting;
  host->last = last_id;
  frontier__offer_locked(f, host);
  return true;
}

static bool restore_origin(void *context, const char *origin)
{
  struct frontier *f = context;
  char **scope = realloc(f->scope, (f->n_scope + 1) * sizeof *scope);
  char *copy = strdup(origin);
  if (scope)
    f->scope = scope;
  if (!scope || !copy)
    return complain("out of memory"), free(copy), false;
  f->scope[f->n_scope++] = copy;
  return true;
}

static void forget_scope(struct frontier *f)
{
  for (size_t i = 0; i < f->n_scope; i++)
    free(f->scope[i]);
  f->n_scope = 0;
}

static bool begin_crawl(struct frontier *f)
{
  f->seen = seen_create(&f->options.seen);
  if (!f->seen || !seen_save(f->seen, f->filter_path))
    return false;
  return store_begin_crawl(f->store,
                           &(struct crawl){true, seen_probe(f->seen), f->options.max_depth});
}

static bool resume_crawl(struct frontier *f, const struct crawl *crawl)
{
  f->seen = seen_load(&f->options.seen, f->filter_path);
  if (!f->seen)
    return false;
  if (seen_probe(f->seen) != crawl->probe)
    return complain("%s is not the filter of this crawl", f->filter_path), false;
  if (f->options.max_depth != crawl->max_depth)
    return complain("this crawl was begun with --depth %d", crawl->max_depth), false;
  return store_journal(f->store, restore_claim, f) && store_hosts(f->store, restore_host, f) &&
         store_scope(f->store, restore_origin, f);
}

static void frontier_free(struct frontier *f)
{
  seen_destroy(f->seen);
  store_close(f->store);
  hosts_free(&f->hosts);
  forget_scope(f);
  free(f->scope);
  free(f->filter_path);
  free(f->next_path);
  if (f->lock_file >= 0)
    close(f->lock_file);
  if (f->folder >= 0)
    close(f->folder);
  free(f);
}

struct frontier *frontier_open(const struct frontier_options *options)
{
  struct frontier *f = calloc(1, sizeof *f);
  if (!f)
    return complain("out of memory"), NULL;
  f->options = *options;
  f->folder = f->lock_file = -1;
  f->done_end = &f->done;
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->handed_over, NULL);
  pthread_cond_init(&f->committed, NULL);
  /* The writer does not wait until nobody claims. */
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&f->claiming, &attributes);
  pthread_rwlockattr_destroy(&attributes);

  struct crawl crawl;
  bool good = lock_folder(f);
  if (good) {
    char *queue = path_in(options->folder, "queue.db");
    f->filter_path = path_in(options->folder, filter_name);
    f->next_path = path_in(options->folder, next_name);
    remove_unfinished(options->folder);
    good = queue && f->filter_path && f->next_path && (f->store = store_open(queue)) &&
           store_crawl(f->store, &crawl) &&
           (crawl.begun ? resume_crawl(f, &crawl) : begin_crawl(f));
    free(queue);
  }
  f->committed_id = f->last_id;
  if (good && pthread_create(&f->writer, NULL, frontier__write_all, f) != 0)
    good = (complain("cannot start a thread"), false);
  if (good)
    return f;
  frontier_free(f);
  return NULL;
}

bool frontier_seed(struct frontier *f, struct links *seeds)
{
  struct page *page = page_new("", "(seeds)");
  if (!page)
    return complain("out of memory"), false;
  for (const char *url = seeds->text; url < seeds->text + seeds->used; url += strlen(url) + 1) {
    char *origin = strndup(url, url_origin(url));
    bool good = origin && store_add_scope(f->store, origin);
    free(origin);
    if (!good)
      return free(page), false;
  }
  forget_scope(f);
  if (!store_scope(f->store, restore_origin, f))
    return free(page), false;
  page->depth = -1;
  pthread_mutex_lock(&f->lock);
  f->figures.in_flight++;
  pthread_mutex_unlock(&f->lock);
  frontier_done(f, page, seeds);
  return !frontier_broken(f);
}

void frontier_stop(struct frontier *f)
{
  pthread_mutex_lock(&f->lock);
  f->stopping = true;
  pthread_mutex_unlock(&f->lock);
}

bool frontier_broken(struct frontier *f)
{
  pthread_mutex_lock(&f->lock);
  bool broken = f->broken;
  pthread_mutex_unlock(&f->lock);
  return broken;
}

struct frontier_figures frontier_figures(struct frontier *f)
{
  pthread_mutex_lock(&f->lock);
  struct frontier_figures figures = f->figures;
  figures.hosts = (unsigned) f->hosts.n;
  pthread_mutex_unlock(&f->lock);
  figures.seen = seen_figures(f->seen);
  return figures;
}

bool frontier_metrics(struct frontier *f, FILE *out)
{
  struct frontier_figures figures = frontier_figures(f);
  const struct {
    const char *name, *type, *help;
    uint64_t value;
  } metrics[] = {
      {"pages_fetched_total", "counter", "Pages that were fetched by this run.", figures.fetched},
      {"pages_given_up_total", "counter", "Pages that could not be fetched.", figures.given_up},
      {"pages_disallowed_total", "counter", "Pages that robots.txt disallows.", figures.disallowed},
      {"links_total", "counter", "Links on fetched pages.", figures.links},
      {"received_bytes_total", "counter", "Bytes of pages, uncompressed.", figures.bytes},
      {"saves_total", "counter", "Saves of filter and queue.", figures.saves},
      {"pages_waiting", "gauge", "Pages in the queue, those in flight included.", figures.waiting},
      {"pages_in_flight", "gauge", "Pages that are fetched or not yet committed.",
       figures.in_flight},
      {"hosts", "gauge", "Hosts of pages.", figures.hosts},
      {"hosts_given_up", "gauge", "Hosts that do not answer.", figures.hosts_given_up},
  };
  for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
    fprintf(out, "# HELP crawler_%s %s\n# TYPE crawler_%s %s\ncrawler_%s %" PRIu64 "\n",
            metrics[i].name, metrics[i].help, metrics[i].name, metrics[i].type, metrics[i].name,
            metrics[i].value);
  return seen_metrics(f->seen, out);
}

bool frontier_close(struct frontier *f)
{
  bool good = frontier_save(f);
  pthread_mutex_lock(&f->lock);
  f->closing = true;
  pthread_cond_signal(&f->handed_over);
  pthread_mutex_unlock(&f->lock);
  pthread_join(f->writer, NULL);
  good = good && !f->broken;
  while (f->done) { /* of a broken crawl: they are still in the queue */
    struct page *page = f->done;
    f->done = page->next;
    page_free(page);
  }
  frontier_free(f);
  return good;
}
