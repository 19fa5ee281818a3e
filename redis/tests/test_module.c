/* SPDX-License-Identifier: MIT
 *
 * The module in a server that lacks functions, refuses memory, and reads damaged files.
 */
#include "unit.h"

#include "bytes.h"
#include "fake_server.h"
#include "value.h"

#include <math.h>
#include <signal.h>

static int load_it(void **state)
{
  (void) state;
  return fake_load("max-bytes 64mb");
}

static int flush_it(void **state)
{
  (void) state;
  fake.refused_from = -1;
  fake.missing = NULL;
  fake.lacks_all_optional = fake.loads = fake.moves = false;
  fake_flush();
  return 0;
}

static void expect(const char *words, const char *reply)
{
  assert_string_equal(fake_call(words), reply);
}

/* `name` followed by items from..to-1. */
static const char *with_items(const char *name, unsigned from, unsigned to)
{
  static char text[1 << 14];
  int used = snprintf(text, sizeof text, "%s", name);
  for (unsigned i = from; i < to; i++)
    used += snprintf(text + used, sizeof text - (size_t) used, " %u", i);
  return text;
}

static unsigned found(const char *family, const char *key, unsigned from, unsigned to)
{
  char name[64];
  unsigned n = 0;
  (void) snprintf(name, sizeof name, "%s.MEXISTS %s", family, key);
  for (const char *at = fake_call(with_items(name, from, to)); (at = strstr(at, ":1 ")); at++)
    n++;
  return n;
}

enum { ITEMS = 300, FOREIGN_BYTES = 1 << 20 };

/* The head of a chain that RedisBloom wrote, of one layer. */
struct chain_head {
  unsigned char bytes[73];
};
enum { AT_SIZE = 36 }; /* the items that are in the layer */

static struct chain_head chain_head(uint64_t bytes, uint64_t items, double rate)
{
  struct chain_head head = {{0}};
  unsigned char *at = head.bytes;
  const double bits_per_entry = log(1 / rate) / (M_LN2 * M_LN2);
  put_u64(at + 8, UINT64_C(5) << 32 | 1); /* layers, options */
  put_u64(at + 16, 2);                    /* growth; the bytes of the layer follow */
  put_u64(at + 20, bytes);
  put_u64(at + 28, 8 * bytes);
  memcpy(at + 44, &rate, 8);
  memcpy(at + 52, &bits_per_entry, 8);
  put_u64(at + 60, (uint64_t) ceil(bits_per_entry * M_LN2)); /* hashes */
  put_u64(at + 64, items);
  return head;
}

/* Restores what RedisBloom wrote, whose bits are all 0. */
static void load_foreign(const char *family, const char *key, const void *head, size_t head_bytes,
                         size_t bytes)
{
  static const unsigned char zeros[FOREIGN_BYTES];
  char words[64];
  (void) snprintf(words, sizeof words, "%s.LOADCHUNK %s 1", family, key);
  assert_string_equal(fake_call_with(words, head, head_bytes), "+OK ");
  (void) snprintf(words, sizeof words, "%s.LOADCHUNK %s %zu", family, key, bytes + 1);
  assert_string_equal(fake_call_with(words, zeros, bytes), "+OK ");
}

static void load_chain(const char *key, unsigned bytes, unsigned items)
{
  const struct chain_head head = chain_head(bytes, items, 0.001);
  load_foreign("BF", key, head.bytes, sizeof head.bytes, bytes);
}

/* The same of a cuckoo filter: a table of 64 buckets of two bytes. */
static void load_table(const char *key)
{
  enum { BUCKETS = 64 };
  unsigned char head[38] = {[8] = BUCKETS, [24] = 1, [32] = 2, [34] = 20, [36] = 1};
  load_foreign("CF", key, head, sizeof head, 2 * BUCKETS);
}

/* All that a key can hold, by the types of the module in their order: each type has a sample. */
static const struct sample {
  const char *key, *family;
  unsigned type;
  bool sums; /* its RDB has sums of everything */
} samples[] = {{"bloom", "BF", 0, true},   {"fixed", "BF", 0, true},   {"window", "BF", 0, true},
               {"cuckoo", "CF", 1, true},  {"still", "CF", 1, true},   {"recent", "CF", 1, true},
               {"chain", "BF", 2, false},  {"topped", "BF", 2, false}, {"table", "CF", 3, false},
               {"chunked", "BF", 0, false}};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void make_samples(void)
{
  unsigned types = 0;
  expect("BF.RESERVE bloom 0.001 50 SEED 1", "+OK ");
  expect("BF.RESERVE fixed 0.001 400 NONSCALING SEED 1", "+OK ");
  expect("BF.RESERVE window 0.001 100 WINDOW 2 SEED 1", "+OK ");
  expect("CF.RESERVE cuckoo 50 SEED 1", "+OK ");
  expect("CF.RESERVE still 400 EXPANSION 0 SEED 1", "+OK ");
  expect("CF.RESERVE recent 100 WINDOW 2 RENEWS SEED 1", "+OK ");
  load_chain("chain", 1024, 400);
  load_chain("topped", 128, 50);
  load_chain("chunked", 1024, 400);
  load_table("table");
  for (unsigned i = 0; i < SAMPLES; i++) {
    const struct sample *s = &samples[i];
    char words[64];
    (void) snprintf(words, sizeof words, "%s.INSERT %s ITEMS", s->family, s->key);
    (void) fake_call(with_items(words, 0, ITEMS));
    assert_true(fake_retype(s->key, s->type));
    assert_int_equal(found(s->family, s->key, 0, ITEMS), ITEMS);
    types |= 1U << s->type;
  }
  assert_int_equal(types, (1U << fake_types()) - 1);
}

static void every_command_works(void)
{
  static const char *const wrong[] = {"BF.MADD bloom", "BF.ADD bloom 1 2", "CF.DEL cuckoo", NULL};
  make_samples();
  expect("BF.ADD bloom 1", ":0 ");
  expect("CF.DEL cuckoo 1", ":1 ");
  expect("BF.ADVANCE window", "+OK ");
  expect("CF.ADVANCE recent", "+OK ");
  expect("CF.ADDNX recent 1", ":0 ");
  expect("BF.MERGE bloom bloom", "+OK ");
  for (const char *const *words = wrong; *words; words++)
    expect(*words, "-ERR wrong number of arguments ");
  expect("CF.RESERVE x 100 BUCKETSIZE 200", "-ERR Capacity must be at least (BucketSize * 2) ");
  for (unsigned i = 0; i < SAMPLES; i++) {
    const char *key = samples[i].key;
    server_io io;
    fake_dump(key, &io);
    assert_true(fake_restore("copy", key, &io));
    free(io.data);
    assert_true(fake_rewrite(key) && fake_copy(key, "copy"));
    assert_true(fake_memory_usage(key) > 100);
    fake_defrag(key);
    assert_in_range(found(samples[i].family, "copy", 0, ITEMS), ITEMS - 1, ITEMS);
  }
}

/* Without each function that a server may lack, and without all of them. */
TEST_BETWEEN(what_a_server_may_lack_is_not_needed, NULL, flush_it)
{
  for (unsigned i = 0; i <= fake_functions_count; i++) {
    char name[64] = "";
    if (i < fake_functions_count && !fake_functions[i].optional)
      continue;
    fake.lacks_all_optional = i == fake_functions_count;
    if (!fake.lacks_all_optional)
      (void) snprintf(name, sizeof name, " %s ", fake_functions[i].name);
    fake.missing = name;
    assert_int_equal(fake_load("bf-initial-size 77 ERROR_RATE 0.1"), SERVER_OK);
    every_command_works();
    (void) flush_it(NULL);
    assert_int_equal(fake.blocks, 0);
  }
}

TEST_BETWEEN(without_other_functions_it_does_not_load, NULL, flush_it)
{
  for (unsigned i = 0; i < fake_functions_count; i++) {
    char name[64];
    (void) snprintf(name, sizeof name, " %s ", fake_functions[i].name);
    fake.missing = name;
    if (!fake_functions[i].optional)
      assert_int_equal(fake_load(""), SERVER_ERR);
  }
  fake.missing = NULL;
  assert_int_equal(fake_load("max-bytes"), SERVER_ERR);
  assert_int_equal(fake_load("bf-error-rate 2"), SERVER_ERR);
  assert_int_equal(fake_load("max-bytes 64mb bf-error-rate 0.01 bf-initial-size 100"), SERVER_OK);
}

/* Memory that is defragmented: all answers stay, and so do the bytes of DUMP, also where memory is
 * refused; and a filter has other memory then. */
TEST_BETWEEN(filters_bear_that_memory_moves, load_it, flush_it)
{
  make_samples();
  for (unsigned i = 0; i < SAMPLES; i++) {
    const char *key = samples[i].key, *family = samples[i].family;
    server_io before, after;
    fake_dump(key, &before);
    for (unsigned trial = 0; trial < 3; trial++) {
      const void *value = fake_value(key);
      fake.moves = trial > 0;
      fake.refused_from = trial == 2 ? 0 : -1;
      fake_defrag(key);
      fake.refused_from = -1;
      assert_true((fake_value(key) != value) == (trial > 0));
      fake_dump(key, &after);
      assert_int_equal(after.size, before.size);
      assert_memory_equal(after.data, before.data, before.size);
      free(after.data);
      assert_int_equal(found(family, key, 0, ITEMS), ITEMS);
    }
    free(before.data);
  }
  (void) flush_it(NULL);
  assert_int_equal(fake.blocks, 0);
}

static unsigned advances;

int __real_tamis_advance(tamis_filter *f);
int __wrap_tamis_advance(tamis_filter *f)
{
  advances++;
  return __real_tamis_advance(f);
}

int __real_tamis_advance_to(tamis_filter *f, uint64_t period);
int __wrap_tamis_advance_to(tamis_filter *f, uint64_t period)
{
  advances++;
  return __real_tamis_advance_to(f, period);
}

/* However many periods are over, they end by one call, also where their numbers end. */
TEST_BETWEEN(periods_end_together, load_it, flush_it)
{
  static const unsigned steps[] = {1, 64, 65, 1000000};
  expect("BF.RESERVE window 0.001 100 WINDOW 64 SEED 1", "+OK ");
  expect("BF.ADD window old", ":1 ");
  tamis_filter *f = ((const struct value *) fake_value("window"))->filter;
  assert_int_equal(tamis_set_period(f, (UINT64_C(1) << 36) - 3), TAMIS_OK);
  for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
    char words[32];
    advances = 0;
    (void) snprintf(words, sizeof words, "BF.ADVANCE window %u", steps[i]);
    expect(words, "+OK ");
    assert_int_equal(advances, 1);
    expect("BF.EXISTS window old", i ? ":0 " : ":1 ");
  }
}

TEST_BETWEEN(commands_have_categories, load_it, flush_it)
{
  assert_string_equal(fake_categories("bf.add"), "write fast bloom");
  assert_string_equal(fake_categories("cf.add"), "write slow cuckoo");
  assert_string_equal(fake_categories("bf.merge"), "write slow bloom");
  assert_string_equal(fake_categories("cf.exists"), "read fast cuckoo");
  assert_string_equal(fake_categories("tamis.bf.scandump"), "read slow bloom");
}

/* The head of a chain of 64 bytes, with one number changed. */
static const char *load_head(unsigned at, unsigned size, uint64_t number)
{
  struct chain_head head = chain_head(64, 50, 0.01);
  for (unsigned i = 0; i < size; i++)
    head.bytes[at + i] = (unsigned char) (number >> 8 * i);
  return fake_call_with("BF.LOADCHUNK foreign 1", head.bytes, sizeof head.bytes);
}

TEST_BETWEEN(foreign_data_is_checked, load_it, flush_it)
{
  static const struct {
    unsigned at, size;
    uint64_t number;
  } wrong[] = {{8, 4, 0},           {8, 4, 2},           {12, 4, 16},         {0, 8, UINT64_MAX},
               {20, 8, 0},          {20, 8, 63},         {20, 8, UINT64_MAX}, {28, 8, 0},
               {28, 8, 513},        {28, 8, UINT64_MAX}, {36, 8, UINT64_MAX}, {44, 8, 0},
               {44, 8, UINT64_MAX}, {52, 8, 0},          {52, 8, UINT64_MAX}, {60, 4, 0},
               {60, 4, UINT32_MAX}, {64, 8, UINT64_MAX}, {72, 1, 10},         {72, 1, 64}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_string_equal(load_head(wrong[i].at, wrong[i].size, wrong[i].number),
                        "-ERR received bad data ");
  assert_false(fake_exists("foreign"));
  assert_string_equal(load_head(72, 1, 9), "+OK "); /* the whole of 512 bits, as a power of two */
}

/* A chunk that says again what the filter has takes no memory, whatever it claims. */
TEST_BETWEEN(repeated_heads_take_no_memory, load_it, flush_it)
{
  assert_string_equal(load_head(0, 0, 0), "+OK ");
  fake.refused_from = 0;
  assert_string_equal(load_head(0, 0, 0), "+OK ");
  assert_non_null(strstr(load_head(20, 8, UINT64_C(1) << 40), "another dump"));
  fake.refused_from = -1;
}

/* A chain whose only layer is full, and what comes on top of which takes about 2 MiB. */
static const struct foreign_layer *load_full_layer(void)
{
  enum { ITEMS_IN = 500000 };
  struct chain_head head = chain_head(FOREIGN_BYTES, ITEMS_IN, 1e-6);
  put_u64(head.bytes, ITEMS_IN);
  put_u64(head.bytes + AT_SIZE, ITEMS_IN);
  load_foreign("BF", "foreign", head.bytes, sizeof head.bytes, FOREIGN_BYTES);
  return ((const struct value *) fake_value("foreign"))->foreign->layer;
}

static volatile sig_atomic_t pages_touched;

static void open_page(int signal, siginfo_t *what, void *context)
{
  const uintptr_t size = (uintptr_t) sysconf(_SC_PAGESIZE);
  (void) signal, (void) context;
  pages_touched++;
  if (mprotect((void *) ((uintptr_t) what->si_addr & ~(size - 1)), size, PROT_READ | PROT_WRITE))
    _exit(1);
}

/* A full filter reads the bits of an item that it refuses, and nothing else: all further pages of its
 * bits stay closed. */
TEST_BETWEEN(refusals_read_no_more_than_an_item, load_it, flush_it)
{
  struct sigaction before, action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
  const uintptr_t size = (uintptr_t) sysconf(_SC_PAGESIZE);
  assert_int_equal(fake_load("max-bytes 2mb"), SERVER_OK);
  const struct foreign_layer *layer = load_full_layer();
  unsigned char *begin = (unsigned char *) (((uintptr_t) layer->data + size - 1) & ~(size - 1));
  const size_t inside = (size_t) (layer->data + layer->bytes - begin) & ~(size - 1);
  expect("BF.ADD foreign 1", "-ERR the filter is full: it has reached the most bytes that it may "
                             "take ");
  (void) sigaction(SIGSEGV, &action, &before);
  for (unsigned i = 0; i < 100; i++) {
    char words[32];
    pages_touched = 0;
    assert_int_equal(mprotect(begin, inside, PROT_NONE), 0);
    (void) snprintf(words, sizeof words, "BF.ADD foreign %u", i);
    (void) fake_call(words);
    assert_int_equal(mprotect(begin, inside, PROT_READ | PROT_WRITE), 0);
    assert_in_range(pages_touched, 0, layer->hashes);
    assert_non_null(strstr(fake.reply, "is full"));
  }
  (void) sigaction(SIGSEGV, &before, NULL);
  assert_int_equal(fake_load("max-bytes 64mb"), SERVER_OK);
  expect("BF.ADD foreign 1", ":1 "); /* a higher limit is another one */
}

/* An add to the filter on top looks at its figures, which takes long, only where its layers are full. */
TEST_BETWEEN(filters_on_top_are_looked_at_seldom, load_it, flush_it)
{
  enum { ADDS = 2000 };
  static const unsigned char zeros[64];
  unsigned looks = 0;
  assert_string_equal(load_head(AT_SIZE, 8, 50), "+OK "); /* it is full */
  assert_string_equal(fake_call_with("BF.LOADCHUNK foreign 65", zeros, sizeof zeros), "+OK ");
  const struct value *v = fake_value("foreign");
  for (unsigned i = 0; i < ADDS; i++) {
    char words[32];
    (void) snprintf(words, sizeof words, "BF.ADD foreign %u", i);
    (void) fake_call(words);
    looks += !v->unwatched;
  }
  assert_in_range(v->count, ADDS - 40, ADDS + 50);
  assert_in_range(looks, 1, 60);
}

/* What is on top of a filter that RedisBloom wrote is refused by the limit before all of it is read. */
TEST_BETWEEN(the_limit_holds_while_both_are_read, load_it, flush_it)
{
  server_io io;
  (void) load_full_layer();
  expect("BF.ADD foreign 1", ":1 ");
  expect("BF.RESERVE like 0.01 100", "+OK ");
  fake_dump("foreign", &io);
  assert_true(io.size > 5 * (size_t) FOREIGN_BYTES / 2);
  assert_true(fake_restore("copy", "like", &io));
  assert_int_equal(fake_load("max-bytes 1100kb"), SERVER_OK);
  expect("BF.RESERVE like 0.01 100", "-ERR item exists ");
  assert_false(fake_restore("copy", "like", &io));
  assert_true(io.at <= 2 * (size_t) FOREIGN_BYTES + 100);
  free(io.data);
}

#define UNION_TOO_LARGE \
  "-ERR the union would have more keys or bytes than the destination may have "

/* Adds n items to a new cuckoo filter.  Returns how many bytes it takes. */
static unsigned long long fill_cuckoo(const char *reserve, unsigned n)
{
  char words[80];
  expect(reserve, "+OK ");
  for (unsigned i = 0; i < n; i++) {
    (void) snprintf(words, sizeof words, "CF.ADD from %u", i);
    expect(words, ":1 ");
  }
  return value_stats(fake_value("from")).bytes;
}

/* A union that a master has made is made here, too, beyond the limit if need be. */
TEST_BETWEEN(unions_of_a_master_know_no_limit, load_it, flush_it)
{
  char words[80];
  const unsigned long long bytes = fill_cuckoo("CF.RESERVE from 300 SEED 5", 2000);
  (void) snprintf(words, sizeof words, "CF.RESERVE to 300 SEED 5 MAXBYTES %llu", bytes / 3);
  expect(words, "+OK ");
  expect("CF.MERGE to from", UNION_TOO_LARGE);
  fake.loads = true;
  expect("CF.MERGE to from", "+OK ");
  expect("CF.COUNT to 0", ":1 ");
}

/* Near the limit, where a replica might make other splits, a union is refused as adds are.  A copy of
 * one filter makes no splits. */
TEST_BETWEEN(unions_keep_away_from_the_limit, load_it, flush_it)
{
  char words[80];
  const unsigned long long bytes = fill_cuckoo("CF.RESERVE from 2000 SEED 5", 2000);
  (void) snprintf(words, sizeof words, "CF.RESERVE to 2000 SEED 5 MAXBYTES %llu", bytes * 6 / 5);
  expect(words, "+OK ");
  expect("CF.MERGE to from", UNION_TOO_LARGE);
  fake.loads = true;
  expect("CF.MERGE to from", "+OK ");
  fake.loads = false;
  expect("CF.MERGE copy to", "+OK ");
  expect("CF.COUNT copy 0", ":1 ");
}

/* Each command with the first allocations granted and all later ones refused: the filters have what
 * they had, and with memory again the command works. */
TEST_BETWEEN(commands_bear_that_memory_is_refused, load_it, flush_it)
{
  static const char *const commands[] = {"BF.RESERVE new 0.001 5000",
                                         "BF.RESERVE new 0.001 100 WINDOW 3",
                                         "CF.RESERVE new 5000",
                                         "CF.RESERVE new 5000 WINDOW 3",
                                         "BF.ADD new 1",
                                         "CF.ADD new 1",
                                         "BF.MERGE bloom other",
                                         "BF.MERGE new bloom other",
                                         "CF.MERGE cuckoo others",
                                         "CF.MERGE new cuckoo others",
                                         "BF.SCANDUMP bloom 0",
                                         "CF.SCANDUMP cuckoo 0",
                                         "BF.ADVANCE window",
                                         "CF.ADVANCE recent",
                                         "BF.MADD bloom",
                                         "CF.INSERT cuckoo ITEMS",
                                         "CF.INSERT recent ITEMS",
                                         "BF.MADD window"};
  for (unsigned c = 0; c < sizeof commands / sizeof *commands; c++) {
    bool refused = true, adds = c + 4 >= sizeof commands / sizeof *commands;
    for (long granted = 0; refused; granted += 1 + granted / 8) {
      make_samples();
      expect("BF.RESERVE other 0.001 50 SEED 1", "+OK ");
      (void) fake_call(with_items("BF.MADD other", 1000, 1900));
      expect("CF.RESERVE others 50 SEED 1", "+OK ");
      (void) fake_call(with_items("CF.INSERT others ITEMS", 1000, 1100));
      const char *words = adds ? with_items(commands[c], 2000, 2900) : commands[c];
      fake.refused_from = granted;
      (void) fake_call(words);
      refused = fake.refused_from == 0;
      fake.refused_from = -1;
      for (unsigned i = 0; i < SAMPLES; i++)
        assert_int_equal(found(samples[i].family, samples[i].key, 0, ITEMS), ITEMS);
      if (fake.reply[0] == '-' && !adds)
        assert_false(fake_exists("new"));
      (void) flush_it(NULL);
      assert_int_equal(fake.blocks, 0);
    }
  }
}

/* RDB data that ends early, or that memory is refused for: no value, and nothing is lost. */
TEST_BETWEEN(reading_bears_errors, load_it, flush_it)
{
  make_samples();
  for (unsigned i = 0; i < SAMPLES; i++) {
    server_io io;
    fake_dump(samples[i].key, &io);
    const long blocks = fake.blocks;
    const size_t size = io.size;
    for (size_t end = 0; end < size; end += 1 + end / 40) {
      io.size = end;
      assert_false(fake_restore("copy", samples[i].key, &io));
      assert_int_equal(fake.blocks, blocks);
    }
    io.size = size;
    bool refused = true;
    for (long granted = 0; refused; granted++) {
      fake.refused_from = granted;
      bool restored = fake_restore("copy", samples[i].key, &io);
      refused = fake.refused_from == 0;
      assert_true(refused || restored);
      assert_true(restored || fake.blocks == blocks);
      fake.refused_from = -1;
    }
    assert_int_equal(found(samples[i].family, "copy", 0, ITEMS), ITEMS);
    free(io.data);
    fake_flush();
    make_samples();
  }
}

/* What is accepted of changed data is what DUMP would give. */
TEST_BETWEEN(hostile_data_is_refused, load_it, flush_it)
{
  uint64_t random = 1;
  make_samples();
  for (unsigned i = 0; i < SAMPLES; i++) {
    server_io io, again;
    fake_dump(samples[i].key, &io);
    unsigned accepted = 0;
    for (unsigned n = 0; n < 3000; n++) {
      server_io bad = {.data = malloc(io.size), .size = io.size};
      memcpy(bad.data, io.data, io.size);
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
      size_t at = (size_t) (random >> 16) % (n % 2 ? io.size : 200);
      switch (random >> 60) {
      case 0:
        memset(bad.data + at, 0xff, io.size - at < 8 ? io.size - at : 8);
        break;
      case 1:
        memmove(bad.data + at, bad.data + at / 2, io.size - at);
        break;
      default:
        bad.data[at] ^= (unsigned char) (1u << (random >> 8 & 7));
      }
      fake.loads = random >> 32 & 1; /* no limit then */
      bool changed = memcmp(bad.data, io.data, io.size) != 0;
      if (fake_restore("copy", samples[i].key, &bad)) {
        fake_dump("copy", &again);
        assert_true(again.size == bad.at && memcmp(again.data, bad.data, again.size) == 0);
        free(again.data);
        accepted += changed;
      }
      free(bad.data);
    }
    assert_true(!accepted || !samples[i].sums);
    free(io.data);
  }
}

/* Changes a number in the head of a key's bytes, and makes the checksum right: see image.c. */
static void change_head(server_io *io, size_t at, uint64_t number)
{
  enum { AT_SUM = 120 };
  unsigned char *head = memmem(io->data, io->size, "TAMISKEY", 8);
  assert_non_null(head);
  put_u64(head + at, number);
  put_u64(head + AT_SUM, sum_bytes(head, AT_SUM, 0));
}

/* Whoever makes up data makes the checksums right.  What is accepted must be such that the key can
 * be saved and loaded again when commands have changed it: a server would not start with it. */
TEST_BETWEEN(extremes_in_heads_do_no_harm, load_it, flush_it)
{
  enum { AT_DELETED = 56, AT_EVERY = 80, AT_NEXT = 88 };
  static const uint64_t extremes[] = {0,
                                      1,
                                      INT64_MAX / 4,
                                      INT64_MAX / 4 + 1,
                                      INT64_MAX / 2,
                                      INT64_MAX / 2 + 1,
                                      INT64_MAX - 1,
                                      INT64_MAX,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX};
  enum { EXTREMES = sizeof extremes / sizeof *extremes };
  unsigned accepted = 0;
  make_samples();
  for (unsigned i = 0; i < EXTREMES * EXTREMES; i++) {
    const uint64_t first = extremes[i / EXTREMES], second = extremes[i % EXTREMES];
    const char *key = i % 3 == 0 ? "window" : i % 3 == 1 ? "recent" : "cuckoo";
    const bool windows = i % 3 < 2;
    char words[64];
    server_io io, again;
    fake_dump(key, &io);
    change_head(&io, windows ? AT_EVERY : AT_DELETED, first);
    if (windows)
      change_head(&io, AT_NEXT, second);
    if (fake_restore("copy", key, &io)) {
      (void) snprintf(words, sizeof words, "%s.ADD copy %s", i % 3 ? "CF" : "BF", "another");
      expect(words, ":1 ");
      if (!windows)
        expect("CF.DEL copy another", ":1 ");
      fake_dump("copy", &again);
      assert_true(fake_restore("copy", key, &again));
      free(again.data);
      accepted++;
    }
    free(io.data);
  }
  assert_in_range(accepted, 20, EXTREMES * EXTREMES - 20);
}

TEST_BETWEEN(no_block_is_left, load_it, flush_it)
{
  make_samples();
  fake_flush();
  expect("BF.EXISTS bloom 1", ":0 ");
  fake_flush();
  assert_int_equal(fake.blocks, 0);
}
