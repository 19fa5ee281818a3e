/* SPDX-License-Identifier: MIT
 *
 * The library as an addon for Node, by Node-API.  Its functions have the names and the results of those that the
 * WebAssembly exports (core/), so that src/filter.js works with either; a filter is an External here, and a key the
 * string or the Uint8Array itself.  src/addon.js alone calls them, and has checked the arguments: a wrong one here
 * must do no harm, but need not be explained.
 *
 * Each thread of Node that loads the addon (the main one, and workers) calls from itself alone.  Node
 * finalizes a worker's Externals when the worker ends, also if it is terminated, which is never in the midst of a
 * call.
 */
#define NAPI_VERSION 8
#include "core.h"
#include "filter.h"

#include <errno.h>
#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments and results ---- */

enum { MOST_ARGUMENTS = 8 };

struct arguments {
  napi_env env;
  napi_value value[MOST_ARGUMENTS]; /* those that are missing are undefined */
};

static struct arguments arguments_of(napi_env env, napi_callback_info info)
{
  struct arguments a = {.env = env};
  size_t n = MOST_ARGUMENTS;
  napi_get_cb_info(env, info, &n, a.value, NULL, NULL);
  return a;
}

static int32_t integer_at(const struct arguments *a, size_t i)
{
  int32_t number = 0;
  napi_get_value_int32(a->env, a->value[i], &number);
  return number;
}

static uint64_t whole_number_at(const struct arguments *a, size_t i)
{
  uint64_t number = 0;
  bool lossless;
  napi_get_value_bigint_uint64(a->env, a->value[i], &number, &lossless);
  return number;
}

static double real_at(const struct arguments *a, size_t i)
{
  double number = 0;
  napi_get_value_double(a->env, a->value[i], &number);
  return number;
}

/* errno of the last result that was TAMIS_EIO. */
static _Thread_local int last_error;

static napi_value integer(napi_env env, int number)
{
  napi_value value = NULL;
  napi_create_int32(env, number, &value);
  return value;
}

static napi_value result_value(napi_env env, int result)
{
  if (result == TAMIS_EIO)
    last_error = errno;
  return integer(env, result);
}

static napi_value real(napi_env env, double number)
{
  napi_value value = NULL;
  napi_create_double(env, number, &value);
  return value;
}

static napi_value whole_number(napi_env env, uint64_t number)
{
  napi_value value = NULL;
  napi_create_bigint_uint64(env, number, &value);
  return value;
}

static napi_value text(napi_env env, const char *string)
{
  napi_value value = NULL;
  napi_create_string_utf8(env, string, NAPI_AUTO_LENGTH, &value);
  return value;
}

static napi_value nothing(napi_env env)
{
  napi_value value = NULL;
  napi_get_null(env, &value);
  return value;
}

/* ---- functions that are one call ---- */

#define PLAIN(name, value)                                      \
  static napi_value name(napi_env env, napi_callback_info info) \
  {                                                             \
    (void) info;                                                \
    return (value);                                             \
  }

#define OF_FILTER(name, value)                                  \
  static napi_value name(napi_env env, napi_callback_info info) \
  {                                                             \
    struct arguments a = arguments_of(env, info);               \
    tamis_filter *f = filter_at(&a, 0);                         \
    return f ? (value) : NULL;                                  \
  }

#define OF_FILTERS(name, value)                                               \
  static napi_value name(napi_env env, napi_callback_info info)               \
  {                                                                           \
    struct arguments a = arguments_of(env, info);                             \
    tamis_filter *f = filter_at(&a, 0), *other = f ? filter_at(&a, 1) : NULL; \
    return other ? (value) : NULL;                                            \
  }

/* ---- filters ---- */

/* What an External points to. */
struct reference {
  struct filter *filter; /* NULL: it was given back */
  int64_t bytes;         /* what the garbage collector was told that goes with it */
};

/* The garbage collector does not see what an External points to.  It runs when much has been made, so it must be
 * told, or a loop that makes filters takes all memory.  (A filter counts with what it takes when it is made.) */
static void tell_bytes(napi_env env, struct reference *reference, int64_t bytes)
{
  int64_t all;
  napi_adjust_external_memory(env, bytes - reference->bytes, &all);
  reference->bytes = bytes;
}

static void give_back(napi_env env, struct reference *reference)
{
  if (reference->filter)
    filter_release(reference->filter);
  reference->filter = NULL;
  tell_bytes(env, reference, 0);
}

static void finalize(napi_env env, void *data, void *hint)
{
  (void) hint;
  give_back(env, data);
  free(data);
}

/* Passes one reference on to JavaScript, with which `bytes` of memory go.  NULL stands for a filter that there was
 * no memory for. */
static napi_value external(napi_env env, struct filter *filter, uint64_t bytes)
{
  struct reference *reference = filter ? malloc(sizeof *reference) : NULL;
  napi_value value = NULL;
  if (reference) {
    *reference = (struct reference){.filter = filter};
    if (napi_create_external(env, reference, finalize, NULL, &value) == napi_ok) {
      tell_bytes(env, reference, (int64_t) bytes);
      return value;
    }
    free(reference);
  }
  if (filter)
    filter_release(filter);
  napi_throw_error(env, "ENOMEM", tamis_strerror(TAMIS_ENOMEM));
  return NULL;
}

/* NULL if there is none. */
static napi_value new_filter(napi_env env, tamis_filter *f)
{
  if (!f)
    return nothing(env);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(f, &stats);
  return external(env, filter_own(f), stats.bytes);
}

/* NULL: it is none, and an exception is pending. */
static struct reference *reference_at(const struct arguments *a, size_t i)
{
  void *reference = NULL;
  napi_get_value_external(a->env, a->value[i], &reference);
  if (!reference || !((struct reference *) reference)->filter) {
    napi_throw_type_error(a->env, NULL, "this is no filter, or it has been freed");
    return NULL;
  }
  return reference;
}

static tamis_filter *filter_at(const struct arguments *a, size_t i)
{
  struct reference *reference = reference_at(a, i);
  return reference ? reference->filter->f : NULL;
}

PLAIN(create, new_filter(env, core_create()))

static napi_value destroy(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  struct reference *reference = reference_at(&a, 0);
  if (reference)
    give_back(env, reference);
  return NULL;
}

static napi_value handle(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  struct reference *reference = reference_at(&a, 0);
  return reference ? whole_number(env, filter_handle(reference->filter)) : NULL;
}

/* null: there is no such filter. */
static napi_value attach(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  struct filter *filter = filter_find(whole_number_at(&a, 0));
  return filter ? external(env, filter, 0) : nothing(env); /* whoever made it has told */
}

/* open_shared(path, withOptions, mode, group) */
static napi_value open_shared(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  size_t size = 0;
  bool with_options = false;
  napi_get_value_bool(env, a.value[1], &with_options);
  napi_get_value_string_utf8(env, a.value[0], NULL, 0, &size);
  char *path = malloc(size + 1);
  if (!path)
    return external(env, NULL, 0);
  path[0] = '\0';
  napi_get_value_string_utf8(env, a.value[0], path, size + 1, &size);
  tamis_filter *f =
      core_open_shared(path, with_options, (unsigned) integer_at(&a, 2), (int64_t) real_at(&a, 3));
  free(path);
  return f ? external(env, filter_own(f), 0) : nothing(env); /* its memory is the file's */
}

/* ---- the calls with one key ---- */

enum { KEY_ROOM = 1024 };

/* A call on a filter with a key. */
struct call {
  napi_env env;
  tamis_filter *f;
  const void *key;
  size_t len;
  char *allocated; /* for a long string */
  char room[KEY_ROOM];
};

/* A string that does not fit into the room. */
static bool take_long_string(struct call *c, napi_value value)
{
  napi_get_value_string_utf8(c->env, value, NULL, 0, &c->len);
  c->key = c->allocated = malloc(c->len + 1);
  if (!c->allocated) {
    napi_throw_range_error(c->env, NULL, "a long key: out of memory");
    return false;
  }
  napi_get_value_string_utf8(c->env, value, c->allocated, c->len + 1, &c->len);
  return true;
}

static bool take_key(struct call *c, napi_value value)
{
  c->allocated = NULL;
  if (napi_get_value_string_utf8(c->env, value, c->room, KEY_ROOM, &c->len) == napi_ok) {
    c->key = c->room;
    return c->len + 4 < KEY_ROOM || /* or it was cut; a character has four bytes at most */
           take_long_string(c, value);
  }
  napi_typedarray_type type;
  void *data;
  if (napi_get_typedarray_info(c->env, value, &type, &c->len, &data, NULL, NULL) == napi_ok &&
      type == napi_uint8_array) {
    c->key = data ? data : c->room; /* that of an array without bytes may be NULL */
    return true;
  }
  napi_throw_type_error(c->env, NULL, "a key must be a string or a Uint8Array");
  return false;
}

static bool begin(struct call *c, napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  c->env = env;
  c->f = filter_at(&a, 0);
  return c->f && take_key(c, a.value[1]);
}

static napi_value end(const struct call *c, napi_value value)
{
  free(c->allocated);
  return value;
}

/* A function of a filter and a key. */
#define OF_KEY(name, value)                                     \
  static napi_value name(napi_env env, napi_callback_info info) \
  {                                                             \
    struct call c;                                              \
    return begin(&c, env, info) ? end(&c, (value)) : NULL;      \
  }
OF_KEY(add, result_value(env, tamis_add(c.f, c.key, c.len)))
OF_KEY(add_unique, result_value(env, tamis_add_unique(c.f, c.key, c.len)))

/* An add for some periods, which stand behind the key. */
static napi_value add_with_end(napi_env env, napi_callback_info info,
                               int (*work)(tamis_filter *, const void *, size_t, unsigned))
{
  struct arguments a = arguments_of(env, info);
  uint32_t periods = UINT32_MAX;
  struct call c;
  napi_get_value_uint32(env, a.value[2], &periods);
  return begin(&c, env, info) ? end(&c, result_value(env, work(c.f, c.key, c.len, periods))) : NULL;
}

static napi_value add_for(napi_env env, napi_callback_info info)
{
  return add_with_end(env, info, tamis_add_for);
}

static napi_value add_unique_for(napi_env env, napi_callback_info info)
{
  return add_with_end(env, info, tamis_add_unique_for);
}

OF_KEY(remove_key, result_value(env, tamis_remove(c.f, c.key, c.len)))
OF_KEY(has, integer(env, tamis_contains(c.f, c.key, c.len)))
OF_KEY(count, real(env, (double) tamis_count(c.f, c.key, c.len)))
OF_KEY(hash, whole_number(env, tamis_hash(c.f, c.key, c.len)))

/* ---- other calls on filters ---- */

OF_FILTER(advance, result_value(env, tamis_advance(f)))
OF_FILTER(advance_to, result_value(env, tamis_advance_to(f, whole_number_at(&a, 1))))
OF_FILTERS(merge, result_value(env, tamis_merge(f, other)))
OF_FILTERS(includes, result_value(env, core_includes(f, other)))
OF_FILTERS(intersect, new_filter(env, core_intersect(f, other)))
OF_FILTER(create_like, new_filter(env, core_create_like(f)))
OF_FILTER(settings, integer(env, core_settings(f)))
OF_FILTER(sync_filter, result_value(env, tamis_sync(f)))

/* ---- saved filters: their bytes go to a function of JavaScript, or come from it ---- */

/* The function of the load or save that the thread is in.  A load in a function of another one has its own. */
static _Thread_local const struct stream {
  napi_env env;
  napi_value function;
} * stream;

/* False: an exception is pending, or will be when a worker that was terminated returns. */
static bool call_function(napi_value argument, napi_value *returned)
{
  napi_value undefined;
  return napi_get_undefined(stream->env, &undefined) == napi_ok &&
         napi_call_function(stream->env, undefined, stream->function, 1, &argument, returned) ==
             napi_ok;
}

static int ask_for_bytes(void *data, size_t size)
{
  napi_value wanted, got;
  napi_typedarray_type type;
  size_t length = 0;
  void *bytes = NULL;
  if (napi_create_double(stream->env, (double) size, &wanted) != napi_ok ||
      !call_function(wanted, &got) ||
      napi_get_typedarray_info(stream->env, got, &type, &length, &bytes, NULL, NULL) != napi_ok ||
      type != napi_uint8_array || length > size)
    return -1;
  if (length)
    memcpy(data, bytes, length);
  return (int) length;
}

static int give_bytes(const void *data, size_t size)
{
  napi_value buffer, part, returned;
  void *bytes;
  if (napi_create_arraybuffer(stream->env, size, &bytes, &buffer) != napi_ok)
    return -1;
  memcpy(bytes, data, size);
  return napi_create_typedarray(stream->env, napi_uint8_array, size, buffer, 0, &part) == napi_ok &&
                 call_function(part, &returned)
             ? 0
             : -1;
}

/* The values of one call of JavaScript's are let go before the next one. */
int core_read(void *data, size_t size)
{
  enum { MOST = 1 << 20 };
  napi_handle_scope scope;
  if (napi_open_handle_scope(stream->env, &scope) != napi_ok)
    return -1;
  int got = ask_for_bytes(data, size < MOST ? size : MOST);
  napi_close_handle_scope(stream->env, scope);
  return got;
}

int core_write(const void *data, size_t size)
{
  napi_handle_scope scope;
  if (napi_open_handle_scope(stream->env, &scope) != napi_ok)
    return -1;
  int result = give_bytes(data, size);
  napi_close_handle_scope(stream->env, scope);
  return result;
}

/* load(maxBytes, read) */
static napi_value load(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  const struct stream own = {env, a.value[1]}, *before = stream;
  stream = &own;
  tamis_filter *f = core_load(whole_number_at(&a, 0));
  stream = before;
  return new_filter(env, f);
}

/* info(read) */
static napi_value saved_info(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  const struct stream own = {env, a.value[0]}, *before = stream;
  stream = &own;
  int result = core_info();
  stream = before;
  return integer(env, result);
}

/* save(filter, write), which may free the filter. */
static napi_value save(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  struct reference *reference = reference_at(&a, 0);
  if (!reference)
    return NULL;
  struct filter *filter = reference->filter;
  const struct stream own = {env, a.value[1]}, *before = stream;
  filter_hold(filter);
  stream = &own;
  int result = core_save(filter->f);
  stream = before;
  filter_release(filter);
  return integer(env, result);
}

/* ---- figures, options and plans ---- */

OF_FILTER(stats, integer(env, core_stats(f)))

static napi_value figures(napi_env env, napi_callback_info info)
{
  napi_value array = NULL;
  (void) info;
  if (napi_create_array_with_length(env, CORE_FIGURES, &array) == napi_ok)
    for (uint32_t i = 0; i < CORE_FIGURES; i++)
      napi_set_element(env, array, i, real(env, core_figures()[i]));
  return array;
}

PLAIN(seed, whole_number(env, core_seed()))

static napi_value options(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  uint32_t window = 0;
  napi_get_value_uint32(env, a.value[4], &window);
  core_options(integer_at(&a, 0), integer_at(&a, 1), whole_number_at(&a, 2), real_at(&a, 3), window,
               (unsigned) integer_at(&a, 5), whole_number_at(&a, 6), whole_number_at(&a, 7));
  return NULL;
}

PLAIN(check, integer(env, core_check()))
PLAIN(bytes_for, integer(env, core_bytes_for()))

static napi_value fpp_for(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  return integer(env, core_fpp_for(whole_number_at(&a, 0)));
}

PLAIN(bytes, real(env, core_bytes()))
PLAIN(rate, real(env, core_rate()))
PLAIN(last_result, integer(env, core_result()))
PLAIN(sentence, text(env, core_sentence()))

static napi_value phrase(napi_env env, napi_callback_info info)
{
  struct arguments a = arguments_of(env, info);
  int result = integer_at(&a, 0);
  char sentence_with_reason[256];
  if (result != TAMIS_EIO)
    return text(env, tamis_strerror(result));
  (void) snprintf(sentence_with_reason, sizeof sentence_with_reason, "%s: %s",
                  tamis_strerror(result), strerror(last_error));
  return text(env, sentence_with_reason);
}

PLAIN(version, text(env, tamis_version()))

/* ---- the addon ---- */

static const struct {
  const char *name;
  napi_callback call;
} functions[] = {
    {"add", add},
    {"add_for", add_for},
    {"add_unique", add_unique},
    {"add_unique_for", add_unique_for},
    {"advance", advance},
    {"advance_to", advance_to},
    {"attach", attach},
    {"bytes", bytes},
    {"bytes_for", bytes_for},
    {"check", check},
    {"count", count},
    {"create", create},
    {"create_like", create_like},
    {"destroy", destroy},
    {"figures", figures},
    {"fpp_for", fpp_for},
    {"handle", handle},
    {"has", has},
    {"hash", hash},
    {"includes", includes},
    {"info", saved_info},
    {"intersect", intersect},
    {"load", load},
    {"merge", merge},
    {"open_shared", open_shared},
    {"options", options},
    {"phrase", phrase},
    {"rate", rate},
    {"remove", remove_key},
    {"result", last_result},
    {"save", save},
    {"seed", seed},
    {"sentence", sentence},
    {"settings", settings},
    {"stats", stats},
    {"sync", sync_filter},
    {"version", version},
};

NAPI_MODULE_INIT()
{
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_value function;
    if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL,
                             &function) != napi_ok ||
        napi_set_named_property(env, exports, functions[i].name, function) != napi_ok)
      return NULL;
  }
  return exports;
}
