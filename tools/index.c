/* SPDX-License-Identifier: MIT
 *
 * tamis index: makes a filter of the keys of each of many files, or brings an index up to date.
 *
 * Threads take one file after the other.  The hashes of a file's keys are collected and sorted, so
 * the number of distinct keys is known when its filter is made.
 *
 * A file that was read has the stamp that it had before and after that.  If it changed meanwhile, or
 * could not be read to its end, its entry has no filter: it may hold any key.
 */
#include "access.h"
#include "commands.h"
#include "index_file.h"
#include "interrupt.h"
#include "names.h"
#include "numbers.h"
#include "options.h"
#include "output.h"
#include "report.h"
#include "summary.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_FILES_FROM = 0x200, KEY_ADD };

struct index_options {
  struct shared_options shared;
  double fpp;
  const char *list; /* NULL: not given */
  char end;         /* of a name in it */
  bool recursive;
  bool add; /* the other files of INDEX stay as they are */
};

static const double usual_fpp = 0.01;

static const struct argp_child children[] = {{&access_argp, 0, NULL, 0},
                                             {&key_argp, 0, NULL, 0},
                                             {&run_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct index_options *options = state->input;
  switch (key) {
  case 'p':
    options->fpp = parse_fpp("--fpp", argument);
    return 0;
  case 'r':
    options->recursive = true;
    return 0;
  case '0':
    options->end = '\0';
    return 0;
  case KEY_ADD:
    options->add = true;
    return 0;
  case KEY_FILES_FROM:
    options->list = argument;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"fpp", 'p', "RATE", 0,
     "The fraction of files without a key that a look-up of the key names (default 0.01)", 1},
    {"add", KEY_ADD, NULL, 0,
     "Only add FILEs that INDEX does not have, and check no other file of INDEX", 1},
    {"files-from", KEY_FILES_FROM, "FILE", 0,
     "Index the files whose names are in FILE, one on a line; -: standard input", 1},
    {"null", '0', NULL, 0, "Names in FILE end with a byte of zero, as 'find -print0' writes them",
     1},
    {"recursive", 'r', NULL, 0, "Of a folder, index all files in it and below it", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp index_argp = {
    entries,
    parse,
    "-o INDEX [FILE...]",
    "Make a filter of the lines of each FILE, and store all filters in INDEX.  With INDEX, "
    "'tamis which' and 'tamis grep' find the files that may hold a line.\v"
    "If INDEX exists, it is brought up to date: FILEs are added, files that have changed "
    "are read again, and files that are gone are dropped.  INDEX keeps --fpp, --field, "
    "--regex and the other options for keys; giving others is an error.  Runs that change "
    "one INDEX wait for each other.\n\n"
    "With --regex a line has a key for each match.  A line that has no such field, match "
    "or value has no key, and is not found.\n\n"
    "Compressed files (gzip, zstd, xz and others) are read by the programs that decompress "
    "them.  Each member of a tar archive (.tar, .tar.gz, .tgz and the like) is a file with "
    "a name such as logs.tar/a/b.  A member that is compressed is an error, and so is a "
    "second member of the same name.  Names are stored as they are given: use INDEX in the "
    "same folder, or give absolute names.\n\n"
    "With RATE 0.01, INDEX takes 10.3 bits for each distinct key of a file, and 260 to 720 "
    "bytes for each file (more for a long name).  If files of 500 KB or more have one key "
    "in 70 bytes, INDEX takes at most 2 % of their size before compression.\n\n"
    "A file that cannot be read to its end is an error.  INDEX is still written, and each "
    "look-up then names such a file.\n\n"
    "Examples:\n"
    "  tamis index --threads 0 -o logs.index access.log urls-*.gz\n"
    "  tamis index --regex '[0-9a-f]{32}' -o traces.index *.log *.gz\n"
    "  tamis index -o logs.index            # what has changed is read again\n"
    "  find . -name '*.log' -print0 | tamis index -0 --files-from - -o all.index\n"
    "  tamis index -o all.index -r .\n"
    "  tamis grep logs.index \"$id\"",
    children,
    NULL,
    NULL};

/* ---- the keys of a file ---- */

struct hashes {
  const tamis_filter *hasher;
  uint64_t *at;
  size_t count, room;
  bool failed;
};

static int compare(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
  return (x > y) - (x < y);
}

/* Leaves each once. */
static void make_distinct(struct hashes *h)
{
  size_t kept = 0;
  if (h->count > 0)
    qsort(h->at, h->count, sizeof *h->at, compare);
  for (size_t i = 0; i < h->count; i++)
    if (i == 0 || h->at[i] != h->at[i - 1])
      h->at[kept++] = h->at[i];
  h->count = kept;
}

static bool make_room(struct hashes *h)
{
  make_distinct(h);
  if (h->count < h->room / 2)
    return true;
  size_t room = 2 * h->room + 4096;
  uint64_t *grown = reallocarray(h->at, room, sizeof *grown);
  if (grown == NULL)
    return false;
  h->at = grown;
  h->room = room;
  return true;
}

static bool take_hash(void *context, const char *key, size_t length)
{
  struct hashes *h = context;
  if (h->count == h->room && !make_room(h)) {
    h->failed = true;
    return true;
  }
  h->at[h->count++] = tamis_hash(h->hasher, key, length);
  return false;
}

/* ---- the files ---- */

struct work {
  struct index_file *index;
  const tamis_filter *hasher; /* any filter with the seed of the index */
  pthread_mutex_t lock;
  size_t next;
  uint64_t bytes, lines, read; /* of all files that were read, unpacked */
};

/* What a thread has. */
struct reader {
  struct key_finder finder;
  struct tar tar;
};

static tamis_filter *create_filter(const struct index_file *index, uint64_t keys)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *filter;
  options.capacity = keys > 0 ? keys : 1;
  options.fpp = index->fpp;
  options.seed = index->seed;
  options.growable = false;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    fail("cannot make a filter: %s", tamis_strerror(result));
  return filter;
}

static bool make_filter(const struct index_file *index, struct index_entry *entry, struct hashes *h)
{
  make_distinct(h);
  tamis_filter *filter = create_filter(index, h->count);
  if (filter == NULL)
    return false;
  /* All of them fit: the capacity is their number. */
  bool kept =
      tamis_add_many_hash(filter, h->at, h->count, NULL) == TAMIS_OK && index_keep(entry, filter);
  entry->keys = h->count;
  tamis_destroy(filter);
  return kept;
}

/* Whether all of the file was read, and it has not changed since. */
static bool read_keys(struct work *work, struct reader *reader, const struct index_entry *entry,
                      struct hashes *h)
{
  struct unpacked u;
  uint64_t bytes = 0, lines = 0;
  size_t length;
  struct key_finder *finder = &reader->finder;
  if (!unpacked_open(&u, entry->path, &reader->tar))
    return false;
  finder->failed = false;
  for (char *line; !h->failed && !finder->failed && (line = unpacked_line(&u, &length)) != NULL;
       lines++) {
    key_finder_each(finder, line, length, take_hash, h);
    bytes += length + 1;
  }
  bool settled = unpacked_is_settled(&u, &entry->stamp);
  bool failed = h->failed || finder->failed, whole = unpacked_close(&u, !failed);
  if (h->failed)
    fail("out of memory for the keys of '%s'", entry->path);
  else if (finder->failed)
    fail(KEY_FAILED, entry->path);
  else if (whole && !settled)
    note("'%s' changes; it will be searched for any key", entry->path);
  pthread_mutex_lock(&work->lock);
  work->bytes += bytes;
  work->lines += lines;
  work->read++;
  pthread_mutex_unlock(&work->lock);
  return whole && settled && !failed;
}

static void read_file(struct work *work, struct reader *reader, struct index_entry *entry)
{
  struct hashes h = {.hasher = work->hasher};
  const struct stamp before = entry->stamp;
  const bool had_filter = entry->filter_bytes > 0;
  entry->filter = NULL;
  entry->filter_bytes = entry->keys = 0;
  if (!stamp_of_path(entry->path, &entry->stamp))
    fail("cannot open '%s': %s", entry->path, strerror(errno));
  else if (read_keys(work, reader, entry, &h))
    make_filter(work->index, entry, &h);
  entry->fresh |= had_filter || entry->filter_bytes > 0 || !stamp_equal(&before, &entry->stamp);
  free(h.at);
}

static struct index_entry *take_entry(struct work *work)
{
  struct index_entry *entry = NULL;
  pthread_mutex_lock(&work->lock);
  while (work->next < work->index->count && !work->index->entries[work->next].stale)
    work->next++;
  if (work->next < work->index->count)
    entry = &work->index->entries[work->next++];
  pthread_mutex_unlock(&work->lock);
  return entry;
}

static void *read_files(void *context)
{
  struct work *work = context;
  struct reader reader = {.tar = {.archive = NULL}};
  char why[256];
  if (!key_finder_init(&reader.finder, &work->index->rule, why, sizeof why)) {
    fail("--regex: %s", why);
    return NULL;
  }
  for (struct index_entry *entry; (entry = take_entry(work)) != NULL;)
    read_file(work, &reader, entry);
  key_finder_free(&reader.finder);
  tar_close(&reader.tar);
  return NULL;
}

static void run_threads(struct work *work, unsigned n)
{
  pthread_t threads[MAX_THREADS];
  unsigned started = 0;
  sigset_t before;
  interrupt_hold(&before); /* the main thread alone receives signals */
  while (started + 1 < n && pthread_create(&threads[started], NULL, read_files, work) == 0)
    started++;
  interrupt_restore(&before);
  read_files(work);
  for (unsigned i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
}

/* ---- the index ---- */

/* Whether there is no regular file any more, by why stamp_of_path() has failed. */
static bool is_gone(int error)
{
  return error == ENOENT || error == ENOTDIR || error == EISDIR || error == EINVAL;
}

/* Finds out which files are to be read, and leaves out those that are gone. */
static void look_at_files(struct index_file *index)
{
  size_t kept = 0;
  for (size_t i = 0; i < index->count; i++) {
    struct index_entry entry = index->entries[i];
    struct stamp stamp;
    bool there = stamp_of_path(entry.path, &stamp);
    if (!there && is_gone(errno)) {
      free(entry.path);
      continue;
    }
    entry.stale = entry.filter_bytes == 0 || !there || !stamp_equal(&stamp, &entry.stamp);
    index->entries[kept++] = entry;
  }
  index->count = kept;
}

static bool is_folder(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

#define UNFINISHED "'%s' is what an earlier run left of INDEX, and would be removed: rename it"

/* An index of itself would change with each run, and what a killed run has left of it is removed: these cannot
 * be among the `named` files, and are left out of those that folders have. */
static void leave_out_index(struct names *names, size_t named, const char *index, const char *list)
{
  size_t kept = 0;
  struct stat of_index, status;
  struct replacement place;
  const struct stat *old = stat(index, &of_index) == 0 ? &of_index : NULL;
  bool replaced = replace_possible(&place, index, old);
  if (replaced && list != NULL && replace_is_unfinished(&place, list))
    usage_error(UNFINISHED, list);
  for (size_t i = 0; i < names->count; i++) {
    bool same = old != NULL && stat(names->at[i], &status) == 0 && is_same_file(&status, &of_index);
    bool rest = replaced && replace_is_unfinished(&place, names->at[i]);
    if (same && i < named)
      usage_error("'%s' is INDEX itself, and cannot be one of its files", names->at[i]);
    if (rest && i < named)
      usage_error(UNFINISHED, names->at[i]);
    if (same || rest)
      free(names->at[i]);
    else
      names->at[kept++] = names->at[i];
  }
  names->count = kept;
  replace_end(&place);
}

/* What the index has of an archive. */
static bool add_members(struct names *names, const struct index_file *index, const char *archive)
{
  size_t length = strlen(archive);
  bool good = true;
  for (size_t i = 0; good && i < index->count; i++)
    if (strncmp(index->entries[i].path, archive, length) == 0 &&
        index->entries[i].path[length] == '/')
      good = names_add(names, index->entries[i].path);
  return good;
}

/* Puts the members of archives in the place of these.  Of a damaged one all that the index has may be there, and
 * its own name stands for the rest, which may hold any key. */
static bool open_archives(struct names *names, const struct index_file *index)
{
  struct names all = {.at = NULL};
  bool good = true;
  for (size_t i = 0; good && i < names->count; i++) {
    enum tar_kind kind = TAR_NONE;
    good = (!tar_has_name(names->at[i]) || tar_list(&all, names->at[i], &kind)) &&
           (kind == TAR_WHOLE || names_add(&all, names->at[i])) &&
           (kind != TAR_PART || add_members(&all, index, names->at[i]));
  }
  names_free(names);
  *names = all;
  return good;
}

/* The length of the name of the archive that the file is a member of, or is itself; 0: of none. */
static size_t archive_part(const char *path)
{
  struct stat status;
  if (stat(path, &status) == 0)
    return tar_has_name(path) ? strlen(path) : 0;
  return tar_part(path, &status);
}

/* The archives that are to be read, each once. */
static bool find_archives(const struct index_file *index, struct names *archives)
{
  struct names all = {.at = NULL};
  bool good = true;
  for (size_t i = 0; good && i < index->count; i++) {
    const struct index_entry *entry = &index->entries[i];
    size_t part = entry->stale ? archive_part(entry->path) : 0;
    char *archive = part > 0 ? strndup(entry->path, part) : NULL;
    good = part == 0 || (archive != NULL && names_add(&all, archive));
    free(archive);
  }
  char **sorted = good ? names_sorted(&all, 0) : NULL;
  good = sorted != NULL;
  for (size_t i = 0; good && i < all.count; i++)
    good = (i > 0 && strcmp(sorted[i - 1], sorted[i]) == 0) || names_add(archives, sorted[i]);
  free(sorted);
  names_free(&all);
  return good;
}

/* Leaves out members that archives do not have any more. */
static bool drop_members(struct index_file *index, const struct names *members)
{
  char **sorted = names_sorted(members, 0);
  size_t kept = 0;
  if (sorted == NULL)
    return false;
  for (size_t i = 0; i < index->count; i++) {
    struct index_entry entry = index->entries[i];
    if (entry.stale && archive_part(entry.path) > 0 &&
        !names_have(sorted, members->count, entry.path))
      free(entry.path);
    else
      index->entries[kept++] = entry;
  }
  index->count = kept;
  free(sorted);
  return true;
}

/* Archives that have changed may have other members: these become `files`, too.  False after fail(). */
static bool look_into_archives(struct index_file *index, struct names *files)
{
  struct names members = {.at = NULL};
  bool good = find_archives(index, &members) && open_archives(&members, index) &&
              drop_members(index, &members);
  for (size_t i = 0; good && i < members.count; i++)
    good = names_add(files, members.at[i]);
  names_free(&members);
  return good;
}

/* All files that the command line asks for.  False after fail(): there is no memory, or no list. */
static bool collect_files(const struct index_options *options, struct names *names)
{
  struct names given = {.at = NULL}, folders = {.at = NULL};
  bool good = options->list == NULL || names_read(&given, options->list, options->end);
  for (size_t i = 0; good && i < options->shared.file_count; i++)
    good = names_add(&given, options->shared.files[i]);
  for (size_t i = 0; good && i < given.count; i++)
    good = names_add(options->recursive && is_folder(given.at[i]) ? &folders : names, given.at[i]);
  size_t named = names->count;
  for (size_t i = 0; good && i < folders.count; i++)
    good = names_walk(names, folders.at[i]);
  if (good)
    leave_out_index(names, named, options->shared.output, options->list);
  names_free(&folders);
  names_free(&given);
  return good && open_archives(names, &(struct index_file){.count = 0});
}

/* A file that is asked for. */
struct named {
  const char *path;
  size_t order;
  bool known; /* it is in the index, or was named before */
};

static int compare_paths(const void *a, const void *b)
{
  const struct named *x = a, *y = b;
  int paths = strcmp(x->path, y->path);
  return paths != 0 ? paths : (x->order > y->order) - (x->order < y->order);
}

static int compare_orders(const void *a, const void *b)
{
  const struct named *x = a, *y = b;
  return (x->order > y->order) - (x->order < y->order);
}

static int has_path(const void *path, const void *named)
{
  return strcmp(path, ((const struct named *) named)->path);
}

/* The files, of which there is one at least, are sorted by their paths.  Of equal ones the first one counts. */
static void find_known(const struct index_file *index, struct named *files, size_t count)
{
  for (size_t i = 1; i < count; i++)
    files[i].known = strcmp(files[i - 1].path, files[i].path) == 0;
  for (size_t i = 0; i < index->count; i++) {
    struct named *found = bsearch(index->entries[i].path, files, count, sizeof *files, has_path);
    while (found != NULL && found > files && strcmp(found[-1].path, found->path) == 0)
      found--;
    if (found != NULL)
      found->known = true;
  }
}

/* False after fail(): there is no memory. */
static bool add_file(struct index_file *index, const char *path)
{
  struct stamp stamp;
  if (stamp_of_path(path, &stamp))
    return index_append(index, path) != NULL;
  fail("cannot open '%s': %s", path, errno == EINVAL ? "it is no regular file" : strerror(errno));
  return true;
}

/* Adds those of the files that are not in the index, in their order.  False after fail(). */
static bool add_files(struct index_file *index, const struct names *names)
{
  struct named *files = calloc(names->count + 1, sizeof *files);
  bool good = files != NULL;
  if (!good)
    fail("out of memory");
  for (size_t i = 0; good && i < names->count; i++)
    files[i] = (struct named){.path = names->at[i], .order = i};
  if (good && names->count > 0) {
    qsort(files, names->count, sizeof *files, compare_paths);
    find_known(index, files, names->count);
    qsort(files, names->count, sizeof *files, compare_orders);
  }
  for (size_t i = 0; good && i < names->count; i++)
    good = files[i].known || add_file(index, files[i].path);
  free(files);
  return good;
}

static void check_rule(const struct index_options *options, const struct index_file *index)
{
  const struct key_rule *keys = &options->shared.keys, *was = &index->rule;
  struct key_rule other = *keys;
  other.crlf = was->crlf;
  other.ignore_case = was->ignore_case;
  if (!key_rule_is_plain(keys) && !key_rules_equal(keys, was))
    usage_error("'%s' was made %s; make it anew", options->shared.output,
                !key_rules_equal(&other, was) ? "with another --field or --regex or --json"
                : keys->crlf != was->crlf
                    ? (was->crlf ? "with --crlf" : "without --crlf")
                    : (was->ignore_case ? "with --ignore-case" : "without --ignore-case"));
  if (options->fpp > 0 && (options->fpp < index->fpp || options->fpp > index->fpp))
    usage_error("'%s' was made with --fpp %g; make it anew", options->shared.output, index->fpp);
}

/* A new index has a seed that nobody knows. */
static bool begin_index(const struct index_options *options, const struct names *files,
                        struct index_file *index)
{
  tamis_options any = TAMIS_OPTIONS_INIT;
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_filter *filter;
  any.capacity = 1;
  index->rule = options->shared.keys;
  index->fpp = options->fpp > 0 ? options->fpp : usual_fpp;
  if (files->count == 0 && (options->list != NULL || options->shared.file_count > 0))
    usage_error("'%s' does not exist, and there are no files for it", options->shared.output);
  if (files->count == 0)
    usage_error("'%s' does not exist, so index needs files; see 'tamis index --help'",
                options->shared.output);
  int result = tamis_create(&any, &filter);
  if (result != TAMIS_OK) {
    fail("cannot make a filter: %s", tamis_strerror(result));
    return false;
  }
  tamis_get_stats(filter, &stats);
  index->seed = stats.seed;
  tamis_destroy(filter);
  return true;
}

static void summarize(const struct work *work, uint64_t dropped, double seconds)
{
  char figure[FIGURE_BYTES];
  uint64_t filters = 0, keys = 0;
  for (size_t i = 0; i < work->index->count; i++) {
    filters += work->index->entries[i].filter_bytes;
    keys += work->index->entries[i].keys;
  }
  summary_count("files", work->index->count);
  summary_count("files read", work->read);
  summary_count("files dropped", dropped);
  summary_count("keys", keys);
  summary_row("filters", "%s", bytes_figure(figure, (double) filters));
  summary_speed(work->bytes, work->lines, seconds);
}

/* Reads what is to be read, and writes it to an output, or to the end of INDEX if that is NULL. */
static void update(const struct index_options *options, const struct names *files,
                   struct work *work, struct output *output)
{
  struct index_file *index = work->index;
  if (!add_files(index, files))
    return;
  run_threads(work, options->shared.threads);
  if (output != NULL)
    output->keeps = index_write(index, output);
  else
    index_extend(index, options->shared.output);
}

static void rewrite(const struct index_options *options, const struct names *files,
                    struct work *work)
{
  struct inputs none = {.count = 0};
  struct output output;
  const char *path = options->shared.output;
  if (!index_read_filters(work->index, path))
    return;
  if (output_open_filter(&output, path, &none))
    update(options, files, work, &output);
  output_close(&output);
}

static void change(const struct index_options *options, struct names *files,
                   struct index_file *index, bool exists)
{
  struct work work = {.index = index, .lock = PTHREAD_MUTEX_INITIALIZER};
  double begin = now_seconds();
  const size_t before = index->count;
  if (!options->add)
    look_at_files(index);
  if (!options->add && !look_into_archives(index, files))
    return;
  uint64_t dropped = before - index->count;
  if (dropped > 0 && index->count == 0 && files->count == 0) {
    fail("none of the files of '%s' is there, so it stays as it is; their names begin in this "
         "folder",
         options->shared.output);
    return;
  }
  tamis_filter *hasher = create_filter(index, 1);
  if (hasher == NULL)
    return;
  work.hasher = hasher;
  if (exists && dropped == 0 && !index_is_sparse(index))
    update(options, files, &work, NULL);
  else
    rewrite(options, files, &work);
  if (options->shared.stats)
    summarize(&work, dropped, now_seconds() - begin);
  tamis_destroy(hasher);
}

static void run(const struct index_options *options, struct names *files)
{
  const char *path = options->shared.output;
  struct index_file index;
  bool exists;
  if (index_open_alone(&index, path, &exists) &&
      (exists ? index_read(&index, path) : begin_index(options, files, &index))) {
    if (exists)
      check_rule(options, &index);
    change(options, files, &index, exists);
  }
  index_free(&index);
}

int index_main(int argc, char **argv)
{
  struct index_options options = {.shared = SHARED_OPTIONS_INIT, .end = '\n'};
  struct names files = {.at = NULL};
  parse_command_line(&index_argp, argc, argv, &options.shared, &options);
  if (options.shared.output == NULL)
    usage_error("index needs -o INDEX; see 'tamis index --help'");
  if (options.end == '\0' && options.list == NULL)
    usage_error("--null needs --files-from");
  if (collect_files(&options, &files))
    run(&options, &files);
  names_free(&files);
  return finish();
}
