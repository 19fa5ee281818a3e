/* SPDX-License-Identifier: MIT
 *
 * What a directive tamis_filter names: a filter that workers change, or a list that they read.
 */
#ifndef TAMIS_NGINX_FILTERS_H
#define TAMIS_NGINX_FILTERS_H

#include "module.h"

#include <stdbool.h>
#include <tamis/tamis.h>

/* Which file a path led to, and in which state. */
struct file_identity {
  dev_t device;
  ino_t number;
  off_t size;
  struct timespec changed;
};

/* Errors of one kind, of which one a second is reported. */
struct reports {
  time_t at;
  ngx_uint_t before, unreported; /* `before` the last report, and since */
};

/* It is allocated from the pool of a configuration, and ends with it. */
struct named_filter {
  ngx_str_t name;
  ngx_str_t path; /* with a 0 behind it */
  ngx_str_t file; /* of the configuration, with `line`: where the directive stands */
  ngx_uint_t line;
  ngx_uint_t number;                  /* of this configuration's filters, from 0 */
  ngx_http_complex_value_t key, life; /* `life` has no text unless ttl is given */
  bool is_list;
  bool has_options; /* false: whatever is in the file */
  tamis_options options;
  time_t period;        /* of a window, in seconds; 0: there is no window */
  unsigned window;      /* its periods, by filter_check() */
  bool first_on_error;  /* whether a key that could not be added is the first one */
  tamis_filter *filter; /* NULL before it is opened */
  int fd;               /* of its file, until the configuration has been read; else -1 */

  time_t looked_at; /* of a list, the second; of a window, the period by the clock */
  uint64_t ahead;   /* the period that a wrong clock has begun; or 0 */

  /* A list: */
  struct file_identity mapped;
  struct file_identity refused; /* a file that could not be mapped, and has been reported */
  int refusal;

  struct reports add_errors, clock_errors;
};

/* A new one, which is closed when the pool ends; NULL without memory. */
struct named_filter *filter_new(ngx_pool_t *pool);

/* Whether the file can be used as the directive says.  An error is logged, with the directive's
 * place.  It leaves no file behind.  A list is mapped. */
bool filter_check(ngx_conf_t *cf, struct named_filter *f);

/* Opens the file of a filter that is no list, or creates it.  An error is logged. */
bool filter_open(struct named_filter *f, ngx_log_t *log);

/* Gives a file that root alone can open to the user whom workers run as. */
void filter_give(struct named_filter *f, ngx_uid_t user, ngx_log_t *log);

/* Ends the periods of a window that went by before.  Warns if this worker could not map the file that replaces a list. */
void filter_begin_worker(struct named_filter *f, ngx_log_t *log);

/* Adds a key that is not empty, in a window to the period of the clock, and says whether this was the
 * first time.  It is in for `ttl` seconds, and until the period ends that then runs; if that is less
 * than 0, or longer than the window, for the window.  If it cannot be added, an error is logged, and the
 * answer is `first_on_error`. */
bool filter_add_first(struct named_filter *f, const ngx_str_t *key, time_t ttl, ngx_log_t *log);

/* Whether a key is in.  A list whose file has been replaced is mapped anew before. */
bool filter_contains(struct named_filter *f, const ngx_str_t *key, ngx_log_t *log);

#endif
