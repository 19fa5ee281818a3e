/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the last answers to some questions that take long to compute.
 *
 * A memo has some entries, which threads share.  To use an entry, a thread takes it for some dozens
 * of instructions.  A thread that finds it taken looks a few times more, and then computes the
 * answer.  So a thread that is stopped with an entry, or that a fork has left behind, makes no
 * other one wait.
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
}; /* question: words; answer: bytes */

/* All zeros: nothing is known. */
struct memo {
  struct memo_entry {
    _Alignas(64) _Atomic uint32_t taken;
    uint64_t question[MEMO_QUESTION];
    unsigned char answer[MEMO_ANSWER];
  } entries[MEMO_ENTRIES];
};

/* The question is not all zeros, and the answer has `size` bytes, at most MEMO_ANSWER.
 *
 * Reads an answer.  False: it is not known, or another thread has its entry. */
bool tamis__memo_recall(struct memo *memo, const uint64_t question[MEMO_QUESTION], void *answer,
                        size_t size);

/* Keeps an answer, in place of another one.  If another thread has the entry, nothing is kept. */
void tamis__memo_keep(struct memo *memo, const uint64_t question[MEMO_QUESTION], const void *answer,
                      size_t size);

#endif
