/* SPDX-License-Identifier: MIT
 *
 * Layer 1: what has been worked out last, kept for whoever asks the same again.
 *
 * A memo has some entries, which threads share.  To use one, a thread takes it for some dozens of
 * instructions.  Whoever finds it taken looks a few times more, and then works the answer out.  So a thread
 * that is stopped while it has an entry, or is not there any more after a fork, makes nobody wait.
 */
#ifndef TAMIS_LIB_MEMO_H
#define TAMIS_LIB_MEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMO_ENTRIES = 16, MEMO_QUESTION = 5, MEMO_ANSWER = 176 }; /* the last two: words; bytes */

/* All zeros: nothing is known. */
struct memo {
  struct memo_entry {
    _Alignas(64) _Atomic uint32_t taken;
    uint64_t question[MEMO_QUESTION];
    unsigned char answer[MEMO_ANSWER];
  } entries[MEMO_ENTRIES];
};

/* Both take a question that is not all zeros, and an answer of `size` bytes, which are at most MEMO_ANSWER.
 *
 * False: the answer is not known, or another thread has its entry. */
bool tamis__memo_recall(struct memo *memo, const uint64_t question[MEMO_QUESTION], void *answer,
                        size_t size);

/* Takes the place of what the entry has had.  If another thread has the entry, nothing is kept. */
void tamis__memo_keep(struct memo *memo, const uint64_t question[MEMO_QUESTION], const void *answer,
                      size_t size);

#endif
