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

static void create_subject(struct check *c, uint64_t capacity)
{
  const struct spec spec = {.capacity = capacity, .fpp = fpp};
  c->state = c->subject->create(c->subject, &spec);
}

static void destroy_subject(struct check *c)
{
  c->subject->destroy(c->subject, c->state);
}

static uint64_t count_answers(const struct check *c, enum call call, uint64_t first)
{
  const struct span span = {.first = first, .count = c->keys, .fresh = first + c->keys};
  return c->subject->run(c->subject, c->state, call, &span);
}

static void expect(struct check *c, const char *what, uint64_t answer, uint64_t lowest,
                   uint64_t highest)
{
  if (answer >= lowest && answer <= highest)
    return;
  c->wrong++;
  printf("WRONG: %s, %s: %" PRIu64 ", expected %" PRIu64 " to %" PRIu64 "\n", c->subject->name,
         what, answer, lowest, highest);
}

/* The false positives to tolerate among as many keys as are in: twice the rate, and some for small
 * numbers. */
static uint64_t most_false(const struct check *c)
{
  return c->subject->exact ? 0 : (uint64_t) (2 * fpp * (double) c->keys) + 20;
}

static void check_lookups(struct check *c, enum call add, enum call contains)
{
  if (!subject_can(c->subject, add) || !subject_can(c->subject, contains))
    return;
  create_subject(c, c->keys);
  expect(c, "added", count_answers(c, add, 0), c->keys, c->keys);
  expect(c, "found of those added", count_answers(c, contains, 0), c->keys, c->keys);
  expect(c, "found of others", count_answers(c, contains, first_absent), 0, most_false(c));
  destroy_subject(c);
}

static void check_unique(struct check *c)
{
  create_subject(c, c->keys);
  uint64_t hidden = most_false(c);
  expect(c, "new", count_answers(c, CALL_ADD_UNIQUE, 0), c->keys - hidden, c->keys);
  expect(c, "new for a second time", count_answers(c, CALL_ADD_UNIQUE, 0), 0, 0);
  destroy_subject(c);
}

static void check_remove(struct check *c)
{
  if (!subject_can(c->subject, CALL_REMOVE))
    return;
  create_subject(c, c->keys);
  count_answers(c, CALL_ADD, 0);
  expect(c, "removed", count_answers(c, CALL_REMOVE, 0), c->keys, c->keys);
  expect(c, "found of those removed", count_answers(c, CALL_CONTAINS, 0), 0, 0);
  destroy_subject(c);
}

/* Of ten calls one adds a key, five look up keys that are in, and four look up absent keys. */
static void check_mix(struct check *c)
{
  create_subject(c, 2 * c->keys);
  count_answers(c, CALL_ADD, 0);
  uint64_t added = (c->keys + 9) / 10, found = c->keys / 2;
  expect(c, "added and found in the mix", count_answers(c, CALL_MIX, 0),
         added + found - 1 - most_false(c), added + found + most_false(c));
  expect(c, "found after the mix", count_answers(c, CALL_CONTAINS, 0), c->keys, c->keys);
  struct span tenth = {.first = c->keys, .count = 1}; /* the first key that the mix added */
  expect(c, "found of those that the mix added",
         c->subject->run(c->subject, c->state, CALL_CONTAINS, &tenth), 1, 1);
  destroy_subject(c);
}

/* Counts false positives.  A filter that is built without concurrency must have the same ones. */
static uint64_t false_positives(const char *name, uint64_t keys)
{
  struct check c = {.subject = subject_find(name), .keys = keys};
  create_subject(&c, keys);
  count_answers(&c, CALL_ADD, 0);
  uint64_t found = count_answers(&c, CALL_CONTAINS, first_absent);
  destroy_subject(&c);
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

/* Runs all workloads with several threads; measure.c checks the answers. */
static void check_threads(const struct subject *subject, uint64_t keys)
{
  const struct settings settings = {.rounds = 1, .seconds = 0.001, .quiet = true};
  struct experiment x = experiment("check", keys, fpp);
  for (const struct workload *w = workloads; w->name; w++)
    if (subject_can(subject, w->call))
      add_entry(&x, w->name, subject->name, subject->concurrent ? 4 : 1);
  experiment_run(&x, &settings);
}

unsigned check_subjects(uint64_t keys)
{
  unsigned wrong = check_alone(keys), subjects = 0;
  const struct subject *subject;
  for (; (subject = subject_number(subjects)); subjects++) {
    struct check c = {.subject = subject, .keys = keys};
    check_threads(subject, keys);
    if (subject->is_machine)
      continue;
    check_lookups(&c, CALL_ADD, CALL_CONTAINS);
    check_lookups(&c, CALL_ADD_BYTES, CALL_CONTAINS_BYTES);
    check_lookups(&c, CALL_ADD_MANY, CALL_CONTAINS_MANY);
    check_unique(&c);
    check_remove(&c);
    check_mix(&c);
    wrong += c.wrong;
  }
  printf("%u subjects, %u wrong\n", subjects, wrong);
  return wrong;
}
