/* SPDX-License-Identifier: MIT
 *
 * Results of the library as exceptions.
 */
#include "module.h"

#include <errno.h>

static PyObject *raise_text(PyObject *exception, const char *text, PyObject *path)
{
  if (path != NULL)
    PyErr_Format(exception, "%S: %s", path, text);
  else
    PyErr_SetString(exception, text);
  return NULL;
}

PyObject *raise_result(const module_state *state, int result, int error, PyObject *path)
{
  const char *text = tamis_strerror(result);
  switch (result) {
  case TAMIS_ENOMEM:
    return raise_text(PyExc_MemoryError, text, path);
  case TAMIS_EFULL:
    return raise_text(state->full, text, path);
  case TAMIS_ECORRUPT:
    return raise_text(state->corrupt, text, path);
  case TAMIS_EUNSUPPORTED:
    return raise_text(state->unsupported, text, path);
  case TAMIS_EIO:
    errno = error;
    return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
  default:
    return raise_text(PyExc_ValueError, text, path);
  }
}

PyObject *raise_change(const filter_object *f, int result, int error)
{
  if (result == TAMIS_EUNSUPPORTED && f->mode == MODE_MAPPED)
    return raise_text(f->state->unsupported, "a mapped filter cannot be changed: tamis.load() it",
                      f->path);
  return raise_result(f->state, result, error, f->path);
}
