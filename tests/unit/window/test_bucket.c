/* SPDX-License-Identifier: MIT
 *
 * Every operation on all lanes of a bucket at once, against a loop over lanes.
 */
#include "unit.h"

#include "harness.h"
#include "window/bucket.h"

enum { WORDS = 2000 / SCALE }; /* for each size and window */

static const struct {
  unsigned width, lanes;
} sizes[] = {{8, 8}, {9, 7}, {10, 6}, {12, 5}, {16, 4}, {16, 2}, {21, 3}, {32, 2}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint64_t lane_at(const struct window_shape *s, uint64_t word, unsigned lane)
{
  uint64_t value = 0;
  for (unsigned bit = 0; bit < s->lane.width; bit++)
    value |= (word >> (lane * s->lane.width + bit) & 1) << bit;
  return value;
}

/* ---- words as a window has them ---- */

/* Some lanes are empty.  Fingerprints are few, so that many are equal or differ in one bit; but no
 * two lanes have the same one as `wanted`. */
static uint64_t random_word(const struct window_shape *s, unsigned stamps, uint64_t wanted,
                            uint64_t *random)
{
  uint64_t word = 0;
  bool has_wanted = false;
  for (unsigned i = 0; i < s->lane.lanes; i++) {
    uint64_t r = random_next(random), units = r % 4;
    uint64_t fingerprint =
        units == 0 ? wanted
        : units == 1
            ? (wanted ^ UINT64_C(1) << (s->stamp_bits + r / 4 % 3)) & lane_bits(s->lane.width)
            : window_fingerprint_of(s, random_next(random) & lane_bits(s->lane.width));
    if (!fingerprint || r >> 60 == 0 || (fingerprint == wanted && has_wanted))
      continue;
    has_wanted |= fingerprint == wanted;
    word |= (fingerprint | (r / 64 % stamps + 1)) << i * s->lane.width;
  }
  return word;
}

static void check_word(const struct window_shape *s, uint64_t word, uint64_t wanted, unsigned dead)
{
  uint64_t used = window_used(s, word), of_dead = window_dead(s, word, dead);
  uint64_t live = window_live(s, word, dead), match = window_match(s, word, wanted);
  uint64_t unused = window_free(s, word, dead);
  bool found = false, close = false, borrows = false;
  for (unsigned i = 0; i < s->lane.lanes; i++) {
    uint64_t lane = lane_at(s, word, i), bit = UINT64_C(1)
                                               << (i * s->lane.width + s->lane.width - 1);
    uint64_t fingerprint = lane >> s->stamp_bits << s->stamp_bits;
    uint64_t stamp = lane - fingerprint;
    assert_int_equal(lane_get(&s->lane, word, i), lane);
    assert_int_equal(window_fingerprint_of(s, lane), fingerprint);
    assert_int_equal(window_stamp_of(s, lane), stamp);
    assert_int_equal(!!(used & bit), lane != 0);
    assert_int_equal(!!(of_dead & bit), stamp == dead);
    assert_int_equal(!!(live & bit), lane && stamp != dead);
    assert_int_equal(!!(unused & bit), !lane || stamp == dead);
    assert_int_equal(!!(match & bit), fingerprint == wanted);
    found |= fingerprint == wanted && stamp != dead;
    /* what may match in place of another one: see bucket.h */
    close |= (fingerprint ^ wanted) == UINT64_C(1) << s->stamp_bits &&
             (stamp == dead || (borrows && (stamp ^ dead) == 1));
    borrows = lane == (wanted | dead);
    if (match & bit)
      assert_int_equal(lanes_first(&s->lane, match), i);
    uint64_t all = lane_at(s, lanes_bits(&s->lane, bit), i);
    assert_int_equal(all, lane_bits(s->lane.width));
    assert_int_equal(lanes_count(lanes_bits(&s->lane, bit)), s->lane.width);
  }
  assert_int_equal((used | of_dead | live | match | unused) & ~s->lane.high, 0);
  uint64_t pattern = window_pattern(s, wanted, dead);
  bool has = window_has_live(s, word, pattern) != 0;
  assert_true(has == found || (has && close));
  /* other bits above the lanes change nothing */
  if (s->lane.width * s->lane.lanes < 64) {
    uint64_t above = UINT64_MAX << s->lane.width * s->lane.lanes;
    assert_int_equal(window_has_live(s, word | above, pattern) != 0, has);
    assert_int_equal(window_match(s, word | above, wanted), match);
    assert_int_equal(window_live(s, word | above, dead), live);
  }
}

TEST(all_operations_agree_with_a_loop)
{
  uint64_t random = 1;
  for (unsigned i = 0; i < SIZES; i++)
    for (unsigned periods = 1; periods <= WINDOW_MOST_PERIODS; periods += 1 + periods / 4) {
      unsigned stamps = window_stamps(periods), e = window_stamp_bits(periods);
      if (sizes[i].width < e + 3)
        continue;
      struct window_shape s = window_shape(sizes[i].width, sizes[i].lanes, e);
      for (unsigned j = 0; j < WORDS; j++) {
        uint64_t wanted = window_fingerprint_of(&s, random_next(&random) & lane_bits(s.lane.width));
        unsigned dead = (unsigned) (random_next(&random) % stamps) + 1;
        if (wanted)
          check_word(&s, random_word(&s, stamps, wanted, &random), wanted, dead);
      }
    }
}
