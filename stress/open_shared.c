/* SPDX-License-Identifier: MIT
 *
 * Lets a program that creates filters open shared ones instead, where that can be: so that what is
 * true of a filter of one process is tried on one that processes may share.  Linked with
 * --wrap=tamis_create.
 */
#include "tamis/tamis.h"

int __real_tamis_create(const tamis_options *options, tamis_filter **out);

int __wrap_tamis_create(const tamis_options *options, tamis_filter **out)
{
  if (options->kind != TAMIS_BLOOM || (options->window && options->growable) || options->hash)
    return __real_tamis_create(options, out);
  tamis_options shared = *options;
  if (shared.growable && !shared.max_bytes)
    shared.max_bytes = UINT64_C(1) << 32;
  return tamis_open_shared(&shared, NULL, out);
}
