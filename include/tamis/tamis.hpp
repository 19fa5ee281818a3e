/* SPDX-License-Identifier: MIT
 *
 * tamis for C++17 and later: a filter that frees itself, keys of many types, errors by choice.
 *
 *     tamis::filter seen(tamis::options(1000000).kind(TAMIS_CUCKOO).fpp(0.001));
 *     if (seen.add_unique(key))
 *       first_caller_with(key);
 *
 * All functions are inline, and keep the contracts of the calls of tamis.h that they make.
 *
 * A key is the bytes of one of these:
 *   Text     std::string, std::string_view and what converts to it, and the same of char8_t.  A
 *            pointer to char or char8_t, or an array of them, is text that ends before the first
 *            0.
 *   Bytes    an object with data() and size() of char, unsigned char, signed char, char8_t or
 *            std::byte (std::vector, std::array, std::span), an array of unsigned char, signed
 *            char or std::byte, and {pointer, size}.
 *   Integer  its value as a 64-bit number in two's complement: 8 bytes, lowest byte first.  So
 *            equal values are one key, whatever their types.  (-1 is the same key as 2^64 - 1.)
 *            signed char and unsigned char, std::int8_t and std::uint8_t, are integers here.
 *   Others   (nullptr, bool, enumerations, characters, fractions) do not compile without a cast.
 *
 * You choose how errors are reported: `add` throws tamis::error; `try_add` returns a result of
 * tamis.h.  With -fno-exceptions there is only `try_add`.
 *
 * A filter belongs to one object, which can be moved while no other thread uses it, but not copied.
 * An empty object (default-constructed, moved from, released) answers as C calls with NULL do.
 */
#ifndef TAMIS_HPP
#define TAMIS_HPP

#include <tamis/key.hpp>
#include <tamis/tamis.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#if defined(__cpp_exceptions)
#include <exception>
#include <stdexcept>
#include <system_error>
#define TAMIS_HPP_THROWS 1
#else
#define TAMIS_HPP_THROWS 0
#endif

namespace tamis
{

/* The version of the library that is running. */
inline std::string_view version() noexcept
{
  return tamis_version();
}

#if TAMIS_HPP_THROWS
/* Thrown by filter(options), and by calls that also have a form with try_.  code() is the result of
 * the C call; with TAMIS_EIO, system_error() is its errno, else 0.  what() has the reason. */
class error : public std::runtime_error
{
public:
  error(int code, int system_error, const std::string &what)
      : std::runtime_error("tamis: " + what), code_(code), system_error_(system_error)
  {
  }
  int code() const noexcept { return code_; }
  int system_error() const noexcept { return system_error_; }

private:
  int code_, system_error_;
};
#endif

namespace detail
{

/* Returns a number whose bytes in memory are the key: those of `value`, lowest byte first. */
template <typename Integer> std::uint64_t number_of(Integer value) noexcept
{
  auto number = static_cast<std::uint64_t>(value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  number = __builtin_bswap64(number);
#endif
  return number;
}

/* The argument of calls with one key: a key or an integer. */
class one_key
{
public:
  one_key() noexcept : key_(nullptr, 0) {}
  one_key(const void *bytes, std::size_t size) noexcept : key_(bytes, size) {}
  template <typename T, typename = decltype(key(std::declval<const T &>()))>
  one_key(const T &from) : key_(from)
  {
  }
  template <typename Integer, std::enable_if_t<is_integer<Integer>, int> = 0>
  one_key(Integer value) noexcept : number_(number_of(value)), is_number_(true)
  {
  }

  /* Passes the key to a C call.  (The C call gets the address of a copy of number_, so compilers
   * need not store this object in memory.) */
  template <typename Call, typename Filter> auto to(Call call, Filter *raw) const noexcept
  {
    std::uint64_t number = number_;
    return is_number_ ? call(raw, &number, sizeof number) : call(raw, key_.data, key_.len);
  }

private:
  key key_;
  std::uint64_t number_ = 0;
  bool is_number_ = false;
};

/* Binds a number of periods to a C call with one key, or to a C call with many keys. */
inline auto for_periods(int call(tamis_filter *, const void *, std::size_t, unsigned),
                        unsigned periods) noexcept
{
  return [=](tamis_filter *raw, const void *data, std::size_t size) {
    return call(raw, data, size, periods);
  };
}
inline auto for_periods(int call(tamis_filter *, const tamis_key *, std::size_t, unsigned, int *),
                        unsigned periods) noexcept
{
  return [=](tamis_filter *raw, const tamis_key *keys, std::size_t n, int *results) {
    return call(raw, keys, n, periods, results);
  };
}

/* The argument of batches: keys or integers, in an array or an object with data() and size(). */
template <typename Keys>
using if_batch = std::enable_if_t<std::is_convertible_v<const Keys &, span<const key>> ||
                                  is_integer<element_t<Keys>>>;

/* A path: text that ends in 0, or an object with c_str(), such as std::filesystem::path. */
class path
{
public:
  path(const char *text) noexcept : text_(text) {}
  template <typename Text, typename = decltype(std::declval<const Text &>().c_str())>
  path(const Text &text) noexcept : text_(text.c_str())
  {
  }
  const char *c_str() const noexcept { return text_; }

private:
  const char *text_;
};

#if TAMIS_HPP_THROWS
[[noreturn]] inline void fail(int result, const char *path = nullptr)
{
  int number = result == TAMIS_EIO ? errno : 0;
  std::string why = number ? std::generic_category().message(number) : tamis_strerror(result);
  throw error(result, number, path ? path + (": " + why) : why);
}

inline int checked(int result, const char *path = nullptr)
{
  if (result < 0)
    fail(result, path);
  return result;
}
#endif

/* Lets a C call use a function object.  An exception must not pass through the library: guarded()
 * catches it, the C call fails with TAMIS_EIO, and checked() throws the exception again when the C
 * call has returned.  (Object files with and without exceptions may be linked together, so this
 * class has a different type in each.)  A failure that sets no errno must not have an older one. */
template <typename Call, bool = TAMIS_HPP_THROWS> class callback
{
public:
  explicit callback(Call &call) noexcept : call_(std::addressof(call)) { errno = 0; }
  callback(const callback &) = delete;
  callback &operator=(const callback &) = delete;

  static int write(void *context, const void *data, std::size_t size) noexcept
  {
    return static_cast<callback *>(context)->guarded(-1, [&](Call &call) {
      if constexpr (std::is_void_v<decltype(call(data, size))>) {
        call(data, size);
        return 0;
      } else {
        static_assert(std::is_same_v<decltype(call(data, size)), bool>,
                      "a function that writes returns void, or a bool: whether it has succeeded");
        return call(data, size) ? 0 : -1;
      }
    });
  }

  static std::int64_t read(void *context, void *data, std::size_t size) noexcept
  {
    return static_cast<callback *>(context)->guarded(
        std::int64_t{-1}, [&](Call &call) { return static_cast<std::int64_t>(call(data, size)); });
  }

#if TAMIS_HPP_THROWS
  void checked(int result) const
  {
    if (thrown_)
      std::rethrow_exception(thrown_);
    detail::checked(result);
  }
#endif

private:
  template <typename Result, typename Body> Result guarded(Result failure, Body body) noexcept
  {
#if TAMIS_HPP_THROWS
    try {
      return body(*call_);
    } catch (...) {
      thrown_ = std::current_exception();
      return failure;
    }
#else
    static_cast<void>(failure);
    return body(*call_);
#endif
  }

  Call *call_;
#if TAMIS_HPP_THROWS
  std::exception_ptr thrown_;
#endif
};

#if TAMIS_HPP_THROWS
struct appender {
  std::string &text;
  void operator()(const void *data, std::size_t size) const
  {
    text.append(static_cast<const char *>(data), size);
  }
};
#endif

/* The common part of options and load_options. */
template <typename Self, typename Raw> class common_options
{
public:
  /* The most bytes that the filter may take; 0: no limit. */
  Self &max_bytes(std::uint64_t bytes) noexcept { return set(raw_.max_bytes, bytes); }
  /* The struct `allocator` is copied when a filter is created, and must live until then. */
  Self &allocator(const tamis_allocator &allocator) noexcept
  {
    return set(raw_.allocator, &allocator);
  }
  Self &cleared_from(std::size_t bytes) noexcept { return set(raw_.cleared_from, bytes); }
  Self &hash(tamis_hash_function function, void *context = nullptr) noexcept
  {
    set(raw_.hash_context, context);
    return set(raw_.hash, function);
  }
  /* An object that is called as `std::uint64_t hash(std::string_view key, std::uint64_t seed)`, by
   * many threads at once.  It must not throw, and must live as long as the filter. */
  template <typename Hash, typename = std::enable_if_t<std::is_class_v<Hash>>>
  Self &hash(const Hash &hash) noexcept
  {
    static_assert(
        std::is_nothrow_invocable_r_v<std::uint64_t, const Hash &, std::string_view, std::uint64_t>,
        "a hash function takes (std::string_view, std::uint64_t), and is noexcept");
    raw_.hash_context = const_cast<void *>(static_cast<const void *>(std::addressof(hash)));
    return set(raw_.hash,
               [](void *context, const void *data, std::size_t size, std::uint64_t seed) noexcept {
                 const Hash &function = *static_cast<const Hash *>(context);
                 std::string_view key(static_cast<const char *>(data), size);
                 return static_cast<std::uint64_t>(function(key, seed));
               });
  }
  template <typename Hash, typename = std::enable_if_t<std::is_class_v<Hash>>>
  Self &hash(const Hash &&) = delete; /* a temporary does not live as long as the filter */

  /* The struct of tamis.h, to read it, or to set fields that have no function here. */
  Raw &raw() noexcept { return raw_; }
  const Raw &raw() const noexcept { return raw_; }

protected:
  explicit common_options(const Raw &raw) noexcept : raw_(raw) {}
  template <typename Field, typename Value> Self &set(Field &field, Value value) noexcept
  {
    field = value;
    return static_cast<Self &>(*this);
  }
  Raw raw_;
};

inline tamis_options default_options() noexcept
{
  return TAMIS_OPTIONS_INIT;
}
inline tamis_load_options default_load_options() noexcept
{
  return TAMIS_LOAD_OPTIONS_INIT;
}

} // namespace detail

/* What to create: the fields of tamis_options, by their names and with their defaults. */
class options : public detail::common_options<options, tamis_options>
{
public:
  explicit options(std::uint64_t capacity) noexcept : common_options(detail::default_options())
  {
    raw_.capacity = capacity;
  }
  explicit options(const tamis_options &raw) noexcept : common_options(raw) {}
  options &kind(tamis_kind kind) noexcept { return set(raw_.kind, kind); }
  options &fpp(double fpp) noexcept { return set(raw_.fpp, fpp); }
  options &growable(bool growable) noexcept { return set(raw_.growable, growable); }
  options &seed(std::uint64_t seed) noexcept { return set(raw_.seed, seed); }
  options &layout(tamis_layout layout) noexcept { return set(raw_.layout, layout); }
  options &stripes(unsigned stripes) noexcept { return set(raw_.stripes, stripes); }
  options &window(unsigned periods) noexcept { return set(raw_.window, periods); }
  options &window_renews(bool renews) noexcept { return set(raw_.window_renews, renews); }
  options &access(const tamis_file_access &access) noexcept { return set(raw_.access, &access); }
  options &access(const tamis_file_access &&) = delete; /* a temporary */

  /* Why tamis_create would refuse these options (tamis_options_check); else an empty string. */
  std::string why_refused() const
  {
    char why[512];
    tamis_options_check(&raw_, why, sizeof why);
    return why;
  }

  /* Why filter::open_shared would fail (tamis_shared_check); else an empty string. */
  std::string why_not_shared(detail::path path) const
  {
    char why[512];
    tamis_shared_check(&raw_, path.c_str(), why, sizeof why);
    return why;
  }

  [[nodiscard]] int try_bytes(std::uint64_t &bytes) const noexcept
  {
    return tamis_bytes_for(&raw_, &bytes);
  }
  [[nodiscard]] int try_fpp_within(std::uint64_t bytes, double &fpp) const noexcept
  {
    return tamis_fpp_for(&raw_, bytes, &fpp);
  }
#if TAMIS_HPP_THROWS
  /* The bytes that a filter with these options takes. */
  std::uint64_t bytes() const
  {
    std::uint64_t bytes = 0;
    detail::checked(try_bytes(bytes));
    return bytes;
  }
  /* The lowest rate that a filter with these options can have in this number of bytes (to 1 %). */
  double fpp_within(std::uint64_t bytes) const
  {
    double fpp = 0;
    detail::checked(try_fpp_within(bytes, fpp));
    return fpp;
  }
#endif
};

/* How to load: the fields of tamis_load_options. */
class load_options : public detail::common_options<load_options, tamis_load_options>
{
public:
  load_options() noexcept : common_options(detail::default_load_options()) {}
  load_options &check_all(bool check) noexcept { return set(raw_.check_all, check); }
};

class filter
{
public:
  /* ---- life ---- */

  filter() noexcept = default;
  /* Takes over a filter that a C call has created. */
  explicit filter(tamis_filter *raw) noexcept : raw_(raw) {}
  filter(filter &&other) noexcept : raw_(other.release()) {}
  filter &operator=(filter &&other) noexcept
  {
    filter(std::move(other)).swap(*this);
    return *this;
  }
  ~filter() { tamis_destroy(raw_); }

  void swap(filter &other) noexcept { std::swap(raw_, other.raw_); }
  friend void swap(filter &a, filter &b) noexcept { a.swap(b); }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  /* The filter, for the C calls. */
  tamis_filter *get() const noexcept { return raw_; }
  /* Gives up the filter, which the caller then has to destroy. */
  [[nodiscard]] tamis_filter *release() noexcept { return std::exchange(raw_, nullptr); }

  /* If `out` has a filter, a call that succeeds destroys it, and a call that fails keeps it. */
  [[nodiscard]] static int try_create(const options &wanted, filter &out) noexcept
  {
    return made(out, [&](tamis_filter **raw) { return tamis_create(&wanted.raw(), raw); });
  }
  [[nodiscard]] static int try_load_file(detail::path path, filter &out,
                                         const load_options &how = {}) noexcept
  {
    return made(out, [&](auto raw) { return tamis_load_file(&how.raw(), path.c_str(), raw); });
  }
  [[nodiscard]] static int try_map_file(detail::path path, filter &out,
                                        const load_options &how = {}) noexcept
  {
    return made(out, [&](auto raw) { return tamis_map_file(&how.raw(), path.c_str(), raw); });
  }
  /* A filter that processes share.  Without options, the file must exist. */
  [[nodiscard]] static int try_open_shared(const options &wanted, detail::path path,
                                           filter &out) noexcept
  {
    return made(out, [&](auto raw) { return tamis_open_shared(&wanted.raw(), path.c_str(), raw); });
  }
  [[nodiscard]] static int try_open_shared(detail::path path, filter &out) noexcept
  {
    return made(out, [&](auto raw) { return tamis_open_shared(nullptr, path.c_str(), raw); });
  }
  [[nodiscard]] static int try_open_shared(const options &wanted, int fd, filter &out) noexcept
  {
    return made(out, [&](auto raw) { return tamis_open_shared_fd(&wanted.raw(), fd, raw); });
  }
  [[nodiscard]] static int try_open_shared(int fd, filter &out) noexcept
  {
    return made(out, [&](auto raw) { return tamis_open_shared_fd(nullptr, fd, raw); });
  }
  /* The shared filter is in memory without a name.  Children that are forked later share it. */
  [[nodiscard]] static int try_open_shared(const options &wanted, filter &out) noexcept
  {
    return made(out, [&](auto raw) { return tamis_open_shared(&wanted.raw(), nullptr, raw); });
  }
  /* read(void *data, std::size_t size) returns how many bytes it has put at data: 0 at the end, and
   * less than 0 for a failure.  An exception that it throws is a failure, too. */
  template <typename Read>
  [[nodiscard]] static int try_load(Read &&read, filter &out, const load_options &how = {}) noexcept
  {
    detail::callback back(read);
    return made(out, [&](auto raw) { return tamis_load(&how.raw(), back.read, &back, raw); });
  }
  [[nodiscard]] static int try_intersect(const filter &a, const filter &b, filter &out) noexcept
  {
    return made(out, [&](tamis_filter **raw) { return tamis_intersect(a.raw_, b.raw_, raw); });
  }

#if TAMIS_HPP_THROWS
  /* The error that the constructor throws says why the options are refused. */
  explicit filter(const options &wanted)
  {
    int result = tamis_create(&wanted.raw(), &raw_);
    if (result < 0) {
      std::string why = wanted.why_refused();
      throw error(result, 0, why.empty() ? tamis_strerror(result) : why);
    }
  }
  static filter load_file(detail::path path, const load_options &how = {})
  {
    filter out;
    detail::checked(try_load_file(path, out, how), path.c_str());
    return out;
  }
  static filter map_file(detail::path path, const load_options &how = {})
  {
    filter out;
    detail::checked(try_map_file(path, out, how), path.c_str());
    return out;
  }
  /* With a path, the error that the call throws says why the path or the options are refused. */
  static filter open_shared(const options &wanted, detail::path path)
  {
    return opened(&wanted.raw(), path.c_str());
  }
  static filter open_shared(detail::path path)
  {
    return opened(nullptr, path.c_str());
  }
  static filter open_shared(const options &wanted)
  {
    return opened(&wanted.raw(), nullptr);
  }
  static filter open_shared(const options &wanted, int fd)
  {
    filter out;
    detail::checked(try_open_shared(wanted, fd, out));
    return out;
  }
  static filter open_shared(int fd)
  {
    filter out;
    detail::checked(try_open_shared(fd, out));
    return out;
  }
  /* As try_load, but an exception of `read` reaches the caller. */
  template <typename Read> static filter load(Read &&read, const load_options &how = {})
  {
    filter out;
    detail::callback back(read);
    back.checked(tamis_load(&how.raw(), back.read, &back, &out.raw_));
    return out;
  }
  static filter intersect(const filter &a, const filter &b)
  {
    filter out;
    detail::checked(try_intersect(a, b, out));
    return out;
  }
#endif

  /* ---- one key ---- */

  std::uint64_t hash(const detail::one_key &key) const noexcept
  {
    return key.to(tamis_hash, raw_);
  }
  bool contains(const detail::one_key &key) const noexcept
  {
    return key.to(tamis_contains, raw_);
  }
  bool contains_hash(std::uint64_t hash) const noexcept
  {
    return tamis_contains_hash(raw_, hash);
  }
  std::uint64_t count(const detail::one_key &key) const noexcept
  {
    return key.to(tamis_count, raw_);
  }
  std::uint64_t count_hash(std::uint64_t hash) const noexcept
  {
    return tamis_count_hash(raw_, hash);
  }

  [[nodiscard]] int try_add(const detail::one_key &key) noexcept
  {
    return key.to(tamis_add, raw_);
  }
  [[nodiscard]] int try_add_hash(std::uint64_t hash) noexcept
  {
    return tamis_add_hash(raw_, hash);
  }
  [[nodiscard]] int try_add_unique(const detail::one_key &key) noexcept
  {
    return key.to(tamis_add_unique, raw_);
  }
  [[nodiscard]] int try_add_unique_hash(std::uint64_t hash) noexcept
  {
    return tamis_add_unique_hash(raw_, hash);
  }
  /* In a window: the key is remembered for `periods` further periods. */
  [[nodiscard]] int try_add_for(const detail::one_key &key, unsigned periods) noexcept
  {
    return key.to(detail::for_periods(tamis_add_for, periods), raw_);
  }
  [[nodiscard]] int try_add_for_hash(std::uint64_t hash, unsigned periods) noexcept
  {
    return tamis_add_for_hash(raw_, hash, periods);
  }
  [[nodiscard]] int try_add_unique_for(const detail::one_key &key, unsigned periods) noexcept
  {
    return key.to(detail::for_periods(tamis_add_unique_for, periods), raw_);
  }
  [[nodiscard]] int try_add_unique_for_hash(std::uint64_t hash, unsigned periods) noexcept
  {
    return tamis_add_unique_for_hash(raw_, hash, periods);
  }
  /* Never remove a key that was not added, or more often than it was added: that can take another
   * key away.  For windows, see tamis_remove(3). */
  [[nodiscard]] int try_remove(const detail::one_key &key) noexcept
  {
    return key.to(tamis_remove, raw_);
  }
  [[nodiscard]] int try_remove_hash(std::uint64_t hash) noexcept
  {
    return tamis_remove_hash(raw_, hash);
  }

#if TAMIS_HPP_THROWS
  void add(const detail::one_key &key)
  {
    detail::checked(try_add(key));
  }
  void add_hash(std::uint64_t hash)
  {
    detail::checked(try_add_hash(hash));
  }
  /* Returns true if the key was new and this call added it. */
  bool add_unique(const detail::one_key &key)
  {
    return detail::checked(try_add_unique(key)) == TAMIS_OK;
  }
  bool add_unique_hash(std::uint64_t hash)
  {
    return detail::checked(try_add_unique_hash(hash)) == TAMIS_OK;
  }
  void add_for(const detail::one_key &key, unsigned periods)
  {
    detail::checked(try_add_for(key, periods));
  }
  void add_for_hash(std::uint64_t hash, unsigned periods)
  {
    detail::checked(try_add_for_hash(hash, periods));
  }
  bool add_unique_for(const detail::one_key &key, unsigned periods)
  {
    return detail::checked(try_add_unique_for(key, periods)) == TAMIS_OK;
  }
  bool add_unique_for_hash(std::uint64_t hash, unsigned periods)
  {
    return detail::checked(try_add_unique_for_hash(hash, periods)) == TAMIS_OK;
  }
  /* Returns true if the filter had a copy of the key, which this call removed.  See try_remove. */
  bool remove(const detail::one_key &key)
  {
    return detail::checked(try_remove(key)) == TAMIS_OK;
  }
  bool remove_hash(std::uint64_t hash)
  {
    return detail::checked(try_remove_hash(hash)) == TAMIS_OK;
  }
#endif

  /* ---- batches ----
   * `found`, `counts` and `results` have an element for each key, or none at all.  If they have
   * fewer elements than there are keys, the calls do nothing: look-ups and counts return 0, and
   * adds fail with TAMIS_EINVAL.  A batch may also be integers, each of which is a key. */

  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  std::size_t contains_many(const Keys &keys, span<bool> found = {}) const noexcept
  {
    return sum_of<std::size_t>(tamis_contains_many, keys, found);
  }
  std::size_t contains_many_hash(span<const std::uint64_t> hashes,
                                 span<bool> found = {}) const noexcept
  {
    return fits(hashes, found)
               ? tamis_contains_many_hash(raw_, hashes.data(), hashes.size(), found.data())
               : 0;
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  std::uint64_t count_many(const Keys &keys, span<std::uint64_t> counts = {}) const noexcept
  {
    return sum_of<std::uint64_t>(tamis_count_many, keys, counts);
  }
  std::uint64_t count_many_hash(span<const std::uint64_t> hashes,
                                span<std::uint64_t> counts = {}) const noexcept
  {
    return fits(hashes, counts)
               ? tamis_count_many_hash(raw_, hashes.data(), hashes.size(), counts.data())
               : 0;
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  [[nodiscard]] int try_add_many(const Keys &keys, span<int> results = {}) noexcept
  {
    return first_failure(tamis_add_many, keys, results);
  }
  [[nodiscard]] int try_add_many_hash(span<const std::uint64_t> hashes,
                                      span<int> results = {}) noexcept
  {
    return fits(hashes, results)
               ? tamis_add_many_hash(raw_, hashes.data(), hashes.size(), results.data())
               : TAMIS_EINVAL;
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  [[nodiscard]] int try_add_unique_many(const Keys &keys, span<int> results = {}) noexcept
  {
    return first_failure(tamis_add_unique_many, keys, results);
  }
  [[nodiscard]] int try_add_unique_many_hash(span<const std::uint64_t> hashes,
                                             span<int> results = {}) noexcept
  {
    return fits(hashes, results)
               ? tamis_add_unique_many_hash(raw_, hashes.data(), hashes.size(), results.data())
               : TAMIS_EINVAL;
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  [[nodiscard]] int try_add_for_many(const Keys &keys, unsigned periods,
                                     span<int> results = {}) noexcept
  {
    return first_failure(detail::for_periods(tamis_add_for_many, periods), keys, results);
  }
  [[nodiscard]] int try_add_for_many_hash(span<const std::uint64_t> hashes, unsigned periods,
                                          span<int> results = {}) noexcept
  {
    return fits(hashes, results) ? tamis_add_for_many_hash(raw_, hashes.data(), hashes.size(),
                                                           periods, results.data())
                                 : TAMIS_EINVAL;
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  [[nodiscard]] int try_add_unique_for_many(const Keys &keys, unsigned periods,
                                            span<int> results = {}) noexcept
  {
    return first_failure(detail::for_periods(tamis_add_unique_for_many, periods), keys, results);
  }
  [[nodiscard]] int try_add_unique_for_many_hash(span<const std::uint64_t> hashes, unsigned periods,
                                                 span<int> results = {}) noexcept
  {
    return fits(hashes, results) ? tamis_add_unique_for_many_hash(
                                       raw_, hashes.data(), hashes.size(), periods, results.data())
                                 : TAMIS_EINVAL;
  }

#if TAMIS_HPP_THROWS
  /* If an add is refused, each of the next calls still tries the other keys, and then throws. */
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  void add_many(const Keys &keys, span<int> results = {})
  {
    detail::checked(try_add_many(keys, results));
  }
  void add_many_hash(span<const std::uint64_t> hashes, span<int> results = {})
  {
    detail::checked(try_add_many_hash(hashes, results));
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  void add_unique_many(const Keys &keys, span<int> results = {})
  {
    detail::checked(try_add_unique_many(keys, results));
  }
  void add_unique_many_hash(span<const std::uint64_t> hashes, span<int> results = {})
  {
    detail::checked(try_add_unique_many_hash(hashes, results));
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  void add_for_many(const Keys &keys, unsigned periods, span<int> results = {})
  {
    detail::checked(try_add_for_many(keys, periods, results));
  }
  void add_for_many_hash(span<const std::uint64_t> hashes, unsigned periods, span<int> results = {})
  {
    detail::checked(try_add_for_many_hash(hashes, periods, results));
  }
  template <typename Keys = span<const key>, typename = detail::if_batch<Keys>>
  void add_unique_for_many(const Keys &keys, unsigned periods, span<int> results = {})
  {
    detail::checked(try_add_unique_for_many(keys, periods, results));
  }
  void add_unique_for_many_hash(span<const std::uint64_t> hashes, unsigned periods,
                                span<int> results = {})
  {
    detail::checked(try_add_unique_for_many_hash(hashes, periods, results));
  }
#endif

  /* ---- the whole filter ---- */

  /* The figures of an empty object are those of TAMIS_STATS_INIT. */
  tamis_stats stats() const noexcept
  {
    tamis_stats stats = TAMIS_STATS_INIT;
    tamis_get_stats(raw_, &stats);
    return stats;
  }

  tamis_options made_with() const noexcept
  {
    tamis_options options = TAMIS_OPTIONS_INIT;
    tamis_get_options(raw_, &options);
    return options;
  }

  [[nodiscard]] int try_sync() noexcept
  {
    return tamis_sync(raw_);
  }
  [[nodiscard]] int try_advance() noexcept
  {
    return tamis_advance(raw_);
  }
  [[nodiscard]] int try_advance_to(std::uint64_t period) noexcept
  {
    return tamis_advance_to(raw_, period);
  }
  [[nodiscard]] int try_set_period(std::uint64_t period) noexcept
  {
    return tamis_set_period(raw_, period);
  }
  [[nodiscard]] int try_merge(const filter &from) noexcept
  {
    return tamis_merge(raw_, from.raw_);
  }
  /* Returns false also if the two filters cannot be compared. */
  bool includes(const filter &other) const noexcept
  {
    return tamis_includes(raw_, other.raw_) == TAMIS_OK;
  }
  [[nodiscard]] int try_similarity(const filter &other, tamis_similarity_stats &out) const noexcept
  {
    return tamis_similarity(raw_, other.raw_, &out);
  }

  [[nodiscard]] int try_save_file(detail::path path,
                                  const tamis_file_access *access = nullptr) const noexcept
  {
    return tamis_save_file_as(raw_, path.c_str(), access);
  }
  /* write(const void *data, std::size_t size) takes all of the bytes.  It returns void, or a bool
   * that is false after a failure.  An exception that it throws is a failure, too. */
  template <typename Write> [[nodiscard]] int try_save(Write &&write) const noexcept
  {
    detail::callback back(write);
    return tamis_save(raw_, back.write, &back);
  }
  /* Passes the figures as text to a function like that of try_save.  `name` may be NULL. */
  template <typename Write>
  [[nodiscard]] int try_stats_text(tamis_text_format format, const char *name,
                                   Write &&write) const noexcept
  {
    detail::callback back(write);
    return tamis_stats_text(raw_, format, name, back.write, &back);
  }

#if TAMIS_HPP_THROWS
  void sync()
  {
    detail::checked(try_sync());
  }
  void advance()
  {
    detail::checked(try_advance());
  }
  void advance_to(std::uint64_t period)
  {
    detail::checked(try_advance_to(period));
  }
  void set_period(std::uint64_t period)
  {
    detail::checked(try_set_period(period));
  }
  void merge(const filter &from)
  {
    detail::checked(try_merge(from));
  }
  tamis_similarity_stats similarity(const filter &other) const
  {
    tamis_similarity_stats stats = TAMIS_SIMILARITY_STATS_INIT;
    detail::checked(try_similarity(other, stats));
    return stats;
  }
  void save_file(detail::path path, const tamis_file_access *access = nullptr) const
  {
    detail::checked(try_save_file(path, access), path.c_str());
  }
  /* As try_save, but an exception of `write` reaches the caller. */
  template <typename Write> void save(Write &&write) const
  {
    detail::callback back(write);
    back.checked(tamis_save(raw_, back.write, &back));
  }
  std::string stats_text(tamis_text_format format, const char *name = nullptr) const
  {
    std::string text;
    detail::appender append{text};
    detail::callback back(append);
    back.checked(tamis_stats_text(raw_, format, name, back.write, &back));
    return text;
  }
#endif

private:
#if TAMIS_HPP_THROWS
  static filter opened(const tamis_options *wanted, const char *path)
  {
    filter out;
    int result = tamis_open_shared(wanted, path, &out.raw_);
    if (result == TAMIS_OK)
      return out;
    int number = result == TAMIS_EIO ? errno : 0;
    char why[512];
    if (tamis_shared_check(wanted, path, why, sizeof why) == result)
      throw error(result, number, why);
    errno = number;
    detail::fail(result, path);
  }
#endif
  template <typename Call> static int made(filter &out, Call call) noexcept
  {
    tamis_filter *raw = nullptr;
    int result = call(&raw);
    if (result == TAMIS_OK)
      filter(raw).swap(out);
    return result;
  }
  template <typename Key, typename Value>
  static bool fits(span<Key> keys, span<Value> values) noexcept
  {
    return values.data() == nullptr || values.size() >= keys.size();
  }

  /* Calls `call` with the keys and the places of their values.  Makes keys of integers on the
   * stack, up to 64 for a call.  Returns false, without a call, if a value has no place. */
  template <typename Keys, typename Value, typename Call>
  static bool by_pieces(const Keys &from, span<Value> values, Call call) noexcept
  {
    if constexpr (std::is_convertible_v<const Keys &, span<const key>>) {
      span<const key> keys(from);
      return fits(keys, values) && (call(keys.data(), keys.size(), values.data()), true);
    } else {
      std::uint64_t numbers[64];
      key keys[64];
      span integers(std::data(from), std::size(from));
      if (!fits(integers, values))
        return false;
      std::size_t at = 0;
      do {
        std::size_t n = 0;
        for (; n < 64 && at + n < integers.size(); n++) {
          numbers[n] = detail::number_of(integers.data()[at + n]);
          keys[n] = {&numbers[n], sizeof numbers[n]};
        }
        call(static_cast<const key *>(keys), n, values.data() ? values.data() + at : nullptr);
        at += n;
      } while (at < integers.size());
      return true;
    }
  }
  template <typename Sum, typename Call, typename Keys, typename Value>
  Sum sum_of(Call many, const Keys &from, span<Value> values) const noexcept
  {
    Sum sum = 0;
    by_pieces(from, values, [&](const key *keys, std::size_t n, Value *of_these) {
      sum += many(raw_, keys, n, of_these);
    });
    return sum;
  }
  template <typename Call, typename Keys>
  int first_failure(Call many, const Keys &from, span<int> results) noexcept
  {
    int first = TAMIS_OK;
    bool fit = by_pieces(from, results, [&](const key *keys, std::size_t n, int *of_these) {
      int result = many(raw_, keys, n, of_these);
      first = first == TAMIS_OK ? result : first;
    });
    return fit ? first : TAMIS_EINVAL;
  }

  tamis_filter *raw_ = nullptr;
};

/* Passes the figures of several filters as one text to a function like that of filter::try_save. */
template <typename Write>
[[nodiscard]] int try_stats_text_many(span<const tamis_filter *const> filters,
                                      span<const char *const> names, tamis_text_format format,
                                      Write &&write) noexcept
{
  if (names.data() != nullptr && names.size() < filters.size())
    return TAMIS_EINVAL;
  detail::callback back(write);
  return tamis_stats_text_many(filters.data(), names.data(), filters.size(), format, back.write,
                               &back);
}

/* As tamis_contains_each: which filters may hold a key.  Returns 0 if `found` is too short. */
inline std::size_t contains_each(span<const tamis_filter *const> filters, const key &key,
                                 span<bool> found = {}) noexcept
{
  const bool fits = found.data() == nullptr || found.size() >= filters.size();
  return tamis_contains_each(filters.data(), fits ? filters.size() : 0, key.data, key.len,
                             found.data());
}

/* The figures of a saved filter, which a function like that of filter::try_load reads. */
template <typename Read> [[nodiscard]] int try_saved_info(Read &&read, tamis_stats &out) noexcept
{
  detail::callback back(read);
  return tamis_saved_info(back.read, &back, &out);
}

#if TAMIS_HPP_THROWS
/* A page of several filters for Prometheus, or an array of objects in JSON. */
inline std::string stats_text_many(span<const tamis_filter *const> filters,
                                   span<const char *const> names, tamis_text_format format)
{
  if (names.data() != nullptr && names.size() < filters.size())
    detail::fail(TAMIS_EINVAL);
  std::string text;
  detail::appender append{text};
  detail::callback back(append);
  back.checked(tamis_stats_text_many(filters.data(), names.data(), filters.size(), format,
                                     back.write, &back));
  return text;
}

template <typename Read> tamis_stats saved_info(Read &&read)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  detail::callback back(read);
  back.checked(tamis_saved_info(back.read, &back, &stats));
  return stats;
}
#endif

} // namespace tamis

#undef TAMIS_HPP_THROWS
#endif /* TAMIS_HPP */
