/* SPDX-License-Identifier: MIT
 *
 * Layer 1: remembers answers that take long to compute.  A question is a few numbers.
 *
 * Threads share the entries of a memo.  To use an entry, a thread locks it for some dozens of
 * instructions.  A thread that finds the entry locked tries again a few times, and then computes
 * the answer itself.  So no thread waits for a thread that is stopped, or that a fork has removed.
 */
#ifndef TAMIS_LIB_MEMO_H
#define TAMIS_LIB_MEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMO_ENTRIES = 16, MEMO_QUESTION = 5, /* words */ MEMO_ANSWER = 176 /* bytes */ };

/* All zeros: no answers. */
struct memo {
  struct memo_entry {
    _Alignas(64) _Atomic uint32_t taken;
    uint64_t question[MEMO_QUESTION];
    unsigned char answer[MEMO_ANSWER];
  } entries[MEMO_ENTRIES];
};

/* Reads the answer, of at most MEMO_ANSWER bytes, to a question, which must not be all zeros.
 * Returns false if no answer is known, or if another thread uses the entry. */
bool tamis__memo_recall(struct memo *memo, const uint64_t question[MEMO_QUESTION], void *answer,
                        size_t size);

/* Keeps an answer, perhaps in place of an older one, unless another thread uses the entry. */
void tamis__memo_keep(struct memo *memo, const uint64_t question[MEMO_QUESTION], const void *answer,
                      size_t size);

#endif
