/* SPDX-License-Identifier: MIT
 *
 * The calls with many keys.
 *
 * Keys come as a column (column.h), which is read without the GIL, or as objects, from a list, a tuple or
 * an iterator.  Objects are taken in parts.  While the GIL is held, a part gets a reference to each
 * object, and what each key has in memory is collected: a str gives out its UTF-8, bytes their address,
 * a buffer is held.  Then the GIL is let go, and the library works.  (Parts are small enough for the
 * second-level cache.  To collect all keys first would read the objects from memory three times, and
 * take twice as long.)
 */
#include "column.h"

#include <errno.h>
#include <stdlib.h>

enum {
  LET_GO_FROM = 256, /* answers: for fewer, to let the GIL go costs more than others gain */
  PART = 2048        /* objects */
};

enum batch_call { UPDATE, ADD_MANY, ADD_UNIQUE_MANY, CONTAINS_MANY, CONTAINS_EACH };

struct batch {
  filter_object *f;
  tamis_filter *raw;      /* of `f`, while it is held */
  struct filters filters; /* of CONTAINS_EACH, in place of `f` */
  enum batch_call call;
  int periods;       /* of an add */
  PyObject *answers; /* a bytearray; NULL for UPDATE */
  size_t width;      /* bytes there for each key */
  size_t done;       /* keys that have their answers there */
  int failure;       /* of the first key that failed, or TAMIS_OK */
  int error;         /* and its errno */
};

enum { ANSWER_NO, ANSWER_YES, ANSWER_REFUSED };

/* ---- without the GIL ---- */

static int add_keys(struct batch *b, const tamis_key *keys, size_t n, bool unique, int *results)
{
  tamis_filter *f = b->raw;
  int result = b->periods == WHOLE_WINDOW
                   ? (unique ? tamis_add_unique_many : tamis_add_many)(f, keys, n, results)
                   : (unique ? tamis_add_unique_for_many
                             : tamis_add_for_many)(f, keys, n, (unsigned) b->periods, results);
  if (result < 0 && b->failure == TAMIS_OK) {
    b->failure = result;
    b->error = errno;
  }
  return result;
}

/* A copy of each key that was in before (filter_counts() in module.h). */
static void add_copies(struct batch *b, const tamis_key *keys, size_t n, int *results)
{
  tamis_key present[PIECE];
  int copied[PIECE];
  size_t at[PIECE], n_present = 0;
  for (size_t i = 0; i < n; i++)
    if (results[i] == TAMIS_PRESENT) {
      present[n_present] = keys[i];
      at[n_present++] = i;
    }
  (void) add_keys(b, present, n_present, false, copied);
  for (size_t i = 0; i < n_present; i++)
    if (copied[i] < 0)
      results[at[i]] = copied[i];
}

static void add_piece(struct batch *b, const tamis_key *keys, size_t n, char *answers)
{
  int results[PIECE];
  bool counts = b->call != ADD_UNIQUE_MANY && filter_counts(b->f);
  bool asks = answers != NULL || !counts;
  int result = add_keys(b, keys, n, asks, results);
  bool are_written = result != TAMIS_EINVAL;
  if (asks && counts && are_written)
    add_copies(b, keys, n, results);
  if (answers != NULL && !are_written)
    memset(answers, ANSWER_REFUSED, n);
  for (size_t i = 0; answers != NULL && are_written && i < n; i++)
    answers[i] = (char) (results[i] == TAMIS_OK        ? ANSWER_YES
                         : results[i] == TAMIS_PRESENT ? ANSWER_NO
                                                       : ANSWER_REFUSED);
}

/* Up to PIECE keys. */
static void do_piece(struct batch *b, const tamis_key *keys, size_t n, char *answers)
{
  if (b->call == CONTAINS_MANY)
    tamis_contains_many(b->raw, keys, n, (bool *) answers);
  else if (b->call == CONTAINS_EACH)
    tamis_contains_each_many(b->filters.raw, b->filters.n, keys, n, (bool *) answers);
  else
    add_piece(b, keys, n, answers);
}

static void do_keys(struct batch *b, const tamis_key *keys, size_t n, char *answers)
{
  for (size_t at = 0; at < n; at += PIECE)
    do_piece(b, keys + at, n - at < PIECE ? n - at : PIECE,
             answers != NULL ? answers + at * b->width : NULL);
}

static void do_column(struct batch *b, const struct column *column, size_t from, size_t n,
                      struct piece *piece, char *answers)
{
  size_t step = column_piece(column);
  for (size_t at = 0; at < n; at += step) {
    size_t here = n - at < step ? n - at : step;
    column_keys(column, from + at, here, piece);
    do_piece(b, piece->keys, here, answers != NULL ? answers + at * b->width : NULL);
  }
}

/* ---- with and without ---- */

/* Keys that are one after the other in memory, or, if `keys` is NULL, a column. */
struct source {
  const tamis_key *keys;
  const struct column *column;
  struct piece *piece;
  size_t n;
};

/* Keys between two looks for Ctrl-C: some milliseconds of work, with `width` answers for each. */
static size_t step_of(size_t width)
{
  size_t step = SIGNALS_EACH / (width > 0 ? width : 1);
  return step > PIECE ? step : PIECE;
}

static bool do_source(struct batch *b, const struct source *from)
{
  char *answers = NULL;
  if (b->answers != NULL) {
    size_t most = (size_t) PY_SSIZE_T_MAX / (b->width > 0 ? b->width : 1);
    if (from->n > most - b->done) {
      PyErr_NoMemory();
      return false;
    }
    if (PyByteArray_Resize(b->answers, (Py_ssize_t) ((b->done + from->n) * b->width)) < 0)
      return false;
    answers = PyByteArray_AsString(b->answers) + b->done * b->width;
  }
  size_t step = step_of(b->width);
  for (size_t at = 0; at < from->n; at += step) {
    size_t n = from->n - at < step ? from->n - at : step;
    char *to = answers != NULL ? answers + at * b->width : NULL;
    struct owned *owned = b->f != NULL ? filter_hold(b->f) : NULL;
    b->raw = owned != NULL ? owned->raw : NULL;
    PyThreadState *thread = n * b->width >= LET_GO_FROM ? PyEval_SaveThread() : NULL;
    if (from->keys != NULL)
      do_keys(b, from->keys + at, n, to);
    else
      do_column(b, from->column, at, n, from->piece, to);
    if (thread != NULL)
      PyEval_RestoreThread(thread);
    if (owned != NULL)
      owned_let_go(owned);
    b->done += n;
    if (PyErr_CheckSignals() < 0)
      return false;
  }
  return true;
}

/* ---- columns ---- */

static bool use_column(void *batch, const struct column *column)
{
  struct piece piece;
  if (!column_check(column))
    return false;
  size_t room = column_room(column);
  piece.text = room > 0 ? malloc(room) : NULL;
  if (room > 0 && piece.text == NULL) {
    PyErr_NoMemory();
    return false;
  }
  struct source source = {NULL, column, &piece, column->n};
  bool is_done = do_source(batch, &source);
  free(piece.text);
  return is_done;
}

/* ---- keys of objects ---- */

struct gathered {
  tamis_key *keys;
  uint64_t *numbers; /* of the keys that are integers; NULL before the first one */
  Py_buffer *views;  /* that are held */
  size_t n, views_n, views_room;
};

/* Forgets the keys. */
static void gathered_clear(struct gathered *g)
{
  while (g->views_n > 0)
    PyBuffer_Release(&g->views[--g->views_n]);
  g->n = 0;
}

static void gathered_destroy(struct gathered *g)
{
  gathered_clear(g);
  free(g->keys);
  free(g->numbers);
  free(g->views);
}

static bool hold(struct gathered *g, const Py_buffer *view)
{
  if (g->views_n == g->views_room) {
    size_t room = 2 * g->views_room + 16;
    Py_buffer *grown = realloc(g->views, room * sizeof *grown);
    if (grown == NULL)
      return false;
    g->views = grown;
    g->views_room = room;
  }
  g->views[g->views_n++] = *view;
  return true;
}

static bool gather(struct gathered *g, PyObject *object)
{
  struct key key;
  if (!key_read(object, &key))
    return false;
  bool is_number = key.data == &key.number;
  if (is_number && g->numbers == NULL)
    g->numbers = calloc(PART, sizeof *g->numbers);
  if ((is_number && g->numbers == NULL) || (key.view.obj != NULL && !hold(g, &key.view))) {
    key_release(&key);
    PyErr_NoMemory();
    return false;
  }
  if (is_number) {
    g->numbers[g->n] = key.number;
    key.data = &g->numbers[g->n];
  }
  g->keys[g->n++] = (tamis_key){key.data, key.len};
  return true;
}

/* ---- parts ---- */

/* What gives out objects one after the other: a list or a tuple, or else an iterator. */
struct objects {
  PyObject *from;
  Py_ssize_t next; /* -1: an iterator */
};

/* A new reference, or NULL at the end or with an exception.  A list may change between two parts, as
 * it may while Python iterates over it. */
static PyObject *next_object(struct objects *objects)
{
  if (objects->next < 0)
    return PyIter_Next(objects->from);
  PyObject *object = PySequence_GetItem(objects->from, objects->next++);
  if (object == NULL && PyErr_ExceptionMatches(PyExc_IndexError))
    PyErr_Clear();
  return object;
}

/* False when the objects have ended, or with an exception. */
static bool use_part(struct batch *b, struct objects *objects, struct gathered *g, PyObject **held)
{
  size_t n = 0;
  bool goes_on = true;
  while (goes_on && n < PART) {
    goes_on = (held[n] = next_object(objects)) != NULL;
    if (goes_on)
      goes_on = gather(g, held[n++]);
  }
  struct source source = {g->keys, NULL, NULL, g->n};
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (do_source(b, &source) && b->failure == TAMIS_OK) {
    PyErr_Restore(type, value, traceback);
  } else { /* of a key that came before what has raised */
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    goes_on = false;
  }
  gathered_clear(g);
  while (n > 0)
    Py_DECREF(held[--n]);
  return goes_on;
}

static bool use_objects(struct batch *b, PyObject *keys)
{
  bool is_iterator = !PyList_CheckExact(keys) && !PyTuple_CheckExact(keys);
  PyObject *from = is_iterator ? PyObject_GetIter(keys) : Py_NewRef(keys);
  if (from == NULL)
    return false;
  struct objects objects = {from, is_iterator ? -1 : 0};
  struct gathered g = {.keys = calloc(PART, sizeof *g.keys)};
  PyObject **held = calloc(PART, sizeof *held);
  if (g.keys == NULL || held == NULL)
    PyErr_NoMemory();
  else
    while (use_part(b, &objects, &g, held))
      ;
  gathered_destroy(&g);
  free(held);
  Py_DECREF(from);
  return PyErr_Occurred() == NULL;
}

/* ---- any of these ---- */

/* With an exception for what is meant as one key, although Python could iterate over it. */
static bool is_single(PyObject *keys)
{
  bool is = PyUnicode_Check(keys) || PyBytes_Check(keys) || PyByteArray_Check(keys);
  if (PyMemoryView_Check(keys)) {
    PyObject *format = PyObject_GetAttrString(keys, "format");
    is = format == NULL || PyUnicode_CompareWithASCIIString(format, "B") == 0;
    PyErr_Clear();
    Py_XDECREF(format);
  }
  if (is)
    PyErr_Format(PyExc_TypeError, "many keys are wanted, and %R is a single one: use add() or in",
                 Py_TYPE(keys));
  return is;
}

/* COLUMN_NONE: the object has no buffer, or one whose elements have no form that is known. */
static enum column_source use_buffer(struct batch *b, PyObject *keys)
{
  Py_buffer view;
  struct column column;
  if (!PyObject_CheckBuffer(keys))
    return COLUMN_NONE;
  if (is_masked(keys)) {
    PyErr_SetString(PyExc_TypeError,
                    "an array with a mask is no row of keys: give its compressed() or filled()");
    return COLUMN_FAILED;
  }
  if (PyObject_GetBuffer(keys, &view, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
    PyErr_Clear();
    return COLUMN_NONE;
  }
  enum column_source source = column_of_buffer(&view, &column);
  if (source == COLUMN_READ && !use_column(b, &column))
    source = COLUMN_FAILED;
  PyBuffer_Release(&view);
  return source;
}

static enum column_source use_arrow(struct batch *b, PyObject *keys)
{
  struct arrow arrow;
  enum column_source source = arrow_open(keys, &arrow);
  if (source == COLUMN_READ && !arrow_each(&arrow, use_column, b))
    source = COLUMN_FAILED;
  arrow_close(&arrow);
  return source;
}

/* Whether all elements of an array that is no column, such as numpy's of objects, are keys; else false
 * with an exception.  Of an array with another element, no key is added. */
static bool check_elements(PyObject *array)
{
  struct key key;
  PyObject *elements = PyObject_GetIter(array), *element = NULL;
  bool good = elements != NULL;
  while (good && (element = PyIter_Next(elements)) != NULL) {
    good = key_read(element, &key);
    if (good) {
      key_release(&key);
      good = PyErr_CheckSignals() == 0;
    }
    Py_DECREF(element);
  }
  Py_XDECREF(elements);
  return good && PyErr_Occurred() == NULL;
}

static bool use_keys(struct batch *b, PyObject *keys)
{
  if (PyList_CheckExact(keys) || PyTuple_CheckExact(keys))
    return use_objects(b, keys);
  if (is_single(keys))
    return false;
  enum column_source source = use_buffer(b, keys);
  if (source == COLUMN_NONE)
    source = use_arrow(b, keys);
  if (source == COLUMN_NONE && (!PyObject_CheckBuffer(keys) || check_elements(keys)))
    return use_objects(b, keys);
  return source == COLUMN_READ;
}

/* ---- answers ---- */

static PyObject *list_of(const char *answers, size_t n)
{
  PyObject *const objects[] = {
      [ANSWER_NO] = Py_False, [ANSWER_YES] = Py_True, [ANSWER_REFUSED] = Py_None};
  PyObject *list = PyList_New((Py_ssize_t) n);
  for (size_t i = 0; list != NULL && i < n; i++)
    PyList_SetItem(list, (Py_ssize_t) i, Py_NewRef(objects[(unsigned char) answers[i]]));
  return list;
}

/* Of CONTAINS_EACH, a list for each key. */
static PyObject *list_of_answers(const struct batch *b)
{
  const char *answers = PyByteArray_AsString(b->answers);
  if (b->call != CONTAINS_EACH)
    return list_of(answers, b->done);
  PyObject *list = PyList_New((Py_ssize_t) b->done);
  for (size_t i = 0; list != NULL && i < b->done; i++) {
    PyObject *row = list_of(answers + i * b->width, b->width);
    if (row == NULL)
      Py_CLEAR(list);
    else
      PyList_SetItem(list, (Py_ssize_t) i, row);
  }
  return list;
}

/* numpy.ndarray if the program has imported numpy, and the keys are one; else NULL. */
static PyObject *numpy_of(PyObject *keys)
{
  PyObject *name = PyUnicode_FromString("numpy");
  PyObject *numpy = name != NULL ? PyImport_GetModule(name) : NULL;
  PyObject *array = numpy != NULL ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
  bool is = array != NULL && PyObject_IsInstance(keys, array) == 1;
  PyErr_Clear();
  Py_XDECREF(array);
  Py_XDECREF(name);
  if (!is)
    Py_CLEAR(numpy);
  return numpy;
}

static PyObject *answers_for(const struct batch *b, PyObject *keys)
{
  PyObject *numpy = numpy_of(keys);
  if (numpy == NULL)
    return list_of_answers(b);
  PyObject *array = PyByteArray_Size(b->answers) > 0
                        ? PyObject_CallMethod(numpy, "frombuffer", "Os", b->answers, "?")
                        : PyObject_CallMethod(numpy, "zeros", "is", 0, "?");
  Py_DECREF(numpy);
  if (array != NULL && b->call == CONTAINS_EACH) {
    PyObject *rows =
        PyObject_CallMethod(array, "reshape", "nn", (Py_ssize_t) b->done, (Py_ssize_t) b->width);
    Py_DECREF(array);
    array = rows;
  }
  return array;
}

/* Gives the exception the answers so far: of keys that were added nobody else is told.  What a program
 * has raised with `results` of its own keeps these. */
static void give_results(const struct batch *b)
{
  PyObject *type, *value, *traceback, *answers;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  bool is_ours = !PyObject_HasAttrString(value, "results");
  answers = list_of_answers(b);
  if (answers == NULL || (is_ours && PyObject_SetAttrString(value, "results", answers) < 0))
    PyErr_Clear(); /* an exception without attributes */
  Py_XDECREF(answers);
  PyErr_Restore(type, value, traceback);
}

static PyObject *many(PyObject *self, PyObject *keys, int periods, enum batch_call call)
{
  struct batch b = {.f = as_filter(self), .call = call, .periods = periods, .width = 1};
  PyObject *result = NULL;
  if (call != UPDATE && (b.answers = PyByteArray_FromStringAndSize(NULL, 0)) == NULL)
    return NULL;
  bool is_done = use_keys(&b, keys);
  if (b.failure != TAMIS_OK && !PyErr_Occurred()) {
    raise_change(b.f, b.failure, b.error);
    is_done = false;
  }
  if (is_done)
    result = call == UPDATE ? Py_NewRef(Py_None) : answers_for(&b, keys);
  else if (call == ADD_MANY || call == ADD_UNIQUE_MANY)
    give_results(&b);
  Py_XDECREF(b.answers);
  return result;
}

PyObject *filter_update(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names)
{
  int periods;
  PyTypeObject *filter = as_filter(self)->state->filter;
  if (!add_read(as_filter(self), arguments, n, names, &periods))
    return NULL;
  for (Py_ssize_t i = 0; i < n && periods != WHOLE_WINDOW; i++)
    if (PyObject_TypeCheck(arguments[i], filter)) {
      PyErr_SetString(PyExc_ValueError, "the keys of a filter have their own ends, and no periods");
      return NULL;
    }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *none = PyObject_TypeCheck(arguments[i], filter)
                         ? filter_unite_into(self, arguments[i])
                         : many(self, arguments[i], periods, UPDATE);
    if (none == NULL)
      return NULL;
    Py_DECREF(none);
  }
  Py_RETURN_NONE;
}

static PyObject *add_all(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names,
                         enum batch_call call)
{
  int periods;
  bool is_read = add_one_read(as_filter(self), arguments, n, names, &periods);
  return is_read ? many(self, arguments[0], periods, call) : NULL;
}

PyObject *filter_add_many(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names)
{
  return add_all(self, arguments, n, names, ADD_MANY);
}

PyObject *filter_add_unique_many(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                                 PyObject *names)
{
  return add_all(self, arguments, n, names, ADD_UNIQUE_MANY);
}

PyObject *filter_contains_many(PyObject *self, PyObject *keys)
{
  return many(self, keys, WHOLE_WINDOW, CONTAINS_MANY);
}

/* ---- many filters ---- */

static PyObject *contains_each(const struct filters *filters, PyObject *object)
{
  struct key key;
  bool *found = calloc(filters->n + 1, sizeof *found);
  if (found == NULL)
    return PyErr_NoMemory();
  PyObject *list = NULL;
  if (key_read(object, &key)) {
    PyThreadState *thread = filters->n >= LET_GO_FROM ? PyEval_SaveThread() : NULL;
    tamis_contains_each(filters->raw, filters->n, key.data, key.len, found);
    if (thread != NULL)
      PyEval_RestoreThread(thread);
    key_release(&key);
    list = list_of((const char *) found, filters->n);
  }
  free(found);
  return list;
}

PyObject *module_contains_each(PyObject *module, PyObject *arguments)
{
  PyObject *from, *key, *result = NULL;
  struct filters filters;
  if (!PyArg_ParseTuple(arguments, "OO:contains_each", &from, &key))
    return NULL;
  if (filters_open(state_of_module(module), from, &filters))
    result = contains_each(&filters, key);
  filters_close(&filters);
  return result;
}

PyObject *module_contains_each_many(PyObject *module, PyObject *arguments)
{
  PyObject *from, *keys, *result = NULL;
  struct batch b = {.call = CONTAINS_EACH};
  if (!PyArg_ParseTuple(arguments, "OO:contains_each_many", &from, &keys))
    return NULL;
  if (filters_open(state_of_module(module), from, &b.filters) &&
      (b.answers = PyByteArray_FromStringAndSize(NULL, 0)) != NULL) {
    b.width = b.filters.n;
    if (use_keys(&b, keys))
      result = answers_for(&b, keys);
  }
  Py_XDECREF(b.answers);
  filters_close(&b.filters);
  return result;
}
