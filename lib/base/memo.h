/* SPDX-License-Identifier: MIT
 *
 * Layer 1: remembers the last answers to some questions that take long to compute.
 *
 * A memo has some entries, which threads share.  To use an entry, a thread takes it for some dozens
 * of instructions.  A thread that finds the entry taken tries a few times more, and then computes
 * the answer.  So no thread waits for one that has stopped, or that a fork has left behind.
 */
#ifndef TAMIS_LIB_MEMO_H
#define TAMIS_LIB_MEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MEMO_ENTRIES = 16,
  MEMO_QUESTION = 5,
  MEMO_ANSWER = 176
}; /* MEMO_QUESTION is in words, MEMO_ANSWER in bytes */

/* A memo that is all zeros has no answers. */
struct memo {
  struct memo_entry {
    _Alignas(64) _Atomic uint32_t taken;
    uint64_t question[MEMO_QUESTION];
    unsigned char answer[MEMO_ANSWER];
  } entries[MEMO_ENTRIES];
};

/* Reads the answer to a question, which must not be all zeros.  The answer has `size` bytes, at
 * most MEMO_ANSWER.  Returns false if no answer is known, or if another thread has the entry. */
bool tamis__memo_recall(struct memo *memo, const uint64_t question[MEMO_QUESTION], void *answer,
                        size_t size);

/* Keeps an answer, perhaps in place of another one, unless another thread has the entry. */
void tamis__memo_keep(struct memo *memo, const uint64_t question[MEMO_QUESTION], const void *answer,
                      size_t size);

#endif
