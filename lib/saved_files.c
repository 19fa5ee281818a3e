/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions that save filters to files, and load or map saved files.
 */
#include "base/cancel.h"
#include "base/file.h"
#include "base/saved.h"
#include "base/shared_file.h"
#include "kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- saving ---- */

static int save_file(const tamis_filter *f, const char *path, const tamis_file_access *access)
{
  struct new_file file;
  int result = tamis__file_begin(&file, path, FILE_OWNER_ONLY);
  if (result != TAMIS_OK)
    return result;
  result = tamis__file_give(file.fd, access);
  if (result == TAMIS_OK)
    result = tamis__save(f, tamis__file_write, &file);
  if (result == TAMIS_OK)
    result = tamis__file_commit(&file);
  if (result != TAMIS_OK)
    tamis__file_abandon(&file);
  return result;
}

int tamis_save_file_as(const tamis_filter *f, const char *path, const tamis_file_access *access)
{
  if (!f || !path || !file_access_is_valid(access))
    return TAMIS_EINVAL;
  return UNCANCELLED(save_file(f, path, access));
}

int tamis_save_file(const tamis_filter *f, const char *path)
{
  return tamis_save_file_as(f, path, NULL);
}

/* ---- loading ---- */

static int64_t read_from_file(void *fd, void *data, size_t size)
{
  ssize_t got;
  do
    got = read(*(const int *) fd, data, size);
  while (got < 0 && tamis__file_again(*(const int *) fd, POLLIN));
  return got;
}

/* Loads the file of a shared filter, which other processes might change during a load.  So this
 * function opens the filter, saves it to memory, and loads the saved copy. */
static int load_by_a_copy(const tamis_load_options *options, int fd, tamis_filter **out)
{
  tamis_filter *shared;
  struct shared_file copy;
  int result = tamis_open_shared_fd(NULL, fd, &shared);
  if (result != TAMIS_OK)
    return result;
  struct file_part to = {.file = &copy, .end = INT64_MAX}, from = to;
  struct saved_reader r = {.read = tamis__file_part_read, .context = &from};
  result = tamis__shared_file_in_memory(&copy);
  if (result == TAMIS_OK)
    result = tamis__save(shared, tamis__file_part_write, &to);
  tamis_destroy(shared);
  from.end = to.at;
  if (result == TAMIS_OK)
    result = tamis__load(options, &r, out);
  tamis__shared_file_close(&copy);
  return result;
}

static int load_open_file(const tamis_load_options *options, int fd, tamis_filter **out)
{
  struct saved_reader r = {.read = read_from_file, .context = &fd};
  int result = tamis__load(options, &r, out);
  if (result == TAMIS_EUNSUPPORTED && r.live)
    return load_by_a_copy(options, fd, out);
  char more;
  int64_t follows = result == TAMIS_OK && !r.live ? read_from_file(&fd, &more, 1) : 0;
  return follows ? follows < 0 ? TAMIS_EIO : TAMIS_ECORRUPT : result;
}

/* Returns the size in bytes.  For anything but a regular file, returns -1 and sets errno. */
static int64_t size_of(int fd)
{
  struct stat status;
  if (fstat(fd, &status))
    return -1;
  errno = ENODEV; /* as mmap() sets errno for a folder */
  return S_ISREG(status.st_mode) ? status.st_size : -1;
}

/* Replaces *mapping, the mapping of a packed file, by a mapping of the unpacked bytes. */
static int unpack_mapping(int fd, void **mapping, int64_t *size)
{
  const struct shared_file file = {.fd = fd};
  struct file_part from = {&file, sizeof SAVED_PACKED - 1, (uint64_t) *size};
  struct saved_reader r = {.read = tamis__file_part_read, .context = &from, .packed = true};
  unsigned char *to =
      mmap(NULL, SAVED_PACKED_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (to == MAP_FAILED)
    return TAMIS_ENOMEM;
  int result = TAMIS_OK;
  while (result == TAMIS_OK && (from.at < from.end || r.run))
    result = tamis__saved_read_bytes(&r, to + r.at, r.run ? r.run : 1);
  if (result != TAMIS_OK) {
    munmap(to, SAVED_PACKED_MOST);
    return result;
  }
  (void) mremap(to, SAVED_PACKED_MOST, (size_t) r.at, 0);
  (void) mprotect(to, (size_t) r.at, PROT_READ);
  munmap(*mapping, (size_t) *size);
  *mapping = to;
  *size = (int64_t) r.at;
  return TAMIS_OK;
}

static int map_open_file(const tamis_load_options *options, int fd, tamis_filter **out)
{
  int64_t size = size_of(fd);
  if (SAVED_SWAPPED)
    return TAMIS_EUNSUPPORTED;
  if (size <= 0)
    return size ? TAMIS_EIO : TAMIS_ECORRUPT;
  void *mapping = mmap(NULL, (size_t) size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED)
    return errno == ENOMEM ? TAMIS_ENOMEM : TAMIS_EIO;
  int result = TAMIS_OK;
  if (size > 8 && memcmp(mapping, SAVED_PACKED, 8) == 0)
    result = unpack_mapping(fd, &mapping, &size);
  struct saved_reader r = {
      .mapping = mapping, .mapping_size = (uint64_t) size, .check_all = options->check_all};
  if (result == TAMIS_OK)
    result = tamis__load(options, &r, out);
  if (result != TAMIS_OK)
    munmap(mapping, (size_t) size);
  else if (r.at != r.mapping_size && !r.live)
    result = TAMIS_ECORRUPT; /* the caller destroys the filter, which owns the mapping */
  return result;
}

static int with_file(const tamis_load_options *options, const char *path, tamis_filter **out,
                     int (*do_it)(const tamis_load_options *, int, tamis_filter **))
{
  const int flag = do_it == map_open_file ? O_NONBLOCK : 0; /* a pipe cannot be mapped */
  const int fd =
      tamis__file_above_standard(UNINTERRUPTED(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flag)));
  if (fd < 0)
    return TAMIS_EIO;
  int result = do_it(options, fd, out), error = errno;
  if (result != TAMIS_OK) {
    tamis_destroy(*out); /* *out is NULL, or a filter after which the file has more bytes */
    *out = NULL;
  }
  close(fd);
  errno = error;
  return result;
}

static int open_file(const tamis_load_options *options, const char *path, tamis_filter **out,
                     int (*do_it)(const tamis_load_options *, int, tamis_filter **))
{
  tamis_load_options known;
  int result = tamis__begin_load(options, path, out, &known);
  if (result != TAMIS_OK)
    return result;
  return UNCANCELLED(with_file(&known, path, out, do_it));
}

int tamis_load_file(const tamis_load_options *options, const char *path, tamis_filter **out)
{
  return open_file(options, path, out, load_open_file);
}

int tamis_map_file(const tamis_load_options *options, const char *path, tamis_filter **out)
{
  return open_file(options, path, out, map_open_file);
}
