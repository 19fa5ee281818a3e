/* SPDX-License-Identifier: MIT
 *
 * A cuckoo filter that grows: nobody knows how many URLs a crawl will find, and this kind keeps its
 * rate and stays near the memory that its keys need, at any size, and grows in small steps.  A
 * Bloom filter that grows takes fewer bits where the number is about known; but it grows by opening
 * a layer as large as all that it has, and each look-up, most of which find their key here,
 * searches them all.
 */
#include "seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tamis/tamis.h>

#include "complain.h"

struct seen {
  tamis_filter *filter;
};

static struct seen *wrap(tamis_filter *filter)
{
  struct seen *s = malloc(sizeof *s);
  if (!s) {
    complain("out of memory");
    tamis_destroy(filter);
    return NULL;
  }
  s->filter = filter;
  return s;
}

struct seen *seen_create(const struct seen_options *options)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  tamis_filter *filter;
  char why[200];
  o.kind = TAMIS_CUCKOO;
  o.capacity = options->expected;
  o.fpp = options->fpp;
  o.max_bytes = options->max_bytes;
  int result = tamis_create(&o, &filter);
  if (result == TAMIS_OK)
    return wrap(filter);
  if (tamis_options_check(&o, why, sizeof why) == TAMIS_OK)
    why[0] = '\0';
  complain("cannot create the filter: %s", why[0] != '\0' ? why : tamis_strerror(result));
  return NULL;
}

struct seen *seen_load(const struct seen_options *options, const char *path)
{
  tamis_load_options o = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *filter;
  o.max_bytes = options->max_bytes;
  int result = tamis_load_file(&o, path, &filter);
  if (result == TAMIS_OK)
    return wrap(filter);
  complain("cannot load the filter %s: %s", path,
           result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
  return NULL;
}

void seen_destroy(struct seen *s)
{
  if (s)
    tamis_destroy(s->filter);
  free(s);
}

int64_t seen_probe(const struct seen *s)
{
  return (int64_t) tamis_hash(s->filter, NULL, 0);
}

static int claim_hash(struct seen *s, uint64_t hash)
{
  int result = tamis_add_unique_hash(s->filter, hash);
  if (result < 0)
    complain("the filter takes no more URLs: %s", tamis_strerror(result));
  return result == TAMIS_OK ? 1 : result == TAMIS_PRESENT ? 0 : -1;
}

int seen_claim(struct seen *s, const char *url, size_t len, uint64_t *hash)
{
  *hash = tamis_hash(s->filter, url, len);
  return claim_hash(s, *hash);
}

bool seen_restore(struct seen *s, uint64_t hash)
{
  /* A unique add, because a plain one would add a second copy. */
  return claim_hash(s, hash) >= 0;
}

bool seen_save(const struct seen *s, const char *path)
{
  int result = tamis_save_file(s->filter, path);
  if (result != TAMIS_OK)
    complain("cannot save the filter to %s: %s", path,
             result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
  return result == TAMIS_OK;
}

struct seen_figures seen_figures(const struct seen *s)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(s->filter, &stats);
  return (struct seen_figures){stats.count, stats.bytes};
}

static int write_text(void *context, const void *data, size_t size)
{
  return fwrite(data, 1, size, context) == size ? 0 : -1;
}

bool seen_metrics(const struct seen *s, FILE *out)
{
  return tamis_stats_text(s->filter, TAMIS_PROMETHEUS, "seen", write_text, out) == TAMIS_OK;
}
