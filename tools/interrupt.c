/* SPDX-License-Identifier: MIT */
#include "interrupt.h"

#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDING = sizeof ending / sizeof ending[0] };

/* Lock-free atomics may be read in a signal handler. */
static _Atomic(const struct new_file *) unfinished;
static atomic_bool line_drawn;
static bool pipe_ends;
static atomic_int ask_end = -1; /* of the pipe that tells the run to end; -1: signals end it */
static atomic_int asked_by;     /* the signal that has asked for it, or 0 */

/* Makes only calls that are allowed in a signal handler. */
static void clean_up(void)
{
  const struct new_file *file = atomic_load(&unfinished);
  if (file != NULL && file->beside[0] != '\0')
    unlinkat(file->folder, file->beside, 0);
  if (atomic_load(&line_drawn) &&
      write(STDERR_FILENO, PROGRESS_ERASE, sizeof PROGRESS_ERASE - 1) < 0)
    return; /* the terminal is gone */
}

static void handle_with(int number, void (*handler)(int number))
{
  struct sigaction action = {.sa_flags = (int) (SA_RESETHAND | SA_RESTART)};
  action.sa_handler = handler;
  for (int i = 0; i < ENDING; i++)
    sigaddset(&action.sa_mask, ending[i]);
  sigaction(number, &action, NULL);
}

/* The default action is in force again (SA_RESETHAND), and is taken when the handler returns. */
static void handle(int number)
{
  int error = errno, first = 0;
  if (number != SIGQUIT && atomic_load(&ask_end) >= 0 &&
      atomic_compare_exchange_strong(&asked_by, &first, number)) {
    handle_with(number, handle);
    if (write(atomic_load(&ask_end), "", 1) == 1) {
      errno = error;
      return;
    }
  }
  clean_up();
  raise(number);
}

static void handle_unless_ignored(int number)
{
  struct sigaction before;
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
    handle_with(number, handle);
}

int interrupt_be_gentle(void)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return -1;
  atomic_store(&ask_end, ends[1]);
  return ends[0];
}

void interrupt_end_if_asked(void)
{
  int number = atomic_load(&asked_by);
  if (number == 0)
    return;
  clean_up();
  signal(number, SIG_DFL);
  raise(number);
}

void interrupt_init(void)
{
  /* A write to a closed pipe returns EPIPE, so that no thread dies with work to clean up. */
  pipe_ends = signal(SIGPIPE, SIG_IGN) != SIG_IGN;
  /* A limit on the size of files is an error to report; it should not kill the process. */
  signal(SIGXFSZ, SIG_IGN);
  /* Where the parent process ignores it, children could not be waited for. */
  signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < ENDING; i++)
    handle_unless_ignored(ending[i]);
}

bool interrupt_by_closed_pipe(void)
{
  return pipe_ends;
}

_Noreturn void interrupt_end_by_closed_pipe(void)
{
  flockfile(stderr); /* the main thread draws no more */
  clean_up();
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  _exit(EXIT_FAILURE); /* if the signal is blocked */
}

void interrupt_set_file(const struct new_file *file)
{
  atomic_store(&unfinished, file);
}

void interrupt_set_drawn(bool drawn)
{
  atomic_store(&line_drawn, drawn);
}

void interrupt_hold(sigset_t *before)
{
  sigset_t held;
  sigemptyset(&held);
  for (int i = 0; i < ENDING; i++)
    sigaddset(&held, ending[i]);
  pthread_sigmask(SIG_BLOCK, &held, before);
}

void interrupt_restore(const sigset_t *before)
{
  pthread_sigmask(SIG_SETMASK, before, NULL);
}
