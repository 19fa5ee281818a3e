/* SPDX-License-Identifier: MIT */
#include "base/unload.h"

#include <dlfcn.h>
#include <stdatomic.h>

/* Refers to dladdr() and dlsym() weakly, and finds dlopen() by dlsym(), because a statically linked
 * program neither has nor needs these functions. */
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

/* Relaxed: exit() might run while another thread unloads a plugin, but then the flag only decides
 * whether that thread goes on waiting for the library's thread. */
static _Atomic bool exit_was_called;

/* C++ ABI functions of the C library.  The handler `function` runs once: in exit(), before
 * destructors, or in __cxa_finalize() with the same `key`. */
int __cxa_atexit(void (*function)(void *), void *argument, void *key);
void __cxa_finalize(void *key);

static void note_exit(void *noted)
{
  atomic_store_explicit((_Atomic bool *) noted, true, memory_order_relaxed);
}

void tamis__watch_for_exit(void)
{
  if (__cxa_atexit(note_exit, &exit_was_called, &exit_was_called) != 0)
    note_exit(&exit_was_called); /* without a handler, each unload counts as the process's end */
}

void tamis__stop_watching(void)
{
  __cxa_finalize(&exit_was_called);
}

bool tamis__process_ends(void)
{
  return atomic_load_explicit(&exit_was_called, memory_order_relaxed);
}
