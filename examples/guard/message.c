/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

void say(const char *format, ...)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static char last[1024];
  static int64_t last_at = NEVER;
  char text[sizeof last];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  /* Messages of libpq end in a newline, and may have several lines. */
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == '\n')
    text[--length] = 0;
  for (char *newline = text; (newline = strchr(newline, '\n')) != NULL;)
    *newline = ' ';
  pthread_mutex_lock(&mutex);
  int64_t now = now_ms();
  if (strcmp(text, last) != 0 || now - last_at >= 10000) {
    fprintf(stderr, "guard: %s\n", text);
    memcpy(last, text, sizeof last);
    last_at = now;
  }
  pthread_mutex_unlock(&mutex);
}
