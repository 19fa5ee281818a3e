/* SPDX-License-Identifier: MIT
 *
 * The normal form of URLs: two spellings of one address become the same bytes, as far as the syntax
 * tells (RFC 3986, section 6.2.2), and parameters that only name a visitor are left out.
 */
#ifndef CRAWLER_URL_H
#define CRAWLER_URL_H

#include <curl/curl.h>
#include <stddef.h>

enum { URL_MOST = 2048 }; /* bytes of a URL, with the 0 at its end; longer ones are not crawled */

/* Writes the normal form of `reference`, as it stands on the page `base` (NULL: it is absolute), to
 * `out`.  Returns the length of its origin, "https://example.org:8443", or 0 if it is none that a
 * crawler can fetch: no URL, another scheme than http and https, or too long. */
size_t url_normalise(CURLU *base, const char *reference, char out[static URL_MOST]);

/* The length of the origin of a URL in normal form. */
size_t url_origin(const char *url);

/* Makes escapes of text that starts at a path uniform: %7e becomes ~, and %3f becomes %3F.  The
 * text does not become longer. */
void url_unify_escapes(char *text);

#endif
