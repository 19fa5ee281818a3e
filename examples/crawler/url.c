/* SPDX-License-Identifier: MIT */
#include "url.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Parameters that name a visitor or an advertisement, and not a page.  A crawler that kept them
 * would find every page again with each new session. */
static const char *const ignored[] = {"jsessionid", "phpsessid", "sessionid", "sid"};

static bool is_ignored(const char *parameter, size_t len)
{
  size_t name = strcspn(parameter, "=");
  if (name > len)
    name = len;
  if (name >= 4 && strncasecmp(parameter, "utm_", 4) == 0)
    return true;
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (strlen(ignored[i]) == name && strncasecmp(parameter, ignored[i], name) == 0)
      return true;
  return false;
}

/* Takes ignored parameters out of "?a=1&sid=2&b=3", in place; of none is left, the ? goes, too. */
static void drop_ignored(char *query)
{
  char *to = query + 1;
  for (const char *from = query + 1; *from != '\0';) {
    size_t len = strcspn(from, "&");
    size_t whole = len + (from[len] == '&');
    if (!is_ignored(from, len)) {
      memmove(to, from, whole);
      to += whole;
    }
    from += whole;
  }
  if (to > query + 1 && to[-1] == '&')
    to--;
  *(to == query + 1 ? query : to) = '\0';
}

/* Takes ";jsessionid=..." out of the last segment of a path, where servlets put it. */
static void drop_path_session(char *path)
{
  size_t end = strcspn(path, "?");
  for (char *semicolon = path; (semicolon = strchr(semicolon, ';')) && semicolon < path + end;
       semicolon++) {
    size_t len = strcspn(semicolon + 1, ";/?");
    if (!is_ignored(semicolon + 1, len))
      continue;
    memmove(semicolon, semicolon + 1 + len, strlen(semicolon + 1 + len) + 1);
    return;
  }
}

static int hex(char c)
{
  return isdigit((unsigned char) c) ? c - '0' : toupper((unsigned char) c) - 'A' + 10;
}

void url_unify_escapes(char *text)
{
  char *to = text;
  for (const char *from = text; *from != '\0'; from++) {
    *to++ = *from;
    if (*from != '%' || !isxdigit((unsigned char) from[1]) || !isxdigit((unsigned char) from[2]))
      continue;
    int byte = hex(from[1]) << 4 | hex(from[2]);
    if (byte < 0x80 && byte != 0 && (isalnum(byte) || strchr("-._~", byte))) {
      to[-1] = (char) byte;
    } else {
      *to++ = (char) toupper((unsigned char) from[1]);
      *to++ = (char) toupper((unsigned char) from[2]);
    }
    from += 2;
  }
  *to = '\0';
}

size_t url_origin(const char *url)
{
  const char *host = strstr(url, "://") + 3;
  return (size_t) (host - url) + strcspn(host, "/?");
}

/* Takes out what does not count of a path and its query; whether there was anything. */
static bool simplify(char *target)
{
  char before[URL_MOST];
  strcpy(before, target);
  url_unify_escapes(target);
  drop_path_session(target);
  char *query = strchr(target, '?');
  if (query)
    drop_ignored(query);
  return strcmp(before, target) != 0;
}

/* Lets curl parse and write the URL; false if it is none, or too long. */
static bool rewrite(CURLU *u, const char *reference, char *out)
{
  char *text = NULL;
  bool good = curl_url_set(u, CURLUPART_URL, reference, CURLU_URLENCODE) == CURLUE_OK &&
              curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
              curl_url_set(u, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
              curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_URL, &text, CURLU_NO_DEFAULT_PORT) == CURLUE_OK &&
              strlen(text) < URL_MOST;
  if (good)
    strcpy(out, text);
  curl_free(text);
  return good;
}

size_t url_normalise(CURLU *base, const char *reference, char out[static URL_MOST])
{
  /* Spaces around a reference and line ends in it are no part of it (HTML, "URL parser"). */
  char clean[URL_MOST];
  size_t len = 0;
  reference += strspn(reference, " \t\r\n\f");
  for (; *reference != '\0' && *reference != '#'; reference++) {
    if (strchr("\t\r\n", *reference))
      continue;
    if (len == sizeof clean - 1)
      return 0;
    clean[len++] = *reference;
  }
  while (len > 0 && (clean[len - 1] == ' ' || clean[len - 1] == '\f'))
    len--;
  clean[len] = '\0';
  if (len == 0) /* the page itself */
    return 0;

  CURLU *u = base ? curl_url_dup(base) : curl_url();
  bool good = u && rewrite(u, clean, out) &&
              (strncmp(out, "http://", 7) == 0 || strncmp(out, "https://", 8) == 0);
  size_t origin = good ? url_origin(out) : 0;
  for (size_t i = 0; i < origin; i++)
    out[i] = (char) tolower((unsigned char) out[i]);
  /* What is left out, or written in another way, may uncover more: a "../", or another parameter to
   * leave out.  This ends, as the text becomes shorter, or has more escapes in capitals. */
  while (good && simplify(out + origin)) {
    strcpy(clean, out);
    good = rewrite(u, clean, out);
  }
  curl_url_cleanup(u);
  if (!good)
    return 0;
  return origin;
}
