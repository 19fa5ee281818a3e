/* SPDX-License-Identifier: MIT */
#include "base/unload.h"

#include <dlfcn.h>

/* Weak, and looked up: a program that is linked statically has no dlopen, and needs none. */
void tamis__keep_loaded(void (*function)(void))
{
#pragma weak dladdr
#pragma weak dlsym
  void *(*open)(const char *, int);
  Dl_info library;
  if (dladdr && dlsym && dladdr(*(void **) &function, &library) &&
      (*(void **) &open = dlsym(RTLD_DEFAULT, "dlopen")))
    open(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool exit_was_called;

/* Of the C++ ABI, in the C library: a handler that belongs to a key runs in exit(), before
 * destructors, unless it has been run and taken off for the key before. */
int __cxa_atexit(void (*function)(void *), void *argument, void *key);
void __cxa_finalize(void *key);

static void note_exit(void *noted)
{
  *(bool *) noted = true;
}

void tamis__watch_for_exit(void)
{
  /* Without the handler, as if the process always ended. */
  exit_was_called = __cxa_atexit(note_exit, &exit_was_called, &exit_was_called) != 0;
}

void tamis__stop_watching(void)
{
  __cxa_finalize(&exit_was_called);
}

bool tamis__process_ends(void)
{
  return exit_was_called;
}
