/* SPDX-License-Identifier: MIT */
#include "replace.h"

#include "interrupt.h"
#include "mount.h"

#include "tamis/tamis.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

/* The length of the folder in `path`, with its slash; 0 if there is none. */
static int folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : (int) (slash - path) + 1;
}

char *folder_of(const char *path)
{
  int length = folder_length(path);
  return length == 0 ? strdup(".") : strndup(path, (size_t) length);
}

bool is_same_file(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool leads_to(const char *path, int fd)
{
  struct stat named, held;
  return stat(path, &named) == 0 && fstat(fd, &held) == 0 && is_same_file(&named, &held);
}

/* Links under /proc stand for open files, whatever name they show. */
static bool is_in_proc(const char *path)
{
  struct statfs system;
  char *folder = folder_of(path);
  bool found = folder != NULL && statfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  free(folder);
  return found;
}

/* Where the symbolic link leads, relative to the current folder; NULL with errno set, EINVAL if it
 * is no link. */
static char *follow(const char *link)
{
  char text[PATH_MAX], *path;
  ssize_t length = readlink(link, text, sizeof text);
  if (length < 0)
    return NULL;
  if (asprintf(&path, "%.*s%.*s", text[0] == '/' ? 0 : folder_length(link), link, (int) length,
               text) < 0)
    return NULL;
  return path;
}

/* Replaces r->path by the name behind all symbolic links.  False: one of them is under /proc, or
 * cannot be followed. */
static bool resolve(struct replacement *r)
{
  for (int links = 0; links < MAX_LINKS; links++) {
    char *next = follow(r->path);
    if (next == NULL)
      return errno == EINVAL || errno == ENOENT;
    if (is_in_proc(r->path)) {
      free(next);
      return false;
    }
    free(r->path);
    r->path = next;
  }
  return false;
}

/* In a folder with the sticky bit, only the owner of a file or of the folder may rename over it. */
static bool is_protected(const char *path, const struct stat *old)
{
  struct stat folder;
  char *name = folder_of(path);
  uid_t user = geteuid();
  bool found = name != NULL && stat(name, &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
               user != 0 && user != old->st_uid && user != folder.st_uid;
  free(name);
  return found;
}

bool replace_possible(struct replacement *r, const char *path, const struct stat *old)
{
  r->path = strdup(path);
  r->begun = false;
  if (r->path == NULL || (old != NULL && !S_ISREG(old->st_mode)) || !resolve(r) ||
      r->path[folder_length(r->path)] == '\0')
    return false;
  return old == NULL || (faccessat(AT_FDCWD, r->path, W_OK, AT_EACCESS) == 0 &&
                         !is_mount_point(r->path) && !is_protected(r->path, old));
}

/* Whether the name that the path leads to is that of the file with `more` behind it, and in the same folder. */
static bool is_name_with(const struct replacement *r, const char *more, const char *path)
{
  struct replacement other = {.path = strdup(path)};
  struct stat folder, other_folder;
  if (other.path == NULL || !resolve(&other)) {
    free(other.path);
    return false;
  }
  char *name = folder_of(r->path), *other_name = folder_of(other.path);
  const char *own = r->path + folder_length(r->path),
             *others = other.path + folder_length(other.path);
  const size_t kept = strnlen(own, *more == '\0' ? PATH_MAX : FILE_NAME_KEPT);
  bool same = name != NULL && other_name != NULL && strncmp(own, others, kept) == 0 &&
              strncmp(others + kept, more, strlen(more) + (*more == '\0')) == 0 &&
              stat(name, &folder) == 0 && stat(other_name, &other_folder) == 0 &&
              is_same_file(&folder, &other_folder);
  free(name);
  free(other_name);
  free(other.path);
  return same;
}

bool replace_is_name(const struct replacement *r, const char *path)
{
  return is_name_with(r, "", path);
}

bool replace_is_unfinished(const struct replacement *r, const char *path)
{
  return is_name_with(r, ".tamis-unfinished-", path);
}

/* If the owner or the group cannot be kept, another one gets no rights that were theirs. */
static void keep_mode(int fd, const struct stat *old)
{
  struct stat fresh;
  mode_t mode = old->st_mode & 07777;
  if (fstat(fd, &fresh) != 0)
    return;
  if (fresh.st_uid != old->st_uid && fchown(fd, old->st_uid, (gid_t) -1) != 0)
    mode &= ~(mode_t) S_ISUID;
  if (fresh.st_gid != old->st_gid && fchown(fd, (uid_t) -1, old->st_gid) != 0)
    mode &= ~(mode_t) (S_ISGID | S_IRWXG);
  if (fresh.st_mode % 010000 != mode)
    (void) fchmod(fd, mode);
}

int replace_open(struct replacement *r, const struct stat *old, mode_t mode, bool closed)
{
  sigset_t before;
  interrupt_hold(&before);
  /* Until it has the old one's mode, nobody else may open it. */
  r->begun =
      tamis__file_begin(&r->file, r->path, old || closed ? FILE_OWNER_ONLY : mode) == TAMIS_OK;
  int fd = r->begun ? r->file.fd : -1, error = errno;
  if (r->begun)
    interrupt_set_file(&r->file);
  interrupt_restore(&before);
  r->file.fd = -1; /* the caller's */
  if (fd >= 0 && old != NULL && !closed)
    keep_mode(fd, old);
  errno = error;
  return fd;
}

bool replace_commit(struct replacement *r, bool durable)
{
  sigset_t before;
  interrupt_hold(&before);
  int result = tamis__file_take_name(&r->file), error = errno;
  interrupt_restore(&before);
  errno = error;
  return result == TAMIS_OK && (!durable || tamis__file_sync_name(&r->file) == TAMIS_OK);
}

void replace_end(struct replacement *r)
{
  sigset_t before;
  interrupt_hold(&before);
  if (r->begun)
    tamis__file_abandon(&r->file);
  interrupt_set_file(NULL);
  interrupt_restore(&before);
  free(r->path);
  r->path = NULL;
  r->begun = false;
}
