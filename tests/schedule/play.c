/* SPDX-License-Identifier: MIT */
#include "play.h"

#include "saved_unit.h"

enum { MOST_CALLS = 8, MOST_WORDS = 12, MOST_NAMES = 64, MOST_VERBS = 96 };

static const struct setup *setups;
struct stage stage;

/* ---- verbs ---- */

static struct {
  const char *name;
  verb *call;
} verbs[MOST_VERBS];
static unsigned verbs_n;

void list_verb(const char *name, verb *call)
{
  if (verbs_n == MOST_VERBS)
    abort();
  verbs[verbs_n].name = name;
  verbs[verbs_n++].call = call;
}

VERB(copies, n)
{
  return (int) tamis_count_hash(f, n);
}

/* So many periods, or none. */
DEED(periods, n)
{
  advance(f, (unsigned) n);
}

VERB(give, n)
{
  return tamis_add_hash(stage_from(), n);
}

VERB(take, n)
{
  return tamis_remove_hash(stage_from(), n);
}

VERB(merge, n)
{
  return tamis_merge(f, stage_from());
}

/* Saves, and loads as the other filter. */
VERB(save, n)
{
  struct bytes saved = {0};
  int result = tamis_save(f, write_bytes, &saved);
  if (result == TAMIS_OK)
    result = load_from(&saved, NULL, &stage.from);
  free(saved.data);
  return result;
}

VERB(loaded, n)
{
  return (int) tamis_count_hash(stage.from, n);
}

/* Figures, for what will have come to them since. */
DEED(note, n)
{
  stage.noted = stats_of(f);
}

/* Whether the call that has begun last has returned. */
VERB(returned, n)
{
  return schedule_reached("call_returned") > stage.returned;
}

LISTED_VERB(add, tamis_add_hash)
LISTED_VERB(unique, tamis_add_unique_hash)
LISTED_VERB(remove, tamis_remove_hash)
LISTED_VERB(contains, call_contains)
LISTED_VERB(advance, call_advance)
LISTED_VERB(jump, tamis_advance_to)

/* ---- figures ---- */

static const struct figure {
  const char *name;
  size_t offset, size;
} figures[] = {
#define FIGURE(name)                                                         \
  {                                                                          \
#name, offsetof(tamis_stats, name), sizeof(((tamis_stats *) NULL)->name) \
  }
    FIGURE(count),        FIGURE(layers),    FIGURE(period),         FIGURE(growths),
    FIGURE(joins),        FIGURE(segments),  FIGURE(generations),    FIGURE(bits_set),
    FIGURE(refused_adds), FIGURE(evictions), FIGURE(lookup_retries), FIGURE(longest_growth_ns),
#undef FIGURE
};

static const struct figure *find_figure(const char *name)
{
  for (unsigned i = 0; i < sizeof figures / sizeof *figures; i++)
    if (!strcmp(figures[i].name, name))
      return &figures[i];
  return NULL;
}

static uint64_t value_of(const struct figure *figure, const tamis_stats *s)
{
  uint64_t value = 0;
  memcpy(&value, (const char *) s + figure->offset, figure->size);
  return value;
}

/* ---- the stage ---- */

static tamis_options options_of(const struct setup *setup)
{
  tamis_options o = seeded_options(setup->kind ? setup->kind : TAMIS_BLOOM,
                                   setup->capacity ? setup->capacity : 1000,
                                   setup->fpp > 0 ? setup->fpp : 0.001, !setup->fixed);
  o.layout = setup->layout;
  o.window = setup->window;
  o.stripes = setup->stripes;
  o.max_bytes = setup->room ? planned_bytes(&o) * setup->room / 10 : setup->max_bytes;
  return o;
}

tamis_filter *stage_from(void)
{
  if (!stage.from) {
    tamis_options options = options_of(stage.setup);
    const bool counted = stage.setup->shared && options.kind == TAMIS_CUCKOO;
    assert_int_equal(counted ? tamis_open_shared(&options, NULL, &stage.from)
                             : tamis_create(&options, &stage.from),
                     TAMIS_OK);
  }
  return stage.from;
}

void open_stage(const struct setup *setup)
{
  stage = (struct stage){
      .setup = setup, .hook = stage.hook, .value = stage.value, .noted = TAMIS_STATS_INIT};
  tamis_options options = options_of(stage.setup);
  stage.file = stage.setup->shared ? memfd_create("test", MFD_CLOEXEC) : -1;
  if (stage.setup->make) {
    stage.f = stage.own = stage.setup->make(setup);
  } else if (stage.setup->shared) {
    assert_int_equal(tamis_open_shared_fd(&options, stage.file, &stage.f), TAMIS_OK);
    assert_int_equal(tamis_open_shared_fd(&options, stage.file, &stage.own), TAMIS_OK);
  } else {
    stage.f = stage.own = make_with_options(&options);
  }
  schedule_stop_at("no point");
  schedule_pass_by();
  if (stage.setup->prepare)
    stage.setup->prepare(stage.own, stage.setup->n);
}

static void assert_all_valid(void)
{
  if (!stage.forged) {
    assert_valid(stage.f);
    assert_valid(stage.own);
  }
  if (stage.from)
    assert_valid(stage.from);
}

void close_stage(void)
{
  assert_all_valid();
  if (stage.setup->finish)
    stage.setup->finish(stage.own, stage.setup->n);
  if (stage.own != stage.f)
    tamis_destroy(stage.own);
  tamis_destroy(stage.f);
  tamis_destroy(stage.from);
  if (stage.file >= 0)
    close(stage.file);
}

/* ---- scripts ---- */

struct part { /* a call in a thread */
  struct call call;
  verb *make;
  uint64_t n;
  bool runs;
};

struct play {
  struct part parts[MOST_CALLS];
  const char *row, *step;
};

/* A name that outlives the script, as the hooks' own ones do. */
static const char *kept(const char *name)
{
  static char names[MOST_NAMES][48];
  unsigned i = 0;
  while (names[i][0] && strcmp(names[i], name) != 0)
    assert_true(++i < MOST_NAMES);
  (void) snprintf(names[i], sizeof names[i], "%s", name);
  return names[i];
}

static verb *verb_of(const struct play *p, const char *name)
{
  for (unsigned i = 0; i < verbs_n; i++)
    if (!strcmp(verbs[i].name, name))
      return verbs[i].call;
  fail_msg("%s: \"%s\" has no verb", p->row, p->step);
  return NULL;
}

static uint64_t number(const char *text)
{
  switch (*text) {
  case 'x':
    return stage.x;
  case 'y':
    return stage.y;
  case 'z':
    return stage.z;
  case '%':
    return stage.value;
  default:
    return strtoull(text, NULL, 10);
  }
}

static int result_of(const char *text)
{
  static const struct {
    const char *name;
    int result;
  } names[] = {{"OK", TAMIS_OK},
               {"PRESENT", TAMIS_PRESENT},
               {"ABSENT", TAMIS_ABSENT},
               {"FULL", TAMIS_EFULL},
               {"NOMEM", TAMIS_ENOMEM}};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(text, names[i].name))
      return names[i].result;
  return (int) number(text);
}

static void expect(const struct play *p, int result, int least, int most)
{
  if (result < least || result > most)
    fail_msg("%s, %s, %s, %lu: \"%s\" gives %d", p->row, stage.setup->name,
             stage.hook ? stage.hook : "-", stage.value, p->step, result);
}

/* `text` is a result, or a range. */
static void expect_text(const struct play *p, int result, const char *text)
{
  const char *most = strstr(text, "..");
  const int least = result_of(text);
  expect(p, result, least, most ? result_of(most + 2) : least);
}

static int call_part(struct call *call)
{
  struct part *part = call->context;
  return part->make(part->call.filter, part->n);
}

/* Holds the next thread that comes to a hook, `@hook#nth`. */
static const char *hold_at(const char *token, unsigned *nth)
{
  char name[48];
  (void) snprintf(name, sizeof name, "%s", token[1] == '*' ? stage.hook : token + 1);
  char *times = strchr(name, '#');
  *nth = times ? (unsigned) number(times + 1) : 1;
  if (times)
    *times = 0;
  const char *hook = kept(name);
  schedule_stop_at_nth(hook, times ? *nth : 0);
  return hook;
}

static void await_hold(const struct play *p, const char *hook, unsigned nth)
{
  schedule_wait_either(hook, nth, "call_returned", 1);
  if (schedule_reached(hook) < nth)
    fail_msg("%s, %s: \"%s\" does not come to %s", p->row, stage.setup->name, p->step, hook);
}

static void begin_call(struct play *p, char *const *words, unsigned n)
{
  struct part *part = &p->parts[words[0][0] - 'a'];
  const char *hook = words[n - 1][0] == '@' ? words[n - 1] : NULL;
  unsigned nth = 0;
  assert_false(part->runs);
  *part = (struct part){.make = verb_of(p, words[1]), .runs = true};
  part->n = n > 2u + !!hook ? number(words[2]) : 0;
  part->call = (struct call){.filter = stage.f, .whole = call_part, .context = part};
  if (hook)
    hook = hold_at(hook, &nth);
  stage.returned = schedule_reached("call_returned");
  const unsigned rests = schedule_rests();
  start(&part->call);
  if (hook)
    await_hold(p, hook, nth);
  else
    schedule_wait_rests(rests + 1);
}

/* Lets calls go on to a hook, or to their ends. */
static void end_calls(struct play *p, char *const *words, unsigned n)
{
  unsigned calls = 0, nth = 0;
  int expected[MOST_CALLS];
  if (words[n - 1][0] == '@') {
    const char *hook = hold_at(words[n - 1], &nth);
    await_hold(p, hook, nth);
    return;
  }
  while (calls < n && words[calls][0] != '=')
    calls++;
  for (unsigned i = calls + 1; i < n; i++)
    expected[i - calls - 1] = result_of(words[i]);
  schedule_go();
  for (unsigned i = 0; i < calls; i++) {
    struct part *part = &p->parts[words[i][0] - 'a'];
    assert_true(part->runs);
    const int result = finish(&part->call);
    part->runs = false;
    for (unsigned j = i; j < calls && n > calls; j++) /* in any order */
      if (expected[j] == result) {
        expected[j] = expected[i];
        expected[i] = result;
        break;
      }
    if (n > calls)
      expect(p, result, expected[i], expected[i]);
  }
  for (unsigned i = 0; i < MOST_CALLS; i++)
    if (p->parts[i].runs)
      return;
  assert_all_valid();
}

static void make_calls(struct play *p, char *const *words, unsigned n)
{
  verb *make = verb_of(p, words[0]);
  const bool says = n > 2 && words[n - 2][0] == '=';
  const char *numbers = n - 2 * says > 1 ? words[1] : "0", *end = strstr(numbers, "..");
  const char *times = strchr(numbers, '*');
  const uint64_t first = number(numbers), last = end ? number(end + 2) : first,
                 each = times ? number(times + 1) : 1;
  for (uint64_t i = first; i < first + (last + 1 - first) * each; i++)
    expect_text(p, make(stage.own, first + (i - first) / each), says ? words[n - 1] : "OK");
}

/* False: this is none. */
static bool compare_figure(const struct play *p, char *const *words, unsigned n)
{
  const bool more = !strcmp(words[0], "more"), other = !strcmp(words[0], "other");
  const struct figure *figure = find_figure(words[more || other]);
  if (!figure)
    return false;
  const tamis_stats now = stats_of(other ? stage.from : stage.own);
  const uint64_t before = more ? value_of(figure, &stage.noted) : 0;
  expect_text(p, (int) (value_of(figure, &now) - before), words[n - 1]);
  return true;
}

static void play_step(struct play *p, char *step)
{
  char *words[MOST_WORDS], *rest = NULL;
  unsigned n = 0;
  for (char *token = strtok_r(step, " ", &rest); token; token = strtok_r(NULL, " ", &rest))
    words[n++] = token;
  if (n == 0 || !strcmp(words[0], "each"))
    return;
  if (words[0][1] == ':')
    begin_call(p, words, n);
  else if (!words[0][1])
    end_calls(p, words, n);
  else if (!compare_figure(p, words, n))
    make_calls(p, words, n);
}

static void play_script(const struct row *row, const struct setup *setup, const char *hook,
                        uint64_t value)
{
  struct play p = {.row = row->name};
  char script[1500], step[100], *rest = NULL;
  assert_true((size_t) snprintf(script, sizeof script, "%s", row->script) < sizeof script);
  stage.hook = hook, stage.value = value;
  open_stage(setup);
  for (char *at = strtok_r(script, ";", &rest); at; at = strtok_r(NULL, ";", &rest)) {
    (void) snprintf(step, sizeof step, "%s", at + strspn(at, " "));
    p.step = step;
    play_step(&p, at);
  }
  for (unsigned i = 0; i < MOST_CALLS; i++)
    assert_false(p.parts[i].runs);
  close_stage();
}

static bool has_word(const char *text, const char *token)
{
  const char *at = text ? strstr(text, token) : NULL;
  return at && (!at[strlen(token)] || at[strlen(token)] == ' ');
}

static void play_row(void **state)
{
  const struct row *row = *state;
  unsigned first = 0, last = 0;
  alarm(4 * PATIENCE_SECONDS); /* ends a call that goes round for ever */
  (void) sscanf(row->script, "each %u..%u", &first, &last);
  for (unsigned i = 0; row->on >> i; i++) {
    char hooks[400], *rest = NULL;
    (void) snprintf(hooks, sizeof hooks, "%s", row->hooks ? row->hooks : "-");
    for (char *hook = strtok_r(hooks, " ", &rest); hook; hook = strtok_r(NULL, " ", &rest))
      for (unsigned value = first; value <= last && row->on >> i & 1; value++)
        if (!has_word(setups[i].never, hook))
          play_script(row, &setups[i], hook, value);
  }
  alarm(0);
}

int run_schedules(const struct setup *all, const struct row *rows, size_t n)
{
  setups = all;
  for (size_t i = 0; i < n; i++)
    list_test((struct CMUnitTest){
        .name = rows[i].name, .test_func = play_row, .initial_state = (void *) &rows[i]});
  return run_all_tests();
}
