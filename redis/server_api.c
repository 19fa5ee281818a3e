/* SPDX-License-Identifier: MIT */
#include "server_api.h"

#include <string.h>

struct server_api server;

typedef int (*find_function)(const char *name, void *out);

const char *server_api_find(server_ctx *ctx)
{
  find_function find;
  void *found;
  memcpy(&find, ctx, sizeof find);
#define FIND_FUNCTION(result, name, parameters, optional)          \
  found = NULL;                                                    \
  if (find("RedisModule_" #name, &found) != SERVER_OK || !found) { \
    if (!(optional))                                               \
      return #name;                                                \
    found = NULL;                                                  \
  }                                                                \
  memcpy(&server.name, &found, sizeof found);
  SERVER_FUNCTIONS(FIND_FUNCTION)
#undef FIND_FUNCTION
  return NULL;
}
