/* SPDX-License-Identifier: MIT */
#include "base/unload.h"

#include <dlfcn.h>
#include <stdatomic.h>

/* Weak symbols, and a look-up of dlopen: a statically linked program has none, and needs none. */
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

/* Relaxed: exit() may be called while another thread unloads a plugin.  The flag decides only
 * whether that thread waits any longer. */
static _Atomic bool exit_was_called;

/* Of the C++ ABI, in the C library.  A handler with a key runs in exit(), before destructors, or
 * when the second function is called with that key; it runs once. */
int __cxa_atexit(void (*function)(void *), void *argument, void *key);
void __cxa_finalize(void *key);

static void note_exit(void *noted)
{
  atomic_store_explicit((_Atomic bool *) noted, true, memory_order_relaxed);
}

void tamis__watch_for_exit(void)
{
  if (__cxa_atexit(note_exit, &exit_was_called, &exit_was_called) != 0)
    note_exit(&exit_was_called); /* without the handler, as if the process always ended */
}

void tamis__stop_watching(void)
{
  __cxa_finalize(&exit_was_called);
}

bool tamis__process_ends(void)
{
  return atomic_load_explicit(&exit_was_called, memory_order_relaxed);
}
