/* SPDX-License-Identifier: MIT
 *
 * What the files of the extension module tamis._tamis have in common.
 *
 *   key.c      what is a key: one Python object becomes bytes
 *   options.c  numbers and options that calls are given
 *   filter.c   the types, and the calls with one key
 *   sets.c     what sets have: union, intersection, comparison, clear
 *   batch.c    the calls with many keys or filters, with the GIL let go
 *   column.c   arrays of keys that are read without the GIL: buffers (numpy), Arrow
 *   files.c    save, load, map, share, pickle
 *   figures.c  statistics
 *   result.c   results of the library as exceptions
 *   module.c   the module itself
 *
 * Who owns what.  A filter object has one tamis_filter at a time.  clear(), &= and
 * intersection_update() give it another one.  The object holds its filter, and so does a call that lets
 * the GIL go: the last one destroys it.  (Where there is no GIL, calls with one key do not hold the
 * filter, so it stays until the object is deallocated.)  Whoever calls a method holds a reference to the
 * object.  So a tamis_filter outlives all calls on it, and the calls need no lock of
 * Python's: the library's calls may run in any number of threads at once.  All other fields are set before
 * anybody else sees the object, and stay.
 *
 * No state of the module needs the GIL.  There are no static variables that change.  The state of
 * the module is set when the module is executed, once for each interpreter, and stays.  A list of keys
 * is copied to a tuple before the GIL is let go, and a buffer is held by its export.
 *
 * The library's callbacks of this module (to write and to read) need no GIL either.  So a thread that
 * has the GIL may wait for a lock of the library's: its holder never waits for the GIL.
 */
#ifndef TAMIS_PYTHON_MODULE_H
#define TAMIS_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tamis/tamis.h>

/* A function of another form in a table of methods. */
#define FUNCTION(f) ((PyCFunction) (void (*)(void))(f))

typedef struct module_state {
  PyTypeObject *filter; /* what all kinds have in common; the other types are below it */
  PyTypeObject *kinds[TAMIS_COUNTING_BLOOM + 1]; /* by tamis_kind */
  PyObject *full, *corrupt, *unsupported;        /* exceptions */
  PyObject *stats, *similarity;                  /* dataclasses of tamis._figures */
  PyObject *abspath;                             /* os.path.abspath */
  PyObject *restore;                             /* the function of this module for pickle */
  PyObject *process_seed;                        /* the function of tamis._seed */
} module_state;

/* Where a filter's memory is. */
enum filter_mode { MODE_PRIVATE, MODE_MAPPED, MODE_SHARED };

struct owned {
  tamis_filter *raw;
  atomic_int holders;
  struct owned *next; /* that the object had before, where there is no GIL */
};

typedef struct filter_object {
  PyObject_HEAD struct owned *_Atomic owned; /* NULL: it was given to another object */
  module_state *state; /* lives as long as the type, to which the object has a reference */
  PyObject *path;      /* absolute; of a mapped or a shared filter that has one, else NULL */
  PyObject *weak_references;
  tamis_kind kind;
  unsigned window; /* periods; 0: none */
  enum filter_mode mode;
} filter_object;

static inline filter_object *as_filter(PyObject *object)
{
  return (filter_object *) object;
}

/* The filter, for a call that keeps the GIL. */
static inline tamis_filter *raw_of(const filter_object *f)
{
  return atomic_load(&f->owned)->raw;
}

/* Kinds that remove keys count them: an add of a key that is in is one copy more.  Without that copy
 * a key would be nowhere of which an add has said, by a false positive, that it is in; and its remove
 * would take another key away. */
static inline bool filter_counts(const filter_object *f)
{
  return f->kind != TAMIS_BLOOM;
}

/* ---- module.c ---- */

static inline module_state *state_of_module(PyObject *module)
{
  return PyModule_GetState(module);
}

/* The state behind a type of this module, or behind one that a program has derived from it; NULL with
 * an exception for others. */
module_state *state_of_type(PyTypeObject *type);

/* What a module of Python's has by this name; NULL with an exception. */
PyObject *imported(const char *module, const char *name);

/* ---- key.c ---- */

/* The bytes of a key.  They stay as long as the Python object, and until key_release(). */
struct key {
  const void *data;
  size_t len;
  uint64_t number; /* `data` points here for an integer */
  Py_buffer view;  /* view.obj is NULL if there is none */
};

/* False with an exception for what is no key. */
bool key_read(PyObject *object, struct key *key);

/* Whether an object is one of numpy's that has a mask, which its buffer does not show. */
bool is_masked(PyObject *object);

static inline void key_release(struct key *key)
{
  if (key->view.obj != NULL)
    PyBuffer_Release(&key->view);
}

/* ---- result.c ---- */

/* Raises what a failed result stands for, and returns NULL.  `error` is the errno of the call.  `path`
 * may be NULL. */
PyObject *raise_result(const module_state *state, int result, int error, PyObject *path);
/* The same of a call that changes a filter: a mapped one says that it is read-only. */
PyObject *raise_change(const filter_object *f, int result, int error);

/* ---- options.c ---- */

/* What the constructors and shared() ask for. */
struct wanted {
  tamis_options options;
  bool has_capacity, has_seed;
};
/* Gives a filter without a seed that of the process. */
bool wanted_seed(struct wanted *wanted, const module_state *state);
/* Reads the arguments of a constructor; `shared`: those of shared(), after the path. */
bool wanted_read(struct wanted *wanted, tamis_kind kind, bool shared, PyObject *arguments,
                 PyObject *keywords);
/* A number from `low` to `high` from a Python object; `what` is its name, and `range` says for the
 * message what it may be. */
bool read_number(PyObject *object, const char *what, uint64_t low, uint64_t high, const char *range,
                 uint64_t *out);
/* max_bytes, which is not 0: that stands for "none" in the library, a surprise where a program
 * computes it. */
bool read_max_bytes(PyObject *object, uint64_t *out);
/* Who may open a file, from the keywords file_mode and group, each of which may be NULL or None.
 * *given points to *access, or is NULL if neither is given. */
bool access_read(PyObject *mode, PyObject *group, tamis_file_access *access,
                 const tamis_file_access **given);
/* The keyword `periods` of a call that adds, with n arguments before it: WHOLE_WINDOW if it is None or
 * not given. */
enum { WHOLE_WINDOW = -1 };
bool add_read(const filter_object *f, PyObject *const *arguments, Py_ssize_t n, PyObject *names,
              int *periods);
/* The same of a call that takes one argument. */
bool add_one_read(const filter_object *f, PyObject *const *arguments, Py_ssize_t n, PyObject *names,
                  int *periods);

/* ---- filter.c ---- */

/* Adds the types to the module. */
int filter_add_types(PyObject *module, module_state *state);
/* An object that owns `raw`, of `type`, or if that is NULL of the type for its kind.  On failure the
 * filter is destroyed.  `path` may be NULL. */
PyObject *filter_wrap(module_state *state, PyTypeObject *type, tamis_filter *raw,
                      enum filter_mode mode, PyObject *path);

/* The filter, for a call that lets the GIL go, until owned_let_go().  Both need the GIL. */
struct owned *filter_hold(const filter_object *f);
void owned_let_go(struct owned *owned);
/* Gives the object the filter of another one, which has none then. */
void filter_take_over(filter_object *f, filter_object *from);

/* Filters that are asked together, from an iterable.  Some may be NULL, for None. */
struct filters {
  struct owned **held;
  const tamis_filter **raw;
  size_t n;
};
bool filters_open(const module_state *state, PyObject *from, struct filters *filters);
/* In any case. */
void filters_close(struct filters *filters);

/* ---- sets.c: methods ---- */

PyObject *filter_unite(PyObject *left, PyObject *right);
PyObject *filter_unite_into(PyObject *self, PyObject *other);
PyObject *filter_union(PyObject *self, PyObject *const *others, Py_ssize_t n);
PyObject *filter_intersect(PyObject *left, PyObject *right);
PyObject *filter_intersect_into(PyObject *self, PyObject *other);
PyObject *filter_intersection(PyObject *self, PyObject *const *others, Py_ssize_t n);
PyObject *filter_intersection_update(PyObject *self, PyObject *const *others, Py_ssize_t n);
PyObject *filter_is_subset(PyObject *self, PyObject *other);
PyObject *filter_is_superset(PyObject *self, PyObject *other);
PyObject *filter_is_disjoint(PyObject *self, PyObject *other);
PyObject *filter_compare(PyObject *left, PyObject *right, int operation);
PyObject *filter_clear(PyObject *self, PyObject *unused);

/* ---- batch.c: methods, and functions of the module ---- */

PyObject *filter_update(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names);
PyObject *filter_add_many(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                          PyObject *names);
PyObject *filter_add_unique_many(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                                 PyObject *names);
PyObject *filter_contains_many(PyObject *self, PyObject *keys);
PyObject *module_contains_each(PyObject *module, PyObject *arguments);
PyObject *module_contains_each_many(PyObject *module, PyObject *arguments);

/* ---- files.c: methods, and functions of the module ---- */

PyObject *filter_save(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *filter_to_bytes(PyObject *self, PyObject *unused);
PyObject *filter_to_text(PyObject *self, PyObject *unused);
PyObject *filter_sync(PyObject *self, PyObject *unused);
PyObject *filter_copy(PyObject *self, PyObject *unused);
PyObject *filter_reduce(PyObject *self, PyObject *unused);
PyObject *module_load(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *module_open(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *module_shared(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *module_from_bytes(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *module_from_text(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *module_restore(PyObject *module, PyObject *arguments);

/* ---- figures.c ---- */

PyObject *filter_stats(PyObject *self, PyObject *unused);
PyObject *filter_to_prometheus(PyObject *self, PyObject *name);
PyObject *filter_to_json(PyObject *self, PyObject *const *arguments, Py_ssize_t n);
PyObject *filter_similarity(PyObject *self, PyObject *other);
PyObject *module_to_prometheus(PyObject *module, PyObject *filters);
extern PyGetSetDef filter_attributes[];
Py_ssize_t filter_length(PyObject *self);
PyObject *filter_repr(PyObject *self);

/* Bytes that grow, for the library to write to, without the GIL. */
struct bytes {
  char *data;
  size_t size, room;
};
int bytes_append(void *bytes, const void *data, size_t size);
/* The object that `make` makes of the bytes, which go; NULL with an exception if the call that has
 * written them failed. */
PyObject *bytes_end(struct bytes *bytes, PyObject *(*make)(const char *, Py_ssize_t),
                    const module_state *state, int result, PyObject *path);

#endif /* TAMIS_PYTHON_MODULE_H */
