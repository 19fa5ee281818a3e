/* SPDX-License-Identifier: MIT
 *
 * tamis which, tamis grep: the files of an index that may hold a key, and their lines that do.
 *
 * A file is left out only if it is as it was when its filter was made, and the filter has none of the
 * keys.  A file that has changed since, or whose filter is damaged, may hold any key.
 */
#include "commands.h"
#include "index_file.h"
#include "options.h"
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct which_options {
  struct shared_options shared;
  const char *index;
  char **keys;
  size_t key_count;
  bool count, list;
  char end; /* of a name that which prints */
};

static const struct argp_child children[] = {{&help_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct which_options *options = state->input;
  (void) argument;
  switch (key) {
  case 'c':
    options->count = true;
    return 0;
  case 'l':
    options->list = true;
    return 0;
  case '0':
    options->end = '\0';
    return 0;
  case ARGP_KEY_ARGS:
    options->index = state->argv[state->next];
    options->keys = state->argv + state->next + 1;
    options->key_count = (size_t) (state->argc - state->next) - 1;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

#define EXIT_STATUS \
  "The exit status is 0 if something was found, 1 if nothing was, and 2 after an error.\n\n"

static const struct argp_option which_entries[] = {
    {"null", '0', NULL, 0, "End each name with a byte of zero, as 'xargs -0' expects", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp which_argp = {
    which_entries,
    parse,
    "INDEX KEY...",
    "Print the files of INDEX that may hold one of the KEYs.\v"
    "INDEX is made by 'tamis index', which says what the keys of a file are.  A file that "
    "holds a KEY is always printed, and so is a file that has changed since INDEX was "
    "made.  Any other file is printed with the rate of INDEX.\n\n" EXIT_STATUS "Examples:\n"
    "  tamis which logs.index \"$id\"\n"
    "  tamis which -0 logs.index \"$id\" | xargs -0 zgrep -F \"$id\"",
    children,
    NULL,
    NULL};

static const struct argp_option grep_entries[] = {
    {"count", 'c', NULL, 0, "Print the number of lines of each file that was searched", 1},
    {"files-with-matches", 'l', NULL, 0, "Print the names of files only", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp grep_argp = {
    grep_entries,
    parse,
    "INDEX KEY...",
    "Print the lines that hold one of the KEYs, after the name of their file, as zgrep "
    "does.  Only files that may hold a KEY are read.\v"
    "INDEX is made by 'tamis index', which says what the keys of a line are: a line is "
    "printed if one of its keys is a KEY.  If the keys are lines, 'grep -Fx' prints the "
    "same; if they are matches of a regular expression that matches whole words, 'grep "
    "-Fw' does.  No line is printed by mistake, and no line is missed, because files that "
    "have changed since INDEX was made are read.\n\n" EXIT_STATUS "Examples:\n"
    "  tamis grep logs.index \"$id\"\n"
    "  tamis grep -l logs.index \"$id\" \"$other\"",
    children,
    NULL,
    NULL};

/* ---- which ---- */

/* The filter of a file that need not be searched for other keys; NULL: it may hold any key. */
static tamis_filter *load(const struct index_file *index, const struct index_entry *entry)
{
  struct stamp stamp;
  int result;
  tamis_filter *filter;
  if (entry->filter == NULL || !stamp_of_path(entry->path, &stamp) ||
      !stamp_equal(&stamp, &entry->stamp))
    return NULL;
  filter = index_load(entry, &result);
  if (result != TAMIS_OK)
    fail("the filter of '%s' in the index is damaged: make the index anew", entry->path);
  tamis_stats stats = TAMIS_STATS_INIT;
  if (filter != NULL &&
      (tamis_get_stats(filter, &stats) != TAMIS_OK || stats.seed != index->seed)) {
    fail("the filter of '%s' in the index is another one's: make the index anew", entry->path);
    tamis_destroy(filter);
    filter = NULL;
  }
  return filter;
}

static void fold_keys(const struct which_options *options)
{
  for (size_t k = 0; k < options->key_count; k++)
    key_fold(options->keys[k], options->keys[k], strlen(options->keys[k]));
}

/* Sets may[i] for each file that may hold a key.  False after fail(). */
static bool find_files(const struct index_file *index, const struct which_options *options,
                       bool *may)
{
  tamis_filter **filters = calloc(index->count + 1, sizeof(tamis_filter *));
  bool *found = calloc(index->count + 1, sizeof *found);
  bool good = filters != NULL && found != NULL;
  if (!good)
    fail("out of memory");
  for (size_t i = 0; good && i < index->count; i++) {
    filters[i] = load(index, &index->entries[i]);
    may[i] = filters[i] == NULL;
  }
  for (size_t k = 0; good && k < options->key_count; k++) {
    tamis_contains_each((const tamis_filter *const *) filters, index->count, options->keys[k],
                        strlen(options->keys[k]), found);
    for (size_t i = 0; i < index->count; i++)
      may[i] |= found[i];
  }
  for (size_t i = 0; filters != NULL && i < index->count; i++)
    tamis_destroy(filters[i]);
  free(filters);
  free(found);
  return good;
}

/* ---- grep ---- */

struct search {
  const struct which_options *options;
  struct key_finder *finder;
  struct tar *tar;
  bool names; /* there are several files */
};

static bool is_wanted(void *context, const char *key, size_t length)
{
  const struct which_options *options = context;
  for (size_t k = 0; k < options->key_count; k++)
    if (strlen(options->keys[k]) == length && memcmp(options->keys[k], key, length) == 0)
      return true;
  return false;
}

/* Returns false for most lines: those that lack the bytes of each key need no regular expression.
 * In JSON, a key may stand in other bytes, such as \u0062 for b, or 1e2 for 100. */
static bool may_have_key(const struct search *search, const char *line, size_t length)
{
  const struct which_options *options = search->options;
  const struct key_rule *rule = &search->finder->rule;
  if (rule->ignore_case || rule->mode == KEY_VALUE)
    return true;
  for (size_t k = 0; k < options->key_count; k++)
    if (memmem(line, length, options->keys[k], strlen(options->keys[k])) != NULL)
      return true;
  return false;
}

static bool is_chosen(const struct search *search, char *line, size_t length)
{
  return may_have_key(search, line, length) &&
         key_finder_each(search->finder, line, length, is_wanted, (void *) search->options);
}

static void print_line(const struct search *search, const char *path, const char *line,
                       size_t length)
{
  if (search->names)
    printf("%s:", path);
  fwrite(line, 1, length, stdout);
  putchar('\n');
}

/* Lines that are found in the file would be appended to it, and found again. */
static bool is_output(const struct unpacked *u)
{
  struct stat file, output;
  return fstat(u->fd, &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         S_ISREG(output.st_mode) && is_same_file(&file, &output);
}

/* Returns how many lines were found; with --files-with-matches at most one. */
static uint64_t search_file(const struct search *search, const char *path)
{
  const bool list = search->options->list, prints = !list && !search->options->count;
  struct unpacked u;
  uint64_t found = 0;
  size_t length;
  if (!unpacked_open(&u, path, search->tar))
    return 0;
  if (prints && is_output(&u)) {
    fail("'%s' is input and output at once: write to another file", path);
    unpacked_close(&u, false);
    return 0;
  }
  char *line = NULL;
  search->finder->failed = false;
  bool enough = false; /* the first line of a list was found, or nobody reads the output */
  while (!enough && (line = unpacked_line(&u, &length)) != NULL) {
    if (!is_chosen(search, line, length))
      continue;
    found++;
    if (prints)
      print_line(search, path, line, length);
    enough = list || ferror(stdout);
  }
  unpacked_close(&u, !enough);
  if (search->finder->failed)
    fail(KEY_FAILED, path);
  if (list && found > 0)
    puts(path);
  else if (search->options->count && search->names)
    printf("%s:%ju\n", path, (uintmax_t) found);
  else if (search->options->count)
    printf("%ju\n", (uintmax_t) found);
  return found;
}

static bool search_files(const struct index_file *index, const struct which_options *options,
                         const bool *may)
{
  struct key_finder finder;
  char why[256];
  bool found = false;
  if (!key_finder_init(&finder, &index->rule, why, sizeof why)) {
    fail("the regular expression of '%s': %s", options->index, why);
    return false;
  }
  struct tar tar = {.archive = NULL};
  struct search search = {options, &finder, &tar, index->count > 1};
  for (size_t i = 0; i < index->count && !ferror(stdout); i++)
    if (may[i])
      found |= search_file(&search, index->entries[i].path) > 0;
  key_finder_free(&finder);
  tar_close(&tar);
  return found;
}

/* ---- both ---- */

static bool print_files(const struct index_file *index, const bool *may, char end)
{
  bool found = false;
  struct stamp stamp;
  for (size_t i = 0; i < index->count; i++) {
    if (!may[i])
      continue;
    if (!stamp_of_path(index->entries[i].path, &stamp)) {
      fail("cannot open '%s': %s", index->entries[i].path, strerror(errno));
      continue;
    }
    printf("%s%c", index->entries[i].path, end);
    found = true;
  }
  return found;
}

static int run(const struct argp *argp, int argc, char **argv, bool searches)
{
  struct which_options options = {.shared = SHARED_OPTIONS_INIT, .end = '\n'};
  struct index_file index;
  const char *name = searches ? "grep" : "which";
  bool found = false;
  parse_command_line(argp, argc, argv, &options.shared, &options);
  if (options.index == NULL || options.key_count == 0)
    usage_error("%s takes an index, and keys; see 'tamis %s --help'", name, name);
  set_failure_status(EXIT_UNUSABLE);
  if (index_open(&index, options.index) && index_read(&index, options.index) &&
      index_read_filters(&index, options.index)) {
    if (index.rule.ignore_case)
      fold_keys(&options);
    bool *may = calloc(index.count + 1, sizeof *may);
    if (may == NULL)
      fail("out of memory");
    else if (find_files(&index, &options, may))
      found =
          searches ? search_files(&index, &options, may) : print_files(&index, may, options.end);
    free(may);
  }
  index_free(&index);
  int status = finish();
  return status == EXIT_SUCCESS && !found ? EXIT_NOTHING : status;
}

int which_main(int argc, char **argv)
{
  return run(&which_argp, argc, argv, false);
}

int grep_main(int argc, char **argv)
{
  return run(&grep_argp, argc, argv, true);
}
