/* SPDX-License-Identifier: MIT
 *
 * The extension module tamis._tamis.  The package's __init__.py takes its names from here.
 */
#include "module.h"
#include "text.h"

static PyMethodDef functions[] = {
    {"load", FUNCTION(module_load), METH_VARARGS | METH_KEYWORDS, LOAD_TEXT},
    {"open", FUNCTION(module_open), METH_VARARGS | METH_KEYWORDS, OPEN_TEXT},
    {"shared", FUNCTION(module_shared), METH_VARARGS | METH_KEYWORDS, SHARED_TEXT},
    {"from_bytes", FUNCTION(module_from_bytes), METH_VARARGS | METH_KEYWORDS, FROM_BYTES_TEXT},
    {"from_text", FUNCTION(module_from_text), METH_VARARGS | METH_KEYWORDS, FROM_TEXT_TEXT},
    {"contains_each", module_contains_each, METH_VARARGS, CONTAINS_EACH_TEXT},
    {"contains_each_many", module_contains_each_many, METH_VARARGS, CONTAINS_EACH_MANY_TEXT},
    {"to_prometheus", module_to_prometheus, METH_O, PAGE_TEXT},
    {"_restore", module_restore, METH_VARARGS, RESTORE_TEXT},
    {NULL, NULL, 0, NULL}};

PyObject *imported(const char *module, const char *name)
{
  PyObject *from = PyImport_ImportModule(module);
  PyObject *object = from != NULL ? PyObject_GetAttrString(from, name) : NULL;
  Py_XDECREF(from);
  return object;
}

static PyObject *exception(PyObject *module, const char *name, const char *text, PyObject *base)
{
  PyObject *type = PyErr_NewExceptionWithDoc(name, text, base, NULL);
  if (type != NULL && PyModule_AddObjectRef(module, strchr(name, '.') + 1, type) < 0)
    Py_CLEAR(type);
  return type;
}

static int execute(PyObject *module)
{
  module_state *state = state_of_module(module);
  PyObject *error = exception(module, "tamis.Error", ERROR_TEXT, NULL);
  if (error == NULL)
    return -1;
  state->full = exception(module, "tamis.FullError", FULL_TEXT, error);
  state->corrupt = exception(module, "tamis.CorruptError", CORRUPT_TEXT, error);
  Py_DECREF(error);
  if (state->full == NULL || state->corrupt == NULL ||
      (state->unsupported = imported("io", "UnsupportedOperation")) == NULL ||
      (state->stats = imported("tamis._figures", "Stats")) == NULL ||
      (state->similarity = imported("tamis._figures", "Similarity")) == NULL ||
      (state->abspath = imported("os.path", "abspath")) == NULL ||
      (state->process_seed = imported("tamis._seed", "process_seed")) == NULL ||
      (state->restore = PyObject_GetAttrString(module, "_restore")) == NULL ||
      filter_add_types(module, state) < 0)
    return -1;
  return PyModule_AddStringConstant(module, "version", tamis_version());
}

/* With each object that the state holds. */
#define WITH_EACH(DO, state)                                           \
  do {                                                                 \
    DO((state)->filter);                                               \
    for (int kind = TAMIS_BLOOM; kind <= TAMIS_COUNTING_BLOOM; kind++) \
      DO((state)->kinds[kind]);                                        \
    DO((state)->full);                                                 \
    DO((state)->corrupt);                                              \
    DO((state)->unsupported);                                          \
    DO((state)->stats);                                                \
    DO((state)->similarity);                                           \
    DO((state)->abspath);                                              \
    DO((state)->restore);                                              \
    DO((state)->process_seed);                                         \
  } while (0)

static int traverse(PyObject *module, visitproc visit, void *arg)
{
  WITH_EACH(Py_VISIT, state_of_module(module));
  return 0;
}

static int clear(PyObject *module)
{
  WITH_EACH(Py_CLEAR, state_of_module(module));
  return 0;
}

static void release(void *module)
{
  clear(module);
}

/* Interpreters of the limited API differ in the slots that they know, and refuse others.  So the
 * version that runs decides where the row begins; the header that compiles knows 3.11 only. */
enum { SLOT_INTERPRETERS = 3, SLOT_GIL = 4, FROM_3_12 = 1, FROM_3_11 = 2 };

static PyModuleDef_Slot slots[] = {
    {SLOT_GIL, (void *) 1 /* the GIL is not used: from 3.13 on */},
    {SLOT_INTERPRETERS, (void *) 2 /* each may have its own GIL: from 3.12 on */},
    {Py_mod_exec, execute},
    {0, NULL}};

#define DEFINITION(first)                                                                        \
  {                                                                                              \
    PyModuleDef_HEAD_INIT, .m_name = "tamis._tamis", .m_doc = MODULE_TEXT,                       \
                           .m_size = sizeof(module_state), .m_methods = functions,               \
                           .m_slots = slots + (first), .m_traverse = traverse, .m_clear = clear, \
                           .m_free = release                                                     \
  }

static struct PyModuleDef definitions[] = {DEFINITION(0), DEFINITION(FROM_3_12),
                                           DEFINITION(FROM_3_11)};

/* The same one in all interpreters of a process. */
static struct PyModuleDef *definition(void)
{
  return &definitions[Py_Version >= 0x030d0000   ? 0
                      : Py_Version >= 0x030c0000 ? FROM_3_12
                                                 : FROM_3_11];
}

module_state *state_of_type(PyTypeObject *type)
{
  for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
    if ((PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) == 0)
      break;
    PyObject *module = PyType_GetModule(type);
    if (module == NULL)
      PyErr_Clear();
    else if (PyModule_GetDef(module) == definition())
      return state_of_module(module);
  }
  PyErr_SetString(PyExc_TypeError, "this is no filter");
  return NULL;
}

PyMODINIT_FUNC PyInit__tamis(void)
{
  return PyModuleDef_Init(definition());
}
