/* SPDX-License-Identifier: MIT
 *
 * A program with four threads that share a filter with other processes.  Each thread adds all tokens
 * that come, one a line.  For each token the program prints a digit: how many of its threads were
 * told that the token was new.
 *
 *     demo-threads FILE
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tamis/tamis.h>

enum { THREADS = 4 };

static tamis_filter *filter;
static tamis_key *tokens;
static atomic_uchar *winners; /* relaxed: it is read when the threads have been joined */
static size_t count;
static atomic_bool failed;

static void *add_all(void *unused)
{
  (void) unused;
  for (size_t i = 0; i < count; i++) {
    int result = tamis_add_unique(filter, tokens[i].data, tokens[i].len);
    if (result == TAMIS_OK)
      atomic_fetch_add_explicit(&winners[i], 1, memory_order_relaxed);
    else if (result < 0)
      atomic_store_explicit(&failed, true, memory_order_relaxed);
  }
  return NULL;
}

static void read_tokens(void)
{
  char *line = NULL;
  size_t size = 0, room = 0;
  for (ssize_t length; (length = getline(&line, &size, stdin)) > 0; count++) {
    if (count == room) {
      room = room ? 2 * room : 1024;
      tokens = realloc(tokens, room * sizeof *tokens);
      if (!tokens)
        exit(1);
    }
    size_t len = (size_t) length - (line[length - 1] == '\n');
    tokens[count] = (tamis_key){memcpy(malloc(len + 1), line, len), len};
  }
}

int main(int argc, char **argv)
{
  pthread_t threads[THREADS];
  if (argc != 2 || tamis_open_shared(NULL, argv[1], &filter) != TAMIS_OK)
    return 2;
  read_tokens();
  winners = calloc(count + 1, sizeof *winners);
  if (!winners)
    return 1;
  for (unsigned i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, add_all, NULL))
      return 1;
  for (unsigned i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < count; i++)
    putchar('0' + winners[i]);
  return failed || fflush(stdout) ? 1 : 0;
}
