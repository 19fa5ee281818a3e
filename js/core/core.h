/* SPDX-License-Identifier: MIT
 *
 * What JavaScript calls, in WebAssembly (with keys.c) and in the addon for Node (addon/): the library's calls with
 * arguments that WebAssembly can pass, that is, numbers.
 *
 * What a call finds out beside its result lies in variables of the calling thread, until its next call.
 *
 * With TAMIS_READER, only what asks a saved filter.
 */
#ifndef TAMIS_JS_CORE_H
#define TAMIS_JS_CORE_H

#include <tamis/tamis.h>

#ifdef TAMIS_WITHOUT_SYSTEM /* WebAssembly, where there is one thread */
#define EXPORT(name) __attribute__((export_name(#name), used))
#define IMPORT(name) __attribute__((import_module("tamis"), import_name(#name)))
#define PER_THREAD
#else
#define EXPORT(name)
#define IMPORT(name)
#define PER_THREAD _Thread_local
#endif

/* ---- what JavaScript does: the bytes of a saved filter ---- */

/* As tamis_read_function and tamis_write_function. */
IMPORT(read) int core_read(void *data, size_t size);
IMPORT(write) int core_write(const void *data, size_t size);

/* ---- results ---- */

/* Of the last call that returned NULL. */
int core_result(void);

/* ---- saved filters: load, info and save use what JavaScript does ---- */

/* NULL: see core_result(). */
tamis_filter *core_load(uint64_t max_bytes);
void core_destroy(tamis_filter *f);
int core_save(const tamis_filter *f);

/* ---- figures ---- */

enum { CORE_FIGURES = 26 };

/* Take the figures of a filter, or of a saved one, of which only the beginning is read. */
int core_stats(const tamis_filter *f);
int core_info(void);

/* The figures that were taken last, CORE_FIGURES of them, as they are named in src/stats.js; and the seed. */
const double *core_figures(void);
uint64_t core_seed(void);

/* ---- options, and what follows from them ---- */

enum { CORE_GROWABLE = 1, CORE_WINDOW_RENEWS = 2 };

void core_options(int kind, int layout, uint64_t capacity, double fpp, unsigned window,
                  unsigned flags, uint64_t max_bytes, uint64_t seed);

/* NULL: see core_result() and core_sentence(). */
tamis_filter *core_create(void);

/* The same, with the options of another filter. */
tamis_filter *core_create_like(const tamis_filter *f);

/* CORE_GROWABLE and CORE_WINDOW_RENEWS of a filter; core_bytes() has its max_bytes. */
int core_settings(const tamis_filter *f);

/* NULL: see core_result(). */
tamis_filter *core_intersect(const tamis_filter *a, const tamis_filter *b);
int core_includes(const tamis_filter *f, const tamis_filter *other);

#ifndef TAMIS_WITHOUT_SYSTEM
/* The same for a filter that processes share; without options, what is in the file. */
/* `mode` 0: that of the library. */
tamis_filter *core_open_shared(const char *path, bool with_options, unsigned mode, int64_t group);
#endif

/* Whether the options would be refused; core_sentence() says why. */
int core_check(void);
const char *core_sentence(void);

/* With TAMIS_OK, core_bytes() and core_rate() have what was asked for. */
int core_bytes_for(void);
int core_fpp_for(uint64_t bytes);
double core_bytes(void);
double core_rate(void);

#endif
