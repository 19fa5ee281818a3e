/* SPDX-License-Identifier: MIT
 *
 * To work each message once, although it comes several times.
 *
 * Two filters, because two questions are asked.  `claims` (cuckoo) has the messages that threads of
 * this process have in hand.  It is never saved.  `done` (a Bloom filter with a window) has those
 * that were worked.  It is saved.  A message goes through these steps:
 *
 *   1  claim        tamis_add_unique (claims)
 *   2  look         tamis_contains (done); if it is in, this is a copy: go on with 5
 *   3  work
 *   4  done         tamis_add (done)
 *   5  acknowledge
 *   6  release      tamis_remove (claims)
 *
 * One filter is not enough.  If the add came before the work, a save could hold a message whose
 * worker is then killed: the broker delivers it again, and it is dropped as done.  It is lost.  If
 * the add came after the work, and there were no claims, two copies at the same time would both be
 * worked.
 *
 * Which orders matter, and what is lost or worked twice otherwise:
 *
 *   work before done         else lost, as above
 *   work before acknowledge  else lost if the process is killed in between
 *   claim before look        else worked twice: between a look and a later claim, another may
 *                            work, record and release the message
 *   done before release      else worked twice: a copy may be claimed and looked up in between
 *
 * Acknowledge may come at any time after the work; a copy of a message that is done changes
 * nothing.  To acknowledge only what a save holds would be worse.  After a crash, the broker would
 * deliver all messages again that were worked since the save, and they would be worked twice.  When
 * they have been acknowledged at once, only those come again of which there are other copies.
 *
 * A copy of a message that is claimed must wait, and must not be acknowledged.  The broker may have
 * delivered the same message again because the connection has broken; then to acknowledge the copy
 * is to acknowledge the message, and it is lost if its worker is killed.  Moreover the claim may be
 * a false positive: one of another message.
 *
 * False positives.  Of `claims`: the message waits until the other one is released; nothing else
 * happens.  (The entry of a claim that was won is its own, as only unique adds go into the filter.
 * So a remove takes away this claim and no other.)  Of `done`: a message that was never worked is
 * dropped.  This is the only way to lose one, and its probability is the rate of `done`.
 *
 * A crash forgets the claims, which is right: nobody has those messages in hand any more, and the
 * broker delivers them again.  It forgets what has been added to `done` since the last complete
 * save began.  So at most these messages can be worked twice, and those that were in work:
 * once_unsaved() and one for each thread.
 *
 * Two processes have two pairs of filters, so a message must always come to the same process: here
 * there is a queue for each process, and the publisher chooses it by a hash of the message's id.  A
 * process that loses the broker goes on with the works that it has begun.  Who starts another one
 * with its window elsewhere, meanwhile, has those worked twice.
 */
#ifndef CONSUMERS_ONCE_H
#define CONSUMERS_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tamis/tamis.h>

struct once_options {
  const char *path;     /* where `done` is saved */
  uint64_t capacity;    /* messages that are remembered at one time; more take more memory */
  double rate;          /* false positives of `done`: the part of all messages that may be lost */
  unsigned periods;     /* of the window */
  double remember;      /* seconds for which `done` remembers a message, at least */
  uint64_t claim_count; /* messages that are in hand at one time */
};

struct once;

/* Loads what was saved, or begins anew if there is no such file.  NULL: it has said why. */
struct once *once_open(const struct once_options *options);
void once_close(struct once *once);

enum once_begin {
  ONCE_MINE,    /* to be worked by this thread */
  ONCE_DONE,    /* it was worked before: acknowledge and release it */
  ONCE_CLAIMED, /* somebody has it in hand: ask again later */
};

/* Steps 1 and 2.  *claim is for once_release(), which must follow unless the answer is
 * ONCE_CLAIMED. */
enum once_begin once_begin(struct once *once, const void *id, size_t len, uint64_t *claim);
/* Step 4.  False: there was no room, so that a later copy will be worked again. */
bool once_done(struct once *once, const void *id, size_t len);
/* Step 6. */
void once_release(struct once *once, uint64_t claim);

/* To be called now and then: forgets what is older than `remember`.  once_done() calls it, too:
 * otherwise a message could be recorded in a period that has ended, and be forgotten too early. */
void once_forget(struct once *once);
/* To be called by one thread.  On failure the last save stays as it is, and errno or *result says
 * why. */
bool once_save(struct once *once, int *result);

/* Messages done since the last complete save began. */
uint64_t once_unsaved(const struct once *once);
/* Seconds since the last complete save began. */
double once_save_age(const struct once *once);

/* For figures. */
const tamis_filter *once_claims(const struct once *once);
const tamis_filter *once_window(const struct once *once);

#endif /* CONSUMERS_ONCE_H */
