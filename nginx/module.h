/* SPDX-License-Identifier: MIT
 *
 * tamis for nginx: filters that all workers share, and lists that they look keys up in.
 *
 *    module.c       what nginx calls: when a configuration is read, and when a worker begins
 *    directive.*    tamis_filter NAME PATH PARAMETER ...
 *    filters.*      what a directive names: its file, opened, replaced and closed
 *    variables.*    $tamis_first_NAME and $tamis_seen_NAME, each with one value for a request
 *
 * The master opens all files while it reads the configuration, so that whatever is wrong with them
 * is an error of the configuration, and workers, who have fewer rights, get them by fork().  A
 * filter is memory that all processes map from one file, so neither a reload nor a new binary is
 * special: their master opens the same file once more.
 *
 * A worker evaluates variables in one thread, one after the other.  (Threads of `aio threads` only
 * read and write files.)
 */
#ifndef TAMIS_NGINX_MODULE_H
#define TAMIS_NGINX_MODULE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

extern ngx_module_t ngx_http_tamis_module;

#endif
