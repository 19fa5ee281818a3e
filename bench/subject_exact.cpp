/* SPDX-License-Identifier: MIT
 *
 * Exact sets, which can replace a filter: Debian's libcuckoo, a well-known concurrent hash table,
 * and the standard library's set behind a mutex.
 */
#include "subject.h"

#include <libcuckoo/cuckoohash_map.hh>
#include <mutex>
#include <unordered_set>

namespace
{

using table = libcuckoo::cuckoohash_map<uint64_t, bool>;

struct cuckoo_table {
  table all;
  explicit cuckoo_table(size_t capacity) : all(capacity) {}
  bool add(uint64_t key) { return all.insert(key, true); }
  bool contains(uint64_t key) const { return all.contains(key); }
  bool remove(uint64_t key) { return all.erase(key); }
};

struct locked_set {
  std::unordered_set<uint64_t> all;
  mutable std::mutex mutex;
  explicit locked_set(size_t capacity) { all.reserve(capacity); }
  bool add(uint64_t key)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    return all.insert(key).second;
  }
  bool contains(uint64_t key) const
  {
    const std::lock_guard<std::mutex> lock(mutex);
    return all.count(key) != 0;
  }
  bool remove(uint64_t key)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    return all.erase(key) != 0;
  }
};

/* The constructors fault in all pages that they allocate.  (The standard set allocates nodes
 * later.) */
template <class Set> void *create(const subject *, const spec *spec)
{
  return new Set(spec->capacity);
}

template <class Set> void destroy(const subject *, void *state)
{
  delete static_cast<Set *>(state);
}

template <class Set> uint64_t run(const subject *, void *state, enum call call, const span *span)
{
  Set &set = *static_cast<Set *>(state);
  uint64_t yes = 0;
  switch (call) {
  case CALL_CONTAINS:
  case CALL_CONTAINS_BYTES:
    EACH_KEY(span, key, yes += set.contains(key));
    break;
  case CALL_REMOVE:
    EACH_KEY(span, key, yes += set.remove(key));
    break;
  case CALL_MIX:
    for (uint64_t i = 0; i < span->count; i++) {
      const uint64_t key = mix_key(span, i);
      yes += mix_adds(i) ? set.add(key) : set.contains(key);
    }
    break;
  default:
    EACH_KEY(span, key, yes += set.add(key));
  }
  return yes;
}

template <class Set> constexpr subject subject_of(const char *name, const char *what)
{
  return {name,
          what,
          1U << CALL_ADD | 1U << CALL_ADD_UNIQUE | 1U << CALL_CONTAINS | 1U << CALL_REMOVE |
              1U << CALL_ADD_BYTES | 1U << CALL_CONTAINS_BYTES | 1U << CALL_MIX,
          true,
          true,
          false,
          create<Set>,
          destroy<Set>,
          run<Set>,
          nullptr,
          nullptr,
          nullptr};
}

const subject libcuckoo_subject =
    subject_of<cuckoo_table>("libcuckoo", "Debian's libcuckoo as an exact set");
const subject set_subject =
    subject_of<locked_set>("set-mutex", "std::unordered_set behind a mutex");

} // namespace

const subject *const exact_subjects[] = {&libcuckoo_subject, &set_subject, nullptr};
