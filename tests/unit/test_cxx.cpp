/* SPDX-License-Identifier: MIT
 *
 * tamis.hpp: the life of a filter object, each call in the form that throws and in the one that
 * does not, and functions of the user's that throw.  It is built for C++17 and C++20, with
 * exceptions and without (check_cxx.sh).
 */
#include <tamis/tamis.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <type_traits>
#include <vector>
#ifdef __cpp_lib_span
#include <span>
#endif

namespace
{

int failures;
void check(bool good, const char *what, int line)
{
  if (good)
    return;
  std::printf("FAILED: line %d: %s\n", line, what);
  failures++;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

static_assert(!std::is_copy_constructible_v<tamis::filter> &&
              !std::is_copy_assignable_v<tamis::filter>);
static_assert(std::is_nothrow_move_constructible_v<tamis::filter> &&
              std::is_nothrow_move_assignable_v<tamis::filter>);
static_assert(sizeof(tamis::filter) == sizeof(tamis_filter *));
/* Only arrays of what an element may be. */
static_assert(std::is_convertible_v<std::vector<tamis::key> &, tamis::span<const tamis::key>>);
static_assert(std::is_convertible_v<std::array<bool, 3> &, tamis::span<bool>>);
static_assert(!std::is_convertible_v<std::vector<tamis_key> &, tamis::span<const tamis::key>>);
static_assert(!std::is_convertible_v<std::vector<bool> &, tamis::span<bool>>);
static_assert(!std::is_convertible_v<const std::array<int, 3> &, tamis::span<int>>);
/* The address of a temporary would be kept. */
struct length_hash {
  std::uint64_t operator()(std::string_view key, std::uint64_t seed) const noexcept
  {
    return key.size() * 0x9e3779b97f4a7c15u ^ seed;
  }
};
template <typename Hash, typename = void> struct accepts : std::false_type {
};
template <typename Hash>
struct accepts<Hash,
               std::void_t<decltype(std::declval<tamis::options &>().hash(std::declval<Hash>()))>>
    : std::true_type {
};
static_assert(accepts<const length_hash &>::value && !accepts<length_hash>::value);

/* What is a key, and what must not compile: what is no key, and what could mean several. */
template <typename T, typename = void> struct is_key : std::false_type {
};
template <typename T>
struct is_key<T, std::void_t<decltype(std::declval<tamis::filter &>().contains(std::declval<T>()))>>
    : std::true_type {
};
template <typename... T> constexpr bool all_keys = std::conjunction_v<is_key<T>...>;
template <typename... T> constexpr bool no_keys = std::conjunction_v<std::negation<is_key<T>>...>;
enum plain_enum { some };
enum class scoped_enum : std::uint64_t {};
static_assert(all_keys<const char *, char *, const char (&)[4], char (&)[4], std::string,
                       const std::string &, std::string_view>);
static_assert(all_keys<std::vector<unsigned char>, std::vector<char>, std::array<std::byte, 4>,
                       const unsigned char (&)[4], std::byte (&)[4]>);
static_assert(all_keys<short, unsigned short, int, unsigned, long, unsigned long, long long,
                       unsigned long long, std::int8_t, std::uint8_t, const int &>);
static_assert(no_keys<std::nullptr_t, void *, const unsigned char *, std::byte *, int *,
                      std::string *, const wchar_t *, const char16_t (&)[4], std::wstring>);
static_assert(no_keys<bool, char, wchar_t, char16_t, char32_t, std::byte, plain_enum, scoped_enum,
                      float, double>);
static_assert(
    no_keys<std::vector<int>, std::vector<bool>, std::vector<std::string>, const int (&)[4]>);
#ifdef __cpp_char8_t
static_assert(all_keys<const char8_t *, const char8_t (&)[4], std::u8string, std::u8string_view>);
static_assert(no_keys<char8_t>);
#endif
/* A key of a batch has no room for the bytes of an integer. */
static_assert(!std::is_convertible_v<int, tamis::key> &&
              !std::is_convertible_v<std::nullptr_t, tamis::key>);

tamis::options plain(std::uint64_t capacity)
{
  return tamis::options(capacity).fpp(1e-6).seed(7);
}

tamis::filter made(const tamis::options &options)
{
  tamis::filter out;
  CHECK(tamis::filter::try_create(options, out) == TAMIS_OK);
  return out;
}

/* What is open, by an allocator that counts. */
struct counted {
  int blocks = 0;
  tamis_allocator allocator{[](void *context, std::size_t alignment, std::size_t size) {
                              static_cast<counted *>(context)->blocks++;
                              return std::aligned_alloc(alignment, (size + alignment - 1) /
                                                                       alignment * alignment);
                            },
                            [](void *context, void *block, std::size_t, std::size_t) {
                              static_cast<counted *>(context)->blocks--;
                              std::free(block);
                            },
                            this};
};

void test_life()
{
  counted memory;
  {
    tamis::options options = plain(1000).allocator(memory.allocator);
    tamis::filter a = made(options);
    int of_one = memory.blocks;
    CHECK(of_one > 0 && a && a.try_add("key") == TAMIS_OK);
    tamis::filter b(std::move(a));
    CHECK(!a && b.contains("key")); // NOLINT: what is left of `a` is specified
    CHECK(!a.contains("key") && a.try_add("key") == TAMIS_EINVAL && a.stats().count == 0);
    tamis::filter c = made(options);
    c = std::move(b); // the one that c had is freed
    CHECK(memory.blocks == of_one && c.contains("key") && !b);
    tamis::filter &same = c;
    c = std::move(same);
    CHECK(c.contains("key"));
    tamis_filter *raw = c.release();
    CHECK(!c && memory.blocks == of_one && tamis_contains(raw, "key", 3));
    tamis::filter again(raw);
    swap(again, c);
    CHECK(c.get() == raw && !again);
    /* A call that fails leaves what was there. */
    CHECK(tamis::filter::try_create(tamis::options(0), c) == TAMIS_EINVAL && c.get() == raw);
    CHECK(tamis::filter::try_create(options, c) == TAMIS_OK && !c.contains("key"));
    CHECK(memory.blocks == of_one);
  }
  CHECK(memory.blocks == 0);
}

void test_options()
{
  tamis::options options(500);
  tamis_options c = TAMIS_OPTIONS_INIT;
  c.capacity = 500;
  CHECK(options.raw().struct_size == sizeof(tamis_options) && options.raw().fpp == c.fpp);
  options.kind(TAMIS_CUCKOO).fpp(0.001).growable(false).max_bytes(1 << 20).seed(3).stripes(8);
  c.kind = TAMIS_CUCKOO, c.fpp = 0.001, c.growable = false;
  std::uint64_t bytes = 0, expected = 1;
  CHECK(options.try_bytes(bytes) == TAMIS_OK && tamis_bytes_for(&c, &expected) == TAMIS_OK);
  c.stripes = 8, c.seed = 3;
  CHECK(tamis_bytes_for(&c, &expected) == TAMIS_OK && bytes == expected);
  double fpp = 0;
  CHECK(options.try_fpp_within(2 * bytes, fpp) == TAMIS_OK && fpp < 0.001);
  CHECK(options.why_refused().empty());
  CHECK(options.stripes(5000).why_refused() == "stripes is 5000; it must be from 0 to 4096");
  tamis::options window = tamis::options(10).window(3).window_renews(true);
  CHECK(window.raw().window == 3 && window.raw().window_renews);
  CHECK(tamis::options(10).layout(TAMIS_LAYOUT_WORD).cleared_from(4096).raw().cleared_from == 4096);
  const tamis_file_access access = {0640, -1};
  CHECK(tamis::options(10).access(access).raw().access == &access);
  CHECK(tamis::version() == tamis_version());
}

void test_keys()
{
  tamis::filter f = made(plain(1000).kind(TAMIS_CUCKOO));
  std::string text = "a\0b";
  CHECK(f.try_add_unique("one") == TAMIS_OK && f.try_add_unique("one") == TAMIS_PRESENT);
  CHECK(f.try_add(text) == TAMIS_OK && f.contains(std::string_view("a")));
  CHECK(!f.contains(std::string_view("a\0b", 3)));
  CHECK(f.try_add({}) == TAMIS_OK && f.contains(""));
  CHECK(f.try_add("one") == TAMIS_OK && f.count("one") == 2 && f.count_hash(f.hash("one")) == 2);
  CHECK(f.hash("one") == tamis_hash(f.get(), "one", 3) && f.contains_hash(f.hash("one")));
  CHECK(f.try_remove("one") == TAMIS_OK && f.try_remove_hash(f.hash("one")) == TAMIS_OK);
  CHECK(f.try_remove("one") == TAMIS_ABSENT && !f.contains("one"));
  CHECK(f.try_add_hash(17) == TAMIS_OK && f.try_add_unique_hash(17) == TAMIS_PRESENT);
  CHECK(made(plain(10)).try_remove("one") == TAMIS_EUNSUPPORTED);
}

/* The same key in several forms. */
void test_bytes()
{
  tamis::filter f = made(plain(1000).kind(TAMIS_CUCKOO));
  const unsigned char array[] = {'a', 0, 'b'};
  std::vector<unsigned char> row(array, array + 3);
  CHECK(f.try_add_unique(array) == TAMIS_OK && f.try_add_unique(row) == TAMIS_PRESENT);
  CHECK(f.contains({array, 3}) && f.contains(std::string_view("a\0b", 3)) && !f.contains("a"));
  const signed char chars[] = {'a', 0, 'b'};
  CHECK(f.count(chars) == 1 && f.hash(row) == f.hash(array));
  CHECK(f.contains(std::array<std::byte, 3>{std::byte{'a'}, std::byte{0}, std::byte{'b'}}));
  CHECK(f.try_remove(std::vector<char>{'a', 0, 'b'}) == TAMIS_OK && !f.contains(array));
  const char text[8] = "text"; // ends before the first 0
  CHECK(f.try_add(text) == TAMIS_OK && f.contains("text"));
  std::vector<tamis::key> keys{array, row, text};
  CHECK(f.contains_many(keys) == 1 && keys[0].len == 3 && keys[1].data == row.data());
#ifdef __cpp_char8_t
  std::u8string wide = u8"\u00e9";
  CHECK(f.try_add_unique(u8"\u00e9") == TAMIS_OK && f.contains("\xc3\xa9") && f.contains(wide));
  CHECK(f.contains(wide.c_str()) && f.contains(std::u8string_view(wide)));
  CHECK(f.contains_many(std::vector<tamis::key>{u8"\u00e9", wide}) == 2);
#endif
#ifdef __cpp_lib_span
  CHECK(f.try_add(std::as_bytes(std::span(array))) == TAMIS_OK && f.contains(row));
  CHECK(f.contains_many(std::vector<tamis::key>{std::as_bytes(std::span(row))}) == 1);
#endif
}

/* Integers of equal value are one key: that of the 8 bytes which the head of tamis.hpp names. */
void test_integers()
{
  tamis::filter f = made(plain(1000).kind(TAMIS_CUCKOO));
  CHECK(f.try_add_unique(0) == TAMIS_OK && !f.contains("") && !f.contains("0"));
  CHECK(f.contains(0ull) && f.contains(std::uint8_t{0}) &&
        f.contains(std::string_view("\0\0\0\0\0\0\0", 8)));
  CHECK(f.try_add(0x123456789) == TAMIS_OK && f.count(0x123456789u) == 1);
  CHECK(f.contains({"\x89\x67\x45\x23\x01\0\0", 8}) && !f.contains(0x23456789));
  CHECK(f.try_add(std::int8_t{-2}) == TAMIS_OK && f.contains(-2ll) && f.contains(-2ull));
  CHECK(f.contains("\xfe\xff\xff\xff\xff\xff\xff\xff") && !f.contains(254) &&
        !f.contains(0xfffffffe));
  CHECK(f.hash(7) == f.hash({"\7\0\0\0\0\0\0", 8}) && f.hash(7) != f.hash(std::string(1, 7)));
  CHECK(f.try_remove(0l) == TAMIS_OK && f.try_remove(0) == TAMIS_ABSENT);
  CHECK(tamis::filter().try_add(0) == TAMIS_EINVAL);
}

/* More integers than are made keys at a time. */
void test_batches_of_integers()
{
  tamis::filter f = made(plain(1000).kind(TAMIS_CUCKOO));
  std::vector<int> numbers;
  for (int i = -100; i < 100; i++)
    numbers.push_back(i);
  std::array<int, 200> results;
  results.fill(9);
  CHECK(f.try_add(50) == TAMIS_OK && f.try_add(-100) == TAMIS_OK);
  CHECK(f.try_add_unique_many(numbers, results) == TAMIS_OK && f.stats().count == 200);
  for (std::size_t i = 0; i < results.size(); i++)
    CHECK(results[i] == (i == 0 || i == 150 ? TAMIS_PRESENT : TAMIS_OK));
  CHECK(f.contains(99) && !f.contains(100) && f.contains(-1) && f.contains_many(numbers) == 200);
  CHECK(f.try_remove(50) == TAMIS_OK);
  std::array<bool, 200> found{};
  CHECK(f.contains_many(numbers, found) == 199 && found[149] && !found[150] && found[199]);
  const std::uint64_t three[] = {std::uint64_t(-7), 99, 100};
  std::uint64_t counts[3];
  CHECK(f.try_add_many(three) == TAMIS_OK && f.count_many(three, counts) == 5);
  CHECK(counts[0] == 2 && counts[1] == 2 && counts[2] == 1 && f.count_many(three) == 5);
  /* No integer; too few results; no filter. */
  CHECK(f.try_add_many(std::vector<int>()) == TAMIS_OK && f.contains_many(std::vector<int>()) == 0);
  CHECK(f.try_add_many(numbers, tamis::span<int>(results.data(), 199)) == TAMIS_EINVAL);
  CHECK(f.contains_many(numbers, tamis::span<bool>(found.data(), 1)) == 0 && f.count(99) == 2);
  CHECK(tamis::filter().try_add_many(std::vector<int>()) == TAMIS_EINVAL);
  CHECK(tamis::filter().contains_many(numbers) == 0);
  /* The failure of an early piece; the keys after it were tried. */
  tamis::filter full = made(plain(10).growable(false));
  CHECK(full.try_add_many(numbers, results) == TAMIS_EFULL && results[9] == TAMIS_OK);
  CHECK(results[20] == TAMIS_EFULL && results[199] == TAMIS_EFULL);
  for (std::size_t i = 100; i < 200; i++)
    numbers[i] = -100;
  CHECK(full.try_add_many(numbers, results) == TAMIS_EFULL && results[199] == TAMIS_OK);
}

void test_batches()
{
  tamis::filter f = made(plain(1000));
  std::string third = "three";
  std::vector<tamis::key> keys{"one", std::string_view("two"), third, {third.data(), 2}};
  int results[4] = {9, 9, 9, 9};
  CHECK(f.try_add("two") == TAMIS_OK);
  CHECK(f.try_add_unique_many(keys, results) == TAMIS_OK);
  CHECK(results[0] == TAMIS_OK && results[1] == TAMIS_PRESENT && results[3] == TAMIS_OK);
  CHECK(f.contains("th") && f.contains_many(keys) == 4);
  keys.emplace_back("five");
  std::array<bool, 5> found{};
  CHECK(f.contains_many(keys, found) == 4 && found[0] && !found[4]);
  std::array<std::uint64_t, 5> counts{};
  CHECK(f.count_many(keys, counts) == 4 && counts[0] == 1 && counts[4] == 0);
  /* Too short for five keys. */
  std::array<bool, 4> few{};
  CHECK(f.try_add_many(keys, results) == TAMIS_EINVAL && !f.contains("five"));
  CHECK(f.try_add_unique_many(keys, results) == TAMIS_EINVAL);
  CHECK(f.contains_many(keys, few) == 0 && !few[0]);
  CHECK(f.try_add_many(keys) == TAMIS_OK && f.contains("five"));
  CHECK(f.contains_many({}) == 0 && f.try_add_many({}) == TAMIS_OK);
  /* No elements at all, though their data() is not NULL. */
  std::vector<std::uint64_t> none(5);
  none.clear();
  CHECK(f.count_many(keys, none) == 5);
  CHECK(f.try_add_many(keys, tamis::span<int>(results, 0)) == TAMIS_OK);

  /* One key in many filters. */
  const std::array<const tamis_filter *, 3> each{f.get(), nullptr, f.get()};
  CHECK(tamis::contains_each(each, "two") == 2 && tamis::contains_each(each, "none") == 0);
  CHECK(tamis::contains_each(each, "two", found) == 2 && found[0] && !found[1] && found[2]);
  CHECK(tamis::contains_each(each, "two", tamis::span<bool>(found.data(), 2)) == 0);

  const std::uint64_t hashes[] = {1, 2, 3};
  CHECK(f.try_add_many_hash(hashes) == TAMIS_OK && f.contains_many_hash(hashes) == 3);
  CHECK(f.try_add_unique_many_hash(hashes, results) == TAMIS_OK && results[2] == TAMIS_PRESENT);
  CHECK(f.count_many_hash(hashes) == 3);
  CHECK(f.contains_many_hash(hashes, tamis::span<bool>(few.data(), 2)) == 0);
#ifdef __cpp_lib_span
  CHECK(f.contains_many(std::span<const tamis::key>(keys).first(2), std::span<bool>(few)) == 2);
  CHECK(f.contains_many_hash(std::span(hashes)) == 3);
#endif
}

/* A saved filter in memory. */
struct bytes {
  std::string data;
  std::size_t at = 0;
  std::int64_t operator()(void *to, std::size_t size)
  {
    std::size_t n = data.copy(static_cast<char *>(to), size, at);
    at += n;
    return static_cast<std::int64_t>(n);
  }
};

bytes saved(const tamis::filter &f)
{
  bytes out;
  CHECK(f.try_save([&out](const void *data, std::size_t size) {
    out.data.append(static_cast<const char *>(data), size);
  }) == TAMIS_OK);
  return out;
}

void test_saved(const std::string &path)
{
  length_hash hash;
  tamis::filter f = made(plain(1000).hash(hash)), g;
  CHECK(f.try_add("key") == TAMIS_OK && f.contains("yek")); // of the same length
  CHECK(f.try_save_file(path) == TAMIS_OK && f.try_save_file("/no/such/folder") == TAMIS_EIO);
  CHECK(tamis::filter::try_load_file(path, g) == TAMIS_EINVAL && !g); // which hash?
  CHECK(tamis::filter::try_load_file(path, g, tamis::load_options().hash(hash)) == TAMIS_OK);
  CHECK(g.contains("key") && !g.contains("longer"));
  tamis::load_options mapped = tamis::load_options().hash(hash).check_all(true);
  CHECK(tamis::filter::try_map_file(path.c_str(), g, mapped) == TAMIS_OK && g.contains("key"));
  CHECK(g.try_add("another") == TAMIS_EUNSUPPORTED);

  tamis::filter h = made(plain(1000));
  CHECK(h.try_add("key") == TAMIS_OK);
  bytes data = saved(h), info = data;
  CHECK(tamis::filter::try_load(data, g) == TAMIS_OK && g.contains("key"));
  CHECK(tamis::filter::try_load(bytes(info), g, tamis::load_options().max_bytes(1)) == TAMIS_EFULL);
  tamis_stats stats = TAMIS_STATS_INIT;
  CHECK(tamis::try_saved_info(info, stats) == TAMIS_OK && stats.count == 1);
  CHECK(g.contains("key")); // still the one from before
  int asked = 0;
  CHECK(h.try_save([&asked](const void *, std::size_t) { return ++asked < 1; }) == TAMIS_EIO);
  CHECK(asked == 1);
}

void test_shared(const std::string &path)
{
  std::remove(path.c_str());
  tamis::options wanted = plain(1000).growable(false);
  tamis::filter a, b, c;
  CHECK(tamis::filter::try_open_shared(path, a) == TAMIS_EIO && !a); // nothing to create it with
  CHECK(wanted.why_not_shared(path).empty());
  CHECK(tamis::filter::try_open_shared(wanted, path, a) == TAMIS_OK);
  CHECK(tamis::filter::try_open_shared(path.c_str(), b) == TAMIS_OK);
  CHECK(a.try_add_unique("key") == TAMIS_OK && b.try_add_unique("key") == TAMIS_PRESENT);
  CHECK(a.try_sync() == TAMIS_OK && made(wanted).try_sync() == TAMIS_EUNSUPPORTED);
  CHECK(tamis::filter::try_open_shared(plain(999), path, c) == TAMIS_EINVAL && !c);
  CHECK(plain(999).why_not_shared(path) == "capacity is 999; the filter in the file has 1000");

  std::FILE *file = std::fopen(path.c_str(), "r+");
  CHECK(file && tamis::filter::try_open_shared(fileno(file), c) == TAMIS_OK && c.contains("key"));
  CHECK(tamis::filter::try_open_shared(wanted, fileno(file), c) == TAMIS_OK && c.contains("key"));
  std::fclose(file);
  CHECK(c.try_add("another") == TAMIS_OK && a.contains("another"));
  CHECK(tamis::filter::try_open_shared(wanted, c) == TAMIS_OK && !c.contains("key"));
  CHECK(c.try_add("key") == TAMIS_OK && c.try_sync() == TAMIS_OK);
}

void test_several()
{
  tamis::options fixed = plain(1000).growable(false);
  tamis::filter a = made(fixed), b = made(fixed), both;
  CHECK(a.try_add("a") == TAMIS_OK && a.try_add("both") == TAMIS_OK);
  CHECK(b.try_add("b") == TAMIS_OK && b.try_add("both") == TAMIS_OK);
  tamis_similarity_stats stats = TAMIS_SIMILARITY_STATS_INIT;
  CHECK(a.try_similarity(b, stats) == TAMIS_OK && stats.united > 2.5 && stats.united < 3.5);
  CHECK(tamis::filter::try_intersect(a, b, both) == TAMIS_OK);
  CHECK(both.contains("both") && !both.contains("a"));
  CHECK(!a.includes(b) && a.includes(both));
  CHECK(made(tamis::options(a.made_with())).try_merge(a) == TAMIS_OK);
  CHECK(a.try_merge(b) == TAMIS_OK && a.contains("b") && a.try_merge(a) == TAMIS_EINVAL);

  tamis::filter window = made(plain(1000).window(1));
  CHECK(window.try_add("old") == TAMIS_OK && window.try_advance() == TAMIS_OK);
  CHECK(window.contains("old") && window.try_advance() == TAMIS_OK && !window.contains("old"));
  CHECK(a.try_advance() == TAMIS_EUNSUPPORTED);
  CHECK(window.try_advance_to(2) == TAMIS_OK && window.try_add("new") == TAMIS_OK);
  CHECK(window.try_advance_to(3) == TAMIS_OK && window.try_advance_to(3) == TAMIS_OK);
  CHECK(window.contains("new") && window.try_advance_to(9) == TAMIS_OK && !window.contains("new"));
  CHECK(window.try_set_period(4) == TAMIS_OK && window.stats().period == 4);

  tamis::filter ends = made(plain(1000).window(2));
  const std::vector<int> numbers = {1, 2, 3};
  const std::vector<std::uint64_t> hashes = {ends.hash("b"), ends.hash(4)};
  CHECK(ends.try_add_for("a", 0) == TAMIS_OK && ends.try_add_unique_for("a", 2) == TAMIS_PRESENT);
  CHECK(ends.try_add_for_many(numbers, 1) == TAMIS_OK && ends.try_add_for(5, 3) == TAMIS_EINVAL);
  CHECK(ends.try_add_unique_for_many_hash(hashes, 0) == TAMIS_OK && ends.contains(4));
  CHECK(ends.try_add_for_many_hash(hashes, 1) == TAMIS_OK && ends.try_advance() == TAMIS_OK);
  CHECK(!ends.contains("a") && ends.contains_many(numbers) == 3 && ends.contains("b"));
  CHECK(ends.try_add_unique_for_hash(hashes[0], 2) == TAMIS_PRESENT);
  CHECK(ends.try_add_for_hash(hashes[0], 2) == TAMIS_OK && ends.try_advance() == TAMIS_OK);
  CHECK(!ends.contains(4) && ends.contains("b") && ends.contains_many(numbers) == 0);
  int results[3] = {};
  CHECK(ends.try_add_unique_for_many(numbers, 1, results) == TAMIS_OK && results[2] == TAMIS_OK);
  CHECK(ends.try_add_unique_for_many(numbers, 3) == TAMIS_EINVAL);
  CHECK(plain(10).window(0).raw().window == 0 &&
        made(plain(10)).try_add_for(1, 0) == TAMIS_EUNSUPPORTED);
  CHECK(a.try_advance_to(1) == TAMIS_EUNSUPPORTED && a.try_set_period(1) == TAMIS_EUNSUPPORTED);

  std::string text;
  auto append = [&text](const void *data, std::size_t size) {
    text.append(static_cast<const char *>(data), size);
  };
  CHECK(a.try_stats_text(TAMIS_JSON, "a", append) == TAMIS_OK);
  CHECK(text.find("\"name\":\"a\"") != text.npos || text.find("\"name\": \"a\"") != text.npos);
  const tamis_filter *filters[] = {a.get(), b.get()};
  const char *names[] = {"first", "second"};
  text.clear();
  CHECK(tamis::try_stats_text_many(filters, names, TAMIS_PROMETHEUS, append) == TAMIS_OK);
  CHECK(text.find("tamis_keys{name=\"second\"}") != text.npos);
  CHECK(tamis::try_stats_text_many(filters, tamis::span<const char *const>(names, 1), TAMIS_JSON,
                                   append) == TAMIS_EINVAL);
}

void test_threads()
{
  tamis::filter seen = made(tamis::options(10000).kind(TAMIS_CUCKOO).fpp(1e-6));
  int won[2] = {0, 0};
  auto consume = [&seen](int &count) {
    for (int i = 0; i < 5000; i++)
      count += seen.try_add_unique("message " + std::to_string(i)) == TAMIS_OK;
  };
  std::thread a(consume, std::ref(won[0])), b(consume, std::ref(won[1]));
  a.join(), b.join();
  CHECK(won[0] + won[1] == static_cast<int>(seen.stats().count) && won[0] + won[1] > 4990);
}

#ifdef __cpp_exceptions
struct failure {
  int code, system_error;
  std::string what;
};
template <typename Call> failure failure_of(Call call)
{
  try {
    call();
  } catch (const tamis::error &error) {
    return {error.code(), error.system_error(), error.what()};
  }
  return {TAMIS_OK, 0, ""};
}
template <typename Call> int thrown(Call call)
{
  return failure_of(call).code;
}

void test_exceptions(const std::string &path)
{
  failure e = failure_of([] { tamis::filter refused(tamis::options(10).stripes(5000)); });
  CHECK(e.code == TAMIS_EINVAL && e.what == "tamis: stripes is 5000; it must be from 0 to 4096");
  tamis::filter f(plain(2).growable(false));
  CHECK(f.add_unique("one") && !f.add_unique("one"));
  f.add("two");
  CHECK(thrown([&] { f.add("three"); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.add_hash(3); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.add_unique("three"); }) == TAMIS_EFULL);
  std::vector<tamis::key> keys{"one", "four"};
  std::uint64_t hashes[] = {4};
  int results[2];
  CHECK(thrown([&] { f.add_many(keys, results); }) == TAMIS_EFULL && results[0] == TAMIS_OK);
  CHECK(thrown([&] { f.add_unique_many(keys, results); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.add_many_hash(hashes); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.add_unique_many_hash(hashes); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.remove("one"); }) == TAMIS_EUNSUPPORTED);
  CHECK(thrown([&] { f.advance(); }) == TAMIS_EUNSUPPORTED);
  CHECK(thrown([&] { f.advance_to(1); }) == TAMIS_EUNSUPPORTED);
  CHECK(thrown([&] { f.set_period(1); }) == TAMIS_EUNSUPPORTED);
  CHECK(thrown([&] { f.merge(f); }) == TAMIS_EINVAL);
  CHECK(thrown([&] { tamis::filter::intersect(f, f).contains("one"); }) == TAMIS_OK);
  CHECK(thrown([] { tamis::filter::load_file("/dev/null"); }) == TAMIS_ECORRUPT);
  CHECK(f.similarity(tamis::filter(plain(2).growable(false))).common < 0.5);
  CHECK(f.includes(f) && !tamis::filter(plain(2).growable(false)).includes(f));
  tamis::filter cuckoo(plain(10).kind(TAMIS_CUCKOO));
  std::vector<int> numbers{1, 2, 3};
  CHECK(thrown([&] { f.add(0); }) == TAMIS_EFULL &&
        thrown([&] { f.add_many(numbers); }) == TAMIS_EFULL);
  CHECK(thrown([&] { f.add_unique_many(numbers, results); }) == TAMIS_EINVAL);
  CHECK(cuckoo.add_unique(1) && !cuckoo.add_unique(1u) && cuckoo.remove(1ll));
  cuckoo.add_many(numbers), cuckoo.add_unique_many(numbers);
  CHECK(cuckoo.count_many(numbers) == 3 && cuckoo.remove(1) && cuckoo.remove(2) &&
        cuckoo.remove(3));
  CHECK(cuckoo.add_unique_hash(1) && cuckoo.remove_hash(1) && !cuckoo.remove("one"));
  CHECK(tamis::options(1000).bytes() > 1000 && tamis::options(1000).fpp_within(8192) < 0.01);
  CHECK(thrown([] { tamis::options(0).bytes(); }) == TAMIS_EINVAL);

  e = failure_of([&] { f.save_file("/no/such/folder"); });
  CHECK(e.code == TAMIS_EIO && e.system_error == ENOENT);
  CHECK(e.what == "tamis: /no/such/folder: No such file or directory");
  f.save_file(path);
  CHECK(tamis::filter::load_file(path).contains("one"));
  CHECK(tamis::filter::map_file(path).contains("two"));
  std::remove(path.c_str());
  e = failure_of([&] { tamis::filter::open_shared(plain(2).growable(true), path); });
  CHECK(e.code == TAMIS_EINVAL && e.what.find("tamis: max_bytes is not set; ") == 0);
  e = failure_of([&] { tamis::filter::open_shared(path); });
  CHECK(e.code == TAMIS_EIO && e.system_error == ENOENT);
  /* The check needs no descriptor, so it finds no error. */
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none = {0, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  e = failure_of([] { tamis::filter::open_shared(plain(2).growable(false)); });
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK(e.code == TAMIS_EIO && e.what == "tamis: Too many open files");
  CHECK(thrown([] { tamis::filter::open_shared(-1); }) == TAMIS_EINVAL);
  CHECK(thrown([] { tamis::filter::open_shared(plain(2), -1); }) == TAMIS_EINVAL);
  tamis::filter shared = tamis::filter::open_shared(plain(2).growable(false), path);
  shared.add("one"), shared.sync();
  CHECK(tamis::filter::open_shared(path).contains("one"));
  CHECK(!tamis::filter::open_shared(plain(2).growable(false)).contains("one"));
  CHECK(thrown([&] { f.sync(); }) == TAMIS_EUNSUPPORTED);
  CHECK(f.stats_text(TAMIS_PROMETHEUS, "f").find("tamis_keys{name=\"f\"} 2\n") !=
        std::string::npos);
  const tamis_filter *filters[] = {f.get()};
  CHECK(tamis::stats_text_many(filters, {}, TAMIS_JSON).front() == '[');

  /* Exceptions of functions that the library calls. */
  struct mine {
  };
  int caught = 0;
  try {
    f.save([](const void *, std::size_t) { throw mine(); });
  } catch (const mine &) {
    caught++;
  }
  bytes data = saved(f), info = data;
  try {
    tamis::filter::load([&data](void *to, std::size_t size) {
      if (data.at > 0)
        throw mine();
      return data(to, size < 100 ? size : 100);
    });
  } catch (const mine &) {
    caught++;
  }
  CHECK(caught == 2);
  CHECK(f.try_save([](const void *, std::size_t) { throw mine(); }) == TAMIS_EIO);
  errno = ENODEV; // of an earlier call
  e = failure_of([&] { f.save([](const void *, std::size_t) { return false; }); });
  CHECK(e.code == TAMIS_EIO && e.system_error == 0 && e.what == "tamis: input or output error");
  CHECK(tamis::saved_info(info).count == 2);
  info.at = 0;
  CHECK(tamis::filter::load(info).contains("two"));
}
#endif

} // namespace

int main()
{
  char folder[] = "/tmp/tamis-cxx.XXXXXX";
  if (mkdtemp(folder) == nullptr)
    return 1;
  std::string path = std::string(folder) + "/saved";
  test_life();
  test_options();
  test_keys();
  test_bytes();
  test_integers();
  test_batches();
  test_batches_of_integers();
  test_saved(path);
  test_shared(path);
  test_several();
  test_threads();
#ifdef __cpp_exceptions
  test_exceptions(path);
#endif
  std::remove(path.c_str());
  std::remove(folder);
  std::puts(failures == 0 ? "good" : "BAD");
  return failures == 0 ? 0 : 1;
}
