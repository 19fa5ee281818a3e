/* SPDX-License-Identifier: MIT */
#ifndef TAMIS_LIB_BLOOM_H
#define TAMIS_LIB_BLOOM_H

#include "base/filter.h"

/* The options are checked, `head` is filled in but for its operations.  TAMIS_OK, TAMIS_EINVAL,
 * TAMIS_EUNSUPPORTED, TAMIS_EFULL or TAMIS_ENOMEM. */
int tamis__bloom_create(const tamis_options *options, const struct tamis_filter *head,
                        tamis_filter **out);

/* What that would take. */
int tamis__bloom_bytes(const tamis_options *options, uint64_t *bytes);

/* The lowest rate that so many bytes allow, to 1 %.  Also TAMIS_EFULL: none. */
int tamis__bloom_fpp(const tamis_options *options, uint64_t bytes, double *fpp);

/* Whether the filter's counters and bits agree with each other and with its geometry; if not,
 * *reason says how not.  Looks at every bit; no other call may be running. */
bool tamis__bloom_validate(const tamis_filter *f, const char **reason);

#endif
