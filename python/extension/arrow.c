/* SPDX-License-Identifier: MIT
 *
 * Arrow arrays by Arrow's C data interface: an object gives out capsules with structs that all
 * implementations have in common, so nothing of Arrow has to be there when this is compiled.
 */
#include "column.h"

#include <stdlib.h>

/* ---- the structs, as Arrow's specification of the C data and C stream interfaces lays them out ---- */

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

/* ---- the form of an array ---- */

struct form {
  const char *format;
  enum column_form form;
  size_t width;
  bool is_signed;
};

static const struct form forms[] = {
    {"c", COLUMN_INTEGERS, 1, true}, {"C", COLUMN_INTEGERS, 1, false},
    {"s", COLUMN_INTEGERS, 2, true}, {"S", COLUMN_INTEGERS, 2, false},
    {"i", COLUMN_INTEGERS, 4, true}, {"I", COLUMN_INTEGERS, 4, false},
    {"l", COLUMN_INTEGERS, 8, true}, {"L", COLUMN_INTEGERS, 8, false},
    {"u", COLUMN_OFFSETS, 4, false}, {"z", COLUMN_OFFSETS, 4, false},
    {"U", COLUMN_OFFSETS, 8, false}, {"Z", COLUMN_OFFSETS, 8, false},
    {"vu", COLUMN_VIEWS, 16, false}, {"vz", COLUMN_VIEWS, 16, false}};

static bool form_of(const struct ArrowSchema *schema, struct form *form)
{
  if (schema->dictionary == NULL) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
      if (strcmp(schema->format, forms[i].format) == 0) {
        *form = forms[i];
        return true;
      }
    if (strncmp(schema->format, "w:", 2) == 0) {
      *form =
          (struct form){schema->format, COLUMN_WHOLE, strtoul(schema->format + 2, NULL, 10), false};
      return true;
    }
  }
  PyErr_Format(PyExc_TypeError,
               "an Arrow array of keys has text, binary or integers, and no dictionary; this one "
               "has the format '%s'%s",
               schema->format, schema->dictionary != NULL ? " with a dictionary" : "");
  return false;
}

static bool column_of_array(const struct ArrowArray *array, const struct form *form,
                            struct column *column)
{
  int64_t needed = form->form == COLUMN_OFFSETS ? 3 : 2;
  if (array->length < 0 || array->offset < 0 || array->n_buffers < needed) {
    PyErr_SetString(PyExc_ValueError, "the Arrow array is malformed");
    return false;
  }
  size_t stride = form->width;
  *column = (struct column){.form = form->form,
                            .is_signed = form->is_signed,
                            .first = array->buffers[1],
                            .stride = (ptrdiff_t) stride,
                            .n = (size_t) array->length,
                            .width = form->width,
                            .present = array->null_count != 0 ? array->buffers[0] : NULL,
                            .present_offset = (size_t) array->offset};
  if (column->first == NULL && column->n > 0 && form->width > 0) {
    PyErr_SetString(PyExc_ValueError, "the Arrow array has no data");
    return false;
  }
  if (column->n > 0)
    column->first += (size_t) array->offset * stride;
  if (form->form == COLUMN_OFFSETS)
    column->values = array->buffers[2];
  if (form->form == COLUMN_VIEWS) { /* the last buffer has the blocks' sizes */
    column->blocks = array->buffers + 2;
    column->blocks_n = array->n_buffers > 3 ? (size_t) array->n_buffers - 3 : 0;
  }
  return true;
}

/* ---- capsules ---- */

static void *pointer_in(PyObject *capsule, const char *name)
{
  return capsule != NULL ? PyCapsule_GetPointer(capsule, name) : NULL;
}

static bool open_array(struct arrow *arrow)
{
  if (!PyTuple_Check(arrow->capsules) || PyTuple_Size(arrow->capsules) != 2) {
    PyErr_SetString(PyExc_TypeError, "__arrow_c_array__() must return two capsules");
    return false;
  }
  arrow->schema = pointer_in(PyTuple_GetItem(arrow->capsules, 0), "arrow_schema");
  arrow->array =
      arrow->schema != NULL ? pointer_in(PyTuple_GetItem(arrow->capsules, 1), "arrow_array") : NULL;
  return arrow->array != NULL;
}

enum column_source arrow_open(PyObject *object, struct arrow *arrow)
{
  *arrow = (struct arrow){NULL, NULL, NULL, NULL};
  bool is_array = PyObject_HasAttrString(object, "__arrow_c_array__");
  if (!is_array && !PyObject_HasAttrString(object, "__arrow_c_stream__"))
    return COLUMN_NONE;
  if (PyType_Check(object))
    return COLUMN_NONE;
  arrow->capsules =
      PyObject_CallMethod(object, is_array ? "__arrow_c_array__" : "__arrow_c_stream__", NULL);
  bool is_open = arrow->capsules != NULL;
  if (is_open && is_array)
    is_open = open_array(arrow);
  else if (is_open)
    is_open = (arrow->stream = pointer_in(arrow->capsules, "arrow_array_stream")) != NULL;
  if (is_open)
    return COLUMN_READ;
  arrow_close(arrow);
  return COLUMN_FAILED;
}

void arrow_close(struct arrow *arrow)
{
  Py_CLEAR(arrow->capsules); /* whose destructors release the structs */
}

/* ---- arrays ---- */

static bool use_array(const struct ArrowArray *array, const struct form *form,
                      bool (*use)(void *, const struct column *), void *context)
{
  struct column column;
  return column_of_array(array, form, &column) && use(context, &column);
}

static bool raise_stream(struct ArrowArrayStream *stream)
{
  const char *why = stream->get_last_error != NULL ? stream->get_last_error(stream) : NULL;
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_OSError, "the Arrow stream failed: %s",
                 why != NULL ? why : "no reason given");
  return false;
}

/* Releases may run code of Python's, which no exception of the caller's must meet. */
static void release_array(struct ArrowArray *array)
{
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  array->release(array);
  PyErr_Restore(type, value, traceback);
}

static void release_schema(struct ArrowSchema *schema)
{
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (schema->release != NULL)
    schema->release(schema);
  PyErr_Restore(type, value, traceback);
}

static bool each_of_stream(struct ArrowArrayStream *stream, const struct form *form,
                           bool (*use)(void *, const struct column *), void *context)
{
  for (;;) {
    struct ArrowArray array = {.release = NULL};
    if (stream->get_next(stream, &array) != 0)
      return raise_stream(stream);
    if (array.release == NULL)
      return true;
    bool goes_on = use_array(&array, form, use, context);
    release_array(&array);
    if (!goes_on)
      return false;
  }
}

bool arrow_each(struct arrow *arrow, bool (*use)(void *, const struct column *), void *context)
{
  struct form form;
  if (arrow->array != NULL)
    return form_of(arrow->schema, &form) && use_array(arrow->array, &form, use, context);
  struct ArrowSchema schema = {.release = NULL};
  if (arrow->stream->get_schema(arrow->stream, &schema) != 0)
    return raise_stream(arrow->stream);
  bool is_done = form_of(&schema, &form) && each_of_stream(arrow->stream, &form, use, context);
  release_schema(&schema);
  return is_done;
}
