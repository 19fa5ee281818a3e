/* SPDX-License-Identifier: MIT */
#include "base/live_file.h"

#include "base/file.h"
#include "tamis/tamis.h"

/* ---- creation ---- */

enum { MAGIC = sizeof SAVED_MAGIC - 1 };

/* Reserves the space before the first write, so a full disk is found at once. */
static int take_space(const struct live_file *new, const struct shared_file *file)
{
  if (file_is_limited(new->size))
    return TAMIS_EIO;
  return file->asked ? tamis__shared_file_has_space(file, new->reserved)
                     : tamis__shared_file_reserve(file, 0, new->reserved, NULL);
}

static int write_unfinished(const struct live_file *new, const struct shared_file *file)
{
  struct file_part to = {.file = file, .end = new->size};
  struct saved_writer w = {.write = tamis__file_part_write, .context = &to};
  tamis__saved_begin(&w, new->saved);
  if (w.result == TAMIS_OK)
    memcpy(w.buffer, SAVED_UNFINISHED, MAGIC);
  if (new->put_blocks)
    new->put_blocks(new->context, &w);
  return tamis__saved_end_live(&w);
}

/* Writes the magic number last, when all other bytes are on the disk. */
int tamis__live_file_write(const struct live_file *new, struct shared_file *file)
{
  int result = take_space(new, file);
  if (result != TAMIS_OK || file->asked)
    return result;
  result = tamis__shared_file_write(file, SAVED_UNFINISHED, MAGIC, 0);
  if (result == TAMIS_OK)
    result = tamis__shared_file_flush(file); /* so that a crash leaves no file of zeros only */
  if (result == TAMIS_OK)
    result = tamis__shared_file_resize(file, new->size);
  if (result == TAMIS_OK)
    result =
        tamis__shared_file_write(file, new->numbers, new->n * sizeof(uint64_t), new->numbers_at);
  if (result == TAMIS_OK)
    result = write_unfinished(new, file);
  if (result == TAMIS_OK)
    result = tamis__shared_file_flush(file);
  return result == TAMIS_OK ? tamis__shared_file_write(file, SAVED_MAGIC, MAGIC, 0) : result;
}

/* ---- after a restart ---- */

/* ORDER live.boot (acquire)
 *   pairs with     live.counted
 *   makes visible  that `mend` has corrected the counters and reserved the space
 *   if weakened    a process might see that the file is mended, but use older counters
 *   checked by     mutants/start_is_not_noticed (shows that *boot is read) */
static uint64_t mended_at(const _Atomic uint64_t *boot)
{
  return atomic_load_explicit(boot, memory_order_acquire);
}

/* ORDER live.counted (release)
 *   pairs with     live.boot, whose comment says why
 *   checked by     mutants/not_counted_again (shows that a file must be mended; tests no order) */
static void set_mended_at(_Atomic uint64_t *boot, uint64_t now)
{
  atomic_store_explicit(boot, now, memory_order_release);
}

int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context)
{
  const uint64_t known = tamis__shared_file_boot(), now = known ? known : 1;
  if (mended_at(boot) == now)
    return TAMIS_OK;
  int result = tamis__shared_file_lock(file);
  if (result != TAMIS_OK)
    return result;
  if (mended_at(boot) != now) /* unless another process has mended the file meanwhile */
    result = mend(context);
  if (result == TAMIS_OK)
    set_mended_at(boot, now);
  tamis__shared_file_unlock(file);
  return result;
}
