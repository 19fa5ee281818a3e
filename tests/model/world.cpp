/* SPDX-License-Identifier: MIT
 *
 * The world in which the model checker runs the library.  Threads are relacy's fibers, one of which
 * runs at a time.  Relacy chooses what a load sees and which thread goes on.
 *
 * The library is compiled with -fsanitize=thread, but linked with instrumentation.cpp instead of
 * ThreadSanitizer.  So every access of it to memory arrives here:
 *
 *    atomic ones   at a location of relacy's, made when the address is first accessed
 *    plain ones    at a variable of relacy's, which finds races
 *    both          at the variable that stands for the life of their block: its allocation and its
 *                  release are writes, so that an access that is not ordered after the
 *                  one and before the other is a race
 *
 * All memory that threads share is in one arena.  What it holds after the set-up is restored before
 * each execution, and is known to all threads from the start.  The memory itself always holds the
 * last value written; relacy's histories hold the earlier ones.
 *
 * Threads may be switched before each access to a location where it can matter: one that another
 * thread writes, or that this thread writes and another one accesses.  The search learns which
 * locations these are, and begins again when it meets a new one.  So at the end of a search its
 * assumption has been true all along.  No switch is needed
 *
 *    - before a lock is released: what another thread could do then it can do later as well
 *    - in a block that the thread that allocated it has not shown to others yet
 *    - at figures: read-modify-writes that are relaxed, and the count of entries of a stripe.
 */
#include <algorithm>
#include <cerrno>

/* relacy gives these names to its own. */
static const int timed_out = ETIMEDOUT, not_now = EAGAIN;

#include <relacy/relacy.hpp>

#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

#include "model.h"
#include "world.h"

/* counter.c: each of relacy's fibers has a thread index of its own. */
extern "C" __thread unsigned tamis__thread_index;

using namespace model;

namespace
{

/* ---- the arena ---- */

enum : size_t {
  ARENA = 512 * 1024,
  GRANULE = 1, /* atomic objects of a byte may be neighbours */
  LINE = 64,
  MOST_BLOCKS = 256,
  MAX_LOCATIONS = 8192,
  OUTSIDE = 64 /* locks that are not in the arena */
};

struct block {
  char *start;
  size_t size;
  rl::var_data *life;
  bool released;
  int maker; /* the only thread that knows the block so far, or -1 */
};

/* An address as relacy sees it, in one execution. */
struct location {
  rl::atomic_data *atomic;
  rl::var_data *plain;
  rl::generic_mutex_data *lock;
  uint64_t history[rl::atomic_history_size];
};

/* Who accesses an address, in all executions: a bit for each thread. */
struct use {
  uint8_t readers, writers;
};

struct world {
  alignas(4096) char arena[ARENA];
  char snapshot[ARENA];
  size_t used, used_at_start;
  block blocks[MOST_BLOCKS];
  unsigned block_count, blocks_at_start;
  uint16_t block_of_line[ARENA / LINE];

  uint32_t location_of[ARENA / GRANULE + OUTSIDE]; /* 0: none yet */
  uint32_t used_locations[MAX_LOCATIONS];          /* indices into location_of */
  location locations[MAX_LOCATIONS];
  uint32_t location_count;
  use uses[ARENA / GRANULE + OUTSIDE];
  bool figure[ARENA / GRANULE + OUTSIDE];
  const void *outside[OUTSIDE];
  unsigned outside_count;

  const shape *now;
  unsigned threads;
  bool searching; /* threads run: accesses are relacy's */
  bool learned;   /* a new location that matters: begin again */
  uint64_t executions, limit;
  bool limit_reached;
  bool acq_rel;                             /* in place of seq_cst */
  void (*begin_history)(rl::atomic_data *); /* depends on the number of threads */

  bool released;         /* something, in this execution */
  uint64_t with_release; /* executions */

  rl::sema_data *wake; /* of the thread that waits for grace periods */
  bool start;
  unsigned ended;
  void *(*waiter)(void *);
} w;

const rl::debug_info here("", "", 0);

unsigned self()
{
  return static_cast<unsigned>(rl::ctx().threadx_->index_);
}

void fail(const char *reason, rl::test_result_e result)
{
  rl::ctx().fail_test(reason, result, here);
}

bool in_arena(const void *address)
{
  const char *p = static_cast<const char *>(address);
  return p >= w.arena && p < w.arena + w.used;
}

block &block_at(const void *address)
{
  return w.blocks[w.block_of_line[(static_cast<const char *>(address) - w.arena) / LINE]];
}

uint32_t index_of(const void *address)
{
  if (in_arena(address))
    return static_cast<uint32_t>((static_cast<const char *>(address) - w.arena) / GRANULE);
  unsigned i = 0;
  while (i < w.outside_count && w.outside[i] != address)
    i++;
  if (i == w.outside_count)
    w.outside[w.outside_count++] = address;
  return static_cast<uint32_t>(ARENA / GRANULE + i);
}

location &location_at(uint32_t index)
{
  if (!w.location_of[index]) {
    w.used_locations[w.location_count] = index;
    w.locations[w.location_count] = location();
    w.location_of[index] = ++w.location_count;
  }
  return w.locations[w.location_of[index] - 1];
}

/* To be called after threads may have been switched. */
void resume()
{
  tamis__thread_index = self() + 1;
}

/* ---- what an execution tells when it is printed ---- */

struct access_event {
  const char *what;
  const void *address;
  size_t size;
  int order;
  uint64_t value;
  bool old;

  void output(std::ostream &s) const
  {
    s << what;
    if (in_arena(address)) {
      const block &b = block_at(address);
      s << " block " << &b - w.blocks << " (" << b.size << " bytes) + "
        << static_cast<const char *>(address) - b.start;
    } else {
      s << " " << address;
    }
    if (size)
      s << std::hex << ", value " << value << std::dec << (old ? " [NOT CURRENT]" : "");
    if (order >= 0)
      s << ", " << rl::format(static_cast<rl::memory_order>(order));
  }
};

void tell(const char *what, const void *address, size_t size = 0, int order = -1,
          uint64_t value = 0, bool old = false)
{
  if (rl::ctx().collecting_history())
    rl::ctx().exec_log(here, access_event{what, address, size, order, value, old});
}

/* ---- blocks ---- */

/* Every access to a block must come after its allocation and before its release. */
void live(const void *address, const char *what)
{
  block &b = block_at(address);
  if (b.released) {
    tell(what, address);
    fail("a released block is accessed", rl::test_result_access_to_freed_memory);
  }
  if (b.maker >= 0 && static_cast<unsigned>(b.maker) != self())
    b.maker = -1;
  if (!b.life)
    b.life = rl::ctx().var_ctor();
  if (!b.life->load(*rl::ctx().threadx_)) {
    tell(what, address);
    fail("a block is accessed by a thread that may not see its allocation",
         rl::test_result_data_race);
  }
}

} // namespace

void *model_allocate(void *, size_t, size_t size)
{
  size_t lines = (size + LINE - 1) / LINE;
  if (w.used + lines * LINE > ARENA || w.block_count == MOST_BLOCKS)
    return nullptr;
  block &b = w.blocks[w.block_count];
  b = block{w.arena + w.used, size, nullptr, false, -1};
  for (size_t i = 0; i < lines; i++)
    w.block_of_line[w.used / LINE + i] = static_cast<uint16_t>(w.block_count);
  w.used += lines * LINE;
  w.block_count++;
  if (w.searching) {
    b.maker = static_cast<int>(self());
    b.life = rl::ctx().var_ctor();
    b.life->init(*rl::ctx().threadx_);
    tell("allocate", b.start);
  }
  return b.start;
}

void model_release(void *, void *address, size_t, size_t)
{
  if (!w.searching || !address)
    return;
  live(address, "release");
  tell("release", address);
  block &b = block_at(address);
  if (!b.life->store(*rl::ctx().threadx_))
    fail("a block is released that another thread may still access",
         rl::test_result_access_to_freed_memory);
  b.released = true;
  w.released = true;
}

extern "C" void *model_calloc(size_t n, size_t size)
{
  void *block = model_allocate(nullptr, LINE, n * size);
  return block ? memset(block, 0, n * size) : nullptr;
}

extern "C" void model_free(void *block)
{
  model_release(nullptr, block, 0, 0);
}

namespace
{

/* ---- the memory itself, which always holds the last value written ---- */

uint64_t real_load(const volatile void *address, size_t size)
{
  return size == 8   ? *static_cast<const volatile uint64_t *>(address)
         : size == 4 ? *static_cast<const volatile uint32_t *>(address)
         : size == 2 ? *static_cast<const volatile uint16_t *>(address)
                     : *static_cast<const volatile uint8_t *>(address);
}

void real_store(volatile void *address, size_t size, uint64_t value)
{
  if (size == 8)
    *static_cast<volatile uint64_t *>(address) = value;
  else if (size == 4)
    *static_cast<volatile uint32_t *>(address) = static_cast<uint32_t>(value);
  else if (size == 2)
    *static_cast<volatile uint16_t *>(address) = static_cast<uint16_t>(value);
  else
    *static_cast<volatile uint8_t *>(address) = static_cast<uint8_t>(value);
}

/* ---- where threads may be switched ---- */

bool others(uint8_t threads, unsigned me)
{
  return threads & ~(1u << me);
}

bool matters(const use &u, unsigned me, bool write)
{
  return others(write ? u.readers | u.writers : u.writers, me);
}

/* To be called before an access. */
void maybe_switch(uint32_t index, bool write)
{
  unsigned me = self();
  use &u = w.uses[index], before = u;
  (write ? u.writers : u.readers) |= static_cast<uint8_t>(1u << me);
  bool changed = before.readers != u.readers || before.writers != u.writers;
  if (changed)
    for (unsigned i = 0; i < MODEL_MAX_THREADS; i++)
      for (int as_writer = 0; as_writer < 2; as_writer++)
        if ((as_writer ? u.writers : u.readers) >> i & 1 && matters(u, i, as_writer) &&
            !(matters(before, i, as_writer) &&
              (as_writer ? before.writers : before.readers) >> i & 1))
          w.learned = true;
  if (w.learned)
    rl::ctx().rl_until("learned", here);
  if (matters(u, me, write)) {
    rl::ctx().sched();
    resume();
  }
}

bool private_still(const void *address)
{
  return block_at(address).maker == static_cast<int>(self());
}

/* ---- atomic accesses ---- */

enum kind { LOAD, STORE, CHANGE };

/* The order that the search is about. */
int order_of(int order, kind k)
{
  return order != rl::mo_seq_cst || !w.acq_rel ? order
         : k == LOAD                           ? rl::mo_acquire
         : k == STORE                          ? rl::mo_release
                                               : rl::mo_acq_rel;
}

/* Prepares an access: switches threads if that can matter, checks that the block lives, and
 * begins a history. */
location &begin_access(const volatile void *volatile_address, size_t size, kind k, int order)
{
  const void *address = const_cast<const void *>(volatile_address);
  uint32_t index = index_of(address);
  bool quiet = w.figure[index] || (k == CHANGE && order == rl::mo_relaxed);
  live(address, "access");
  if (!quiet && !private_still(address)) {
    maybe_switch(index, k != LOAD);
    live(address, "access");
  }
  location &p = location_at(index);
  if (!p.atomic) {
    p.atomic = rl::ctx().atomic_ctor(nullptr);
    w.begin_history(p.atomic);
    p.history[1] = real_load(address, size);
  }
  return p;
}

/* Whether accesses to an address are relacy's at the moment. */
bool modelled(const volatile void *address)
{
  return w.searching && in_arena(const_cast<const void *>(address));
}

} // namespace

uint64_t model::atomic_load(const volatile void *address, size_t size, int order)
{
  if (!modelled(address))
    return real_load(address, size);
  order = order_of(order, LOAD);
  location &p = begin_access(address, size, LOAD, order);
  rl::thread_info_base &me = *rl::ctx().threadx_;
  unsigned i = order == rl::mo_seq_cst   ? me.atomic_load_seq_cst(p.atomic)
               : order == rl::mo_relaxed ? me.atomic_load_relaxed(p.atomic)
                                         : me.atomic_load_acquire(p.atomic);
  uint64_t value = p.history[i];
  tell("load", const_cast<const void *>(address), size, order, value,
       value != real_load(address, size));
  return value;
}

void model::atomic_store(volatile void *address, size_t size, int order, uint64_t value)
{
  if (!modelled(address)) {
    real_store(address, size, value);
    return;
  }
  order = order_of(order, STORE);
  location &p = begin_access(address, size, STORE, order);
  rl::thread_info_base &me = *rl::ctx().threadx_;
  unsigned i = order == rl::mo_seq_cst   ? me.atomic_store_seq_cst(p.atomic)
               : order == rl::mo_relaxed ? me.atomic_store_relaxed(p.atomic)
                                         : me.atomic_store_release(p.atomic);
  p.history[i] = value;
  real_store(address, size, value);
  tell("store", const_cast<const void *>(address), size, order, value);
}

uint64_t model::atomic_change(volatile void *address, size_t size, int order, change *to,
                              uint64_t operand)
{
  if (!modelled(address)) {
    uint64_t old = real_load(address, size);
    real_store(address, size, to(old, operand));
    return old;
  }
  order = order_of(order, CHANGE);
  location &p = begin_access(address, size, CHANGE, order);
  rl::thread_info_base &me = *rl::ctx().threadx_;
  uint64_t value = real_load(address, size);
  bool aba;
  unsigned i = order == rl::mo_seq_cst   ? me.atomic_rmw_seq_cst(p.atomic, aba)
               : order == rl::mo_acq_rel ? me.atomic_rmw_acq_rel(p.atomic, aba)
               : order == rl::mo_release ? me.atomic_rmw_release(p.atomic, aba)
               : order == rl::mo_relaxed ? me.atomic_rmw_relaxed(p.atomic, aba)
                                         : me.atomic_rmw_acquire(p.atomic, aba);
  real_store(address, size, to(value, operand));
  p.history[i] = real_load(address, size);
  tell("change to", const_cast<const void *>(address), size, order, p.history[i]);
  return value;
}

bool model::atomic_exchange_if(volatile void *address, size_t size, int order, int order_failed,
                               uint64_t *expected, uint64_t value)
{
  if (!modelled(address)) {
    uint64_t wanted = *expected;
    *expected = real_load(address, size);
    if (*expected == wanted)
      real_store(address, size, value);
    return *expected == wanted;
  }
  begin_access(address, size, CHANGE, order);
  uint64_t seen = real_load(address, size);
  rl::context &c = rl::ctx();
  c.disable_preemption(); /* begun already */
  bool equal = seen == *expected;
  if (equal) {
    atomic_change(
        address, size, order, [](uint64_t, uint64_t operand) { return operand; }, value);
  } else {
    location &p = location_at(index_of(const_cast<const void *>(address)));
    if (order_failed == rl::mo_seq_cst)
      c.threadx_->atomic_load_seq_cst_rmw(p.atomic);
    else if (order_failed == rl::mo_relaxed)
      c.threadx_->atomic_load_relaxed_rmw(p.atomic);
    else
      c.threadx_->atomic_load_acquire_rmw(p.atomic);
    tell("compare, found", const_cast<const void *>(address), size, order_failed, seen);
    *expected = seen;
  }
  c.enable_preemption();
  return equal;
}

/* ---- plain accesses ---- */

void model::plain(const void *address, size_t size, bool write)
{
  if (!w.searching || !in_arena(address))
    return;
  live(address, write ? "plain write" : "plain read");
  uint32_t first = index_of(address),
           last = index_of(static_cast<const char *>(address) + size - 1);
  for (uint32_t i = first; i <= last; i++) {
    location &p = location_at(i);
    if (!p.plain)
      p.plain = rl::ctx().var_ctor();
    rl::thread_info_base &me = *rl::ctx().threadx_;
    if (!(write ? p.plain->store(me) : p.plain->load(me))) {
      tell(write ? "plain write" : "plain read", address);
      fail("a plain access races with another one", rl::test_result_data_race);
    }
  }
}

/* ---- locks ---- */

static rl::generic_mutex_data *lock_at(const void *address)
{
  location &p = location_at(index_of(address));
  if (!p.lock)
    p.lock = rl::ctx().mutex_ctor(false, false, false, false);
  return p.lock;
}

void model::lock(const void *address, bool may_fail)
{
  if (!w.searching)
    return;
  bool is_private = in_arena(address) && (live(address, "lock"), private_still(address));
  if (!is_private)
    maybe_switch(index_of(address), true);
  rl::generic_mutex_data *l = lock_at(address);
  rl::ctx().disable_preemption(); /* has been done */
  if (may_fail)
    l->try_lock_exclusive(here);
  else
    l->lock_exclusive(false, here);
  resume();
  rl::ctx().enable_preemption();
  if (in_arena(address))
    live(address, "lock");
  tell("lock", address);
}

/* Only this thread's steps change what is ordered before it, so it can be put back. */
void model::wait_for(const void *address, bool may_fail)
{
  if (!w.searching)
    return;
  rl::thread_info_base &me = *rl::ctx().threadx_;
  const unsigned threads = w.threads + w.now->grace;
  rl::timestamp_t before[MODEL_MAX_THREADS + 1];
  std::copy_n(me.acq_rel_order_, threads, before);
  lock(address, may_fail);
  for (unsigned i = 0; i < threads; i++)
    if (i != self())
      me.acq_rel_order_[i] = before[i];
}

void model::fence(bool acquire)
{
  if (!w.searching)
    return;
  acquire ? rl::ctx().atomic_thread_fence_acquire() : rl::ctx().atomic_thread_fence_release();
  tell(acquire ? "acquire fence" : "release fence", nullptr);
}

void model::unlock(const void *address)
{
  if (!w.searching)
    return;
  if (in_arena(address))
    live(address, "unlock");
  tell("unlock", address);
  rl::ctx().disable_preemption();
  lock_at(address)->unlock_exclusive(here);
  rl::ctx().enable_preemption();
}

void model::mark_figure(const void *address)
{
  if (w.searching)
    w.figure[index_of(address)] = true;
}

extern "C" void model_mark_figure(const void *address)
{
  w.figure[index_of(address)] = true;
}

extern "C" int model_mutex_lock(void *mutex)
{
  lock(mutex);
  return 0;
}

extern "C" int model_mutex_unlock(void *mutex)
{
  unlock(mutex);
  return 0;
}

extern "C" int model_cond_signal(void *)
{
  return 0; /* no thread waits, see below */
}

extern "C" int model_yield()
{
  rl::ctx().yield(1, here);
  resume();
  return 0;
}

extern "C" int model_cond_timedwait(void *, void *, const void *)
{
  return timed_out; /* the time is up at once, which it may always be */
}

extern "C" int model_nanosleep(const struct timespec *, struct timespec *)
{
  return 0;
}

/* ---- readers and grace periods ----
 *
 * Each thread has a lock that it holds while it is a reader.  A grace period takes and releases each
 * of them once.  That orders readers that were there before the grace period ahead of it, and later
 * readers behind it; and nothing else.  In shapes without a grace period a reader does nothing. */

static const char reader_locks[MODEL_MAX_THREADS] = {0};
static bool is_reader[MODEL_MAX_THREADS + 1];

extern "C" void urcu_bp_read_lock(void)
{
  if (w.searching && w.now->grace) {
    lock(&reader_locks[self()]);
    is_reader[self()] = true;
  }
}

extern "C" void urcu_bp_read_unlock(void)
{
  if (w.searching && w.now->grace) {
    is_reader[self()] = false;
    unlock(&reader_locks[self()]);
  }
}

extern "C" void urcu_bp_synchronize_rcu(void)
{
  if (!w.searching)
    return;
  for (unsigned i = 0; i < w.threads; i++) {
    lock(&reader_locks[i]);
    unlock(&reader_locks[i]);
  }
}

void model_wait_for_readers(void)
{
  if (w.waiter)
    w.waiter(nullptr);
}

/* What else of liburcu the library names. */
extern "C" int urcu_bp_has_sys_membarrier;
int urcu_bp_has_sys_membarrier = 0;

extern "C" void urcu_bp_register_thread(void)
{
}

extern "C" int urcu_bp_read_ongoing(void)
{
  return w.searching && w.now->grace && is_reader[self()];
}

extern "C" int model_create(void *, const void *, void *(*run)(void *), void *)
{
  w.waiter = run;
  if (!w.searching || !w.now->grace)
    return not_now;
  w.start = true;
  unsigned before;
  w.wake->post(1, before, here);
  return 0;
}

extern "C" int model_join(unsigned long, void **)
{
  return 0; /* the thread has ended, and goes on as a fiber */
}

void model_fail(const char *reason)
{
  fail(reason, rl::test_result_user_assert_failed);
}

namespace
{

/* ---- an execution ---- */

/* All threads know what an atomic object holds at the start. */
template <int threads> void begin_history(rl::atomic_data *data)
{
  auto &a = *static_cast<rl::atomic_data_impl<threads> *>(data);
  for (auto &record : a.history_)
    record.busy_ = false;
  a.current_index_ = 1; /* the one before it must be another one, and not in use */
  auto &first = a.history_[1];
  first.busy_ = true;
  first.seq_cst_ = false;
  first.thread_id_ = 0;
  first.acq_rel_timestamp_ = 0;
  for (int i = 0; i < threads; i++) {
    first.acq_rel_order_[i] = 0;
    first.first_seen_order_[i] = static_cast<rl::timestamp_t>(-1);
  }
}

void begin_execution()
{
  memcpy(w.arena, w.snapshot, w.used_at_start);
  w.used = w.used_at_start;
  w.block_count = w.blocks_at_start;
  for (unsigned i = 0; i < w.block_count; i++)
    w.blocks[i].life = nullptr, w.blocks[i].released = false, w.blocks[i].maker = -1;
  for (uint32_t i = 0; i < w.location_count; i++)
    w.location_of[w.used_locations[i]] = 0;
  w.location_count = 0;
  model_reset_reclaim();
  w.released = false;
  w.ended = 0;
  w.start = false;
  w.wake = w.now->grace ? rl::ctx().sema_ctor(false, 0, 1000) : nullptr;
  w.searching = true;
}

void end_execution()
{
  w.searching = false;
  rl::context &c = rl::ctx();
  if (w.wake)
    c.sema_dtor(w.wake);
  for (uint32_t i = 0; i < w.location_count; i++) {
    location &p = w.locations[i];
    if (p.atomic)
      c.atomic_dtor(p.atomic);
    if (p.plain)
      c.var_dtor(p.plain);
    if (p.lock)
      c.mutex_dtor(p.lock);
  }
  for (unsigned i = 0; i < w.block_count; i++)
    if (w.blocks[i].life)
      c.var_dtor(w.blocks[i].life);
  w.executions++;
  w.with_release += w.released;
  const char *reason = model_judge();
  if (reason)
    fail(reason, rl::test_result_user_assert_failed);
  if (w.limit && w.executions >= w.limit) {
    w.limit_reached = true;
    c.rl_until("limit", here);
  }
}

void wait_for_grace_periods()
{
  for (;;) {
    w.wake->wait(false, false, here);
    resume();
    if (!w.start)
      return;
    w.start = false;
    w.waiter(nullptr);
  }
}

void run_thread(unsigned i)
{
  resume();
  is_reader[i] = false;
  if (i == w.threads) {
    wait_for_grace_periods();
    return;
  }
  model_run(i);
  unsigned before;
  if (++w.ended == w.threads && w.now->grace)
    w.wake->post(1, before, here);
}

template <int threads> struct suite : rl::test_suite<suite<threads>, threads> {
  void before()
  {
    w.begin_history = begin_history<threads>;
    begin_execution();
  }
  void thread(unsigned i) { run_thread(i); }
  void after() { end_execution(); }
};

/* ---- a search ---- */

template <typename t> rl::test_result_e run_once(rl::test_params &params, rl::ostringstream &state)
{
  enum { n = t::params::thread_count };
  bool again = params.collect_history;
  return params.search_type == rl::sched_random
             ? rl::run_test<t, rl::random_scheduler<n>>(params, state, again)
         : params.search_type == rl::sched_full
             ? rl::run_test<t, rl::full_search_scheduler<n>>(params, state, again)
             : rl::run_test<t, rl::context_bound_scheduler<n>>(params, state, again);
}

/* Searches until nothing has been learned. */
template <typename t> rl::test_result_e run(rl::test_params &params, rl::ostringstream &state)
{
  rl::test_result_e result;
  do {
    w.learned = w.limit_reached = false;
    w.executions = w.with_release = 0;
    state.str("");
    result = run_once<t>(params, state);
    w.searching = false;
  } while (w.learned);
  return result;
}

rl::test_params params_for(const model_effort &effort, std::ostream &nowhere)
{
  rl::test_params params;
  params.search_type = effort.search == MODEL_RANDOM  ? rl::sched_random
                       : effort.search == MODEL_BOUND ? rl::sched_bound
                                                      : rl::sched_full;
  params.context_bound = effort.bound;
  params.iteration_count = effort.executions;
  params.execution_depth_limit = 100000;
  params.progress_stream = &nowhere;
  return params;
}

template <int threads> model_report check(const model_effort &effort)
{
  std::ostream nowhere(nullptr);
  rl::ostringstream state;
  /* A few random executions learn most of the locations where threads meet. */
  w.limit = 0;
  rl::test_params params = params_for({MODEL_RANDOM, 0, 500}, nowhere);
  rl::test_result_e result = run<suite<threads>>(params, state);
  if (result == rl::test_result_success) {
    w.limit = effort.search == MODEL_RANDOM ? 0 : effort.executions;
    params = params_for(effort, nowhere);
    result = run<suite<threads>>(params, state);
  }
  model_report report = {true, effort.search != MODEL_RANDOM && !w.limit_reached, w.executions,
                         w.with_release};
  if (result != rl::test_result_success && !w.limit_reached) {
    report.good = report.exhaustive = false;
    params.initial_state = state.str();
    params.collect_history = true;
    run_once<suite<threads>>(params, state);
    w.searching = false;
  }
  return report;
}

} // namespace

model_report model_check(const shape *s, const model_effort *effort, bool acq_rel)
{
  w.now = s;
  w.acq_rel = acq_rel;
  w.used = w.block_count = 0;
  model_reset_reclaim();
  tamis__thread_index = 1;
  memset(w.figure, 0, sizeof w.figure);
  w.threads = model_begin(s);
  w.used_at_start = w.used;
  w.blocks_at_start = w.block_count;
  memcpy(w.snapshot, w.arena, w.used);
  memset(w.uses, 0, sizeof w.uses);
  w.outside_count = 0;
  switch (w.threads + s->grace) {
  case 2:
    return check<2>(*effort);
  case 3:
    return check<3>(*effort);
  default:
    return check<4>(*effort);
  }
}
