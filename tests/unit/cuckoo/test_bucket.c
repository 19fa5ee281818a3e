/* SPDX-License-Identifier: MIT
 *
 * Every operation on all lanes at once, against a model that takes one lane after the other.
 */
#include "unit.h"

#include "cuckoo/bucket.h"
#include "harness.h"

/* ---- the model ---- */

static uint64_t lane_of(unsigned width, uint64_t word, unsigned lane)
{
  uint64_t value = 0;
  for (unsigned bit = 0; bit < width; bit++)
    value |= (word >> (lane * width + bit) & 1) << bit;
  return value;
}

static bool known_bits_equal(unsigned width, bool ages, uint64_t lane, uint64_t entry)
{
  if (lane == 0)
    return false;
  if (!ages)
    return lane == entry;
  unsigned marker = 0;
  while (!(lane >> marker & 1))
    marker++;
  for (unsigned bit = marker + 1; bit < width; bit++)
    if ((lane >> bit & 1) != (entry >> bit & 1))
      return false;
  return true;
}

/* Every entry knows at least one bit: no lane is a bare marker. */
static bool may_split(const struct lane_shape *s, uint64_t word)
{
  for (unsigned i = 0; i < s->lanes; i++)
    if (lane_of(s->width, word, i) == UINT64_C(1) << (s->width - 1))
      return false;
  return true;
}

static void check_word(const struct lane_shape *s, uint64_t word, uint64_t entry)
{
  uint64_t occupied = lanes_in_use(s, word), matched = bucket_match(s, word, entry);
  unsigned first_free = s->lanes, count = 0;
  for (unsigned i = 0; i < s->lanes; i++) {
    uint64_t lane = lane_of(s->width, word, i);
    uint64_t top = UINT64_C(1) << (i * s->width + s->width - 1);
    assert_int_equal(lane_get(s, word, i), lane);
    assert_int_equal(!!(occupied & top), lane != 0);
    assert_int_equal(!!(matched & top), known_bits_equal(s->width, s->ages, lane, entry));
    count += lane != 0;
    if (lane == 0 && first_free == s->lanes)
      first_free = i;
  }
  assert_int_equal(occupied & ~s->high, 0);
  assert_int_equal(matched & ~s->high, 0);
  assert_int_equal(lanes_count(occupied), count);
  assert_int_equal(lanes_empty(s, word), occupied ^ s->high);
  if (first_free < s->lanes)
    assert_int_equal(lanes_first(s, lanes_empty(s, word)), first_free);
  if (!s->ages || may_split(s, word))
    assert_int_equal(bucket_has_match(s, word, entry) != 0, matched != 0);
}

static void check_split(const struct lane_shape *s, uint64_t word)
{
  uint64_t child[2] = {bucket_split(s, word, 0), bucket_split(s, word, 1)};
  uint64_t top = UINT64_C(1) << (s->width - 1);
  for (unsigned i = 0; i < s->lanes; i++) {
    uint64_t lane = lane_of(s->width, word, i);
    unsigned bit = lane & top ? 1 : 0;
    uint64_t moved = lane_get(s, child[bit], i);
    assert_int_equal(moved, lane ? (lane & (top - 1)) << 1 : 0);
    assert_int_equal(lane_get(s, child[!bit], i), 0);
    if (lane)
      assert_int_equal(bucket_age(s, moved), bucket_age(s, lane) + 1);
  }
}

/* ---- all contents of two neighbouring lanes, where a carry or a borrow would show ---- */

TEST(neighbours_do_not_disturb_each_other)
{
  for (unsigned width = BUCKET_MIN_WIDTH; width <= 5; width++)
    for (int ages = 0; ages < 2; ages++) {
      struct lane_shape s = bucket_shape(width, ages);
      for (unsigned at = 0; at + 1 < s.lanes; at += s.lanes - 2) /* lowest pair, highest pair */
        for (uint64_t pair = 0; pair < UINT64_C(1) << 2 * width; pair++) {
          uint64_t word = pair << at * width;
          for (uint64_t entry = 0; entry < UINT64_C(1) << width; entry++)
            check_word(&s, word, ages ? entry | 1 : entry + (entry == 0)); /* as bucket_entry() */
          if (ages && may_split(&s, word))
            check_split(&s, word);
        }
    }
}

/* ---- random words for every width, with many empty and many matching lanes ---- */

static uint64_t random_word(const struct lane_shape *s, uint64_t *seed, uint64_t entry)
{
  uint64_t word = 0;
  for (unsigned i = 0; i < s->lanes; i++) {
    uint64_t kind = random_next(seed) % 4, lane = random_next(seed) >> (64 - s->width);
    unsigned age = (unsigned) (random_next(seed) % s->width);
    if (kind == 0)
      lane = 0;
    else if (kind == 1) /* the entry, aged, or with one bit wrong */
      lane = s->ages ? (entry >> age | 1) << age : entry;
    else if (kind == 2)
      lane = entry ^ UINT64_C(1) << age;
    word = lane_put(s, word, i, lane);
  }
  return word;
}

TEST(all_widths_agree_with_the_model)
{
  uint64_t seed = 1;
  for (unsigned width = BUCKET_MIN_WIDTH; width <= LANE_MAX_WIDTH; width++)
    for (int ages = 0; ages < 2; ages++) {
      struct lane_shape s = bucket_shape(width, ages);
      assert_int_equal(s.lanes, 64 / width);
      for (unsigned round = 0; round < 3000; round++) {
        uint64_t entry = bucket_entry(&s, random_next(&seed));
        uint64_t word = random_word(&s, &seed, entry);
        check_word(&s, word, entry);
        if (ages && may_split(&s, word))
          check_split(&s, word);
      }
    }
}
