/* SPDX-License-Identifier: MIT
 *
 * The order of adds of several keys, as other threads see it.
 */
#include "fixture.h"

void run_store_buffer(unsigned thread)
{
  must_add(thread == 0 ? t.x : t.y);
  t.result[thread][0] = contains(thread == 0 ? t.y : t.x);
}

const char *check_store_buffer(void)
{
  return !t.result[0][0] && !t.result[1][0] ? "both adds were missed"
         : !contains(t.x) || !contains(t.y) ? "an add was lost"
                                            : NULL;
}

static const char *check_store_buffer_cuckoo(void)
{
  const char *reason = whole();
  return reason ? reason : check_store_buffer();
}

static void set_up_words(void)
{
  make_cuckoo(1, 1, 1);
  t.x = key_at(ANY, LOWER, UPPER);
  t.y = key_at(ANY, HOME, OTHER);
}

static void set_up_fresh_segment(void)
{
  set_up_roots(1);
}

static void set_up_fresh_segments(void)
{
  set_up_roots(2);
}

/* Two roots, one of them full: the add of x opens a generation, y has room in the old one. */
static void set_up_fresh_generation(void)
{
  make_cuckoo(2, 0, 0);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(0, ANY, ANY));
  t.x = key_at(0, ANY, ANY);
  t.y = key_at(1, ANY, ANY);
}

void run_independent(unsigned thread)
{
  if (thread < 2) {
    must_add(thread == 0 ? t.x : t.y);
    return;
  }
  t.result[thread][0] = contains(thread == 2 ? t.x : t.y);
  t.result[thread][1] = contains(thread == 2 ? t.y : t.x);
}

const char *check_independent(void)
{
  bool x_first = t.result[2][0] && !t.result[2][1];
  bool y_first = t.result[3][0] && !t.result[3][1];
  return x_first && y_first ? "two readers saw two adds in opposite orders" : NULL;
}

void run_message(unsigned thread)
{
  if (thread == 0) {
    must_add(t.y);
    must_add(t.x);
  } else if (contains(t.x) && !contains(t.y)) {
    model_fail("an add was seen before the one that came first");
  }
}

/* ---- batches ---- */

/* y and z belong in a full segment, which an add splits; x belongs in another one, which has
 * room. */
static void set_up_batch(void)
{
  make_cuckoo(2, 0, 1);
  for (unsigned i = 0; i < 4; i++)
    put_to_stay(key_at(i % 2, ANY, ANY));
  t.y = key_at(0, ANY, ANY);
  t.z = key_at(1, ANY, ANY);
  t.x = key_at(2, ANY, ANY);
}

/* A batch of both keys.  It finds both pairs before it reads the first one. */
static void look_up_both(unsigned thread)
{
  uint64_t both[2] = {t.x, t.y};
  bool found[2];
  tamis_contains_many_hash(t.filter, both, 2, found);
  t.result[thread][0] = found[0];
  t.result[thread][1] = found[1];
}

static void run_batch_and_split(unsigned thread)
{
  if (thread == 0) {
    must_add(t.z);
  } else if (thread == 1) {
    must_add(t.y);
    must_add(t.x);
  } else {
    look_up_both(thread);
    if (t.result[thread][0] && !t.result[thread][1])
      model_fail("an add was seen before the one that came first");
  }
}

static void run_batch_independent(unsigned thread)
{
  if (thread == 2)
    look_up_both(thread);
  else
    run_independent(thread);
}

const struct shape orders_shapes[] = {
    {"store_buffer", "do two adds miss each other?", 2, false, set_up_words, run_store_buffer,
     check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_segment", "... one in a segment that it makes?", 2, false, set_up_fresh_segment,
     run_store_buffer, check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_segments", "... both?", 2, false, set_up_fresh_segments, run_store_buffer,
     check_store_buffer_cuckoo, FULL, NEVER},
    {"store_buffer_generation", "... one in a generation that it opens?", 2, false,
     set_up_fresh_generation, run_store_buffer, check_store_buffer_cuckoo, BOUND(3), NEVER},
    {"independent", "do two readers agree on the order of two adds?", 4, false, set_up_words,
     run_independent, check_independent, FULL, NEVER},
    {"message", "are two adds of a thread seen in their order?", 2, false, set_up_words,
     run_message, check_nothing, FULL, FULL},
    {"message_segments", "... in segments that they make?", 2, false, set_up_fresh_segments,
     run_message, check_nothing, FULL, FULL},
    {"batch_and_split", "... by a batch, with a split in between?", 3, false, set_up_batch,
     run_batch_and_split, check_nothing, BOUND(3), BOUND(1)},
    {"batch_independent", "does a batch agree with others on the order of two adds?", 4, false,
     set_up_batch, run_batch_independent, check_independent, BOUND(2), NEVER},
    {.name = NULL},
};
