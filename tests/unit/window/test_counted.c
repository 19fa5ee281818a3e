/* SPDX-License-Identifier: MIT
 *
 * A cuckoo filter that processes share: removes and counts.  Two handles of one file in one process
 * are two processes to each other.  (unit/test_shared_kill.c has what killed processes leave.)
 */
#define IN_MEMORY true
#include "saved_unit.h"
#include "shared_window_unit.h"

#include "window/counted.h"
#include "window/rooms.h"

#include <signal.h>

static tamis_filter *open_cuckoo(uint64_t capacity)
{
  const tamis_options options = shared_cuckoo_options(capacity);
  unlink(shared_path);
  return open_shared(&options);
}

/* ---- the calls ---- */

/* What is right after these calls. */
struct expected {
  unsigned copies;
  int result;
};

static struct expected expect(unsigned copies, unsigned call)
{
  switch (call) {
  case 0:
    return copies < COUNTED_COPIES ? (struct expected){copies + 1, TAMIS_OK}
                                   : (struct expected){copies, TAMIS_EFULL};
  case 1:
    return copies ? (struct expected){copies, TAMIS_PRESENT} : (struct expected){1, TAMIS_OK};
  default:
    return copies ? (struct expected){copies - 1, TAMIS_OK} : (struct expected){0, TAMIS_ABSENT};
  }
}

/* Of many keys, so that entries move. */
TEST_BETWEEN(all_calls_count_exactly, set_up_with_alarm, tear_down)
{
  enum { KEYS = 1000, CALLS = 60000 / SCALE };
  static unsigned copies[KEYS];
  tamis_filter *a = open_cuckoo(KEYS), *handles[2] = {a, open_shared(NULL)};
  int (*const calls[])(tamis_filter *, uint64_t) = {tamis_add_hash, tamis_add_unique_hash,
                                                    tamis_remove_hash};
  uint64_t random = 1, sum = 0;
  memset(copies, 0, sizeof copies);
  for (unsigned i = 0; i < CALLS; i++) {
    random = hash_of(random + i);
    const unsigned call = random / 8 % 16 < 8 ? 0 : random / 8 % 16 < 9 ? 1 : 2;
    const uint64_t key = random >> 32 & (i & 64 ? 1023 : 15), at = key % KEYS;
    const struct expected e = expect(copies[at], call);
    assert_int_equal(calls[call](handles[random % 2], hash_of(at)), e.result);
    sum += e.copies - (uint64_t) copies[at];
    copies[at] = e.copies;
    assert_int_equal(tamis_count_hash(handles[random / 2 % 2], hash_of(at)), e.copies);
    assert_int_equal(tamis_contains_hash(handles[random / 4 % 2], hash_of(at)), e.copies > 0);
    if (i % 512 == 0) {
      assert_int_equal(stats_of(a).count, sum);
      assert_valid(a);
    }
  }
  for (uint64_t key = 0; key < KEYS; key++)
    assert_int_equal(tamis_count_hash(a, hash_of(key)), copies[key]);
  tamis_destroy(handles[1]);
  tamis_destroy(a);
}

/* A look-up of a key does not take an empty lane for its entry, whatever its fingerprint is. */
TEST_BETWEEN(empty_lanes_match_nothing, set_up_with_alarm, tear_down)
{
  enum { KEYS = 200000 / SCALE };
  tamis_options options = shared_cuckoo_options(100000);
  options.fpp = 0.03;
  unlink(shared_path);
  tamis_filter *f = open_shared(&options);
  for (uint64_t key = 0; key < KEYS; key++) {
    assert_false(tamis_contains_hash(f, hash_of(key)));
    assert_int_equal(tamis_count_hash(f, hash_of(key)), 0);
  }
  tamis_destroy(f);
}

TEST_BETWEEN(figures_are_those_of_a_fixed_cuckoo_filter, set_up_with_alarm, tear_down)
{
  tamis_filter *f = open_cuckoo(1000);
  add_hashes(f, 0, 500);
  add_hashes(f, 0, 100);
  const tamis_stats s = stats_of(f);
  assert_int_equal(s.kind, TAMIS_CUCKOO);
  assert_int_equal(s.count, 600);
  assert_int_equal(s.capacity, 1000);
  assert_int_equal(s.parts, 1);
  assert_int_equal(s.period, 0);
  assert_int_equal(s.oldest_part_age, 0);
  assert_int_equal(s.generations, 1);
  assert_int_equal(s.segments, 1);
  assert_true(s.fingerprint_bits > 20 && s.fpp_estimate > 0 && s.fpp_estimate <= 1e-6);
  assert_true(s.load > 0.599 && s.load < 0.601);
  assert_int_equal(tamis_advance(f), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_advance_to(f, 7), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_set_period(f, 7), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_add_for_hash(f, 7, 1), TAMIS_EUNSUPPORTED);
  tamis_destroy(f);
}

/* ---- room ---- */

static uint64_t fill(tamis_filter *f, uint64_t key)
{
  for (unsigned refused = 0; refused < 200; key++)
    refused += tamis_add_hash(f, hash_of(key)) == TAMIS_EFULL;
  return key;
}

/* Both handles know that the filter is full.  Removes by one make room for adds by the other. */
TEST_BETWEEN(room_is_seen_by_others, set_up_with_alarm, tear_down)
{
  static const uint64_t capacities[] = {500, 100000 / SCALE};
  for (unsigned i = 0; i < 2; i++) {
    const uint64_t capacity = capacities[i];
    tamis_filter *a = open_cuckoo(capacity), *b = open_shared(NULL);
    uint64_t next = fill(b, fill(a, 0)), room = capacity / 10, refused = 0;
    assert_true(tamis_add_hash(a, hash_of(next)) == TAMIS_EFULL ||
                tamis_add_hash(a, hash_of(next + 1)) == TAMIS_EFULL);
    for (uint64_t key = 0; key < room; key++)
      assert_int_equal(tamis_remove_hash(a, hash_of(key)), TAMIS_OK);
    for (uint64_t key = next; key < next + room / 2; key++)
      refused += tamis_add_hash(b, hash_of(key)) == TAMIS_EFULL;
    assert_int_equal(refused, 0);
    assert_valid(a);
    tamis_destroy(b);
    tamis_destroy(a);
  }
}

/* A key that is in gets copies although there is no room for others. */
TEST_BETWEEN(copies_need_no_room, set_up_with_alarm, tear_down)
{
  tamis_filter *f = open_cuckoo(500);
  (void) fill(f, 0);
  const uint64_t refused = stats_of(f).refused_adds;
  for (unsigned copies = 1; copies <= COUNTED_COPIES; copies++) {
    assert_int_equal(tamis_count_hash(f, hash_of(7)), copies);
    assert_int_equal(tamis_add_hash(f, hash_of(7)),
                     copies < COUNTED_COPIES ? TAMIS_OK : TAMIS_EFULL);
  }
  assert_int_equal(stats_of(f).refused_adds, refused + 1);
  tamis_destroy(f);
}

/* Entries that have moved are counted by the stripes of their new places: who takes one stripe over counts the
 * same. */
TEST_BETWEEN(each_stripe_counts_its_own_part, set_up_with_alarm, tear_down)
{
  tamis_options options = shared_cuckoo_options(3000);
  options.stripes = 8;
  unlink(shared_path);
  tamis_filter *f = open_shared(&options);
  struct window *w = window_of(f);
  for (uint64_t key = 0; stats_of(f).evictions < 50; key++) {
    assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
    assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
  }
  for (uint64_t i = 0; i <= w->stripes.mask; i++) {
    struct window_stripe *stripe = &w->stripes.all[i];
    const uint64_t lanes = window_stripe_lanes(stripe), copies = atomic_load(&stripe->copies);
    tamis__window_mend(w, stripe);
    assert_int_equal(window_stripe_lanes(stripe), lanes);
    assert_int_equal(atomic_load(&stripe->copies), copies);
  }
  tamis_destroy(f);
}

/* ---- saved filters, and unions ---- */

static void assert_counts(const tamis_filter *f, const unsigned *copies, uint64_t n)
{
  uint64_t sum = 0;
  for (uint64_t key = 0; key < n; key++) {
    assert_int_equal(tamis_count_hash(f, hash_of(key)), copies[key]);
    sum += copies[key];
  }
  assert_int_equal(stats_of(f).count, sum);
  assert_valid(f);
}

enum { SOME = 700 };

static void add_some(tamis_filter *f, unsigned copies[SOME])
{
  for (uint64_t key = 0; key < SOME; key++)
    for (copies[key] = 0; copies[key] < key % (COUNTED_COPIES + 1); copies[key]++)
      assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
}

/* The header of a saved filter, with one number replaced. */
TEST_BETWEEN(numbers_that_contradict_the_kind_are_damage, set_up_with_alarm, tear_down)
{
  tamis_filter *f = open_cuckoo(100);
  add_hashes(f, 0, 50);
  struct bytes b = saved_bytes(f), right = saved_bytes(f);
  const size_t array = window_bytes(&const_window_of(f)->first.geometry);
  tamis_destroy(f);
  enum { GEOMETRY = SAVED_GEOMETRY_AT };
  static const struct {
    unsigned at;
    uint64_t value;
    int result;
  } wrong[] = {
      {GEOMETRY + 8 * 0, 4, TAMIS_ECORRUPT},
      {GEOMETRY + 8 * 1, 1, TAMIS_ECORRUPT},
      {GEOMETRY + 8 * 2, 1, TAMIS_ECORRUPT},
      {GEOMETRY + 8 * 3, 5, TAMIS_ECORRUPT},
      {GEOMETRY + 8 * 4, 2, TAMIS_ECORRUPT},
      {GEOMETRY + 8 * 5, 1, TAMIS_ECORRUPT},
      {16, SAVED_COUNTED | SAVED_WINDOW, TAMIS_EUNSUPPORTED},
      {16, SAVED_COUNTED | 16, TAMIS_EUNSUPPORTED},
      {16, 0, TAMIS_ECORRUPT},
  };
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    saved_put64(b.data + wrong[i].at, wrong[i].value);
    assert_true(repair(&b, array));
    assert_int_equal(load_any(source_of(&b), 0, NULL), wrong[i].result);
    memcpy(b.data, right.data, b.size);
  }
  assert_true(repair(&b, array));
  assert_int_equal(load_any(source_of(&b), 0, NULL), TAMIS_OK);
  free(b.data);
  free(right.data);
}

/* Bytes of the header, of entries and of what follows, with right sums. */
TEST_BETWEEN(any_bytes_make_a_whole_filter_or_none, set_up_with_alarm, tear_down)
{
  enum { TRIES = 4000 / SCALE };
  unsigned copies[SOME], loaded = 0;
  tamis_filter *f = open_cuckoo(SOME);
  add_some(f, copies);
  struct bytes b = saved_bytes(f), right = saved_bytes(f);
  const size_t array = window_bytes(&const_window_of(f)->first.geometry);
  tamis_destroy(f);
  for (uint64_t i = 0; i < TRIES; i++) {
    const size_t parts[][2] = {{8, SAVED_HEADER - 16},
                               {SAVED_ARRAY_ALIGNMENT, array},
                               {SAVED_ARRAY_ALIGNMENT + array, b.size - array - 4096}};
    const size_t *part = parts[hash_of(i) % 3];
    for (uint64_t n = 0; n <= i % 4; n++)
      b.data[part[0] + hash_of(5 * i + n) / 4 % part[1]] = (unsigned char) hash_of(~(5 * i + n));
    if (repair(&b, array))
      loaded += load_any(source_of(&b), 0, NULL) == TAMIS_OK;
    memcpy(b.data, right.data, b.size);
  }
  assert_in_range(loaded, 1, TRIES - 1);
  free(b.data);
  free(right.data);
}

/* All or nothing, as far as counts go. */
TEST_BETWEEN(unions_add_counts_up, set_up_with_alarm, tear_down)
{
  tamis_filter *shared = open_cuckoo(SOME), *own;
  assert_int_equal(tamis_map_file(NULL, shared_path, &own), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_load_file(NULL, shared_path, &own), TAMIS_OK);
  assert_int_equal(tamis_sync(own), TAMIS_EUNSUPPORTED);
  unsigned copies[SOME];
  for (uint64_t key = 0; key < SOME; key++) {
    const uint64_t here = key % 4, there = key % 64 == 63 ? 3 : key / 4 % (here ? 2 : 3);
    for (copies[key] = 0; copies[key] < here + there; copies[key]++)
      assert_int_equal(tamis_add_hash(copies[key] < here ? shared : own, hash_of(key)), TAMIS_OK);
  }
  assert_int_equal(tamis_merge(shared, own), TAMIS_OK);
  assert_counts(shared, copies, SOME);
  assert_int_equal(tamis_merge(shared, own), TAMIS_EFULL);
  assert_counts(shared, copies, SOME);
  tamis_destroy(own);
  const tamis_options options = shared_cuckoo_options(SOME);
  own = make_with_options(&options); /* of another kind inside */
  assert_int_equal(tamis_merge(shared, own), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(own, shared), TAMIS_EINVAL);
  tamis_destroy(own);
  tamis_destroy(shared);
}

/* `lost`: the words are gone, and all that is left is the checkpoint.  Otherwise later adds and removes
 * are in the words, and the checkpoint is not added to them. */
TEST_BETWEEN(counts_outlive_a_start, set_up_with_alarm, tear_down)
{
  for (unsigned lost = 0; lost < 2; lost++) {
    unsigned copies[SOME];
    tamis_filter *f = open_cuckoo(2 * SOME);
    struct window *w = window_of(f);
    add_some(f, copies);
    assert_int_equal(tamis_sync(f), TAMIS_OK);
    for (uint64_t key = 0; key < SOME && !lost; key++) {
      const bool removed = key % 2 && copies[key] > 1;
      assert_int_equal((removed ? tamis_remove_hash : tamis_add_unique_hash)(f, hash_of(key)),
                       copies[key] ? removed ? TAMIS_OK : TAMIS_PRESENT : TAMIS_OK);
      copies[key] = removed ? copies[key] - 1 : copies[key] ? copies[key] : 1;
    }
    start_machine(f, lost);
    for (uint64_t i = 0; i <= w->stripes.mask; i++)
      atomic_store(&w->stripes.all[i].copies, 12345); /* counted again */
    tamis_destroy(f);
    f = open_shared(NULL);
    assert_counts(f, copies, SOME);
    assert_int_equal(epoch_read(&window_of(f)->state->epoch), counted_epoch());
    tamis_destroy(f);
  }
}

/* ---- what others have written ---- */

/* All stamps, in all lanes: counts are possible ones, and a remove clears what it finds. */
TEST_BETWEEN(impossible_stamps_are_harmless, set_up_with_alarm, tear_down)
{
  enum { KEYS = 200 };
  for (unsigned stamp = 0; stamp < 8; stamp++) {
    tamis_filter *f = open_cuckoo(KEYS);
    add_hashes(f, 0, KEYS);
    put_stamps(const_window_of(f), stamp);
    for (uint64_t key = 0; key < KEYS; key++) {
      const uint64_t copies = 7 - stamp;
      assert_int_equal(tamis_count_hash(f, hash_of(key)), copies);
      assert_int_equal(tamis_add_hash(f, hash_of(key)),
                       copies < COUNTED_COPIES ? TAMIS_OK : TAMIS_EFULL);
      for (uint64_t i = 0; i < copies + (copies < COUNTED_COPIES); i++)
        assert_int_equal(tamis_remove_hash(f, hash_of(key)), TAMIS_OK);
      assert_int_equal(tamis_remove_hash(f, hash_of(key)), TAMIS_ABSENT);
    }
    tamis_destroy(f);
  }
}

/* ---- processes ---- */

enum { PROCESSES = 4, KILLS = 120 / SCALE };

/* What a process knows of its own keys; the call that it makes at the moment changes those of `key`. */
struct process {
  volatile unsigned copies[256], key;
  volatile bool busy, adds;
};

static _Noreturn void work_until_killed(struct process *p, uint64_t first, uint64_t random)
{
  tamis_filter *f = open_shared(NULL);
  for (unsigned i = 0;; i++) {
    random = hash_of(random + i);
    p->key = random >> 32 & 255;
    p->adds = random % 16 < 9 - 2 * (p->copies[p->key] > 2);
    p->busy = true;
    const uint64_t hash = hash_of(first + p->key);
    const int result = p->adds ? tamis_add_hash(f, hash) : tamis_remove_hash(f, hash);
    if (result == TAMIS_OK)
      p->copies[p->key] += p->adds ? 1 : UINT_MAX;
    p->busy = false;
    if (result != TAMIS_OK && !p->adds && p->copies[p->key])
      _exit(1);
  }
}

/* The call that a killed process was making has been made, or not; all else is as it was told. */
static void check_after_death(const tamis_filter *f, struct process *p, uint64_t first)
{
  for (unsigned key = 0; key < 256; key++) {
    const uint64_t copies = tamis_count_hash(f, hash_of(first + key)), told = p->copies[key];
    if (p->busy && key == p->key)
      assert_in_range(copies, p->adds || !told ? told : told - 1, told + p->adds);
    else
      assert_int_equal(copies, told);
    p->copies[key] = (unsigned) copies;
  }
  p->busy = false;
}

/* Processes work in a filter so full that entries move all the time, and are killed at any moment, until some
 * entry has moved. */
TEST_BETWEEN(killed_processes_lose_and_leave_nothing, set_up_with_alarm, tear_down)
{
  struct process *processes = mmap(NULL, PROCESSES * sizeof *processes, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(processes != MAP_FAILED);
  pid_t children[PROCESSES] = {0};
  tamis_filter *f = open_cuckoo(PROCESSES * 256 * 3 / 4);
  unsigned kills = KILLS;
  for (unsigned kill_number = 0; kill_number < kills + PROCESSES; kill_number++) {
    const unsigned i = kill_number % PROCESSES;
    const uint64_t first = i * UINT64_C(1000);
    if (children[i]) {
      usleep((useconds_t) (hash_of(kill_number) % 3000));
      kill(children[i], SIGKILL);
      assert_int_equal(wait_for(children[i]), 128 + SIGKILL);
      check_after_death(f, &processes[i], first);
    }
    kills += kill_number + 1 == kills && stats_of(f).evictions == 0;
    children[i] = kill_number < kills ? fork_child() : -1;
    if (children[i] == 0)
      work_until_killed(&processes[i], first, kill_number);
  }
  uint64_t sum = 0;
  for (unsigned key = 0; key < PROCESSES * 256; key++) {
    const uint64_t hash = hash_of(key / 256 * UINT64_C(1000) + key % 256);
    sum += processes[key / 256].copies[key % 256];
    assert_int_equal(tamis_count_hash(f, hash), processes[key / 256].copies[key % 256]);
    (void) tamis_remove_hash(f, hash);
    (void) tamis_add_hash(f, hash); /* takes the stripes over */
  }
  take_all_stripes(window_of(f));
  assert_true(stats_of(f).evictions > 0 && stats_of(f).count >= sum);
  assert_valid(f);
  tamis_destroy(f);
  munmap(processes, PROCESSES * sizeof *processes);
}
