/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions on shared filters.
 *
 * The library writes a new file completely, then gives it the path as a name, which fails if the
 * path exists.  So only one of several processes creates the file, and no process sees an
 * unfinished file.  If a file exists but is empty, the library locks it and fills it in place.
 */
#include "base/shared_file.h"

#include "base/cancel.h"
#include "base/file.h"
#include "base/saved.h"
#include "kinds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct wanted {
  const struct refusal *why;
  const char *path; /* the path of the file; NULL: the file of `fd` */
  int fd;           /* if `path` is NULL: a descriptor, or -1 for an unnamed file in memory */
  bool has_options;
  tamis_options options;
  struct filter_more more;
  struct tamis_filter head;
  const struct filter_kind *kind;
};

static int refuse_file(const struct wanted *w, int result, const char *what)
{
  int error = errno;
  (void) tamis__refuse(w->why, result, "%s%s%s", w->path ? w->path : "the file",
                       w->path ? ": " : " ", what);
  errno = error;
  return result;
}

static const char *reason_of(int error)
{
  return error == EAGAIN ? "a process that may only read it has locked it" : strerror(error);
}

/* Refuses because a system call has failed, for the reason in errno. */
static int refuse_call(const struct wanted *w, const char *what)
{
  int error = errno;
  const char *path = !w->path || *w->path ? w->path : "an empty path";
  (void) tamis__refuse(w->why, TAMIS_EIO, "%s cannot be %s: %s", path ? path : "the file", what,
                       reason_of(error));
  errno = error;
  return TAMIS_EIO;
}

/* ---- options ---- */

static int read_options(const tamis_options *options, struct wanted *w)
{
  if (!options)
    return TAMIS_OK;
  w->has_options = true;
  int result = tamis__prepare(w->why, options, &w->options, &w->more, &w->head);
  if (result != TAMIS_OK)
    return result;
  const tamis_file_access *access = w->options.access;
  if (!file_access_is_valid(access))
    return tamis__refuse(
        w->why, TAMIS_EINVAL,
        "access->mode is 0%o and access->group %lld; the mode must be from 0600 to "
        "0777, with the bits of 0600, and the group -1 or the number of one",
        access->mode, (long long) access->group);
  w->kind = w->options.window ? NULL : tamis__find_counted_kind(w->options.kind);
  if (!w->kind)
    w->kind = tamis__find_kind(w->options.kind, w->options.window > 0);
  if (!w->kind->share_new)
    return tamis__refuse(w->why, TAMIS_EUNSUPPORTED,
                         "kind is %d (%s)%s; a filter that processes share must be of kind %d "
                         "(TAMIS_BLOOM), or without a window of kind %d (TAMIS_CUCKOO)",
                         (int) w->options.kind, w->kind->name,
                         w->options.window ? " with a window" : "", TAMIS_BLOOM, TAMIS_CUCKOO);
  if (w->options.hash)
    return tamis__refuse(w->why, TAMIS_EUNSUPPORTED,
                         "hash is set; of a filter that processes share it must be NULL");
  tamis_options checked = w->options; /* all options, except those that share_new() checks */
  checked.max_bytes = 0;
  if (w->options.window || w->options.kind == TAMIS_CUCKOO) {
    checked.growable = false;
    w->options.layout = TAMIS_LAYOUT_BLOCKED; /* the kind has no layouts; its files say BLOCKED */
  }
  return w->kind->create(&checked, &w->head, w->why, NULL);
}

static int contradicts(const struct wanted *w, const char *field, const char *wanted,
                       const char *found)
{
  return tamis__refuse(w->why, TAMIS_EINVAL, "%s is %s; the filter in the file has %s", field,
                       wanted, found);
}

static int contradicts_number(const struct wanted *w, const char *field, uint64_t wanted,
                              uint64_t found, const char *const *words)
{
  if (words)
    return contradicts(w, field, words[wanted], words[found]);
  char a[24], b[24];
  (void) snprintf(a, sizeof a, "%llu", (unsigned long long) wanted);
  (void) snprintf(b, sizeof b, "%llu", (unsigned long long) found);
  return contradicts(w, field, a, b);
}

static int compare(const struct wanted *w, const struct saved_head *saved)
{
  const tamis_options *a = &w->options, *b = &saved->options;
  static const char *const truths[] = {"false", "true"}, *const layouts[] = {"blocked", "classic",
                                                                             "word"};
  const struct {
    const char *name;
    uint64_t wanted, found;
    bool any;                 /* if true and `wanted` is 0, `found` may have any value */
    const char *const *words; /* names of the values, for messages; NULL: shown as numbers */
  } numbers[] = {{"kind", a->kind, b->kind, false, NULL},
                 {"capacity", a->capacity, b->capacity, false, NULL},
                 {"growable", a->growable, b->growable, false, truths},
                 {"window", a->window, b->window, false, NULL},
                 {"window_renews", a->window_renews, b->window_renews, false, truths},
                 {"max_bytes", a->max_bytes, b->max_bytes, true, NULL},
                 {"layout", a->layout, b->layout, false, layouts}};
  if (!w->has_options)
    return TAMIS_OK;
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].wanted != numbers[i].found && !(numbers[i].any && !numbers[i].wanted))
      return contradicts_number(w, numbers[i].name, numbers[i].wanted, numbers[i].found,
                                numbers[i].words);
  if (a->fpp < b->fpp || a->fpp > b->fpp)
    return contradicts(w, "fpp", tamis__rate_text(a->fpp).text, tamis__rate_text(b->fpp).text);
  if (a->seed && a->seed != b->seed)
    return contradicts(w, "seed", "set", "another one");
  return TAMIS_OK;
}

/* ---- opening ---- */

static int open_from(const struct wanted *w, struct saved_reader *r, struct shared_file *file,
                     tamis_filter **out)
{
  struct saved_head saved;
  const struct filter_kind *kind;
  int result = tamis__read_kind(r, &saved, &kind);
  if (result == TAMIS_EIO)
    return refuse_call(w, "read");
  if (result == TAMIS_ECORRUPT)
    return refuse_file(w, TAMIS_ECORRUPT, "is no filter, or damaged");
  if (result != TAMIS_OK || (saved.own_hash && kind->share_open))
    return refuse_file(w, TAMIS_EUNSUPPORTED, "needs a later version of the library");
  if (!(saved.features & SAVED_LIVE) || !kind->share_open)
    return refuse_file(
        w, TAMIS_EUNSUPPORTED,
        "is a saved filter, which processes do not share: load it, and merge it into "
        "a filter that they share");
  result = compare(w, &saved);
  if (result != TAMIS_OK)
    return result;
  struct tamis_filter head = {.keys = hash_keys_from_seed(saved.options.seed)};
  filter_set_more(&head, &w->more);
  if (filter_probe(&head) != saved.probe)
    return refuse_file(w, TAMIS_ECORRUPT, "is damaged");
  result = SAVED_SWAPPED ? TAMIS_EUNSUPPORTED : kind->share_open(r, &saved, &head, file, out);
  if (result == TAMIS_ECORRUPT)
    return refuse_file(w, result, "is damaged, or shorter than it was");
  return result == TAMIS_EIO ? refuse_call(w, "opened") : result;
}

static int open_file(const struct wanted *w, struct shared_file *file, tamis_filter **out)
{
  struct file_part from = {.file = file, .end = file->size};
  struct saved_reader r = {
      .read = tamis__file_part_read, .context = &from, .allocator = w->more.allocator};
  int result = open_from(w, &r, file, out);
  tamis__saved_close(&r);
  return result;
}

/* ---- creation ---- */

static int refuse_nothing(const struct wanted *w)
{
  errno = ENOENT;
  return refuse_call(w, "opened, and there are no options to create it with");
}

/* Returns true if the file is empty, or is marked as unfinished: its writer may have been killed.
 * (A file of zeros is not new: it might be a disk image.) */
static bool is_new(struct shared_file *file)
{
  char begin[sizeof SAVED_UNFINISHED - 1];
  if (!file->size || (tamis__shared_file_read(file, begin, sizeof begin, 0) == TAMIS_OK &&
                      !memcmp(begin, SAVED_UNFINISHED, sizeof begin)))
    return true;
  (void) tamis__shared_file_look(file); /* reads the size again: a process may have changed it */
  return false;
}

static int share_new(const struct wanted *w, struct shared_file *file)
{
  struct saved_head saved = {
      .options = w->options, .probe = filter_probe(&w->head), .features = SAVED_LIVE};
  saved.options.seed = w->head.keys.seed;
  return w->kind->share_new(&saved, w->why, file);
}

static int fill_file(const struct wanted *w, struct shared_file *file)
{
  int result = share_new(w, file);
  return result == TAMIS_EIO ? refuse_call(w, "written") : result;
}

static void empty_again(struct shared_file *file)
{
  int error = errno;
  (void) tamis__shared_file_resize(file, 0);
  errno = error;
}

/* Fills a new file in place.  Other processes wait for the lock, then find the file filled. */
static int fill_in_place(const struct wanted *w, struct shared_file *file)
{
  if (!is_new(file))
    return TAMIS_OK;
  if (!w->has_options)
    return refuse_nothing(w);
  if (tamis__shared_file_lock(file) != TAMIS_OK)
    return refuse_call(w, "locked");
  int result = tamis__shared_file_look(file);
  bool filled = result == TAMIS_OK && is_new(file);
  if (filled && file->size && tamis__shared_file_resize(file, 0) != TAMIS_OK)
    result = refuse_call(w, "emptied");
  else if (filled && (result = fill_file(w, file)) != TAMIS_OK)
    empty_again(file);
  tamis__shared_file_unlock(file);
  return result;
}

static int begin_file(const struct wanted *w, struct new_file *new)
{
  if (tamis__file_begin(new, w->path, FILE_OWNER_ONLY) != TAMIS_OK)
    return refuse_call(w, "created");
  if (tamis__file_give(new->fd, w->options.access) == TAMIS_OK)
    return TAMIS_OK;
  int result = refuse_call(w, "given the mode and the group of `access`");
  tamis__file_abandon(new);
  return result;
}

/* Creates the file at w->path.  Also succeeds if another process has created it meanwhile. */
static int create_file(const struct wanted *w)
{
  struct new_file new;
  int result = share_new(w, NULL); /* before the path, as in check_new() */
  if (result == TAMIS_OK)
    result = begin_file(w, &new);
  if (result != TAMIS_OK)
    return result;
  struct shared_file file = {.fd = new.fd};
  result = fill_file(w, &file);
  if (result == TAMIS_OK && tamis__file_commit_new(&new) != TAMIS_OK)
    result = errno == EEXIST ? TAMIS_OK : refuse_call(w, "created");
  tamis__file_abandon(&new);
  return result;
}

static int open_path(const struct wanted *w, struct shared_file *file)
{
  enum { TRIES = 8 }; /* attempts: another process may remove the file before it is opened */
  int result = TAMIS_OK;
  for (unsigned i = 0; i < TRIES && result == TAMIS_OK; i++) {
    if (tamis__shared_file_open(file, w->path, -1) == TAMIS_OK)
      return TAMIS_OK;
    if (errno != ENOENT)
      break;
    result = w->has_options ? create_file(w) : refuse_nothing(w);
  }
  if (result == TAMIS_OK)
    return refuse_call(w, "opened");
  /* Another process may have created the file meanwhile. */
  int error = errno;
  if (tamis__shared_file_open(file, w->path, -1) == TAMIS_OK)
    return TAMIS_OK;
  errno = error;
  return result;
}

static int open_any(const struct wanted *w, struct shared_file *file)
{
  if (w->path)
    return open_path(w, file);
  int result =
      w->fd < 0 ? tamis__shared_file_in_memory(file) : tamis__shared_file_open(file, NULL, w->fd);
  return result == TAMIS_OK ? result : refuse_call(w, "opened");
}

static int open_shared(struct wanted *w, const tamis_options *options, tamis_filter **out)
{
  struct shared_file file;
  int result = read_options(options, w);
  if (result == TAMIS_OK)
    result = open_any(w, &file);
  if (result != TAMIS_OK)
    return result;
  result = fill_in_place(w, &file);
  if (result == TAMIS_OK)
    result = open_file(w, &file, out);
  tamis__shared_file_close(&file); /* does nothing if the filter has taken the file */
  return result;
}

/* ---- the calls ---- */

int tamis_open_shared(const tamis_options *options, const char *path, tamis_filter **out)
{
  struct wanted w = {.path = path, .fd = -1};
  if (out)
    *out = NULL;
  if (!out || (!options && !path))
    return TAMIS_EINVAL;
  return UNCANCELLED(open_shared(&w, options, out));
}

int tamis_open_shared_fd(const tamis_options *options, int fd, tamis_filter **out)
{
  struct wanted w = {.fd = fd};
  if (out)
    *out = NULL;
  if (!out || fd < 0)
    return TAMIS_EINVAL;
  return UNCANCELLED(open_shared(&w, options, out));
}

/* Checks whether `found` could be filled or, if it is NULL, whether a file could be created. */
static int check_new(const struct wanted *w, const struct shared_file *found)
{
  struct new_file new;
  int result = share_new(w, NULL);
  if (result != TAMIS_OK || !w->path)
    return result;
  if (found)
    return fill_file(w, &(struct shared_file){.fd = found->fd, .asked = true});
  result = begin_file(w, &new);
  if (result != TAMIS_OK)
    return result;
  result = fill_file(w, &(struct shared_file){.fd = new.fd, .asked = true});
  tamis__file_abandon(&new);
  return result;
}

/* Checks whether the file can be opened or, if there is no file, whether it could be created. */
static int check(struct wanted *w, const tamis_options *options)
{
  struct shared_file file;
  tamis_filter *f = NULL;
  if (!options && !w->path)
    return tamis__refuse(w->why, TAMIS_EINVAL, "there are neither options nor a path");
  int result = read_options(options, w);
  if (result != TAMIS_OK)
    return result;
  bool found = w->path && tamis__shared_file_open(&file, w->path, -1) == TAMIS_OK;
  if (!found && w->path && errno != ENOENT)
    return refuse_call(w, "opened");
  if (!found || is_new(&file))
    result = w->has_options ? check_new(w, found ? &file : NULL) : refuse_nothing(w);
  else
    result = open_file(w, &file, &f);
  if (found)
    tamis__shared_file_close(&file);
  tamis_destroy(f);
  return result;
}

int tamis_shared_check(const tamis_options *options, const char *path, char *why, size_t size)
{
  const struct refusal refusal = {why, size};
  struct wanted w = {.why = &refusal, .path = path, .fd = -1};
  if (why && size)
    *why = '\0';
  return UNCANCELLED(check(&w, options));
}

int tamis_sync(tamis_filter *f)
{
  if (!f)
    return TAMIS_EINVAL;
  const struct filter_kind *kind = operations_of(f)->kind;
  return kind->sync ? kind->sync(f) : TAMIS_EUNSUPPORTED;
}
