/* SPDX-License-Identifier: MIT
 *
 * What is a key.  The rule is that of <tamis/tamis.hpp>, so that filters which several languages use
 * agree:
 *
 *   str       its text in UTF-8.  Python keeps that form with the str, so it is made once; for ASCII
 *             it is the str's own memory.
 *   int, and what has __index__ (numpy's integers)
 *             8 bytes: the value as a 64-bit number in two's complement, lowest byte first.  So equal
 *             numbers are one key, whatever their types, and -1 is the same key as 2**64 - 1.
 *   bytes, and what exports a buffer that is contiguous
 *             its bytes.
 *
 * Not a bool, which would hide a mistake; nor a float, or another number that is no integer.  Nor what
 * equal values do not have equal bytes of: objects and pointers, which are addresses; records and long
 * doubles, which have gaps; numpy's dates, which are numbers of some unit; arrays with a mask.
 */
#include "module.h"

/* What has in memory the bytes of an integer that is a key. */
static uint64_t lowest_byte_first(uint64_t number)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  number = __builtin_bswap64(number);
#endif
  return number;
}

static bool refuse(PyObject *object)
{
  PyObject *name = PyType_GetName(Py_TYPE(object));
  if (name != NULL)
    PyErr_Format(
        PyExc_TypeError,
        "a key must be a str, an int, bytes or another contiguous buffer of bytes or numbers, "
        "not '%U'",
        name);
  Py_XDECREF(name);
  return false;
}

static bool read_integer(PyObject *object, struct key *key)
{
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (value == -1 && PyErr_Occurred())
    return false;
  uint64_t number = (uint64_t) value;
  if (overflow > 0) {
    number = PyLong_AsUnsignedLongLong(object);
    if (number == UINT64_MAX && PyErr_Occurred()) {
      PyErr_Clear();
      overflow = -1;
    }
  }
  if (overflow < 0) {
    PyErr_SetString(PyExc_OverflowError, "an int that is a key must be from -2**63 to 2**64 - 1");
    return false;
  }
  key->number = lowest_byte_first(number);
  key->data = &key->number;
  key->len = sizeof key->number;
  return true;
}

bool is_masked(PyObject *object)
{
  return PyObject_HasAttrString((PyObject *) Py_TYPE(object), "__setmask__");
}

/* Whether the object is a date of numpy's, which gives out its number as if it were bytes. */
static bool is_date(PyObject *object)
{
  PyObject *type = PyObject_GetAttrString(object, "dtype");
  PyObject *kind = type != NULL ? PyObject_GetAttrString(type, "kind") : NULL;
  bool is = kind != NULL && PyUnicode_Check(kind) &&
            (PyUnicode_CompareWithASCIIString(kind, "M") == 0 ||
             PyUnicode_CompareWithASCIIString(kind, "m") == 0);
  PyErr_Clear();
  Py_XDECREF(kind);
  Py_XDECREF(type);
  return is;
}

/* Whether equal values have equal bytes.  One element without dimensions must be bytes as well, and no
 * number that is no integer, as numpy.float32. */
static bool are_bytes_the_value(PyObject *object, const Py_buffer *view)
{
  const char *format = view->format != NULL ? view->format : "B";
  if (strpbrk(format, "OPTXZgz&") != NULL || (view->ndim == 0 && strchr(format, 'x') == NULL))
    return false;
  return PyByteArray_Check(object) || PyMemoryView_Check(object) ||
         !(is_date(object) || is_masked(object));
}

static bool read_buffer(PyObject *object, struct key *key)
{
  if (PyObject_GetBuffer(object, &key->view, PyBUF_ND | PyBUF_FORMAT) < 0) {
    key->view.obj = NULL;
    return false;
  }
  if (!are_bytes_the_value(object, &key->view)) {
    PyBuffer_Release(&key->view);
    return refuse(object);
  }
  key->data = key->view.buf;
  key->len = (size_t) key->view.len;
  return true;
}

static bool read_number_of(PyObject *object, struct key *key)
{
  PyObject *number = PyNumber_Index(object);
  bool is_read = number != NULL && read_integer(number, key);
  Py_XDECREF(number);
  return is_read;
}

/* What has an __index__ and exports a buffer as well: numpy's integers, but also its arrays and, for now,
 * its bool. */
static bool read_scalar(PyObject *object, struct key *key)
{
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_STRIDES) < 0)
    return false;
  bool is_array = view.ndim > 0, is_bool = view.format != NULL && view.format[0] == '?';
  PyBuffer_Release(&view);
  if (is_array)
    return read_buffer(object, key);
  if (is_bool)
    return refuse(object);
  return read_number_of(object, key);
}

static bool read_index(PyObject *object, struct key *key)
{
  if (PyBool_Check(object))
    return refuse(object);
  if (PyObject_CheckBuffer(object))
    return read_scalar(object, key);
  return read_number_of(object, key);
}

static bool read_bytes(PyObject *object, struct key *key)
{
  char *data;
  Py_ssize_t len;
  if (PyBytes_AsStringAndSize(object, &data, &len) < 0)
    return false;
  key->data = data;
  key->len = (size_t) len;
  return true;
}

static bool read_text(PyObject *object, struct key *key)
{
  Py_ssize_t len;
  key->data = PyUnicode_AsUTF8AndSize(object, &len);
  key->len = (size_t) len;
  return key->data != NULL;
}

bool key_read(PyObject *object, struct key *key)
{
  key->view.obj = NULL;
  const PyTypeObject *type = Py_TYPE(object);
  if (type == &PyUnicode_Type)
    return read_text(object, key);
  if (type == &PyBytes_Type)
    return read_bytes(object, key);
  if (type == &PyLong_Type)
    return read_integer(object, key);
  if (PyUnicode_Check(object))
    return read_text(object, key);
  if (PyBytes_Check(object))
    return read_bytes(object, key);
  if (PyIndex_Check(object) && !PyFloat_Check(object))
    return read_index(object, key);
  if (PyObject_CheckBuffer(object) && !PyFloat_Check(object))
    return read_buffer(object, key);
  return refuse(object);
}
