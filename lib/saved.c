/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions that save, load and map filters.
 *
 * Cancellation is disabled in all of each: the functions of the user and the system calls may be
 * cancellation points.
 */
#include "base/saved.h"

#include "base/cancel.h"
#include "base/file.h"
#include "base/shared_file.h"
#include "kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As for the structs of tamis.c. */
enum { FIRST_LOAD_OPTIONS_SIZE = offsetof(tamis_load_options, cleared_from) + sizeof(size_t) };

void tamis_load_options_init(tamis_load_options *options)
{
  const tamis_load_options initial = TAMIS_LOAD_OPTIONS_INIT;
  if (!options)
    return;
  memcpy(options, &initial, FIRST_LOAD_OPTIONS_SIZE);
  options->struct_size = FIRST_LOAD_OPTIONS_SIZE;
}

/* ---- loading ---- */

/* Copies the options, as far as both the program and this library know them. */
static int read_options(const tamis_load_options *o, tamis_load_options *known)
{
  *known = (tamis_load_options) TAMIS_LOAD_OPTIONS_INIT;
  if (!o)
    return TAMIS_OK;
  size_t size = o->struct_size;
  if (size < FIRST_LOAD_OPTIONS_SIZE || size > ABSURD_SIZE)
    return TAMIS_EINVAL;
  for (size_t i = sizeof *known; i < size; i++)
    if (((const unsigned char *) o)[i])
      return TAMIS_EUNSUPPORTED;
  memcpy(known, o, size < sizeof *known ? size : sizeof *known);
  return good_allocator(known->allocator) ? TAMIS_OK : TAMIS_EINVAL;
}

/* Whether the hash function is that of the saved filter. */
static int check_hash(const struct saved_head *saved, const struct tamis_filter *head)
{
  if (saved->own_hash != filter_has_own_hash(head))
    return TAMIS_EINVAL;
  if (filter_probe(head) == saved->probe)
    return TAMIS_OK;
  return saved->own_hash ? TAMIS_EINVAL : TAMIS_ECORRUPT;
}

/* One that has no windows does not know the feature. */
const struct filter_kind *tamis__kind_of_saved(const struct saved_head *saved)
{
  const struct filter_kind *kind = NULL;
  if (saved->features & SAVED_WINDOW)
    kind = tamis__find_kind(saved->options.kind, true);
  return kind ? kind : tamis__find_kind(saved->options.kind, false);
}

/* The bytes of a filter, and nothing after them.  The kind releases what it holds after an
 * error. */
static int load_from(struct saved_reader *r, const tamis_load_options *options, tamis_filter **out)
{
  struct saved_head saved;
  int result = tamis__saved_read_header(r, &saved);
  if (result != TAMIS_OK)
    return result;
  const struct filter_kind *kind = tamis__kind_of_saved(&saved);
  if (!kind)
    return TAMIS_ECORRUPT;
  if (!kind->load || saved.features & ~kind->features)
    return TAMIS_EUNSUPPORTED;
  const struct filter_more more = {
      .allocator = r->allocator, .hash = options->hash, .hash_context = options->hash_context};
  struct tamis_filter head = {.keys = hash_keys_from_seed(saved.options.seed)};
  filter_set_more(&head, &more);
  result = check_hash(&saved, &head);
  if (result != TAMIS_OK)
    return result;
  saved.limit = options->max_bytes;
  saved.options.cleared_from = options->allocator ? options->cleared_from : 0;
  if (saved.limit)
    saved.options.max_bytes = saved.limit;
  return kind->load(r, &saved, &head, out);
}

static int load(const tamis_load_options *options, struct saved_reader *r, tamis_filter **out)
{
  if (options->allocator)
    r->allocator = *options->allocator;
  int result = load_from(r, options, out);
  tamis__saved_close(r);
  return result;
}

/* ---- saving ---- */

/* Figures of the filter, but only such as are the same on every machine: see saved.h. */
static void add_figures(const tamis_filter *f, struct saved_head *head)
{
  tamis_stats *s = &head->figures;
  uint64_t bytes = s->bytes;
  tamis__fill_stats(f, s);
  s->bytes = bytes;
  s->fpp_estimate = (float) s->fpp_estimate;
  if (operations_of(f)->kind->figures)
    s->load = s->fpp_estimate = s->estimated_count = s->occupancy = 0;
}

/* A file that was mapped without a look at its bits is checked before these get sums of their own,
 * with which they would pass for whole ones: it is mapped once more, where it already lies. */
static int check_mapping(const tamis_filter *f)
{
  const struct saved_mapping mapping = operations_of(f)->kind->mapping(f);
  if (mapping.checked)
    return TAMIS_OK;
  struct saved_reader r = {
      .mapping = mapping.at, .mapping_size = mapping.size, .check_all = true, .borrowed = true};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = filter_allocator(f);
  if (filter_has_own_hash(f)) {
    options.hash = filter_own_more(f)->hash;
    options.hash_context = filter_own_more(f)->hash_context;
  }
  tamis_filter *checked;
  int result = load(&options, &r, &checked);
  if (result == TAMIS_OK)
    tamis_destroy(checked);
  return result;
}

static int save(const tamis_filter *f, tamis_write_function write, void *context)
{
  const struct filter_kind *kind = operations_of(f)->kind;
  if (!kind->save)
    return TAMIS_EUNSUPPORTED;
  int result = operations_of(f)->read_only ? check_mapping(f) : TAMIS_OK;
  if (result != TAMIS_OK)
    return result;
  struct saved_head head = {.own_hash = filter_has_own_hash(f), .probe = filter_probe(f)};
  kind->describe(f, &head);
  head.options.kind = kind->kind;
  head.options.seed = f->keys.seed;
  add_figures(f, &head);
  struct saved_writer w = {.write = write, .context = context, .allocator = *filter_allocator(f)};
  tamis__saved_begin(&w, &head);
  if (w.result == TAMIS_OK)
    w.result = kind->save(f, &w);
  return tamis__saved_end(&w);
}

int tamis_save(const tamis_filter *f, tamis_write_function write, void *context)
{
  if (!f || !write)
    return TAMIS_EINVAL;
  int cancellation = cancellation_disable();
  int result = save(f, write, context);
  cancellation_restore(cancellation);
  return result;
}

static int write_to_file(void *file, const void *data, size_t size)
{
  return tamis__file_write(file, data, size);
}

static int save_file(const tamis_filter *f, const char *path)
{
  struct new_file file;
  int result = tamis__file_begin(&file, path, FILE_OWNER_ONLY);
  if (result != TAMIS_OK)
    return result;
  result = save(f, write_to_file, &file);
  if (result == TAMIS_OK)
    result = tamis__file_commit(&file);
  if (result != TAMIS_OK)
    tamis__file_abandon(&file);
  return result;
}

int tamis_save_file(const tamis_filter *f, const char *path)
{
  if (!f || !path)
    return TAMIS_EINVAL;
  int cancellation = cancellation_disable();
  int result = save_file(f, path);
  cancellation_restore(cancellation);
  return result;
}

/* ---- the calls that load ---- */

int tamis_load(const tamis_load_options *options, tamis_read_function read, void *context,
               tamis_filter **out)
{
  tamis_load_options known;
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  int result = read ? read_options(options, &known) : TAMIS_EINVAL;
  if (result != TAMIS_OK)
    return result;
  struct saved_reader r = {.read = read, .context = context};
  int cancellation = cancellation_disable();
  result = load(&known, &r, out);
  cancellation_restore(cancellation);
  return result;
}

static int read_info(struct saved_reader *r, struct saved_head *saved)
{
  int result = tamis__saved_read_header(r, saved);
  if (result != TAMIS_OK)
    return result;
  const struct filter_kind *kind = tamis__kind_of_saved(saved);
  if (!kind)
    return TAMIS_ECORRUPT;
  if (saved->features & ~kind->features)
    return TAMIS_EUNSUPPORTED;
  if (saved->features & SAVED_LIVE && (result = kind->live_figures(r, saved)) != TAMIS_OK)
    return result;
  if (kind->figures)
    kind->figures(saved, &saved->figures);
  if (kind->bytes_beside)
    saved->figures.bytes += kind->bytes_beside(saved);
  return TAMIS_OK;
}

int tamis_saved_info(tamis_read_function read, void *context, tamis_stats *out)
{
  if (!read || !out || out->struct_size < FIRST_STATS_SIZE)
    return TAMIS_EINVAL;
  struct saved_head saved;
  struct saved_reader r = {.read = read, .context = context};
  int cancellation = cancellation_disable();
  int result = read_info(&r, &saved);
  tamis__saved_close(&r);
  cancellation_restore(cancellation);
  if (result == TAMIS_OK)
    tamis__give_stats(&saved.figures, out);
  return result;
}

/* ---- files ---- */

static int64_t read_from_file(void *fd, void *data, size_t size)
{
  ssize_t got;
  do
    got = read(*(const int *) fd, data, size);
  while (got < 0 && tamis__file_again(*(const int *) fd, POLLIN));
  return got;
}

/* A filter that processes share, and that cannot be read byte by byte while they change it: it is
 * opened, and saved to memory. */
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
    result = save(shared, tamis__file_part_write, &to);
  tamis_destroy(shared);
  from.end = to.at;
  if (result == TAMIS_OK)
    result = load(options, &r, out);
  tamis__shared_file_close(&copy);
  return result;
}

static int load_open_file(const tamis_load_options *options, int fd, tamis_filter **out)
{
  struct saved_reader r = {.read = read_from_file, .context = &fd};
  int result = load(options, &r, out);
  if (result == TAMIS_EUNSUPPORTED && r.live)
    return load_by_a_copy(options, fd, out);
  char more;
  int64_t follows = result == TAMIS_OK && !r.live ? read_from_file(&fd, &more, 1) : 0;
  return follows ? follows < 0 ? TAMIS_EIO : TAMIS_ECORRUPT : result;
}

/* The size of a regular file; -1: it is none. */
static int64_t size_of(int fd)
{
  struct stat status;
  if (fstat(fd, &status))
    return -1;
  errno = ENODEV; /* as mmap() says it */
  return S_ISREG(status.st_mode) ? status.st_size : -1;
}

static int map_open_file(const tamis_load_options *options, int fd, tamis_filter **out)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  (void) options, (void) fd, (void) out;
  return TAMIS_EUNSUPPORTED;
#else
  int64_t size = size_of(fd);
  if (size <= 0)
    return size ? TAMIS_EIO : TAMIS_ECORRUPT;
  void *mapping = mmap(NULL, (size_t) size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED)
    return errno == ENOMEM ? TAMIS_ENOMEM : TAMIS_EIO;
  struct saved_reader r = {
      .mapping = mapping, .mapping_size = (uint64_t) size, .check_all = options->check_all};
  int result = load(options, &r, out);
  if (result != TAMIS_OK)
    munmap(mapping, (size_t) size);
  else if (r.at != r.mapping_size && !r.live)
    result = TAMIS_ECORRUPT; /* the filter has the mapping now */
  return result;
#endif
}

static int with_file(const tamis_load_options *options, const char *path, tamis_filter **out,
                     int (*do_it)(const tamis_load_options *, int, tamis_filter **))
{
  int fd;
  do
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  while (fd < 0 && errno == EINTR);
  if (fd < 0)
    return TAMIS_EIO;
  int result = do_it(options, fd, out), error = errno;
  if (result != TAMIS_OK) {
    tamis_destroy(*out); /* something follows the filter */
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
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  int result = path ? read_options(options, &known) : TAMIS_EINVAL;
  if (result != TAMIS_OK)
    return result;
  int cancellation = cancellation_disable();
  result = with_file(&known, path, out, do_it);
  cancellation_restore(cancellation);
  return result;
}

int tamis_load_file(const tamis_load_options *options, const char *path, tamis_filter **out)
{
  return open_file(options, path, out, load_open_file);
}

int tamis_map_file(const tamis_load_options *options, const char *path, tamis_filter **out)
{
  return open_file(options, path, out, map_open_file);
}
