/* SPDX-License-Identifier: MIT
 *
 * A clean end by a signal.  SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the unfinished output file
 * and the progress line.  Then the process ends by that same signal, so that a shell knows it.  A
 * signal that was ignored when the program started, as SIGHUP is under nohup, stays ignored.
 *
 * The main thread alone receives these signals.  It is also the only one that draws, so nothing is
 * drawn after the line has been removed.
 */
#ifndef TAMIS_TOOL_INTERRUPT_H
#define TAMIS_TOOL_INTERRUPT_H

#include "base/file.h"

#include <signal.h>
#include <stdbool.h>

void interrupt_init(void);

/* From now on the first SIGINT, SIGTERM or SIGHUP only asks the run to end: it makes the descriptor
 * that is returned readable.  The second one ends the process at once, as SIGQUIT does.  -1 with
 * errno set: there is no descriptor, and nothing has changed. */
int interrupt_be_gentle(void);

/* Ends the process, by that signal, if one has asked for it. */
void interrupt_end_if_asked(void);

/* Whether a closed pipe ends the process, as it does by default.  False: SIGPIPE was ignored when
 * the program started, so a closed pipe is an error to report. */
bool interrupt_by_closed_pipe(void);

/* Cleans up, and ends the process by SIGPIPE.  Any thread may call it. */
_Noreturn void interrupt_end_by_closed_pipe(void);

/* Names the new file to remove, or none if NULL.  The caller keeps the struct alive, and holds the
 * signals off while it changes. */
void interrupt_set_file(const struct new_file *file);

/* Says whether a progress line is on the terminal. */
void interrupt_set_drawn(bool drawn);

/* Holds the signals off in this thread, and in those that it starts; restores what was before. */
void interrupt_hold(sigset_t *before);
void interrupt_restore(const sigset_t *before);

#endif
