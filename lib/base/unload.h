/* SPDX-License-Identifier: MIT
 *
 * Layer 1: lets a program unload a plugin that contains the library.
 *
 * tamis__keep_loaded() and tamis__watch_for_exit() are called once, before the library starts a
 * thread.  Only the library's destructor calls the other two functions.  No function here blocks.
 */
#ifndef TAMIS_LIB_UNLOAD_H
#define TAMIS_LIB_UNLOAD_H

#include <stdbool.h>

/* Keeps the library that has `function` loaded, even after a plugin that uses it is unloaded. */
void tamis__keep_loaded(void (*function)(void));

/* After tamis__watch_for_exit(), tamis__process_ends() can tell whether exit() was called.  The
 * destructor must call tamis__stop_watching() last, because exit() must not call unloaded code. */
void tamis__watch_for_exit(void);
void tamis__stop_watching(void);

/* For a destructor.  Returns false if it runs because a plugin is unloaded.  Returns true if it
 * runs because the process ends, or for an unknown reason. */
bool tamis__process_ends(void);

#endif
