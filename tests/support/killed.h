/* SPDX-License-Identifier: MIT
 *
 * Processes that are killed while they make a call on a filter that they share.
 *
 * A child stops before its call, and the parent lets it execute so many instructions of it, one by
 * one, and kills it.  Then the test checks what must hold.
 *
 * A first child executes all of the call, step by step, and shows which instructions there are, and
 * which of them change the file.  A child that is to be killed runs to a breakpoint.  If there are too
 * many instructions to be killed at each of them, children are killed at those around each change, and
 * at some of the others.  (Between two changes, nothing that outlives a process depends on where it
 * was.)
 */
#ifndef TAMIS_TESTS_KILLED_H
#define TAMIS_TESTS_KILLED_H

#include "shared_unit.h"

#include "window/table.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

/* ---- the child ---- */

enum call { ADD, ADD_UNIQUE, OPEN, CREATE, ADVANCE, JUMP, SYNC };
enum { NOTHING_YET = 1000 };

/* What the child has been told. */
struct told {
  volatile int result;
  volatile bool ended;
};
static struct told *told;

/* The test's: makes the call. */
static int run_call(enum call call, tamis_filter *f);

/* Also the test's: what must hold after a death, for one with a handle that was opened before it, or
 * NULL; `further` keys are added. */
static void check(enum call call, tamis_filter *a, uint64_t further);

/* The child has a name for its locks before its call, which is a window's matter. */
static inline void get_ready(tamis_filter *f)
{
  if (f && operations_of(f)->kind->advance)
    assert_int_equal(window_join(window_of(f)), TAMIS_OK);
}

/* The child is stopped right before its call, and runs the same code whoever has started it.  0: the system does not let us. */
static __attribute__((noinline)) pid_t start_child(enum call call, tamis_filter *f)
{
  told->result = NOTHING_YET;
  told->ended = false;
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
      _exit(1);
    get_ready(f);
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
static inline bool step(pid_t child, int request)
{
  int status;
  assert_int_equal(ptrace((enum __ptrace_request) request, child, NULL, NULL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSTOPPED(status);
}

static inline bool is_at_lock(pid_t child)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  return registers.orig_rax == SYS_fcntl && registers.rsi == F_OFD_SETLK;
}

/* Starts a child, which stops before the call, or where an opening has taken a lock. */
static inline pid_t start(enum call call, tamis_filter *f)
{
  pid_t child = start_child(call, f);
  while (child && call == OPEN && !is_at_lock(child))
    assert_true(step(child, PTRACE_SYSCALL));
  return child;
}

static inline void kill_child(pid_t child)
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

static inline size_t used_bytes(const unsigned char *bytes, size_t size)
{
  while (size && !bytes[size - 1])
    size--;
  return size;
}

/* Remembers what is in the file. */
static inline void remember_file(void)
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
static inline void restore_file(void)
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

static inline void forget_file(void)
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

static inline uint64_t pc_of(pid_t child)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  return registers.rip;
}

static inline void go_back_to(pid_t child, uint64_t pc)
{
  struct user_regs_struct registers;
  assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &registers), 0);
  assert_int_equal(registers.rip, pc + 1);
  registers.rip = pc;
  assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, &registers), 0);
}

/* Notes where the child is before its next instruction. */
static inline void note_instruction(pid_t child)
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

static inline void note_change(unsigned char *last)
{
  const size_t size = file.used + 4096 < file.size ? file.used + 4096 : file.size;
  if (!memcmp(file.now, last, size))
    return;
  memcpy(last, file.now, size);
  assert_true(seen.changes < MOST_CHANGES);
  seen.at[seen.changes++] = seen.instructions;
}

/* Lets a child execute all of it.  False: it cannot be traced. */
static inline bool find_changes(enum call call)
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
static inline void run_to(pid_t child, uint64_t pc, unsigned n)
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
static inline bool is_in_loop(unsigned instruction)
{
  return seen.before[instruction] >= MOST_HITS;
}

/* To the last instruction up to it that is not executed too often, and then step by step. */
static inline void run_to_instruction(pid_t child, unsigned instruction)
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

static inline void kill_at(enum call call, unsigned instruction, uint64_t further)
{
  restore_file();
  tamis_filter *a = call == OPEN ? NULL : open_shared(NULL);
  pid_t child = start(call, a);
  run_to_instruction(child, instruction);
  kill_child(child);
  check(call, a, further);
  tamis_destroy(a);
}

static inline bool is_near_change(unsigned instruction)
{
  for (unsigned i = 0; i < seen.changes; i++)
    if (instruction + 2 >= seen.at[i] && instruction <= seen.at[i] + 2)
      return true;
  return false;
}

/* Kills children at all instructions of the call, or at those around each change and some others.
 * Each 16th time `many` further keys are added. */
static inline void kill_everywhere(enum call call, uint64_t many)
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

/* ---- openings, at system calls ---- */

/* Where the child is killed: after so many stops at system calls, and then so many instructions.
 * False: it has ended before. */
static inline bool kill_opener(enum call call, tamis_filter *f, unsigned stops,
                               unsigned instructions)
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

/* ---- all ---- */

static inline int begin_test(void **state)
{
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return told == MAP_FAILED ? -1 : set_up(state);
}

static inline int end_test(void **state)
{
  alarm(0);
  forget_file();
  munmap(told, sizeof *told);
  return tear_down(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)

#endif
