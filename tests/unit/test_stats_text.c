/* SPDX-License-Identifier: MIT
 *
 * Figures that count what was slow, and figures as text.  What the texts say is read by
 * test_stats_text.py; here is how they are written.
 */
#include "cuckoo_unit.h"

#include <time.h>

enum { MOST_TEXT = 1 << 20, MOST_PART = 4096 };

struct page {
  char text[MOST_TEXT];
  size_t size, calls, fails_at; /* fails_at: the call that fails; 0: none */
};

static struct page page;

static int take(void *context, const void *data, size_t size)
{
  struct page *p = context;
  assert_in_range(size, 1, MOST_PART);
  assert_true(p->size + size < sizeof p->text);
  if (++p->calls == p->fails_at) {
    errno = EDQUOT;
    return -1;
  }
  memcpy(p->text + p->size, data, size);
  p->size += size;
  p->text[p->size] = '\0';
  return 0;
}

static const char *text_of(const tamis_filter *f, tamis_text_format format, const char *name)
{
  page = (struct page){.size = 0};
  assert_int_equal(tamis_stats_text(f, format, name, take, &page), TAMIS_OK);
  return page.text;
}

static void assert_has(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("%s\nis not in\n%s", part, text);
}

/* ---- what is counted ---- */

/* Adds one key more often than its buckets have lanes. */
static uint64_t refused_copies(tamis_filter *f)
{
  uint64_t refused = 0;
  for (unsigned i = 0; i < 10; i++)
    refused += tamis_add_hash(f, 0) == TAMIS_ENOMEM;
  return refused;
}

/* A key that memory is refused for is refused, too: in a filter with room, and in a full one. */
TEST(adds_without_memory_are_counted)
{
  struct fixture x;
  begin(&x, 1 << 30);
  x.bank.refused_from = 1;
  uint64_t refused = refused_copies(x.filter);
  assert_true(refused > 0);
  assert_int_equal(stats_of(x.filter).refused_adds, refused);
  for (uint64_t i = 0; i < 5000; i++)
    refused += tamis_add_hash(x.filter, i) == TAMIS_ENOMEM;
  refused += refused_copies(x.filter);
  assert_int_equal(stats_of(x.filter).refused_adds, refused);
  x.bank.refused_from = 0;
  end(&x);
}

/* An allocator that is slow a few times. */
struct slow {
  uint64_t nanoseconds;
  unsigned times;
};

static void *allocate_slowly(void *context, size_t alignment, size_t size)
{
  struct slow *slow = context;
  void *block;
  if (slow->times && slow->times--)
    nanosleep(&(struct timespec){.tv_sec = (time_t) (slow->nanoseconds / 1000000000),
                                 .tv_nsec = (long) (slow->nanoseconds % 1000000000)},
              NULL);
  return posix_memalign(&block, alignment, size) ? NULL : block;
}

/* The longest step is one that waits for memory longer than any step before it took. */
TEST(the_longest_step_of_growth_is_told)
{
  struct slow slow = {.times = 0};
  const tamis_allocator allocator = {allocate_slowly, free_block, &slow};
  tamis_options options = options_for(1000, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with_options(&options);
  add_range(f, 0, 5000);
  assert_true(stats_of(f).longest_growth_ns > 0);
  slow.nanoseconds = 2 * stats_of(f).longest_growth_ns + 5000000;
  slow.times = 4;
  add_range(f, 5000, 20000);
  assert_int_equal(slow.times, 0);
  assert_in_range(stats_of(f).longest_growth_ns, slow.nanoseconds, UINT64_C(60000000000));
  tamis_destroy(f);
}

/* ---- how a text is written ---- */

TEST(bad_arguments_write_nothing)
{
  tamis_filter *f = make(1000, 0.01);
  const tamis_filter *two[] = {f, f}, *hole[] = {f, NULL};
  const char *names[] = {"a", "b"}, *nameless[] = {"a", NULL};
  page = (struct page){.size = 0};
  for (int format = 0; format <= 3; format++) {
    const tamis_text_format as = (tamis_text_format) format;
    const bool good = as == TAMIS_JSON || as == TAMIS_PROMETHEUS;
    assert_int_equal(tamis_stats_text(NULL, as, "a", take, &page), TAMIS_EINVAL);
    assert_int_equal(tamis_stats_text(f, as, "a", NULL, &page), TAMIS_EINVAL);
    assert_int_equal(tamis_stats_text_many(NULL, names, 2, as, take, &page), TAMIS_EINVAL);
    assert_int_equal(tamis_stats_text_many(hole, names, 2, as, take, &page), TAMIS_EINVAL);
    assert_int_equal(tamis_stats_text_many(two, names, 2, as, NULL, &page), TAMIS_EINVAL);
    if (!good) {
      assert_int_equal(tamis_stats_text(f, as, "a", take, &page), TAMIS_EINVAL);
      assert_int_equal(tamis_stats_text_many(two, names, 2, as, take, &page), TAMIS_EINVAL);
    }
    if (as != TAMIS_JSON) { /* samples of one metric need names */
      assert_int_equal(tamis_stats_text_many(two, NULL, 2, as, take, &page), TAMIS_EINVAL);
      assert_int_equal(tamis_stats_text_many(two, nameless, 2, as, take, &page), TAMIS_EINVAL);
    }
  }
  assert_int_equal(tamis_stats_text_many(NULL, NULL, 0, TAMIS_PROMETHEUS, take, &page), TAMIS_OK);
  assert_int_equal(page.calls, 0);
  assert_int_equal(tamis_stats_text_many(NULL, NULL, 0, TAMIS_JSON, take, &page), TAMIS_OK);
  assert_string_equal(page.text, "[]\n");
  assert_int_equal(tamis_stats_text_many(two, NULL, 1, TAMIS_PROMETHEUS, take, &page), TAMIS_OK);
  assert_int_equal(tamis_stats_text_many(two, nameless, 2, TAMIS_JSON, take, &page), TAMIS_OK);
  tamis_destroy(f);
}

/* Whichever call of `write` fails, errno is as it has left it, and no call follows. */
static void assert_ended(int result, size_t call)
{
  assert_int_equal(result, TAMIS_EIO);
  assert_int_equal(errno, EDQUOT);
  assert_int_equal(page.calls, call);
  page = (struct page){.fails_at = call + 1};
  errno = 0;
}

TEST(a_failing_write_ends_the_text)
{
  enum { MANY = 40 };
  static char name[3 * MOST_PART]; /* which is written in several parts */
  struct fixture x;
  begin(&x, 0);
  const tamis_filter *filters[MANY];
  const char *names[MANY];
  memset(name, '"', sizeof name - 1);
  for (unsigned i = 0; i < MANY; i++)
    filters[i] = x.filter, names[i] = &"0123456789012345678901234567890123456789"[i];
  for (tamis_text_format format = TAMIS_JSON; format <= TAMIS_PROMETHEUS; format++) {
    page = (struct page){.size = 0};
    size_t blocks = x.bank.blocks;
    assert_int_equal(tamis_stats_text_many(filters, names, MANY, format, take, &page), TAMIS_OK);
    size_t calls = page.calls;
    assert_true(calls > 3);
    page = (struct page){.fails_at = 1};
    for (size_t i = 1; i <= calls; i++)
      assert_ended(tamis_stats_text_many(filters, names, MANY, format, take, &page), i);
    page = (struct page){.fails_at = 1};
    for (size_t i = 1; i <= 6; i++)
      assert_ended(tamis_stats_text(x.filter, format, i == 1 ? "a" : name, take, &page), i);
    page = (struct page){.size = 0};
    x.bank.refused_from = 1;
    assert_int_equal(tamis_stats_text_many(filters, names, MANY, format, take, &page),
                     TAMIS_ENOMEM);
    x.bank.refused_from = 0;
    assert_int_equal(page.calls, 0);
    assert_int_equal(x.bank.blocks, blocks);
  }
  end(&x);
}

static unsigned occurrences(const char *text, const char *part)
{
  unsigned n = 0;
  for (; (text = strstr(text, part)); text += strlen(part))
    n++;
  return n;
}

/* Each metric is introduced once, whatever the number of filters. */
TEST(a_page_has_a_metric_once)
{
  tamis_filter *f = make(1000, 0.01);
  const tamis_filter *filters[] = {f, f, f};
  const char *names[] = {"a", "b", "c"};
  page = (struct page){.size = 0};
  assert_int_equal(tamis_stats_text_many(filters, names, 3, TAMIS_PROMETHEUS, take, &page),
                   TAMIS_OK);
  assert_int_equal(occurrences(page.text, "# HELP tamis_keys "), 1);
  assert_int_equal(occurrences(page.text, "# TYPE tamis_keys gauge\n"), 1);
  assert_has(page.text, "\ntamis_keys{name=\"a\"} 0\ntamis_keys{name=\"b\"} 0\n"
                        "tamis_keys{name=\"c\"} 0\n# HELP ");
  tamis_destroy(f);
}

TEST(names_are_escaped)
{
  tamis_filter *f = make(1000, 0.01);
  const char *name = "a\"b\\c\nd\te\xff\xc3\xbc";
  assert_has(text_of(f, TAMIS_JSON, name),
             "{\"name\": \"a\\\"b\\\\c\\nd\\u0009e\xef\xbf\xbd\xc3\xbc\", ");
  assert_has(text_of(f, TAMIS_PROMETHEUS, name),
             "tamis_bytes{name=\"a\\\"b\\\\c\\nd\te\xef\xbf\xbd\xc3\xbc\"} ");
  tamis_destroy(f);
}
