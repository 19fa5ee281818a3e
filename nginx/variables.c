/* SPDX-License-Identifier: MIT
 *
 * A variable is evaluated once for each request of a client.  If it were evaluated again, the request
 * that was the first one with its key would find that the key has been seen: by itself.  nginx alone
 * does not see to it, as it forgets what modules have noted when a request is redirected internally,
 * and keeps the values only of those variables that the configuration names.  So the answers are kept
 * where nothing but the end of the request takes them away: with what its pool cleans up.
 *
 * Subrequests are parts of their main request, and so have its answers.  Its key counts too,
 * whichever of them needs the answer first: otherwise the location of an auth_request, which has no
 * arguments of its own, would ask for another key than the request that it is asked about.
 */
#include "variables.h"

enum question { FIRST, SEEN, QUESTIONS };

/* '0' and '1', or 0 if the question has not been asked: for each filter QUESTIONS of them. */
static void forget_answers(void *answers)
{
  (void) answers; /* which are the pool's */
}

/* NULL without memory. */
static u_char *answers_of(ngx_http_request_t *r, const struct named_filter *f)
{
  ngx_pool_cleanup_t *c;
  for (c = r->pool->cleanup; c; c = c->next)
    if (c->handler == forget_answers)
      return (u_char *) c->data + f->number * QUESTIONS;
  const ngx_array_t *filters = ngx_http_get_module_main_conf(r, ngx_http_tamis_module);
  c = ngx_pool_cleanup_add(r->pool, filters->nelts * QUESTIONS);
  if (!c)
    return NULL;
  c->handler = forget_answers;
  ngx_memzero(c->data, filters->nelts * QUESTIONS);
  return (u_char *) c->data + f->number * QUESTIONS;
}

/* Sets the URI and the arguments that the client sent.  nginx's own function for that ends a request whose URI it
 * refuses.  nginx may have read the URI by the merge_slashes of another server, so both settings are tried. */
static bool set_client_uri(ngx_http_request_t *r)
{
  const ngx_http_core_srv_conf_t *server = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
  const ngx_uint_t merges = server->merge_slashes != 0;
  r->uri.len = (size_t) (r->uri_end - r->uri_start) + r->empty_path_in_uri;
  r->uri.data = ngx_pnalloc(r->pool, r->uri.len);
  if (!r->uri.data || (ngx_http_parse_complex_uri(r, merges) != NGX_OK &&
                       ngx_http_parse_complex_uri(r, !merges) != NGX_OK))
    return false;
  if (r->args_start && r->uri_end > r->args_start) {
    r->args.len = (size_t) (r->uri_end - r->args_start);
    r->args.data = r->args_start;
  }
  return true;
}

/* An error_page, or another redirect inside nginx, may have put arguments of its own in place of the
 * client's.  A key that is empty with those is the key of the request as the client sent it.  (One
 * that is not empty is what the redirect says: no client can choose another one.)  Variables such as those
 * of a map keep their first value, so empty ones are forgotten for that key. */
static bool get_key(ngx_http_request_t *r, struct named_filter *f, ngx_str_t *key)
{
  bool got = ngx_http_complex_value(r, &f->key, key) == NGX_OK;
  if (!got || key->len || !r->internal || !r->unparsed_uri.len)
    return got;
  ngx_str_t uri = r->uri, args = r->args, exten = r->exten;
  const ngx_http_core_main_conf_t *core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
  const size_t size = core->variables.nelts * sizeof *r->variables;
  ngx_http_variable_value_t *values = ngx_palloc(r->pool, size);
  if (!values)
    return false;
  ngx_memcpy(values, r->variables, size);
  for (ngx_uint_t i = 0; i < core->variables.nelts; i++)
    if (!r->variables[i].len)
      r->variables[i].valid = r->variables[i].not_found = 0;
  got = set_client_uri(r) && ngx_http_complex_value(r, &f->key, key) == NGX_OK;
  r->uri = uri, r->args = args, r->exten = exten;
  ngx_memcpy(r->variables, values, size);
  return got;
}

/* What is no time, as where the client leaves out what it is taken from, is the window. */
static time_t life_of(ngx_http_request_t *r, struct named_filter *f)
{
  ngx_str_t text;
  return f->life.value.len && ngx_http_complex_value(r, &f->life, &text) == NGX_OK
             ? ngx_parse_time(&text, 1)
             : NGX_ERROR;
}

static bool ask(ngx_http_request_t *r, struct named_filter *f, enum question question)
{
  ngx_str_t key;
  if (!get_key(r, f, &key))
    return question == FIRST && f->first_on_error;
  if (!key.len)
    return false; /* a request without a key is neither the first one with it, nor on a list */
  return question == FIRST ? filter_add_first(f, &key, life_of(r, f), r->connection->log)
                           : filter_contains(f, &key, r->connection->log);
}

static void answer(ngx_http_request_t *r, ngx_http_variable_value_t *v, struct named_filter *f,
                   enum question question)
{
  static const char text[] = "01";
  u_char *answers = answers_of(r->main, f);
  bool yes;
  if (answers && answers[question])
    yes = answers[question] == '1';
  else if (answers)
    yes = ask(r->main, f, question);
  else
    yes = question == FIRST && f->first_on_error; /* what could not be kept is not asked */
  if (answers)
    answers[question] = (u_char) text[yes];
  v->data = (u_char *) text + yes;
  v->len = 1;
  v->valid = 1;
  v->no_cacheable = 0;
  v->not_found = 0;
}

static ngx_int_t get_first(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t f)
{
  answer(r, v, (struct named_filter *) f, FIRST);
  return NGX_OK;
}

static ngx_int_t get_seen(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t f)
{
  answer(r, v, (struct named_filter *) f, SEEN);
  return NGX_OK;
}

static const ngx_str_t prefixes[QUESTIONS] = {ngx_string("tamis_first_"),
                                              ngx_string("tamis_seen_")};

bool variables_filter(ngx_str_t *name)
{
  for (int i = 0; i < QUESTIONS; i++)
    if (name->len >= prefixes[i].len &&
        ngx_strncmp(name->data, prefixes[i].data, prefixes[i].len) == 0) {
      name->data += prefixes[i].len;
      name->len -= prefixes[i].len;
      return true;
    }
  return false;
}

static bool add(ngx_conf_t *cf, struct named_filter *f, enum question question)
{
  static const ngx_http_get_variable_pt get[QUESTIONS] = {get_first, get_seen};
  const ngx_str_t *prefix = &prefixes[question];
  ngx_str_t name = {prefix->len + f->name.len, ngx_pnalloc(cf->pool, prefix->len + f->name.len)};
  if (!name.data)
    return false;
  ngx_memcpy(name.data, prefix->data, prefix->len);
  ngx_memcpy(name.data + prefix->len, f->name.data, f->name.len);
  ngx_http_variable_t *v = ngx_http_add_variable(cf, &name, 0);
  if (!v)
    return false;
  if (v->flags & NGX_HTTP_VAR_CHANGEABLE) { /* as a map, or a `set`, makes them */
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "tamis_filter \"%V\": a directive above makes a variable \"%V\"", &f->name,
                       &name);
    return false;
  }
  v->get_handler = get[question];
  v->data = (uintptr_t) f;
  return true;
}

bool variables_add(ngx_conf_t *cf, struct named_filter *f)
{
  return add(cf, f, SEEN) && (f->is_list || add(cf, f, FIRST));
}
