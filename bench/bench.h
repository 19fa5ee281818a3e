/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks have in common.  A subject is a filter or a set; each of its workloads is a
 * benchmark of Google's library, which repeats it, in turns with the others, and takes the time.  An
 * iteration is one call, or one key of a batch.  Each workload checks its answers.
 */
#ifndef TAMIS_BENCH_H
#define TAMIS_BENCH_H

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/* ---- what the command line says (bench.cpp) ---- */

struct flags {
  double calls = 0; /* of a repetition; 0: those of the time that Google's options say */
  std::vector<double> keys{1e6}, fpp{0.01}, threads{1, 2};
  uint64_t from = 10000; /* the capacity of filters that grow */
  uint64_t filters = 64; /* for tamis_contains_each */
  bool hot = false;      /* which then looks up one key all the time */
  bool cpu_time = false; /* of single calls: the time on a core, instead of the time that passes */
  std::string library;   /* a path of libtamis.so */
  std::string other;     /* another one, whose subjects are other-...; "": none */
  std::string times;     /* a folder for the times of single calls; "": none */
  std::string directory = "/dev/shm"; /* for files */
};
extern struct flags flags;

void add_tamis(const std::string &prefix, const std::string &library);
void add_peers();

/* ---- keys ---- */

/* The i-th key.  The function is a bijection, cheap, and random enough for tables that use keys as
 * hashes.  Its constants are odd and have about as many ones as zeros; the first is 2^64 over the
 * golden ratio. */
inline uint64_t key_at(uint64_t i)
{
  uint64_t x = i * UINT64_C(0x9E3779B97F4A7C15);
  x ^= x >> 32;
  return x * UINT64_C(0xD6E8FEB86659FD93);
}

constexpr uint64_t ABSENT = UINT64_C(1) << 40; /* from here on, keys are never added */
constexpr int BATCH = 64;

/* A thread's share of n keys, again and again. */
class share
{
public:
  share(const benchmark::State &s, uint64_t n, uint64_t first = 0)
      : count_(n / static_cast<uint64_t>(s.threads())),
        begin_(first + count_ * static_cast<uint64_t>(s.thread_index())), at_(begin_)
  {
  }
  uint64_t next()
  {
    const uint64_t i = at_++;
    if (at_ == begin_ + count_)
      at_ = begin_;
    return key_at(i);
  }

private:
  uint64_t count_, begin_, at_;
};

/* ---- subjects, and what is done with them ---- */

struct size {
  std::string subject;
  uint64_t keys, capacity; /* how many are added, and for how many it is created */
  double fpp;
};

template <class Subject> struct workload {
  const char *name;
  uint64_t (*run)(benchmark::State &s, Subject &f, const size &z); /* returns wrong answers */
  double filled; /* the part of the keys that is in before */
  bool changes;  /* each repetition has a new filter, and as many iterations as there are keys */
  bool files = false; /* an iteration is no call, but a file */
};

template <class S> uint64_t insert(benchmark::State &s, S &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0;
  for (auto _ : s)
    wrong += !f.add(keys.next());
  return wrong;
}

template <class S> uint64_t hit(benchmark::State &s, S &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0;
  for (auto _ : s)
    wrong += !f.contains(keys.next());
  return wrong;
}

/* At twice the rate, and some more, false positives are wrong. */
inline uint64_t too_many(uint64_t found, const benchmark::State &s, const size &z)
{
  return static_cast<double>(found) > 2 * z.fpp * static_cast<double>(s.iterations()) + 50 ? found
                                                                                           : 0;
}

template <class S> uint64_t miss(benchmark::State &s, S &f, const size &z)
{
  share keys(s, UINT64_C(1) << 30, ABSENT);
  uint64_t found = 0;
  for (auto _ : s)
    found += f.contains(keys.next());
  return too_many(found, s, z);
}

template <class S> uint64_t remove(benchmark::State &s, S &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0;
  for (auto _ : s)
    wrong += !f.remove(keys.next());
  return wrong;
}

/* From half full: of ten calls, five look up keys that are in, `ADDS` add keys, and the others look up
 * absent keys. */
template <int ADDS, class S> uint64_t mix(benchmark::State &s, S &f, const size &z)
{
  share in(s, z.keys / 2), fresh(s, z.keys / 2, z.keys / 2), absent(s, UINT64_C(1) << 30, ABSENT);
  uint64_t wrong = 0, found = 0;
  int at = 0;
  for (auto _ : s) {
    if (at % 2 == 1)
      wrong += !f.contains(in.next());
    else if (at < 2 * ADDS)
      wrong += !f.add(fresh.next());
    else
      found += f.contains(absent.next());
    at = at == 9 ? 0 : at + 1;
  }
  benchmark::DoNotOptimize(found);
  return wrong;
}

/* Adds keys, and keeps the time of each call. */
void keep_times(benchmark::State &s, const std::string &subject, std::vector<uint32_t> &times);
uint64_t nanoseconds();

template <class S> uint64_t grow(benchmark::State &s, S &f, const size &z)
{
  std::vector<uint32_t> times(z.keys);
  uint64_t wrong = 0, i = 0, before = nanoseconds();
  for (auto _ : s) {
    wrong += !f.add(key_at(i));
    const uint64_t after = nanoseconds();
    times[i++] = static_cast<uint32_t>(after - before);
    before = after;
  }
  keep_times(s, z.subject, times);
  return wrong;
}

/* What every subject can do. */
template <class S> std::vector<workload<S>> usual_workloads()
{
  return {{"insert", insert<S>, 0, true},
          {"hit", hit<S>, 1, false},
          {"miss", miss<S>, 1, false},
          {"mix", mix<1, S>, 0.5, true},
          {"half", mix<5, S>, 0.5, true}};
}

/* ---- registration ---- */

/* Where the threads of a benchmark meet: the first one makes the filter, and fills it. */
template <class S> class place
{
public:
  template <class Make> S &enter(Make make, const size &z, double filled)
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!subject_) {
      subject_ = make(z);
      for (uint64_t i = 0; i < static_cast<uint64_t>(filled * static_cast<double>(z.keys)); i++)
        subject_->add(key_at(i));
    }
    users_++;
    return *subject_;
  }
  void leave(bool done)
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--users_ == 0 && done)
      subject_.reset();
  }

private:
  std::mutex mutex_;
  std::unique_ptr<S> subject_;
  unsigned users_ = 0;
};

/* Keeps the calling thread on a core. */
void pin(int thread);
/* SUBJECT/WORKLOAD/keys:N/fpp:P */
std::string name_of(const char *workload, const size &z);

template <class S, class Make>
void add_workload(const workload<S> &w, const size &z, int threads,
                  const std::shared_ptr<place<S>> &at, Make make)
{
  auto *b = benchmark::RegisterBenchmark(name_of(w.name, z).c_str(), [=](benchmark::State &s) {
    pin(s.thread_index());
    S &f = at->enter(make, z, w.filled);
    const uint64_t wrong = w.run(s, f, z);
    if (wrong)
      s.SkipWithError((std::to_string(wrong) + " wrong answers").c_str());
    at->leave(w.changes);
  });
  b->UseRealTime()->Threads(threads);
  if (w.changes || (flags.calls > 0 && !w.files))
    b->Iterations(static_cast<benchmark::IterationCount>(w.changes ? z.keys : flags.calls) /
                  threads);
}

/* How many keys the subject is created for. */
enum class capacity { RIGHT, SMALL };
enum class threads { ONE, MANY };

/* Each workload of a subject, for each number of keys, rate and number of threads of the flags.  `make`
 * makes the subject for a size, or, as can(), says whether it can be made. */
template <class S, class Make>
void add_subject(const std::string &subject, const std::vector<workload<S>> &workloads, Make make,
                 threads most = threads::MANY, capacity created = capacity::RIGHT)
{
  for (const double keys : flags.keys)
    for (const double fpp : flags.fpp) {
      const auto n = static_cast<uint64_t>(keys);
      const size z{subject, n, created == capacity::SMALL ? flags.from : n, fpp};
      const auto full = std::make_shared<place<S>>();
      for (const auto &w : workloads)
        for (const double count : flags.threads)
          if (make.can(z) && (count == 1 || most == threads::MANY))
            add_workload(w, z, static_cast<int>(count),
                         w.changes ? std::make_shared<place<S>>() : full, make);
    }
}

/* The time of each call, while the subject grows. */
template <class S, class Make> void add_growth(const std::string &subject, Make make)
{
  add_subject<S>(subject, {{"grow", grow<S>, 0, true}}, make, threads::ONE, capacity::SMALL);
}

#endif
