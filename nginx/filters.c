/* SPDX-License-Identifier: MIT */
#include "filters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_of(const struct named_filter *f)
{
  return (const char *) f->path.data;
}

static const tamis_options *options_of(const struct named_filter *f)
{
  return f->has_options ? &f->options : NULL;
}

/* ---- its life ---- */

/* In the process whose pool ends.  Others that have the filter keep it. */
static void close_filter(void *data)
{
  struct named_filter *f = data;
  tamis_destroy(f->filter);
  if (f->fd >= 0)
    close(f->fd);
}

struct named_filter *filter_new(ngx_pool_t *pool)
{
  ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(pool, sizeof(struct named_filter));
  if (!cleanup)
    return NULL;
  struct named_filter *f = cleanup->data;
  ngx_memzero(f, sizeof *f);
  tamis_options_init(&f->options);
  f->options.growable = false;
  f->fd = -1;
  cleanup->handler = close_filter;
  return f;
}

/* A file that is there is opened without O_CREAT, by which root may not open files of others in
 * folders such as /dev/shm. */
static int open_file(const struct named_filter *f)
{
  enum { FLAGS = O_RDWR | O_CLOEXEC | O_NOCTTY };
  int fd = open(path_of(f), FLAGS);
  return fd >= 0 || errno != ENOENT || !f->has_options
             ? fd
             : open(path_of(f), FLAGS | O_CREAT, S_IRUSR | S_IWUSR);
}

/* The file is opened here and not by the library, so that it is this very file that changes hands
 * later: in a folder of others, the path may lead elsewhere by then.  If the disk is full, a file stays
 * that the library fills another time. */
bool filter_open(struct named_filter *f, ngx_log_t *log)
{
  f->fd = open_file(f);
  int result = f->fd < 0 ? TAMIS_EIO : tamis_open_shared_fd(options_of(f), f->fd, &f->filter);
  if (result == TAMIS_OK)
    return true;
  ngx_log_error(NGX_LOG_EMERG, log, result == TAMIS_EIO ? ngx_errno : 0,
                "tamis_filter \"%V\": %s cannot be opened: %s in %V:%ui", &f->name, path_of(f),
                tamis_strerror(result), &f->file, f->line);
  return false;
}

/* As nginx does with its logs and caches. */
void filter_give(struct named_filter *f, ngx_uid_t user, ngx_log_t *log)
{
  struct stat status;
  if (f->fd < 0)
    return;
  if (geteuid() == 0 && fstat(f->fd, &status) == 0 && status.st_uid == 0 &&
      !(status.st_mode & (S_IRWXG | S_IRWXO)) && fchown(f->fd, user, (gid_t) -1))
    ngx_log_error(NGX_LOG_ALERT, log, ngx_errno, "fchown(\"%s\", %d) failed", path_of(f),
                  (int) user);
  close(f->fd);
  f->fd = -1;
}

/* Whether an error may be reported, which is so once a second. */
static bool may_report(struct reports *r)
{
  bool may = r->at != ngx_time();
  r->before = may ? r->unreported : r->before;
  r->unreported = may ? 0 : r->unreported + 1;
  r->at = ngx_time();
  return may;
}

/* ---- lists ---- */

static bool identify(const struct named_filter *f, struct file_identity *out)
{
  struct stat status;
  if (stat(path_of(f), &status))
    return false;
  ngx_memzero(out, sizeof *out);
  out->device = status.st_dev;
  out->number = status.st_ino;
  out->size = status.st_size;
  out->changed = status.st_mtim;
  return true;
}

static bool same_file(const struct file_identity *a, const struct file_identity *b)
{
  return a->device == b->device && a->number == b->number && a->size == b->size &&
         a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static const char *why_not_mapped(int result)
{
  return result == TAMIS_EUNSUPPORTED ? "a cuckoo filter that grows and a window cannot be a list"
                                      : tamis_strerror(result);
}

/* Maps the file that the path leads to, in place of the one that is mapped.  No call on that one is
 * under way, as there is one thread.  If the path leads to another file since `found`, the next look
 * maps that.  With TAMIS_EIO, errno says why. */
static int map_list(struct named_filter *f, const struct file_identity *found)
{
  tamis_filter *list;
  int result = tamis_map_file(NULL, path_of(f), &list);
  if (result != TAMIS_OK)
    return result;
  tamis_destroy(f->filter);
  f->filter = list;
  f->mapped = *found;
  return result;
}

/* A file that stays as it is is reported once, although each second tries again: its mode may have
 * changed meanwhile. */
static void report_list(struct named_filter *f, const struct file_identity *found, int result,
                        ngx_log_t *log)
{
  int error = result == TAMIS_EIO ? ngx_errno : 0;
  int refusal = error ? error : result;
  if (f->refusal == refusal && same_file(&f->refused, found))
    return;
  f->refusal = refusal;
  f->refused = *found;
  ngx_log_error(NGX_LOG_ERR, log, error,
                "tamis_filter \"%V\": the list stays as it was, as %s cannot be mapped: %s",
                &f->name, path_of(f), why_not_mapped(result));
}

/* Looks at the path once a second. */
static void look_at_list(struct named_filter *f, ngx_log_t *log)
{
  struct file_identity found = {0};
  if (f->looked_at == ngx_time())
    return;
  f->looked_at = ngx_time();
  int result = identify(f, &found) ? TAMIS_OK : TAMIS_EIO;
  const bool same = result == TAMIS_OK && same_file(&found, &f->mapped);
  if (result == TAMIS_OK && !same)
    result = map_list(f, &found);
  if (result != TAMIS_OK) {
    report_list(f, &found, result, log);
    return;
  }
  f->refusal = 0;
  if (!same)
    ngx_log_error(NGX_LOG_NOTICE, log, 0, "tamis_filter \"%V\": %s has been replaced", &f->name,
                  path_of(f));
}

static void warn_of_mode(const struct named_filter *f, ngx_log_t *log)
{
  if (f->is_list && access(path_of(f), R_OK))
    ngx_log_error(
        NGX_LOG_WARN, log, ngx_errno,
        "tamis_filter \"%V\": this worker cannot read %s, and so could not map a file that "
        "replaces it",
        &f->name, path_of(f));
}

/* ---- windows ----
 *
 * A period has the number of its length in the time since 1970, so all workers agree on which one
 * runs, also those of another master, and after a pause.  Each request sees to it that this period
 * runs before it adds or asks, and whoever comes first has done it for all.
 *
 * The clock is read at that moment.  nginx' own time is that of the last event, so a worker that was
 * busy or stopped since would add a key to a period that has ended, which is forgotten too early. */

/* A clock that was wrong once may have begun a period that is far ahead: then none ends before that
 * has come.  Each worker looks as often as periods end, and says so once for each such period. */
static void look_at_period(struct named_filter *f, uint64_t now, ngx_log_t *log)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  f->looked_at = (time_t) now;
  (void) tamis_get_stats(f->filter, &stats);
  const uint64_t ahead = stats.period > now + stats.parts ? stats.period : 0;
  if (ahead && ahead != f->ahead)
    ngx_log_error(
        NGX_LOG_ERR, log, 0,
        "tamis_filter \"%V\": a wrong clock has begun period %uL, and now is period %uL: in "
        "between no key is forgotten; 'tamis window --period %T %s' puts the number right",
        &f->name, ahead, now, f->period, path_of(f));
  f->ahead = ahead;
}

/* Returns what the clock said. */
static struct timeval follow_clock(struct named_filter *f, ngx_log_t *log)
{
  struct timeval time;
  ngx_gettimeofday(&time);
  uint64_t now = (uint64_t) (time.tv_sec / f->period);
  int result = tamis_advance_to(f->filter, now);
  int error = result == TAMIS_EIO ? ngx_errno : 0;
  if (result != TAMIS_OK && may_report(&f->clock_errors))
    ngx_log_error(NGX_LOG_ERR, log, error,
                  "tamis_filter \"%V\": a period could not be ended: %s (%ui more before)",
                  &f->name, tamis_strerror(result), f->clock_errors.before);
  if (result == TAMIS_OK && f->looked_at != (time_t) now)
    look_at_period(f, now, log);
  return time;
}

/* Whether this is more than the window. */
static bool is_longer(const struct named_filter *f, time_t ttl)
{
  return ttl > 0 && (ttl - 1) / f->period >= (time_t) f->window;
}

/* How many periods end before the one in which `ttl` seconds are over. */
static unsigned periods_of(const struct named_filter *f, struct timeval now, time_t ttl)
{
  const uint64_t left = (uint64_t) ttl + (now.tv_usec > 0);
  const uint64_t into = now.tv_sec > 0 ? (uint64_t) (now.tv_sec % f->period) : 0;
  return (unsigned) ((into + left - (left > 0)) / (uint64_t) f->period);
}

void filter_begin_worker(struct named_filter *f, ngx_log_t *log)
{
  warn_of_mode(f, log);
  if (f->period)
    (void) follow_clock(f, log);
}

/* ---- errors of the configuration ---- */

static bool check_list(ngx_conf_t *cf, struct named_filter *f)
{
  struct file_identity found;
  int result = identify(f, &found) ? map_list(f, &found) : TAMIS_EIO;
  if (result == TAMIS_OK)
    return true;
  ngx_conf_log_error(NGX_LOG_EMERG, cf, result == TAMIS_EIO ? ngx_errno : 0,
                     "tamis_filter \"%V\": %s cannot be mapped: %s", &f->name, path_of(f),
                     why_not_mapped(result));
  return false;
}

/* What the file says of a window has to be what the directive says. */
static bool check_window(ngx_conf_t *cf, struct named_filter *f)
{
  tamis_filter *opened;
  tamis_stats stats;
  tamis_stats_init(&stats);
  if (tamis_open_shared(NULL, path_of(f), &opened) != TAMIS_OK)
    return true; /* it will not be opened later either, which says why */
  (void) tamis_get_stats(opened, &stats);
  tamis_destroy(opened);
  bool has_window = stats.parts > 1;
  f->window = stats.parts - 1;
  if (has_window == (f->period > 0))
    return true;
  ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "tamis_filter \"%V\": the filter in the file has %s",
                     &f->name, has_window ? "a window, which needs \"period\"" : "no window");
  return false;
}

/* Of one that no variable changes. */
static void warn_of_life(ngx_conf_t *cf, struct named_filter *f)
{
  ngx_str_t *text = &f->life.value;
  if (text->len && !f->life.lengths && f->window && is_longer(f, ngx_parse_time(text, 1)))
    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "tamis_filter \"%V\": \"ttl\" is longer than the window, which holds",
                       &f->name);
}

bool filter_check(ngx_conf_t *cf, struct named_filter *f)
{
  enum { SENTENCE = 512 };
  char why[SENTENCE];
  if (f->is_list)
    return check_list(cf, f);
  f->window = f->options.window;
  int result = tamis_shared_check(options_of(f), path_of(f), why, sizeof why);
  if (result == TAMIS_OK) {
    const bool good = f->has_options || check_window(cf, f);
    warn_of_life(cf, f);
    return good;
  }
  ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "tamis_filter \"%V\": %s", &f->name,
                     *why ? why : tamis_strerror(result));
  return false;
}

/* ---- keys ---- */

static void report_add(struct named_filter *f, int result, int error, ngx_log_t *log)
{
  if (!may_report(&f->add_errors))
    return;
  ngx_log_error(NGX_LOG_ERR, log, error,
                "tamis_filter \"%V\": a key was not added, and counts as %s: %s (%ui more before)",
                &f->name, f->first_on_error ? "first" : "seen",
                result != TAMIS_EFULL ? tamis_strerror(result)
                : f->ahead ? "the filter is full, as a wrong clock has begun a period to come"
                           : "the filter is full",
                f->add_errors.before);
}

static int add_first(struct named_filter *f, const ngx_str_t *key, time_t ttl, ngx_log_t *log)
{
  if (!f->period)
    return tamis_add_unique(f->filter, key->data, key->len);
  const struct timeval now = follow_clock(f, log);
  if (ttl < 0 || is_longer(f, ttl))
    return tamis_add_unique(f->filter, key->data, key->len);
  return tamis_add_unique_for(f->filter, key->data, key->len, periods_of(f, now, ttl));
}

bool filter_add_first(struct named_filter *f, const ngx_str_t *key, time_t ttl, ngx_log_t *log)
{
  int result = add_first(f, key, ttl, log);
  int error = result == TAMIS_EIO ? ngx_errno : 0;
  if (result >= 0)
    return result == TAMIS_OK;
  report_add(f, result, error, log);
  return f->first_on_error;
}

bool filter_contains(struct named_filter *f, const ngx_str_t *key, ngx_log_t *log)
{
  if (f->is_list)
    look_at_list(f, log);
  if (f->period)
    (void) follow_clock(f, log);
  return tamis_contains(f->filter, key->data, key->len);
}
