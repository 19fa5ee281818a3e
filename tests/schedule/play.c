/* SPDX-License-Identifier: MIT */
#include "play.h"

#include "filter_unit.h"
#include "window_unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_CALLS = 8, MOST_WORDS = 12, MOST_NAMES = 64 };

static const struct program *program;

/* ---- verbs ---- */

static int do_add(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return tamis_add_hash(f, n);
}

static int do_unique(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return tamis_add_unique_hash(f, n);
}

static int do_remove(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return tamis_remove_hash(f, n);
}

static int do_contains(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return tamis_contains_hash(f, n);
}

static int do_copies(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return (int) tamis_count_hash(f, n);
}

static int do_advance(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s, (void) n;
  return tamis_advance(f);
}

static int do_jump(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  return tamis_advance_to(f, n);
}

/* So many periods, or none. */
static int do_periods(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s;
  for (; n; n--)
    assert_int_equal(tamis_advance(f), TAMIS_OK);
  return 0;
}

static int do_give(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) f;
  return tamis_add_hash(stage_from(s), n);
}

static int do_merge(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  return tamis_merge(f, stage_from(s));
}

/* Saves into a file of the file system, and loads it as the other filter. */
static int do_save(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  FILE *file = tmpfile();
  int result = file ? tamis_save(f, write_to, file) : TAMIS_EIO;
  if (result == TAMIS_OK) {
    rewind(file);
    result = tamis_load(NULL, read_from, file, &s->from);
  }
  if (file)
    fclose(file);
  return result;
}

static int do_loaded(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) f;
  return (int) tamis_count_hash(s->from, n);
}

static int do_count(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s, (void) n;
  return (int) stats_of(f).count;
}

static int do_layers(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s, (void) n;
  return (int) stats_of(f).layers;
}

static int do_period(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) s, (void) n;
  return (int) stats_of(f).period;
}

/* Figures, and what has come to them since. */
static int do_note(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  s->noted = stats_of(f);
  return 0;
}

static int do_new(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  return (int) (stats_of(f).count - s->noted.count);
}

static int do_new_bits(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  return (int) (stats_of(f).bits_set - s->noted.bits_set);
}

static int do_new_refusals(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) n;
  return (int) (stats_of(f).refused_adds - s->noted.refused_adds);
}

/* Whether the call that has begun last has returned. */
static int do_returned(struct stage *s, tamis_filter *f, uint64_t n)
{
  (void) f, (void) n;
  return schedule_reached("call_returned") > s->returned;
}

static const struct verb verbs[] = {
    {"add", do_add},           {"unique", do_unique},     {"remove", do_remove},
    {"contains", do_contains}, {"copies", do_copies},     {"advance", do_advance},
    {"jump", do_jump},         {"give", do_give},         {"merge", do_merge},
    {"save", do_save},         {"loaded", do_loaded},     {"count", do_count},
    {"layers", do_layers},     {"period", do_period},     {"note", do_note},
    {"new", do_new},           {"new_bits", do_new_bits}, {"new_refusals", do_new_refusals},
    {"periods", do_periods},   {"returned", do_returned}, {NULL, NULL},
};

static const struct verb *find_in(const struct verb *all, const char *name)
{
  for (; all && all->name; all++)
    if (!strcmp(all->name, name))
      return all;
  return NULL;
}

/* ---- the stage ---- */

static tamis_options options_of(const struct setup *setup)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = setup->kind ? setup->kind : TAMIS_BLOOM;
  o.layout = setup->layout;
  o.window = setup->window, o.window_renews = setup->renews;
  o.stripes = setup->stripes;
  o.capacity = setup->capacity ? setup->capacity : 1000;
  o.fpp = setup->fpp > 0 ? setup->fpp : 0.001;
  o.growable = !setup->fixed;
  if (setup->room)
    assert_int_equal(tamis_bytes_for(&o, &o.max_bytes), TAMIS_OK);
  o.max_bytes = setup->room ? o.max_bytes * setup->room / 10 : setup->max_bytes;
  o.seed = 42;
  return o;
}

tamis_filter *stage_from(struct stage *s)
{
  if (!s->from) {
    tamis_options options = options_of(s->setup);
    assert_int_equal(tamis_create(&options, &s->from), TAMIS_OK);
  }
  return s->from;
}

void open_stage(struct stage *s)
{
  tamis_options options = options_of(s->setup);
  s->file = s->setup->shared ? memfd_create("test", MFD_CLOEXEC) : -1;
  if (s->setup->shared) {
    assert_int_equal(tamis_open_shared_fd(&options, s->file, &s->f), TAMIS_OK);
    assert_int_equal(tamis_open_shared_fd(&options, s->file, &s->own), TAMIS_OK);
  } else {
    assert_int_equal(tamis_create(&options, &s->f), TAMIS_OK);
    s->own = s->f;
  }
  schedule_stop_at("no point");
  schedule_pass_by();
  if (s->setup->prepare)
    (void) s->setup->prepare(s, s->own, s->setup->n);
}

static void assert_all_valid(const struct stage *s)
{
  if (!s->forged) {
    assert_valid(s->f);
    assert_valid(s->own);
  }
  if (s->from)
    assert_valid(s->from);
}

void close_stage(struct stage *s)
{
  assert_all_valid(s);
  if (s->own != s->f)
    tamis_destroy(s->own);
  tamis_destroy(s->f);
  tamis_destroy(s->from);
  if (s->file >= 0)
    close(s->file);
}

/* ---- scripts ---- */

struct part { /* a call in a thread */
  struct call call;
  struct stage *stage;
  const struct verb *verb;
  uint64_t n;
  bool runs;
};

struct play {
  struct stage stage;
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

static const struct verb *verb_of(const struct play *p, const char *name)
{
  const struct verb *verb = find_in(program->verbs, name);
  verb = verb ? verb : find_in(verbs, name);
  if (!verb)
    fail_msg("%s: \"%s\" has no verb", p->row, p->step);
  return verb;
}

static uint64_t number(const struct play *p, const char *text)
{
  const struct stage *s = &p->stage;
  switch (*text) {
  case 'x':
    return s->x;
  case 'y':
    return s->y;
  case 'z':
    return s->z;
  case '%':
    return s->value;
  default:
    return strtoull(text, NULL, 10);
  }
}

static int result_of(const struct play *p, const char *text)
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
  return (int) number(p, text);
}

static void expect(const struct play *p, int result, int expected)
{
  if (result != expected)
    fail_msg("%s, %s, %s, %lu: \"%s\" gives %d", p->row, p->stage.setup->name,
             p->stage.hook ? p->stage.hook : "-", p->stage.value, p->step, result);
}

static int call_part(struct call *call)
{
  struct part *part = call->context;
  return part->verb->call(part->stage, part->call.filter, part->n);
}

/* Holds the next thread that comes to a hook, `@hook#nth`. */
static const char *hold_at(const struct play *p, const char *token, unsigned *nth)
{
  char name[48];
  (void) snprintf(name, sizeof name, "%s", token[1] == '*' ? p->stage.hook : token + 1);
  char *number = strchr(name, '#');
  *nth = number ? (unsigned) strtoul(number + 1, NULL, 10) : 1;
  if (number)
    *number = 0;
  const char *hook = kept(name);
  schedule_stop_at_nth(hook, number ? *nth : 0);
  return hook;
}

static void await_hold(const struct play *p, const char *hook, unsigned nth)
{
  schedule_wait_either(hook, nth, "call_returned", 1);
  if (schedule_reached(hook) < nth)
    fail_msg("%s, %s: \"%s\" does not come to %s", p->row, p->stage.setup->name, p->step, hook);
}

static void begin_call(struct play *p, char *const *words, unsigned n)
{
  struct part *part = &p->parts[words[0][0] - 'a'];
  const char *hook = words[n - 1][0] == '@' ? words[n - 1] : NULL;
  unsigned nth = 0;
  assert_false(part->runs);
  *part = (struct part){.stage = &p->stage, .verb = verb_of(p, words[1]), .runs = true};
  part->n = n > 2u + !!hook ? number(p, words[2]) : 0;
  part->call = (struct call){.filter = p->stage.f, .whole = call_part, .context = part};
  if (hook)
    hook = hold_at(p, hook, &nth);
  p->stage.returned = schedule_reached("call_returned");
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
    const char *hook = hold_at(p, words[n - 1], &nth);
    await_hold(p, hook, nth);
    return;
  }
  while (calls < n && words[calls][0] != '=')
    calls++;
  for (unsigned i = calls + 1; i < n; i++)
    expected[i - calls - 1] = result_of(p, words[i]);
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
      expect(p, result, expected[i]);
  }
  for (unsigned i = 0; i < MOST_CALLS; i++)
    if (p->parts[i].runs)
      return;
  assert_all_valid(&p->stage);
}

static void make_calls(struct play *p, char *const *words, unsigned n)
{
  const struct verb *verb = verb_of(p, words[0]);
  const bool says = n > 2 && words[n - 2][0] == '=';
  const char *numbers = n - 2 * says > 1 ? words[1] : "0", *end = strstr(numbers, "..");
  const char *times = strchr(numbers, '*');
  const uint64_t first = number(p, numbers), last = end ? number(p, end + 2) : first,
                 each = times ? number(p, times + 1) : 1;
  for (uint64_t i = first; i < first + (last + 1 - first) * each; i++)
    expect(p, verb->call(&p->stage, p->stage.own, first + (i - first) / each),
           says ? result_of(p, words[n - 1]) : TAMIS_OK);
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
  else
    make_calls(p, words, n);
}

static void play_script(const struct row *row, const struct setup *setup, const char *hook,
                        uint64_t value)
{
  struct play p = {
      .row = row->name,
      .stage = {.setup = setup, .hook = hook, .value = value, .noted = TAMIS_STATS_INIT}};
  char script[1500], step[100], *rest = NULL;
  assert_true((size_t) snprintf(script, sizeof script, "%s", row->script) < sizeof script);
  open_stage(&p.stage);
  for (char *at = strtok_r(script, ";", &rest); at; at = strtok_r(NULL, ";", &rest)) {
    (void) snprintf(step, sizeof step, "%s", at + strspn(at, " "));
    p.step = step;
    play_step(&p, at);
  }
  for (unsigned i = 0; i < MOST_CALLS; i++)
    assert_false(p.parts[i].runs);
  close_stage(&p.stage);
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
  (void) sscanf(row->script, "each %u..%u", &first, &last);
  for (unsigned i = 0; row->on >> i; i++) {
    char hooks[400], *rest = NULL;
    (void) snprintf(hooks, sizeof hooks, "%s", row->hooks ? row->hooks : "-");
    for (char *hook = strtok_r(hooks, " ", &rest); hook; hook = strtok_r(NULL, " ", &rest))
      for (unsigned value = first; value <= last && row->on >> i & 1; value++)
        if (!has_word(program->setups[i].never, hook))
          play_script(row, &program->setups[i], hook, value);
  }
}

int run_schedules(const char *name, const struct program *played, const struct CMUnitTest *tests,
                  size_t n)
{
  struct CMUnitTest *all = calloc(played->n + n, sizeof *all);
  size_t m = 0;
  program = played;
  for (; all && m < played->n; m++)
    all[m] = (struct CMUnitTest){.name = played->rows[m].name,
                                 .test_func = play_row,
                                 .initial_state = (void *) &played->rows[m]};
  for (size_t i = 0; all && i < n; i++)
    all[m++] = tests[i];
  int result = all ? _cmocka_run_group_tests(name, all, m, NULL, NULL) : 1;
  free(all);
  return result;
}
