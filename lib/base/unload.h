/* SPDX-License-Identifier: MIT
 *
 * Layer 1: lets a program unload a plugin that contains the library.  No function here blocks.
 */
#ifndef TAMIS_LIB_UNLOAD_H
#define TAMIS_LIB_UNLOAD_H

#include <stdbool.h>

/* Keeps the library that defines `function` loaded, even when a plugin that uses it is unloaded.
 * This function and tamis__watch_for_exit() are called once, before the library starts a thread. */
void tamis__keep_loaded(void (*function)(void));

/* Lets tamis__process_ends() tell whether exit() was called.  The library's destructor must call
 * tamis__stop_watching() last, because exit() must not call unloaded code. */
void tamis__watch_for_exit(void);
void tamis__stop_watching(void);

/* For the library's destructor: false if a plugin is being unloaded; true if the process ends, or
 * if the destructor runs for an unknown reason. */
bool tamis__process_ends(void);

#endif
