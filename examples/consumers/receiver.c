/* SPDX-License-Identifier: MIT */
#include "receiver.h"
#include "say.h"

#include <amqp_framing.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, TICK_MS = 500 };

struct receiver {
  struct receiver_options options;
  struct pool *pool;
  struct figures *figures;
  atomic_bool stopping;
  bool gave_up;
  int stop_bell;
  uint64_t connection_number;
  amqp_connection_state_t connection;
  pthread_t thread;
};

/* Consumes alone: a second process on the queue would have another window, and is refused by the
 * broker. */
static enum answer consume(struct receiver *r, char *why)
{
  enum answer answer = broker_queue(r->connection, r->options.queue, false, NULL, why);
  if (answer != ANSWER_OK)
    return answer;
  amqp_basic_qos(r->connection, CHANNEL, 0, r->options.prefetch, false);
  answer = broker_answer(amqp_get_rpc_reply(r->connection), "the prefetch limit", why);
  if (answer != ANSWER_OK)
    return answer;
  amqp_basic_consume(r->connection, CHANNEL, amqp_cstring_bytes(r->options.queue), amqp_empty_bytes,
                     false, false, true, amqp_empty_table);
  return broker_answer(amqp_get_rpc_reply(r->connection), r->options.queue, why);
}

static enum answer connect_and_consume(struct receiver *r, char *why)
{
  enum answer answer = broker_connect(r->options.broker, &r->connection, why);
  if (answer != ANSWER_OK)
    return answer;
  r->connection_number++;
  atomic_fetch_add(&r->figures->connections, 1);
  answer = consume(r, why);
  if (answer == ANSWER_OK)
    return ANSWER_OK;
  broker_disconnect(r->connection, true);
  r->connection = NULL;
  return answer;
}

/* Until it is connected, told to stop, or out of patience. */
static bool connect_patiently(struct receiver *r)
{
  char why[WHY], said[WHY] = "";
  double begin = seconds_now(), pause = 0.1;
  while (!atomic_load(&r->stopping)) {
    enum answer answer = connect_and_consume(r, why);
    if (answer == ANSWER_OK) {
      say("consuming from %s", r->options.queue);
      return true;
    }
    bool patient = answer == ANSWER_AWAY && seconds_now() - begin < r->options.patience;
    if (!patient || strcmp(why, said) != 0)
      say("%s; %s", why, patient ? "trying again" : "giving up");
    snprintf(said, sizeof said, "%s", why);
    if (!patient) {
      r->gave_up = true;
      return false;
    }
    struct pollfd stop = {r->stop_bell, POLLIN, 0};
    poll(&stop, 1, (int) (pause * 1000));
    pause = pause < 1 ? pause * 2 : 2;
  }
  return false;
}

/* False: the connection has broken. */
static bool send_acknowledgements(struct receiver *r, char *why)
{
  struct acknowledgement acknowledgements[BATCH];
  unsigned count;
  while ((count = pool_acknowledgements(r->pool, acknowledgements, BATCH)) > 0) {
    for (unsigned i = 0; i < count; i++) {
      /* The broker has delivered that message again, and the copy will be dropped as done. */
      if (acknowledgements[i].connection != r->connection_number)
        continue;
      int error = amqp_basic_ack(r->connection, CHANNEL, acknowledgements[i].tag, false);
      if (error != AMQP_STATUS_OK) {
        snprintf(why, WHY, "cannot acknowledge: %s", amqp_error_string2(error));
        return false;
      }
      atomic_fetch_add(&r->figures->acknowledged, 1);
    }
  }
  return true;
}

/* Something that is no message. */
static bool read_frame(struct receiver *r, char *why)
{
  const struct timeval at_once = {0, 0};
  amqp_frame_t frame;
  int error = amqp_simple_wait_frame_noblock(r->connection, &frame, &at_once);
  if (error == AMQP_STATUS_OK)
    broker_frame(&frame, why);
  else
    snprintf(why, WHY, "%s", amqp_error_string2(error));
  return false;
}

/* One message, if there is one; *got says whether.  False: the connection has broken. */
static bool receive(struct receiver *r, bool *got, char *why)
{
  const struct timeval at_once = {0, 0};
  struct delivery *delivery = malloc(sizeof *delivery);
  *got = false;
  if (delivery == NULL) {
    snprintf(why, WHY, "out of memory");
    return false;
  }
  amqp_maybe_release_buffers(r->connection);
  amqp_rpc_reply_t reply = amqp_consume_message(r->connection, &delivery->envelope, &at_once, 0);
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
    delivery->connection = r->connection_number;
    atomic_fetch_add(&r->figures->received, 1);
    pool_put(r->pool, delivery);
    *got = true;
    return true;
  }
  free(delivery);
  bool library = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION;
  if (library && reply.library_error == AMQP_STATUS_TIMEOUT)
    return true;
  if (library && reply.library_error == AMQP_STATUS_UNEXPECTED_STATE)
    return read_frame(r, why);
  broker_answer(reply, "the connection", why);
  return false;
}

/* Waits for the broker, for acknowledgements, or for the order to stop; no longer than a heartbeat
 * may be late. */
static void wait_for_something(struct receiver *r)
{
  struct pollfd events[] = {{amqp_get_sockfd(r->connection), POLLIN, 0},
                            {pool_bell(r->pool), POLLIN, 0},
                            {r->stop_bell, POLLIN, 0}};
  if (!amqp_frames_enqueued(r->connection) && !amqp_data_in_buffer(r->connection))
    poll(events, sizeof events / sizeof events[0], TICK_MS);
}

/* Until the connection breaks, or it is told to stop. */
static bool serve(struct receiver *r, char *why)
{
  while (!atomic_load(&r->stopping)) {
    wait_for_something(r);
    bool got = true;
    for (int i = 0; i < BATCH && got; i++)
      if (!receive(r, &got, why))
        return false;
    if (!send_acknowledgements(r, why))
      return false;
  }
  return send_acknowledgements(r, why);
}

static void *receiver_main(void *argument)
{
  struct receiver *r = argument;
  char why[WHY];
  while (connect_patiently(r)) {
    bool ended = serve(r, why);
    broker_disconnect(r->connection, ended);
    r->connection = NULL;
    pool_connection_lost(r->pool);
    if (!ended)
      say("%s", why);
  }
  if (r->gave_up)
    kill(getpid(), SIGUSR1);
  return NULL;
}

struct receiver *receiver_start(const struct receiver_options *options, struct pool *pool,
                                struct figures *figures)
{
  struct receiver *r = calloc(1, sizeof *r);
  if (r == NULL || (r->stop_bell = eventfd(0, EFD_CLOEXEC)) < 0) {
    say("cannot start the receiver: %s", strerror(errno));
    free(r);
    return NULL;
  }
  r->options = *options;
  r->pool = pool;
  r->figures = figures;
  int error = pthread_create(&r->thread, NULL, receiver_main, r);
  if (error == 0)
    return r;
  say("cannot start a thread: %s", strerror(error));
  close(r->stop_bell);
  free(r);
  return NULL;
}

bool receiver_stop(struct receiver *r)
{
  atomic_store(&r->stopping, true);
  eventfd_write(r->stop_bell, 1);
  pthread_join(r->thread, NULL);
  bool gave_up = r->gave_up;
  close(r->stop_bell);
  free(r);
  return !gave_up;
}
