/* SPDX-License-Identifier: MIT
 *
 * What filters have as sets have it: union, intersection, comparison and clear().
 *
 * Where a set takes any iterable, so does a filter: of its keys a filter is made that fits.
 */
#include "module.h"
#include "text.h"

#include <errno.h>

static bool is_filter(const filter_object *f, PyObject *object)
{
  return PyObject_TypeCheck(object, f->state->filter);
}

/* Two filters that a call has while it lets the GIL go. */
struct pair {
  struct owned *first, *second;
};

static struct pair pair_hold(PyObject *first, PyObject *second)
{
  return (struct pair){filter_hold(as_filter(first)), filter_hold(as_filter(second))};
}

static void pair_let_go(const struct pair *pair)
{
  owned_let_go(pair->first);
  owned_let_go(pair->second);
}

/* ---- filters that fit ---- */

/* A private filter with the same keys, of the type for its kind. */
static PyObject *private_copy(PyObject *self)
{
  const filter_object *f = as_filter(self);
  PyObject *bytes = filter_to_bytes(self, NULL), *copy = NULL;
  if (bytes != NULL)
    copy =
        PyObject_CallFunction(f->state->restore, "OsO", f->state->kinds[f->kind], "bytes", bytes);
  Py_XDECREF(bytes);
  return copy;
}

/* A new filter with the same options and, with a window, in the same period. */
static PyObject *empty_like(const filter_object *f)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *raw = NULL;
  tamis_get_options(raw_of(f), &options);
  int result = tamis_create(&options, &raw);
  tamis_stats stats = TAMIS_STATS_INIT;
  if (result == TAMIS_OK && tamis_get_stats(raw_of(f), &stats) == TAMIS_OK)
    (void) tamis_set_period(raw, stats.period);
  return result == TAMIS_OK ? filter_wrap(f->state, NULL, raw, MODE_PRIVATE, NULL)
                            : raise_result(f->state, result, 0, NULL);
}

/* The other filter, or one of the keys of an iterable. */
static PyObject *filter_of(PyObject *self, PyObject *other)
{
  if (is_filter(as_filter(self), other))
    return Py_NewRef(other);
  PyObject *made = empty_like(as_filter(self));
  PyObject *none = made != NULL ? filter_update(made, &other, 1, NULL) : NULL;
  if (none == NULL)
    Py_CLEAR(made);
  Py_XDECREF(none);
  return made;
}

/* ---- another content for a filter ---- */

/* Whether the object may get another filter: one that only this process has, and can change. */
static bool may_replace(const filter_object *f)
{
  if (f->mode == MODE_SHARED)
    PyErr_SetString(f->state->unsupported,
                    "a shared filter keeps its keys: other processes have it, too");
  else if (f->mode == MODE_MAPPED)
    raise_change(f, TAMIS_EUNSUPPORTED, 0);
  return f->mode == MODE_PRIVATE;
}

/* Takes over what another object has, which goes. */
static PyObject *replace(filter_object *f, PyObject *from)
{
  if (from == NULL)
    return NULL;
  filter_take_over(f, as_filter(from));
  Py_DECREF(from);
  Py_RETURN_NONE;
}

PyObject *filter_clear(PyObject *self, PyObject *Py_UNUSED(unused))
{
  filter_object *f = as_filter(self);
  return may_replace(f) ? replace(f, empty_like(f)) : NULL;
}

/* ---- union ---- */

static bool merge(PyObject *self, PyObject *other)
{
  int result, error;
  /* The library unites two filters: f |= f is what f |= f.copy() is. */
  other = self == other ? private_copy(other) : Py_NewRef(other);
  if (other == NULL)
    return false;
  const struct pair pair = pair_hold(self, other);
  Py_BEGIN_ALLOW_THREADS result = tamis_merge(pair.first->raw, pair.second->raw);
  error = errno;
  Py_END_ALLOW_THREADS pair_let_go(&pair);
  Py_DECREF(other);
  if (result == TAMIS_EINVAL)
    PyErr_SetString(PyExc_ValueError, DO_NOT_FIT_TEXT);
  else if (result < 0)
    raise_change(as_filter(self), result, error);
  return result >= 0;
}

PyObject *filter_unite_into(PyObject *self, PyObject *other)
{
  if (!is_filter(as_filter(self), other))
    return Py_NewRef(Py_NotImplemented);
  return merge(self, other) ? Py_NewRef(self) : NULL;
}

PyObject *filter_union(PyObject *self, PyObject *const *others, Py_ssize_t n)
{
  PyObject *all = private_copy(self);
  PyObject *none = all != NULL ? filter_update(all, others, n, NULL) : NULL;
  if (none == NULL)
    Py_CLEAR(all);
  Py_XDECREF(none);
  return all;
}

/* Python calls the operators with either operand first, and one of them is a filter. */
static module_state *state_of_both(PyObject *left, PyObject *right)
{
  module_state *state = state_of_type(Py_TYPE(left));
  if (state != NULL && PyObject_TypeCheck(right, state->filter))
    return state;
  PyErr_Clear();
  return NULL;
}

PyObject *filter_unite(PyObject *left, PyObject *right)
{
  return state_of_both(left, right) != NULL ? filter_union(left, &right, 1)
                                            : Py_NewRef(Py_NotImplemented);
}

/* ---- intersection ---- */

static PyObject *common_keys(PyObject *self, PyObject *other)
{
  tamis_filter *raw = NULL;
  module_state *state = as_filter(self)->state;
  const struct pair pair = pair_hold(self, other);
  int result;
  Py_BEGIN_ALLOW_THREADS result = tamis_intersect(pair.first->raw, pair.second->raw, &raw);
  Py_END_ALLOW_THREADS pair_let_go(&pair);
  if (result == TAMIS_OK)
    return filter_wrap(state, NULL, raw, MODE_PRIVATE, NULL);
  if (result == TAMIS_EINVAL || result == TAMIS_EUNSUPPORTED)
    PyErr_SetString(PyExc_ValueError, result == TAMIS_EINVAL ? DO_NOT_FIT_TEXT : ONE_LAYER_TEXT);
  else
    raise_result(state, result, 0, NULL);
  return NULL;
}

PyObject *filter_intersect(PyObject *left, PyObject *right)
{
  return state_of_both(left, right) != NULL ? common_keys(left, right)
                                            : Py_NewRef(Py_NotImplemented);
}

PyObject *filter_intersection(PyObject *self, PyObject *const *others, Py_ssize_t n)
{
  PyObject *common = n > 0 ? Py_NewRef(self) : private_copy(self);
  for (Py_ssize_t i = 0; common != NULL && i < n; i++) {
    PyObject *before = common, *other = filter_of(self, others[i]);
    common = other != NULL ? common_keys(before, other) : NULL;
    Py_XDECREF(other);
    Py_DECREF(before);
  }
  return common;
}

PyObject *filter_intersection_update(PyObject *self, PyObject *const *others, Py_ssize_t n)
{
  filter_object *f = as_filter(self);
  return may_replace(f) ? replace(f, filter_intersection(self, others, n)) : NULL;
}

PyObject *filter_intersect_into(PyObject *self, PyObject *other)
{
  if (!is_filter(as_filter(self), other))
    return Py_NewRef(Py_NotImplemented);
  PyObject *none = filter_intersection_update(self, &other, 1);
  Py_XDECREF(none);
  return none != NULL ? Py_NewRef(self) : NULL;
}

/* ---- comparison ---- */

static int includes(PyObject *self, PyObject *other)
{
  const struct pair pair = pair_hold(self, other);
  int result;
  Py_BEGIN_ALLOW_THREADS result = tamis_includes(pair.first->raw, pair.second->raw);
  Py_END_ALLOW_THREADS pair_let_go(&pair);
  return result;
}

/* 1 or 0; less: an exception. */
static int truth_of(const module_state *state, int result)
{
  if (result >= 0)
    return result == TAMIS_OK;
  if (result == TAMIS_EINVAL)
    PyErr_SetString(PyExc_ValueError, DO_NOT_FIT_TEXT);
  else if (result == TAMIS_EUNSUPPORTED)
    PyErr_SetString(PyExc_ValueError, "a filter with a window is no subset and no superset");
  else
    raise_result(state, result, 0, NULL);
  return -1;
}

static bool has_equal_options(PyObject *left, PyObject *right)
{
  tamis_options a = TAMIS_OPTIONS_INIT, b = TAMIS_OPTIONS_INIT;
  tamis_get_options(raw_of(as_filter(left)), &a);
  tamis_get_options(raw_of(as_filter(right)), &b);
  return a.kind == b.kind && a.capacity == b.capacity && a.fpp == b.fpp && a.seed == b.seed &&
         a.growable == b.growable && a.layout == b.layout && a.window == b.window &&
         a.window_renews == b.window_renews;
}

/* Of kinds whose keys have no bits of their own: whether their tables are the same. */
static int are_saved_alike(PyObject *left, PyObject *right)
{
  PyObject *a = filter_to_bytes(left, NULL), *b = a != NULL ? filter_to_bytes(right, NULL) : NULL;
  int same = b != NULL ? PyObject_RichCompareBool(a, b, Py_EQ) : -1;
  Py_XDECREF(a);
  Py_XDECREF(b);
  return same;
}

static int are_equal(PyObject *left, PyObject *right)
{
  if (left == right || !has_equal_options(left, right))
    return left == right;
  const int result = includes(left, right);
  if (result == TAMIS_EUNSUPPORTED)
    return are_saved_alike(left, right);
  return result == TAMIS_OK ? includes(right, left) == TAMIS_OK : 0;
}

PyObject *filter_compare(PyObject *left, PyObject *right, int operation)
{
  const module_state *state = state_of_both(left, right);
  int is = -1;
  if (state == NULL)
    return Py_NewRef(Py_NotImplemented);
  if (operation == Py_EQ || operation == Py_NE) {
    is = are_equal(left, right);
    return is < 0 ? NULL : PyBool_FromLong(is == (operation == Py_EQ));
  }
  if (as_filter(left)->kind == TAMIS_CUCKOO || as_filter(right)->kind == TAMIS_CUCKOO)
    return Py_NewRef(Py_NotImplemented);
  const bool is_less = operation == Py_LT || operation == Py_LE;
  PyObject *smaller = is_less ? left : right, *larger = is_less ? right : left;
  is = truth_of(state, includes(larger, smaller));
  if (is == 1 && (operation == Py_LT || operation == Py_GT))
    is = includes(smaller, larger) != TAMIS_OK;
  return is < 0 ? NULL : PyBool_FromLong(is);
}

static PyObject *is_included(PyObject *self, PyObject *smaller, PyObject *larger)
{
  PyObject *other = filter_of(self, self == smaller ? larger : smaller);
  if (other == NULL)
    return NULL;
  int is = truth_of(as_filter(self)->state,
                    self == smaller ? includes(other, self) : includes(self, other));
  Py_DECREF(other);
  return is < 0 ? NULL : PyBool_FromLong(is);
}

PyObject *filter_is_subset(PyObject *self, PyObject *other)
{
  return is_included(self, self, other);
}

/* Whether the answers of contains_many have one. */
static int has_answer(PyObject *self, PyObject *keys, PyObject *answer)
{
  PyObject *answers = filter_contains_many(self, keys);
  int has = answers != NULL ? PySequence_Contains(answers, answer) : -1;
  Py_XDECREF(answers);
  return has;
}

PyObject *filter_is_superset(PyObject *self, PyObject *other)
{
  if (is_filter(as_filter(self), other))
    return is_included(self, other, self);
  const int lacks = has_answer(self, other, Py_False);
  return lacks < 0 ? NULL : PyBool_FromLong(!lacks);
}

/* Filters certainly have no key in common only if they have no bit in common. */
PyObject *filter_is_disjoint(PyObject *self, PyObject *other)
{
  if (!is_filter(as_filter(self), other)) {
    const int has = has_answer(self, other, Py_True);
    return has < 0 ? NULL : PyBool_FromLong(!has);
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  PyObject *common = common_keys(self, other);
  if (common == NULL)
    return NULL;
  tamis_get_stats(raw_of(as_filter(common)), &stats);
  Py_DECREF(common);
  return PyBool_FromLong(stats.bits_set == 0);
}
