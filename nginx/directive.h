/* SPDX-License-Identifier: MIT
 *
 * The directive tamis_filter.
 */
#ifndef TAMIS_NGINX_DIRECTIVE_H
#define TAMIS_NGINX_DIRECTIVE_H

#include "module.h"

/* For nginx: reads the directive that stands in cf->args, and checks its file.  `filters` is an
 * ngx_array_t of pointers to all filters of the configuration so far, which gets this one, too. */
char *directive_read(ngx_conf_t *cf, ngx_command_t *command, void *filters);

#endif
