/* SPDX-License-Identifier: MIT
 *
 * An exact set in the place of the filter, for a comparison: all URLs in a hash table, under a
 * lock.  It is not saved, so a crawl with it cannot be resumed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "seen.h"

struct seen {
  pthread_mutex_t lock;
  char **urls; /* open addressing; at most three quarters are in use */
  size_t room, n, bytes;
};

struct seen *seen_create(const struct seen_options *options)
{
  (void) options;
  struct seen *s = calloc(1, sizeof *s);
  s->room = 1024;
  s->urls = calloc(s->room, sizeof *s->urls);
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

struct seen *seen_load(const struct seen_options *options, const char *path)
{
  (void) options, (void) path;
  complain("a crawl with an exact set cannot be resumed");
  return NULL;
}

void seen_destroy(struct seen *s)
{
  for (size_t i = 0; s && i < s->room; i++)
    free(s->urls[i]);
  if (s)
    free(s->urls);
  free(s);
}

int64_t seen_probe(const struct seen *s)
{
  (void) s;
  return 0;
}

static uint64_t hash_of(const char *url, size_t len) /* FNV-1a */
{
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ (unsigned char) url[i]) * UINT64_C(1099511628211);
  return hash ^ hash >> 32;
}

static char **place_of(const struct seen *s, const char *url, uint64_t hash)
{
  size_t i = hash & (s->room - 1);
  while (s->urls[i] && strcmp(s->urls[i], url) != 0)
    i = (i + 1) & (s->room - 1);
  return &s->urls[i];
}

static void grow(struct seen *s)
{
  struct seen larger = {.urls = calloc(2 * s->room, sizeof *s->urls), .room = 2 * s->room};
  for (size_t i = 0; i < s->room; i++)
    if (s->urls[i])
      *place_of(&larger, s->urls[i], hash_of(s->urls[i], strlen(s->urls[i]))) = s->urls[i];
  free(s->urls);
  s->urls = larger.urls, s->room = larger.room;
}

int seen_claim(struct seen *s, const char *url, size_t len, uint64_t *hash)
{
  *hash = hash_of(url, len);
  pthread_mutex_lock(&s->lock);
  if (4 * s->n >= 3 * s->room)
    grow(s);
  char **place = place_of(s, url, *hash);
  int new = *place == NULL;
  if (new) {
    *place = strdup(url);
    s->n++;
    s->bytes += (len + 1 + 8 + 15) / 16 * 16; /* as malloc() rounds it up */
  }
  pthread_mutex_unlock(&s->lock);
  return new;
}

bool seen_restore(struct seen *s, uint64_t hash)
{
  (void) s, (void) hash;
  return false;
}

bool seen_save(const struct seen *s, const char *path)
{
  (void) s;
  FILE *empty = fopen(path, "w");
  return empty && fclose(empty) == 0;
}

struct seen_figures seen_figures(const struct seen *s)
{
  return (struct seen_figures){s->n, s->bytes + s->room * sizeof *s->urls};
}

bool seen_metrics(const struct seen *s, FILE *out)
{
  struct seen_figures n = seen_figures(s);
  return fprintf(out, "tamis_keys{name=\"seen\"} %zu\ntamis_bytes{name=\"seen\"} %zu\n",
                 (size_t) n.count, (size_t) n.bytes) > 0;
}
