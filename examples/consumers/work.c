/* SPDX-License-Identifier: MIT
 *
 * Work that can be counted.  A message's body says how many milliseconds it takes.  Its effect is a
 * line in a file, "SECONDS PROCESS THREAD ID", which a killed process leaves behind: what was lost,
 * and what was worked twice, can be read there.
 *
 * The line is not synchronised: it survives the process and not a power failure.
 */
#include "work.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int effects = -1;
static const char *effects_path;
static _Atomic double complained;

bool work_open(const char *path)
{
  effects_path = path;
  effects = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (effects < 0)
    say("cannot open %s: %s", path, strerror(errno));
  return effects >= 0;
}

bool work_close(void)
{
  if (effects < 0 || close(effects) == 0)
    return true;
  say("cannot close %s: %s", effects_path, strerror(errno));
  return false;
}

static void take_time(const void *body, size_t len)
{
  char text[16];
  snprintf(text, sizeof text, "%.*s", (int) (len < sizeof text ? len : sizeof text - 1),
           (const char *) body);
  long milliseconds = strtol(text, NULL, 10);
  if (milliseconds <= 0)
    return;
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    ;
}

bool work(unsigned thread, const void *id, size_t id_len, const void *body, size_t len)
{
  char line[512];
  take_time(body, len);
  /* One write for each line: O_APPEND keeps the lines of several threads and processes apart.  The
   * newline comes first, so that a line that a full disk has cut off does not spoil the next one.
   */
  int size = snprintf(line, sizeof line, "\n%.6f %d %u %.*s", seconds_now(), (int) getpid(), thread,
                      (int) id_len, (const char *) id);
  if (size >= (int) sizeof line)
    size = (int) sizeof line - 1; /* message ids have at most 255 bytes */
  ssize_t written = write(effects, line, (size_t) size);
  if (written == size)
    return true;
  int error = written < 0 ? errno : ENOSPC;
  if (may_complain(&complained))
    say("cannot write to %s: %s; messages wait until it works", effects_path, strerror(error));
  return false;
}
