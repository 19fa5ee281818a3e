/* SPDX-License-Identifier: MIT
 *
 * What has been worked out last, which threads share.
 */
#include "unit.h"

#include "base/memo.h"
#include "harness.h"

enum { ANSWER = 16 }; /* words of one */

static struct memo memo;

static void ask(uint64_t number, uint64_t question[MEMO_QUESTION])
{
  for (unsigned i = 0; i < MEMO_QUESTION; i++)
    question[i] = number + i;
}

static bool recalls(uint64_t number, uint64_t answer[ANSWER])
{
  uint64_t question[MEMO_QUESTION];
  ask(number, question);
  return tamis__memo_recall(&memo, question, answer, ANSWER * sizeof *answer);
}

static void keep(uint64_t number)
{
  uint64_t question[MEMO_QUESTION], answer[ANSWER];
  ask(number, question);
  for (unsigned i = 0; i < ANSWER; i++)
    answer[i] = number;
  tamis__memo_keep(&memo, question, answer, sizeof answer);
}

/* And nothing else. */
TEST(what_is_kept_is_recalled)
{
  memset(&memo, 0, sizeof memo);
  for (uint64_t number = 1; number <= 100; number++) {
    uint64_t answer[ANSWER];
    assert_false(recalls(number, answer));
    keep(number);
    assert_true(recalls(number, answer));
    for (unsigned i = 0; i < ANSWER; i++)
      assert_int_equal(answer[i], number);
  }
}

/* An entry that somebody has is not waited for. */
TEST(an_entry_that_is_taken_is_passed_over)
{
  uint64_t answer[ANSWER];
  keep(1);
  for (unsigned i = 0; i < MEMO_ENTRIES; i++)
    atomic_store(&memo.entries[i].taken, 1);
  assert_false(recalls(1, answer));
  keep(2);
  for (unsigned i = 0; i < MEMO_ENTRIES; i++)
    atomic_store(&memo.entries[i].taken, 0);
  assert_false(recalls(2, answer));
}

static void ask_and_keep(struct worker *worker)
{
  for (uint64_t i = 0; i < 20000; i++) {
    const uint64_t number = 1 + i % 3;
    uint64_t answer[ANSWER];
    if (!recalls(number, answer))
      keep(number);
    else
      for (unsigned k = 0; k < ANSWER; k++)
        worker->result |= answer[k] != number;
  }
}

TEST_WITH_THREADS(threads_get_whole_answers)
{
  enum { THREADS = 4 };
  struct worker workers[THREADS];
  memset(&memo, 0, sizeof memo);
  harness_run(THREADS, 1, ask_and_keep, NULL, workers);
  assert_int_equal(harness_results(workers, THREADS), 0);
}
