/* SPDX-License-Identifier: MIT */
#include "index_file.h"

#include "commands.h"
#include "report.h"
#include "retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[] = "tamis index\n";
enum { MAGIC = sizeof magic - 1, NUMBER = 8, HEAD_AT = MAGIC + 3 * NUMBER, VERSION = 1 };

/* ---- bytes ---- */

static void put_number(unsigned char *to, uint64_t number)
{
  for (unsigned i = 0; i < NUMBER; i++)
    to[i] = (unsigned char) (number >> 8 * i);
}

static uint64_t number_at(const unsigned char *from)
{
  uint64_t number = 0;
  for (unsigned i = 0; i < NUMBER; i++)
    number |= (uint64_t) from[i] << 8 * i;
  return number;
}

/* Against accidents.
 * Source: the hash FNV-1a of Fowler, Noll and Vo */
static uint64_t checksum(const unsigned char *data, size_t size)
{
  uint64_t sum = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ data[i]) * UINT64_C(0x100000001B3);
  return sum;
}

struct buffer {
  unsigned char *data;
  size_t size, room;
  bool failed;
};

static void put(struct buffer *b, const void *data, size_t size)
{
  if (b->room - b->size < size) {
    size_t room = 2 * (b->size + size);
    unsigned char *grown = b->failed ? NULL : realloc(b->data, room);
    if (grown == NULL) {
      b->failed = true;
      return;
    }
    b->data = grown;
    b->room = room;
  }
  if (size > 0)
    memcpy(b->data + b->size, data, size);
  b->size += size;
}

static void put64(struct buffer *b, uint64_t number)
{
  unsigned char bytes[NUMBER];
  put_number(bytes, number);
  put(b, bytes, sizeof bytes);
}

static void put_text(struct buffer *b, const char *text)
{
  size_t length = text != NULL ? strlen(text) : 0;
  put64(b, length);
  put(b, text, length);
}

/* What is left of the bytes that are read.  After an error, all numbers are 0. */
struct cursor {
  const unsigned char *at, *end;
  bool wrong;
};

static uint64_t get64(struct cursor *c)
{
  if (c->end - c->at < NUMBER) {
    c->wrong = true;
    c->at = c->end;
    return 0;
  }
  c->at += NUMBER;
  return number_at(c->at - NUMBER);
}

/* A copy with a 0 at its end, which must not have one elsewhere. */
static char *get_text(struct cursor *c)
{
  uint64_t length = get64(c);
  if (length > (uint64_t) (c->end - c->at) || memchr(c->at, 0, length) != NULL) {
    c->wrong = true;
    return NULL;
  }
  char *text = strndup((const char *) c->at, length);
  c->at += length;
  return text;
}

/* ---- reading ---- */

static bool unusable(const char *path, const char *why)
{
  set_failure_status(EXIT_UNUSABLE);
  fail("'%s' %s", path, why);
  return false;
}

static bool read_file(const char *path, unsigned char **data, size_t *size)
{
  struct stat status;
  int fd = (int) TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  size_t got = 0;
  ssize_t part = 1;
  *data = NULL;
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    *data = malloc((size_t) status.st_size + 1);
    while (*data != NULL && got < (size_t) status.st_size && part > 0) {
      part = TEMP_FAILURE_RETRY(read(fd, *data + got, (size_t) status.st_size - got));
      got += part > 0 ? (size_t) part : 0;
    }
  } else if (fd >= 0) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  }
  int error = errno;
  if (fd >= 0)
    close(fd);
  *size = got;
  if (*data != NULL && part >= 0)
    return true;
  set_failure_status(EXIT_UNUSABLE);
  fail("cannot read '%s': %s", path, strerror(error));
  return false;
}

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
  index->entries[index->count] = (struct index_entry){.path = copy};
  return &index->entries[index->count++];
}

/* The filters of entries that have been read, and of those that come. */
struct filters {
  uint64_t before, left; /* bytes */
  unsigned char *at;
};

/* Filters stand one after the other, so all together take no more bytes than the file. */
static void read_entry(struct index_file *index, struct cursor *c, struct filters *filters)
{
  char *path = get_text(c);
  struct stamp stamp;
  stamp.inode = get64(c);
  stamp.bytes = get64(c);
  stamp.modified = (int64_t) get64(c);
  stamp.changed = (int64_t) get64(c);
  uint64_t keys = get64(c);
  uint64_t at = get64(c);
  uint64_t size = get64(c);
  c->wrong |= at != filters->before || size > filters->left;
  struct index_entry *entry = c->wrong || path == NULL ? NULL : index_append(index, path);
  if (entry != NULL) {
    entry->stamp = stamp;
    entry->keys = keys;
    entry->filter_bytes = size;
    entry->filter = size > 0 ? filters->at : NULL;
    filters->before += size, filters->left -= size, filters->at += size;
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
static bool read_rule(struct key_rule *rule, uint64_t number)
{
  uint64_t mode = number & 0xff;
  *rule = (struct key_rule){.mode = mode < KEY_MODES ? (enum key_mode) mode : KEY_LINE,
                            .crlf = (number & RULE_CRLF) != 0,
                            .ignore_case = (number & RULE_IGNORE_CASE) != 0,
                            .delimited = (number & RULE_DELIMITED) != 0,
                            .delimiter = (char) (unsigned char) (number >> RULE_SHIFT)};
  return rule_number(rule) == number;
}

/* The bytes of the head are those that were written. */
static bool read_head(struct index_file *index, size_t head, size_t size)
{
  struct cursor c = {index->data + HEAD_AT, index->data + HEAD_AT + head, false};
  struct filters filters = {0, size - HEAD_AT - head, index->data + HEAD_AT + head};
  c.wrong |= !read_rule(&index->rule, get64(&c));
  index->rule.field = get64(&c);
  index->rule.regex = index->regex = get_text(&c);
  index->seed = get64(&c);
  uint64_t fpp = get64(&c);
  uint64_t count = get64(&c);
  memcpy(&index->fpp, &fpp, sizeof fpp);
  c.wrong |= index->regex == NULL || index->seed == 0 || !(index->fpp > 0 && index->fpp < 1);
  for (uint64_t i = 0; i < count && !c.wrong; i++)
    read_entry(index, &c, &filters);
  return !c.wrong && c.at == c.end;
}

bool index_read(struct index_file *index, const char *path)
{
  size_t size;
  *index = (struct index_file){.data = NULL};
  if (!read_file(path, &index->data, &size))
    return false;
  if (size < HEAD_AT || memcmp(index->data, magic, MAGIC) != 0)
    return unusable(path, "is not an index of tamis");
  if (number_at(index->data + MAGIC) != VERSION)
    return unusable(path, "needs another version of tamis; make the index anew");
  uint64_t head = number_at(index->data + MAGIC + NUMBER);
  if (head > size - HEAD_AT ||
      checksum(index->data + HEAD_AT, (size_t) head) != number_at(index->data + MAGIC + 2 * NUMBER))
    return unusable(path, "is damaged, or not complete; make the index anew");
  return read_head(index, (size_t) head, size) ||
         unusable(path, "is damaged, or not complete; make the index anew");
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
  put(b, data, size);
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
    put(&less, b->data + at, end - at);
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

static struct buffer head_of(const struct index_file *index)
{
  struct buffer b = {.data = NULL};
  uint64_t fpp, at = 0;
  memcpy(&fpp, &index->fpp, sizeof fpp);
  put64(&b, rule_number(&index->rule));
  put64(&b, index->rule.field);
  put_text(&b, index->rule.regex);
  put64(&b, index->seed);
  put64(&b, fpp);
  put64(&b, index->count);
  for (size_t i = 0; i < index->count; i++) {
    const struct index_entry *entry = &index->entries[i];
    const struct stamp *s = &entry->stamp;
    const uint64_t numbers[] = {
        s->inode,    s->bytes, (uint64_t) s->modified, (uint64_t) s->changed,
        entry->keys, at,       entry->filter_bytes};
    put_text(&b, entry->path);
    for (size_t j = 0; j < sizeof numbers / sizeof numbers[0]; j++)
      put64(&b, numbers[j]);
    at += entry->filter_bytes;
  }
  return b;
}

static bool write_all(struct output *output, const struct index_file *index,
                      const struct buffer *head)
{
  unsigned char first[HEAD_AT];
  memcpy(first, magic, MAGIC);
  put_number(first + MAGIC, VERSION);
  put_number(first + MAGIC + NUMBER, head->size);
  put_number(first + MAGIC + 2 * NUMBER, checksum(head->data, head->size));
  bool written = output_write_bytes(output, first, sizeof first) &&
                 output_write_bytes(output, head->data, head->size);
  for (size_t i = 0; i < index->count && written; i++)
    written = output_write_bytes(output, index->entries[i].filter,
                                 (size_t) index->entries[i].filter_bytes);
  return written;
}

bool index_write(const struct index_file *index, struct output *output)
{
  struct buffer head = head_of(index);
  bool written = !head.failed && write_all(output, index, &head);
  if (head.failed)
    fail("out of memory");
  else if (!written)
    output_failed(output);
  free(head.data);
  return written;
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
}
