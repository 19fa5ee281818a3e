/* SPDX-License-Identifier: MIT
 *
 * The same work by the calls of tamis.h (WAY 0), by those of tamis.hpp that return results (1), and
 * by those that throw (2).  check_cxx_cost.sh counts the instructions of work().
 */
#include <tamis/tamis.hpp>

#include <cstdio>
#include <cstdlib>

#define APART __attribute__((noinline)) // so that loops do not share registers

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

#define KEY(i) texts[i], lengths[i]

#if WAY == 0
tamis_filter *filter;
tamis_key batch[batch_size];
#define ADD(i) checked(tamis_add(filter, KEY(i)))
#define ADD_UNIQUE(i) (checked(tamis_add_unique(filter, KEY(i))) == TAMIS_OK)
#define REMOVE(i) (checked(tamis_remove(filter, KEY(i))) == TAMIS_OK)
#define CONTAINS(i) tamis_contains(filter, KEY(i))
#define CONTAINS_HASH(i) tamis_contains_hash(filter, tamis_hash(filter, KEY(i)))
#define CONTAINS_MANY() tamis_contains_many(filter, batch, batch_size, found)
#define PUT(i) batch[i].data = texts[i], batch[i].len = lengths[i]
#define DESTROY() tamis_destroy(filter)
inline bool contains_integer(int i)
{
  auto bytes = static_cast<std::uint64_t>(i);
  return tamis_contains(filter, &bytes, sizeof bytes);
}
APART void create(tamis_kind kind)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = keys, options.kind = kind, options.fpp = 0.001, options.seed = 1;
  checked(tamis_create(&options, &filter));
}

#else
tamis::filter filter;
tamis::key batch[batch_size];
#if WAY == 1
#define ADD(i) checked(filter.try_add({KEY(i)}))
#define ADD_UNIQUE(i) (checked(filter.try_add_unique({KEY(i)})) == TAMIS_OK)
#define REMOVE(i) (checked(filter.try_remove({KEY(i)})) == TAMIS_OK)
#else
#define ADD(i) filter.add({KEY(i)})
#define ADD_UNIQUE(i) filter.add_unique({KEY(i)})
#define REMOVE(i) filter.remove({KEY(i)})
#endif
#define CONTAINS(i) filter.contains({KEY(i)})
#define CONTAINS_HASH(i) filter.contains_hash(filter.hash({KEY(i)}))
#define CONTAINS_MANY() filter.contains_many(batch, found)
#define PUT(i) batch[i] = {KEY(i)}
#define DESTROY() filter = tamis::filter()
inline bool contains_integer(int i)
{
  return filter.contains(i);
}
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
#endif

APART void add()
{
  for (std::size_t i = 0; i < keys; i++)
    ADD(i);
}

#define LOOP(name, call)                   \
  APART std::size_t name()                 \
  {                                        \
    std::size_t sum = 0;                   \
    for (std::size_t i = 0; i < keys; i++) \
      sum += call;                         \
    return sum;                            \
  }
LOOP(add_unique, ADD_UNIQUE(i))
LOOP(contains, CONTAINS(i))
LOOP(contains_hash, CONTAINS_HASH(i))
LOOP(integers, contains_integer(static_cast<int>(i)))
LOOP(remove, REMOVE(i))

APART std::size_t contains_many()
{
  for (std::size_t i = 0; i < batch_size; i++)
    PUT(i);
  return CONTAINS_MANY();
}

} // namespace

extern "C" APART std::size_t work(tamis_kind kind)
{
  create(kind);
  add();
  std::size_t sum = add_unique() + contains() + contains_hash() + contains_many() + integers();
  if (kind == TAMIS_CUCKOO)
    sum += remove();
  DESTROY();
  return sum;
}

int main()
{
  for (std::size_t i = 0; i < keys; i++)
    lengths[i] = static_cast<std::size_t>(std::sprintf(texts[i], "key %zu", i));
  std::size_t sum = work(TAMIS_BLOOM) + work(TAMIS_CUCKOO);
  std::printf("%zu\n", sum);
}
