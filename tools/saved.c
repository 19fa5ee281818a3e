/* SPDX-License-Identifier: MIT */
#include "saved.h"

#include "commands.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_standard(const char *path)
{
  return strcmp(path, "-") == 0;
}

/* Directories can be opened, but not read. */
static int open_saved(const char *path)
{
  if (is_standard(path))
    return STDIN_FILENO;
  return (int) TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

static void close_saved(const char *path, int fd)
{
  int error = errno;
  if (fd >= 0 && !is_standard(path))
    close(fd);
  errno = error;
}

static int64_t read_bytes(void *context, void *data, size_t size)
{
  return TEMP_FAILURE_RETRY(read(*(const int *) context, data, size));
}

/* What can be read only once is not read again to say how large the filter is. */
static void fail_to_fit(const char *path, const char *name)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  int fd = is_standard(path) ? -1 : open_saved(path);
  if (fd >= 0 && tamis_saved_info(read_bytes, &fd, &stats) == TAMIS_OK)
    fail("the filter in '%s' takes more than --memory allows; --memory %" PRIu64 " is enough", name,
         stats.bytes);
  else
    fail("the filter in '%s' takes more than --memory allows", name);
  close_saved(path, fd);
}

/* Says why the file cannot be used.  `begun`: its beginning is that of a saved filter. */
static void fail_to_read(const char *path, int result, bool begun)
{
  const char *name = is_standard(path) ? "standard input" : path;
  int error = errno;
  set_failure_status(EXIT_UNUSABLE);
  switch (result) {
  case TAMIS_EIO:
    fail("cannot read '%s': %s", name, strerror(error));
    return;
  case TAMIS_ECORRUPT:
    fail(begun ? "'%s' is damaged, or not complete" : "'%s' is not a saved filter, or is damaged",
         name);
    return;
  case TAMIS_EUNSUPPORTED:
    fail("'%s' needs a later version of tamis", name);
    return;
  case TAMIS_EINVAL:
    fail("'%s' was saved by a program with a hash function of its own", name);
    return;
  case TAMIS_EFULL:
    fail_to_fit(path, name);
    return;
  default:
    fail("cannot load '%s': %s", name, tamis_strerror(result));
  }
}

bool saved_describe(const char *path, tamis_stats *stats)
{
  int fd = open_saved(path);
  int result = fd < 0 ? TAMIS_EIO : tamis_saved_info(read_bytes, &fd, stats);
  close_saved(path, fd);
  if (result != TAMIS_OK)
    fail_to_read(path, result, false);
  return result == TAMIS_OK;
}

/* Whether the file begins with the header of a saved filter.  What is not a file is not read
 * twice. */
static bool is_begun(const char *path)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  struct stat status;
  if (is_standard(path) || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  int error = errno, fd = open_saved(path);
  bool begun = fd >= 0 && tamis_saved_info(read_bytes, &fd, &stats) == TAMIS_OK;
  close_saved(path, fd);
  errno = error;
  return begun;
}

/* Numbers of the header, and the bit of the required features that says that processes share the filter:
 * docs/reference/format.md. */
enum {
  PACKED_AT = 6, /* where a packed file has PACKED: a small filter without its zeros */
  PACKED = 'p',
  VERSION_AT = 8,
  FEATURES_AT = 16,
  HASH_AT = 36,
  GROWABLE_AT = 44,
  MAX_BYTES_AT = 80,
  STRIPES_AT = 88,
  HEADER_USED = 92,
  LIVE = 4
};

struct stream {
  int fd;
  size_t at;
  bool packed;
  unsigned char features; /* the lowest byte */
};

static int64_t read_stream(void *context, void *data, size_t size)
{
  struct stream *stream = context;
  int64_t got = read_bytes(&stream->fd, data, size);
  if (stream->at <= PACKED_AT && got > PACKED_AT - (int64_t) stream->at)
    stream->packed = ((unsigned char *) data)[PACKED_AT - stream->at] == PACKED;
  if (!stream->packed && got > 0 && stream->at <= FEATURES_AT &&
      FEATURES_AT - stream->at < (size_t) got)
    stream->features = ((unsigned char *) data)[FEATURES_AT - stream->at];
  stream->at += got > 0 ? (size_t) got : 0;
  return got;
}

/* As tamis_load_file: nothing may follow the filter, but in a file that processes share. */
static int load_standard_input(const tamis_load_options *options, tamis_filter **filter)
{
  struct stream stream = {.fd = STDIN_FILENO};
  int result = tamis_load(options, read_stream, &stream, filter);
  char more;
  bool ends = result == TAMIS_OK && (stream.features & LIVE) == 0;
  int64_t follows = ends ? read_bytes(&stream.fd, &more, 1) : 0;
  if (follows == 0)
    return result;
  tamis_destroy(*filter);
  *filter = NULL;
  return follows < 0 ? TAMIS_EIO : TAMIS_ECORRUPT;
}

static tamis_filter *load(const char *path, const tamis_load_options *options)
{
  tamis_filter *filter;
  int result = is_standard(path) ? load_standard_input(options, &filter)
                                 : tamis_load_file(options, path, &filter);
  if (is_standard(path) && result == TAMIS_EUNSUPPORTED) {
    set_failure_status(EXIT_UNUSABLE);
    fail(
        "standard input needs a later version of tamis, or is a window that processes share, which "
        "must be a file");
  } else if (result != TAMIS_OK)
    fail_to_read(path, result, result == TAMIS_ECORRUPT && is_begun(path));
  return filter; /* NULL after an error */
}

tamis_filter *saved_load(const char *path, uint64_t max_bytes)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.max_bytes = max_bytes;
  return load(path, &options);
}

/* A cuckoo filter that grows cannot be mapped, and some file systems map no files. */
static int map_or_load(const char *path, const tamis_load_options *options, tamis_filter **filter)
{
  int result = tamis_map_file(options, path, filter);
  if (result == TAMIS_EUNSUPPORTED || (result == TAMIS_EIO && errno == ENODEV))
    return tamis_load_file(options, path, filter);
  return result;
}

tamis_filter *saved_map(const char *path, bool check_all)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *filter;
  struct stat status;
  options.check_all = check_all;
  if (is_standard(path) || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
    return load(path, &options);
  int result = map_or_load(path, &options, &filter);
  if (result != TAMIS_OK)
    fail_to_read(path, result, result == TAMIS_ECORRUPT && is_begun(path));
  return filter;
}

static void end_by_lost_file(int number)
{
  static const char text[] = "tamis: a file in use was made shorter, or cannot be read\n";
  (void) number;
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
    _exit(EXIT_UNUSABLE);
  _exit(EXIT_UNUSABLE);
}

void saved_watch_files(void)
{
  signal(SIGBUS, end_by_lost_file);
}

bool saved_is_live(const char *path)
{
  struct stat status;
  if (is_standard(path) || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  int fd = open_saved(path);
  unsigned char head[FEATURES_AT + 1];
  bool read = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head;
  close_saved(path, fd);
  return read && head[PACKED_AT] != PACKED && (head[FEATURES_AT] & LIVE) != 0;
}

static uint64_t number_at(const unsigned char *header, size_t at, size_t size)
{
  uint64_t number = 0;
  for (size_t i = size; i > 0; i--)
    number = number << 8 | header[at + i - 1];
  return number;
}

/* The first bytes of a filter, of a packed file unpacked: how many there are. */
static size_t read_head(int fd, unsigned char *head, size_t size)
{
  unsigned char packed[2 * HEADER_USED + 16];
  const ssize_t got = pread(fd, packed, sizeof packed, 0);
  size_t done = 0;
  if (got <= 8 || packed[PACKED_AT] != PACKED) {
    memcpy(head, packed, got > 0 && (size_t) got < size ? (size_t) got : size);
    return got > 0 ? (size_t) got : 0;
  }
  for (const unsigned char *from = packed + 8; done < size && from + 1 < packed + got;) {
    const bool zeros = *from >= 128;
    size_t run = 1 + (zeros ? (size_t) (from[0] & 127) << 8 | from[1] : from[0]);
    from += zeros ? 2 : 1;
    for (; run > 0 && done < size && (zeros || from < packed + got); run--)
      head[done++] = zeros ? 0 : *from++;
    from += zeros ? 0 : run;
  }
  return done;
}

static void examine_header(int fd, struct saved_report *report)
{
  static const unsigned char magic[8] = "\x89TAMIS\r\n";
  unsigned char header[HEADER_USED];
  if (read_head(fd, header, sizeof header) < sizeof header ||
      memcmp(header, magic, sizeof magic) != 0)
    return;
  report->magic = true;
  report->version = (uint32_t) number_at(header, VERSION_AT, 4);
  report->features = number_at(header, FEATURES_AT, 8);
  report->hash = (uint32_t) number_at(header, HASH_AT, 4);
  report->growable = (uint32_t) number_at(header, GROWABLE_AT, 4);
  report->max_bytes = number_at(header, MAX_BYTES_AT, 8);
  report->stripes = (uint32_t) number_at(header, STRIPES_AT, 4);
}

void saved_examine(const char *path, tamis_stats *stats, struct saved_report *report)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *filter = NULL;
  options.check_all = true;
  *report = (struct saved_report){0};
  struct stat status;
  bool other = stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  int fd = other ? -1 : open_saved(path);
  errno = other ? ESPIPE : errno; /* it could be read once only, or might wait */
  report->described = fd < 0 ? TAMIS_EIO : tamis_saved_info(read_bytes, &fd, stats);
  report->checked = report->described;
  report->error = errno;
  if (fd >= 0)
    examine_header(fd, report);
  close_saved(path, fd);
  if (report->described != TAMIS_OK)
    return;
  report->checked = map_or_load(path, &options, &filter);
  report->error = errno;
  tamis_destroy(filter);
}

static int write_bytes(void *context, const void *data, size_t size)
{
  return output_write_bytes(context, data, size) ? 0 : -1;
}

bool saved_write(struct output *output, const tamis_filter *filter)
{
  int result = tamis_save(filter, write_bytes, output);
  if (result == TAMIS_EIO)
    return output_failed(output);
  if (result != TAMIS_OK)
    fail("cannot save a filter to '%s': %s", output->name, tamis_strerror(result));
  return result == TAMIS_OK;
}
