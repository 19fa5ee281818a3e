/* SPDX-License-Identifier: MIT
 *
 * The variables of a filter.  Each has one value for a request.
 */
#ifndef TAMIS_NGINX_VARIABLES_H
#define TAMIS_NGINX_VARIABLES_H

#include "filters.h"

/* Makes $tamis_seen_NAME, and unless the filter is a list $tamis_first_NAME.  An error is logged. */
bool variables_add(ngx_conf_t *cf, struct named_filter *f);

/* Whether a variable, with a name in lower case, is one of a filter: then only the filter's name is
 * left. */
bool variables_filter(ngx_str_t *name);

#endif
