/* SPDX-License-Identifier: MIT */
#include "links.h"

#include <libxml/HTMLparser.h>
#include <stdlib.h>
#include <string.h>

#include "url.h"

enum { DEEPEST = 128 }; /* open elements that are remembered, at least */

struct html {
  htmlParserCtxtPtr parser;
  CURLU *base; /* what references are relative to */
  struct links *links;
  bool base_is_set, no_follow;
};

static void add_reference(struct links *links, CURLU *base, const char *reference)
{
  char url[URL_MOST];
  if (links->used > LINKS_MOST || url_normalise(base, reference, url) == 0)
    return;
  size_t size = strlen(url) + 1;
  if (links->used + size > links->room) {
    size_t room = 2 * links->room + 8192;
    char *more = realloc(links->text, room);
    if (!more) {
      links->no_memory = true;
      return;
    }
    links->text = more, links->room = room;
  }
  memcpy(links->text + links->used, url, size);
  links->used += size;
  links->n++;
}

void links_add(struct links *links, const char *base, const char *reference)
{
  CURLU *u = curl_url();
  if (u && curl_url_set(u, CURLUPART_URL, base, 0) == CURLUE_OK)
    add_reference(links, u, reference);
  else
    links->no_memory = true; /* `base` is a URL in normal form */
  curl_url_cleanup(u);
}

void links_free(struct links *links)
{
  free(links->text);
  *links = (struct links){0};
}

static const char *attribute(const xmlChar **attributes, const char *name)
{
  for (; attributes && attributes[0]; attributes += 2)
    if (xmlStrcasecmp(attributes[0], (const xmlChar *) name) == 0)
      return (const char *) attributes[1];
  return NULL;
}

static bool has_word(const char *words, const char *word)
{
  return words && xmlStrcasestr((const xmlChar *) words, (const xmlChar *) word);
}

static void read_meta(struct html *html, const xmlChar **attributes)
{
  const char *content = attribute(attributes, "content");
  if (has_word(attribute(attributes, "name"), "robots"))
    html->no_follow |= has_word(content, "nofollow") || has_word(content, "none");
  if (content && has_word(attribute(attributes, "http-equiv"), "refresh")) {
    const char *url =
        (const char *) xmlStrcasestr((const xmlChar *) content, (const xmlChar *) "url=");
    if (url)
      add_reference(html->links, html->base, url + 4 + strspn(url + 4, "'\""));
  }
}

/* The elements that lead to other pages, and their attributes. */
static const struct {
  const char *element, *attribute;
} leads[] = {{"a", "href"}, {"area", "href"}, {"frame", "src"}, {"iframe", "src"}};

/* For each end tag the parser looks through all elements that are open.  A page that opens half a
 * million and then closes others would keep a thread busy for minutes, so the outer ones are
 * forgotten; their end tags are then ignored, like others that close nothing.  The names belong to
 * its dictionary. */
static void forget_outer_elements(htmlParserCtxtPtr parser)
{
  if (parser->nameNr < 2 * DEEPEST)
    return;
  memmove(parser->nameTab, parser->nameTab + parser->nameNr - DEEPEST,
          DEEPEST * sizeof *parser->nameTab);
  parser->nameNr = DEEPEST;
}

/* Called by the parser for each element; libxml2 has made its name lower case. */
static void start_element(void *context, const xmlChar *name, const xmlChar **attributes)
{
  struct html *html = context;
  forget_outer_elements(html->parser);
  if (strcmp((const char *) name, "meta") == 0)
    read_meta(html, attributes);
  const char *href = attribute(attributes, "href");
  if (strcmp((const char *) name, "base") == 0 && href && !html->base_is_set) {
    html->base_is_set = true; /* the first one counts */
    CURLU *base = curl_url_dup(html->base);
    if (base && curl_url_set(base, CURLUPART_URL, href, CURLU_URLENCODE) == CURLUE_OK) {
      CURLU *old = html->base;
      html->base = base, base = old;
    }
    curl_url_cleanup(base);
  }
  if (html->no_follow || has_word(attribute(attributes, "rel"), "nofollow"))
    return;
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
    const char *reference = strcmp((const char *) name, leads[i].element) == 0
                                ? attribute(attributes, leads[i].attribute)
                                : NULL;
    if (reference)
      add_reference(html->links, html->base, reference);
  }
}

static void silent(void *context, const char *message, ...)
{
  (void) context, (void) message;
}

struct html *html_begin(const char *url, struct links *links)
{
  struct html *html = calloc(1, sizeof *html);
  htmlSAXHandler handler = {.startElement = start_element, .error = silent, .warning = silent};
  if (!html)
    return NULL;
  html->links = links;
  html->base = curl_url();
  html->parser = htmlCreatePushParserCtxt(&handler, html, NULL, 0, url, XML_CHAR_ENCODING_NONE);
  if (!html->base || !html->parser ||
      curl_url_set(html->base, CURLUPART_URL, url, 0) != CURLUE_OK) {
    html_end(html);
    return NULL;
  }
  htmlCtxtUseOptions(html->parser, HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                                       HTML_PARSE_NONET | HTML_PARSE_NODEFDTD);
  return html;
}

void html_read(struct html *html, const char *data, size_t size)
{
  (void) htmlParseChunk(html->parser, data, (int) size,
                        0); /* what is broken is read as browsers do */
}

void html_end(struct html *html)
{
  if (!html)
    return;
  if (html->parser) {
    (void) htmlParseChunk(html->parser, NULL, 0, 1);
    xmlFreeDoc(html->parser->myDoc);
    htmlFreeParserCtxt(html->parser);
  }
  curl_url_cleanup(html->base);
  free(html);
}
