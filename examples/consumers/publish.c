/* SPDX-License-Identifier: MIT
 *
 * publish: fills the queues of `consume` with messages of which many come several times, as from
 * publishers that try again, and sends again what the broker has not confirmed.
 *
 * A message goes to the queue that a hash of its id chooses, as all copies of it must come to one
 * window.  Change the hash, or the number of queues, only while all queues are empty; and for as
 * long as the windows remember, copies of messages that change their queue are worked again.
 */
#include "broker.h"
#include "options.h"
#include "say.h"

#include <amqp_framing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UNCONFIRMED = 2000, ID_DIGITS = 9 };

struct options {
  const char *queue, *prefix;
  unsigned queues;
  uint32_t messages, distance, slow_every;
  double copies;
  unsigned slow_ms;
  uint64_t seed;
  double patience, rate;
  bool depth;
};

enum {
  KEY_QUEUES = 0x200,
  KEY_PREFIX,
  KEY_COPIES,
  KEY_DISTANCE,
  KEY_SLOW_EVERY,
  KEY_SLOW_MS,
  KEY_SEED,
  KEY_PATIENCE,
  KEY_RATE,
  KEY_DEPTH
};

static const struct argp_option entries[] = {
    {"queue", 'q', "NAME", 0, "The queues are NAME.0, NAME.1 and so on", 1},
    {"queues", KEY_QUEUES, "N", 0, "How many they are (1)", 1},
    {"messages", 'n', "N", 0, "Distinct messages (1000)", 2},
    {"prefix", KEY_PREFIX, "TEXT", 0, "What the ids begin with (m)", 2},
    {"copies", KEY_COPIES, "PART", 0, "Copies, as a part of the messages (0.3)", 2},
    {"distance", KEY_DISTANCE, "N", 0,
     "Messages between a copy and the one before, at most (10000)", 2},
    {"slow-every", KEY_SLOW_EVERY, "N", 0, "Each Nth message takes long to work (never)", 2},
    {"slow-ms", KEY_SLOW_MS, "MS", 0, "How long (300)", 2},
    {"rate", KEY_RATE, "N", 0, "Messages a second, at most (no limit)", 2},
    {"seed", KEY_SEED, "N", 0, "Seed of the order (1)", 2},
    {"patience", KEY_PATIENCE, "SECONDS", 0, "How long it tries to reach the broker (60)", 3},
    {"depth", KEY_DEPTH, NULL, 0, "Publish nothing; print how many messages wait in the queues", 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct options *o = state->input;
  switch (key) {
  case 'q':
    o->queue = argument;
    return 0;
  case 'n':
    o->messages = (uint32_t) option_number(argument, 1, 1e9, state);
    return 0;
  case KEY_QUEUES:
    o->queues = (unsigned) option_number(argument, 1, 1000, state);
    return 0;
  case KEY_PREFIX:
    o->prefix = argument;
    return 0;
  case KEY_COPIES:
    o->copies = option_number(argument, 0, 2, state);
    return 0;
  case KEY_DISTANCE:
    o->distance = (uint32_t) option_number(argument, 0, 1e9, state);
    return 0;
  case KEY_SLOW_EVERY:
    o->slow_every = (uint32_t) option_number(argument, 0, 1e9, state);
    return 0;
  case KEY_SLOW_MS:
    o->slow_ms = (unsigned) option_number(argument, 0, 1e6, state);
    return 0;
  case KEY_SEED:
    o->seed = (uint64_t) option_number(argument, 0, 1e15, state);
    return 0;
  case KEY_PATIENCE:
    o->patience = option_number(argument, 0, 1e9, state);
    return 0;
  case KEY_RATE:
    o->rate = option_number(argument, 1, 1e9, state);
    return 0;
  case KEY_DEPTH:
    o->depth = true;
    return 0;
  case ARGP_KEY_END:
    if (o->queue == NULL)
      argp_error(state, "--queue is needed");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp argp = {
    entries,
    parse,
    NULL,
    "Publishes messages to the queues of 'consume', many of them several times.\v"
    "The broker's URL is in the environment's AMQP_URL, or in the file that AMQP_URL_FILE names.",
    NULL,
    NULL,
    NULL};

/* ---- what is published, in which order ---- */

struct entry {
  uint64_t position;
  uint32_t message;
};

struct plan {
  struct entry *entries;
  uint32_t count;
};

/* Xorshift*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"
 * (2016). */
static uint64_t random64(uint64_t *state)
{
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * UINT64_C(2685821657736338717);
}

static int by_position(const void *left, const void *right)
{
  const struct entry *a = left, *b = right;
  if (a->position != b->position)
    return a->position < b->position ? -1 : 1;
  return (a->message > b->message) - (a->message < b->message);
}

/* Message i comes at position i, and copies of it later: half of them at once, so that several
 * threads get them at the same time. */
static bool make_plan(const struct options *o, struct plan *plan)
{
  uint64_t state = o->seed * 2 + 1, copies = (uint64_t) (o->copies * o->messages);
  plan->entries = malloc((o->messages + copies) * sizeof *plan->entries);
  if (plan->entries == NULL || o->messages + copies > UINT32_MAX) {
    say("too many messages");
    return false;
  }
  plan->count = (uint32_t) (o->messages + copies);
  for (uint32_t i = 0; i < plan->count; i++) {
    bool copy = i >= o->messages;
    uint32_t message = copy ? (uint32_t) (random64(&state) % o->messages) : i;
    bool at_once = random64(&state) & 1;
    uint64_t distance = !copy || at_once ? 0 : random64(&state) % (o->distance + UINT64_C(1));
    plan->entries[i] = (struct entry){message + distance, message};
  }
  qsort(plan->entries, plan->count, sizeof *plan->entries, by_position);
  return true;
}

/* ---- publishing ---- */

struct publisher {
  const struct options *options;
  struct broker broker;
  struct plan plan;
  amqp_connection_state_t connection;
  /* Of this connection: which entry has which tag.  Tags count from 1. */
  uint32_t sent[UNCONFIRMED];
  bool confirmed[UNCONFIRMED];
  uint64_t oldest_tag, next_tag;
  /* What was sent over a connection that has broken, and was not confirmed. */
  uint32_t again[UNCONFIRMED];
  uint32_t again_count;
  uint32_t next_entry;
  uint64_t sent_again, connections;
};

static void name_of_queue(const struct options *o, unsigned number_of_queue, char *name,
                          size_t size)
{
  snprintf(name, size, "%s.%u", o->queue, number_of_queue);
}

/* FNV-1a (Fowler, Noll and Vo). */
static unsigned queue_of(const struct options *o, const char *id)
{
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *id != 0; id++)
    hash = (hash ^ (unsigned char) *id) * UINT64_C(1099511628211);
  return (unsigned) (hash >> 32) % o->queues;
}

static enum answer connect_once(struct publisher *p, char *why)
{
  enum answer answer = broker_connect(&p->broker, &p->connection, why);
  for (unsigned i = 0; answer == ANSWER_OK && i < p->options->queues; i++) {
    char name[256];
    name_of_queue(p->options, i, name, sizeof name);
    answer = broker_queue(p->connection, name, false, NULL, why);
  }
  if (answer == ANSWER_OK) {
    amqp_confirm_select(p->connection, CHANNEL);
    answer = broker_answer(amqp_get_rpc_reply(p->connection), "publisher confirms", why);
  }
  if (answer != ANSWER_OK) {
    broker_disconnect(p->connection, false);
    p->connection = NULL;
  }
  return answer;
}

static bool connect_patiently(struct publisher *p)
{
  char why[WHY];
  double begin = seconds_now();
  const struct timespec pause = {0, 200000000};
  for (bool said = false;; said = true) {
    enum answer answer = connect_once(p, why);
    if (answer == ANSWER_OK)
      break;
    bool patient = answer == ANSWER_AWAY && seconds_now() - begin < p->options->patience;
    if (!said || !patient)
      say("%s; %s", why, patient ? "trying again" : "giving up");
    if (!patient)
      return false;
    nanosleep(&pause, NULL);
  }
  p->connections++;
  p->oldest_tag = p->next_tag = 1;
  return true;
}

/* What the broker has not confirmed it may have or not: so it is sent again. */
static void connection_lost(struct publisher *p, const char *why)
{
  say("%s", why);
  broker_disconnect(p->connection, false);
  p->connection = NULL;
  for (; p->oldest_tag < p->next_tag; p->oldest_tag++)
    if (!p->confirmed[p->oldest_tag % UNCONFIRMED])
      p->again[p->again_count++] = p->sent[p->oldest_tag % UNCONFIRMED];
}

static int send_entry(struct publisher *p, uint32_t entry)
{
  char id[256], queue[256], body[16];
  uint32_t message = p->plan.entries[entry].message;
  const struct options *o = p->options;
  bool slow = o->slow_every != 0 && message % o->slow_every == 0;
  snprintf(id, sizeof id, "%s%0*u", o->prefix, ID_DIGITS, message);
  snprintf(body, sizeof body, "%u", slow ? o->slow_ms : 0);
  name_of_queue(o, queue_of(o, id), queue, sizeof queue);
  amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
                                                  AMQP_BASIC_MESSAGE_ID_FLAG,
                                        .delivery_mode = 2, /* persistent */
                                        .message_id = amqp_cstring_bytes(id)};
  p->sent[p->next_tag % UNCONFIRMED] = entry;
  p->confirmed[p->next_tag % UNCONFIRMED] = false;
  p->next_tag++;
  return amqp_basic_publish(p->connection, CHANNEL, amqp_empty_bytes, amqp_cstring_bytes(queue),
                            false, false, &properties, amqp_cstring_bytes(body));
}

/* Of an answer from the broker.  A message that it refuses is sent again, too. */
static void confirm(struct publisher *p, uint64_t tag, bool multiple, bool accepted)
{
  for (uint64_t t = multiple ? p->oldest_tag : tag; t <= tag; t++) {
    if (t < p->oldest_tag || t >= p->next_tag || p->confirmed[t % UNCONFIRMED])
      continue;
    p->confirmed[t % UNCONFIRMED] = true;
    if (!accepted)
      p->again[p->again_count++] = p->sent[t % UNCONFIRMED];
  }
  while (p->oldest_tag < p->next_tag && p->confirmed[p->oldest_tag % UNCONFIRMED])
    p->oldest_tag++;
}

/* Reads what the broker says, at most for so long.  False: the connection has broken. */
static bool listen_to_broker(struct publisher *p, long milliseconds, char *why)
{
  struct timeval patience = {milliseconds / 1000, milliseconds % 1000 * 1000};
  for (;;) {
    amqp_frame_t frame;
    amqp_maybe_release_buffers(p->connection);
    int error = amqp_simple_wait_frame_noblock(p->connection, &frame, &patience);
    if (error == AMQP_STATUS_TIMEOUT)
      return true;
    if (error != AMQP_STATUS_OK) {
      snprintf(why, WHY, "%s", amqp_error_string2(error));
      return false;
    }
    patience = (struct timeval){0, 0};
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
      const amqp_basic_ack_t *ack = frame.payload.method.decoded;
      confirm(p, ack->delivery_tag, ack->multiple, true);
    } else if (frame.frame_type == AMQP_FRAME_METHOD &&
               frame.payload.method.id == AMQP_BASIC_NACK_METHOD) {
      const amqp_basic_nack_t *nack = frame.payload.method.decoded;
      confirm(p, nack->delivery_tag, nack->multiple, false);
    } else {
      broker_frame(&frame, why);
      return false;
    }
  }
}

/* Room for one more message that is not confirmed.  Those in `again` count, as a connection that
 * breaks puts the others there. */
static bool has_room(const struct publisher *p)
{
  return p->next_tag - p->oldest_tag + p->again_count < UNCONFIRMED;
}

static bool may_send(const struct publisher *p, double begin)
{
  if (p->again_count > 0)
    return p->next_tag - p->oldest_tag < UNCONFIRMED;
  double rate = p->options->rate;
  return p->next_entry < p->plan.count && has_room(p) &&
         (rate <= 0 || p->next_entry < (seconds_now() - begin) * rate);
}

static bool is_complete(const struct publisher *p)
{
  return p->next_entry == p->plan.count && p->again_count == 0 && p->oldest_tag == p->next_tag;
}

/* As many messages as may go at once.  False: the connection has broken. */
static bool send_some(struct publisher *p, double begin, char *why)
{
  for (int i = 0; i < 64 && may_send(p, begin); i++) {
    bool again = p->again_count > 0;
    int error = send_entry(p, again ? p->again[--p->again_count] : p->next_entry++);
    p->sent_again += again;
    if (error != AMQP_STATUS_OK) {
      snprintf(why, WHY, "cannot publish: %s", amqp_error_string2(error));
      return false;
    }
  }
  return listen_to_broker(p, may_send(p, begin) ? 0 : 5, why);
}

static bool publish(struct publisher *p)
{
  char why[WHY];
  double begin = seconds_now(), next_figures = begin + 5;
  while (!is_complete(p)) {
    if (p->connection == NULL && !connect_patiently(p))
      return false;
    if (!send_some(p, begin, why))
      connection_lost(p, why);
    if (seconds_now() >= next_figures) {
      say("published %u of %u", p->next_entry, p->plan.count);
      next_figures = seconds_now() + 5;
    }
  }
  printf("messages %u copies %u again %llu connections %llu seconds %.1f\n", p->options->messages,
         p->plan.count - p->options->messages, (unsigned long long) p->sent_again,
         (unsigned long long) p->connections, seconds_now() - begin);
  broker_disconnect(p->connection, true);
  p->connection = NULL;
  return true;
}

static bool print_depth(struct publisher *p)
{
  char why[WHY], name[256];
  unsigned long long sum = 0;
  enum answer answer = broker_connect(&p->broker, &p->connection, why);
  for (unsigned i = 0; answer == ANSWER_OK && i < p->options->queues; i++) {
    uint32_t depth = 0;
    name_of_queue(p->options, i, name, sizeof name);
    answer = broker_queue(p->connection, name, true, &depth, why);
    sum += depth;
  }
  broker_disconnect(p->connection, answer == ANSWER_OK);
  if (answer != ANSWER_OK) {
    say("%s", why);
    return false;
  }
  printf("%llu\n", sum);
  return true;
}

int main(int argc, char **argv)
{
  static struct publisher p;
  struct options o = {.prefix = "m",
                      .queues = 1,
                      .messages = 1000,
                      .distance = 10000,
                      .copies = 0.3,
                      .slow_ms = 300,
                      .seed = 1,
                      .patience = 60};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  p.options = &o;
  if (!broker_read(&p.broker))
    return 1;
  bool ok = o.depth ? print_depth(&p) : make_plan(&o, &p.plan) && publish(&p);
  free(p.plan.entries);
  broker_forget(&p.broker);
  return ok ? 0 : 1;
}
