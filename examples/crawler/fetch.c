/* SPDX-License-Identifier: MIT */
#include "fetch.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "complain.h"
#include "robots.h"

/* A transfer: of a page, whose links are read as it arrives, or of a robots.txt, which is kept. */
struct transfer {
  const struct fetch_options *options;
  CURL *easy;
  struct page *page; /* NULL: it is free */
  struct links links;
  struct html *html;
  char *robots;
  bool begun, cut; /* data has come; the rest was not read */
  char error[CURL_ERROR_SIZE];
};

static long status_of(const struct transfer *t)
{
  long status = 0;
  curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

static bool is_html(const struct transfer *t)
{
  const char *type = NULL;
  curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
  return status_of(t) / 100 == 2 && type &&
         (strncasecmp(type, "text/html", 9) == 0 ||
          strncasecmp(type, "application/xhtml+xml", 21) == 0);
}

static bool keep_robots(struct transfer *t, const char *data, size_t size)
{
  char *more = realloc(t->robots, t->page->bytes + size);
  if (!more)
    return false;
  t->robots = more;
  memcpy(t->robots + t->page->bytes, data, size);
  return true;
}

/* Called by libcurl with a part of the data; another result than its size ends the transfer. */
static size_t receive(char *data, size_t one, size_t size, void *context)
{
  struct transfer *t = context;
  size_t most = t->page->is_robots ? ROBOTS_MOST : t->options->most_bytes, take = one * size;
  if (take > most - t->page->bytes)
    take = most - t->page->bytes, t->cut = true;
  if (!t->begun && !t->page->is_robots && is_html(t)) {
    t->html = html_begin(t->page->url, &t->links);
    t->links.no_memory |= !t->html;
  }
  t->begun = true;
  if (t->page->is_robots && !keep_robots(t, data, take))
    return 0;
  if (t->html)
    html_read(t->html, data, take);
  t->page->bytes += take;
  return t->cut ? 0 : one * size;
}

static bool set_up(struct transfer *t)
{
  t->easy = curl_easy_init();
  return t->easy && curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, receive) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->error) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_USERAGENT, t->options->user_agent) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_ACCEPT_ENCODING, "") == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_MAXREDIRS, 5L) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_TIMEOUT, t->options->timeout) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT, t->options->timeout) == CURLE_OK;
}

static bool start(struct transfer *t, CURLM *multi, struct page *page)
{
  t->page = page;
  t->begun = t->cut = false;
  t->error[0] = '\0';
  page->bytes = 0; /* it may have been tried before */
  const char *url = page->url;
  /* A redirect of a page is a link of it, which may be claimed by anybody. */
  return curl_easy_setopt(t->easy, CURLOPT_URL, url) == CURLE_OK &&
         curl_easy_setopt(t->easy, CURLOPT_FOLLOWLOCATION, (long) page->is_robots) == CURLE_OK &&
         curl_multi_add_handle(multi, t->easy) == CURLM_OK;
}

/* The failures of a connection, which any page of this host would have met. */
static bool is_of_host(const struct transfer *t, CURLcode code)
{
  double connected = 0;
  curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME, &connected);
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION ||
         (code == CURLE_OPERATION_TIMEDOUT && connected <= 0);
}

/* RFC 9309, 2.3.1: without a robots.txt everything is allowed; if it cannot be read now, nothing
 * is. */
static void robots_returned(struct transfer *t, CURLcode code, long status, const char *why)
{
  struct frontier *f = t->options->frontier;
  bool answered = code == CURLE_OK || (code == CURLE_WRITE_ERROR && t->cut);
  if (answered && status / 100 == 2)
    frontier_robots(f, t->page, t->robots, t->page->bytes);
  else if ((answered && status / 100 == 4 && status != 429) || code == CURLE_TOO_MANY_REDIRECTS)
    frontier_robots(f, t->page, NULL, 0);
  else
    frontier_failed(f, t->page, HOST_FAILED, why);
}

static void page_returned(struct transfer *t, CURLcode code, long status, const char *why)
{
  struct frontier *f = t->options->frontier;
  if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && t->cut)) {
    links_free(&t->links);
    frontier_failed(f, t->page, is_of_host(t, code) ? HOST_FAILED : PAGE_FAILED, why);
  } else if (status / 100 == 5 || status == 429 || status == 408) {
    links_free(&t->links);
    frontier_failed(f, t->page, status == 429 || status == 503 ? HOST_BUSY : PAGE_FAILED, why);
  } else {
    const char *location = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
    if (status / 100 == 3 && location)
      links_add(&t->links, t->page->url, location);
    t->page->status = (int) status;
    frontier_done(f, t->page, &t->links);
  }
}

static void returned(struct transfer *t, CURLM *multi, CURLcode code)
{
  char http[32];
  long status = status_of(t);
  snprintf(http, sizeof http, "HTTP %ld", status);
  const char *why = code == CURLE_OK      ? http
                    : t->error[0] != '\0' ? t->error
                                          : curl_easy_strerror(code);
  html_end(t->html);
  t->html = NULL;
  if (t->page->is_robots)
    robots_returned(t, code, status, why);
  else
    page_returned(t, code, status, why);
  curl_multi_remove_handle(multi, t->easy);
  t->page = NULL;
  free(t->robots);
  t->robots = NULL;
}

/* Starts what may be started.  Returns whether there may be more later. */
static bool fill(const struct fetch_options *o, CURLM *multi, struct transfer *transfers,
                 unsigned *busy, int64_t *wait, bool *good)
{
  struct page *page;
  for (unsigned i = 0; i < o->transfers && *busy < o->transfers; i++) {
    if (transfers[i].page)
      continue;
    enum frontier_next next = frontier_next(o->frontier, &page, wait);
    if (next != NEXT_PAGE)
      return next == NEXT_LATER;
    *good = start(&transfers[i], multi, page);
    if (!*good)
      return false;
    (*busy)++;
  }
  return true;
}

bool fetch_all(const struct fetch_options *o)
{
  CURLM *multi = curl_multi_init();
  struct transfer *transfers = calloc(o->transfers, sizeof *transfers);
  bool good = multi && transfers, more = true;
  unsigned busy = 0;
  for (unsigned i = 0; transfers && i < o->transfers; i++) {
    transfers[i].options = o;
    good = good && set_up(&transfers[i]);
  }
  while (good && (more || busy > 0)) {
    int64_t wait = 100000000;
    int running;
    more = fill(o, multi, transfers, &busy, &wait, &good);
    good = good && curl_multi_perform(multi, &running) == CURLM_OK;
    bool some = false;
    for (CURLMsg *m; good && (m = curl_multi_info_read(multi, &running)); some = true) {
      struct transfer *t = NULL;
      curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
      returned(t, multi, m->data.result);
      busy--;
    }
    if (good && !some)
      good = curl_multi_poll(multi, NULL, 0, (int) (wait / 1000000) + 1, NULL) == CURLM_OK;
  }
  if (!good)
    complain("libcurl failed, or there is no memory");
  for (unsigned i = 0; transfers && i < o->transfers; i++) {
    if (transfers[i].page) /* after an error: the page stays in the queue */
      curl_multi_remove_handle(multi, transfers[i].easy), free(transfers[i].page);
    html_end(transfers[i].html);
    links_free(&transfers[i].links);
    free(transfers[i].robots);
    curl_easy_cleanup(transfers[i].easy);
  }
  free(transfers);
  curl_multi_cleanup(multi);
  return good;
}
