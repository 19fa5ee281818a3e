/* SPDX-License-Identifier: MIT */
#include "tar.h"

#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tar_has_name(const char *path)
{
  static const char *const ends[] = {".tar",     ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2",
                                     ".tar.lz4", ".tgz",    ".txz",    ".tzst",    ".tbz2"};
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    size_t end = strlen(ends[i]);
    if (length > end && strcmp(path + length - end, ends[i]) == 0)
      return true;
  }
  return false;
}

size_t tar_part(const char *path, struct stat *status)
{
  char *part = strdup(path), *slash;
  size_t length = 0;
  while (part != NULL && length == 0 && (slash = strrchr(part, '/')) != NULL && slash > part) {
    *slash = '\0';
    if (stat(part, status) == 0 && S_ISREG(status->st_mode) && tar_has_name(part))
      length = (size_t) (slash - part);
  }
  free(part);
  errno = ENOTDIR;
  return length;
}

#ifndef HAVE_LIBARCHIVE
bool tar_list(struct names *names, const char *path, enum tar_kind *kind)
{
  (void) names, (void) path;
  *kind = TAR_NONE;
  return true;
}

bool tar_is_none(const char *path)
{
  (void) path;
  return true;
}

FILE *tar_open(struct tar *tar, const char *path, size_t part)
{
  (void) tar, (void) part;
  fail("cannot read '%s': tamis was built without libarchive", path);
  return NULL;
}

void tar_close(struct tar *tar)
{
  (void) tar;
}
#else
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <pthread.h>

#define FUNCTIONS(X)                   \
  X(archive_read_new)                  \
  X(archive_read_free)                 \
  X(archive_read_support_filter_bzip2) \
  X(archive_read_support_filter_gzip)  \
  X(archive_read_support_filter_lz4)   \
  X(archive_read_support_filter_xz)    \
  X(archive_read_support_filter_zstd)  \
  X(archive_read_support_format_tar)   \
  X(archive_read_open_fd)              \
  X(archive_read_next_header)          \
  X(archive_read_data)                 \
  X(archive_error_string)              \
  X(archive_entry_filetype)            \
  X(archive_entry_hardlink)            \
  X(archive_entry_pathname)            \
  X(archive_entry_pathname_utf8)

#define FIELD(name) __typeof__(name) *(name);
static struct {
  FUNCTIONS(FIELD)
} lib;
static bool loaded;

static bool find_function(void *handle, const char *name, void *function)
{
  void *found = dlsym(handle, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static void load(void)
{
  void *handle = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
#define FIND(name) &&find_function(handle, #name, &lib.name)
  loaded = handle != NULL FUNCTIONS(FIND);
}

static bool is_loaded(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return loaded;
}

static bool cannot_read(const char *path, const char *why)
{
  fail("cannot read '%s': %s", path, why != NULL ? why : "it is damaged");
  return false;
}

/* No filter that runs other programs. */
static bool begin(struct archive *archive, int fd)
{
  enum { BLOCK_BYTES = 64 << 10 };
  lib.archive_read_support_filter_bzip2(archive);
  lib.archive_read_support_filter_gzip(archive);
  lib.archive_read_support_filter_lz4(archive);
  lib.archive_read_support_filter_xz(archive);
  lib.archive_read_support_filter_zstd(archive);
  return lib.archive_read_support_format_tar(archive) == ARCHIVE_OK &&
         lib.archive_read_open_fd(archive, fd, BLOCK_BYTES) == ARCHIVE_OK;
}

void tar_close(struct tar *tar)
{
  if (tar->archive == NULL)
    return;
  lib.archive_read_free(tar->archive);
  close(tar->fd);
  free(tar->path);
  *tar = (struct tar){.archive = NULL};
}

/* NULL, or why it cannot be read. */
static const char *open_archive(struct tar *tar, const char *path)
{
  struct stat status;
  int fd = (int) TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd < 0)
    return strerror(errno);
  struct archive *archive = lib.archive_read_new();
  char *copy = strdup(path);
  if (archive != NULL && copy != NULL && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      begin(archive, fd)) {
    *tar = (struct tar){.archive = archive, .path = copy, .fd = fd, .status = status};
    return NULL;
  }
  if (archive != NULL)
    lib.archive_read_free(archive);
  close(fd);
  free(copy);
  return "it is no archive";
}

/* The name of the next regular file; NULL: there is none, or *result tells of an error. */
static const char *next_member(struct tar *tar, int *result)
{
  struct archive_entry *entry;
  for (;;) {
    *result = lib.archive_read_next_header(tar->archive, &entry);
    if (*result != ARCHIVE_OK && *result != ARCHIVE_WARN)
      return NULL;
    tar->begun = true;
    if (lib.archive_entry_filetype(entry) != AE_IFREG || lib.archive_entry_hardlink(entry) != NULL)
      continue;
    const char *name = lib.archive_entry_pathname(entry); /* NULL: not of this locale */
    return name != NULL ? name : lib.archive_entry_pathname_utf8(entry);
  }
}

/* ---- names ---- */

/* Of several members of a name, the first one alone is read. */
static bool check_names(const struct names *names, size_t from)
{
  char **sorted = names_sorted(names, from);
  for (size_t i = 1; sorted != NULL && i < names->count - from; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0)
      fail("'%s' is in the archive more than once, and only the first one is read", sorted[i]);
  free(sorted);
  return sorted != NULL;
}

bool tar_list(struct names *names, const char *path, enum tar_kind *kind)
{
  struct tar tar = {.archive = NULL};
  size_t from = names->count;
  bool good = true;
  int result;
  *kind = TAR_NONE;
  if (!is_loaded())
    note("'%s' is read as one file, as there is no libarchive.so.13", path);
  if (!is_loaded() || open_archive(&tar, path) != NULL)
    return true;
  for (const char *name; good && (name = next_member(&tar, &result)) != NULL;) {
    *kind = TAR_PART;
    good = names_add_in(names, path, name);
  }
  if (result == ARCHIVE_EOF)
    *kind = *kind == TAR_PART ? TAR_WHOLE : TAR_NONE;
  else if (tar.begun)
    *kind = TAR_PART;
  if (good && *kind == TAR_PART)
    cannot_read(path, lib.archive_error_string(tar.archive));
  tar_close(&tar);
  return good && check_names(names, from);
}

bool tar_is_none(const char *path)
{
  struct names names = {.at = NULL};
  enum tar_kind kind = TAR_NONE;
  bool good = !tar_has_name(path) || !is_loaded() || tar_list(&names, path, &kind);
  names_free(&names);
  if (kind == TAR_WHOLE)
    cannot_read(path, "it is another archive than when it was indexed");
  return good && kind == TAR_NONE;
}

/* ---- contents ---- */

static ssize_t read_member(void *cookie, char *to, size_t size)
{
  struct tar *tar = cookie;
  size_t rest = tar->got - tar->given;
  if (rest > 0) {
    size = size < rest ? size : rest;
    memcpy(to, tar->first + tar->given, size);
    tar->given += size;
    return (ssize_t) size;
  }
  la_ssize_t got = tar->found ? lib.archive_read_data(tar->archive, to, size) : 0;
  if (got < 0)
    errno = EIO;
  return got < 0 ? -1 : (ssize_t) got;
}

/* Reads on to the member.  False: there is none behind those that were read, or *result tells of an
 * error. */
static bool find_member(struct tar *tar, const char *name, int *result)
{
  const char *next;
  while ((next = next_member(tar, result)) != NULL)
    if (strcmp(next, name) == 0)
      return true;
  return false;
}

static bool is_open(const struct tar *tar, const char *path)
{
  struct stat now;
  const struct stat *then = &tar->status;
  return tar->archive != NULL && strcmp(tar->path, path) == 0 && stat(path, &now) == 0 &&
         now.st_dev == then->st_dev && now.st_ino == then->st_ino && now.st_size == then->st_size &&
         now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == then->st_mtim.tv_nsec &&
         now.st_ctim.tv_sec == then->st_ctim.tv_sec && now.st_ctim.tv_nsec == then->st_ctim.tv_nsec;
}

/* Goes on in an archive that is open, and begins anew where the member is not behind. */
static bool seek_member(struct tar *tar, const char *path, const char *name)
{
  int result = ARCHIVE_EOF;
  bool found = is_open(tar, path) && find_member(tar, name, &result);
  if (found)
    return true;
  tar_close(tar);
  const char *why = is_loaded() ? open_archive(tar, path) : "there is no libarchive.so.13";
  if (why != NULL)
    return cannot_read(path, why);
  tar->found = find_member(tar, name, &result);
  return tar->found || result == ARCHIVE_EOF ||
         cannot_read(path, lib.archive_error_string(tar->archive));
}

/* Reads the beginning of the member, which tells whether it is compressed. */
static bool read_beginning(struct tar *tar, const char *path)
{
  char first[COMPRESSED_MAGIC];
  ssize_t part = 1;
  size_t got = 0;
  tar->got = tar->given = 0;
  while (part > 0 && got < sizeof first) {
    part = read_member(tar, first + got, sizeof first - got);
    got += part > 0 ? (size_t) part : 0;
  }
  memcpy(tar->first, first, got);
  tar->got = got;
  if (part < 0)
    return cannot_read(path, lib.archive_error_string(tar->archive));
  if (compressed_program(first, got) != NULL)
    return cannot_read(path, "it is compressed; unpack the archive");
  return true;
}

FILE *tar_open(struct tar *tar, const char *path, size_t part)
{
  char *archive = strndup(path, part);
  FILE *lines = NULL;
  if (archive == NULL)
    fail("out of memory");
  else if (seek_member(tar, archive, path + part + 1) && read_beginning(tar, path)) {
    lines = fopencookie(tar, "r", (cookie_io_functions_t){.read = read_member});
    if (lines == NULL)
      fail("out of memory");
  }
  free(archive);
  return lines;
}
#endif
