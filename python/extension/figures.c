/* SPDX-License-Identifier: MIT
 *
 * Figures: attributes, statistics as a dataclass and as text.
 */
#include "module.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>

static tamis_stats stats_of(PyObject *self)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(raw_of(as_filter(self)), &stats);
  return stats;
}

static const char *const kind_names[] = {
    [TAMIS_BLOOM] = "bloom", [TAMIS_CUCKOO] = "cuckoo", [TAMIS_COUNTING_BLOOM] = "counting_bloom"};
static const char *const layout_names[] = {"blocked", "classic", "word"};

static const char *layout_of(const tamis_stats *stats)
{
  return stats->kind == TAMIS_BLOOM && stats->parts <= 1 ? layout_names[stats->layout] : NULL;
}

/* ---- attributes ---- */

static tamis_options options_of(PyObject *self)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_get_options(raw_of(as_filter(self)), &options);
  return options;
}

static PyObject *layout_or_none(tamis_stats stats)
{
  return Py_BuildValue("z", layout_of(&stats));
}

static PyObject *limit_or_none(uint64_t max_bytes)
{
  return max_bytes != 0 ? PyLong_FromUnsignedLongLong(max_bytes) : Py_NewRef(Py_None);
}

static PyObject *path_or_none(PyObject *path)
{
  return Py_NewRef(path != NULL ? path : Py_None);
}

static const char *const mode_names[] = {"private", "mapped", "shared"};

/* The name of each attribute, its value, and its docstring. */
#define ATTRIBUTES(A)                                                                          \
  A(capacity, PyLong_FromUnsignedLongLong(stats_of(self).capacity),                            \
    "The capacity that the filter was created with.")                                          \
  A(fpp, PyFloat_FromDouble(stats_of(self).fpp),                                               \
    "The false-positive probability that the filter was created with.")                        \
  A(kind, PyUnicode_FromString(kind_names[as_filter(self)->kind]),                             \
    "'bloom', 'cuckoo' or 'counting_bloom'.")                                                  \
  A(layout, layout_or_none(stats_of(self)),                                                    \
    "Of a Bloom filter without a window: 'blocked', 'classic' or 'word'; else None.")          \
  A(growable, PyBool_FromLong(options_of(self).growable),                                      \
    "Whether the filter takes more keys than capacity.")                                       \
  A(max_bytes, limit_or_none(options_of(self).max_bytes), "The limit of its memory, or None.") \
  A(window, PyLong_FromUnsignedLong(as_filter(self)->window),                                  \
    "The periods of its window; 0: none.")                                                     \
  A(window_renews, PyBool_FromLong(options_of(self).window_renews),                            \
    "Whether an add of a key that is in renews its time.")                                     \
  A(seed, PyLong_FromUnsignedLongLong(stats_of(self).seed),                                    \
    "The seed, which is a secret: whoever knows it can choose keys that\ncollide.")            \
  A(nbytes, PyLong_FromUnsignedLongLong(stats_of(self).bytes),                                 \
    "The bytes of memory that the filter takes.")                                              \
  A(mode, PyUnicode_FromString(mode_names[as_filter(self)->mode]),                             \
    "'private', 'mapped' (see open) or 'shared'.")                                             \
  A(path, path_or_none(as_filter(self)->path),                                                 \
    "The absolute path of a filter that is mapped or shared, or None.")

#define GETTER(name, value, text)                                      \
  static PyObject *get_##name(PyObject *self, void *Py_UNUSED(unused)) \
  {                                                                    \
    return value;                                                      \
  }
ATTRIBUTES(GETTER)

#define ROW(name, value, text) {#name, get_##name, NULL, text, NULL},
PyGetSetDef filter_attributes[] = {ATTRIBUTES(ROW){NULL, NULL, NULL, NULL, NULL}};
#undef ROW

Py_ssize_t filter_length(PyObject *self)
{
  uint64_t count = stats_of(self).count;
  return count < (uint64_t) PY_SSIZE_T_MAX ? (Py_ssize_t) count : PY_SSIZE_T_MAX;
}

/* What a repr says only of some filters: a window, growable=False, and where the filter is. */
static PyObject *repr_details(PyObject *self)
{
  static const char *const places[] = {"", ", mapped", ", shared"};
  const filter_object *f = as_filter(self);
  const char *fixed = options_of(self).growable ? "" : " growable=False";
  char window[32] = "";
  if (f->window > 0)
    (void) PyOS_snprintf(window, sizeof window, " window=%u", f->window);
  return PyUnicode_FromFormat("%s%s, %zd keys%s", window, fixed, filter_length(self),
                              places[f->mode]);
}

PyObject *filter_repr(PyObject *self)
{
  tamis_stats stats = stats_of(self);
  PyObject *name = PyType_GetName(Py_TYPE(self)), *fpp = PyFloat_FromDouble(stats.fpp),
           *details = repr_details(self), *path = as_filter(self)->path, *repr = NULL;
  if (name != NULL && fpp != NULL && details != NULL)
    repr = path != NULL
               ? PyUnicode_FromFormat("<%U capacity=%llu fpp=%R%U at %R>", name,
                                      (unsigned long long) stats.capacity, fpp, details, path)
               : PyUnicode_FromFormat("<%U capacity=%llu fpp=%R%U>", name,
                                      (unsigned long long) stats.capacity, fpp, details);
  Py_XDECREF(name);
  Py_XDECREF(fpp);
  Py_XDECREF(details);
  return repr;
}

/* ---- as a dataclass ---- */

typedef unsigned long long ull;

PyObject *filter_stats(PyObject *self, PyObject *Py_UNUSED(unused))
{
  tamis_stats s = stats_of(self);
  /* In the order of the fields of tamis.Stats. */
  return PyObject_CallFunction(
      as_filter(self)->state->stats, "szKdKdddKKKIKIIKKIdKKKKKIKKK", kind_names[s.kind],
      layout_of(&s), (ull) s.count, s.estimated_count, (ull) s.capacity, s.load, s.fpp,
      s.fpp_estimate, (ull) s.bytes, (ull) s.bits, (ull) s.bits_set, s.bits_per_key,
      (ull) s.growths, s.layers, s.generations, (ull) s.segments, (ull) s.joins, s.fingerprint_bits,
      s.occupancy, (ull) s.evictions, (ull) s.failed_searches, (ull) s.refused_adds,
      (ull) s.lookup_retries, (ull) s.longest_growth_ns, s.parts - 1, (ull) s.oldest_part_age,
      (ull) s.united_count, (ull) s.period);
}

PyObject *filter_similarity(PyObject *self, PyObject *other)
{
  module_state *state = as_filter(self)->state;
  tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
  if (!PyObject_TypeCheck(other, state->filter)) {
    PyErr_Format(PyExc_TypeError, "the other one must be a filter, not %R", Py_TYPE(other));
    return NULL;
  }
  int result;
  struct owned *own = filter_hold(as_filter(self)), *others = filter_hold(as_filter(other));
  Py_BEGIN_ALLOW_THREADS result = tamis_similarity(own->raw, others->raw, &s);
  Py_END_ALLOW_THREADS owned_let_go(own);
  owned_let_go(others);
  if (result == TAMIS_OK)
    return PyObject_CallFunction(state->similarity, "ddddd", s.estimated_a, s.estimated_b, s.united,
                                 s.common, s.jaccard);
  PyErr_SetString(PyExc_ValueError, result == TAMIS_EINVAL ? DO_NOT_FIT_TEXT : ONE_LAYER_TEXT);
  return NULL;
}

/* ---- as text ---- */

/* A name as the library takes it; NULL with an exception. */
static const char *name_from(PyObject *object)
{
  Py_ssize_t size;
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "a name must be a str, not %R", Py_TYPE(object));
    return NULL;
  }
  const char *name = PyUnicode_AsUTF8AndSize(object, &size);
  if (name != NULL && strlen(name) != (size_t) size) {
    PyErr_SetString(PyExc_ValueError, "a name must not have a null character");
    return NULL;
  }
  return name;
}

static PyObject *text_of(PyObject *self, tamis_text_format format, const char *name)
{
  struct bytes bytes = {NULL, 0, 0};
  int result = tamis_stats_text(raw_of(as_filter(self)), format, name, bytes_append, &bytes);
  return bytes_end(&bytes, PyUnicode_FromStringAndSize, as_filter(self)->state, result, NULL);
}

PyObject *filter_to_prometheus(PyObject *self, PyObject *name)
{
  const char *text = name_from(name);
  return text != NULL ? text_of(self, TAMIS_PROMETHEUS, text) : NULL;
}

PyObject *filter_to_json(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
  if (n > 1) {
    PyErr_SetString(PyExc_TypeError, "to_json() takes at most one name");
    return NULL;
  }
  const char *name = NULL;
  if (n == 1 && arguments[0] != Py_None && (name = name_from(arguments[0])) == NULL)
    return NULL;
  return text_of(self, TAMIS_JSON, name);
}

/* The items stay alive in `items` meanwhile. */
static PyObject *page(const module_state *state, PyObject *items, Py_ssize_t n)
{
  struct bytes bytes = {NULL, 0, 0};
  PyObject *text = NULL;
  const tamis_filter **filters = PyMem_Calloc((size_t) n + 1, sizeof *filters);
  const char **names = PyMem_Calloc((size_t) n + 1, sizeof *names);
  bool are_read = filters != NULL && names != NULL;
  if (!are_read)
    PyErr_NoMemory();
  for (Py_ssize_t i = 0; are_read && i < n; i++) {
    PyObject *item = PyList_GetItem(items, i), *name, *filter;
    are_read = PyArg_ParseTuple(item, "OO", &name, &filter) && (names[i] = name_from(name)) != NULL;
    if (are_read && !PyObject_TypeCheck(filter, state->filter)) {
      PyErr_Format(PyExc_TypeError, "'%s' is no filter, but %R", names[i], Py_TYPE(filter));
      are_read = false;
    }
    if (are_read)
      filters[i] = raw_of(as_filter(filter));
  }
  if (are_read) {
    int result =
        tamis_stats_text_many(filters, names, (size_t) n, TAMIS_PROMETHEUS, bytes_append, &bytes);
    text = bytes_end(&bytes, PyUnicode_FromStringAndSize, state, result, NULL);
  }
  PyMem_Free(filters);
  PyMem_Free(names);
  return text;
}

PyObject *module_to_prometheus(PyObject *module, PyObject *filters)
{
  if (!PyDict_Check(filters)) {
    PyErr_Format(PyExc_TypeError, "a dict of filters is wanted, not %R", Py_TYPE(filters));
    return NULL;
  }
  PyObject *items = PyDict_Items(filters);
  PyObject *text = items != NULL ? page(state_of_module(module), items, PyList_Size(items)) : NULL;
  Py_XDECREF(items);
  return text;
}
