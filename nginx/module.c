/* SPDX-License-Identifier: MIT */
#include "module.h"

#include "directive.h"
#include "filters.h"

/* The filters of a configuration: pointers to struct named_filter. */
static void *create_filters(ngx_conf_t *cf)
{
  return ngx_array_create(cf->pool, 4, sizeof(struct named_filter *));
}

/* Files are created only now that all of the block http has been read, and not by `nginx -t`. */
static ngx_int_t open_filters(ngx_conf_t *cf)
{
  const ngx_array_t *filters = ngx_http_conf_get_module_main_conf(cf, ngx_http_tamis_module);
  if (ngx_test_config || ngx_process == NGX_PROCESS_SIGNALLER)
    return NGX_OK;
  for (ngx_uint_t i = 0; i < filters->nelts; i++) {
    struct named_filter *f = ((struct named_filter **) filters->elts)[i];
    if (!f->is_list && !filter_open(f, cf->log))
      return NGX_ERROR;
  }
  return NGX_OK;
}

/* When the configuration has been taken, and it is known whom workers run as. */
static ngx_int_t give_files(ngx_cycle_t *cycle)
{
  const ngx_array_t *filters = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_tamis_module);
  const ngx_core_conf_t *core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
  for (ngx_uint_t i = 0; filters && i < filters->nelts; i++)
    filter_give(((struct named_filter **) filters->elts)[i], core->user, cycle->log);
  return NGX_OK;
}

static ngx_int_t begin_worker(ngx_cycle_t *cycle)
{
  const ngx_array_t *filters = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_tamis_module);
  if (!filters || (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE))
    return NGX_OK; /* there is no block http, or no request comes to this process */
  for (ngx_uint_t i = 0; i < filters->nelts; i++)
    filter_begin_worker(((struct named_filter **) filters->elts)[i], cycle->log);
  return NGX_OK;
}

static ngx_http_module_t callbacks = {
    .create_main_conf = create_filters,
    .postconfiguration = open_filters,
};

static ngx_command_t commands[] = {
    {ngx_string("tamis_filter"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, directive_read,
     NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL},
    ngx_null_command,
};

ngx_module_t ngx_http_tamis_module = {
    NGX_MODULE_V1,
    &callbacks,
    commands,
    NGX_HTTP_MODULE,
    NULL,       /* a master begins */
    give_files, /* too late for errors, which would end a master that reloads */
    begin_worker,
    NULL,
    NULL,
    NULL,
    NULL, /* a master ends */
    NGX_MODULE_V1_PADDING,
};

/* What nginx looks for when it loads the file. */
#define EXPORTED __attribute__((visibility("default")))
extern char *ngx_module_order[];
EXPORTED ngx_module_t *ngx_modules[] = {&ngx_http_tamis_module, NULL};
EXPORTED char *ngx_module_names[] = {"ngx_http_tamis_module", NULL};
EXPORTED char *ngx_module_order[] = {NULL};
