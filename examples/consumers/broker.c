/* SPDX-License-Identifier: MIT */
#include "broker.h"
#include "say.h"

#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEARTBEAT = 10, PATIENCE = 10 }; /* seconds */

/* The first line of a file, without its end.  NULL: errno says why. */
static char *first_line(const char *path)
{
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return NULL;
  char *line = NULL;
  size_t size = 0;
  ssize_t length = getline(&line, &size, file);
  fclose(file);
  if (length < 0) {
    free(line);
    errno = ENODATA;
    return NULL;
  }
  line[strcspn(line, "\r\n")] = 0;
  return line;
}

bool broker_read(struct broker *broker)
{
  const char *url = getenv("AMQP_URL"), *file = getenv("AMQP_URL_FILE");
  if ((url == NULL) == (file == NULL)) {
    say("one of the environment's AMQP_URL and AMQP_URL_FILE must be set; the file must have a URL "
        "such "
        "as amqp://user:password@localhost:5672 in its first line");
    return false;
  }
  broker->url = url != NULL ? strdup(url) : first_line(file);
  if (broker->url == NULL) {
    say("cannot read the broker's URL from %s: %s", url != NULL ? "AMQP_URL" : file,
        strerror(errno));
    return false;
  }
  /* What the URL leaves out stays as it is here. */
  amqp_default_connection_info(&broker->at);
  int error = amqp_parse_url(broker->url, &broker->at);
  if (error != AMQP_STATUS_OK || broker->at.ssl) {
    /* The URL is not printed: it has the password. */
    say("the broker's URL cannot be used: %s",
        error != AMQP_STATUS_OK ? amqp_error_string2(error) : "only amqp:// is supported here");
    broker_forget(broker);
    return false;
  }
  return true;
}

void broker_forget(struct broker *broker)
{
  free(broker->url);
  broker->url = NULL;
}

static void text_of_close(int code, amqp_bytes_t text, const char *what, char *why)
{
  snprintf(why, WHY, "%s: the broker says %d %.*s", what, code, (int) text.len,
           (const char *) text.bytes);
}

enum answer broker_answer(amqp_rpc_reply_t reply, const char *what, char *why)
{
  int code = 0;
  switch (reply.reply_type) {
  case AMQP_RESPONSE_NORMAL:
    return ANSWER_OK;
  case AMQP_RESPONSE_LIBRARY_EXCEPTION:
    snprintf(why, WHY, "%s: %s", what, amqp_error_string2(reply.library_error));
    return ANSWER_AWAY;
  case AMQP_RESPONSE_SERVER_EXCEPTION:
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
      const amqp_channel_close_t *close = reply.reply.decoded;
      code = close->reply_code;
      text_of_close(code, close->reply_text, what, why);
      /* A queue that another one consumes alone is ACCESS_REFUSED: that one may end. */
      return code == AMQP_NOT_FOUND || code == AMQP_PRECONDITION_FAILED ? ANSWER_REFUSED
                                                                        : ANSWER_AWAY;
    }
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
      const amqp_connection_close_t *close = reply.reply.decoded;
      code = close->reply_code;
      text_of_close(code, close->reply_text, what, why);
      return code == AMQP_ACCESS_REFUSED || code == AMQP_NOT_ALLOWED ? ANSWER_REFUSED : ANSWER_AWAY;
    }
    snprintf(why, WHY, "%s: the broker answers with method 0x%08x", what, reply.reply.id);
    return ANSWER_AWAY;
  default:
    snprintf(why, WHY, "%s: the broker has closed the connection", what);
    return ANSWER_AWAY;
  }
}

void broker_frame(const amqp_frame_t *frame, char *why)
{
  if (frame->frame_type == AMQP_FRAME_METHOD) {
    const void *decoded = frame->payload.method.decoded;
    switch (frame->payload.method.id) {
    case AMQP_CHANNEL_CLOSE_METHOD: {
      const amqp_channel_close_t *close = decoded;
      text_of_close(close->reply_code, close->reply_text, "the channel was closed", why);
      return;
    }
    case AMQP_CONNECTION_CLOSE_METHOD: {
      const amqp_connection_close_t *close = decoded;
      text_of_close(close->reply_code, close->reply_text, "the connection was closed", why);
      return;
    }
    case AMQP_BASIC_CANCEL_METHOD:
      snprintf(why, WHY, "the broker has cancelled the consumer: the queue was deleted");
      return;
    default:
      break;
    }
  }
  snprintf(why, WHY, "an unexpected frame came");
}

enum answer broker_connect(const struct broker *broker, amqp_connection_state_t *out, char *why)
{
  const struct timeval patience = {PATIENCE, 0};
  const struct amqp_connection_info *at = &broker->at;
  enum answer answer = ANSWER_AWAY;
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t *socket = connection != NULL ? amqp_tcp_socket_new(connection) : NULL;
  *out = NULL;
  if (socket == NULL) {
    snprintf(why, WHY, "out of memory");
    goto failed;
  }
  amqp_set_handshake_timeout(connection, &patience);
  amqp_set_rpc_timeout(connection, &patience);
  int error = amqp_socket_open_noblock(socket, at->host, at->port, &patience);
  if (error != AMQP_STATUS_OK) {
    snprintf(why, WHY, "no broker at %s:%d: %s", at->host, at->port,
             error == AMQP_STATUS_SOCKET_ERROR ? "nobody answers" : amqp_error_string2(error));
    goto failed;
  }
  answer = broker_answer(amqp_login(connection, at->vhost, 0, AMQP_DEFAULT_FRAME_SIZE, HEARTBEAT,
                                    AMQP_SASL_METHOD_PLAIN, at->user, at->password),
                         "the login", why);
  if (answer == ANSWER_OK) {
    amqp_channel_open(connection, CHANNEL);
    answer = broker_answer(amqp_get_rpc_reply(connection), "the channel", why);
  }
  if (answer == ANSWER_OK) {
    *out = connection;
    return ANSWER_OK;
  }

failed:
  broker_disconnect(connection, false);
  return answer;
}

void broker_disconnect(amqp_connection_state_t connection, bool politely)
{
  if (connection == NULL)
    return;
  if (politely)
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(connection);
}

enum answer broker_queue(amqp_connection_state_t connection, const char *name, bool passive,
                         uint32_t *depth, char *why)
{
  const amqp_queue_declare_ok_t *ok = amqp_queue_declare(
      connection, CHANNEL, amqp_cstring_bytes(name), passive, true, false, false, amqp_empty_table);
  enum answer answer = broker_answer(amqp_get_rpc_reply(connection), name, why);
  if (answer == ANSWER_OK && depth != NULL)
    *depth = ok->message_count;
  return answer;
}
