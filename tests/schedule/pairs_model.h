/* SPDX-License-Identifier: MIT
 *
 * What the answers of two threads may be, key by key: the model that schedule/test_call_pairs.c compares with.
 *
 * A step is one call.  To a key, a step is one change at one instant, or two: a union reads the key
 * in one filter, and later brings it to the other one.  The changes of two threads to a key may
 * alternate in any way that keeps the order of each thread.  The answers are right if one of these
 * orders gives them all, and leaves what the filters have in the end.
 */
#ifndef TAMIS_TESTS_PAIRS_MODEL_H
#define TAMIS_TESTS_PAIRS_MODEL_H

#include "unit.h"

enum { FILTERS = 2, THREADS = 2, MOST_STEPS = 1024, MOST_CHANGES = 24 };

enum op { ADD, UNIQUE, REMOVE, CONTAINS, EACH, COUNT, ADVANCE, MERGE, SAVE, FIGURES, OPS };

static const char *const op_names[OPS] = {"add",           "add_unique", "remove",  "contains",
                                          "contains_each", "count",      "advance", "merge",
                                          "save",          "get_stats"};

/* A call on filter `at`, which a merge changes; it reads the other one. */
struct step {
  enum op op;
  unsigned at, key;
};

/* Of a key in a filter, or in a saved one: how many copies there are, and how many periods end
 * until they are forgotten. */
struct copies {
  unsigned n, left;
};

/* Of a key: `read` is what the merge of a thread has read.  The save of a thread has the key as it
 * was at one moment, and may have it older by the periods that ended since. */
struct key_state {
  struct copies in[FILTERS], read[THREADS], saved[THREADS], aged[THREADS];
};

struct model {
  bool counts_copies; /* adds of a present key are copies, which removes take out */
  unsigned periods;   /* that a key is remembered; 0: no window */
  unsigned most;      /* copies that are counted: a counter that gets there stays; 0: any number */
  bool may_refuse;    /* adds */
  bool refused_stay;  /* a unique add that is refused may have set the bits of its key */
  bool may_lose; /* the unique add of thread 0 may find that other keys have set its last bits */
};

static inline bool is_of_key(enum op op)
{
  return op <= COUNT;
}

/* One change to a key: a step, or one of the two parts of a merge. */
struct change {
  enum op op;
  bool reads; /* the first part of a merge */
  unsigned at, thread;
  int result;
};

static inline unsigned counted(const struct model *m, struct copies c)
{
  return m->most && c.n > m->most ? m->most : c.n;
}

static inline void renew(const struct model *m, struct copies *c)
{
  c->left = m->periods;
}

static inline void end_period(struct copies *c)
{
  if (c->n && --c->left == 0)
    c->n = 0;
}

/* Copies come one by one. */
static inline void unite(const struct model *m, struct copies *into, struct copies *from)
{
  if (!from->n)
    return;
  if (!into->n || from->left > into->left)
    into->left = from->left;
  into->n = m->counts_copies ? into->n + 1 : 1;
  from->n--;
}

static inline void unite_all(const struct model *m, struct key_state *k, unsigned at,
                             unsigned thread)
{
  while (k->read[thread].n)
    unite(m, &k->in[at], &k->read[thread]);
}

static inline bool is_refusal(int result)
{
  return result == TAMIS_EFULL;
}

/* Whether an add may return this; if so, it has that effect.  `fails`: the other one of two that
 * are possible. */
static inline bool may_add(const struct model *m, struct copies *c, enum op op, int result,
                           bool fails)
{
  if (is_refusal(result)) {
    c->n |= fails;
    return m->may_refuse;
  }
  if (result == TAMIS_PRESENT) {
    c->n |= fails;
    return op == UNIQUE && c->n;
  }
  if (result != TAMIS_OK || (op == UNIQUE && c->n))
    return false;
  c->n = m->counts_copies ? c->n + 1 : 1;
  renew(m, c);
  return true;
}

static inline bool may_remove(struct copies *c, int result)
{
  if (result == TAMIS_OK && c->n) {
    c->n--;
    return true;
  }
  return result == TAMIS_ABSENT && !c->n;
}

static inline void end_period_of_all(struct key_state *k, const struct change *c)
{
  end_period(&k->in[c->at]);
  for (unsigned i = 0; i < THREADS && c->at == 0; i++)
    end_period(&k->aged[i]);
}

/* Whether something is left open: a merge that was refused may have brought the key nevertheless;
 * and see refused_stay, may_lose. */
static inline bool is_open(const struct model *m, const struct change *c)
{
  return (c->op == MERGE && !c->reads && c->result != TAMIS_OK) ||
         (c->op == UNIQUE && is_refusal(c->result) && m->refused_stay) ||
         (c->op == UNIQUE && c->result == TAMIS_PRESENT && m->may_lose && c->thread == 0);
}

/* Whether the change may come now.  `fails`: which of two ways, if something is left open. */
static inline bool may_come(const struct model *m, struct key_state *k, const struct change *c,
                            bool fails)
{
  struct copies *in = &k->in[c->at];
  switch (c->op) {
  case ADD:
  case UNIQUE:
    return may_add(m, in, c->op, c->result, fails);
  case REMOVE:
    return may_remove(in, c->result);
  case CONTAINS:
  case EACH:
    return c->result == (in->n > 0);
  case COUNT:
    return c->result == (int) counted(m, *in);
  case ADVANCE:
    end_period_of_all(k, c);
    return c->result == TAMIS_OK;
  case MERGE:
    if (c->reads)
      k->read[c->thread] = k->in[1 - c->at];
    else if (fails)
      k->read[c->thread].n = 0;
    else
      unite(m, in, &k->read[c->thread]);
    return true;
  case SAVE:
    k->saved[c->thread] = k->aged[c->thread] = *in;
    return c->result == TAMIS_OK;
  default:
    return true;
  }
}

/* The changes of a thread's steps to a key. */
struct changes {
  unsigned n;
  struct change all[MOST_CHANGES];
};

static inline void note_change(struct changes *changes, struct change change)
{
  assert_true(changes->n < MOST_CHANGES);
  changes->all[changes->n++] = change;
}

static inline void note_step(struct changes *changes, const struct step *step, int result,
                             unsigned thread)
{
  struct change change = {.op = step->op, .at = step->at, .thread = thread, .result = result};
  if (step->op == FIGURES)
    return;
  if (step->op == MERGE) {
    change.reads = true;
    note_change(changes, change);
    change.reads = false;
  }
  note_change(changes, change);
}

static inline bool same_copies(const struct model *m, struct copies a, struct copies b)
{
  return counted(m, a) == b.n && (!m->periods || !a.n || a.left == b.left);
}

/* What was found in the end: in the filters, and how many copies the saved ones have. */
struct found {
  struct copies in[FILTERS];
  unsigned saved[THREADS];
};

static inline bool is_found(const struct model *m, const struct key_state *k,
                            const struct found *found)
{
  bool same = true;
  for (unsigned i = 0; i < FILTERS; i++)
    same &= same_copies(m, k->in[i], found->in[i]);
  for (unsigned i = 0; i < THREADS; i++)
    same &= counted(m, k->saved[i]) == found->saved[i] || k->aged[i].n == found->saved[i];
  return same;
}

/* Whether some order of the changes that are left, from a[i] and b[j] on, gives what was found. */
static inline bool is_possible(const struct model *m, struct key_state state,
                               const struct changes *a, unsigned i, const struct changes *b,
                               unsigned j, const struct found *found)
{
  if (i == a->n && j == b->n)
    return is_found(m, &state, found);
  for (unsigned choice = 0; choice < 4; choice++) {
    bool of_a = choice < 2, fails = choice % 2;
    if (of_a ? i == a->n : j == b->n)
      continue;
    const struct change *c = of_a ? &a->all[i] : &b->all[j];
    if (fails && !is_open(m, c))
      continue;
    struct key_state next = state;
    if (!may_come(m, &next, c, fails))
      continue;
    bool goes_on = c->op == MERGE && !c->reads && next.read[c->thread].n;
    if (is_possible(m, next, a, i + (of_a && !goes_on), b, j + (!of_a && !goes_on), found))
      return true;
  }
  return false;
}

#endif
