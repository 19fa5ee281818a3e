/* SPDX-License-Identifier: MIT
 *
 * Schedules as tables.  A row says on which filters a race is replayed, at which hooks a call is held, and
 * in a script what happens then, step by step, between semicolons:
 *
 *     a: unique 7 @bloom_word_set     a thread begins call a, and is held at the hook
 *     a: look 7 @window_lower_read#2  at the hook's second passing
 *     b: advance                      a thread begins call b, until it returns or waits
 *     a @window_lane_written          a goes on, to another hook
 *     add 7                           the test makes a call, which must return TAMIS_OK
 *     unique 7 = FULL                 or TAMIS_EFULL
 *     contains 0..9 = 1               for each of ten keys
 *     copies 7 = 1..2                 must return 1 or 2
 *     add 7*3                         three times
 *     growths = 1                     so is a figure of the filter
 *     note; more count = 1            what has come to one since
 *     other count = 1                 that of the other filter
 *     a = PRESENT                     all that are held go on, and a returns TAMIS_PRESENT
 *     a b = OK PRESENT                so does one of the two, and the other one TAMIS_OK
 *
 * `@*` stands for each of the row's hooks, and `%` for each number of a first step such as
 * `each 0..9`, also in `@hook#%`.
 * x, y and z are keys that a verb has chosen.  Programs have verbs of their own beside those of play.c.
 * When a script has been played, all calls have returned, and all filters are valid.
 */
#ifndef TAMIS_TESTS_PLAY_H
#define TAMIS_TESTS_PLAY_H

#include "calls.h"

/* A function of the library is one as it is.  A deed is a verb without a result: the call succeeds. */
typedef int verb(tamis_filter *f, uint64_t n);
typedef void deed(tamis_filter *f, uint64_t n);

/* VERB(word, n) { ... } is a verb of scripts, and DEED(word, n) { ... } one that is a deed.
 * STEP(name, n) { ... } is a deed that they cannot name. */
#define FUNCTION(type, name, n) \
  static type name(__attribute__((unused)) tamis_filter *f, __attribute__((unused)) uint64_t n)
#define STEP(name, n) FUNCTION(void, name, n)
#define VERB(word, n)          \
  FUNCTION(int, do_##word, n); \
  LISTED_VERB(word, do_##word) \
  FUNCTION(int, do_##word, n)
#define DEED(word, n)            \
  STEP(step_##word, n);          \
  LISTED_DEED(word, step_##word) \
  STEP(step_##word, n)
#define LISTED_DEED(word, function) \
  VERB(word, n)                     \
  {                                 \
    function(f, n);                 \
    return 0;                       \
  }
#define LISTED_VERB(word, function)                          \
  __attribute__((constructor)) static void list_##word(void) \
  {                                                          \
    list_verb(#word, function);                              \
  }

void list_verb(const char *name, verb *call);

/* A filter on which scripts are played; what is 0 is as in every other one. */
struct setup {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  unsigned window, stripes;
  uint64_t capacity, max_bytes;
  unsigned room; /* max_bytes, in tenths of what the filter takes when it is new */
  double fpp;
  bool fixed, shared;
  const char *never; /* hooks to which no call comes */
  /* In place of tamis_create, with what it needs; before the script, and after it. */
  tamis_filter *(*make)(const struct setup *setup);
  const void *of;
  deed *prepare, *finish;
  uint64_t n;
};

struct row {
  const char *name;
  uint64_t on; /* bits, by the numbers of setups */
  const char *hooks, *script;
};

/* What a script is played on. */
extern struct stage {
  const struct setup *setup;
  /* The filter; the test's handle of it, which another process would have if it is shared; and one that is
   * united with it, or loaded from it. */
  tamis_filter *f, *own, *from;
  int file;
  uint64_t x, y, z, value;
  tamis_stats noted;
  const char *hook;
  unsigned returned; /* calls, before the last one began */
  bool forged;       /* a verb has written what no call writes: the filter need not be valid */
} stage;

void open_stage(const struct setup *setup);
void close_stage(void);

/* The other filter, which has the same options. */
tamis_filter *stage_from(void);

/* Plays all rows, and runs the tests that are no rows. */
int run_schedules(const struct setup *setups, const struct row *rows, size_t n);

#endif
