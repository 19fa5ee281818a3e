/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the Bloom filter, each replayed exactly.  Built with the hooks.
 */
#include "calls.h"

#include "bloom/bloom.h"
#include "filter_unit.h"

#include <string.h>

/* Both adds have missed the key before either takes the stripe: without the second look-up under
 * the stripe both would win. */
static void of_two_unique_adds_that_miss_the_key_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  schedule_stop_at("bloom_key_missed");
  start(&a);
  start(&b);
  schedule_wait("bloom_key_missed", 2);
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
  tamis_destroy(f);
}

/* The second add begins while the first one is setting bits, and must wait for the stripe.
 * Without it the second one would set the other bits, and both would win. */
static void a_second_unique_add_waits_while_bits_are_set(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  start_and_stop(&a, "bloom_word_set");
  start(&b);
  /* b waits for the stripe or, if something is wrong, gets as far as a */
  schedule_wait_either("stripe_wait", 1, "bloom_word_set", 2);
  assert_false(
      tamis_contains_hash(f, 7)); /* a reader does not wait, and does not find a half-added key */
  go_on(&a);
  finish(&b);
  assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
  tamis_destroy(f);
}

/* A unique add of a key that is there takes no lock: it does not wait for the holder of the only
 * stripe. */
static void a_present_key_does_not_wait(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  options.seed = 42;
  options.stripes = 1;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8, .result = TAMIS_EINVAL};
  start_and_stop(&a, "bloom_key_missed_under_stripe");
  start_beside(&b);
  int result = b.result; /* if it waits, it has none until a goes on */
  go_on(&a);
  finish(&b);
  assert_int_equal(result, TAMIS_PRESENT);
  tamis_destroy(f);
}

/* Half of the key's bits are set: no call says that the key is there. */
static void a_half_added_key_is_absent(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, other = {.filter = f, .hash = 8};
  start_and_stop(&a, "bloom_word_set");
  assert_false(tamis_contains_hash(f, 7));
  go_on(&a);
  assert_true(tamis_contains_hash(f, 7));
  start(&other);
  assert_int_equal(finish(&other), TAMIS_OK);
  tamis_destroy(f);
}

/* A plain add of the same key sets all bits after the second look-up of a unique add and before
 * its first bit.  The unique add must not claim to be first: it has published nothing to the
 * readers that find the key. */
static void a_unique_add_that_is_overtaken_does_not_win(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  struct call a = {.filter = f, .hash = 7}, b = a;
  start_and_stop(&a, "bloom_key_missed_under_stripe");
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK); /* takes no lock, so it does not wait */
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  start(&b);
  assert_int_equal(finish(&b), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* A unique add has set its first word when a plain add of the same key sets the rest: both have
 * set bits, but the key counts once, and a filter for two keys still takes a second one. */
static void adds_that_share_a_key_count_it_once(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 2;
  options.fpp = 0.001;
  options.growable = false;
  options.seed = 42;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_word_set"); /* the main thread does not stop */
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_int_equal(stats_of(f).count, 1);
  start(&b);
  assert_int_equal(finish(&b), TAMIS_OK);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* ---- the word layout ---- */

static tamis_filter *make_word_filter(uint64_t capacity, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_WORD;
  options.capacity = capacity;
  options.fpp = 0.003;
  options.seed = 42;
  options.growable = growable;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* Both have missed the key when one of them sets its bits: the other one has set none. */
static void in_a_word_one_of_two_unique_adds_wins(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++) {
    tamis_filter *f = make_word_filter(1000, growable);
    struct call a = {.filter = f, .hash = 7}, b = a;
    schedule_stop_at(growable ? "bloom_key_missed" : "bloom_word_has_room");
    start(&a);
    start(&b);
    schedule_wait(growable ? "bloom_key_missed" : "bloom_word_has_room", 2);
    go_on(&a);
    finish(&b);
    assert_int_equal((a.result == TAMIS_OK) + (b.result == TAMIS_OK), 1);
    assert_int_equal((a.result == TAMIS_PRESENT) + (b.result == TAMIS_PRESENT), 1);
    assert_int_equal(stats_of(f).count, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* No call waits for one that has stopped in the middle of an add of the same key. */
static void in_a_word_nobody_waits(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++) {
    tamis_filter *f = make_word_filter(1000, growable);
    struct call a = {.filter = f, .hash = 7};
    stop_at(&a, growable ? "bloom_key_missed" : "bloom_word_has_room");
    assert_false(tamis_contains_hash(f, 7));
    assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
    assert_int_equal(tamis_add_hash(f, 8), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_int_equal(stats_of(f).count, 2);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* One unique add has found room.  Before it sets the bits, another key takes the last room, and a
 * second unique add of the first key is refused.  That is final, so the first one is refused,
 * too. */
static void in_a_word_a_refusal_is_final(void **state)
{
  (void) state;
  tamis_filter *f = make_word_filter(2, false);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_word_has_room");
  assert_int_equal(tamis_add_hash(f, 2), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(go_on(&a), TAMIS_EFULL);
  assert_false(tamis_contains_hash(f, 7));
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(tamis_add_hash(f, 7), TAMIS_EFULL);
  assert_int_equal(stats_of(f).count, 2);
  assert_valid(f);
  tamis_destroy(f);
}

/* The other way round: a unique add is about to be refused when another one, which had found room,
 * sets the bits (here the test does).  The first one must not say that the key is not in. */
static void in_a_word_a_refusal_may_come_too_late(void **state)
{
  (void) state;
  tamis_filter *f = make_word_filter(2, false), *twin = make_word_filter(2, false);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 2), TAMIS_OK);
  assert_int_equal(tamis_add_hash(twin, 7), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7};
  start_and_stop(&a, "bloom_word_refused");
  for (unsigned i = 0; i < bloom_of(f)->word_count; i++)
    word_or(&bloom_of(f)->words[i], word_load(&bloom_of(twin)->words[i]));
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_true(tamis_contains_hash(f, 7));
  tamis_destroy(f);
  tamis_destroy(twin);
}

/* ---- unions ---- */

/* Keys of `into`, of `from` and of an add that comes between the union's reading of a word and its
 * OR: none is lost, whatever the word. */
static void a_union_loses_no_bit_that_is_set_meanwhile(void **state)
{
  (void) state;
  for (unsigned limited = 0; limited < 2; limited++)
    for (uint64_t key = 100; key < 140; key++) {
      struct call a = {.filter = make_word_filter(10, !limited),
                       .from = make_word_filter(10, !limited)};
      for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(tamis_add_hash(a.filter, i), TAMIS_OK);
        assert_int_equal(tamis_add_hash(a.from, 10 + i), TAMIS_OK);
      }
      stop_at(&a, "bloom_union_word_read");
      assert_int_equal(tamis_add_hash(a.filter, key), TAMIS_OK);
      assert_int_equal(go_on(&a), TAMIS_OK);
      for (uint64_t i = 0; i < 3; i++)
        assert_true(tamis_contains_hash(a.filter, i) && tamis_contains_hash(a.filter, 10 + i));
      assert_true(tamis_contains_hash(a.filter, key));
      assert_valid(a.filter);
      tamis_destroy(a.filter);
      tamis_destroy(a.from);
    }
}

/* A unique add has missed its key under the stripe when a union brings the key: it is not new. */
static void a_unique_add_that_a_union_overtakes_does_not_win(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  tamis_filter *from = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  assert_int_equal(tamis_add_hash(from, 7), TAMIS_OK);
  struct call a = {.filter = f, .hash = 7}, b = a;
  start_and_stop(&a, "bloom_key_missed_under_stripe");
  assert_int_equal(tamis_merge(f, from), TAMIS_OK); /* takes no lock, so it does not wait */
  assert_true(tamis_contains_hash(f, 7));
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  start(&b);
  assert_int_equal(finish(&b), TAMIS_PRESENT);
  assert_int_equal(stats_of(f).count, 1);
  assert_valid(f);
  tamis_destroy(f);
  tamis_destroy(from);
}

/* A union has set one word of a key when a unique add of it sets the rest: it wins, and is the only
 * one. */
static void one_unique_add_wins_while_a_union_brings_its_key(void **state)
{
  (void) state;
  struct call m = {.filter = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001),
                   .from = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001)};
  assert_int_equal(tamis_add_hash(m.from, 7), TAMIS_OK);
  schedule_stop_at("bloom_union_word_read"); /* the second word of the key */
  start(&m);
  schedule_wait("bloom_union_word_read", 1);
  assert_false(tamis_contains_hash(m.filter, 7));
  schedule_pass_by();
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_PRESENT);
  go_on(&m);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_PRESENT);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* A union has found room.  Before it changes its first word, adds take the room, and a unique add
 * of the key that it would bring is refused.  That is final: the union stops at the mark. */
static void a_union_changes_no_marked_word(void **state)
{
  (void) state;
  struct call m = {.filter = make_word_filter(2, false), .from = make_word_filter(2, false)};
  assert_int_equal(tamis_add_hash(m.from, 7), TAMIS_OK);
  assert_int_equal(tamis_add_hash(m.filter, 1), TAMIS_OK);
  stop_at(&m, "bloom_union_word_read");
  assert_int_equal(tamis_add_hash(m.filter, 2), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_EFULL);
  assert_int_equal(go_on(&m), TAMIS_EFULL);
  assert_false(tamis_contains_hash(m.filter, 7));
  assert_int_equal(stats_of(m.filter).count, 2);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* Adds fill the filter while a union is at its first words: it does not go on beyond the chunk. */
static void a_union_stops_where_the_filter_is_full(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 20000;
  options.seed = 42;
  options.growable = false;
  struct call m = {0};
  assert_int_equal(tamis_create(&options, &m.filter), TAMIS_OK);
  assert_int_equal(tamis_create(&options, &m.from), TAMIS_OK);
  for (uint64_t i = 0; i < 18000; i++)
    assert_int_equal(tamis_add_hash(m.from, i), TAMIS_OK);
  stop_at(&m, "bloom_word_united");
  uint64_t key = 1000000;
  while (tamis_add_hash(m.filter, key) == TAMIS_OK)
    key++;
  tamis_stats before = stats_of(m.filter);
  assert_int_equal(go_on(&m), TAMIS_EFULL);
  assert_in_range(stats_of(m.filter).bits_set - before.bits_set, 0, 64 * 512);
  assert_valid(m.filter);
  tamis_destroy(m.filter);
  tamis_destroy(m.from);
}

/* ---- further layers ---- */

/* A filter that has room for one more key in its first layer, or for none. */
static tamis_filter *make_full(tamis_layout layout, uint64_t keys)
{
  tamis_filter *f = make_filter(layout, 100, 0.0025);
  for (uint64_t i = 0; stats_of(f).count < keys; i++)
    assert_int_equal(tamis_add_hash(f, 1000 + i), TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 1);
  return f;
}

/* The first add misses the key and stops; then the layer becomes full, a second one opens, and
 * another add brings the key there. */
static void of_two_unique_adds_across_an_opening_one_wins(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7};
  tamis_add_hash(f, 5); /* opens the second layer */
  assert_int_equal(stats_of(f).layers, 2);
  for (uint64_t i = 5000; stats_of(f).count < 200; i++)
    tamis_add_hash(f, i);
  stop_at(&a, "bloom_stripe_wanted");               /* it has read that there are two layers */
  assert_int_equal(tamis_add_hash(f, 6), TAMIS_OK); /* opens the third one */
  assert_int_equal(stats_of(f).layers, 3);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_valid(f);
  tamis_destroy(f);
}

/* An add of the old operations has missed its key in the only layer, and stops before it takes the
 * stripe.  Then that layer is full, and the key is in the next one. */
static void a_full_layer_takes_no_unique_add(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 99);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_key_missed");
  assert_int_equal(tamis_add_hash(f, 5), TAMIS_OK);
  assert_int_equal(tamis_add_hash(f, 6), TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 2);
  assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_valid(f);
  tamis_destroy(f);
}

static tamis_filter *make_word_with_limit(uint64_t max_bytes)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_WORD;
  options.capacity = 10000;
  options.seed = 42;
  options.max_bytes = max_bytes;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* Adds keys until there are two layers or, with a limit, until no key gets in. */
static void outgrow(tamis_filter *f, bool limit)
{
  uint64_t i = 1000;
  while ((limit || stats_of(f).layers == 1) && tamis_add_hash(f, i) == TAMIS_OK)
    i++;
  assert_false(tamis_contains_hash(f, 7));
}

/* In the word layout there is no stripe yet: a unique add of key 7 has found room in the only
 * layer, and has not set its bits when the filter outgrows that layer. */
static void stop_in_a_word(struct call *a, uint64_t max_bytes)
{
  *a = (struct call){.filter = make_word_with_limit(max_bytes), .hash = 7};
  stop_at(a, "bloom_word_has_room");
  outgrow(a->filter, max_bytes > 0);
}

/* Another add brings the key to the second layer. */
static void a_word_and_a_later_layer_have_one_winner(void **state)
{
  (void) state;
  struct call a;
  stop_in_a_word(&a, 0);
  assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  assert_valid(a.filter);
  tamis_destroy(a.filter);
}

/* Nobody else wants the key: it wins in the first layer, late. */
static void a_word_wins_after_an_opening(void **state)
{
  (void) state;
  struct call a;
  stop_in_a_word(&a, 0);
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_true(tamis_contains_hash(a.filter, 7));
  assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_PRESENT);
  assert_valid(a.filter);
  tamis_destroy(a.filter);
}

/* Room for one layer of the filter above, and for two. */
static const uint64_t max_bytes_of[] = {30000, 80000};

/* Another add of the key is refused for good.  So the one that has found room is refused, too, and
 * this refusal is a figure like any other; the key does not count. */
static void a_word_does_not_win_after_a_refusal(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    struct call a;
    stop_in_a_word(&a, max_bytes_of[i]);
    assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_EFULL);
    tamis_stats before = stats_of(a.filter);
    assert_true(i ? before.layers > 1 : before.layers == 1);
    go_on(&a);
    tamis_stats after = stats_of(a.filter);
    assert_int_equal(a.result, TAMIS_EFULL);
    assert_int_equal(after.refused_adds, before.refused_adds + 1);
    assert_int_equal(after.count, before.count);
    assert_true(tamis_contains_hash(a.filter, 7)); /* its bits stay */
    assert_valid(a.filter);
    tamis_destroy(a.filter);
  }
}

/* A plain add that has set its bits is done, whatever was refused. */
static void a_plain_add_is_not_refused_after_it_has_set_its_bits(void **state)
{
  (void) state;
  struct call a = {
      .filter = make_word_with_limit(max_bytes_of[0]), .hash = 7, .function = tamis_add_hash};
  uint64_t i = 1000;
  while (stats_of(a.filter).count < 9990) /* it counts each key now */
    assert_int_equal(tamis_add_hash(a.filter, i++), TAMIS_OK);
  stop_at(&a, "bloom_word_has_room");
  outgrow(a.filter, true);
  assert_int_equal(tamis_add_unique_hash(a.filter, 7), TAMIS_EFULL);
  uint64_t count = stats_of(a.filter).count;
  assert_int_equal(go_on(&a), TAMIS_OK);
  assert_int_equal(stats_of(a.filter).count, count + 1);
  assert_true(tamis_contains_hash(a.filter, 7));
  assert_valid(a.filter);
  tamis_destroy(a.filter);
}

/* The other way round: a unique add is about to be refused when another one, which had found room
 * in the first layer, sets the bits (here the test does). */
static void a_refusal_after_a_word_may_come_too_late(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    struct call a = {.filter = make_word_with_limit(max_bytes_of[i]), .hash = 7};
    tamis_filter *twin = make_word_with_limit(0);
    assert_int_equal(tamis_add_hash(twin, 7), TAMIS_OK);
    outgrow(a.filter, true);
    struct bloom *first = bloom_of(a.filter);
    stop_at(&a, "bloom_layers_ended");
    assert_true(i || is_alone(first)); /* so the other one wins */
    for (unsigned j = 0; j < first->word_count; j++)
      word_or(&first->words[j], word_load(&bloom_of(twin)->words[j]));
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    tamis_destroy(a.filter);
    tamis_destroy(twin);
  }
}

/* A layer that others can see has no bits yet. */
static void a_layer_is_empty_when_it_is_published(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7};
  stop_at(&a, "bloom_layer_created");
  uint64_t found = 0;
  for (uint64_t i = 0; i < 100000; i++)
    found += tamis_contains_hash(f, 1000000 + i);
  assert_in_range(found, 0, 250);
  assert_int_equal(go_on(&a), TAMIS_OK);
  tamis_destroy(f);
}

/* Two adds create the next layer at the same time: one is thrown away.  A third one waits for
 * them. */
static void of_two_layers_one_is_thrown_away(void **state)
{
  (void) state;
  tamis_filter *f = make_full(TAMIS_LAYOUT_BLOCKED, 100);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8},
              c = {.filter = f, .hash = 9};
  schedule_stop_at("bloom_layer_created");
  start(&a);
  start(&b);
  schedule_wait("bloom_layer_created", 2);
  start(&c);
  schedule_wait("bloom_layer_awaited", 1);
  go_on(&a);
  finish(&b);
  finish(&c);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK && c.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 2);
  for (uint64_t key = 7; key < 10; key++)
    assert_true(tamis_contains_hash(f, key));
  assert_valid(f);
  tamis_destroy(f);
}

static void *allocate_counted(void *context, size_t alignment, size_t size)
{
  *(_Atomic uint64_t *) context += size;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release_counted(void *context, void *block, size_t alignment, size_t size)
{
  (void) alignment;
  *(_Atomic uint64_t *) context -= size;
  free(block);
}

/* A thread still has a second layer that came too late when a third one is wanted, which is smaller
 * at this rate.  With the third one they would take more than max_bytes, which has room for two of
 * the third: so that one waits. */
static void a_late_layer_is_counted(void **state)
{
  (void) state;
  enum { FIRST = 704, SECOND = 640, THIRD = 512 };
  _Atomic uint64_t bytes = 0;
  const tamis_allocator counted = {allocate_counted, release_counted, (void *) &bytes};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_BLOCKED;
  options.growable = true;
  options.capacity = 22;
  options.fpp = 6.7e-8;
  options.max_bytes = FIRST + SECOND + THIRD + SECOND - 1;
  options.seed = 42;
  options.stripes = 2;
  options.allocator = &counted;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  uint64_t i = 100;
  for (; i < 122; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  assert_int_equal(bytes, FIRST);
  struct call a = {.filter = f, .hash = 7}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_layer_created");
  for (; i < 144; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 2);
  assert_int_equal(bytes, FIRST + SECOND + SECOND);
  start(&b);
  schedule_wait_either("bloom_layer_awaited", 1, "bloom_layer_created", 2);
  assert_true(bytes <= options.max_bytes);
  go_on(&a);
  finish(&b);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 3);
  assert_int_equal(bytes, FIRST + SECOND + THIRD);
  tamis_destroy(f);
  assert_int_equal(bytes, 0);
}

static tamis_filter *make_counted(const tamis_allocator *allocator, uint64_t max_bytes)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100;
  options.fpp = 0.0025;
  options.seed = 42;
  options.max_bytes = max_bytes;
  options.allocator = allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

/* A union has created the layers that it needs, for which max_bytes has just room.  An add that
 * needs the first of them waits. */
static void a_union_opens_its_layers_alone(void **state)
{
  (void) state;
  _Atomic uint64_t bytes = 0, of_others = 0;
  const tamis_allocator counted = {allocate_counted, release_counted, (void *) &bytes};
  const tamis_allocator others = {allocate_counted, release_counted, (void *) &of_others};
  tamis_filter *from = make_counted(&others, 0), *like = make_counted(&others, 1 << 20);
  for (uint64_t i = 1000; stats_of(from).layers < 3; i++)
    assert_int_equal(tamis_add_hash(from, i), TAMIS_OK);
  assert_int_equal(tamis_merge(like, from), TAMIS_OK);
  const uint64_t max_bytes = stats_of(like).bytes;
  tamis_filter *f = make_counted(&counted, max_bytes);
  for (uint64_t i = 0; stats_of(f).count < 100; i++)
    assert_int_equal(tamis_add_hash(f, i << 32), TAMIS_OK);
  struct call a = {.filter = f, .from = from}, b = {.filter = f, .hash = 8};
  stop_at(&a, "bloom_layer_created");
  assert_int_equal(bytes, max_bytes);
  start(&b);
  schedule_wait_either("bloom_layer_awaited", 1, "bloom_layer_created", 2);
  assert_int_equal(bytes, max_bytes);
  go_on(&a);
  finish(&b);
  assert_true(a.result == TAMIS_OK && b.result == TAMIS_OK);
  assert_int_equal(stats_of(f).layers, 3);
  tamis_destroy(f);
  tamis_destroy(from);
  tamis_destroy(like);
}

/* ---- no memory for a layer ---- */

static unsigned plans;

static void count_plans(const char *name)
{
  plans += !strcmp(name, "bloom_layer_planned");
}

static bool refuses;

static void *give_or_refuse(void *context, size_t alignment, size_t size)
{
  (void) context;
  return refuses ? NULL : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void take_back(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

/* Each key that has no room asks the allocator again; but a plan takes as long as thousands of
 * adds. */
static void a_layer_that_is_refused_is_planned_once(void **state)
{
  (void) state;
  void (*installed)(const char *) = atomic_load(&tamis__hook);
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_allocator allocator = {.allocate = give_or_refuse, .release = take_back};
  options.capacity = 1000;
  options.growable = true;
  options.fpp = 1e-4;
  options.allocator = &allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  refuses = true;
  uint64_t key = 0;
  while (tamis_add_hash(f, key) == TAMIS_OK)
    key++;
  plans = 0;
  atomic_store(&tamis__hook, count_plans);
  for (unsigned i = 0; i < 100; i++)
    assert_int_equal((i % 2 ? tamis_add_hash : tamis_add_unique_hash)(f, key), TAMIS_ENOMEM);
  atomic_store(&tamis__hook, installed);
  assert_int_equal(plans, 0);
  refuses = false;
  assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_two_unique_adds_that_miss_the_key_one_wins),
      cmocka_unit_test(a_second_unique_add_waits_while_bits_are_set),
      cmocka_unit_test(a_present_key_does_not_wait),
      cmocka_unit_test(a_half_added_key_is_absent),
      cmocka_unit_test(a_unique_add_that_is_overtaken_does_not_win),
      cmocka_unit_test(adds_that_share_a_key_count_it_once),
      cmocka_unit_test(in_a_word_one_of_two_unique_adds_wins),
      cmocka_unit_test(in_a_word_nobody_waits),
      cmocka_unit_test(in_a_word_a_refusal_is_final),
      cmocka_unit_test(in_a_word_a_refusal_may_come_too_late),
      cmocka_unit_test(a_union_loses_no_bit_that_is_set_meanwhile),
      cmocka_unit_test(a_unique_add_that_a_union_overtakes_does_not_win),
      cmocka_unit_test(one_unique_add_wins_while_a_union_brings_its_key),
      cmocka_unit_test(a_union_changes_no_marked_word),
      cmocka_unit_test(a_union_stops_where_the_filter_is_full),
      cmocka_unit_test(of_two_unique_adds_across_an_opening_one_wins),
      cmocka_unit_test(a_full_layer_takes_no_unique_add),
      cmocka_unit_test(a_word_and_a_later_layer_have_one_winner),
      cmocka_unit_test(a_word_wins_after_an_opening),
      cmocka_unit_test(a_word_does_not_win_after_a_refusal),
      cmocka_unit_test(a_plain_add_is_not_refused_after_it_has_set_its_bits),
      cmocka_unit_test(a_refusal_after_a_word_may_come_too_late),
      cmocka_unit_test(a_layer_is_empty_when_it_is_published),
      cmocka_unit_test(of_two_layers_one_is_thrown_away),
      cmocka_unit_test(a_late_layer_is_counted),
      cmocka_unit_test(a_union_opens_its_layers_alone),
      cmocka_unit_test(a_layer_that_is_refused_is_planned_once),
  };
  return cmocka_run_group_tests_name("bloom_schedule", tests, NULL, NULL);
}
