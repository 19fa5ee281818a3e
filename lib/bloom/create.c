/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the memory of a Bloom filter, and its creation from a plan.
 */
#include "base/cores.h"
#include "base/memory.h"
#include "bloom/bloom.h"

#include <math.h>
#include <string.h>

/* ---- sizes of the parts of a filter ---- */

enum {
  /* The most bytes of the words of a small filter, which has one block and one shard. */
  MOST_SMALL_BYTES = SMALL(1024, 128),
  /* The limit with the option `stripes` = 1: threads take turns, so one shard is enough. */
  MOST_SMALL_BYTES_ALONE = SMALL(64 << 10, 128)
};

/* The sizes of a filter's parts.  Only the words of a large filter are in a block of their own. */
struct sizes {
  unsigned shards;      /* the number of shards; 0: the counters are in the struct */
  unsigned stripes;     /* the number of stripes that follow the struct */
  bool own_stripe;      /* the filter has only one stripe, in the struct */
  uint64_t words_bytes; /* the bytes of all words; 0: they are in a file */
  uint64_t before;      /* the bytes of words that precede the struct in its block */
  uint64_t struct_bytes, rows_bytes, all_bytes; /* bytes of the struct, rows and whole block */
};

static unsigned power_of_two_up(unsigned n)
{
  unsigned power = 1;
  while (power < n)
    power *= 2;
  return power;
}

static bool is_small(uint64_t words, bool alone)
{
  return words * sizeof(word) <= (alone ? MOST_SMALL_BYTES_ALONE : MOST_SMALL_BYTES);
}

static bool plan_is_small(const struct bloom_plan *plan)
{
  return is_small(plan->geometry.words, plan->stripes_wanted == 1);
}

static bool plan_counts(const struct bloom_plan *plan)
{
  return plan->geometry.shape.layout == BLOOM_LAYOUT_COUNTING;
}

/* Returns true if the plan needs a member that medium filters have and short ones lack.  (A filter
 * with counters becomes long.)  If max_bytes has no room for this member, it is not needed: no
 * second layer fits, and the bit `bounded` is enough. */
static bool needs_medium(const struct bloom_plan *plan)
{
  const size_t next = plan_counts(plan) ? sizeof(struct bloom_long) : sizeof(struct bloom_medium);
  return plan->limited || plan->has_allocator || plan->cleared_from ||
         plan->max_bytes >= plan->geometry.words * sizeof(word) + next;
}

/* Returns true if the plan needs a member that a medium filter lacks. */
static bool is_long(const struct bloom_plan *plan)
{
  return !plan_is_small(plan) || plan->number > 1 || plan->closes_early || plan->is_mapped ||
         plan->own_hash || plan->stripes_wanted > 1 || plan->tally ||
         plan->geometry.capacity > UINT16_MAX || plan->geometry.most_keys > UINT16_MAX ||
         plan->max_bytes >> 48 || (plan_counts(plan) && needs_medium(plan));
}

enum form { FORM_SHORT, FORM_MEDIUM, FORM_LONG };

static enum form form_of(const struct bloom_plan *plan)
{
  return is_long(plan) ? FORM_LONG : needs_medium(plan) ? FORM_MEDIUM : FORM_SHORT;
}

static struct sizes add_up(struct sizes s, bool small, enum form form)
{
  s.before = small ? s.words_bytes : 0;
  s.struct_bytes = !small ? sizeof(struct bloom_large) + s.shards * sizeof(struct counter_shard)
                   : form == FORM_LONG   ? sizeof(struct bloom_long)
                   : form == FORM_MEDIUM ? sizeof(struct bloom_medium)
                                         : sizeof(struct bloom);
  s.all_bytes = s.before + s.struct_bytes + s.stripes * sizeof(struct padded_stripe) + s.rows_bytes;
  return s;
}

/* Returns the sizes of a filter whose words are in a block of their own, as after a load. */
static struct sizes words_apart(struct sizes s)
{
  s.all_bytes -= s.before;
  s.before = 0;
  return s;
}

/* Returns the number of stripes: 1 in a small filter, of which there may be thousands. */
static unsigned stripes_for(const struct bloom_plan *plan, bool small)
{
  const struct bloom_geometry *g = &plan->geometry;
  unsigned lines = g->words < 4096 * LINE_WORDS ? (unsigned) g->words / LINE_WORDS : 4096;
  unsigned most = power_of_two_up(lines), stripes = small ? 1 : usual_stripes();
  if (g->shape.layout != BLOOM_LAYOUT_COUNTING || plan->is_mapped)
    return 0;
  return plan->stripes_wanted ? power_of_two_up(plan->stripes_wanted)
         : stripes < most     ? stripes
                              : most;
}

static uint64_t bytes_of_rows(unsigned number)
{
  return number > 1 ? number * sizeof(struct bloom_row) : 0;
}

static struct sizes sizes_for(const struct bloom_plan *plan)
{
  const struct bloom_geometry *g = &plan->geometry;
  bool small = plan_is_small(plan);
  bool elsewhere = plan->is_mapped || plan->tally;
  struct sizes s = {.words_bytes = elsewhere ? 0 : g->words * sizeof(word),
                    .rows_bytes = bytes_of_rows(plan->number)};
  s.stripes = stripes_for(plan, small);
  s.own_stripe = small && s.stripes == 1;
  s.stripes -= s.own_stripe;
  s.shards = small || plan->tally ? 0 : usual_shards(g->words * sizeof(word));
  return add_up(s, small, form_of(plan));
}

static struct sizes sizes_of(const struct bloom *b)
{
  bool elsewhere = bloom_mapping(b).at || b->live;
  struct sizes s = {.shards = b->counter_mask ? b->counter_mask + 1U : 0,
                    .words_bytes = elsewhere ? 0 : b->word_count * sizeof(word),
                    .rows_bytes = bytes_of_rows(b->number)};
  s.own_stripe = bloom_stripe_count(b) && (char *) b->stripes == b->own_stripe;
  s.stripes = s.own_stripe ? 0 : bloom_stripe_count(b);
  const enum form form = b->is_long ? FORM_LONG : b->is_medium ? FORM_MEDIUM : FORM_SHORT;
  s = add_up(s, is_small(b->word_count, bloom_stripes_wanted(b) == 1), form);
  return (char *) b->words + s.before == (char *) b ? s : words_apart(s);
}

static uint64_t total_bytes(const struct sizes *s)
{
  return s->all_bytes + s->words_bytes - s->before;
}

uint64_t tamis__bloom_bytes(const struct bloom *b)
{
  struct sizes s = sizes_of(b);
  bool own_operations = bloom_mapping(b).at && b->number == 1;
  uint64_t in_file = b->live ? b->word_count * sizeof(word) + sizeof(struct bloom_tally) : 0;
  return total_bytes(&s) + in_file + (own_operations ? sizeof(struct filter_operations) : 0);
}

uint64_t tamis__bloom_bytes_for(const struct bloom_plan *plan)
{
  struct sizes s = sizes_for(plan);
  return total_bytes(&s);
}

uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan)
{
  struct sizes s = sizes_for(plan);
  return total_bytes(&s) - s.words_bytes;
}

/* ---- blocks of memory ---- */

/* Allocates the block of a filter, without the words if the filter is large. */
static void *allocate_block(const tamis_allocator *from, const struct sizes *s)
{
  return s->shards ? tamis__memory_allocate(from, s->all_bytes)
                   : tamis__memory_allocate_dense(from, s->all_bytes);
}

/* Allocates the block of a filter whose words are in a block that ends at `end`.  The struct must
 * not begin at `end`: sizes_of() would take the words for a part of its block. */
static void *allocate_block_apart(const tamis_allocator *from, const struct sizes *s,
                                  const char *end)
{
  void *block = allocate_block(from, s);
  if (!block || block != end)
    return block;
  void *other = allocate_block(from, s);
  tamis__memory_release(from, block, s->all_bytes);
  return other;
}

void tamis__bloom_destroy_layer(struct bloom *b)
{
  const tamis_allocator from = *filter_allocator(&b->head);
  struct sizes s = sizes_of(b);
  for (unsigned i = 0; i < bloom_stripe_count(b); i++)
    lock_destroy(&bloom_stripe(b, i)->lock);
  if (bloom_mapping(b).at && b->number == 1)
    tamis__memory_release(&from, (void *) operations_of(&b->head),
                          sizeof(struct filter_operations));
  if (!s.before && s.words_bytes)
    tamis__memory_release(&from, b->words, s.words_bytes);
  tamis__memory_release(&from, (char *) b - s.before, s.all_bytes);
}

void tamis__bloom_destroy_layers(struct bloom *newest, const struct bloom *kept)
{
  for (struct bloom *older; newest != kept; newest = older) {
    older = bloom_older(newest);
    tamis__bloom_destroy_layer(newest);
  }
}

/* ---- creation ---- */

/* Returns the operations: a mapped filter gets its own, which refuse changes.  NULL: no memory. */
static const struct filter_operations *operations_for(const struct tamis_filter *head,
                                                      const struct bloom_plan *plan,
                                                      const struct bloom_calls *calls)
{
  if (!plan->is_mapped || plan->older)
    return &calls->alone;
  struct filter_operations *own = tamis__memory_allocate(filter_allocator(head), sizeof *own);
  if (own)
    *own = tamis__read_only(&calls->alone);
  return own;
}

static void begin_stripes(struct bloom *b, const struct sizes *s)
{
  unsigned stripes = s->stripes + s->own_stripe;
  if (!stripes)
    return;
  b->stripe_mask = (stripes - 1) & 4095;
  b->stripes = (struct stripe *) (s->own_stripe ? b->own_stripe : (char *) b + s->struct_bytes);
  for (unsigned i = 0; i < stripes; i++)
    lock_init(&bloom_stripe(b, i)->lock);
}

/* Returns cleared_from or, if it is too large, 0: the library then clears all blocks. */
static uint32_t cleared_from_32(const struct bloom_plan *plan)
{
  return plan->cleared_from <= UINT32_MAX ? (uint32_t) plan->cleared_from : 0;
}

static void begin_medium(struct bloom_medium *m, const struct tamis_filter *head,
                         const struct bloom_plan *plan)
{
  m->b.blocks_cleared_from = cleared_from_32(plan);
  m->allocator = *filter_allocator(head);
  m->max_bytes = plan->max_bytes & (UINT64_MAX >> 16); /* is_long() has checked max_bytes */
  m->most_keys = plan->geometry.most_keys & UINT16_MAX;
  if (m->allocator.allocate)
    filter_set_allocator(&m->b.head, &m->allocator);
}

static void begin_long(struct bloom_long *l, const struct tamis_filter *head,
                       const struct bloom_plan *plan, const struct bloom_calls *calls)
{
  const struct bloom_geometry *g = &plan->geometry;
  l->calls = calls;
  l->capacity = g->capacity;
  l->closes_at = plan->closes_at ? plan->closes_at : g->capacity;
  l->most_keys = g->most_keys;
  l->max_bytes = plan->max_bytes;
  l->stripes_wanted = plan->stripes_wanted;
  l->cleared_from = cleared_from_32(plan);
  l->more = filter_more_of(head);
  l->more.secret = NULL;
  if (!plan_is_small(plan)) {
    struct bloom_large *large = (struct bloom_large *) l;
    hash_make_secret(head->keys.seed, large->secret);
    l->more.secret = large->secret;
  }
  filter_set_more(&l->b.head, &l->more);
  if (plan->tally)
    l->tally = plan->tally;
}

static void begin(struct bloom *b, const struct tamis_filter *head, const struct bloom_plan *plan,
                  const struct sizes *s)
{
  const struct bloom_geometry *g = &plan->geometry;
  b->head.keys = head->keys;
  b->word_count = g->words;
  b->fpp = g->fpp;
  b->one_stripe = plan->stripes_wanted == 1;
  b->number = plan->number & 127;
  b->probes = g->shape.probes & 7;
  b->sections = g->shape.sections & 63;
  b->live = plan->tally != NULL;
  b->layout = g->shape.layout & 7;
  b->bits_per_probe = g->shape.bits_per_probe & 7;
  b->limited = plan->limited;
  b->is_long = form_of(plan) == FORM_LONG;
  b->is_medium = form_of(plan) == FORM_MEDIUM;
  b->bounded = plan->max_bytes && form_of(plan) == FORM_SHORT;
  b->few_keys = (uint16_t) g->capacity;
  b->counter_mask = (uint8_t) (s->shards ? s->shards - 1 : 0);
  if (g->shape.layout == BLOOM_LAYOUT_COUNTING)
    begin_stripes(b, s);
  else
    b->section_words = bloom_section_words(g->shape, g->words);
  if (plan->older)
    b->older = plan->older;
}

/* Fills in the rows of a later layer.  Copies the older layers' rows, whose words never move. */
static void begin_rows(struct bloom *b, struct bloom_row *rows)
{
  const struct bloom *older = b->older;
  rows[0] = bloom_row_of(b);
  if (older->number == 1)
    rows[1] = bloom_row_of(older);
  else
    memcpy(rows + 1, const_bloom_long_of(older)->rows, older->number * sizeof *rows);
  if (rows[0].calls->find == rows[1].calls->find && rows[0].probes >= rows[1].probes)
    rows[0].alike += rows[1].alike;
  bloom_long_of(b)->rows = rows;
}

struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping)
{
  struct sizes s = words ? words_apart(sizes_for(plan)) : sizes_for(plan);
  const struct bloom_calls *calls = tamis__bloom_calls(plan->geometry.shape);
  const struct filter_operations *operations = operations_for(head, plan, calls);
  const tamis_allocator *from = filter_allocator(head);
  char *block = !operations ? NULL
                : words ? allocate_block_apart(from, &s, (char *) (words + plan->geometry.words))
                        : allocate_block(from, &s);
  if (!block) {
    if (operations != &calls->alone)
      tamis__memory_release(filter_allocator(head), (void *) operations, sizeof *operations);
    return NULL;
  }
  struct bloom *b = (struct bloom *) (block + s.before);
  begin(b, head, plan, &s);
  if (b->is_long) {
    begin_long((struct bloom_long *) b, head, plan, calls);
    bloom_long_of(b)->mapping = *mapping;
  } else if (b->is_medium) {
    begin_medium((struct bloom_medium *) b, head, plan);
  }
  operations_begin(&b->head, operations);
  b->words = words ? words : (word *) block;
  if (plan->older)
    begin_rows(b, (struct bloom_row *) (block + s.all_bytes - s.rows_bytes));
  if (!mapping->at && !b->live)
    (void) tamis__bloom_watch(b);
  return b;
}

int tamis__bloom_create_empty(const struct tamis_filter *head, const struct bloom_plan *plan,
                              struct bloom **out)
{
  uint64_t words_bytes = plan->geometry.words * sizeof(word);
  bool clear = plan->cleared_from && words_bytes >= plan->cleared_from;
  word *words = NULL;
  if (!plan_is_small(plan)) {
    words = tamis__memory_allocate_cleared(filter_allocator(head), words_bytes,
                                           clear ? 0 : words_bytes);
    if (!words)
      return TAMIS_ENOMEM;
    if (plan->older) /* no huge pages: they take long to clear, and other threads wait */
      tamis__memory_use_small_pages(filter_allocator(head), words, words_bytes);
  }
  assert(plan->number == (plan->older ? plan->older->number + 1U : 1));
  *out = tamis__bloom_create(head, plan, words, &(struct saved_mapping){.at = NULL});
  if (!*out)
    tamis__memory_release(filter_allocator(head), words, words_bytes);
  return *out ? TAMIS_OK : TAMIS_ENOMEM;
}

int tamis__bloom_create_like(const struct bloom *model, struct bloom **out)
{
  const struct bloom_plan plan = {.geometry = bloom_geometry_of(model),
                                  .number = 1,
                                  .stripes_wanted = bloom_stripes_wanted(model),
                                  .max_bytes = bloom_max_bytes(model),
                                  .limited = model->limited,
                                  .cleared_from = bloom_cleared_from(model),
                                  .closes_at = bloom_closes_at(model),
                                  .closes_early = bloom_closes_at(model) != bloom_capacity(model),
                                  .has_allocator = filter_allocator(&model->head)->allocate != NULL,
                                  .own_hash = filter_has_own_hash(&model->head)};
  return tamis__bloom_create_empty(&model->head, &plan, out);
}
