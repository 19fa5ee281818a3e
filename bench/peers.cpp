/* SPDX-License-Identifier: MIT
 *
 * What the library is compared with: Debian's libbloom, a Bloom filter for one thread, by itself and
 * behind a lock; exact sets, which can replace a filter: Debian's libcuckoo, a well-known concurrent
 * hash table, and the standard library's set behind a mutex; and operations of the machine that no
 * filter can do without.
 */
#include "bench.h"

#include <bloom.h>
#include <libcuckoo/cuckoohash_map.hh>

#include <atomic>
#include <climits>
#include <error.h>
#include <shared_mutex>
#include <unordered_set>

namespace
{

/* ---- libbloom ---- */

struct no_lock {
  void lock() {}
  void unlock() {}
  void lock_shared() {}
  void unlock_shared() {}
};
struct mutex : std::mutex {
  void lock_shared() { lock(); }
  void unlock_shared() { unlock(); }
};

template <class Lock> struct libbloom {
  ::bloom bloom{};
  mutable Lock lock;

  explicit libbloom(const size &z)
  {
    if (z.capacity > INT_MAX || bloom_init(&bloom, static_cast<int>(z.capacity), z.fpp))
      error(2, 0, "libbloom: cannot be created");
  }
  ~libbloom() { bloom_free(&bloom); }
  bool add(uint64_t key)
  {
    const std::lock_guard<Lock> held(lock);
    bloom_add(&bloom, &key, sizeof key);
    return true; /* also where a false positive hides the key */
  }
  bool contains(uint64_t key) const
  {
    const std::shared_lock<Lock> held(lock);
    return bloom_check(const_cast<::bloom *>(&bloom), &key, sizeof key) == 1;
  }
};

/* ---- exact sets ---- */

struct libcuckoo_set {
  libcuckoo::cuckoohash_map<uint64_t, bool> all;

  explicit libcuckoo_set(const size &z) : all(z.capacity) {}
  bool add(uint64_t key) { return all.insert(key, true); }
  bool contains(uint64_t key) const { return all.contains(key); }
};

struct locked_set {
  std::unordered_set<uint64_t> all;
  mutable std::mutex lock;

  explicit locked_set(const size &z) { all.reserve(z.capacity); }
  bool add(uint64_t key)
  {
    const std::lock_guard<std::mutex> held(lock);
    return all.insert(key).second;
  }
  bool contains(uint64_t key) const
  {
    const std::lock_guard<std::mutex> held(lock);
    return all.count(key) != 0;
  }
};

template <class S> struct maker {
  bool can(const size &) const { return true; }
  std::unique_ptr<S> operator()(const size &z) const { return std::make_unique<S>(z); }
};

template <class S> void add_peer(const char *name, threads most = threads::MANY)
{
  add_subject<S>(name, usual_workloads<S>(), maker<S>{}, most);
}

/* ---- the machine ---- */

/* An array of 10 bits a key, which is what a Bloom filter takes at 1 %. */
struct array {
  std::vector<std::atomic<uint64_t>> words;

  explicit array(const size &z) : words(z.keys * 10 / 64 + 1) {}
  bool add(uint64_t) { return true; }
  std::atomic<uint64_t> &word(uint64_t key)
  {
    return words[static_cast<uint64_t>((static_cast<unsigned __int128>(key) * words.size()) >> 64)];
  }
};

uint64_t nothing(array &, uint64_t key)
{
  return key;
}

uint64_t read(array &a, uint64_t key)
{
  return a.word(key).load(std::memory_order_relaxed);
}

template <int ORS> uint64_t ors(array &a, uint64_t key)
{
  uint64_t old = 0;
  for (int i = 0; i < ORS; i++)
    old += a.word(key).fetch_or(UINT64_C(1) << (key >> 6 * i & 63), std::memory_order_relaxed);
  return old;
}

/* Calls a function through a pointer, as the library's are called. */
template <uint64_t (*FUNCTION)(array &, uint64_t)>
uint64_t call(benchmark::State &s, array &a, const size &z)
{
  uint64_t (*pointer)(array &, uint64_t) = FUNCTION;
  benchmark::DoNotOptimize(pointer);
  share keys(s, z.keys);
  uint64_t sum = 0;
  for (auto _ : s)
    sum += pointer(a, keys.next());
  benchmark::DoNotOptimize(sum);
  return 0;
}

} // namespace

void add_peers()
{
  add_peer<libbloom<no_lock>>("libbloom", threads::ONE);
  add_peer<libbloom<mutex>>("libbloom-mutex");
  add_peer<libbloom<std::shared_mutex>>("libbloom-rwlock");
  add_peer<libcuckoo_set>("libcuckoo");
  add_growth<libcuckoo_set>("libcuckoo", maker<libcuckoo_set>{});
  add_peer<locked_set>("set-mutex");
  add_growth<locked_set>("set-mutex", maker<locked_set>{});
  add_subject<array>("machine",
                     {{"call", call<nothing>, 0, false},
                      {"read", call<read>, 0, false},
                      {"or", call<ors<1>>, 0, false},
                      {"two-ors", call<ors<2>>, 0, false},
                      {"three-ors", call<ors<3>>, 0, false}},
                     maker<array>{});
}
