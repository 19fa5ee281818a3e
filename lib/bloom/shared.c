/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates the file of a Bloom filter that several processes share, and opens it.
 *
 * The creator plans all layers that the file may ever have.  A process that opens the file plans
 * nothing: it checks the file's layout once, and remembers the place of each layer.
 */
#include "base/memory.h"
#include "base/shared_file.h"
#include "bloom/bloom.h"
#include "bloom/capacity.h"
#include "bloom/layers.h"
#include "bloom/live.h"
#include "bloom/saved_head.h"

/* ---- the layout of the file ---- */

struct file_plan {
  struct bloom_plan first;
  unsigned n;
  struct bloom_geometry layers[BLOOM_MOST_LAYERS];
  uint64_t tallies_at; /* the offset in the file at which the tallies begin, in bytes */
  uint64_t begins[BLOOM_MOST_LAYERS], ends[BLOOM_MOST_LAYERS]; /* offsets of each layer's words */
};

/* Sets the offsets of all parts, and returns the file's size, which is always below 2^64. */
static uint64_t lay_out(struct file_plan *p)
{
  uint64_t at = SAVED_HEADER + (p->n - UINT64_C(1)) * BLOOM_LAYER_BLOCK_BYTES;
  p->tallies_at = live_file_aligned(at);
  at = p->tallies_at + p->n * sizeof(struct bloom_tally);
  for (unsigned i = 0; i < p->n; i++) {
    p->begins[i] = live_file_aligned(at);
    at = p->ends[i] = p->begins[i] + p->layers[i].words * sizeof(word);
  }
  return p->ends[p->n - 1];
}

/* Plans the file.  The caller must have checked all options except max_bytes. */
static int plan_file(const tamis_options *o, const struct refusal *why, struct file_plan *p)
{
  *p = (struct file_plan){.n = 1};
  if (o->growable && !o->max_bytes)
    return tamis__refuse(why, TAMIS_EINVAL,
                         "max_bytes is not set; a filter that processes share and that is growable "
                         "needs it: address space is reserved for so many bytes");
  int result = tamis__bloom_plan(bloom_layout_for(o), bloom_opens_layers(o), o->capacity, o->fpp,
                                 &p->layers[0]);
  if (result == TAMIS_OK)
    result = tamis__check_max_bytes(why, o, lay_out(p));
  if (result != TAMIS_OK || !o->growable)
    return result;
  while (p->n < BLOOM_MOST_LAYERS &&
         tamis__layers_plan_after(p->layers[0].shape.layout, o->fpp, p->n, &p->layers[p->n - 1],
                                  &p->layers[p->n]) == TAMIS_OK) {
    p->n++;
    if (lay_out(p) > o->max_bytes) {
      p->n--;
      break;
    }
  }
  (void) lay_out(p);
  return TAMIS_OK;
}

/* ---- creation ---- */

static void put_layers(const void *context, struct saved_writer *w)
{
  const struct file_plan *p = context;
  for (unsigned i = 1; i < p->n && w->result == TAMIS_OK; i++)
    tamis__bloom_put_layer(&p->layers[i], i + 1, (struct bloom_sums){0}, w);
}

int tamis__bloom_share_new(struct saved_head *saved, const struct refusal *why,
                           struct shared_file *file)
{
  struct file_plan p;
  const struct bloom_geometry *first = &p.layers[0];
  int result = plan_file(&saved->options, why, &p);
  if (result != TAMIS_OK || !file)
    return result;
  tamis__bloom_put_shape(first, saved->geometry);
  saved->geometry[MOST_KEYS] = first->most_keys;
  saved->geometry[FURTHER_LAYERS] = p.n - 1;
  saved->features |= p.n > 1 ? SAVED_LAYERS : 0;
  const uint64_t boot = tamis__shared_file_boot(), tally[] = {LIVE_ALONE, 0, boot ? boot : 1};
  const struct live_file new = {.saved = saved,
                                .put_blocks = put_layers,
                                .context = &p,
                                .numbers = tally,
                                .n = sizeof tally / sizeof *tally,
                                .numbers_at = p.tallies_at,
                                .size = p.ends[p.n - 1],
                                .reserved = p.ends[0]};
  return tamis__live_file_write(&new, file);
}

/* ---- opening ---- */

static int read_file(struct saved_reader *r, const struct saved_head *saved, uint64_t size,
                     struct file_plan *p)
{
  if (!tamis__bloom_read_plan(saved, &p->first))
    return TAMIS_ECORRUPT;
  p->n = 1 + (unsigned) saved->geometry[FURTHER_LAYERS];
  p->layers[0] = p->first.geometry;
  int result = tamis__bloom_read_further(r, p->n, p->layers);
  if (result == TAMIS_OK && lay_out(p) != size)
    result = TAMIS_ECORRUPT;
  return result;
}

static size_t live_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                 bool *found)
{
  const struct bloom *first = const_bloom_of(f);
  size_t hits = bloom_calls_of(first)->alone.contains_many(f, hashes, n, found);
  return live_has_grown(first) ? tamis__layered_contains_many(f, hashes, n, found) : hits;
}

/* Creates this process's struct of layer i.  The structs of the layers before it must exist. */
static struct bloom *create_layer(struct bloom_shared *shared, const struct file_plan *p,
                                  unsigned i, const struct tamis_filter *head)
{
  struct bloom_plan plan = p->first;
  plan.geometry = p->layers[i];
  plan.tally = (struct bloom_tally *) ((char *) shared->file.at + p->tallies_at) + i;
  plan.older = i ? shared->layers[i - 1] : NULL;
  plan.number = i + 1;
  plan.closes_at = !i && p->n > 1 ? tamis__layers_close_first(&plan.geometry) : 0;
  struct bloom *b =
      tamis__bloom_create(head, &plan, (word *) ((char *) shared->file.at + p->begins[i]),
                          &(struct saved_mapping){.at = NULL});
  if (b)
    bloom_long_of(b)->shared = shared;
  shared->ends[i] = p->ends[i];
  return b;
}

static int create_layers(struct bloom_shared *shared, const struct file_plan *p,
                         const struct tamis_filter *head)
{
  for (unsigned i = 0; i < p->n; i++) {
    shared->layers[i] = create_layer(shared, p, i, head);
    if (!shared->layers[i])
      return TAMIS_ENOMEM;
    shared->planned = i + 1;
  }
  struct bloom *first = shared->layers[0];
  atomic_store_explicit(&first->newest, first, memory_order_relaxed); /* no thread shares it yet */
  shared->operations = bloom_calls_of(first)->alone;
  if (!first->limited) {
    shared->operations.contains = bloom_calls_of(first)->live_contains;
    shared->operations.contains_many = live_contains_many;
  }
  operations_begin(&first->head,
                   newest_layer(first) == first ? &shared->operations : &tamis__bloom_layered);
  return TAMIS_OK;
}

/* Reserves the space of the open layers, and corrects their counts of keys by their set bits. */
static int mend(void *context)
{
  struct bloom_shared *shared = context;
  struct bloom *newest = newest_layer(shared->layers[0]);
  int result = tamis__shared_file_reserve(&shared->file, 0, shared->ends[newest->number - 1], NULL);
  for (struct bloom *b = newest; b && result == TAMIS_OK; b = bloom_older(b))
    tamis__bloom_count_again(b);
  return result;
}

int tamis__bloom_share_open(struct saved_reader *r, const struct saved_head *saved,
                            const struct tamis_filter *head, struct shared_file *file,
                            tamis_filter **out)
{
  struct file_plan p = {.n = 0};
  int result = read_file(r, saved, file->size, &p);
  if (result == TAMIS_OK)
    result = tamis__shared_file_map(file);
  if (result != TAMIS_OK)
    return result;
  struct bloom_shared *shared = tamis__memory_allocate(filter_allocator(head), sizeof *shared);
  if (!shared)
    return TAMIS_ENOMEM;
  shared->allocator = *filter_allocator(head);
  shared->file = *file;
  *file = (struct shared_file){.fd = -1};
  shared->refused = (struct refused_space){.bytes = 0};
  atomic_store_explicit(&shared->known, 1, memory_order_relaxed);
  result = create_layers(shared, &p, head);
  if (result == TAMIS_OK)
    result = tamis__live_file_after_a_start(&shared->file, &bloom_tally_of(shared->layers[0])->boot,
                                            mend, shared);
  for (unsigned i = 0; i < p.n && result == TAMIS_OK; i++)
    (void) tamis__bloom_watch(shared->layers[i]);
  if (result == TAMIS_OK)
    *out = &shared->layers[0]->head;
  else
    tamis__live_close(shared);
  return result;
}
