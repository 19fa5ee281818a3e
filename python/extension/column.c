/* SPDX-License-Identifier: MIT */
#include "column.h"

/* ---- buffers ---- */

static enum column_source column_of_rows(const Py_buffer *view, struct column *column)
{
  *column = (struct column){.form = COLUMN_WHOLE,
                            .first = view->buf,
                            .stride = view->strides[0],
                            .n = (size_t) view->shape[0],
                            .width = (size_t) view->shape[1]};
  if (view->strides[1] == 1 || column->width <= 1)
    return COLUMN_READ;
  PyErr_SetString(PyExc_ValueError, "the bytes of a row must be next to each other");
  return COLUMN_FAILED;
}

enum column_source column_of_buffer(const Py_buffer *view, struct column *column)
{
  const char *format = view->format != NULL ? view->format : "B";
  if (view->ndim == 2 && strcmp(format, "B") == 0)
    return column_of_rows(view, column);
  if (view->ndim != 1) {
    if (view->ndim == 0)
      PyErr_SetString(PyExc_TypeError, "a single number is no row of keys");
    else
      PyErr_Format(PyExc_ValueError,
                   "keys must be in one dimension, or rows of uint8 in two, not in %d", view->ndim);
    return COLUMN_FAILED;
  }
  if (format[0] == '@' || format[0] == '=' || (format[0] == '<' && PY_LITTLE_ENDIAN))
    format++;
  size_t width = (size_t) view->itemsize;
  const char *code = format + strspn(format, "0123456789");
  bool is_row = code != format; /* as in 5s */
  *column = (struct column){.first = view->buf,
                            .stride = view->strides != NULL ? view->strides[0] : view->itemsize,
                            .n = width > 0 ? (size_t) view->shape[0] : 0,
                            .width = width};
  if (strlen(code) != 1 || width == 0)
    return COLUMN_NONE;
  if (!is_row && strchr("bhilqn", *code) != NULL)
    column->is_signed = true;
  else if (*code == 's')
    column->form = COLUMN_BYTES;
  else if (*code == 'x')
    column->form = COLUMN_WHOLE;
  else if (is_row && *code == 'w' && width % 4 == 0) { /* not array.array, where a zero stays */
    column->form = COLUMN_TEXT;
    column->width = width / 4;
  } else if (is_row || strchr("BHILQN", *code) == NULL)
    return COLUMN_NONE;
  if (column->form == COLUMN_INTEGERS && width != 1 && width != 2 && width != 4 && width != 8)
    return COLUMN_NONE;
  return COLUMN_READ;
}

static const char *element(const struct column *c, size_t i)
{
  return c->first + (ptrdiff_t) i * c->stride;
}

/* ---- checks ---- */

static bool is_code_point(uint32_t c)
{
  return c < 0xD800 || (c > 0xDFFF && c <= 0x10FFFF);
}

static bool is_text(const struct column *c, size_t i)
{
  const char *at = element(c, i);
  for (size_t k = 0; k < c->width; k++) {
    uint32_t point;
    memcpy(&point, at + 4 * k, 4);
    if (!is_code_point(point))
      return false;
  }
  return true;
}

static int64_t offset_of(const struct column *c, size_t i)
{
  int32_t narrow;
  int64_t wide;
  if (c->width == 8) {
    memcpy(&wide, element(c, i), 8);
    return wide;
  }
  memcpy(&narrow, element(c, i), 4);
  return narrow;
}

/* Of a view: length, first bytes, number of the block, offset in it. */
struct view {
  int32_t len, head, block, offset;
};

static struct view view_of(const struct column *c, size_t i)
{
  struct view view;
  memcpy(&view, element(c, i), sizeof view);
  return view;
}

static bool are_offsets_whole(const struct column *c, size_t i)
{
  int64_t begin = offset_of(c, i), end = offset_of(c, i + 1);
  return begin >= 0 && begin <= end && (c->values != NULL || end == 0);
}

static bool is_view_whole(const struct column *c, size_t i)
{
  struct view view = view_of(c, i);
  return view.len >= 0 && (view.len <= 12 || (view.block >= 0 && view.offset >= 0 &&
                                              (size_t) view.block < c->blocks_n));
}

static bool is_present(const struct column *c, size_t i)
{
  size_t bit = c->present_offset + i;
  return c->present == NULL || (c->present[bit / 8] >> bit % 8 & 1) != 0;
}

static bool is_whole(const struct column *c, size_t i)
{
  switch (c->form) {
  case COLUMN_TEXT:
    return is_text(c, i);
  case COLUMN_OFFSETS:
    return are_offsets_whole(c, i);
  case COLUMN_VIEWS:
    return is_view_whole(c, i);
  default:
    return true;
  }
}

bool column_check(const struct column *c)
{
  size_t i = 0;
  bool is_null = false;
  for (bool goes_on = true; goes_on && i < c->n;) {
    size_t end = c->n - i < SIGNALS_EACH ? c->n : i + SIGNALS_EACH;
    Py_BEGIN_ALLOW_THREADS while (i < end && !(is_null = !is_present(c, i)) && is_whole(c, i)) i++;
    Py_END_ALLOW_THREADS goes_on = i == end;
    if (goes_on && PyErr_CheckSignals() < 0)
      return false;
  }
  if (i == c->n)
    return true;
  if (is_null)
    PyErr_Format(PyExc_TypeError, "element %zu is null, which is no key", i);
  else if (c->form == COLUMN_TEXT)
    PyErr_Format(PyExc_ValueError, "element %zu has a surrogate, or no code point", i);
  else
    PyErr_Format(PyExc_ValueError, "element %zu of the Arrow array is malformed", i);
  return false;
}

/* ---- without the GIL ---- */

size_t column_piece(const struct column *c)
{
  size_t fit = c->form == COLUMN_TEXT ? (64 << 10) / (4 * c->width) : PIECE;
  return fit > PIECE ? PIECE : fit > 0 ? fit : 1;
}

size_t column_room(const struct column *c)
{
  return c->form == COLUMN_TEXT ? 4 * c->width * column_piece(c) : 0;
}

static uint64_t number_at(const struct column *c, const char *at)
{
  union {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    int8_t i8;
    int16_t i16;
    int32_t i32;
  } value;
  memcpy(&value, at, c->width);
  switch (c->width) {
  case 1:
    return c->is_signed ? (uint64_t) (int64_t) value.i8 : value.u8;
  case 2:
    return c->is_signed ? (uint64_t) (int64_t) value.i16 : value.u16;
  default:
    return c->is_signed ? (uint64_t) (int64_t) value.i32 : value.u32;
  }
}

static void integer_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  for (size_t i = 0; i < n; i++) {
    const char *at = element(c, from + i);
    if (c->width < 8 || !PY_LITTLE_ENDIAN) {
      uint64_t number;
      if (c->width == 8)
        memcpy(&number, at, 8);
      else
        number = number_at(c, at);
      piece->numbers[i] = PY_LITTLE_ENDIAN ? number : __builtin_bswap64(number);
      at = (const char *) &piece->numbers[i];
    }
    piece->keys[i] = (tamis_key){at, 8};
  }
}

static void bytes_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  for (size_t i = 0; i < n; i++) {
    const char *at = element(c, from + i);
    size_t len = c->width;
    while (c->form == COLUMN_BYTES && len > 0 && at[len - 1] == 0)
      len--;
    piece->keys[i] = (tamis_key){at, len};
  }
}

/* Writes a code point in UTF-8, in at most 4 bytes.  Any number is fine: the array may have changed
 * since it was checked. */
static char *put_utf8(char *to, uint32_t c)
{
  if (c < 0x80) {
    *to++ = (char) c;
    return to;
  }
  if (c < 0x800) {
    *to++ = (char) (0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      *to++ = (char) (0xE0 | c >> 12);
    } else {
      *to++ = (char) (0xF0 | (c >> 18 & 7));
      *to++ = (char) (0x80 | (c >> 12 & 0x3F));
    }
    *to++ = (char) (0x80 | (c >> 6 & 0x3F));
  }
  *to++ = (char) (0x80 | (c & 0x3F));
  return to;
}

static void text_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  char *to = piece->text;
  for (size_t i = 0; i < n; i++) {
    const char *at = element(c, from + i);
    char *begin = to, *end = to; /* behind the last character that is no zero */
    for (size_t k = 0; k < c->width; k++) {
      uint32_t point;
      memcpy(&point, at + 4 * k, 4);
      to = put_utf8(to, point);
      end = point != 0 ? to : end;
    }
    to = end;
    piece->keys[i] = (tamis_key){begin, (size_t) (end - begin)};
  }
}

static void offset_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  for (size_t i = 0; i < n; i++) {
    int64_t begin = offset_of(c, from + i), end = offset_of(c, from + i + 1);
    piece->keys[i] = (tamis_key){c->values + begin, end > begin ? (size_t) (end - begin) : 0};
  }
}

static void view_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  for (size_t i = 0; i < n; i++) {
    struct view view = view_of(c, from + i);
    const char *data = view.len <= 12 ? element(c, from + i) + 4
                                      : (const char *) c->blocks[view.block] + view.offset;
    piece->keys[i] = (tamis_key){data, (size_t) view.len};
  }
}

void column_keys(const struct column *c, size_t from, size_t n, struct piece *piece)
{
  static void (*const by_form[])(const struct column *, size_t, size_t, struct piece *) = {
      [COLUMN_INTEGERS] = integer_keys, [COLUMN_BYTES] = bytes_keys,    [COLUMN_WHOLE] = bytes_keys,
      [COLUMN_TEXT] = text_keys,        [COLUMN_OFFSETS] = offset_keys, [COLUMN_VIEWS] = view_keys};
  by_form[c->form](c, from, n, piece);
}
