/* SPDX-License-Identifier: MIT
 *
 * Numbers and options that calls are given: those of constructors and of shared(), and the periods of
 * an add.
 */
#include "module.h"
#include "text.h"

bool read_number(PyObject *object, const char *what, uint64_t low, uint64_t high, const char *range,
                 uint64_t *out)
{
  PyObject *number = PyNumber_Index(object);
  if (number == NULL)
    return false;
  *out = PyLong_AsUnsignedLongLong(number);
  bool is_read = *out >= low && *out <= high && (*out != UINT64_MAX || !PyErr_Occurred());
  if (!is_read) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %S; it must be %s", what, number, range);
  }
  Py_DECREF(number);
  return is_read;
}

static bool is_given(PyObject *object)
{
  return object != NULL && object != Py_None;
}

static bool read_layout(PyObject *object, tamis_layout *layout)
{
  static const char *const names[] = {"blocked", "classic", "word"};
  const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
  if (PyErr_Occurred())
    return false;
  for (int i = TAMIS_LAYOUT_BLOCKED; name != NULL && i <= TAMIS_LAYOUT_WORD; i++)
    if (strcmp(name, names[i]) == 0) {
      *layout = (tamis_layout) i;
      return true;
    }
  PyErr_Format(PyExc_ValueError, "layout is %R; it must be 'blocked', 'classic' or 'word'", object);
  return false;
}

bool read_max_bytes(PyObject *object, uint64_t *out)
{
  return read_number(object, "max_bytes", 1, UINT64_MAX, "from 1 to 2**64 - 1, or None", out);
}

/* The number of a group that is given by its name, as Python's module grp says it. */
static PyObject *number_of_group(PyObject *name)
{
  PyObject *call = imported("grp", "getgrnam");
  PyObject *group = call != NULL ? PyObject_CallFunctionObjArgs(call, name, NULL) : NULL;
  PyObject *number = group != NULL ? PyObject_GetAttrString(group, "gr_gid") : NULL;
  if (number == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
    PyErr_Format(PyExc_ValueError, "group is %R; there is no such group", name);
  Py_XDECREF(group);
  Py_XDECREF(call);
  return number;
}

static bool read_group(PyObject *group, int64_t *out)
{
  uint64_t number;
  PyObject *given = PyUnicode_Check(group) ? number_of_group(group) : Py_NewRef(group);
  const bool good = given != NULL && read_number(given, "group", 0, UINT32_MAX - 1,
                                                 "the name or the number of a group", &number);
  Py_XDECREF(given);
  if (good)
    *out = (int64_t) number;
  return good;
}

bool access_read(PyObject *mode, PyObject *group, tamis_file_access *access,
                 const tamis_file_access **given)
{
  static const char range[] = "permission bits from 0o600 to 0o777, with those of 0o600";
  enum { NEEDED = 0600, ALL = 0777 };
  uint64_t bits = NEEDED;
  *access = (tamis_file_access){NEEDED, -1};
  *given = is_given(mode) ? access : NULL;
  if (is_given(group) && !is_given(mode)) {
    PyErr_SetString(PyExc_ValueError, "group needs file_mode");
    return false;
  }
  if (is_given(mode) && !read_number(mode, "file_mode", NEEDED, ALL, range, &bits))
    return false;
  if ((bits & NEEDED) != NEEDED) {
    PyErr_Format(PyExc_ValueError, "file_mode is %S; it must be %s", mode, range);
    return false;
  }
  access->mode = (unsigned) bits;
  return !is_given(group) || read_group(group, &access->group);
}

bool wanted_seed(struct wanted *wanted, const module_state *state)
{
  if (wanted->has_seed)
    return true;
  PyObject *seed = PyObject_CallNoArgs(state->process_seed);
  wanted->options.seed = seed != NULL ? PyLong_AsUnsignedLongLong(seed) : 0;
  Py_XDECREF(seed);
  return seed != NULL && PyErr_Occurred() == NULL;
}

bool wanted_read(struct wanted *wanted, tamis_kind kind, bool shared, PyObject *arguments,
                 PyObject *keywords)
{
  static char *const of_kinds[][10] = {
      [TAMIS_BLOOM] = {"capacity", "fpp", "window", "window_renews", "growable", "max_bytes",
                       "seed", "layout", NULL},
      [TAMIS_CUCKOO] = {"capacity", "fpp", "window", "window_renews", "growable", "max_bytes",
                        "seed", NULL},
      [TAMIS_COUNTING_BLOOM] = {"capacity", "fpp", "growable", "max_bytes", "seed", NULL}};
  PyObject *capacity = NULL, *max_bytes = NULL, *seed = NULL, *growable = NULL, *layout = NULL;
  PyObject *window = NULL;
  int renews = 0;
  wanted->options = (tamis_options) TAMIS_OPTIONS_INIT;
  tamis_options *options = &wanted->options;
  options->kind = kind;
  char **names = (char **) of_kinds[kind];
  bool is_parsed =
      kind == TAMIS_COUNTING_BLOOM
          ? PyArg_ParseTupleAndKeywords(arguments, keywords, "O|d$OOO:CountingBloom", names,
                                        &capacity, &options->fpp, &growable, &max_bytes, &seed)
      : kind == TAMIS_CUCKOO
          ? PyArg_ParseTupleAndKeywords(
                arguments, keywords, shared ? "|Od$OpOOO:shared" : "O|d$OpOOO:Cuckoo", names,
                &capacity, &options->fpp, &window, &renews, &growable, &max_bytes, &seed)
          : PyArg_ParseTupleAndKeywords(
                arguments, keywords, shared ? "|Od$OpOOOO:shared" : "O|d$OpOOOO:Bloom", names,
                &capacity, &options->fpp, &window, &renews, &growable, &max_bytes, &seed, &layout);
  if (!is_parsed)
    return false;
  wanted->has_capacity = !shared || is_given(capacity);
  if (wanted->has_capacity && !read_number(capacity, "capacity", 1, UINT64_C(1) << 46,
                                           "from 1 to 2**46", &options->capacity))
    return false;
  uint64_t periods = 0;
  if (is_given(window) && !read_number(window, "window", 0, 64, "from 0 to 64", &periods))
    return false;
  options->window = (unsigned) periods;
  options->window_renews = renews != 0;
  if (is_given(max_bytes) && !read_max_bytes(max_bytes, &options->max_bytes))
    return false;
  if (is_given(seed) &&
      !read_number(seed, "seed", 0, UINT64_MAX, "from 0 to 2**64 - 1, or None", &options->seed))
    return false;
  wanted->has_seed = is_given(seed);
  if (is_given(layout) && !read_layout(layout, &options->layout))
    return false;
  /* All layers of a shared filter are planned within max_bytes, so without it none grows. */
  int grows = is_given(growable) ? PyObject_IsTrue(growable)
                                 : !shared || (kind == TAMIS_BLOOM && is_given(max_bytes));
  options->growable = grows > 0;
  return grows >= 0;
}

bool add_read(const filter_object *f, PyObject *const *arguments, Py_ssize_t n, PyObject *names,
              int *periods)
{
  uint64_t number;
  const bool has_periods = names != NULL && PyTuple_Size(names) > 0;
  *periods = WHOLE_WINDOW;
  for (Py_ssize_t i = 0; has_periods && i < PyTuple_Size(names); i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "periods") != 0) {
      PyErr_Format(PyExc_TypeError, "the only keyword is periods, not %R", name);
      return false;
    }
  }
  if (!has_periods || arguments[n] == Py_None)
    return true;
  if (f->window == 0) {
    PyErr_SetString(PyExc_ValueError, NO_WINDOW_TEXT);
    return false;
  }
  if (!read_number(arguments[n], "periods", 0, f->window, "from 0 to the filter's window", &number))
    return false;
  *periods = (int) number;
  return true;
}

bool add_one_read(const filter_object *f, PyObject *const *arguments, Py_ssize_t n, PyObject *names,
                  int *periods)
{
  if (n == 1)
    return add_read(f, arguments, n, names, periods);
  PyErr_Format(PyExc_TypeError, "exactly one argument and periods are taken (%zd given)", n);
  return false;
}
