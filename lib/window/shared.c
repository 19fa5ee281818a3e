/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates the file of a window that processes share, and opens it.
 */
#include "window/shared.h"

#include "base/cancel.h"
#include "base/memory.h"
#include "base/shared_file.h"
#include "window/counted.h"
#include "window/create.h"
#include "window/operations.h"
#include "window/save.h"

#include <errno.h>

/* ---- the offsets of the parts of the file ---- */

enum { CHECKPOINTS = 2 };

/* The most bytes that a checkpoint takes: array, checksums, the segments' periods, and the rest. */
static uint64_t checkpoint_bytes(const struct window_geometry *g)
{
  const uint64_t bytes = window_bytes(g);
  return live_file_aligned(bytes + bytes / 1024 + g->segments * 16 + (1 << 16));
}

static uint64_t checkpoint_at(const struct window_file_plan *p, uint64_t place)
{
  return live_file_aligned(p->end) + (place - 1) * p->checkpoint_bytes;
}

/* Sets the offsets of a file.  Returns its size in bytes, which fits in 64 bits for any window. */
static uint64_t lay_out(struct window_file_plan *p)
{
  const struct window_geometry *g = &p->plan.geometry;
  p->sizes = tamis__window_sizes(g, p->plan.stripes_wanted);
  p->state = live_file_aligned(SAVED_HEADER);
  p->counters = (p->state + window_state_bytes(&p->sizes) + 63) & ~UINT64_C(63);
  p->stripes = p->counters + sizeof(struct counter_shard);
  p->words = live_file_aligned(p->stripes + p->sizes.stripes * sizeof(struct window_stripe));
  p->end = p->words + window_bytes(g);
  p->checkpoint_bytes = checkpoint_bytes(g);
  return checkpoint_at(p, CHECKPOINTS + 1);
}

/* Plans the file.  The caller must have checked all options except max_bytes. */
static int plan_file(const tamis_options *o, const struct refusal *why, struct window_file_plan *p)
{
  *p = (struct window_file_plan){.plan = tamis__window_plan_of(o)};
  if (o->growable)
    return tamis__refuse(why, TAMIS_EUNSUPPORTED,
                         "growable is true; a %s that processes share has a fixed size",
                         o->window ? "window" : "cuckoo filter");
  int result = window_geometry_plan(&p->plan.spec, &p->plan.geometry);
  if (result != TAMIS_OK)
    return result;
  (void) lay_out(p);
  p->plan.stripes_wanted = p->sizes.stripes; /* how many stripes the file will have */
  return tamis__check_max_bytes(why, o, p->end);
}

/* ---- creation ---- */

int tamis__window_share_new(struct saved_head *saved, const struct refusal *why,
                            struct shared_file *file)
{
  const tamis_options *o = &saved->options;
  struct window_file_plan p;
  int result = plan_file(o, why, &p);
  if (result != TAMIS_OK || !file)
    return result;
  const uint64_t boot = tamis__shared_file_boot();
  if (!boot)
    return TAMIS_EIO;
  saved->features |= o->window ? SAVED_WINDOW : SAVED_COUNTED;
  saved->options.stripes = p.plan.stripes_wanted;
  tamis__window_put_numbers(&p.plan, saved->geometry);
  const uint64_t epoch = o->window ? epoch_first(window_stamps(o->window)) : counted_epoch();
  const uint64_t numbers[] = {epoch, 0, 0, 0, boot};
  _Static_assert(offsetof(struct window_state, boot) == 4 * sizeof *numbers, "it is the fifth");
  const struct live_file new = {.saved = saved,
                                .numbers = numbers,
                                .n = sizeof numbers / sizeof *numbers,
                                .numbers_at = p.state,
                                .size = lay_out(&p),
                                .reserved = p.end};
  return tamis__live_file_write(&new, file);
}

/* ---- checkpoints: [R] ---- */

static struct file_part part_for(const struct window_shared *s, uint64_t place)
{
  const uint64_t at = checkpoint_at(&s->plan, place);
  return (struct file_part){&s->file, at, at + s->plan.checkpoint_bytes};
}

static int write_checkpoint(const struct window *w, uint64_t place)
{
  const struct window_shared *s = w->shared;
  struct file_part to = part_for(s, place);
  int result = tamis__shared_file_reserve(&s->file, to.at, to.end, NULL);
  if (result != TAMIS_OK)
    return result;
  struct saved_head head = {.probe = filter_probe(&w->head)};
  tamis__window_describe(&w->head, &head);
  head.geometry[SAVED_WINDOW_PERIOD] -= epoch_number(0, head.numbers);
  head.geometry[SAVED_WINDOW_PERIOD] &= window_most_period;
  head.numbers = 0; /* the offset of period numbers is not saved, as it may change later */
  head.options.kind = w->operations.kind->kind;
  head.options.seed = w->head.keys.seed;
  struct saved_writer writer = {
      .write = tamis__file_part_write, .context = &to, .allocator = *filter_allocator(&w->head)};
  tamis__saved_begin(&writer, &head);
  if (writer.result == TAMIS_OK)
    writer.result = tamis__window_save(&w->head, &writer);
  result = tamis__saved_end(&writer);
  return result == TAMIS_OK ? tamis__shared_file_flush(&s->file) : result;
}

/* Writes a checkpoint over the older of the two.  First writes the state to disk: after a call that
 * failed or was killed, the disk may still name the older checkpoint.
 *
 * Accesses to `checkpoint` are relaxed: `syncing` orders writers, and readers read the disk. */
static int checkpoint(struct window *w)
{
  _Atomic uint64_t *place = &w->state->checkpoint;
  int result = tamis__shared_file_sync(&w->shared->file, w->shared->plan.counters);
  const uint64_t next = atomic_load_explicit(place, memory_order_relaxed) == 1 ? 2 : 1;
  if (result == TAMIS_OK)
    result = write_checkpoint(w, next);
  if (result != TAMIS_OK)
    return result;
  atomic_store_explicit(place, next, memory_order_relaxed);
  return tamis__shared_file_sync(&w->shared->file, w->shared->plan.end);
}

static int sync_uncancelled(struct window *w)
{
  int result = window_join(w);
  if (result != TAMIS_OK)
    return result;
  (void) owned_lock(&w->state->syncing, &w->owner);
  result = checkpoint(w);
  owned_unlock(&w->state->syncing, &w->owner);
  return result;
}

int tamis__window_sync(const tamis_filter *f)
{
  struct window *w = window_of((tamis_filter *) f);
  if (!w->shared)
    return TAMIS_EUNSUPPORTED;
  if (w->shared->file.in_memory)
    return TAMIS_OK;
  return UNCANCELLED(sync_uncancelled(w));
}

/* Loads the window of the last checkpoint.  *out is NULL if there is no valid checkpoint. */
static int load_checkpoint(const struct window *w, tamis_filter **out)
{
  const uint64_t place = atomic_load_explicit(&w->state->checkpoint, memory_order_relaxed);
  *out = NULL;
  if (!place || place > CHECKPOINTS)
    return TAMIS_OK;
  struct file_part from = part_for(w->shared, place);
  struct saved_reader r = {
      .read = tamis__file_part_read, .context = &from, .allocator = *filter_allocator(&w->head)};
  struct saved_head saved;
  int result = tamis__saved_read_header(&r, &saved);
  if (result == TAMIS_OK && (saved.features != (w->operations.kind->features & ~SAVED_LIVE) ||
                             saved.options.kind != w->operations.kind->kind))
    result = TAMIS_ECORRUPT;
  if (result == TAMIS_OK)
    result = tamis__window_load(&r, &saved, &w->head, out);
  tamis__saved_close(&r);
  return result == TAMIS_ENOMEM || result == TAMIS_EIO ? result : TAMIS_OK;
}

/* Replaces the window's words by those of the checkpoint.  Used if the window has no room for the
 * keys of its own words and those of the checkpoint together. */
static void replace_words(struct window *w, struct window *last)
{
  for (uint64_t i = 0; i < window_words(&w->first.geometry); i++)
    word_store(&w->first.words[i], word_load(&last->first.words[i]));
  atomic_store_explicit(&w->state->epoch, epoch_read(&last->state->epoch),
                        memory_order_relaxed); /* relaxed: no other process uses the window */
  tamis__window_mend_all(w);
}

/* Adds the entries of the last checkpoint that the window's running period still remembers. */
static int unite_checkpoint(struct window *w)
{
  tamis_filter *last;
  int result = load_checkpoint(w, &last);
  if (!last)
    return result;
  if (!window_has_geometry(&window_of(last)->first.geometry, &w->first.geometry)) {
    tamis__window_destroy(last); /* the checkpoint was written for another window */
    return TAMIS_OK;
  }
  result = tamis__window_advance(last, PERIODS_END, epoch_period(epoch_read(&w->state->epoch)));
  if (result == TAMIS_OK)
    result = tamis__window_unite(&w->head, last, true);
  if (result == TAMIS_EFULL)
    replace_words(w, window_of(last));
  tamis__window_destroy(last);
  return result == TAMIS_ENOMEM ? result : TAMIS_OK;
}

/* ---- opening ---- */

static int mend(struct window *w)
{
  const struct window_shared *s = w->shared;
  int result = tamis__shared_file_reserve(&s->file, 0, s->plan.end, NULL);
  if (result != TAMIS_OK)
    return result;
  tamis__window_mend_all(w);
  return unite_checkpoint(w);
}

/* Mends the file if the machine has been restarted since the file was last mended.  No process uses
 * the file: those that open it wait.  (Relaxed: the file's lock orders the accesses.) */
static int mend_after_a_start(void *context)
{
  struct window *w = context;
  const uint64_t now = tamis__shared_file_boot();
  if (atomic_load_explicit(&w->state->boot, memory_order_relaxed) == now)
    return TAMIS_OK;
  int result = now ? mend(w) : TAMIS_EIO;
  if (result == TAMIS_OK)
    atomic_store_explicit(&w->state->boot, now, memory_order_relaxed);
  return result;
}

/* Gives this process a name, unless a process that may only read the file has locked it.  Without a
 * name, calls that take locks are refused, and look-ups require that the file needs no mending. */
static int join_first(struct window *w)
{
  int result = tamis__owner_renew(&w->owner, mend_after_a_start, w);
  if (result != TAMIS_EIO || errno != EAGAIN)
    return result;
  const uint64_t mended = atomic_load_explicit(&w->state->boot, memory_order_relaxed);
  return mended == tamis__shared_file_boot() ? TAMIS_OK : result;
}

/* Initialises `opening` in the child of a fork: a thread of the parent may have held the lock. */
static void begin_in_child(struct owner *owner)
{
  struct window *w = (struct window *) (void *) ((char *) owner - offsetof(struct window, owner));
  lock_init(&w->opening);
}

/* Reads the plan from the header.  Does not plan the file again: another version of the library may
 * plan another geometry for the same options. */
static int read_file(const struct saved_head *saved, uint64_t size, struct window_file_plan *p)
{
  *p = (struct window_file_plan){.end = 0};
  const bool good = !saved->options.growable && tamis__window_read_plan(saved, &p->plan) &&
                    lay_out(p) == size && p->sizes.stripes == p->plan.stripes_wanted;
  return good ? TAMIS_OK : TAMIS_ECORRUPT;
}

static int create(struct window_shared *s, const struct tamis_filter *head, struct window **out)
{
  char *at = s->file.at;
  const struct window_file_plan *p = &s->plan;
  const struct window_parts parts = {.shared = s,
                                     .state = (struct window_state *) (at + p->state),
                                     .counters = (struct counter_shard *) (at + p->counters),
                                     .stripes = (struct window_stripe *) (at + p->stripes)};
  struct window_plan plan = p->plan;
  plan.parts = &parts;
  plan.words = (word *) (at + p->words);
  *out = tamis__window_create(head, &plan);
  return *out ? TAMIS_OK : TAMIS_ENOMEM;
}

int tamis__window_share_open(struct saved_reader *r, const struct saved_head *saved,
                             const struct tamis_filter *head, struct shared_file *file,
                             tamis_filter **out)
{
  (void) r;
  struct window_file_plan p;
  struct window *w;
  int result = read_file(saved, file->size, &p);
  if (result == TAMIS_OK)
    result = tamis__shared_file_map(file);
  if (result != TAMIS_OK)
    return result;
  struct window_shared *s = tamis__memory_allocate(filter_allocator(head), sizeof *s);
  if (!s)
    return TAMIS_ENOMEM;
  *s = (struct window_shared){.allocator = *filter_allocator(head), .file = *file, .plan = p};
  *file = (struct shared_file){.fd = -1};
  result = create(s, head, &w);
  if (result != TAMIS_OK) {
    window_close(s);
    return result;
  }
  result = tamis__owner_begin(&w->owner, s->file.fd, begin_in_child);
  if (result == TAMIS_OK)
    result = join_first(w);
  if (result == TAMIS_OK)
    *out = &w->head;
  else
    tamis__window_destroy(&w->head);
  return result;
}

/* ---- figures from the file ---- */

static int read_live_stats(struct saved_reader *r, struct saved_head *saved)
{
  struct window_file_plan p;
  if (saved->options.growable || !tamis__window_read_plan(saved, &p.plan))
    return TAMIS_ECORRUPT;
  (void) lay_out(&p);
  struct saved_memory m = {.limit = 0};
  int result = tamis__saved_read_array(r, p.words - p.state, &m);
  if (result == TAMIS_OK) {
    char *state = (char *) m.array;
    const struct window_geometry *g = &p.plan.geometry;
    const struct window live = {
        .state = (struct window_state *) state,
        .stripes = {(struct window_stripe *) (state + (p.stripes - p.state)), p.sizes.stripes - 1}};
    const uint64_t lanes = window_lanes_in_use(&live), further = window_all_further(&live);
    if (p.plan.counted)
      saved->geometry[SAVED_WINDOW_FURTHER] =
          further / COUNTED_PERIODS <= window_lanes(g) ? further : 0;
    else
      saved->geometry[SAVED_WINDOW_PERIOD] = window_period(&live);
    saved->figures.count =
        (lanes < window_lanes(g) ? lanes : window_lanes(g)) + saved->geometry[SAVED_WINDOW_FURTHER];
    saved->figures.bits = window_words(g) * 64;
    saved->figures.bytes = window_bytes(g);
    saved->figures.fingerprint_bits = window_fingerprint_bits(&g->shape);
  }
  tamis__memory_release(&r->allocator, m.block, m.bytes);
  return result;
}

int tamis__window_read_info(struct saved_reader *r, struct saved_head *saved)
{
  int result = saved->features & SAVED_LIVE ? read_live_stats(r, saved) : TAMIS_OK;
  if (result == TAMIS_OK)
    tamis__window_figures(saved);
  return result;
}
