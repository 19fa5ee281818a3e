/* SPDX-License-Identifier: MIT
 *
 * The same work by the calls of tamis.h (WAY 0), by those of tamis.hpp that return results (1), and
 * by those that throw (2).  check_cxx_cost.sh counts the instructions of work().
 */
#include <tamis/tamis.hpp>

#include <cstdio>
#include <cstdlib>

#define APART __attribute__((noinline)) // so that loops do not share registers
#if WAY == 1
#define CALL(name, ...) checked(filter.try_##name(__VA_ARGS__))
#else
#define CALL(name, ...) filter.name(__VA_ARGS__)
#endif

namespace
{

constexpr std::size_t keys = 2000, batch_size = 64;
char texts[keys][16];
std::size_t lengths[keys];
bool found[batch_size];

#if WAY < 2
/* What a program does that does not go on after a failure, as one that lets exceptions end it. */
inline int checked(int result)
{
  if (result < 0)
    std::abort();
  return result;
}
#endif

#if WAY == 0
tamis_filter *filter;
tamis_key batch[batch_size];

APART void create(tamis_kind kind)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = keys, options.kind = kind, options.fpp = 0.001, options.seed = 1;
  checked(tamis_create(&options, &filter));
}
APART void add()
{
  for (std::size_t i = 0; i < keys; i++)
    checked(tamis_add(filter, texts[i], lengths[i]));
}
APART std::size_t add_unique()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += checked(tamis_add_unique(filter, texts[i], lengths[i])) == TAMIS_OK;
  return sum;
}
APART std::size_t contains()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += tamis_contains(filter, texts[i], lengths[i]);
  return sum;
}
APART std::size_t contains_hash()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += tamis_contains_hash(filter, tamis_hash(filter, texts[i], lengths[i]));
  return sum;
}
APART std::size_t contains_many()
{
  for (std::size_t i = 0; i < batch_size; i++)
    batch[i].data = texts[i], batch[i].len = lengths[i];
  return tamis_contains_many(filter, batch, batch_size, found);
}
APART std::size_t integers()
{
  std::size_t sum = 0;
  for (int i = 0; i < static_cast<int>(keys); i++) {
    auto bytes = static_cast<std::uint64_t>(i);
    sum += tamis_contains(filter, &bytes, sizeof bytes);
  }
  return sum;
}
APART std::size_t remove()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += checked(tamis_remove(filter, texts[i], lengths[i])) == TAMIS_OK;
  return sum;
}
APART void destroy()
{
  tamis_destroy(filter);
}

#else
tamis::filter filter;
tamis::key batch[batch_size];

APART void create(tamis_kind kind)
{
  tamis::options options(keys);
  options.kind(kind).fpp(0.001).seed(1);
#if WAY == 1
  checked(tamis::filter::try_create(options, filter));
#else
  filter = tamis::filter(options);
#endif
}
APART void add()
{
  for (std::size_t i = 0; i < keys; i++)
    CALL(add, {texts[i], lengths[i]});
}
APART std::size_t add_unique()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
#if WAY == 1
    sum += CALL(add_unique, {texts[i], lengths[i]}) == TAMIS_OK;
#else
    sum += CALL(add_unique, {texts[i], lengths[i]});
#endif
  return sum;
}
APART std::size_t contains()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += filter.contains({texts[i], lengths[i]});
  return sum;
}
APART std::size_t contains_hash()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
    sum += filter.contains_hash(filter.hash({texts[i], lengths[i]}));
  return sum;
}
APART std::size_t contains_many()
{
  for (std::size_t i = 0; i < batch_size; i++)
    batch[i] = {texts[i], lengths[i]};
  return filter.contains_many(batch, found);
}
APART std::size_t integers()
{
  std::size_t sum = 0;
  for (int i = 0; i < static_cast<int>(keys); i++)
    sum += filter.contains(i);
  return sum;
}
APART std::size_t remove()
{
  std::size_t sum = 0;
  for (std::size_t i = 0; i < keys; i++)
#if WAY == 1
    sum += CALL(remove, {texts[i], lengths[i]}) == TAMIS_OK;
#else
    sum += CALL(remove, {texts[i], lengths[i]});
#endif
  return sum;
}
APART void destroy()
{
  filter = tamis::filter();
}
#endif

} // namespace

extern "C" APART std::size_t work(tamis_kind kind)
{
  create(kind);
  add();
  std::size_t sum = add_unique() + contains() + contains_hash() + contains_many() + integers();
  if (kind == TAMIS_CUCKOO)
    sum += remove();
  destroy();
  return sum;
}

int main()
{
  for (std::size_t i = 0; i < keys; i++)
    lengths[i] = static_cast<std::size_t>(std::sprintf(texts[i], "key %zu", i));
  std::size_t sum = work(TAMIS_BLOOM) + work(TAMIS_CUCKOO);
  std::printf("%zu\n", sum);
}
