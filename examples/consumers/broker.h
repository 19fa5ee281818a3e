/* SPDX-License-Identifier: MIT
 *
 * A connection to the broker.  librabbitmq's connections belong to one thread each.
 */
#ifndef CONSUMERS_BROKER_H
#define CONSUMERS_BROKER_H

#include <amqp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct broker {
  struct amqp_connection_info at;
  char *url; /* what `at` points into; it has the password */
};

enum { CHANNEL = 1, WHY = 512 };

/* What became of a request. */
enum answer {
  ANSWER_OK,
  ANSWER_AWAY,   /* the broker is not there, or busy with somebody else: try again */
  ANSWER_REFUSED /* it will refuse this for ever */
};

/* Reads amqp://USER:PASSWORD@HOST:PORT, which may be followed by /VHOST, from the environment's
 * AMQP_URL or, so that it stands in no environment, from the file that AMQP_URL_FILE names.  Says
 * what is wrong. */
bool broker_read(struct broker *broker);
void broker_forget(struct broker *broker);

/* Connects, logs in and opens the channel.  On failure *out is NULL, and `why` (WHY bytes) has the
 * reason.  This goes for all calls below. */
enum answer broker_connect(const struct broker *broker, amqp_connection_state_t *out, char *why);

/* Says good-bye if `politely`, for which it waits a few seconds at most, and frees the connection.
 */
void broker_disconnect(amqp_connection_state_t connection, bool politely);

/* The queue must exist (passive), or exists afterwards.  *depth, if not NULL, is how many messages
 * wait in it. */
enum answer broker_queue(amqp_connection_state_t connection, const char *name, bool passive,
                         uint32_t *depth, char *why);

/* What the broker answered to the last call that has an answer. */
enum answer broker_answer(amqp_rpc_reply_t reply, const char *what, char *why);

/* What a frame means that nobody has asked for: the broker closes the channel or the connection, or
 * the queue has been deleted. */
void broker_frame(const amqp_frame_t *frame, char *why);

#endif /* CONSUMERS_BROKER_H */
