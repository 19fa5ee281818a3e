/* SPDX-License-Identifier: MIT */
#include "base/hook.h"

#ifdef TAMIS_HOOKS
void (*_Atomic tamis__hook)(const char *name);
#else
typedef int tamis__no_hooks; /* ISO C requires a declaration in every file */
#endif
