/* SPDX-License-Identifier: MIT
 *
 * More threads than the command's output queue has places write at the same time, again and again.
 * None may wait for ever, and no byte may be lost.
 */
#include "output.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 3 * OUTPUT_QUEUE, ROUNDS = 2000, CHUNKS = 3 };

static struct output output;
static pthread_barrier_t together;

static void *write_chunks(void *unused)
{
  struct chunk chunk = {0};
  for (unsigned i = 0; i < ROUNDS * CHUNKS; i++) {
    if (i % CHUNKS == 0)
      pthread_barrier_wait(&together);
    if (!chunk.data)
      chunk = (struct chunk){.data = malloc(1), .size = 1};
    chunk.data[0] = 'x';
    chunk.length = 1;
    output_write(&output, &chunk);
  }
  free(chunk.data);
  return unused;
}

int main(void)
{
  pthread_t threads[THREADS];
  FILE *file = tmpfile();
  struct stat written;
  alarm(500); /* a thread that waits for ever */
  if (!file || dup2(fileno(file), STDOUT_FILENO) < 0 || !output_open(&output, NULL, NULL))
    return 2;
  pthread_barrier_init(&together, NULL, THREADS);
  for (unsigned i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, write_chunks, NULL) != 0)
      return 2;
  for (unsigned i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  if (fstat(fileno(file), &written) != 0 || written.st_size != THREADS * ROUNDS * CHUNKS) {
    fprintf(stderr, "%ld bytes of %d were written\n", (long) written.st_size,
            THREADS * ROUNDS * CHUNKS);
    return 1;
  }
  output_close(&output);
  return 0;
}
