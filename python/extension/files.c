/* SPDX-License-Identifier: MIT
 *
 * Filters in files, in bytes, and on the way to another process.
 */
#include "module.h"

#include <errno.h>
#include <stdlib.h>

int bytes_append(void *bytes, const void *data, size_t size)
{
  struct bytes *to = bytes;
  if (size > to->room - to->size) {
    size_t room = to->room + to->room / 2 + size;
    char *grown = room < PY_SSIZE_T_MAX ? realloc(to->data, room) : NULL;
    if (grown == NULL)
      return -1;
    to->data = grown;
    to->room = room;
  }
  memcpy(to->data + to->size, data, size);
  to->size += size;
  return 0;
}

PyObject *bytes_end(struct bytes *bytes, PyObject *(*make)(const char *, Py_ssize_t),
                    const module_state *state, int result, PyObject *path)
{
  PyObject *made = NULL;
  if (result == TAMIS_OK)
    made = make(bytes->data, (Py_ssize_t) bytes->size);
  else if (result == TAMIS_EIO) /* of bytes_append */
    PyErr_NoMemory();
  else
    raise_result(state, result, 0, path);
  free(bytes->data);
  return made;
}

/* ---- saving ---- */

PyObject *filter_save(PyObject *self, PyObject *arguments, PyObject *keywords)
{
  static char *names[] = {"", "file_mode", "group", NULL};
  PyObject *name, *path, *mode = NULL, *group = NULL;
  tamis_file_access access;
  const tamis_file_access *given;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$OO:save", names, &path, &mode,
                                   &group) ||
      !access_read(mode, group, &access, &given) || !PyUnicode_FSConverter(path, &name))
    return NULL;
  int result, error;
  const char *text = PyBytes_AsString(name);
  struct owned *owned = filter_hold(as_filter(self));
  Py_BEGIN_ALLOW_THREADS result = tamis_save_file_as(owned->raw, text, given);
  error = errno;
  Py_END_ALLOW_THREADS owned_let_go(owned);
  Py_DECREF(name);
  if (result != TAMIS_OK)
    return raise_result(as_filter(self)->state, result, error, path);
  Py_RETURN_NONE;
}

PyObject *filter_to_bytes(PyObject *self, PyObject *Py_UNUSED(unused))
{
  struct bytes bytes = {NULL, 0, 0};
  int result;
  struct owned *owned = filter_hold(as_filter(self));
  Py_BEGIN_ALLOW_THREADS result = tamis_save(owned->raw, bytes_append, &bytes);
  Py_END_ALLOW_THREADS owned_let_go(owned);
  return bytes_end(&bytes, PyBytes_FromStringAndSize, as_filter(self)->state, result,
                   as_filter(self)->path);
}

PyObject *filter_sync(PyObject *self, PyObject *Py_UNUSED(unused))
{
  int result, error;
  struct owned *owned = filter_hold(as_filter(self));
  Py_BEGIN_ALLOW_THREADS result = tamis_sync(owned->raw);
  error = errno;
  Py_END_ALLOW_THREADS owned_let_go(owned);
  if (result == TAMIS_OK)
    Py_RETURN_NONE;
  if (result == TAMIS_EUNSUPPORTED)
    PyErr_SetString(PyExc_ValueError, "the filter is not shared: save() it");
  else
    raise_result(as_filter(self)->state, result, error, as_filter(self)->path);
  return NULL;
}

/* ---- loading ---- */

/* The rest of a row of bytes. */
struct row {
  const char *next;
  size_t left;
};

static int64_t row_read(void *row, void *data, size_t size)
{
  struct row *from = row;
  size = size < from->left ? size : from->left;
  memcpy(data, from->next, size);
  from->next += size;
  from->left -= size;
  return (int64_t) size;
}

/* Whether the bytes are the file of a shared filter, in which unused space follows the filter
 * (docs/reference/format.md). */
static bool is_shared(const unsigned char *header, Py_ssize_t size)
{
  return size > 16 && header[6] != 'p' && (header[16] & 4) != 0;
}

static PyObject *load_bytes(module_state *state, PyTypeObject *type, PyObject *data,
                            uint64_t max_bytes)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *raw = NULL;
  Py_buffer view;
  options.max_bytes = max_bytes;
  if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
    return NULL;
  struct row row = {view.buf, (size_t) view.len};
  const bool ends_early = is_shared(view.buf, view.len);
  int result;
  Py_BEGIN_ALLOW_THREADS result = tamis_load(&options, row_read, &row, &raw);
  Py_END_ALLOW_THREADS PyBuffer_Release(&view);
  if (result == TAMIS_OK && row.left > 0 && !ends_early) {
    tamis_destroy(raw);
    PyErr_SetString(state->corrupt, "something follows the filter");
    return NULL;
  }
  if (result != TAMIS_OK)
    return raise_result(state, result, 0, NULL);
  return filter_wrap(state, type, raw, MODE_PRIVATE, NULL);
}

/* The argument of a function that loads, and its keyword max_bytes. */
static bool load_read(const char *format, PyObject *arguments, PyObject *keywords, PyObject **from,
                      uint64_t *max_bytes)
{
  static char *names[] = {"", "max_bytes", NULL};
  PyObject *limit = Py_None;
  *max_bytes = 0;
  return PyArg_ParseTupleAndKeywords(arguments, keywords, format, names, from, &limit) &&
         (limit == Py_None || read_max_bytes(limit, max_bytes));
}

PyObject *module_from_bytes(PyObject *module, PyObject *arguments, PyObject *keywords)
{
  PyObject *data;
  uint64_t max_bytes;
  if (!load_read("O|$O:from_bytes", arguments, keywords, &data, &max_bytes))
    return NULL;
  return load_bytes(state_of_module(module), NULL, data, max_bytes);
}

/* ---- text ---- */

/* Calls a function of the module binascii, with a keyword. */
static PyObject *binascii(const char *function, PyObject *of, const char *keyword, PyObject *value)
{
  PyObject *called = imported("binascii", function),
           *arguments = called != NULL ? PyTuple_Pack(1, of) : NULL,
           *keywords = arguments != NULL ? Py_BuildValue("{s:O}", keyword, value) : NULL,
           *result = keywords != NULL ? PyObject_Call(called, arguments, keywords) : NULL;
  Py_XDECREF(keywords);
  Py_XDECREF(arguments);
  Py_XDECREF(called);
  return result;
}

PyObject *filter_to_text(PyObject *self, PyObject *Py_UNUSED(unused))
{
  PyObject *bytes = filter_to_bytes(self, NULL);
  PyObject *base64 = bytes != NULL ? binascii("b2a_base64", bytes, "newline", Py_False) : NULL;
  PyObject *text = base64 != NULL ? PyUnicode_FromEncodedObject(base64, "ascii", NULL) : NULL;
  Py_XDECREF(base64);
  Py_XDECREF(bytes);
  return text;
}

/* What is no base64 is no filter. */
static PyObject *bytes_of_text(const module_state *state, PyObject *text)
{
  PyObject *bytes = binascii("a2b_base64", text, "strict_mode", Py_True);
  if (bytes == NULL && PyErr_ExceptionMatches(PyExc_ValueError))
    PyErr_SetString(state->corrupt, "the text is no base64, or not all of it");
  return bytes;
}

PyObject *module_from_text(PyObject *module, PyObject *arguments, PyObject *keywords)
{
  module_state *state = state_of_module(module);
  PyObject *text;
  uint64_t max_bytes;
  if (!load_read("U|$O:from_text", arguments, keywords, &text, &max_bytes))
    return NULL;
  PyObject *bytes = bytes_of_text(state, text);
  PyObject *made = bytes != NULL ? load_bytes(state, NULL, bytes, max_bytes) : NULL;
  Py_XDECREF(bytes);
  return made;
}

/* Calls tamis_load_file or tamis_map_file. */
static PyObject *from_file(module_state *state, PyTypeObject *type, PyObject *path,
                           const tamis_load_options *options, enum filter_mode mode)
{
  PyObject *name, *absolute = NULL, *made = NULL;
  tamis_filter *raw = NULL;
  if (!PyUnicode_FSConverter(path, &name))
    return NULL;
  int result, error;
  const char *text = PyBytes_AsString(name);
  Py_BEGIN_ALLOW_THREADS result =
      (mode == MODE_MAPPED ? tamis_map_file : tamis_load_file)(options, text, &raw);
  error = errno;
  Py_END_ALLOW_THREADS if (result != TAMIS_OK) raise_result(state, result, error, path);
  else if (mode == MODE_PRIVATE) made = filter_wrap(state, type, raw, mode, NULL);
  else if ((absolute = PyObject_CallFunctionObjArgs(state->abspath, path, NULL)) == NULL)
      tamis_destroy(raw);
  else made = filter_wrap(state, type, raw, mode, absolute);
  Py_XDECREF(absolute);
  Py_DECREF(name);
  return made;
}

PyObject *module_load(PyObject *module, PyObject *arguments, PyObject *keywords)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  PyObject *path;
  if (!load_read("O|$O:load", arguments, keywords, &path, &options.max_bytes))
    return NULL;
  return from_file(state_of_module(module), NULL, path, &options, MODE_PRIVATE);
}

PyObject *module_open(PyObject *module, PyObject *arguments, PyObject *keywords)
{
  static char *names[] = {"", "check", NULL};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  PyObject *path;
  int check = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$p:open", names, &path, &check))
    return NULL;
  options.check_all = check != 0;
  return from_file(state_of_module(module), NULL, path, &options, MODE_MAPPED);
}

/* ---- sharing ---- */

static PyObject *raise_shared(module_state *state, const tamis_options *options, const char *name,
                              int result, int error, PyObject *path)
{
  char why[512] = "";
  bool is_said = result == TAMIS_EINVAL || result == TAMIS_EUNSUPPORTED || result == TAMIS_EFULL;
  if (!is_said)
    return raise_result(state, result, error, path);
  /* Of a descriptor, the options alone can be asked about. */
  int checked =
      path != NULL && name == NULL ? TAMIS_OK : tamis_shared_check(options, name, why, sizeof why);
  if (checked != result)
    return raise_result(state, result, error, NULL);
  PyErr_SetString(PyExc_ValueError, why);
  return NULL;
}

static PyObject *share(module_state *state, PyTypeObject *type, PyObject *path,
                       const tamis_options *options)
{
  PyObject *name = NULL, *absolute = NULL, *made = NULL;
  tamis_filter *raw = NULL;
  int fd = -1, result, error;
  bool is_number = PyLong_Check(path) && !PyBool_Check(path);
  if (is_number && (fd = PyObject_AsFileDescriptor(path)) < 0)
    return NULL;
  if (!is_number && path != Py_None && !PyUnicode_FSConverter(path, &name))
    return NULL;
  if (path == Py_None && options == NULL) {
    PyErr_SetString(PyExc_ValueError,
                    "memory without a path is a new filter, which needs a capacity");
    return NULL;
  }
  const char *text = name != NULL ? PyBytes_AsString(name) : NULL;
  Py_BEGIN_ALLOW_THREADS result =
      is_number ? tamis_open_shared_fd(options, fd, &raw) : tamis_open_shared(options, text, &raw);
  error = errno;
  Py_END_ALLOW_THREADS if (result != TAMIS_OK)
      raise_shared(state, options, text, result, error, path != Py_None ? path : NULL);
  else if (name == NULL) made = filter_wrap(state, type, raw, MODE_SHARED, NULL);
  else if ((absolute = PyObject_CallFunctionObjArgs(state->abspath, path, NULL)) == NULL)
      tamis_destroy(raw);
  else made = filter_wrap(state, type, raw, MODE_SHARED, absolute);
  Py_XDECREF(absolute);
  Py_XDECREF(name);
  return made;
}

/* Which kind a call of shared() names, and its other keywords.  0: it names none; less: an error. */
static int named_kind(const module_state *state, PyObject *keywords, PyObject **others)
{
  *others = keywords != NULL ? PyDict_Copy(keywords) : PyDict_New();
  PyObject *type = *others != NULL ? PyDict_GetItemString(*others, "kind") : NULL;
  int kind = TAMIS_BLOOM;
  if (*others == NULL)
    return -1;
  if (type == NULL)
    return 0;
  if (type == Py_None)
    kind = 0;
  else if (type == (PyObject *) state->kinds[TAMIS_CUCKOO])
    kind = TAMIS_CUCKOO;
  else if (type != (PyObject *) state->kinds[TAMIS_BLOOM]) {
    PyErr_SetString(PyExc_TypeError, "kind must be tamis.Bloom, tamis.Cuckoo, or None");
    return -1;
  }
  return PyDict_DelItemString(*others, "kind") < 0 ? -1 : kind;
}

/* Takes file_mode and group out of the keywords of shared(). */
static bool take_access(PyObject *keywords, tamis_file_access *access,
                        const tamis_file_access **given)
{
  PyObject *mode = PyDict_GetItemString(keywords, "file_mode");
  PyObject *group = PyDict_GetItemString(keywords, "group");
  return access_read(mode, group, access, given) &&
         (mode == NULL || PyDict_DelItemString(keywords, "file_mode") == 0) &&
         (group == NULL || PyDict_DelItemString(keywords, "group") == 0);
}

PyObject *module_shared(PyObject *module, PyObject *arguments, PyObject *keywords)
{
  struct wanted wanted;
  tamis_file_access access;
  const tamis_file_access *given;
  module_state *state = state_of_module(module);
  PyObject *path, *named, *made = NULL;
  Py_ssize_t n = PyTuple_Size(arguments);
  if (n < 1) {
    PyErr_SetString(PyExc_TypeError, "shared() needs a path, a file descriptor, or None");
    return NULL;
  }
  PyObject *others = PyTuple_GetSlice(arguments, 1, n);
  path = PyTuple_GetItem(arguments, 0);
  const int kind = named_kind(state, keywords, &named);
  if (others != NULL && kind >= 0 && take_access(named, &access, &given) &&
      wanted_read(&wanted, kind ? (tamis_kind) kind : TAMIS_BLOOM, true, others, named) &&
      (path != Py_None || wanted_seed(&wanted, state))) {
    wanted.options.access = given;
    made = share(state, kind ? state->kinds[kind] : NULL, path,
                 wanted.has_capacity ? &wanted.options : NULL);
  }
  Py_XDECREF(named);
  Py_XDECREF(others);
  return made;
}

/* ---- pickle and copies ---- */

static const char *const mode_names[] = {
    [MODE_PRIVATE] = "bytes", [MODE_MAPPED] = "mapped", [MODE_SHARED] = "shared"};

/* What _restore() needs beside the type. */
static PyObject *contents(filter_object *f)
{
  if (f->mode == MODE_PRIVATE)
    return filter_to_bytes((PyObject *) f, NULL);
  if (f->path != NULL)
    return Py_NewRef(f->path);
  PyErr_SetString(
      PyExc_TypeError,
      "a shared filter without a path cannot be pickled or copied: give it a path, or fork");
  return NULL;
}

PyObject *module_restore(PyObject *module, PyObject *arguments)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  module_state *state = state_of_module(module);
  PyObject *type, *data;
  const char *mode;
  if (!PyArg_ParseTuple(arguments, "OsO:_restore", &type, &mode, &data))
    return NULL;
  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *) type, state->filter))
    PyErr_SetString(PyExc_TypeError, "the first argument must be a kind of filter");
  else if (strcmp(mode, mode_names[MODE_PRIVATE]) == 0)
    return load_bytes(state, (PyTypeObject *) type, data, 0);
  else if (strcmp(mode, mode_names[MODE_MAPPED]) == 0)
    return from_file(state, (PyTypeObject *) type, data, &options, MODE_MAPPED);
  else if (strcmp(mode, mode_names[MODE_SHARED]) == 0)
    return share(state, (PyTypeObject *) type, data, NULL);
  else
    PyErr_Format(PyExc_ValueError, "'%s' is none of 'bytes', 'mapped' and 'shared'", mode);
  return NULL;
}

PyObject *filter_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
  filter_object *f = as_filter(self);
  PyObject *data = contents(f);
  if (data == NULL)
    return NULL;
  /* The attributes of a derived type, those in __slots__ too, or what its own __getstate__ says. */
  PyObject *own = PyObject_CallMethod(self, "__getstate__", NULL), *reduced = NULL;
  if (own != NULL)
    reduced =
        Py_BuildValue("O(OsO)O", f->state->restore, Py_TYPE(self), mode_names[f->mode], data, own);
  Py_XDECREF(own);
  Py_DECREF(data);
  return reduced;
}

/* What pickle and the module copy do with the state: a dict of attributes, a pair of such a dict and
 * that of __slots__, or what __setstate__ knows. */
static bool set_state(PyObject *copy, PyObject *state)
{
  if (state == Py_None)
    return true;
  if (PyObject_HasAttrString(copy, "__setstate__")) {
    PyObject *none = PyObject_CallMethod(copy, "__setstate__", "(O)", state);
    Py_XDECREF(none);
    return none != NULL;
  }
  bool is_pair = PyTuple_Check(state) && PyTuple_Size(state) == 2;
  for (Py_ssize_t i = 0; i < (is_pair ? 2 : 1); i++) {
    PyObject *part = is_pair ? PyTuple_GetItem(state, i) : state, *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Check(part) && PyDict_Next(part, &at, &name, &value))
      if (PyObject_SetAttr(copy, name, value) < 0)
        return false;
  }
  return true;
}

PyObject *filter_copy(PyObject *self, PyObject *Py_UNUSED(unused))
{
  PyObject *reduced = filter_reduce(self, NULL);
  if (reduced == NULL)
    return NULL;
  PyObject *copy = PyObject_CallObject(PyTuple_GetItem(reduced, 0), PyTuple_GetItem(reduced, 1));
  if (copy != NULL && !set_state(copy, PyTuple_GetItem(reduced, 2)))
    Py_CLEAR(copy);
  Py_DECREF(reduced);
  return copy;
}
