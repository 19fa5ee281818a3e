/* SPDX-License-Identifier: MIT
 *
 * Filters of this library, in one or two of its builds.  Both are loaded at run time and called in the
 * same manner, so that nothing else differs.
 */
#include "tamis/tamis.h"
#include "bench.h"

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <error.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

/* ---- a library ---- */

#define EACH_FUNCTION(f)                                                                        \
  f(create) f(destroy) f(options_check) f(open_shared_fd) f(add) f(add_hash) f(add_unique_hash) \
      f(add_many_hash) f(contains) f(contains_hash) f(contains_many_hash) f(contains_each)      \
          f(remove_hash) f(save) f(load_file) f(strerror)

struct library {
  void *handle;
#define MEMBER(name) decltype(&tamis_##name) name;
  EACH_FUNCTION(MEMBER)

  template <class Function> void find(Function &function, const char *name)
  {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function)
      error(2, 0, "%s", dlerror());
  }
  explicit library(const std::string &path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
  {
    if (!handle)
      error(2, 0, "%s", dlerror());
#define LOOK_UP(name) find(name, "tamis_" #name);
    EACH_FUNCTION(LOOK_UP)
  }
  void check(int result) const
  {
    if (result != TAMIS_OK)
      error(2, 0, "%s", strerror(result));
  }
};

/* ---- a filter ---- */

struct sort {
  const char *name;
  tamis_kind kind;
  bool growable;
  tamis_layout layout;
  unsigned window;
  bool shared; /* in a file */
};

tamis_options options_of(const sort &sort, const size &z)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = sort.kind;
  o.growable = sort.growable;
  o.layout = sort.layout;
  o.window = sort.window;
  o.capacity = z.capacity;
  o.fpp = z.fpp;
  o.seed = 1; /* the same in every filter and run */
  return o;
}

struct filter {
  const library &t;
  tamis_filter *f = nullptr;

  filter(const library &library, const sort &sort, const size &z) : t(library)
  {
    const tamis_options o = options_of(sort, z);
    if (!sort.shared) {
      t.check(t.create(&o, &f));
      return;
    }
    const int file = memfd_create("bench", MFD_CLOEXEC);
    t.check(t.open_shared_fd(&o, file, &f));
    close(file);
  }
  filter(const filter &) = delete;
  ~filter() { t.destroy(f); }
  bool add(uint64_t key) { return t.add_hash(f, key) == TAMIS_OK; }
  bool contains(uint64_t key) const { return t.contains_hash(f, key); }
  bool remove(uint64_t key) { return t.remove_hash(f, key) == TAMIS_OK; }
};

struct maker {
  const library &t;
  sort what;
  bool can(const size &z) const
  {
    const tamis_options o = options_of(what, z);
    return t.options_check(&o, nullptr, 0) == TAMIS_OK;
  }
  std::unique_ptr<filter> operator()(const size &z) const
  {
    return std::make_unique<filter>(t, what, z);
  }
};

/* ---- workloads that others do not have ---- */

uint64_t unique(benchmark::State &s, filter &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t hidden = 0;
  for (auto _ : s)
    hidden += f.t.add_unique_hash(f.f, keys.next()) != TAMIS_OK;
  return too_many(hidden, s, z);
}

/* The call hashes keys of 8 bytes. */
uint64_t insert_bytes(benchmark::State &s, filter &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0;
  for (auto _ : s) {
    const uint64_t key = keys.next();
    wrong += f.t.add(f.f, &key, sizeof key) != TAMIS_OK;
  }
  return wrong;
}

uint64_t miss_bytes(benchmark::State &s, filter &f, const size &z)
{
  share keys(s, UINT64_C(1) << 30, ABSENT);
  uint64_t found = 0;
  for (auto _ : s) {
    const uint64_t key = keys.next();
    found += f.t.contains(f.f, &key, sizeof key);
  }
  return too_many(found, s, z);
}

uint64_t insert_batch(benchmark::State &s, filter &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0, hashes[BATCH];
  int results[BATCH];
  while (s.KeepRunningBatch(BATCH)) {
    for (auto &hash : hashes)
      hash = keys.next();
    f.t.add_many_hash(f.f, hashes, BATCH, results);
    for (const int result : results)
      wrong += result != TAMIS_OK;
  }
  return wrong;
}

uint64_t hit_batch(benchmark::State &s, filter &f, const size &z)
{
  share keys(s, z.keys);
  uint64_t wrong = 0, hashes[BATCH];
  while (s.KeepRunningBatch(BATCH)) {
    for (auto &hash : hashes)
      hash = keys.next();
    wrong += BATCH - f.t.contains_many_hash(f.f, hashes, BATCH, nullptr);
  }
  return wrong;
}

/* ---- one key in many filters, which share the keys ---- */

struct many {
  std::vector<std::unique_ptr<filter>> filters;
  std::vector<const tamis_filter *> pointers;
  std::unique_ptr<bool[]> found;
  uint64_t turn = 0;

  bool add(uint64_t key)
  {
    filter &f = *filters[turn++ % filters.size()];
    return f.t.add(f.f, &key, sizeof key) == TAMIS_OK;
  }
};

struct many_maker {
  maker one;
  bool can(const size &z) const { return z.keys >= 100 * flags.filters && one.can(z); }
  std::unique_ptr<many> operator()(const size &z) const
  {
    auto all = std::make_unique<many>();
    const uint64_t n = z.keys / flags.filters + 1;
    for (uint64_t i = 0; i < flags.filters; i++) {
      all->filters.push_back(one({z.subject, n, n, z.fpp}));
      all->pointers.push_back(all->filters.back()->f);
    }
    all->found = std::make_unique<bool[]>(flags.filters);
    return all;
  }
};

/* An iteration is one filter. */
template <bool AT_ONCE> uint64_t each(benchmark::State &s, many &m, const size &z)
{
  const library &t = m.filters[0]->t;
  const size_t n = m.pointers.size();
  share keys(s, z.keys);
  uint64_t key = keys.next(), wrong = 0;
  while (s.KeepRunningBatch(static_cast<benchmark::IterationCount>(n))) {
    size_t found = 0;
    if (AT_ONCE)
      found = t.contains_each(m.pointers.data(), n, &key, sizeof key, m.found.get());
    else
      for (const tamis_filter *f : m.pointers)
        found += t.contains(f, &key, sizeof key);
    wrong += found == 0;
    key = flags.hot ? key : keys.next();
  }
  return wrong;
}

/* ---- files: an iteration is one of them ---- */

std::string path()
{
  return flags.directory + "/bench." + std::to_string(getpid());
}

int write_all(void *file, const void *data, size_t size)
{
  for (auto *from = static_cast<const char *>(data); size;) {
    const ssize_t written = write(*static_cast<int *>(file), from, size);
    if (written < 0)
      return TAMIS_EIO;
    from += written;
    size -= static_cast<size_t>(written);
  }
  return TAMIS_OK;
}

/* As a program would that does not need its file after a power cut: as cp does. */
void save_to_file(const filter &f)
{
  int file = open(path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    error(2, errno, "%s", path().c_str());
  f.t.check(f.t.save(f.f, write_all, &file));
  close(file);
}

uint64_t save(benchmark::State &s, filter &f, const size &)
{
  for (auto _ : s)
    save_to_file(f);
  unlink(path().c_str());
  return 0;
}

uint64_t load(benchmark::State &s, filter &f, const size &)
{
  save_to_file(f);
  for (auto _ : s) {
    tamis_filter *loaded;
    f.t.check(f.t.load_file(nullptr, path().c_str(), &loaded));
    s.PauseTiming();
    f.t.destroy(loaded);
    s.ResumeTiming();
  }
  unlink(path().c_str());
  return 0;
}

uint64_t copy(benchmark::State &s, filter &f, const size &)
{
  const std::string command = "cp " + path() + " " + path() + ".copy";
  uint64_t wrong = 0;
  save_to_file(f);
  for (auto _ : s)
    wrong += std::system(command.c_str()) != 0;
  unlink(path().c_str());
  unlink((path() + ".copy").c_str());
  return wrong;
}

/* ---- all of them ---- */

const sort sorts[] = {
    {"bloom", TAMIS_BLOOM, true, TAMIS_LAYOUT_BLOCKED, 0, false},
    {"bloom-fixed", TAMIS_BLOOM, false, TAMIS_LAYOUT_BLOCKED, 0, false},
    {"bloom-shared", TAMIS_BLOOM, false, TAMIS_LAYOUT_BLOCKED, 0, true},
    {"bloom-classic", TAMIS_BLOOM, true, TAMIS_LAYOUT_CLASSIC, 0, false},
    {"bloom-word", TAMIS_BLOOM, true, TAMIS_LAYOUT_WORD, 0, false},
    {"cuckoo", TAMIS_CUCKOO, true, TAMIS_LAYOUT_BLOCKED, 0, false},
    {"cuckoo-fixed", TAMIS_CUCKOO, false, TAMIS_LAYOUT_BLOCKED, 0, false},
    {"counting", TAMIS_COUNTING_BLOOM, true, TAMIS_LAYOUT_BLOCKED, 0, false},
    {"window", TAMIS_BLOOM, true, TAMIS_LAYOUT_BLOCKED, 4, false},
    {"window-fixed", TAMIS_BLOOM, false, TAMIS_LAYOUT_BLOCKED, 4, false},
};

} // namespace

void add_tamis(const std::string &prefix, const std::string &path)
{
  static std::vector<std::unique_ptr<library>> libraries; /* to the end */
  const library &t = *libraries.emplace_back(std::make_unique<library>(path));
  auto workloads = usual_workloads<filter>();
  workloads.insert(workloads.end(), {{"unique", unique, 0, true},
                                     {"insert-bytes", insert_bytes, 0, true},
                                     {"miss-bytes", miss_bytes, 1, false},
                                     {"insert-batch", insert_batch, 0, true},
                                     {"hit-batch", hit_batch, 1, false}});
  const std::vector<workload<filter>> removal{{"remove", remove<filter>, 1, true}};
  const std::vector<workload<filter>> files{{"save", save, 1, false, true},
                                            {"load", load, 1, false, true},
                                            {"copy", copy, 1, false, true}};
  const std::vector<workload<many>> many_filters{{"each", each<true>, 1, false},
                                                 {"each-single", each<false>, 1, false}};
  for (const sort &sort : sorts) {
    const std::string name = prefix + sort.name;
    const maker make{t, sort};
    add_subject(name, workloads, make);
    if (sort.kind != TAMIS_BLOOM)
      add_subject(name, removal, make);
    if (sort.window || sort.shared)
      continue;
    add_subject(name, many_filters, many_maker{make}, threads::ONE);
    add_subject(name, files, make, threads::ONE);
    if (sort.growable && sort.kind != TAMIS_COUNTING_BLOOM) {
      add_subject(name + "-grown", workloads, make, threads::MANY, capacity::SMALL);
      add_growth<filter>(name, make);
    }
  }
}
