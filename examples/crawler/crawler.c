/* SPDX-License-Identifier: MIT
 *
 * A crawler whose frontier is a filter of libtamis and a queue in SQLite.  README.md says how to
 * use it, and frontier.c what it promises.
 */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libxml/parser.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "complain.h"
#include "fetch.h"
#include "url.h"

static const char usage[] =
    "usage: tamis-crawler --state DIR [OPTION ...] [URL ...]\n"
    "Crawls from the URLs given, or goes on with the crawl in DIR.\n"
    "  --state DIR         where queue and filter are kept\n"
    "  --pages FILE        append a line for each page fetched: status, depth, bytes, URL\n"
    "  --metrics FILE      write figures for Prometheus there, every second\n"
    "  --threads N         threads that fetch (2)\n"
    "  --transfers N       requests at a time of each thread (16)\n"
    "  --any-host          follow links to other hosts than those of the URLs given\n"
    "  --depth N           follow at most N links from a URL given\n"
    "  --delay SECONDS     from one request to a host to the next, at least (1)\n"
    "  --per-host N        requests to a host at a time (1)\n"
    "  --timeout SECONDS   for a page (30)\n"
    "  --tries N           of a page, before it is given up (5)\n"
    "  --retry SECONDS     before the second try; each further one takes twice as long (1)\n"
    "  --most-bytes N      read of a page (4194304)\n"
    "  --save-every SECONDS  saves of the filter (60)\n"
    "  --expected N        URLs for which the filter begins; it grows (100000)\n"
    "  --fpp P             part of the URLs that may be missed (1e-6)\n"
    "  --memory BYTES      that the filter may take (no limit)\n"
    "  --agent NAME        product token, for robots.txt too (tamis-crawler)\n"
    "  --contact URL       where the crawler's owner is found; a part of the user agent\n"
    "  --quiet             no progress\n";

struct settings {
  struct frontier_options frontier;
  struct fetch_options fetch;
  unsigned threads;
  double save_every;
  const char *pages, *metrics, *contact;
  bool quiet;
};

static atomic_uint running; /* threads that fetch */
static atomic_bool fetch_failed;

void complain(const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "tamis-crawler: %s\n", text);
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* ---- options ---- */

static _Noreturn void wrong(const char *option, const char *value)
{
  complain("--%s %s is no legal value; --help lists the options", option, value);
  exit(2);
}

static double number(const char *option, const char *value, double least, double most)
{
  char *end;
  double result = strtod(value, &end);
  if (end == value || *end != '\0' || !(result >= least && result <= most))
    wrong(option, value);
  return result;
}

static void read_options(struct settings *s, int argc, char **argv)
{
  enum {
    STATE,
    PAGES,
    METRICS,
    THREADS,
    TRANSFERS,
    ANY_HOST,
    DEPTH,
    DELAY,
    PER_HOST,
    TIMEOUT,
    TRIES,
    RETRY,
    MOST_BYTES,
    SAVE_EVERY,
    EXPECTED,
    FPP,
    MEMORY,
    AGENT,
    CONTACT,
    QUIET,
    HELP
  };
  static const struct option options[] = {{"state", 1, NULL, STATE},
                                          {"pages", 1, NULL, PAGES},
                                          {"metrics", 1, NULL, METRICS},
                                          {"threads", 1, NULL, THREADS},
                                          {"transfers", 1, NULL, TRANSFERS},
                                          {"any-host", 0, NULL, ANY_HOST},
                                          {"depth", 1, NULL, DEPTH},
                                          {"delay", 1, NULL, DELAY},
                                          {"per-host", 1, NULL, PER_HOST},
                                          {"timeout", 1, NULL, TIMEOUT},
                                          {"tries", 1, NULL, TRIES},
                                          {"retry", 1, NULL, RETRY},
                                          {"most-bytes", 1, NULL, MOST_BYTES},
                                          {"save-every", 1, NULL, SAVE_EVERY},
                                          {"expected", 1, NULL, EXPECTED},
                                          {"fpp", 1, NULL, FPP},
                                          {"memory", 1, NULL, MEMORY},
                                          {"agent", 1, NULL, AGENT},
                                          {"contact", 1, NULL, CONTACT},
                                          {"quiet", 0, NULL, QUIET},
                                          {"help", 0, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
  struct frontier_options *f = &s->frontier;
  int option, which;
  while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
    const char *name = option == '?' ? "" : options[which].name;
    switch (option) {
    case STATE:
      f->folder = optarg;
      break;
    case PAGES:
      s->pages = optarg;
      break;
    case METRICS:
      s->metrics = optarg;
      break;
    case THREADS:
      s->threads = (unsigned) number(name, optarg, 1, 1000);
      break;
    case TRANSFERS:
      s->fetch.transfers = (unsigned) number(name, optarg, 1, 1000);
      break;
    case ANY_HOST:
      f->any_host = true;
      break;
    case DEPTH:
      f->max_depth = (int) number(name, optarg, 0, 1e6);
      break;
    case DELAY:
      f->delay = (int64_t) (number(name, optarg, 0, 1e6) * 1e9);
      break;
    case PER_HOST:
      f->per_host = (unsigned) number(name, optarg, 1, 1000);
      break;
    case TIMEOUT:
      s->fetch.timeout = (long) number(name, optarg, 1, 1e6);
      break;
    case TRIES:
      f->tries = (int) number(name, optarg, 1, 100);
      break;
    case RETRY:
      f->retry = (int64_t) (number(name, optarg, 0.001, 1e6) * 1e9);
      break;
    case MOST_BYTES:
      s->fetch.most_bytes = (size_t) number(name, optarg, 1, 1e12);
      break;
    case SAVE_EVERY:
      s->save_every = number(name, optarg, 0, 1e9);
      break;
    case EXPECTED:
      f->seen.expected = (uint64_t) number(name, optarg, 1, 1e12);
      break;
    case FPP:
      f->seen.fpp = number(name, optarg, 0, 1);
      break;
    case MEMORY:
      f->seen.max_bytes = (uint64_t) number(name, optarg, 1, 1e15);
      break;
    case AGENT:
      f->agent = optarg;
      break;
    case CONTACT:
      s->contact = optarg;
      break;
    case QUIET:
      s->quiet = true;
      break;
    case HELP:
      fputs(usage, stdout);
      exit(0);
    default:
      fputs(usage, stderr);
      exit(2);
    }
  }
  if (!f->folder) {
    complain("--state is missing; --help lists the options");
    exit(2);
  }
}

static bool read_seeds(struct links *seeds, char **urls)
{
  bool good = true;
  char url[URL_MOST];
  for (; *urls; urls++) {
    if (url_normalise(NULL, *urls, url) > 0) {
      links_add(seeds, url, url);
    } else {
      complain("no URL that can be crawled: %s", *urls);
      good = false;
    }
  }
  return good;
}

/* ---- the crawl ---- */

static void *fetch_thread(void *context)
{
  struct settings *s = context;
  if (!fetch_all(&s->fetch)) {
    atomic_store(&fetch_failed, true);
    frontier_stop(s->fetch.frontier);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

static void show_progress(struct frontier *f, double elapsed, bool end)
{
  static uint64_t before;
  static double then;
  struct frontier_figures n = frontier_figures(f);
  double since = end ? elapsed : elapsed - then;
  double rate = (double) (n.fetched - (end ? 0 : before)) / (since > 0 ? since : 1);
  fprintf(stderr,
          "%8.0f s: %" PRIu64 " pages fetched (%.0f a second), %" PRIu64
          " wait, %u in flight, %" PRIu64 " given up, %" PRIu64 " disallowed; %" PRIu64
          " URLs found, filter %.1f MiB, %" PRIu64 " saves\n",
          elapsed, n.fetched, rate, n.waiting, n.in_flight, n.given_up, n.disallowed, n.seen.count,
          (double) n.seen.bytes / 1048576, n.saves);
  before = n.fetched, then = elapsed;
}

/* Replaces the file, so that whoever reads it finds a whole one. */
static void write_metrics(struct frontier *f, const char *path)
{
  char part[4096];
  snprintf(part, sizeof part, "%s.part", path);
  FILE *out = fopen(part, "w");
  bool good =
      out && fchmod(fileno(out), 0644) == 0 && frontier_metrics(f, out); /* for another user */
  if (out)
    good = fclose(out) == 0 && good;
  if (!good || rename(part, path) != 0)
    complain("cannot write the figures to %s: %s", path, strerror(errno));
}

/* Shows progress, and saves, until all threads have ended.  A first signal ends the crawl when
 * what is in flight has come; a second one at once. */
static int watch(struct settings *s, const sigset_t *signals)
{
  struct frontier *f = s->fetch.frontier;
  double begin = seconds(), saved = begin, shown = begin;
  int status = 0;
  while (atomic_load(&running) > 0) {
    struct timespec a_moment = {0, 50000000};
    int signal = sigtimedwait(signals, NULL, &a_moment);
    if (signal > 0) {
      if (status != 0)
        _exit(128 + signal);
      status = 128 + signal;
      complain("%s: waiting for %u pages in flight", strsignal(signal),
               frontier_figures(f).in_flight);
      frontier_stop(f);
    }
    double time = seconds();
    if (time - shown >= 1) {
      shown = time;
      if (!s->quiet)
        show_progress(f, time - begin, false);
      if (s->metrics)
        write_metrics(f, s->metrics);
    }
    if (time - saved >= s->save_every && !frontier_broken(f)) {
      frontier_save(f); /* if it fails, the old one stays, and with the journal it is enough */
      saved = seconds();
    }
  }
  if (!s->quiet)
    show_progress(f, seconds() - begin, true);
  if (s->metrics)
    write_metrics(f, s->metrics);
  return status;
}

/* A process that was killed while it wrote has left a part of a line.  Its page was not committed,
 * and comes again. */
static void cut_unfinished_line(FILE *pages)
{
  char tail[2 * URL_MOST];
  struct stat status;
  if (fstat(fileno(pages), &status) != 0 || !S_ISREG(status.st_mode))
    return;
  off_t from = status.st_size > (off_t) sizeof tail ? status.st_size - (off_t) sizeof tail : 0;
  ssize_t size = pread(fileno(pages), tail, sizeof tail, from);
  const char *end = size > 0 ? memrchr(tail, '\n', (size_t) size) : NULL;
  if (size > 0 && ftruncate(fileno(pages), from + (end ? end + 1 - tail : 0)) != 0)
    complain("the list of pages may have a line that is cut off: %s", strerror(errno));
}

static int crawl(struct settings *s, char **urls)
{
  struct links seeds = {0};
  if (!read_seeds(&seeds, urls))
    return 2;
  if (s->pages && !(s->frontier.pages = fopen(s->pages, "a+"))) {
    complain("cannot open %s: %s", s->pages, strerror(errno));
    return 1;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  struct frontier *f = frontier_open(&s->frontier);
  if (!f)
    return 1;
  s->fetch.frontier = f;
  if (s->frontier.pages) /* nobody else writes it: the folder is locked */
    cut_unfinished_line(s->frontier.pages);
  bool seeded = frontier_seed(f, &seeds);
  struct frontier_figures figures = frontier_figures(f);
  if (!seeded || figures.seen.count == 0) {
    if (seeded)
      complain("nothing to crawl: no URL was given, or it was killed before it had them");
    frontier_close(f);
    return 1;
  }
  if (figures.restored > 0 || figures.waiting > 0)
    fprintf(stderr,
            "going on: %" PRIu64 " pages wait, %" PRIu64 " URLs were claimed since the last save\n",
            figures.waiting, figures.restored);

  pthread_t *threads = calloc(s->threads, sizeof *threads);
  unsigned started = 0;
  atomic_store(&running, s->threads);
  while (threads && started < s->threads &&
         pthread_create(&threads[started], NULL, fetch_thread, s) == 0)
    started++;
  if (started < s->threads) {
    complain("cannot start %u threads", s->threads);
    atomic_fetch_sub(&running, s->threads - started);
    frontier_stop(f);
  }
  int status = watch(s, &signals);
  for (unsigned i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  free(threads);
  bool whole = started == s->threads && !atomic_load(&fetch_failed);
  return frontier_close(f) && whole ? status : 1; /* a broken frontier is not closed well */
}

int main(int argc, char **argv)
{
  struct settings s = {
      .frontier = {.agent = "tamis-crawler",
                   .seen = {.expected = 100000, .fpp = 1e-6},
                   .max_depth = -1,
                   .per_host = 1,
                   .delay = 1000000000,
                   .tries = 5,
                   .retry = 1000000000},
      .fetch = {.transfers = 16, .timeout = 30, .most_bytes = 4 << 20},
      .threads = 2,
      .save_every = 60,
  };
  char user_agent[512];
  umask(077);               /* the filter's file holds its seed, which is a secret */
  signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to connections that were closed */
  signal(SIGXFSZ, SIG_IGN); /* a limit of the size of files is reported like a full disk */
  read_options(&s, argc, argv);
  snprintf(user_agent, sizeof user_agent, "%s/1.0%s%s%s", s.frontier.agent, s.contact ? " (+" : "",
           s.contact ? s.contact : "", s.contact ? ")" : "");
  s.fetch.user_agent = user_agent;
  /* In flight are the requests of all threads, and as many pages that wait for the writer. */
  s.frontier.window = 2 * s.threads * s.fetch.transfers;
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
    return 1;
  xmlInitParser();
  int status = crawl(&s, argv + optind);
  if (s.frontier.pages && fclose(s.frontier.pages) != 0) {
    complain("cannot write %s: %s", s.pages, strerror(errno));
    status = 1;
  }
  xmlCleanupParser();
  curl_global_cleanup();
  return status;
}
