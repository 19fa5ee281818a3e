/* SPDX-License-Identifier: MIT
 *
 * Layer 1: lets a program unload a plugin that contains the library.
 *
 * The first two functions are called once, before the library starts a thread; only the destructor
 * calls the others.  None of them blocks.
 */
#ifndef TAMIS_LIB_UNLOAD_H
#define TAMIS_LIB_UNLOAD_H

#include <stdbool.h>

/* Keeps the library that has `function` loaded, although a plugin that uses it is unloaded. */
void tamis__keep_loaded(void (*function)(void));

/* Lets tamis__process_ends() know of exit(), until tamis__stop_watching() is called.  The
 * destructor calls tamis__stop_watching() last, as exit() must not call unloaded code. */
void tamis__watch_for_exit(void);
void tamis__stop_watching(void);

/* Tells a destructor whether it runs because the process ends, rather than because a plugin is
 * unloaded.  Also returns true if the reason is not known. */
bool tamis__process_ends(void);

#endif
