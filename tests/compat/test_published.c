/* SPDX-License-Identifier: MIT
 *
 * A program that publishes data through filters, as the library's contract lets it: one thread writes plain
 * data and adds a key, and another one reads the data when it has seen the key.  ThreadSanitizer must have
 * nothing to say of it; and with WITH_VALGRIND, Helgrind and DRD neither (check_sanitizers.sh).
 *
 *    test_published [FILTER]      all filters, or the one of this name
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tamis/tamis.h>
#ifdef WITH_VALGRIND
#include <valgrind/helgrind.h>
#define PUBLISHES(filter) ANNOTATE_HAPPENS_BEFORE(filter)
#define HAS_SEEN(filter) ANNOTATE_HAPPENS_AFTER(filter)
#else
#define PUBLISHES(filter) ((void) 0)
#define HAS_SEEN(filter) ((void) 0)
#endif

/* More than the capacity, so that the filters that may grow do so meanwhile. */
enum { ITEMS = 600, CAPACITY = 100 };

/* Written by one thread, and read by another one, with no atomics and no locks. */
static uint64_t data[2][ITEMS];

struct side {
  tamis_filter *filter;
  size_t number;
  uint64_t wrong;
};

static uint64_t value_of(size_t side, uint64_t item)
{
  return 2 * item + side + 1;
}

/* Before a thread does anything else it has used the filter, and so has the other one.  So what a thread does
 * once, for which the library locks a mutex that ThreadSanitizer knows, says nothing of the data. */
static pthread_barrier_t both_ready;

static void get_ready(const struct side *side)
{
  const uint64_t none = UINT64_MAX;
  (void) tamis_count(side->filter, &none, sizeof none);
  (void) pthread_barrier_wait(&both_ready);
}

/* ---- a look-up sees the key ---- */

static void *publish(void *argument)
{
  struct side *side = argument;
  get_ready(side);
  for (uint64_t item = 0; item < ITEMS; item++) {
    data[0][item] = value_of(0, item);
    PUBLISHES(side->filter);
    side->wrong += tamis_add(side->filter, &item, sizeof item) != TAMIS_OK;
  }
  return NULL;
}

/* Asks by one call, a batch and a count in turn. */
static bool seen(const tamis_filter *filter, uint64_t item)
{
  const tamis_key key = {&item, sizeof item};
  switch (item % 3) {
  case 0:
    return tamis_contains(filter, &item, sizeof item);
  case 1:
    return tamis_contains_many(filter, &key, 1, NULL) == 1;
  default:
    return tamis_count(filter, &item, sizeof item) > 0;
  }
}

static void *follow(void *argument)
{
  struct side *side = argument;
  get_ready(side);
  for (uint64_t item = 0; item < ITEMS; item++) {
    while (!seen(side->filter, item))
      sched_yield();
    HAS_SEEN(side->filter);
    side->wrong += data[0][item] != value_of(0, item);
  }
  return NULL;
}

/* ---- a unique add loses ---- */

static void *compete(void *argument)
{
  struct side *side = argument;
  const size_t own = side->number, other = 1 - own;
  get_ready(side);
  for (uint64_t item = 0; item < ITEMS; item++) {
    data[own][item] = value_of(own, item);
    PUBLISHES(side->filter);
    int result = tamis_add_unique(side->filter, &item, sizeof item);
    if (result == TAMIS_PRESENT) {
      HAS_SEEN(side->filter);
      side->wrong += data[other][item] != value_of(other, item);
    } else
      side->wrong += result != TAMIS_OK;
  }
  return NULL;
}

/* ---- one thread ---- */

/* No item is taken for one of those before it. */
static void *alone(void *argument)
{
  struct side *side = argument;
  for (uint64_t item = 0; item < ITEMS && side->number == 0; item++)
    side->wrong += tamis_add_unique(side->filter, &item, sizeof item) != TAMIS_OK;
  return NULL;
}

/* ---- the filters ---- */

struct shape {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
  unsigned window;
  bool shared;
};

static const struct shape shapes[] = {
    {"blocked", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, false},
    {"classic", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, false, 0, false},
    {"word", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false, 0, false},
    {"layers", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, false},
    {"counting", TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0, false},
    {"cuckoo", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 0, false},
    {"growing", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 0, false},
    {"window", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 4, false},
    {"window of copies", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 4, false},
    {"shared", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0, true},
};

/* The seed is fixed, and there is no false positive with it (alone), after which a thread would read what nobody
 * has written yet. */
static tamis_filter *create(const struct shape *shape)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = shape->kind;
  options.layout = shape->layout;
  options.capacity = shape->growable ? CAPACITY : ITEMS;
  options.fpp =
      shape->layout == TAMIS_LAYOUT_WORD ? 1e-3 : 1e-5; /* there is no word for lower ones */
  options.growable = shape->growable;
  options.window = shape->window;
  options.seed = 12;
  options.max_bytes = shape->shared ? 1 << 20 : 0;
  tamis_filter *filter;
  char why[200] = "no memory";
  (void) tamis_options_check(&options, why, sizeof why);
  int result =
      shape->shared ? tamis_open_shared(&options, NULL, &filter) : tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    printf("%s: %s\n", shape->name, why);
  return filter;
}

static bool run(const struct shape *shape, void *(*first)(void *), void *(*second)(void *) )
{
  tamis_filter *filter = create(shape);
  if (filter == NULL)
    return false;
  struct side sides[2] = {{filter, 0, 0}, {filter, 1, 0}};
  pthread_t threads[2];
  (void) pthread_barrier_init(&both_ready, NULL, 2);
  memset(data, 0, sizeof data);
  bool started = pthread_create(&threads[0], NULL, first, &sides[0]) == 0;
  if (!started || pthread_create(&threads[1], NULL, second, &sides[1]) != 0)
    exit(2); /* a thread may wait for one that is not there */
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  (void) pthread_barrier_destroy(&both_ready);
  tamis_destroy(filter);
  return sides[0].wrong + sides[1].wrong == 0;
}

int main(int argc, char **argv)
{
  bool good = true;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const struct shape *shape = &shapes[i];
    if (argc > 1 && strcmp(argv[1], shape->name) != 0)
      continue;
    bool passed =
        run(shape, alone, alone) && run(shape, publish, follow) && run(shape, compete, compete);
    printf("%s: %s\n", shape->name, passed ? "as it should be" : "WRONG");
    good &= passed;
  }
  return good ? 0 : 1;
}
