/* SPDX-License-Identifier: MIT
 *
 * robots.txt: the examples of RFC 9309 (sections 2.2.1, 2.2.2, 2.2.3 and 5), and what other files
 * have in store.  The normal form of URLs: the examples of RFC 3986 (5.4 and 6.2.2), and what pages
 * have.  Links: a hostile page.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "links.h"
#include "robots.h"
#include "url.h"

static const struct {
  const char *agent, *text, *target;
  bool allow;
  double delay;
} robots_cases[] = {
    {"crawler", "", "/a", true, 0},
    {"crawler", "User-agent: *\nDisallow: /a", "/a/b", false, 0},
    {"crawler", "User-agent: *\nDisallow: /a", "/b/a", true, 0},
    {"crawler", "User-agent: *\nDisallow:", "/a", true, 0},
    {"crawler", "Disallow: /", "/a", true, 0}, /* in no group */
    {"crawler", "User-agent: *\nDisallow: /\nUser-agent: Crawler/2\nAllow: /", "/a", true, 0},
    {"crawler", "User-agent: crawler-news\nDisallow: /\n", "/a", true, 0},
    {"crawler", "user-AGENT : CRAWLER # us\ndisallow : /a # not this\n", "/ab", false, 0},
    {"crawler", "User-agent: crawler\nUser-agent: other\nDisallow: /a\n", "/a", false, 0},
    /* Two groups for one crawler are one. */
    {"crawler",
     "User-agent: crawler\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: crawler\n"
     "Disallow: /c\n",
     "/c", false, 0},
    {"crawler",
     "User-agent: crawler\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: crawler\n"
     "Disallow: /c\n",
     "/b", true, 0},
    /* The longest rule wins, wherever it stands; of two equal ones, the one that allows. */
    {"crawler", "User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/b/c", true, 0},
    {"crawler", "User-agent: *\nDisallow: /a/b\nAllow: /a", "/a/b/c", false, 0},
    {"crawler", "User-agent: *\nDisallow: /a\nAllow: /a", "/a", true, 0},
    {"crawler", "User-agent: *\nDisallow: /example/\nAllow: /example/page/\nDisallow: *.gif$",
     "/example/page/x.gif", true, 0},
    {"crawler", "User-agent: *\nDisallow: *.gif$", "/x.gif", false, 0},
    {"crawler", "User-agent: *\nDisallow: *.gif$", "/x.gif?a", true, 0},
    {"crawler", "User-agent: *\nDisallow: /*.php", "/a/b.php5", false, 0},
    {"crawler", "User-agent: *\nDisallow: /*a*b$", "/a/b/ab/b", false, 0},
    {"crawler", "User-agent: *\nDisallow: /*a*b$", "/a/b/ab/c", true, 0},
    {"crawler", "User-agent: *\nDisallow: /a$", "/a", false, 0},
    {"crawler", "User-agent: *\nDisallow: /a$", "/ab", true, 0},
    {"crawler", "User-agent: *\nDisallow: /a$b", "/a$b", false, 0},
    {"crawler", "User-agent: *\nDisallow: /", "/robots.txt", true, 0},
    /* Escapes are compared as octets. */
    {"crawler", "User-agent: *\nDisallow: /%7ejoe/%e3%83%84", "/~joe/%E3%83%84", false, 0},
    {"crawler", "User-agent: *\nDisallow: /a%2fb", "/a/b", true, 0},
    {"crawler", "\xEF\xBB\xBFUser-agent: *\r\nDisallow: /a\r\n", "/a", false, 0},
    {"crawler", "User-agent: *\rDisallow: /a\r", "/a", false, 0},
    /* Other lines stand between the lines of a group without ending it. */
    {"crawler", "User-agent: crawler\nSitemap: http://x/\nUser-agent: y\nDisallow: /", "/a", false,
     0},
    {"crawler", "User-agent: *\nCrawl-delay: 2.5\nDisallow: /x", "/a", true, 2.5},
    {"crawler", "User-agent: *\nCrawl-delay: 9\nUser-agent: crawler\nCrawl-delay: 1\n", "/a", true,
     1},
};

/* References on the page http://a/b/c/d?q. */
static const struct {
  const char *reference, *url; /* NULL: none that can be fetched */
} url_cases[] = {
    {"g", "http://a/b/c/g"},
    {"./g", "http://a/b/c/g"},
    {"g/", "http://a/b/c/g/"},
    {"/g", "http://a/g"},
    {"//g", "http://g/"},
    {"?y", "http://a/b/c/d?y"},
    {"g?y#s", "http://a/b/c/g?y"},
    {"..", "http://a/b/"},
    {"../../../../g", "http://a/g"},
    {"g;x=1/../y", "http://a/b/c/y"},
    {"", NULL},
    {"#s", NULL},
    {"mailto:a@b", NULL},
    {"javascript:f('/g')", NULL},
    {"ftp://a/g", NULL},
    {"http://", NULL},
    {"http://[::1", NULL},
    {"HTTP://EXAMPLE.com:80/%7Esmith/%3a", "http://example.com/~smith/%3A"},
    {"https://a:443", "https://a/"},
    {"https://a:444/", "https://a:444/"},
    {"http://user:secret@a/g", "http://a/g"},
    {" \t/g\n ", "http://a/g"},
    {"/g\ng", "http://a/gg"},
    {"/a b", "http://a/a%20b"},
    {"/x/%2e%2E/g", "http://a/g"},
    {"/x/%2e/g", "http://a/x/g"},
    {"/%", "http://a/%"},
    {"/g?sid=1", "http://a/g"},
    {"/g?a=1&PHPSESSID=2&b=3&utm_source=4", "http://a/g?a=1&b=3"},
    {"/g?side=1&sid=2", "http://a/g?side=1"},
    {"/g;jsessionid=1?a=1", "http://a/g?a=1"},
    {"/\xC3\xA9", "http://a/%C3%A9"},
    {"/g?%73id=1", "http://a/g"},
    {"/x/..;sid=1/g", "http://a/g"},
    {"/g;a=1;sid=2;jsessionid=3?x", "http://a/g;a=1?x"},
};

static int check_robots(void)
{
  int failed = 0;
  for (size_t i = 0; i < sizeof robots_cases / sizeof *robots_cases; i++) {
    struct robots *r =
        robots_parse(robots_cases[i].text, strlen(robots_cases[i].text), robots_cases[i].agent);
    if (!r)
      return 1;
    bool allow = robots_allow(r, robots_cases[i].target);
    if (allow != robots_cases[i].allow || robots_delay(r) != robots_cases[i].delay) {
      printf("FAILED: %s is %s, delay %g, under\n%s\n", robots_cases[i].target,
             allow ? "allowed" : "disallowed", robots_delay(r), robots_cases[i].text);
      failed++;
    }
    robots_free(r);
  }
  /* Hostile patterns take polynomial time. */
  static char pattern[ROBOTS_MOST], target[URL_MOST];
  size_t len = (size_t) snprintf(pattern, sizeof pattern, "User-agent: *\nDisallow: /");
  for (; len < 2000; len += 2)
    memcpy(pattern + len, "*a", 3);
  strcpy(pattern + len, "b$\n");
  memset(target, 'a', sizeof target - 1);
  target[0] = '/';
  struct robots *r = robots_parse(pattern, strlen(pattern), "crawler");
  failed += !r || !robots_allow(r, target);
  robots_free(r);
  return failed;
}

static int check_urls(void)
{
  int failed = 0;
  CURLU *base = curl_url();
  if (!base || curl_url_set(base, CURLUPART_URL, "http://a/b/c/d?q", 0) != CURLUE_OK)
    return 1;
  for (size_t i = 0; i < sizeof url_cases / sizeof *url_cases; i++) {
    char url[URL_MOST], again[URL_MOST];
    const char *wanted = url_cases[i].url;
    size_t origin = url_normalise(base, url_cases[i].reference, url);
    bool good =
        wanted ? origin > 0 && origin == url_origin(url) && strcmp(url, wanted) == 0 : origin == 0;
    /* The normal form of a normal form is itself. */
    if (good && wanted)
      good = url_normalise(NULL, url, again) == origin && strcmp(url, again) == 0;
    if (!good) {
      printf("FAILED: '%s' became %s, and not %s\n", url_cases[i].reference,
             origin ? url : "nothing", wanted ? wanted : "nothing");
      failed++;
    }
  }
  curl_url_cleanup(base);
  return failed;
}

/* For each end tag that closes nothing, the parser looks through all elements that are open. */
static int check_links(void)
{
  enum { OPEN = 700000, CLOSED = 500000 }; /* 4 MiB together */
  struct links links = {0};
  struct html *html = html_begin("http://a/", &links);
  for (int i = 0; html && i < OPEN; i++)
    html_read(html, "<b>", 3);
  for (int i = 0; html && i < CLOSED; i++)
    html_read(html, "</i>", 4);
  if (html)
    html_read(html, "<a href='/x'>", 13);
  html_end(html);
  bool good = links.n == 1 && strcmp(links.text, "http://a/x") == 0;
  if (!good)
    printf("FAILED: %zu links\n", links.n);
  links_free(&links);
  return !good;
}

int main(void)
{
  /* A second or two are needed.  What takes as long as hostile text could make it is killed. */
  setrlimit(RLIMIT_CPU, &(struct rlimit){60, 60});
  int failed = check_robots() + check_urls() + check_links();
  printf("%d failed\n", failed);
  return failed != 0;
}
