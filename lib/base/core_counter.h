/* SPDX-License-Identifier: MIT
 *
 * Layer 1: counters to which the threads of several processes add.
 *
 *    shard   0 ... 15                16 ... 31
 *    thread  on core 0 ... 15        any other thread: on core c, shard 16 + c modulo 16
 *    add     a load and a store      a locked instruction
 *
 * Processes share the shards, so no thread can own a shard as in counter.h.  But the threads of one
 * core take turns.  So an add to the shard of a core needs no locked instruction if no other thread
 * or signal handler runs on the core between the add's load and its store.
 *
 * To notice such an interruption, the add is a *restartable sequence* (Desnoyers, Linux 4.18),
 * which ends with its only store to the shard.  The thread tells the kernel where the sequence
 * begins and ends, and where to resume if the kernel interrupts it: there, the thread adds to a
 * shard from 16 on.
 *
 * glibc registers the memory that each thread shares with the kernel (struct rseq).  If the kernel
 * or an emulator refuses, struct rseq has a core number far above 15.
 */
#ifndef TAMIS_LIB_CORE_COUNTER_H
#define TAMIS_LIB_CORE_COUNTER_H

#include "base/counter.h"

#include <sched.h>

enum { CORE_SHARDS = 32, OWN_CORES = CORE_SHARDS / 2 };

/* TSan cannot see an add in assembler. */
#if defined(__GLIBC__) && defined(__x86_64__) && defined(__LP64__) && !defined(TAMIS_TSAN) && \
    __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* Adds to the shard of the thread's core, and sets *sum to the counter's new value in that shard.
 * `first` is the counter in shard 0.  Returns false, and adds nothing, if the core has no shard, or
 * if the kernel interrupts the thread.  (The last instruction clears the thread's pointer to the
 * descriptor, because a plugin with the descriptor might be unloaded.) */
static inline bool add_on_core(_Atomic uint64_t *first, uint64_t amount, uint64_t *sum)
{
  uint64_t offset, now; /* `offset`: bytes from shard 0 to the core's shard; `now`: the new value */
  const char *thread;
  __asm__("mov %%fs:0, %0" : "=r"(thread));
  __asm__ volatile(
      ".pushsection __rseq_cs, \"aw\"\n"
      ".balign 32\n"
      "0: .long 0, 0\n"         /* version, flags */
      ".quad 1f, 2f - 1f, 3f\n" /* the sequence's address and length; the address to resume at */
      ".popsection\n"
      "lea 0b(%%rip), %[offset]\n"
      "mov %[offset], %c[descriptor](%[rseq])\n"
      "1: mov %c[core](%[rseq]), %k[offset]\n"
      "shl $6, %[offset]\n"
      "cmp %[end], %[offset]\n"
      "jae 2f\n"
      "mov (%[first],%[offset]), %[sum]\n"
      "add %[amount], %[sum]\n"
      "mov %[sum], (%[first],%[offset])\n"
      "2: movq $0, %c[descriptor](%[rseq])\n"
      ".pushsection __rseq_failure, \"ax\"\n"
      ".byte 0x0f, 0xb9, 0x3d\n" /* ud1, whose operand is a signature for the kernel */
      ".long %c[signature]\n"
      "3: mov %[end], %[offset]\n"
      "jmp 2b\n"
      ".popsection"
      : [offset] "=&r"(offset), [sum] "=&r"(now)
      : [rseq] "r"(thread + __rseq_offset), [first] "r"(first), [amount] "er"(amount),
        [core] "i"(offsetof(struct rseq, cpu_id)), [descriptor] "i"(offsetof(struct rseq, rseq_cs)),
        [signature] "i"(RSEQ_SIG), [end] "i"(OWN_CORES * sizeof(struct counter_shard))
      : "memory", "cc");
  *sum = now;
  return __builtin_expect(offset < OWN_CORES * sizeof(struct counter_shard), 1);
}

_Static_assert(sizeof(struct counter_shard) == 1 << 6, "add_on_core() shifts by 6");
#else
#define add_on_core(first, amount, sum) false
#endif

/* Adds to a counter, and returns its new value in the shard used.  Both kinds of add are release
 * stores, as counter.add requires: on x86, every store is a release. */
FORCE_INLINE uint64_t core_counter_add(struct counter_shard *shards, unsigned kind, uint64_t amount)
{
  uint64_t sum;
  if (add_on_core(&shards->value[kind], amount, &sum))
    return sum;
  struct counter_shard *shard = &shards[OWN_CORES + (unsigned) sched_getcpu() % OWN_CORES];
  return atomic_fetch_add_explicit(&shard->value[kind], amount, memory_order_release) + amount;
}

#endif
