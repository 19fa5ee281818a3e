/* SPDX-License-Identifier: MIT
 *
 * The links of an HTML page, by libxml2's push parser: the page is read as it arrives, and no tree
 * of it is built, so a hostile page takes no more memory than its links do.
 */
#ifndef CRAWLER_LINKS_H
#define CRAWLER_LINKS_H

#include <stdbool.h>
#include <stddef.h>

enum { LINKS_MOST = 4 * 1024 * 1024 }; /* bytes of all links of a page that are kept */

/* URLs in normal form, one after the other, each with a 0 at its end. */
struct links {
  char *text;
  size_t used, room, n;
  bool no_memory;
};

/* Adds the normal form of a reference on the page `base`, unless it is none that can be fetched. */
void links_add(struct links *links, const char *base, const char *reference);
void links_free(struct links *links);

struct html;

/* Begins to read a page, whose links are added to `links`; NULL: no memory. */
struct html *html_begin(const char *url, struct links *links);
void html_read(struct html *html, const char *data, size_t size);
void html_end(struct html *html);

#endif
