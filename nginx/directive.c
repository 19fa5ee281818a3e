/* SPDX-License-Identifier: MIT */
#include "directive.h"

#include "variables.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- parameters ---- */

enum {
  KEY,
  LIST,
  CAPACITY,
  FPP,
  MAX_BYTES,
  GROWABLE,
  WINDOW,
  PERIOD,
  RENEWS,
  TTL,
  ON_ERROR,
  PARAMETERS
};

static bool compile(ngx_conf_t *cf, ngx_str_t *value, ngx_http_complex_value_t *out)
{
  ngx_http_compile_complex_value_t compile = {.cf = cf, .value = value, .complex_value = out};
  return ngx_http_compile_complex_value(&compile) == NGX_OK;
}

static bool set_key(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  return compile(cf, value, &f->key);
}

/* A number with k, m or g, which nginx takes for powers of 1024. */
static bool set_number(ngx_str_t *value, uint64_t *out)
{
  off_t number = ngx_parse_offset(value);
  *out = (uint64_t) number;
  return number != NGX_ERROR;
}

static bool set_capacity(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  (void) cf;
  f->has_options = true;
  return set_number(value, &f->options.capacity);
}

static bool set_max_bytes(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  (void) cf;
  return set_number(value, &f->options.max_bytes);
}

/* nginx has no function for numbers such as 1e-6.  (Its words have a 0 behind them.) */
static bool set_fpp(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  const char *text = (const char *) value->data;
  char *end;
  (void) cf;
  f->options.fpp = strtod(text, &end);
  return value->len && !*end && strspn(text, "0123456789.eE+-") == value->len;
}

static bool set_window(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  (void) cf;
  ngx_int_t periods = ngx_atoi(value->data, value->len);
  f->options.window = (unsigned) periods;
  return periods > 0 && periods <= NGX_MAX_INT32_VALUE;
}

static bool set_period(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  (void) cf;
  ngx_int_t seconds = ngx_parse_time(value, 1);
  f->period = seconds;
  return seconds > 0;
}

static bool set_ttl(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  return compile(cf, value, &f->life) && (f->life.lengths || ngx_parse_time(value, 1) != NGX_ERROR);
}

static bool set_on_error(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value)
{
  (void) cf;
  f->first_on_error = ngx_strcmp(value->data, "first") == 0;
  return f->first_on_error || ngx_strcmp(value->data, "seen") == 0;
}

static const struct parameter {
  ngx_str_t name;
  bool (*set)(ngx_conf_t *cf, struct named_filter *f, ngx_str_t *value);
  size_t flag; /* of a parameter without a value, which sets this bool of the filter */
} parameters[PARAMETERS] = {
    [KEY] = {ngx_string("key"), set_key, 0},
    [LIST] = {ngx_string("list"), NULL, offsetof(struct named_filter, is_list)},
    [CAPACITY] = {ngx_string("capacity"), set_capacity, 0},
    [FPP] = {ngx_string("fpp"), set_fpp, 0},
    [MAX_BYTES] = {ngx_string("max_bytes"), set_max_bytes, 0},
    [GROWABLE] = {ngx_string("growable"), NULL, offsetof(struct named_filter, options.growable)},
    [WINDOW] = {ngx_string("window"), set_window, 0},
    [PERIOD] = {ngx_string("period"), set_period, 0},
    [RENEWS] = {ngx_string("renews"), NULL, offsetof(struct named_filter, options.window_renews)},
    [TTL] = {ngx_string("ttl"), set_ttl, 0},
    [ON_ERROR] = {ngx_string("on_error"), set_on_error, 0},
};

/* What is said of the file that is created needs all that is needed to create it. */
static const struct {
  unsigned given, needed;
} needs[] = {{FPP, CAPACITY},  {MAX_BYTES, CAPACITY}, {GROWABLE, CAPACITY}, {WINDOW, CAPACITY},
             {WINDOW, PERIOD}, {RENEWS, WINDOW},      {TTL, PERIOD}};

static char *refuse(ngx_conf_t *cf, const struct named_filter *f, const char *what,
                    const ngx_str_t *a, const ngx_str_t *b)
{
  ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "tamis_filter \"%V\": %s \"%V\"%s%V%s", &f->name, what,
                     a, b ? ", which needs \"" : "", b ? b : &(ngx_str_t) ngx_null_string,
                     b ? "\"" : "");
  return NGX_CONF_ERROR;
}

static const struct parameter *find_parameter(const ngx_str_t *word)
{
  const u_char *sign = (u_char *) strchr((const char *) word->data, '=');
  const size_t length = sign ? (size_t) (sign - word->data) : word->len;
  for (unsigned i = 0; i < PARAMETERS; i++)
    if (parameters[i].name.len == length && (sign != NULL) == (parameters[i].set != NULL) &&
        ngx_memcmp(word->data, parameters[i].name.data, length) == 0)
      return &parameters[i];
  return NULL;
}

static char *read_parameters(ngx_conf_t *cf, struct named_filter *f, unsigned *given)
{
  ngx_str_t *words = cf->args->elts;
  for (ngx_uint_t i = 3; i < cf->args->nelts; i++) {
    const struct parameter *p = find_parameter(&words[i]);
    if (!p)
      return refuse(cf, f, "unknown parameter", &words[i], NULL);
    unsigned bit = 1U << (p - parameters);
    if (*given & bit)
      return refuse(cf, f, "there is more than one", &p->name, NULL);
    *given |= bit;
    if (!p->set) {
      *(bool *) ((char *) f + p->flag) = true;
      continue;
    }
    ngx_str_t value = {words[i].len - p->name.len - 1, words[i].data + p->name.len + 1};
    if (!p->set(cf, f, &value))
      return refuse(cf, f, "invalid parameter", &words[i], NULL);
  }
  return NGX_CONF_OK;
}

static bool is_called(const struct named_filter *f, const ngx_str_t *name)
{
  return f->name.len == name->len && ngx_strncasecmp(f->name.data, name->data, name->len) == 0;
}

/* A key and a ttl may have the variables of filters that stand above: none depends on its own answer. */
static char *check_variables(ngx_conf_t *cf, const struct named_filter *f,
                             const ngx_http_complex_value_t *value, const ngx_array_t *others,
                             const char *what)
{
  const ngx_http_core_main_conf_t *core =
      ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
  const ngx_http_variable_t *variables = core->variables.elts;
  const ngx_uint_t *used = value->flushes;
  for (; used && *used != (ngx_uint_t) -1; used++) {
    ngx_str_t name = variables[*used].name;
    ngx_uint_t i = 0;
    if (!variables_filter(&name))
      continue;
    while (i < others->nelts && !is_called(((struct named_filter **) others->elts)[i], &name))
      i++;
    if (i == others->nelts)
      return refuse(cf, f, what, &value->value, NULL);
  }
  return NGX_CONF_OK;
}

/* With one key for all, no request but one would ever be the first. */
static char *check_values(ngx_conf_t *cf, const struct named_filter *f, const ngx_array_t *others)
{
  if (!f->key.lengths)
    return refuse(cf, f, "a key has a variable, unlike", &f->key.value, NULL);
  char *result = check_variables(cf, f, &f->key, others,
                                 "a key has variables of filters that stand above, unlike");
  if (result != NGX_CONF_OK)
    return result;
  return check_variables(cf, f, &f->life, others,
                         "a ttl has variables of filters that stand above, unlike");
}

static char *check_parameters(ngx_conf_t *cf, const struct named_filter *f, unsigned given)
{
  if (!(given & 1U << KEY))
    return refuse(cf, f, "there is no", &parameters[KEY].name, NULL);
  if (given & 1U << LIST)
    for (unsigned i = CAPACITY; i < PARAMETERS; i++)
      if (given & 1U << i)
        return refuse(cf, f, "a list has no", &parameters[i].name, NULL);
  for (unsigned i = 0; i < sizeof needs / sizeof *needs; i++)
    if (given & 1U << needs[i].given && !(given & 1U << needs[i].needed))
      return refuse(cf, f, "there is", &parameters[needs[i].given].name,
                    &parameters[needs[i].needed].name);
  /* Without a capacity, it is the file that says whether there is a window. */
  if (given & 1U << PERIOD && given & 1U << CAPACITY && !f->options.window)
    return refuse(cf, f, "there is", &parameters[PERIOD].name, &parameters[WINDOW].name);
  return NGX_CONF_OK;
}

/* ---- the directive ---- */

static bool is_name(const ngx_str_t *name)
{
  for (size_t i = 0; i < name->len; i++) {
    u_char c = name->data[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
      return false;
  }
  return name->len > 0;
}

static char *read_name(ngx_conf_t *cf, struct named_filter *f)
{
  ngx_str_t *words = cf->args->elts;
  f->name = words[1];
  f->path = words[2];
  f->file = cf->conf_file->file.name;
  f->line = cf->conf_file->line;
  if (!is_name(&f->name))
    return refuse(cf, f, "a name has letters, digits and underscores, unlike", &f->name, NULL);
  if (!f->path.len || ngx_http_script_variables_count(&f->path))
    return refuse(cf, f, "a path is not empty and has no variables, unlike", &f->path, NULL);
  return ngx_conf_full_name(cf->cycle, &f->path, 0) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

static bool same_options(const struct named_filter *a, const struct named_filter *b)
{
  const tamis_options *x = &a->options, *y = &b->options;
  return x->capacity == y->capacity && !(x->fpp < y->fpp) && !(x->fpp > y->fpp) &&
         x->growable == y->growable && x->max_bytes == y->max_bytes && x->window == y->window &&
         x->window_renews == y->window_renews && a->period == b->period;
}

/* The file that a path leads to, or the folder and the name that it would have. */
static bool find_place(const ngx_str_t *path, struct stat *out, const char **name)
{
  char folder[PATH_MAX];
  const char *whole = (const char *) path->data;
  *name = "";
  if (stat(whole, out) == 0)
    return true;
  *name = strrchr(whole, '/') + 1;
  (void) snprintf(folder, sizeof folder, "%.*s", (int) (*name - whole), whole);
  return stat(folder, out) == 0;
}

/* However they are spelt. */
static bool same_path(const ngx_str_t *a, const ngx_str_t *b)
{
  struct stat x, y;
  const char *name, *other;
  return find_place(a, &x, &name) && find_place(b, &y, &other) && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino && strcmp(name, other) == 0;
}

/* Two directives may have one file, for two keys or lives.  What they say of it has to be the same here: as
 * long as the file does not exist, there is nothing that one of them could contradict. */
static char *compare(ngx_conf_t *cf, const struct named_filter *f, const struct named_filter *other)
{
  if (is_called(other, &f->name))
    return refuse(cf, f, "there is another filter with this name, whose file is", &other->path,
                  NULL);
  if (!f->is_list && !other->is_list && same_path(&f->path, &other->path) &&
      !same_options(f, other))
    return refuse(cf, f, "its parameters are not those of the filter that has the same file,",
                  &other->name, NULL);
  return NGX_CONF_OK;
}

char *directive_read(ngx_conf_t *cf, ngx_command_t *command, void *filters)
{
  ngx_array_t *others = filters;
  unsigned given = 0;
  struct named_filter **place, *f = filter_new(cf->pool);
  (void) command;
  if (!f)
    return NGX_CONF_ERROR;
  char *result = read_name(cf, f);
  if (result == NGX_CONF_OK)
    result = read_parameters(cf, f, &given);
  if (result == NGX_CONF_OK)
    result = check_parameters(cf, f, given);
  if (result == NGX_CONF_OK)
    result = check_values(cf, f, others);
  for (ngx_uint_t i = 0; i < others->nelts && result == NGX_CONF_OK; i++)
    result = compare(cf, f, ((struct named_filter **) others->elts)[i]);
  if (result != NGX_CONF_OK)
    return result;
  /* `nginx -s` also reads the configuration, but to send a signal needs no filter. */
  if (ngx_process != NGX_PROCESS_SIGNALLER && !filter_check(cf, f))
    return NGX_CONF_ERROR;
  f->number = others->nelts;
  place = ngx_array_push(others);
  if (!place)
    return NGX_CONF_ERROR;
  *place = f;
  return variables_add(cf, f) ? NGX_CONF_OK : NGX_CONF_ERROR;
}
