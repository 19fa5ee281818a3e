/* SPDX-License-Identifier: MIT */
#include "base/unload.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>

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

/* Posted by exit(), which does that before destructors run.  NULL: it could not be arranged. */
static sem_t *exiting;

/* A handler that belongs to no library runs when the process ends, and not when a library goes.  A
 * function of ours might have gone by then.  So the handler is sem_post() itself, and its semaphore
 * stays when the library goes. */
void tamis__watch_for_exit(void)
{
  int __cxa_atexit(void (*)(void *), void *, void *); /* of the C++ ABI, in the C library */
  sem_t *semaphore = malloc(sizeof *semaphore);
  if (semaphore && sem_init(semaphore, 0, 0) == 0 &&
      __cxa_atexit((void (*)(void *))(void (*)(void)) sem_post, semaphore, NULL) == 0)
    exiting = semaphore;
  else
    free(semaphore);
}

bool tamis__process_ends(void)
{
  int posted = 1;
  return !exiting || (sem_getvalue(exiting, &posted) == 0 && posted > 0);
}
