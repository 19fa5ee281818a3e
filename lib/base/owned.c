/* SPDX-License-Identifier: MIT */
#include "base/owned.h"

#include "base/cancel.h"
#include "base/hook.h"
#include "base/shared_file.h"
#include "base/stripe.h"
#include "tamis/tamis.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

/* A fork waits for no lock (R3 in reclaim.c): only the child has a handler, which initialises the
 * lock.  The list `owners` must be valid after each step, because the child uses the list. */

/* LOCK process.owners (order 6): protects the list of the owners of this process, and lets one
 * thread at a time name an owner; held while the list is changed or an owner is named. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct owner *owners;
static bool handler_registered;

/* Returns true if `file` is the owner's file.  After other code has closed the owner's descriptor
 * by mistake, the descriptor's number may mean another file. */
static bool is_same(const struct owner *owner, const struct shared_file *file)
{
  return file->device == owner->device && file->inode == owner->inode;
}

static bool is_ours(const struct owner *owner, int fd)
{
  struct shared_file file = {.fd = fd};
  return fd >= 0 && tamis__shared_file_look(&file) == TAMIS_OK && is_same(owner, &file);
}

static void drop_name(struct owner *owner)
{
  struct shared_file file = {.fd = owner->alive, .device = owner->device, .inode = owner->inode};
  if (file.fd >= 0)
    (void) tamis__shared_file_look(&file); /* if fstat() fails, `file` keeps the owner's inode */
  if (file.fd >= 0 && is_same(owner, &file))
    close(owner->alive);
  owner->alive = -1;
  atomic_store_explicit(&owner->name, 0, memory_order_relaxed);
}

static void after_fork_in_child(void)
{
  int error = errno;
  pthread_mutex_init(&lock, NULL);
  for (struct owner *owner = owners; owner; owner = owner->next) {
    drop_name(owner);
    owner->forked(owner);
  }
  errno = error;
}

static void register_handler(void)
{
  handler_registered = !pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- names ---- */

/* A name is at least 2^62 and less than 2^63.  So a name is a valid file offset, beyond all bytes
 * that programs might lock to protect the contents of a file. */
static const uint64_t name_bit = UINT64_C(1) << 62;

static bool is_name(uint64_t name)
{
  return name >> 62 == 1;
}

static int open_alive(struct owner *owner)
{
  struct shared_file alive;
  int result = tamis__shared_file_open_anew(&alive, owner->file);
  if (result != TAMIS_OK)
    return result;
  owner->alive = alive.fd;
  if (is_ours(owner, alive.fd))
    return TAMIS_OK;
  close(alive.fd);
  owner->alive = -1;
  errno = EBADF;
  return TAMIS_EIO;
}

/* Claims a name, under the lock of the file.  Sets *alone to true if no other process has a name.
 * ORDER owner.named (release)
 *   pairs with     owner.name, whose comment says why */
static int claim_locked(struct owner *owner, const struct shared_file *alive, bool *alone)
{
  uint64_t name;
  if (getentropy(&name, sizeof name))
    return TAMIS_EIO;
  name = name_bit | (name & (name_bit - 1));
  int result = tamis__shared_file_claim(alive, name);
  if (result != TAMIS_OK)
    return result;
  *alone = !tamis__shared_file_is_claimed(alive, name_bit, 0);
  atomic_store_explicit(&owner->name, name, memory_order_release);
  return TAMIS_OK;
}

static int give_name(struct owner *owner, int (*first)(void *context), void *context)
{
  bool alone = false;
  int result = open_alive(owner);
  if (result != TAMIS_OK)
    return result;
  const struct shared_file alive = {.fd = owner->alive};
  result = tamis__shared_file_lock(&alive);
  if (result == TAMIS_OK) {
    result = claim_locked(owner, &alive, &alone);
    if (result == TAMIS_OK && alone && first)
      result = first(context);
    tamis__shared_file_unlock(&alive);
  }
  if (result != TAMIS_OK) {
    int error = errno;
    drop_name(owner);
    errno = error;
  }
  return result;
}

int tamis__owner_renew(struct owner *owner, int (*first)(void *context), void *context)
{
  int cancellation = cancellation_disable();
  pthread_mutex_lock(&lock);
  int result = owner_has_name(owner) ? TAMIS_OK : give_name(owner, first, context);
  pthread_mutex_unlock(&lock);
  cancellation_restore(cancellation);
  return result;
}

void tamis__owner_begin_alone(struct owner *owner)
{
  *owner = (struct owner){.name = OWNER_ALONE, .file = -1, .alive = -1};
}

int tamis__owner_begin(struct owner *owner, int file, void (*forked)(struct owner *))
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct shared_file found = {.fd = file};
  int result = tamis__shared_file_look(&found);
  if (result != TAMIS_OK)
    return result;
  *owner = (struct owner){
      .file = file, .alive = -1, .device = found.device, .inode = found.inode, .forked = forked};
  pthread_once(&once, register_handler);
  if (!handler_registered)
    return TAMIS_ENOMEM;
  pthread_mutex_lock(&lock);
  owner->next = owners;
  owners = owner; /* before owner->alive is opened, which the child of a fork must close */
  pthread_mutex_unlock(&lock);
  return TAMIS_OK;
}

void tamis__owner_end(struct owner *owner)
{
  if (owner->file < 0)
    return;
  pthread_mutex_lock(&lock);
  struct owner **link = &owners;
  while (*link && *link != owner)
    link = &(*link)->next;
  if (*link)
    *link = owner->next;
  pthread_mutex_unlock(&lock);
  drop_name(owner);
}

/* ---- waiting ---- */

static bool is_dead(const struct owner *self, uint64_t name)
{
  const struct shared_file alive = {.fd = self->alive};
  return self->file >= 0 && name != owner_name(self) &&
         (!is_name(name) ||
          (!tamis__shared_file_is_claimed(&alive, name, 1) && is_ours(self, alive.fd)));
}

/* Waits until the process has a name, which the child of a fork lacks at first. */
static void await_name(const struct owner *owner)
{
  for (unsigned round = 0;
       !owner_has_name(owner) && tamis__owner_renew((struct owner *) owner, NULL, NULL) != TAMIS_OK;
       round++)
    tamis__lock_back_off(round);
}

/* Takes the lock over from a dead process, which wrote nothing after the kernel had freed its name.
 * Acquire, as in owned.lock. */
static bool take_over(struct owned_lock *wanted, uint64_t dead, const struct owner *owner)
{
  return atomic_compare_exchange_strong_explicit(&wanted->owner, &dead, owner_name(owner),
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Asks the kernel before each yield whether the owner is alive.  The question takes little time
 * compared with the yield, which can last for the time slices of all running processes. */
bool tamis__owned_wait(struct owned_lock *wanted, const struct owner *owner)
{
  HOOK(stripe_wait);
  await_name(owner);
  for (unsigned round = 0;; round++) {
    uint64_t holder = atomic_load_explicit(&wanted->owner, memory_order_relaxed); /* only a hint */
    if (!holder && owned_trylock(wanted, owner))
      return false;
    if (round >= LOCK_SPIN_ROUNDS)
      HOOK(shared_owner_asked_for);
    if (holder && round >= LOCK_SPIN_ROUNDS && is_dead(owner, holder) &&
        take_over(wanted, holder, owner))
      return true;
    tamis__lock_back_off(round);
  }
}
