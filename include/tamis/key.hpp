/* SPDX-License-Identifier: MIT
 *
 * A part of tamis.hpp, which includes it: spans, and the types of keys.
 */
#ifndef TAMIS_KEY_HPP
#define TAMIS_KEY_HPP

#include <tamis/tamis.h>

#include <cstddef>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tamis
{

/* Consecutive elements, as in std::span.  Arrays convert to a span, and so does each object with
 * data() and size(), such as std::vector, std::array and std::span.  (span is one type in C++17 and
 * in C++20, so object files compiled for both can be linked together.) */
template <typename T> class span
{
public:
  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <typename Row,
            typename = std::enable_if_t<std::is_convertible_v<
                std::remove_pointer_t<decltype(std::declval<Row &>().data())> (*)[], T (*)[]>>,
            typename = decltype(std::declval<Row &>().size())>
  constexpr span(Row &&row) noexcept : data_(row.data()), size_(row.size())
  {
  }

  /* NULL if the span is empty, as the data() of a cleared std::vector need not be. */
  constexpr T *data() const noexcept { return size_ ? data_ : nullptr; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail
{

template <typename T, typename... Ts>
inline constexpr bool is_one_of = std::disjunction_v<std::is_same<T, Ts>...>;
template <typename T> inline constexpr bool is_char8 = false;
#ifdef __cpp_char8_t
template <> inline constexpr bool is_char8<char8_t> = true;
#endif
template <typename T>
inline constexpr bool is_byte =
    is_one_of<T, char, signed char, unsigned char, std::byte> || is_char8<T>;
/* Whether a value of type T is an integer key. */
template <typename T>
inline constexpr bool is_integer =
    is_one_of<T, signed char, unsigned char, short, unsigned short, int, unsigned, long,
              unsigned long, long long, unsigned long long>;

/* The type of the elements of an array, or of an object with data() and size(); else void. */
template <typename Row, typename = void> struct element {
  using type = void;
};
template <typename Row>
struct element<Row, std::void_t<decltype(std::data(std::declval<const Row &>())),
                                decltype(std::size(std::declval<const Row &>()))>> {
  using type =
      std::remove_const_t<std::remove_pointer_t<decltype(std::data(std::declval<const Row &>()))>>;
};
template <typename Row> using element_t = typename element<Row>::type;

/* The head of tamis.hpp says which types are text, and which are bytes. */
template <typename T>
inline constexpr bool is_text =
    std::is_convertible_v<const T &, std::string_view> && !std::is_same_v<T, std::nullptr_t>;
template <typename T>
inline constexpr bool is_text_of_char8 = /* a pointer, or an array */
    std::is_convertible_v<const T &, const void *>
        &&is_char8<std::remove_const_t<std::remove_pointer_t<std::decay_t<T>>>>;
template <typename T> inline constexpr bool is_bytes = is_byte<element_t<T>>;

template <typename T> constexpr tamis_key key_of(const T &from)
{
  if constexpr (is_text<T>) {
    std::string_view text = from;
    return {text.data(), text.size()};
  } else if constexpr (is_text_of_char8<T>) {
    std::size_t size = 0;
    while (from[size] != 0)
      size++;
    return {from, size};
  } else {
    return {std::data(from), std::size(from)};
  }
}

} // namespace detail

/* A key of a batch: a tamis_key that is made from text, or from bytes, which are not copied. */
struct key : tamis_key {
  key() = default;
  constexpr key(const void *bytes, std::size_t size) noexcept : tamis_key{bytes, size} {}
  template <typename T,
            typename = std::enable_if_t<detail::is_text<T> || detail::is_text_of_char8<T> ||
                                        detail::is_bytes<T>>>
  constexpr key(const T &from) : tamis_key(detail::key_of(from))
  {
  }
};
static_assert(sizeof(key) == sizeof(tamis_key) && std::is_standard_layout_v<key>,
              "an array of keys is an array of tamis_key");

} // namespace tamis

#endif /* TAMIS_KEY_HPP */
