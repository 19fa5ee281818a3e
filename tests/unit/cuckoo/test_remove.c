/* SPDX-License-Identifier: MIT
 *
 * Removes.
 */
#include "cuckoo_unit.h"

/* ---- removes that give no memory back take no lock but those of the bucket pair ---- */

struct removal {
  tamis_filter *f;
  uint64_t begin, end;
  uint64_t removed;
};

static void *remove_all(void *arg)
{
  struct removal *removal = arg;
  for (uint64_t i = removal->begin; i < removal->end; i++)
    removal->removed += tamis_remove_hash(removal->f, i) == TAMIS_OK;
  return NULL;
}

/* Removes [begin, end) while this thread holds all growth stripes. */
static void assert_removes_without_growth_stripes(tamis_filter *f, uint64_t begin, uint64_t end)
{
  struct removal removal = {f, begin, end, 0};
  struct timespec deadline;
  pthread_t thread;
  struct cuckoo *c = cuckoo_of(f);
  struct cuckoo_growth *growth = cuckoo_growth(c);
  lock_take(&c->first.own_growth);
  for (unsigned i = 0; growth && i < GROWTH_STRIPES; i++)
    lock_take(&growth->stripe[i]);
  assert_int_equal(pthread_create(&thread, NULL, remove_all, &removal), 0);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += PATIENCE_SECONDS;
  int late = pthread_timedjoin_np(thread, NULL, &deadline);
  for (unsigned i = 0; growth && i < GROWTH_STRIPES; i++)
    lock_release(&growth->stripe[i]);
  lock_release(&c->first.own_growth);
  if (late)
    pthread_join(thread, NULL);
  assert_int_equal(late, 0);
  assert_int_equal(removal.removed, end - begin);
}

TEST_WITH_THREADS(a_remove_that_gives_nothing_back_takes_no_growth_stripe)
{
  enum { N = 20000 };
  tamis_filter *f = make(N, 0.001); /* has not split */
  add_range(f, 0, N / 2);
  assert_removes_without_growth_stripes(f, 0, N / 2);
  tamis_destroy(f);

  f = make(1000, 0.001); /* has split, and what is left of it is not small */
  add_range(f, 0, N);
  assert_in_range(stats_of(f).growths, 1, N);
  assert_removes_without_growth_stripes(f, 0, N / 20);
  assert_all_in(f, N / 20, N);
  tamis_destroy(f);
}

/* What the last join has taken out waits for readers.  Removes to come release it, also if there is
 * nothing more to join. */
TEST(removes_release_what_has_left)
{
  enum { N = 20000 };
  tamis_filter *f = make(N / 2, 0.001);
  add_range(f, 0, N);
  const struct backlog *backlog = &cuckoo_growth(cuckoo_of(f))->backlog;
  reader_token reader = reader_enter(); /* for which all that leaves waits */
  remove_range(f, 0, N);
  reader_leave(reader);
  assert_true(atomic_load(&backlog->held) > 0);
  AWAIT(!atomic_load(&backlog->held), add_range(f, N, N + 64), remove_range(f, N, N + 64));
  assert_int_equal(atomic_load(&backlog->held), 0);
  assert_valid(f);
  tamis_destroy(f);
}
