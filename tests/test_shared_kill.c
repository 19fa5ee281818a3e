/* SPDX-License-Identifier: MIT
 *
 * Processes that are killed while they call a filter that they share: at every instruction of an add,
 * around each change of an opening of a layer and of a refusal, and at every system call of an opening
 * and a creation, between which the file does not change.
 *
 * A child stops before its call, and the parent lets it execute so many instructions of it, one by
 * one, and kills it.  The parent then checks with handles of its own, opened before and after that:
 *
 *    - all keys that had been added are in, and the child's if it has been told so;
 *    - the child's key has at most one winner, of the child and those who add it after its death:
 *      exactly one if it was not in when the child died;
 *    - further keys are added, also into a further layer, and have one winner;
 *    - the file loads, and what is loaded is valid;
 *    - nobody waits: an alarm ends a test that does.
 *
 * A first child executes all of the call, step by step, and shows which instructions there are, and
 * which of them change the file.  A child that is to be killed runs to a breakpoint.  If there are too
 * many instructions to be killed at each of them, children are killed at those around each change, and
 * at some of the others.  (Between two changes, nothing that outlives a process depends on where it
 * was: it has no lock but while it creates a file.)
 */
#include "shared_unit.h"

#include "base/saved.h"
#include "base/shared_file.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

/* ---- the child ---- */

enum call { ADD, ADD_UNIQUE, OPEN, CREATE };
enum { NOTHING_YET = 1000 };

/* What the child has been told. */
struct told {
  volatile int result;
  volatile bool ended;
};
static struct told *told;

static tamis_options options;
static uint64_t key; /* of the child */

static void run_call(enum call call, tamis_filter *f)
{
  int result = TAMIS_OK;
  if (call == ADD)
    result = tamis_add_hash(f, hash_of(key));
  else if (call == ADD_UNIQUE)
    result = tamis_add_unique_hash(f, hash_of(key));
  else
    result = tamis_open_shared(call == CREATE ? &options : NULL, shared_path, &f);
  told->result = result;
  told->ended = true;
  _exit(0);
}

/* The child is stopped right before its call.  0: the system does not let us. */
static pid_t start_child(enum call call, tamis_filter *f)
{
  told->result = NOTHING_YET;
  told->ended = false;
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
      _exit(1);
    raise(SIGSTOP);
    run_call(call, f);
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
  return registers.orig_rax == SYS_fcntl && registers.rsi == F_OFD_SETLKW;
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

/* ---- what must hold after a death ---- */

static uint64_t keys_before; /* that have been added: their numbers begin at 0 */
static bool may_be_full;

static bool is_in(const tamis_filter *f)
{
  return tamis_contains_hash(f, hash_of(key));
}

static void assert_has_all(const tamis_filter *f, bool childs)
{
  for (uint64_t i = 0; i < keys_before; i++)
    assert_true(tamis_contains_hash(f, hash_of(i)));
  assert_true(!childs || is_in(f));
  assert_valid(f);
}

static void check_key(enum call call, tamis_filter *a, tamis_filter *b)
{
  const bool in = is_in(a);
  int first = tamis_add_unique_hash(a, hash_of(key)),
      second = tamis_add_unique_hash(b, hash_of(key));
  int winners =
      (call == ADD_UNIQUE && told->result == TAMIS_OK) + (first == TAMIS_OK) + (second == TAMIS_OK);
  assert_true(winners <= 1);
  if (told->result == TAMIS_EFULL) /* final, unless it is a false positive by now */
    assert_true(first == TAMIS_EFULL || (in && first == TAMIS_PRESENT));
  if (first == TAMIS_EFULL)
    assert_int_equal(second, TAMIS_EFULL);
  else
    assert_true(first == (in ? TAMIS_PRESENT : TAMIS_OK) && second == TAMIS_PRESENT);
  assert_true(may_be_full || first != TAMIS_EFULL);
}

/* Of many keys each has one winner at most, and nearly all have one. */
static void check_further(tamis_filter *a, tamis_filter *b, uint64_t n)
{
  uint64_t winners = 0, refused = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t hash = hash_of(1000000 + i);
    int first = tamis_add_unique_hash(i % 2 ? a : b, hash);
    int second = tamis_add_unique_hash(i % 2 ? b : a, hash);
    refused += first == TAMIS_EFULL;
    assert_true(first == TAMIS_EFULL ? second == TAMIS_EFULL : second == TAMIS_PRESENT);
    winners += first == TAMIS_OK;
  }
  if (!may_be_full)
    assert_in_range(winners, n - 1 - n / 50, n);
}

static void check_load(bool childs)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
  assert_has_all(f, childs);
  tamis_destroy(f);
}

static void check(enum call call, tamis_filter *a, uint64_t further)
{
  const bool childs = (call == ADD || call == ADD_UNIQUE) &&
                      (told->result == TAMIS_OK || told->result == TAMIS_PRESENT);
  check_load(childs);
  tamis_filter *b = open_shared(NULL);
  assert_has_all(a ? a : b, childs);
  check_key(call, a ? a : b, b);
  check_further(a ? a : b, b, further);
  assert_has_all(b, childs);
  tamis_destroy(b);
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

static void kill_at(enum call call, unsigned instruction, uint64_t further)
{
  restore_file();
  tamis_filter *a = call == OPEN ? NULL : open_shared(NULL);
  pid_t child = start(call, a);
  run_to_instruction(child, instruction);
  kill_child(child);
  check(call, a, further);
  tamis_destroy(a);
}

static bool is_near_change(unsigned instruction)
{
  for (unsigned i = 0; i < seen.changes; i++)
    if (instruction + 2 >= seen.at[i] && instruction <= seen.at[i] + 2)
      return true;
  return false;
}

/* Kills children at all instructions of the call, or at those around each change and some others.
 * Each 16th time `many` further keys are added. */
static void kill_everywhere(enum call call, uint64_t many)
{
  if (!find_changes(call))
    skip();
  const unsigned stride = 1 + seen.instructions / MOST_KILLS;
  unsigned killed = 0;
  for (unsigned i = 0; i < seen.instructions; i++)
    if ((i % stride == 0 && !is_in_loop(i)) || (seen.changes < 100 && is_near_change(i)))
      kill_at(call, i, killed++ % 16 ? 20 : many);
  print_message("%u instructions, of which %u change the file; %u were killed\n", seen.instructions,
                seen.changes, killed);
  assert_true(killed > 20);
}

/* ---- the situations ---- */

enum { FAR = 5000 }; /* so many keys that an add does not sum the counters up */

static void begin(tamis_layout layout, bool growable, uint64_t capacity)
{
  alarm(600);
  unlink(shared_path);
  options = shared_options(layout, growable);
  options.capacity = capacity;
  options.max_bytes = growable ? 60000 : 0;
  options.seed = 12345;
  may_be_full = false;
}

/* Adds keys until the next one would do something that the figures show. */
static void add_until(bool (*done)(const tamis_stats *), uint64_t most)
{
  tamis_filter *f = open_shared(&options);
  remember_file();
  for (keys_before = 0; keys_before < most; keys_before++) {
    (void) tamis_add_unique_hash(f, hash_of(keys_before));
    tamis_stats s = stats_of(f);
    if (done && done(&s))
      break;
    remember_file();
  }
  key = keys_before;
  assert_true(!done || keys_before < most);
  tamis_destroy(f);
}

static bool has_grown(const tamis_stats *s)
{
  return s->layers > 1;
}

static bool has_refused(const tamis_stats *s)
{
  return s->refused_adds > 0;
}

static void an_add(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD, 50);
}

static void a_unique_add(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 50);
}

static void a_unique_add_to_words(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_WORD, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 50);
}

static void a_unique_add_that_may_grow(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_CLASSIC, true, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 1000);
}

static void a_unique_add_to_a_second_layer(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  kill_everywhere(ADD_UNIQUE, 200);
}

static void an_opening_of_a_layer(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(has_grown, 100);
  kill_everywhere(ADD_UNIQUE, 200);
}

static void the_first_refusal(void **state)
{
  (void) state;
  for (unsigned layout = 0; layout < 3; layout += 2) {
    begin((tamis_layout) layout, false, 50);
    add_until(has_refused, 100);
    may_be_full = true;
    kill_everywhere(ADD_UNIQUE, 50);
  }
}

/* ---- openings ---- */

/* Where the child is killed: after so many stops at system calls, and then so many instructions.
 * False: it has ended before. */
static bool kill_opener(enum call call, unsigned stops, unsigned instructions)
{
  pid_t child = start_child(call, NULL);
  bool lives = true;
  for (unsigned i = 0; i < stops && lives; i++)
    lives = step(child, PTRACE_SYSCALL) && !told->ended;
  for (unsigned i = 0; i < instructions && lives; i++)
    lives = step(child, PTRACE_SINGLESTEP) && !told->ended;
  kill_child(child);
  return lives;
}

static void kill_openers(void)
{
  pid_t child = start_child(OPEN, NULL);
  if (!child)
    skip();
  kill_child(child);
  unsigned stops = 0;
  for (bool lives = true; lives; stops++) {
    restore_file();
    lives = kill_opener(OPEN, stops, stops % 3);
    check(OPEN, NULL, stops % 8 ? 20 : 200);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void an_opening(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  kill_openers();
}

/* When the machine has been started since: then the file is changed under a lock. */
static void an_opening_that_counts_again(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  file.bytes[4096 + 16] ^= 2; /* the boot, in the first tally */
  kill_openers();
  kill_everywhere(OPEN, 200);
}

/* ---- creations ---- */

static void check_creation(bool empty)
{
  tamis_filter *a = NULL, *f = NULL;
  struct stat status;
  bool named = stat(shared_path, &status) == 0;
  int result = tamis_load_file(NULL, shared_path, &f);
  if (result == TAMIS_OK)
    assert_valid(f);
  else
    assert_int_equal(result, named && empty ? TAMIS_ECORRUPT : TAMIS_EIO);
  tamis_destroy(f);
  result = tamis_open_shared(NULL, shared_path, &f); /* whole, or not there */
  assert_true(result == TAMIS_OK || (result == TAMIS_EIO && errno == ENOENT));
  a = open_shared(&options);
  if (f)
    assert_int_equal(stats_of(a).bits_set, 0);
  tamis_destroy(f);
  f = open_shared(NULL);
  keys_before = 0;
  told->result = NOTHING_YET;
  check_key(CREATE, a, f);
  check_further(a, f, 20);
  check_load(true);
  tamis_destroy(a);
  tamis_destroy(f);
  assert_in_range(count_files(false), 1, 2);
  assert_int_equal(unlink(shared_path), 0); /* the next creator removes what was left */
  tamis_destroy(open_shared(&options));
  assert_int_equal(count_files(false), 1);
}

static void make_empty(bool empty)
{
  unlink(shared_path);
  if (empty)
    close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
}

static void kill_creators(bool empty)
{
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  make_empty(empty);
  pid_t child = start_child(CREATE, NULL);
  if (!child)
    skip();
  kill_child(child);
  unsigned stops = 0;
  for (bool lives = true; lives; stops++) {
    make_empty(empty);
    lives = kill_opener(CREATE, stops, stops % 3);
    check_creation(empty);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void a_creation(void **state)
{
  (void) state;
  kill_creators(false);
}

static void a_creation_in_place(void **state)
{
  (void) state;
  kill_creators(true);
}

/* ---- all ---- */

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

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(an_add),
      TEST(a_unique_add),
      TEST(a_unique_add_to_words),
      TEST(a_unique_add_that_may_grow),
      TEST(a_unique_add_to_a_second_layer),
      TEST(an_opening_of_a_layer),
      TEST(the_first_refusal),
      TEST(an_opening),
      TEST(an_opening_that_counts_again),
      TEST(a_creation),
      TEST(a_creation_in_place),
  };
  in_memory = true;
  return cmocka_run_group_tests_name("shared_kill", tests, NULL, NULL);
}
