/* SPDX-License-Identifier: MIT
 *
 * The filters that JavaScript has in this process.  Several threads of Node (workers) may have one filter: each
 * object of JavaScript holds a reference, and the filter is destroyed with the last one.
 *
 * Workers pass a filter on by its handle, a random number, which holds no reference.  So a number that is
 * forgotten on its way leaks nothing, and a wrong one is no address of anything.
 */
#ifndef TAMIS_JS_FILTER_H
#define TAMIS_JS_FILTER_H

#include <tamis/tamis.h>

struct filter {
  tamis_filter *f;
  size_t references;
  uint64_t handle; /* 0: nobody has asked for it */
};

/* Takes a filter over, with one reference.  NULL: no memory; the filter is destroyed. */
struct filter *filter_own(tamis_filter *f);

/* One reference more. */
void filter_hold(struct filter *filter);

/* One reference less. */
void filter_release(struct filter *filter);

/* 0: there are no random numbers, or no memory. */
uint64_t filter_handle(struct filter *filter);

/* The filter with that handle, with one reference more.  NULL: there is none, or not any more. */
struct filter *filter_find(uint64_t handle);

#endif
