/* SPDX-License-Identifier: MIT
 *
 * Processes that are killed while they call a filter that they share: a Bloom filter, or a window or a
 * cuckoo filter with its locks.  They die at every instruction of adds and removes, at those around each
 * change of an opening of a layer, of a refusal and of the end of periods, and at every system call of an
 * opening, a creation and a checkpoint.
 *
 * A child stops before its call, and the parent lets it execute so many instructions of it, one by
 * one, and kills it.  A first child executes all of the call, step by step, and shows which instructions there
 * are, and which of them change the file.  A child that is to be killed runs to a breakpoint.  If there are too
 * many instructions to be killed at each of them, children are killed at those around each change, and
 * at some of the others.
 *
 * The parent then checks with handles of its own, opened before and after that:
 *
 *    - all keys that are remembered are in, and the child's if it has been told so;
 *    - the child's key has at most one winner, of the child and those who add it after its death:
 *      exactly one if it was not in when the child died;
 *    - further keys are added, also into a further layer, and have one winner;
 *    - what a window's process has left is mended by the first call that comes to it, and keys are remembered
 *      for as long as they should be, in all later periods;
 *    - in a cuckoo filter all keys have as many copies as before, and the child's as many or one more or less;
 *      and when all copies are removed, the filter is empty;
 *    - the file loads, and what is loaded is valid;
 *    - nobody waits: an alarm ends a test that does.
 */
#define IN_MEMORY true
#include "sequences.h"
#include "shared_window_unit.h"

#include "base/saved.h"
#include "base/shared_file.h"
#include "window/counted.h"
#include "window/operations.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

enum call {
  ADD,
  ADD_UNIQUE,
  ADD_BRIEFLY /* uniquely */,
  REMOVE,
  OPEN,
  CREATE,
  ADVANCE,
  JUMP,
  SYNC
};
enum { NOTHING_YET = 1000, PERIODS = 2, MOST_KEYS = 6000, FAR = 5000 };

static tamis_options options;
static uint64_t key; /* of the child */
/* Keys that have been added, which have the numbers from 0 on, and the last period in which each was. */
static uint64_t keys, added_in[MOST_KEYS];
static bool may_be_full;
/* In a cuckoo filter: so many keys have several copies, and the child's key so many. */
static uint64_t keys_with_copies;
static unsigned copies_of_key;

static bool is_cuckoo(void)
{
  return options.kind == TAMIS_CUCKOO;
}

/* The period to which the child advances.  What that forgets of so many keys may be gone before. */
static uint64_t coming, keys_before;

struct told { /* what the child has been */
  volatile int result;
  volatile bool ended;
};
static struct told *told;

static int run_call(enum call call, tamis_filter *f)
{
  switch (call) {
  case ADD:
    return tamis_add_hash(f, hash_of(key));
  case ADD_UNIQUE:
    return tamis_add_unique_hash(f, hash_of(key));
  case ADD_BRIEFLY:
    return tamis_add_unique_for_hash(f, hash_of(key), 0);
  case REMOVE:
    return tamis_remove_hash(f, hash_of(key));
  case ADVANCE:
    return tamis_advance(f);
  case JUMP:
    return tamis_advance_to(f, coming);
  case SYNC:
    return tamis_sync(f);
  default:
    return tamis_open_shared(call == CREATE ? &options : NULL, shared_path, &f);
  }
}

/* The child has a name for its locks before its call, if the filter has locks. */
static void get_ready(tamis_filter *f)
{
  if (f && (options.window || is_cuckoo()))
    assert_int_equal(window_join(window_of(f)), TAMIS_OK);
}

/* The child is stopped right before its call, and runs the same code whoever has started it.  0: the
 * system does not let us. */
static __attribute__((noinline)) pid_t start_child(enum call call, tamis_filter *f)
{
  told->result = NOTHING_YET;
  told->ended = false;
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
      _exit(1);
    get_ready(f);
    end_restartable_sequences(); /* a single step would interrupt each of them */
    raise(SIGSTOP);
    told->result = run_call(call, f);
    told->ended = true;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSTOPPED(status))
    return child;
  return 0;
}

/* False: the child has ended. */
static bool step(pid_t child, int request)
{
  int status;
  assert_int_equal(ptrace((enum __ptrace_request) request, child, NULL, NULL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSTOPPED(status);
}

static bool is_at_lock(pid_t child)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  return registers.orig_rax == SYS_fcntl && registers.rsi == F_OFD_SETLK;
}

/* Starts a child, which stops before the call, or where an opening has taken a lock. */
static pid_t start(enum call call, tamis_filter *f)
{
  pid_t child = start_child(call, f);
  while (child && call == OPEN && !is_at_lock(child))
    assert_true(step(child, PTRACE_SYSCALL));
  return child;
}

static void kill_child(pid_t child)
{
  kill(child, SIGKILL);
  (void) waitpid(child, NULL, 0);
}

/* ---- what must hold after a death ---- */

static uint64_t period_of(const tamis_filter *f)
{
  return stats_of(f).period;
}

/* Takes each lock once, so that what is broken is mended. */
static void assert_whole(tamis_filter *f)
{
  struct window *w = window_of(f);
  assert_int_equal(window_join(w), TAMIS_OK);
  tamis__window_lock_advancing(w);
  take_all_stripes(w);
  owned_unlock(&w->state->advancing, &w->owner);
}

static void assert_remembers(const tamis_filter *f)
{
  const uint64_t now = period_of(f);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < keys; i++) {
    const bool in = tamis_contains_hash(f, hash_of(i));
    const uint64_t last = added_in[i] + PERIODS;
    if (options.window && now > last)
      wrong += in;
    else if (i >= keys_before || coming <= last)
      assert_true(in);
  }
  assert_true(wrong <= 2 + keys / 50);
}

static bool is_told(enum call call)
{
  return call <= ADD_BRIEFLY && (told->result == TAMIS_OK || told->result == TAMIS_PRESENT);
}

static void check_load(enum call call)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
  assert_remembers(f);
  assert_true(!is_told(call) || tamis_contains_hash(f, hash_of(key)));
  assert_valid(f);
  tamis_destroy(f);
}

static void check_key(enum call call, tamis_filter *a, tamis_filter *b)
{
  const bool in = tamis_contains_hash(a, hash_of(key));
  const int first = tamis_add_unique_hash(a, hash_of(key)),
            second = tamis_add_unique_hash(b, hash_of(key));
  const int winners = (is_told(call) && call != ADD && told->result == TAMIS_OK) +
                      (first == TAMIS_OK) + (second == TAMIS_OK);
  assert_true(in || !is_told(call));
  assert_true(winners <= 1);
  if (told->result == TAMIS_EFULL &&
      !options.window) /* final, unless it is a false positive by now */
    assert_true(first == TAMIS_EFULL || (in && first == TAMIS_PRESENT));
  assert_true(first == (in ? TAMIS_PRESENT : TAMIS_OK) || (may_be_full && first == TAMIS_EFULL));
  assert_true(second == (first == TAMIS_EFULL ? TAMIS_EFULL : TAMIS_PRESENT));
  if (call == ADD_BRIEFLY) /* it stays from now on */
    assert_int_equal(tamis_add_hash(b, hash_of(key)), TAMIS_OK);
}

/* Of many keys each has one winner at most, and nearly all have one. */
static void check_further(tamis_filter *a, tamis_filter *b, uint64_t n)
{
  uint64_t winners = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t hash = hash_of(1000000 + i);
    int first = tamis_add_unique_hash(i % 2 ? a : b, hash);
    int second = tamis_add_unique_hash(i % 2 ? b : a, hash);
    assert_true(first == TAMIS_EFULL ? second == TAMIS_EFULL : second == TAMIS_PRESENT);
    winners += first == TAMIS_OK;
  }
  if (!may_be_full)
    assert_in_range(winners, n - 1 - n / 50, n);
}

/* Periods end by one handle, or the other. */
static void check_periods(tamis_filter *a, tamis_filter *b, uint64_t n, unsigned periods)
{
  const uint64_t before = keys;
  static uint64_t was[MOST_KEYS];
  memcpy(was, added_in, sizeof was);
  for (unsigned period = 0; period < periods; period++) {
    const uint64_t brief = hash_of(1000000 + period);
    const bool won = tamis_add_unique_for_hash(a, brief, 0) == TAMIS_OK;
    for (uint64_t i = 0; i < n && keys < MOST_KEYS; i++) {
      int result = tamis_add_unique_hash(i % 2 ? a : b, hash_of(keys));
      added_in[keys] = period_of(a);
      assert_true(result == TAMIS_OK || result == TAMIS_PRESENT ||
                  (may_be_full && result == TAMIS_EFULL));
      keys += result != TAMIS_EFULL;
    }
    const uint64_t now = period_of(a);
    assert_int_equal(tamis_advance_to(period % 2 ? a : b, now + 1), TAMIS_OK);
    assert_int_equal(tamis_advance_to(period % 2 ? b : a, now + 1), TAMIS_OK);
    assert_int_equal(period_of(a), now + 1);
    assert_remembers(period % 2 ? b : a);
    assert_false(won && tamis_contains_hash(a, brief));
  }
  assert_valid(a);
  keys = before;
  memcpy(added_in, was, sizeof was);
}

/* ---- the same for a cuckoo filter ---- */

static unsigned copies_of(uint64_t i)
{
  return i == key ? copies_of_key : i < keys_with_copies ? 1 + (unsigned) i % 3 : 1;
}

/* The child's key, which may have got or lost a copy: how many there are now. */
static uint64_t check_copies_of_key(enum call call, const tamis_filter *f)
{
  const uint64_t now = tamis_count_hash(f, hash_of(key));
  const unsigned least = copies_of_key - (call == REMOVE),
                 most = copies_of_key + (call == ADD || (call == ADD_UNIQUE && !copies_of_key));
  const bool done = told->result == TAMIS_OK;
  if (told->result == NOTHING_YET)
    assert_in_range(now, least, most);
  else
    assert_int_equal(now, done ? call == REMOVE ? least : most : copies_of_key);
  return now;
}

static uint64_t check_copies(enum call call, const tamis_filter *f)
{
  uint64_t sum = check_copies_of_key(call, f);
  for (uint64_t i = 0; i < keys; i++)
    if (i != key) {
      assert_int_equal(tamis_count_hash(f, hash_of(i)), copies_of(i));
      sum += copies_of(i);
    }
  return sum;
}

static void remove_all(tamis_filter *a, tamis_filter *b)
{
  for (uint64_t i = 0; i <= keys || i <= key; i++) {
    uint64_t n = tamis_count_hash(a, hash_of(i));
    for (; n; n--)
      assert_int_equal(tamis_remove_hash(n % 2 ? a : b, hash_of(i)), TAMIS_OK);
    assert_int_equal(tamis_remove_hash(a, hash_of(i)), TAMIS_ABSENT);
  }
  assert_int_equal(stats_of(a).count, 0);
}

static void check_cuckoo(enum call call, tamis_filter *a)
{
  tamis_filter *loaded = NULL, *b = open_shared(NULL), *first = a ? a : b;
  uint64_t sum = check_copies(call, first);
  const bool in = tamis_contains_hash(first, hash_of(key));
  const int winner = tamis_add_unique_hash(first, hash_of(key));
  assert_int_equal(winner, in ? TAMIS_PRESENT : TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(b, hash_of(key)), TAMIS_PRESENT);
  sum += winner == TAMIS_OK;
  assert_whole(b);
  assert_int_equal(stats_of(b).count, sum);
  assert_valid(b);
  assert_int_equal(tamis_load_file(NULL, shared_path, &loaded), TAMIS_OK);
  assert_int_equal(stats_of(loaded).count, sum);
  assert_valid(loaded);
  tamis_destroy(loaded);
  remove_all(first, b);
  assert_valid(b);
  tamis_destroy(b);
}

/* For one with a handle that was opened before the death, or NULL.  The child's call may have renewed its
 * key. */
static void check(enum call call, tamis_filter *a, bool thorough)
{
  if (is_cuckoo()) {
    check_cuckoo(call, a);
    return;
  }
  check_load(call);
  tamis_filter *b = open_shared(NULL), *first = a ? a : b;
  assert_remembers(first);
  assert_true(options.window || filter_validate(first, &(const char *){NULL}));
  check_key(call, first, b);
  if (options.window)
    check_periods(first, b, 5, thorough ? 10 : 1);
  else
    check_further(first, b, !thorough ? 20 : options.growable ? 200 : 50);
  if (options.window)
    assert_whole(b);
  assert_remembers(b);
  assert_valid(b);
  tamis_destroy(b);
}

/* ---- the file ---- */

static struct {
  unsigned char *bytes;
  size_t size, used; /* bytes; the rest is a hole */
  unsigned char *now;
} file;

static size_t used_bytes(const unsigned char *bytes, size_t size)
{
  while (size && !bytes[size - 1])
    size--;
  return size;
}

/* Remembers what is in the file. */
static void remember_file(void)
{
  struct stat status;
  assert_int_equal(stat(shared_path, &status), 0);
  file.size = (size_t) status.st_size;
  file.bytes = realloc(file.bytes, file.size);
  assert_non_null(file.bytes);
  read_file(0, file.bytes, file.size);
  file.used = used_bytes(file.bytes, file.size);
}

/* A new file with what is remembered. */
static void restore_file(void)
{
  unlink(shared_path);
  int fd = open(shared_path, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_int_equal(ftruncate(fd, (off_t) file.size), 0);
  assert_int_equal(pwrite(fd, file.bytes, file.used, 0), file.used);
  if (file.now)
    munmap(file.now, file.size);
  file.now = mmap(NULL, file.size, PROT_READ, MAP_SHARED, fd, 0);
  assert_true(file.now != MAP_FAILED);
  close(fd);
}

static void forget_file(void)
{
  if (file.now)
    munmap(file.now, file.size);
  free(file.bytes);
  memset(&file, 0, sizeof file);
}

/* ---- every instruction ---- */

enum { MOST_STEPS = 100000, MOST_CHANGES = 4096, MOST_KILLS = 450, MOST_HITS = 3 };

/* What a call executes. */
static struct {
  unsigned instructions, changes;
  unsigned at[MOST_CHANGES];   /* the instructions that have changed the file */
  uint64_t pc[MOST_STEPS];     /* of each instruction */
  unsigned before[MOST_STEPS]; /* how often it had been executed before */
} seen;

static uint64_t pc_of(pid_t child)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  return registers.rip;
}

static void go_back_to(pid_t child, uint64_t pc)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  assert_int_equal(registers.rip, pc + 1);
  registers.rip = pc;
  assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, &registers), 0);
}

/* Notes where the child is before its next instruction. */
static void note_instruction(pid_t child)
{
  const unsigned n = seen.instructions;
  assert_true(n < MOST_STEPS);
  seen.pc[n] = pc_of(child);
  seen.before[n] = 0;
  for (unsigned i = n; i-- > 0;)
    if (seen.pc[i] == seen.pc[n]) {
      seen.before[n] = seen.before[i] + 1;
      break;
    }
}

static void note_change(unsigned char *last)
{
  const size_t size = file.used + 4096 < file.size ? file.used + 4096 : file.size;
  if (!memcmp(file.now, last, size))
    return;
  memcpy(last, file.now, size);
  assert_true(seen.changes < MOST_CHANGES);
  seen.at[seen.changes++] = seen.instructions;
}

/* Lets a child execute all of it.  False: it cannot be traced. */
static bool find_changes(enum call call)
{
  restore_file();
  unsigned char *last = malloc(file.size);
  memcpy(last, file.bytes, file.size);
  tamis_filter *a = call == OPEN ? NULL : open_shared(NULL);
  pid_t child = start(call, a);
  seen.instructions = seen.changes = 0;
  while (child && !told->ended) {
    note_instruction(child);
    assert_true(step(child, PTRACE_SINGLESTEP));
    seen.instructions++;
    note_change(last);
  }
  if (child)
    kill_child(child);
  tamis_destroy(a);
  free(last);
  return child != 0;
}

/* Lets the child run until it is about to execute the instruction at `pc` for the n-th time. */
static void run_to(pid_t child, uint64_t pc, unsigned n)
{
  errno = 0;
  const long text = ptrace(PTRACE_PEEKTEXT, child, pc, NULL);
  assert_int_equal(errno, 0);
  for (; n; n--) {
    assert_int_equal(ptrace(PTRACE_POKETEXT, child, pc, (text & ~0xFFL) | 0xCC /* int3 */), 0);
    assert_true(step(child, PTRACE_CONT));
    go_back_to(child, pc);
    assert_int_equal(ptrace(PTRACE_POKETEXT, child, pc, text), 0);
    if (n > 1)
      assert_true(step(child, PTRACE_SINGLESTEP));
  }
}

/* In a loop: a breakpoint would be hit too often. */
static bool is_in_loop(unsigned instruction)
{
  return seen.before[instruction] >= MOST_HITS;
}

/* To the last instruction up to it that is not executed too often, and then step by step. */
static void run_to_instruction(pid_t child, unsigned instruction)
{
  unsigned i = instruction;
  while (i && is_in_loop(i))
    i--;
  if (i)
    run_to(child, seen.pc[i], seen.before[i] + 1);
  for (; i < instruction; i++)
    assert_true(step(child, PTRACE_SINGLESTEP));
  assert_int_equal(pc_of(child), seen.pc[instruction]);
}

static void kill_at(enum call call, unsigned instruction, bool thorough)
{
  restore_file();
  tamis_filter *a = call == OPEN ? NULL : open_shared(NULL);
  pid_t child = start(call, a);
  run_to_instruction(child, instruction);
  kill_child(child);
  check(call, a, thorough);
  tamis_destroy(a);
}

static bool is_near_change(unsigned instruction)
{
  for (unsigned i = 0; i < seen.changes; i++)
    if (instruction + 2 >= seen.at[i] && instruction <= seen.at[i] + 2)
      return true;
  return false;
}

/* Kills children at all instructions of the call, or at those around each change and some others. */
static void kill_everywhere(enum call call)
{
  if (!find_changes(call))
    skip();
  const unsigned stride = 1 + seen.instructions / MOST_KILLS;
  unsigned killed = 0;
  for (unsigned i = 0; i < seen.instructions; i++)
    if ((i % stride == 0 && !is_in_loop(i)) || (seen.changes < 100 && is_near_change(i)))
      kill_at(call, i, killed++ % 16 == 0);
  print_message("%u instructions, of which %u change the file; %u were killed\n", seen.instructions,
                seen.changes, killed);
  assert_true(killed > 20);
}

/* Where the child is killed: after so many stops at system calls, and then so many instructions.
 * False: it has ended before. */
static bool kill_opener(enum call call, tamis_filter *f, unsigned stops, unsigned instructions)
{
  pid_t child = start_child(call, f);
  bool lives = true;
  for (unsigned i = 0; i < stops && lives; i++)
    lives = step(child, PTRACE_SYSCALL) && !told->ended;
  for (unsigned i = 0; i < instructions && lives; i++)
    lives = step(child, PTRACE_SINGLESTEP) && !told->ended;
  kill_child(child);
  return lives;
}

static int begin_test(void **state)
{
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return told == MAP_FAILED ? -1 : set_up(state);
}

static int end_test(void **state)
{
  alarm(0);
  forget_file();
  munmap(told, sizeof *told);
  return tear_down(state);
}

/* ---- the situations ---- */

enum kind { FIXED, GROWS, WINDOW, CUCKOO };

struct situation {
  const char *name;
  enum call call;
  tamis_layout layout;
  enum kind kind;
  uint64_t capacity;
  void (*fill)(const struct situation *s); /* and remembers the file */
  uint64_t n;                              /* keys, of a period in a window; or periods */
  unsigned
      copies;     /* in a cuckoo filter: of the child's key, which is the first one; 0: a new key */
  bool synced;    /* the file is */
  size_t figure;  /* that the call raises */
  size_t boot_at; /* the machine has been started since: its number in the file */
};

static void begin(const struct situation *s)
{
  alarm(600);
  unlink(shared_path);
  options = shared_options(s->layout, s->kind == GROWS);
  options.capacity = s->capacity;
  options.max_bytes = s->kind == GROWS ? 60000 : 0;
  options.seed = 12345;
  if (s->kind >= WINDOW)
    options.stripes = 4;
  if (s->kind == WINDOW) {
    options.window = PERIODS;
    options.fpp = 0.01;
  }
  if (s->kind == CUCKOO) {
    options.kind = TAMIS_CUCKOO;
    options.fpp = 1e-6; /* no key is taken for another one */
  }
  may_be_full = false;
  keys = keys_before = coming = 0;
  keys_with_copies = s->n;
  copies_of_key = 0;
}

static void add_keys(tamis_filter *f, uint64_t n)
{
  for (; n; n--, keys++) {
    assert_true(tamis_add_unique_hash(f, hash_of(keys)) >= TAMIS_OK);
    added_in[keys] = period_of(f);
  }
  key = keys;
}

/* Of four periods of a window, the last two and the running one are remembered. */
static tamis_filter *fill_all(const struct situation *s)
{
  begin(s);
  tamis_filter *f = open_shared(&options);
  for (unsigned period = 0; period < (s->kind == WINDOW ? 4 : 1); period++) {
    if (period)
      assert_int_equal(tamis_advance(f), TAMIS_OK);
    add_keys(f, s->n);
  }
  key = s->copies ? 0 : keys;
  copies_of_key = s->copies;
  for (uint64_t i = 0; i < keys && s->kind == CUCKOO; i++)
    for (unsigned copies = 1; copies < copies_of(i); copies++)
      assert_int_equal(tamis_add_hash(f, hash_of(i)), TAMIS_OK);
  return f;
}

static void fill(const struct situation *s)
{
  tamis_filter *f = fill_all(s);
  if (s->synced)
    assert_int_equal(tamis_sync(f), TAMIS_OK);
  tamis_destroy(f);
  remember_file();
}

/* The child's is the first key that raises a figure from 0: of it, the file knows nothing. */
static void fill_until(const struct situation *s)
{
  tamis_filter *f = fill_all(s);
  tamis_stats stats;
  uint64_t raised;
  do {
    remember_file();
    (void) tamis_add_unique_hash(f, hash_of(keys));
    added_in[keys++] = period_of(f);
    stats = stats_of(f);
    memcpy(&raised, (const char *) &stats + s->figure, sizeof raised);
    assert_true(keys < 500);
  } while (!raised);
  key = --keys;
  may_be_full = !stats.growths;
  tamis_destroy(f);
}

/* The child adds a key of the period before. */
static void fill_and_renew(const struct situation *s)
{
  fill(s);
  key = 45;
}

/* The child ends two periods, or more than are remembered. */
static void fill_and_jump(const struct situation *s)
{
  fill(s);
  coming = 3 + (s->n > 20 ? 2 * PERIODS : 2);
  keys_before = keys;
}

static void kill_anywhere(void **state)
{
  const struct situation *s = *state;
  s->fill(s);
  kill_everywhere(s->call);
}

/* ---- at system calls ---- */

static void kill_at_system_calls(void **state)
{
  const struct situation *s = *state;
  unsigned stops = 0;
  s->fill(s);
  if (s->boot_at)
    file.bytes[4096 + s->boot_at] ^= 2;
  for (bool lives = true; lives; stops++) {
    restore_file();
    tamis_filter *a = s->call == OPEN ? NULL : open_shared(NULL);
    lives = kill_opener(s->call, a, stops, stops % 3);
    check(s->call, a, stops % 8 == 0);
    tamis_destroy(a);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
  if (s->boot_at && s->kind < WINDOW) /* then the file is changed under a lock */
    kill_everywhere(s->call);
}

static void check_creation(bool empty)
{
  tamis_filter *f = NULL;
  struct stat status;
  const bool named = stat(shared_path, &status) == 0;
  int result = tamis_load_file(NULL, shared_path, &f);
  if (result == TAMIS_OK)
    assert_valid(f);
  else
    assert_int_equal(result, named && empty ? TAMIS_ECORRUPT : TAMIS_EIO);
  tamis_destroy(f);
  result = tamis_open_shared(NULL, shared_path, &f); /* whole, or not there */
  assert_true(result == TAMIS_OK || (result == TAMIS_EIO && errno == ENOENT));
  tamis_filter *a = open_shared(&options);
  assert_int_equal(stats_of(a).count + stats_of(a).bits_set, 0);
  tamis_destroy(f);
  told->result = NOTHING_YET;
  check(CREATE, a, false);
  tamis_destroy(a);
  assert_in_range(count_files(false), 1, 2);
  assert_int_equal(unlink(shared_path), 0); /* the next creator removes what was left */
  tamis_destroy(open_shared(&options));
  assert_int_equal(count_files(false), 1);
}

static void kill_creators(const struct situation *s, bool empty)
{
  unsigned stops = 0;
  begin(s);
  key = 7;
  for (bool lives = true; lives; stops++) {
    unlink(shared_path);
    if (empty)
      close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
    lives = kill_opener(CREATE, NULL, stops, stops % 3);
    check_creation(empty);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void a_creation(void **state)
{
  kill_creators(*state, false);
}

static void a_creation_in_place(void **state)
{
  kill_creators(*state, true);
}

#define BLOCKED TAMIS_LAYOUT_BLOCKED
#define BOOT_OF_A_WINDOW offsetof(struct window_state, boot)
#define UNTIL(name) fill_until, .figure = offsetof(tamis_stats, name)

/* FAR: so many keys that an add does not sum the counters up. */
static const struct situation situations[] = {
    {"an_add", ADD, BLOCKED, FIXED, FAR, fill, .n = 20},
    {"a_unique_add", ADD_UNIQUE, BLOCKED, FIXED, FAR, fill, .n = 20},
    {"a_unique_add_to_words", ADD_UNIQUE, TAMIS_LAYOUT_WORD, FIXED, FAR, fill, .n = 20},
    {"a_unique_add_that_may_grow", ADD_UNIQUE, TAMIS_LAYOUT_CLASSIC, GROWS, FAR, fill, .n = 20},
    {"a_unique_add_to_a_second_layer", ADD_UNIQUE, BLOCKED, GROWS, 50, fill, .n = 80},
    {"an_opening_of_a_layer", ADD_UNIQUE, BLOCKED, GROWS, 50, UNTIL(growths)},
    {"the_first_refusal", ADD_UNIQUE, BLOCKED, FIXED, 50, UNTIL(refused_adds)},
    {"the_first_refusal_of_words", ADD_UNIQUE, TAMIS_LAYOUT_WORD, FIXED, 50, UNTIL(refused_adds)},
    {"an_add_to_a_window", ADD, BLOCKED, WINDOW, 1000, fill, .n = 20},
    {"a_unique_add_to_a_window", ADD_UNIQUE, BLOCKED, WINDOW, 1000, fill, .n = 20},
    {"a_brief_add_to_a_window", ADD_BRIEFLY, BLOCKED, WINDOW, 1000, fill, .n = 20},
    {"an_add_that_renews", ADD, BLOCKED, WINDOW, 1000, fill_and_renew, .n = 20},
    {"an_add_that_moves", ADD_UNIQUE, BLOCKED, WINDOW, 120, UNTIL(evictions), .n = 10},
    {"the_end_of_a_period", ADVANCE, BLOCKED, WINDOW, 120, fill, .n = 20},
    {"two_periods_that_end", JUMP, BLOCKED, WINDOW, 120, fill_and_jump, .n = 20},
    {"many_periods_that_end", JUMP, BLOCKED, WINDOW, 120, fill_and_jump, .n = 21},
    {"an_add_to_a_cuckoo_filter", ADD, BLOCKED, CUCKOO, 1000, fill, .n = 20},
    {"an_add_of_a_copy", ADD, BLOCKED, CUCKOO, 1000, fill, .n = 20, .copies = 3},
    {"an_add_of_a_copy_too_many", ADD, BLOCKED, CUCKOO, 1000, fill, .n = 20,
     .copies = COUNTED_COPIES},
    {"a_unique_add_to_a_cuckoo_filter", ADD_UNIQUE, BLOCKED, CUCKOO, 1000, fill, .n = 20},
    {"an_add_that_moves_copies", ADD_UNIQUE, BLOCKED, CUCKOO, 120, UNTIL(evictions), .n = 60},
    {"a_remove_of_a_copy", REMOVE, BLOCKED, CUCKOO, 1000, fill, .n = 20, .copies = 3},
    {"a_remove_of_the_last_copy", REMOVE, BLOCKED, CUCKOO, 1000, fill, .n = 20, .copies = 1},
};

static const struct situation at_system_calls[] = {
    {"an_opening", OPEN, BLOCKED, GROWS, 50, fill, .n = 80},
    {"an_opening_that_counts_again", OPEN, BLOCKED, GROWS, 50, fill, .n = 80,
     .boot_at = 16 /* a tally */},
    {"an_opening_of_a_window", OPEN, BLOCKED, WINDOW, 120, fill, .n = 20},
    {"an_opening_that_mends", OPEN, BLOCKED, WINDOW, 120, fill, .n = 20, .synced = true,
     .boot_at = BOOT_OF_A_WINDOW},
    {"a_checkpoint", SYNC, BLOCKED, WINDOW, 120, fill, .n = 20, .synced = true},
    {"an_opening_that_mends_copies", OPEN, BLOCKED, CUCKOO, 120, fill, .n = 20, .synced = true,
     .boot_at = BOOT_OF_A_WINDOW},
    {"a_checkpoint_of_copies", SYNC, BLOCKED, CUCKOO, 120, fill, .n = 20, .synced = true},
};

static const struct situation creations[] = {
    {"a_creation", CREATE, BLOCKED, GROWS, 50, NULL, .n = 0},
    {"a_creation_of_a_window", CREATE, BLOCKED, WINDOW, 120, NULL, .n = 0},
    {"a_creation_of_a_cuckoo_filter", CREATE, BLOCKED, CUCKOO, 120, NULL, .n = 0},
};

static void list_all(const struct situation *s, size_t n, CMUnitTestFunction test, const char *name)
{
  for (; n; n--, s++)
    list_test((struct CMUnitTest){name ? name : s->name, test, begin_test, end_test, (void *) s});
}

int main(void)
{
  list_all(situations, sizeof situations / sizeof *situations, kill_anywhere, NULL);
  list_all(at_system_calls, sizeof at_system_calls / sizeof *at_system_calls, kill_at_system_calls,
           NULL);
  list_all(creations, sizeof creations / sizeof *creations, a_creation, NULL);
  list_all(creations, sizeof creations / sizeof *creations, a_creation_in_place,
           "a_creation_in_place");
  return run_all_tests();
}
