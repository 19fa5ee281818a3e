/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "measure.h"
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double fpp = 0.01;

struct check {
  const struct subject *subject;
  uint64_t keys;
  void *state;
  unsigned wrong;
};

static void begin(struct check *c, uint64_t capacity)
{
  const struct spec spec = {.capacity = capacity, .fpp = fpp};
  c->state = c->subject->create(c->subject, &spec);
}

static void end(struct check *c)
{
  c->subject->destroy(c->subject, c->state);
}

static uint64_t answers(const struct check *c, enum call call, uint64_t first)
{
  const struct span span = {.first = first, .count = c->keys, .fresh = first + c->keys};
  return c->subject->run(c->subject, c->state, call, &span);
}

static void expect(struct check *c, const char *what, uint64_t answer, uint64_t least,
                   uint64_t most)
{
  if (answer >= least && answer <= most)
    return;
  c->wrong++;
  printf("WRONG: %s, %s: %" PRIu64 ", expected %" PRIu64 " to %" PRIu64 "\n", c->subject->name,
         what, answer, least, most);
}

/* False positives among as many keys as are in: twice the rate, and five deviations of a count. */
static uint64_t most_false(const struct check *c)
{
  return c->subject->exact ? 0 : (uint64_t) (2 * fpp * (double) c->keys) + 20;
}

static void check_looks(struct check *c, enum call add, enum call contains)
{
  if (!subject_can(c->subject, add) || !subject_can(c->subject, contains))
    return;
  begin(c, c->keys);
  expect(c, "added", answers(c, add, 0), c->keys, c->keys);
  expect(c, "found of those added", answers(c, contains, 0), c->keys, c->keys);
  expect(c, "found of others", answers(c, contains, keys_out), 0, most_false(c));
  end(c);
}

static void check_unique(struct check *c)
{
  begin(c, c->keys);
  uint64_t hidden = most_false(c);
  expect(c, "new", answers(c, CALL_ADD_UNIQUE, 0), c->keys - hidden, c->keys);
  expect(c, "new for a second time", answers(c, CALL_ADD_UNIQUE, 0), 0, 0);
  end(c);
}

static void check_remove(struct check *c)
{
  if (!subject_can(c->subject, CALL_REMOVE))
    return;
  begin(c, c->keys);
  answers(c, CALL_ADD, 0);
  expect(c, "removed", answers(c, CALL_REMOVE, 0), c->keys, c->keys);
  expect(c, "found of those removed", answers(c, CALL_CONTAINS, 0), 0, 0);
  end(c);
}

/* Of ten calls one adds, five look up what is in, and four what is not. */
static void check_mix(struct check *c)
{
  begin(c, 2 * c->keys);
  answers(c, CALL_ADD, 0);
  uint64_t added = (c->keys + 9) / 10, found = c->keys / 2;
  expect(c, "added and found in the mix", answers(c, CALL_MIX, 0),
         added + found - 1 - most_false(c), added + found + most_false(c));
  expect(c, "found after the mix", answers(c, CALL_CONTAINS, 0), c->keys, c->keys);
  struct span tenth = {.first = c->keys, .count = 1}; /* the first of those added */
  expect(c, "found of those added by it",
         c->subject->run(c->subject, c->state, CALL_CONTAINS, &tenth), 1, 1);
  end(c);
}

/* What is built without concurrency must be the same filter: the same false positives. */
static uint64_t false_positives(const char *name, uint64_t keys)
{
  struct check c = {.subject = subject_find(name), .keys = keys};
  begin(&c, keys);
  answers(&c, CALL_ADD, 0);
  uint64_t found = answers(&c, CALL_CONTAINS, keys_out);
  end(&c);
  return found;
}

static unsigned check_alone(uint64_t keys)
{
  static const char *const pairs[][2] = {{"bloom", "bloom-alone"},
                                         {"bloom-classic", "bloom-classic-alone"},
                                         {"cuckoo", "cuckoo-alone"},
                                         {"cuckoo-fixed", "cuckoo-fixed-alone"}};
  unsigned wrong = 0;
  for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    uint64_t shared = false_positives(pairs[i][0], keys);
    uint64_t alone = false_positives(pairs[i][1], keys);
    if (shared != alone) {
      wrong++;
      printf("WRONG: %s and %s differ: %" PRIu64 " and %" PRIu64 " false positives\n", pairs[i][0],
             pairs[i][1], shared, alone);
    }
  }
  return wrong;
}

/* All workloads by several threads; measure.c looks at the answers. */
static void check_threads(const struct subject *subject, uint64_t keys)
{
  const struct settings settings = {.rounds = 1, .seconds = 0.001, .quiet = true};
  struct experiment x = experiment("check", keys, fpp);
  for (const struct workload *w = workloads; w->name; w++)
    if (subject_can(subject, w->call))
      with(&x, w->name, subject->name, subject->concurrent ? 4 : 1);
  experiment_run(&x, &settings);
}

unsigned check_subjects(uint64_t keys)
{
  unsigned wrong = check_alone(keys), subjects = 0;
  const struct subject *subject;
  for (; (subject = subject_number(subjects)); subjects++) {
    struct check c = {.subject = subject, .keys = keys};
    check_threads(subject, keys);
    if (subject->passive)
      continue;
    check_looks(&c, CALL_ADD, CALL_CONTAINS);
    check_looks(&c, CALL_ADD_BYTES, CALL_CONTAINS_BYTES);
    check_looks(&c, CALL_ADD_MANY, CALL_CONTAINS_MANY);
    check_unique(&c);
    check_remove(&c);
    check_mix(&c);
    wrong += c.wrong;
  }
  printf("%u subjects, %u wrong\n", subjects, wrong);
  return wrong;
}
