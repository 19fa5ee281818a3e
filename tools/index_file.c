/* SPDX-License-Identifier: MIT */
#include "index_file.h"

#include "bytes.h"
#include "commands.h"
#include "replace.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[] = "tamis index\n";
enum {
  MAGIC = sizeof magic - 1,
  FIRST = MAGIC + 3 * NUMBER, /* bytes before the first part */
  PART_FIRST = 2 * NUMBER,    /* bytes before the head of a part */
  ENTRY_NUMBERS = 7,          /* of an entry, beside its name */
  VERSION = 2
};

static bool unusable(const char *path, const char *why)
{
  set_failure_status(EXIT_UNUSABLE);
  fail("'%s' %s", path, why);
  return false;
}

static bool cannot_read(const char *path, int error)
{
  set_failure_status(EXIT_UNUSABLE);
  fail("cannot read '%s': %s", path, strerror(error));
  return false;
}

static bool read_at(int fd, void *data, uint64_t size, uint64_t at)
{
  ssize_t part = 1;
  for (uint64_t got = 0; got < size && part > 0; got += part > 0 ? (uint64_t) part : 0)
    part = TEMP_FAILURE_RETRY(
        pread(fd, (char *) data + got, (size_t) (size - got), (off_t) (at + got)));
  return part > 0;
}

/* ---- opening ---- */

bool index_open(struct index_file *index, const char *path)
{
  struct stat status;
  *index = (struct index_file){.fd = -1};
  index->fd = (int) TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (index->fd < 0 || fstat(index->fd, &status) != 0)
    return cannot_read(path, errno);
  return S_ISREG(status.st_mode) || cannot_read(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
}

static int open_folder_of(const char *path)
{
  char *folder = folder_of(path);
  int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(folder);
  return fd;
}

/* Whether the path still leads to the open file; or if none did, that is still so. */
static bool is_current(int fd, const char *path, bool exists)
{
  struct stat named;
  return exists ? leads_to(path, fd) : stat(path, &named) != 0;
}

/* A file that does not exist yet is locked by its folder.  Where there are no locks, it goes without. */
bool index_open_alone(struct index_file *index, const char *path, bool *exists)
{
  struct stat status;
  *index = (struct index_file){.fd = -1};
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return cannot_read(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  for (;;) {
    int fd = (int) TEMP_FAILURE_RETRY(open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    *exists = fd >= 0 || errno != ENOENT;
    if (!*exists)
      fd = open_folder_of(path);
    if (fd < 0) {
      fail("cannot write '%s': %s", path, strerror(errno));
      return false;
    }
    (void) TEMP_FAILURE_RETRY(flock(fd, LOCK_EX));
    if (is_current(fd, path, *exists)) {
      index->fd = fd;
      return true;
    }
    close(fd);
  }
}

/* ---- reading ---- */

struct index_entry *index_append(struct index_file *index, const char *path)
{
  if (index->count == index->room) {
    size_t room = 2 * index->room + 16;
    struct index_entry *grown = reallocarray(index->entries, room, sizeof *grown);
    if (grown == NULL) {
      fail("out of memory");
      return NULL;
    }
    index->entries = grown;
    index->room = room;
  }
  char *copy = strdup(path);
  if (copy == NULL) {
    fail("out of memory");
    return NULL;
  }
  index->entries[index->count] = (struct index_entry){.path = copy, .stale = true, .fresh = true};
  return &index->entries[index->count++];
}

/* The filters of entries that come. */
struct filters {
  uint64_t at, left; /* where the next one is in the file, and the bytes of all */
};

/* What an entry takes in a head and a filter. */
static uint64_t entry_bytes(const struct index_entry *entry)
{
  return ENTRY_NUMBERS * NUMBER + strlen(entry->path) + entry->filter_bytes;
}

/* The entry of this number, which is a new one or takes the place of another. */
static struct index_entry *place_entry(struct index_file *index, uint64_t number, const char *path)
{
  if (number >= index->count)
    return number == index->count ? index_append(index, path) : NULL;
  struct index_entry *entry = &index->entries[number];
  index->dead += entry_bytes(entry);
  return strcmp(entry->path, path) == 0 ? entry : NULL;
}

/* Filters stand one after the other, so all together take no more bytes than the file. */
static void read_entry(struct index_file *index, struct cursor *c, struct filters *filters,
                       bool first)
{
  uint64_t number = first ? index->count : get64(c);
  char *path = get_text(c);
  struct stamp stamp;
  stamp.inode = get64(c);
  stamp.bytes = get64(c);
  stamp.modified = (int64_t) get64(c);
  stamp.changed = (int64_t) get64(c);
  uint64_t keys = get64(c);
  uint64_t size = get64(c);
  c->wrong |= size > filters->left;
  struct index_entry *entry = c->wrong || path == NULL ? NULL : place_entry(index, number, path);
  if (entry != NULL) {
    *entry = (struct index_entry){
        .path = entry->path, .stamp = stamp, .keys = keys, .filter_bytes = size, .at = filters->at};
    filters->left -= size, filters->at += size;
  }
  c->wrong |= entry == NULL;
  free(path);
}

/* A number that tells all of a rule but its field and its expression. */
enum { RULE_CRLF = 1 << 8, RULE_IGNORE_CASE = 1 << 9, RULE_DELIMITED = 1 << 10, RULE_SHIFT = 16 };

static uint64_t rule_number(const struct key_rule *rule)
{
  return (uint64_t) rule->mode | (rule->crlf ? RULE_CRLF : 0) |
         (rule->ignore_case ? RULE_IGNORE_CASE : 0) | (rule->delimited ? RULE_DELIMITED : 0) |
         (uint64_t) (unsigned char) rule->delimiter << RULE_SHIFT;
}

/* False: no rule has this number. */
static bool set_rule(struct key_rule *rule, uint64_t number)
{
  uint64_t mode = number & 0xff;
  *rule = (struct key_rule){.mode = mode < KEY_MODES ? (enum key_mode) mode : KEY_LINE,
                            .crlf = (number & RULE_CRLF) != 0,
                            .ignore_case = (number & RULE_IGNORE_CASE) != 0,
                            .delimited = (number & RULE_DELIMITED) != 0,
                            .delimiter = (char) (unsigned char) (number >> RULE_SHIFT)};
  return rule_number(rule) == number;
}

static void read_rule(struct index_file *index, struct cursor *c)
{
  c->wrong |= !set_rule(&index->rule, get64(c));
  index->rule.field = get64(c);
  index->rule.regex = index->regex = get_text(c);
  index->seed = get64(c);
  uint64_t fpp = get64(c);
  memcpy(&index->fpp, &fpp, sizeof fpp);
  c->wrong |= index->regex == NULL || index->seed == 0 || !(index->fpp > 0 && index->fpp < 1);
}

/* The bytes of the head are those that were written. */
static bool read_head(struct index_file *index, struct cursor c, struct filters *filters)
{
  bool first = index->seed == 0;
  if (first)
    read_rule(index, &c);
  uint64_t count = get64(&c);
  for (uint64_t i = 0; i < count && !c.wrong; i++)
    read_entry(index, &c, filters, first);
  return !c.wrong && c.at == c.end;
}

/* Reads the part at *at, which is then where it ends. */
static bool load_part(struct index_file *index, uint64_t *at)
{
  unsigned char first[PART_FIRST];
  uint64_t left = index->end - *at;
  if (left < PART_FIRST || !read_at(index->fd, first, PART_FIRST, *at))
    return false;
  uint64_t head = number_at(first);
  if (head > left - PART_FIRST)
    return false;
  unsigned char *data = malloc((size_t) head + 1);
  struct filters filters = {*at + PART_FIRST + head, left - PART_FIRST - head};
  bool good = data != NULL && read_at(index->fd, data, head, *at + PART_FIRST) &&
              checksum(data, (size_t) head) == number_at(first + NUMBER) &&
              read_head(index, (struct cursor){data, data + head, false}, &filters);
  *at = filters.at;
  free(data);
  return good;
}

/* While another run writes these bytes, they may be some of the old and some of the new ones. */
static bool read_first(int fd, unsigned char first[FIRST])
{
  const struct timespec pause = {.tv_nsec = 1000000};
  bool good = false;
  for (unsigned tries = 0; tries < 10 && !good; tries++) {
    if (tries > 0)
      nanosleep(&pause, NULL);
    good = read_at(fd, first, FIRST, 0) &&
           checksum(first, FIRST - NUMBER) == number_at(first + FIRST - NUMBER);
  }
  return good;
}

bool index_read(struct index_file *index, const char *path)
{
  unsigned char first[FIRST] = {0};
  struct stat status;
  if (!read_at(index->fd, first, FIRST, 0) || memcmp(first, magic, MAGIC) != 0)
    return unusable(path, "is not an index of tamis");
  if (number_at(first + MAGIC) != VERSION)
    return unusable(path, "needs another version of tamis; make the index anew");
  bool good = read_first(index->fd, first) && fstat(index->fd, &status) == 0;
  index->end = good ? number_at(first + MAGIC + NUMBER) : 0;
  good = good && index->end > FIRST && index->end <= (uint64_t) status.st_size;
  for (uint64_t at = FIRST; good && at < index->end;)
    good = load_part(index, &at);
  return good || unusable(path, "is damaged, or not complete; make the index anew");
}

bool index_read_filters(struct index_file *index, const char *path)
{
  index->data = malloc((size_t) index->end + 1);
  if (index->data == NULL)
    return cannot_read(path, ENOMEM);
  if (index->end > 0 && !read_at(index->fd, index->data, index->end, 0))
    return unusable(path, "is damaged, or not complete; make the index anew");
  for (size_t i = 0; i < index->count; i++)
    if (index->entries[i].filter_bytes > 0)
      index->entries[i].filter = index->data + index->entries[i].at;
  return true;
}

/* What tamis_save() wrote, less its runs of zeros, which fill pages: a sequence of the length of some
 * bytes, the length of a run of zeros after them, and the bytes. */
struct part {
  struct cursor rest;
  uint64_t bytes, zeros; /* that are left of the current ones */
};

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static int64_t read_part(void *context, void *data, size_t size)
{
  struct part *part = context;
  struct cursor *rest = &part->rest;
  while (part->bytes == 0 && part->zeros == 0 && rest->at < rest->end) {
    part->bytes = get64(rest);
    part->zeros = get64(rest);
    if (rest->wrong || part->bytes > (uint64_t) (rest->end - rest->at))
      return -1;
  }
  uint64_t given = least(size, part->bytes > 0 ? part->bytes : part->zeros);
  if (part->bytes == 0) {
    memset(data, 0, given);
    part->zeros -= given;
  } else {
    memcpy(data, rest->at, given);
    rest->at += given;
    part->bytes -= given;
  }
  return (int64_t) given;
}

/* Half of a filter's bits are 0, so it takes at most twice what is written of it, and so much more: the
 * least filters have more zeros. */
enum { FILTER_BESIDE = 4096 };

tamis_filter *index_load(const struct index_entry *entry, int *result)
{
  struct part part = {.rest = {entry->filter, entry->filter + entry->filter_bytes, false}};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *filter;
  char more;
  options.max_bytes = 2 * entry->filter_bytes + FILTER_BESIDE;
  *result = tamis_load(&options, read_part, &part, &filter);
  if (*result == TAMIS_OK && read_part(&part, &more, 1) != 0) {
    tamis_destroy(filter);
    filter = NULL;
    *result = TAMIS_ECORRUPT;
  }
  return filter;
}

/* ---- writing ---- */

static int keep_bytes(void *context, const void *data, size_t size)
{
  struct buffer *b = context;
  put_bytes(b, data, size);
  return b->failed;
}

static size_t zeros_at(const unsigned char *data, size_t size)
{
  size_t n = 0;
  while (n < size && data[n] == 0)
    n++;
  return n;
}

static struct buffer without_zeros(const struct buffer *b)
{
  enum { LEAST = 64 };
  struct buffer less = {.failed = b->failed};
  for (size_t at = 0, end, zeros; at < b->size; at = end + zeros) {
    for (end = at, zeros = 0; end < b->size; end += zeros + 1, zeros = 0) {
      zeros = zeros_at(b->data + end, b->size - end);
      if (zeros >= LEAST || end + zeros == b->size)
        break;
    }
    put64(&less, end - at);
    put64(&less, zeros);
    put_bytes(&less, b->data + at, end - at);
  }
  return less;
}

bool index_keep(struct index_entry *entry, const tamis_filter *filter)
{
  struct buffer b = {.data = NULL};
  int result = tamis_save(filter, keep_bytes, &b);
  struct buffer less = without_zeros(&b);
  bool kept = result == TAMIS_OK && !less.failed;
  free(b.data);
  if (!kept) {
    fail("cannot make a filter for '%s': %s", entry->path,
         tamis_strerror(less.failed ? TAMIS_ENOMEM : result));
    free(less.data);
    return false;
  }
  entry->filter = less.data;
  entry->filter_bytes = less.size;
  entry->owned = true;
  return true;
}

static void put_entry(struct buffer *b, const struct index_entry *entry)
{
  const struct stamp *s = &entry->stamp;
  const uint64_t numbers[] = {
      s->inode,    s->bytes,           (uint64_t) s->modified, (uint64_t) s->changed,
      entry->keys, entry->filter_bytes};
  put_text(b, entry->path);
  for (size_t j = 0; j < sizeof numbers / sizeof numbers[0]; j++)
    put64(b, numbers[j]);
}

/* The head of the first part, which has all entries, or of a further one, with the fresh ones.  *filters
 * are the bytes of their filters. */
static struct buffer head_of(const struct index_file *index, bool all, uint64_t *filters)
{
  struct buffer b = {.data = NULL};
  uint64_t fpp, count = 0;
  memcpy(&fpp, &index->fpp, sizeof fpp);
  if (all) {
    put64(&b, rule_number(&index->rule));
    put64(&b, index->rule.field);
    put_text(&b, index->rule.regex);
    put64(&b, index->seed);
    put64(&b, fpp);
  }
  for (size_t i = 0; i < index->count; i++)
    count += all || index->entries[i].fresh;
  put64(&b, count);
  *filters = 0;
  for (size_t i = 0; i < index->count; i++) {
    if (!all && !index->entries[i].fresh)
      continue;
    if (!all)
      put64(&b, i);
    put_entry(&b, &index->entries[i]);
    *filters += index->entries[i].filter_bytes;
  }
  return b;
}

static void set_first(unsigned char first[FIRST], uint64_t end)
{
  memcpy(first, magic, MAGIC);
  put_number(first + MAGIC, VERSION);
  put_number(first + MAGIC + NUMBER, end);
  put_number(first + MAGIC + 2 * NUMBER, checksum(first, FIRST - NUMBER));
}

static bool write_part(struct output *output, const struct index_file *index,
                       const struct buffer *head, bool all)
{
  unsigned char first[PART_FIRST];
  put_number(first, head->size);
  put_number(first + NUMBER, checksum(head->data, head->size));
  bool written = output_write_bytes(output, first, sizeof first) &&
                 output_write_bytes(output, head->data, head->size);
  for (size_t i = 0; i < index->count && written; i++)
    if (all || index->entries[i].fresh)
      written = output_write_bytes(output, index->entries[i].filter,
                                   (size_t) index->entries[i].filter_bytes);
  return written;
}

bool index_write(const struct index_file *index, struct output *output)
{
  unsigned char first[FIRST];
  uint64_t filters;
  struct buffer head = head_of(index, true, &filters);
  set_first(first, FIRST + PART_FIRST + head.size + filters);
  bool written = !head.failed && output_write_bytes(output, first, sizeof first) &&
                 write_part(output, index, &head, true);
  if (head.failed)
    fail("out of memory");
  else if (!written)
    output_failed(output);
  free(head.data);
  return written;
}

bool index_is_sparse(const struct index_file *index)
{
  return index->dead > index->end / 2;
}

/* What a run that was killed has left behind the end is overwritten.  The disk has the part before its end. */
static bool extend(struct output *output, const struct index_file *index, const struct buffer *head,
                   uint64_t end)
{
  unsigned char first[FIRST];
  set_first(first, end);
  return lseek(output->fd, (off_t) index->end, SEEK_SET) >= 0 &&
         write_part(output, index, head, false) && fsync(output->fd) == 0 &&
         lseek(output->fd, 0, SEEK_SET) == 0 && output_write_bytes(output, first, FIRST) &&
         fsync(output->fd) == 0;
}

bool index_extend(const struct index_file *index, const char *path)
{
  struct output output = {.fd = index->fd, .name = path};
  uint64_t filters;
  struct buffer head = head_of(index, false, &filters);
  bool some = head.size > NUMBER, written = true;
  if (head.failed)
    fail("out of memory");
  else if (some)
    written = extend(&output, index, &head, index->end + PART_FIRST + head.size + filters);
  if (!written)
    output_failed(&output);
  free(head.data);
  return written && !head.failed;
}

void index_free(struct index_file *index)
{
  for (size_t i = 0; i < index->count; i++) {
    free(index->entries[i].path);
    if (index->entries[i].owned)
      free(index->entries[i].filter);
  }
  free(index->entries);
  free(index->regex);
  free(index->data);
  if (index->fd >= 0)
    close(index->fd);
}
