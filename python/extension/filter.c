/* SPDX-License-Identifier: MIT
 *
 * The types Filter, Bloom, Cuckoo and CountingBloom: how their objects come and go, and the calls with
 * one key.
 *
 * Calls with one key keep the GIL.  They take some tens of nanoseconds, and to let the GIL go and take
 * it again costs as much; and a call that waits for a lock of the library's waits for a few steps of
 * another thread, which needs no GIL for them.
 */
#include "module.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <structmember.h>

/* ---- filters that an object has, and had ---- */

#ifdef Py_GIL_DISABLED
enum { HAS_GIL = 0 }; /* calls with one key do not hold their filter */
#else
enum { HAS_GIL = 1 };
#endif

struct owned *filter_hold(const filter_object *f)
{
  struct owned *owned = atomic_load(&f->owned);
  atomic_fetch_add(&owned->holders, 1);
  return owned;
}

void owned_let_go(struct owned *owned)
{
  if (atomic_fetch_sub(&owned->holders, 1) != 1)
    return;
  tamis_destroy(owned->raw);
  free(owned);
}

void filter_take_over(filter_object *f, filter_object *from)
{
  struct owned *owned = atomic_exchange(&from->owned, NULL), *before = atomic_load(&f->owned);
  do
    owned->next = HAS_GIL ? NULL : before;
  while (!atomic_compare_exchange_weak(&f->owned, &before, owned));
  if (HAS_GIL)
    owned_let_go(before);
}

void filters_close(struct filters *filters)
{
  for (size_t i = 0; filters->held != NULL && i < filters->n; i++)
    if (filters->held[i] != NULL)
      owned_let_go(filters->held[i]);
  free(filters->held);
  free(filters->raw);
}

static bool filters_hold(const module_state *state, PyObject *objects, struct filters *filters)
{
  for (size_t i = 0; i < filters->n; i++) {
    PyObject *object = PyTuple_GetItem(objects, (Py_ssize_t) i);
    if (object == Py_None)
      continue;
    if (!PyObject_TypeCheck(object, state->filter)) {
      PyErr_Format(PyExc_TypeError, "filters must be filters or None, not %R", Py_TYPE(object));
      return false;
    }
    filters->held[i] = filter_hold(as_filter(object));
    filters->raw[i] = filters->held[i]->raw;
  }
  return true;
}

bool filters_open(const module_state *state, PyObject *from, struct filters *filters)
{
  PyObject *objects = PySequence_Tuple(from);
  *filters = (struct filters){.n = objects != NULL ? (size_t) PyTuple_Size(objects) : 0};
  filters->held = objects != NULL ? calloc(filters->n + 1, sizeof *filters->held) : NULL;
  filters->raw = objects != NULL ? calloc(filters->n + 1, sizeof *filters->raw) : NULL;
  if (objects != NULL && (filters->held == NULL || filters->raw == NULL))
    PyErr_NoMemory();
  bool are_held = !PyErr_Occurred() && filters_hold(state, objects, filters);
  Py_XDECREF(objects);
  return are_held;
}

/* ---- creation ---- */

static filter_object *allocate(PyTypeObject *type, module_state *state)
{
  filter_object *f = as_filter(PyType_GenericAlloc(type, 0));
  if (f != NULL)
    f->state = state;
  return f;
}

PyObject *filter_wrap(module_state *state, PyTypeObject *type, tamis_filter *raw,
                      enum filter_mode mode, PyObject *path)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(raw, &stats);
  PyTypeObject *own = state->kinds[stats.kind];
  type = type != NULL ? type : own;
  filter_object *f = NULL;
  struct owned *owned = malloc(sizeof *owned);
  if (!PyType_IsSubtype(type, own))
    PyErr_Format(PyExc_ValueError, "the filter is no %R", type);
  else if (owned == NULL)
    PyErr_NoMemory();
  else
    f = allocate(type, state);
  if (f == NULL) {
    tamis_destroy(raw);
    free(owned);
    return NULL;
  }
  *owned = (struct owned){.raw = raw, .holders = 1};
  atomic_store(&f->owned, owned);
  f->kind = stats.kind;
  f->window = stats.parts - 1;
  f->mode = mode;
  f->path = path != NULL ? Py_NewRef(path) : NULL;
  return (PyObject *) f;
}

/* Says which option is refused, where that is the reason. */
static PyObject *raise_options(const module_state *state, const tamis_options *options, int result)
{
  char why[512];
  if (result == TAMIS_ENOMEM || tamis_options_check(options, why, sizeof why) == TAMIS_OK)
    return raise_result(state, result, 0, NULL);
  PyErr_SetString(PyExc_ValueError, why);
  return NULL;
}

static PyObject *create(PyTypeObject *type, tamis_kind kind, PyObject *arguments,
                        PyObject *keywords)
{
  struct wanted wanted;
  tamis_filter *raw = NULL;
  module_state *state = state_of_type(type);
  if (state == NULL || !wanted_read(&wanted, kind, false, arguments, keywords) ||
      !wanted_seed(&wanted, state))
    return NULL;
  int result;
  Py_BEGIN_ALLOW_THREADS /* a small cuckoo filter touches all its pages */
      result = tamis_create(&wanted.options, &raw);
  Py_END_ALLOW_THREADS if (result == TAMIS_OK) return filter_wrap(state, type, raw, MODE_PRIVATE,
                                                                  NULL);
  uint64_t bytes = 0;
  if (result == TAMIS_ENOMEM && tamis_bytes_for(&wanted.options, &bytes) == TAMIS_OK)
    return PyErr_Format(PyExc_MemoryError, "the filter takes %llu bytes",
                        (unsigned long long) bytes);
  return raise_options(state, &wanted.options, result);
}

static PyObject *abstract_new(PyTypeObject *type, PyObject *Py_UNUSED(arguments),
                              PyObject *Py_UNUSED(keywords))
{
  PyErr_Format(PyExc_TypeError, "%R cannot be created; use Bloom, Cuckoo or CountingBloom", type);
  return NULL;
}

static void dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  filter_object *f = as_filter(self);
  if (f->weak_references != NULL)
    PyObject_ClearWeakRefs(self);
  struct owned *owned = atomic_load(&f->owned);
  while (owned != NULL) {
    struct owned *before = owned->next;
    owned_let_go(owned);
    owned = before;
  }
  Py_XDECREF(f->path);
  freefunc release = (freefunc) PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* ---- sizes, before anything is created ---- */

static PyObject *bytes_for(PyObject *type, tamis_kind kind, PyObject *arguments, PyObject *keywords)
{
  struct wanted wanted;
  uint64_t bytes = 0;
  const module_state *state = state_of_type((PyTypeObject *) type);
  if (state == NULL || !wanted_read(&wanted, kind, false, arguments, keywords))
    return NULL;
  wanted.options.seed = wanted.options.seed != 0 ? wanted.options.seed : 1; /* no matter which */
  int result = tamis_bytes_for(&wanted.options, &bytes);
  if (result == TAMIS_OK)
    return PyLong_FromUnsignedLongLong(bytes);
  return raise_options(state, &wanted.options, result);
}

#define OF_KIND(name, kind)                                                                  \
  static PyObject *name##_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)   \
  {                                                                                          \
    return create(type, kind, arguments, keywords);                                          \
  }                                                                                          \
  static PyObject *name##_bytes_for(PyObject *type, PyObject *arguments, PyObject *keywords) \
  {                                                                                          \
    return bytes_for(type, kind, arguments, keywords);                                       \
  }
OF_KIND(bloom, TAMIS_BLOOM)
OF_KIND(cuckoo, TAMIS_CUCKOO)
OF_KIND(counting, TAMIS_COUNTING_BLOOM)

/* ---- one key ---- */

static int contains(PyObject *self, PyObject *object)
{
  struct key key;
  if (!key_read(object, &key))
    return -1;
  int is_in = tamis_contains(raw_of(as_filter(self)), key.data, key.len);
  key_release(&key);
  return is_in;
}

static int add_key(const filter_object *f, const struct key *key, bool unique, int periods)
{
  if (periods == WHOLE_WINDOW)
    return (unique ? tamis_add_unique : tamis_add)(raw_of(f), key->data, key->len);
  return (unique ? tamis_add_unique_for : tamis_add_for)(raw_of(f), key->data, key->len,
                                                         (unsigned) periods);
}

/* Adds a key if it is not in; if it is, and `counts`, a copy.  Less than 0 with an exception. */
static int add_with(const filter_object *f, PyObject *const *arguments, Py_ssize_t n,
                    PyObject *names, bool unique, bool counts)
{
  struct key key;
  int periods;
  if (!add_one_read(f, arguments, n, names, &periods) || !key_read(arguments[0], &key))
    return -1;
  int result = add_key(f, &key, unique, periods), error = errno;
  if (result == TAMIS_PRESENT && counts) {
    int copied = add_key(f, &key, false, periods);
    error = errno;
    result = copied < 0 ? copied : result;
  }
  key_release(&key);
  if (result < 0)
    raise_change(f, result, error);
  return result;
}

static PyObject *answer(int result)
{
  return result < 0 ? NULL : Py_NewRef(result == TAMIS_OK ? Py_True : Py_False);
}

static PyObject *add(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names)
{
  const filter_object *f = as_filter(self);
  return answer(add_with(f, arguments, n, names, true, filter_counts(f)));
}

static PyObject *add_unique(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                            PyObject *names)
{
  return answer(add_with(as_filter(self), arguments, n, names, true, false));
}

static PyObject *add_copy(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names)
{
  if (add_with(as_filter(self), arguments, n, names, false, false) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *number_for(PyObject *self, PyObject *object,
                            uint64_t (*call)(const tamis_filter *, const void *, size_t))
{
  struct key key;
  if (!key_read(object, &key))
    return NULL;
  uint64_t number = call(raw_of(as_filter(self)), key.data, key.len);
  key_release(&key);
  return PyLong_FromUnsignedLongLong(number);
}

static PyObject *count(PyObject *self, PyObject *object)
{
  return number_for(self, object, tamis_count);
}

static PyObject *hash_of(PyObject *self, PyObject *object)
{
  return number_for(self, object, tamis_hash);
}

/* TAMIS_OK or TAMIS_ABSENT, or less than 0 with an exception. */
static int take_out(PyObject *self, PyObject *object)
{
  struct key key;
  if (!key_read(object, &key))
    return -1;
  int result = tamis_remove(raw_of(as_filter(self)), key.data, key.len), error = errno;
  key_release(&key);
  if (result < 0)
    raise_change(as_filter(self), result, error);
  return result;
}

static PyObject *discard(PyObject *self, PyObject *object)
{
  return answer(take_out(self, object));
}

static PyObject *remove_key(PyObject *self, PyObject *object)
{
  int result = take_out(self, object);
  if (result == TAMIS_OK)
    Py_RETURN_NONE;
  if (result > 0)
    PyErr_SetObject(PyExc_KeyError, object);
  return NULL;
}

/* ---- the whole filter ---- */

typedef int period_call(tamis_filter *f, uint64_t period);

static PyObject *change_period(PyObject *self, period_call *call, uint64_t period)
{
  const filter_object *f = as_filter(self);
  int result, error;
  struct owned *owned = filter_hold(f);
  Py_BEGIN_ALLOW_THREADS result = call(owned->raw, period);
  error = errno;
  Py_END_ALLOW_THREADS owned_let_go(owned);
  if (result == TAMIS_OK)
    Py_RETURN_NONE;
  if (result != TAMIS_EUNSUPPORTED)
    return raise_result(f->state, result, error, f->path);
  PyErr_SetString(PyExc_ValueError, NO_WINDOW_TEXT);
  return NULL;
}

static int end_period(tamis_filter *f, uint64_t unused)
{
  (void) unused;
  return tamis_advance(f);
}

static PyObject *advance(PyObject *self, PyObject *Py_UNUSED(unused))
{
  return change_period(self, end_period, 0);
}

static PyObject *with_period(PyObject *self, PyObject *object, period_call *call)
{
  uint64_t period;
  bool is_read =
      read_number(object, "period", 0, (UINT64_C(1) << 36) - 1, "from 0 to 2**36 - 1", &period);
  return is_read ? change_period(self, call, period) : NULL;
}

static PyObject *advance_to(PyObject *self, PyObject *object)
{
  return with_period(self, object, tamis_advance_to);
}

static PyObject *set_period(PyObject *self, PyObject *object)
{
  return with_period(self, object, tamis_set_period);
}

/* ---- the types ---- */

/* Of an add, which has the keyword `periods`. */
#define WITH_PERIODS (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef filter_methods[] = {
    {"add", FUNCTION(add), WITH_PERIODS, ADD_TEXT},
    {"add_copy", FUNCTION(add_copy), WITH_PERIODS, ADD_COPY_TEXT},
    {"count", count, METH_O, COUNT_TEXT},
    {"hash", hash_of, METH_O, HASH_TEXT},
    {"update", FUNCTION(filter_update), WITH_PERIODS, UPDATE_TEXT},
    {"add_many", FUNCTION(filter_add_many), WITH_PERIODS, ADD_MANY_TEXT},
    {"contains_many", filter_contains_many, METH_O, CONTAINS_MANY_TEXT},
    {"union", FUNCTION(filter_union), METH_FASTCALL, UNION_TEXT},
    {"isdisjoint", filter_is_disjoint, METH_O, IS_DISJOINT_TEXT},
    {"clear", filter_clear, METH_NOARGS, CLEAR_TEXT},
    {"save", FUNCTION(filter_save), METH_VARARGS | METH_KEYWORDS, SAVE_TEXT},
    {"to_bytes", filter_to_bytes, METH_NOARGS, TO_BYTES_TEXT},
    {"to_text", filter_to_text, METH_NOARGS, TO_TEXT_TEXT},
    {"copy", filter_copy, METH_NOARGS, COPY_TEXT},
    {"__reduce__", filter_reduce, METH_NOARGS, REDUCE_TEXT},
    {"stats", filter_stats, METH_NOARGS, STATS_TEXT},
    {"to_prometheus", filter_to_prometheus, METH_O, TO_PROMETHEUS_TEXT},
    {"to_json", FUNCTION(filter_to_json), METH_FASTCALL, TO_JSON_TEXT},
    {NULL, NULL, 0, NULL}};

static PyMemberDef filter_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(filter_object, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot filter_slots[] = {{Py_tp_doc, FILTER_TEXT},
                                     {Py_tp_new, abstract_new},
                                     {Py_tp_dealloc, dealloc},
                                     {Py_tp_repr, filter_repr},
                                     {Py_tp_methods, filter_methods},
                                     {Py_tp_members, filter_members},
                                     {Py_tp_getset, filter_attributes},
                                     {Py_sq_contains, contains},
                                     {Py_sq_length, filter_length},
                                     {Py_nb_or, filter_unite},
                                     {Py_nb_inplace_or, filter_unite_into},
                                     {Py_tp_richcompare, filter_compare},
                                     {0, NULL}};

/* Of kinds whose filters include each other. */
#define COMPARING_METHODS                                      \
  {"issubset", filter_is_subset, METH_O, IS_SUBSET_TEXT},      \
  {                                                            \
    "issuperset", filter_is_superset, METH_O, IS_SUPERSET_TEXT \
  }

static PyMethodDef bloom_methods[] = {
    {"advance", advance, METH_NOARGS, ADVANCE_TEXT},
    {"advance_to", advance_to, METH_O, ADVANCE_TO_TEXT},
    {"set_period", set_period, METH_O, SET_PERIOD_TEXT},
    {"sync", filter_sync, METH_NOARGS, SYNC_TEXT},
    {"similarity", filter_similarity, METH_O, SIMILARITY_TEXT},
    {"intersection", FUNCTION(filter_intersection), METH_FASTCALL, INTERSECTION_TEXT},
    {"intersection_update", FUNCTION(filter_intersection_update), METH_FASTCALL,
     INTERSECTION_UPDATE_TEXT},
    COMPARING_METHODS,
    {"bytes_for", FUNCTION(bloom_bytes_for), METH_CLASS | METH_VARARGS | METH_KEYWORDS,
     BYTES_FOR_TEXT},
    {NULL, NULL, 0, NULL}};

static PyType_Slot bloom_slots[] = {{Py_tp_doc, BLOOM_TEXT},
                                    {Py_tp_new, bloom_new},
                                    {Py_tp_methods, bloom_methods},
                                    {Py_nb_and, filter_intersect},
                                    {Py_nb_inplace_and, filter_intersect_into},
                                    {0, NULL}};

/* Of kinds that count copies of keys. */
#define COUNTING_METHODS                                                                         \
  {"add_unique", FUNCTION(add_unique), WITH_PERIODS, ADD_UNIQUE_TEXT},                           \
      {"add_unique_many", FUNCTION(filter_add_unique_many), WITH_PERIODS, ADD_UNIQUE_MANY_TEXT}, \
      {"discard", discard, METH_O, DISCARD_TEXT},                                                \
  {                                                                                              \
    "remove", remove_key, METH_O, REMOVE_TEXT                                                    \
  }

static PyMethodDef cuckoo_methods[] = {{"advance", advance, METH_NOARGS, ADVANCE_TEXT},
                                       {"advance_to", advance_to, METH_O, ADVANCE_TO_TEXT},
                                       {"set_period", set_period, METH_O, SET_PERIOD_TEXT},
                                       COUNTING_METHODS,
                                       {"bytes_for", FUNCTION(cuckoo_bytes_for),
                                        METH_CLASS | METH_VARARGS | METH_KEYWORDS, BYTES_FOR_TEXT},
                                       {NULL, NULL, 0, NULL}};

static PyType_Slot cuckoo_slots[] = {
    {Py_tp_doc, CUCKOO_TEXT}, {Py_tp_new, cuckoo_new}, {Py_tp_methods, cuckoo_methods}, {0, NULL}};

static PyMethodDef counting_methods[] = {COUNTING_METHODS,
                                         COMPARING_METHODS,
                                         {"bytes_for", FUNCTION(counting_bytes_for),
                                          METH_CLASS | METH_VARARGS | METH_KEYWORDS,
                                          BYTES_FOR_TEXT},
                                         {NULL, NULL, 0, NULL}};

static PyType_Slot counting_slots[] = {{Py_tp_doc, COUNTING_TEXT},
                                       {Py_tp_new, counting_new},
                                       {Py_tp_methods, counting_methods},
                                       {0, NULL}};

static PyTypeObject *add_type(PyObject *module, const char *name, PyType_Slot *slots,
                              PyTypeObject *base)
{
  PyType_Spec spec = {.name = name,
                      .basicsize = sizeof(filter_object),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                      .slots = slots};
  PyTypeObject *type = (PyTypeObject *) PyType_FromModuleAndSpec(module, &spec, (PyObject *) base);
  if (type != NULL && PyModule_AddType(module, type) < 0)
    Py_CLEAR(type);
  return type;
}

int filter_add_types(PyObject *module, module_state *state)
{
  PyTypeObject **kinds = state->kinds;
  if ((state->filter = add_type(module, "tamis.Filter", filter_slots, NULL)) == NULL ||
      (kinds[TAMIS_BLOOM] = add_type(module, "tamis.Bloom", bloom_slots, state->filter)) == NULL ||
      (kinds[TAMIS_CUCKOO] = add_type(module, "tamis.Cuckoo", cuckoo_slots, state->filter)) == NULL)
    return -1;
  kinds[TAMIS_COUNTING_BLOOM] =
      add_type(module, "tamis.CountingBloom", counting_slots, state->filter);
  return kinds[TAMIS_COUNTING_BLOOM] != NULL ? 0 : -1;
}
