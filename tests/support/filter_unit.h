/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of filters share: every form of filter that the library has, what it looks like
 * inside, and whether two filters are the same.
 */
#ifndef TAMIS_TESTS_FILTER_UNIT_H
#define TAMIS_TESTS_FILTER_UNIT_H

#include "unit.h"

#include "kinds.h"
#include "validate.h"

/* ---- every form ----
 *
 * Each kind in the library's table, in each layout, growable or not, with a window or without, as far
 * as tamis_options_check lets them be combined.  So a test that goes through the forms has a new kind from the
 * day on which it is in the table. */

struct form {
  tamis_options options; /* 1,000 keys at 1 %; the window has three periods */
  char name[48];
  bool removes;
};

enum { MOST_FORMS = 64, FORM_PERIODS = 3 };

struct forms {
  unsigned n;
  struct form all[MOST_FORMS];
};

/* A kind that has one layout takes any, and has that one. */
static inline bool form_is_new(struct form *form)
{
  if (tamis_options_check(&form->options, NULL, 0) != TAMIS_OK)
    return false;
  tamis_filter *f = make_with_options(&form->options);
  const tamis_layout layout = stats_of(f).layout;
  form->removes = operations_of(f)->remove;
  tamis_destroy(f);
  return layout == form->options.layout;
}

static inline void add_form(struct forms *forms, const struct filter_kind *kind, unsigned layout,
                            unsigned bits)
{
  static const char *const layouts[] = {"", ", classic", ", word"};
  struct form form = {.options = TAMIS_OPTIONS_INIT};
  form.options.kind = kind->kind, form.options.layout = (tamis_layout) layout;
  form.options.growable = bits % 2, form.options.window = bits / 2 ? FORM_PERIODS : 0;
  form.options.capacity = 1000, form.options.seed = 42;
  (void) snprintf(form.name, sizeof form.name, "%s%s%s%s", kind->name + strlen("TAMIS_"),
                  layouts[layout], bits / 2 ? ", window" : "", bits % 2 ? ", growable" : "");
  assert_true(forms->n < MOST_FORMS);
  if (form_is_new(&form))
    forms->all[forms->n++] = form;
}

static inline const struct forms *every_form(void)
{
  static struct forms forms;
  const struct filter_kind *k;
  if (forms.n == 0)
    for (int kind = 1; (k = tamis__find_kind((tamis_kind) kind, false)); kind++)
      for (unsigned layout = 0; layout <= TAMIS_LAYOUT_WORD; layout++)
        for (unsigned bits = 0; bits < 4; bits++)
          add_form(&forms, k, layout, bits);
  return &forms;
}

/* The form after this one, or the first one after NULL; NULL after the last one:
 *    for (const struct form *form = NULL; (form = next_form(form));) */
static inline const struct form *next_form(const struct form *form)
{
  const struct forms *forms = every_form();
  const struct form *next = form ? form + 1 : forms->all;
  return next < forms->all + forms->n ? next : NULL;
}

/* ---- what a filter looks like ---- */

static inline void assert_valid(const tamis_filter *f)
{
  const char *reason;
  if (!filter_validate(f, &reason))
    fail_msg("%s", reason);
}

static inline void assert_broken(const tamis_filter *f, const char *expected)
{
  const char *reason;
  assert_false(filter_validate(f, &reason));
  assert_string_equal(reason, expected);
}

/* All figures but those that count from the creation, times, and bytes: memory that waits for readers is
 * released by another thread. */
static inline void assert_same_figures(const tamis_filter *f, const tamis_filter *twin,
                                       const char *what)
{
  tamis_stats a = stats_of(f), b = stats_of(twin);
#define SAME(field)                           \
  if (a.field < b.field || a.field > b.field) \
  fail_msg("%s: " #field " is %g, the twin's %g", what, (double) a.field, (double) b.field)
  SAME(count);
  SAME(united_count);
  SAME(growths);
  SAME(joins);
  SAME(segments);
  SAME(generations);
  SAME(layers);
  SAME(bits);
  SAME(bits_set);
  SAME(bits_per_key);
  SAME(fingerprint_bits);
  SAME(parts);
  SAME(oldest_part_age);
  SAME(period);
  SAME(load);
  SAME(occupancy);
  SAME(fpp_estimate);
  SAME(estimated_count);
#undef SAME
}

/* The share of keys that were never added, of all, that are found. */
static inline double rate_of(const tamis_filter *f, uint64_t probes)
{
  uint64_t hits = 0;
  for (uint64_t i = 0; i < probes; i++)
    hits += tamis_contains_hash(f, ~i);
  return (double) hits / (double) probes;
}

#endif
