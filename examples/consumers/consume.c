/* SPDX-License-Identifier: MIT
 *
 * Consumers of a RabbitMQ queue, which handle each message once although it may come several times:
 * the broker delivers a message again when a consumer or a connection was lost, and a publisher sends
 * it again when it has got no confirmation.  Any number of processes and threads consume from one
 * queue.  They share a filter of the messages that are done.  For each message, a thread does this:
 *
 *   1. claim   Lock the byte of the claims file whose number is the hash of the message's id.  A
 *              thread with another copy of the message waits here.  When a process ends, in
 *              whatever way, the system releases its locks.
 *   2. look    If the id is in the filter, this is a copy: go on with 5.
 *   3. work
 *   4. record  Add the id to the filter.
 *   5. acknowledge the message to the broker
 *   6. release the lock
 *
 * The work comes before 4 and 5; otherwise a message is lost when its worker is killed.  The claim
 * comes before the look, and the record before the release; otherwise two threads handle the same
 * message.  If a worker is killed between 3 and 4, the message is handled once more.
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <tamis/tamis.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 256, PREFETCH = 10, HEARTBEAT = 60, PERIODS = 4 };

static struct amqp_connection_info broker;
static const char *queue;
static tamis_filter *done;
static long period; /* of the window, in seconds */
static int effects;
static atomic_bool ending;
static atomic_ulong worked, copies;

static void die(const char *what, const char *why)
{
  fprintf(stderr, "consume: %s: %s\n", what, why);
  _exit(1);
}

/* ---- a message ---- */

/* An example of work: it takes as many milliseconds as the body says, and writes a line. */
static void work(amqp_bytes_t id, amqp_bytes_t body, int thread)
{
  char line[512], text[16] = "";
  memcpy(text, body.bytes, body.len < sizeof text ? body.len : sizeof text - 1);
  usleep((unsigned) atoi(text) * 1000);
  int n = snprintf(line, sizeof line, "%.*s %d %d\n", (int) id.len, (char *) id.bytes,
                   (int) getpid(), thread);
  if (write(effects, line, (size_t) n) != n)
    die("the work", strerror(errno)); /* it is not acknowledged, so it comes again */
  worked++;
}

static void lock(int claims, short type, uint64_t hash)
{
  struct flock byte = {
      .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t) (hash >> 1), .l_len = 1};
  while (fcntl(claims, F_OFD_SETLKW, &byte) != 0)
    if (errno != EINTR)
      die("claims", strerror(errno));
}

static void check(int result)
{
  if (result != TAMIS_OK)
    die("the filter", result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
}

/* Periods follow the clock, so the time in which no process runs counts, too. */
static void advance(void)
{
  check(tamis_advance_to(done, (uint64_t) (time(NULL) / period)));
}

/* Returns whether the message could be acknowledged. */
static bool handle(amqp_connection_state_t c, const amqp_envelope_t *e, int claims, int thread)
{
  amqp_bytes_t id = e->message.properties.message_id;
  if (!(e->message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG)) {
    work(amqp_cstring_bytes("-"), e->message.body, thread); /* it has no id, so it may be a copy */
    return amqp_basic_ack(c, 1, e->delivery_tag, false) == 0;
  }
  uint64_t hash = tamis_hash(done, id.bytes, id.len);
  lock(claims, F_WRLCK, hash); /* 1 */
  advance();
  if (tamis_contains_hash(done, hash)) { /* 2 */
    copies++;
  } else {
    work(id, e->message.body, thread); /* 3 */
    advance();
    check(tamis_add_hash(done, hash)); /* 4 */
  }
  bool acknowledged = amqp_basic_ack(c, 1, e->delivery_tag, false) == 0; /* 5 */
  lock(claims, F_UNLCK, hash);                                           /* 6 */
  return acknowledged;
}

/* ---- the broker ---- */

static bool begin(amqp_connection_state_t c)
{
  amqp_bytes_t name = amqp_cstring_bytes(queue);
  amqp_socket_t *s = amqp_tcp_socket_new(c);
  if (!s || amqp_socket_open(s, broker.host, broker.port) != 0 ||
      amqp_login(c, broker.vhost, 1, AMQP_DEFAULT_FRAME_SIZE, HEARTBEAT, AMQP_SASL_METHOD_PLAIN,
                 broker.user, broker.password)
              .reply_type != AMQP_RESPONSE_NORMAL)
    return false;
  return amqp_channel_open(c, 1) &&
         amqp_queue_declare(c, 1, name, false, true, false, false, amqp_empty_table) &&
         amqp_basic_qos(c, 1, 0, PREFETCH, false) &&
         amqp_basic_consume(c, 1, name, amqp_empty_bytes, false, false, false, amqp_empty_table);
}

/* Handles messages until the connection breaks. */
static void serve(amqp_connection_state_t c, int claims, int thread)
{
  while (!ending) {
    amqp_envelope_t e;
    struct timeval moment = {.tv_usec = 200000};
    amqp_maybe_release_buffers(c);
    amqp_rpc_reply_t r = amqp_consume_message(c, &e, &moment, 0);
    if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && r.library_error == AMQP_STATUS_TIMEOUT)
      continue;
    if (r.reply_type != AMQP_RESPONSE_NORMAL)
      return;
    bool acknowledged = handle(c, &e, claims, thread);
    amqp_destroy_envelope(&e);
    if (!acknowledged)
      return;
  }
}

/* A connection of its own for each thread. */
static void *consume(void *number)
{
  int claims = open("claims", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (claims < 0)
    die("claims", strerror(errno));
  while (!ending) {
    amqp_connection_state_t c = amqp_new_connection();
    if (begin(c))
      serve(c, claims, (int) (intptr_t) number);
    amqp_destroy_connection(c);
    if (!ending) {
      fprintf(stderr, "consume: there is no connection to the broker\n");
      sleep(1);
    }
  }
  close(claims);
  return NULL;
}

static void end(int number)
{
  (void) number;
  ending = true;
}

static void open_files(const char *folder, uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  if (chdir(folder) != 0)
    die(folder, strerror(errno));
  options.kind = TAMIS_BLOOM, options.growable = false, options.window = PERIODS;
  options.capacity = capacity, options.fpp = 1e-7;
  check(tamis_open_shared(&options, "done.tamis", &done));
  effects = open("effects", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (effects < 0)
    die("effects", strerror(errno));
}

int main(int argc, char **argv)
{
  pthread_t threads[MOST_THREADS];
  char *url = getenv("AMQP_URL"); /* it has the password */
  int n = argc == 6 ? atoi(argv[3]) : 0;
  if (!url || n < 1 || n > MOST_THREADS || atol(argv[4]) < 1 || amqp_parse_url(url, &broker) != 0) {
    fprintf(
        stderr,
        "usage: AMQP_URL=amqp://USER:PASSWORD@HOST consume QUEUE FOLDER THREADS SECONDS CAPACITY\n"
        "SECONDS are how long a message is remembered, in which at most CAPACITY come\n");
    return 2;
  }
  queue = argv[1];
  period = atol(argv[4]) / PERIODS + 1;
  open_files(argv[2], strtoull(argv[5], NULL, 10));
  signal(SIGTERM, end);
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < n; i++)
    if (pthread_create(&threads[i], NULL, consume, (void *) (intptr_t) i) != 0)
      die("threads", strerror(EAGAIN));
  for (int i = 0; i < n; i++)
    pthread_join(threads[i], NULL);
  printf("worked %lu messages, and dropped %lu copies\n", worked, copies);
  tamis_destroy(done);
  return 0;
}
