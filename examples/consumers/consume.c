/* SPDX-License-Identifier: MIT
 *
 * consume: works each message of a queue once, although it comes several times.
 *
 * once.h says which steps a message goes through, and why in this order.  The threads:
 *
 *   receiver.c  one, which has the connection to the broker
 *   pool.c      several, which work
 *   metrics.c   one, which answers Prometheus
 *   consume.c   the first one: signals, the end of periods, saves, and figures on stderr
 */
#include "broker.h"
#include "metrics.h"
#include "once.h"
#include "options.h"
#include "pool.h"
#include "receiver.h"
#include "say.h"
#include "work.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
  struct once_options once;
  const char *queue, *effects;
  unsigned threads, prefetch, metrics_port;
  double patience, save_every, figures_every;
};

enum {
  KEY_RATE = 0x200,
  KEY_REMEMBER,
  KEY_PERIODS,
  KEY_SAVE,
  KEY_PATIENCE,
  KEY_METRICS,
  KEY_FIGURES
};

static const struct argp_option entries[] = {
    {"queue", 'q', "NAME", 0, "The queue; nobody else may consume from it", 1},
    {"window", 'w', "FILE", 0, "Where the window of done messages is saved", 1},
    {"effects", 'e', "FILE", 0, "Where the work writes its lines", 1},
    {"threads", 't', "N", 0, "Threads that work (4)", 2},
    {"prefetch", 'p', "N", 0, "Unacknowledged messages at one time (16 for each thread)", 2},
    {"capacity", 'c', "N", 0, "Messages that the window is made for; it grows (1000000)", 3},
    {"rate", KEY_RATE, "P", 0,
     "The part of all messages that may be lost as false positives (1e-6)", 3},
    {"remember", KEY_REMEMBER, "SECONDS", 0, "How long a message is remembered, at least (3600)",
     3},
    {"periods", KEY_PERIODS, "N", 0, "Into how many periods that time is divided (12)", 3},
    {"save-every", KEY_SAVE, "SECONDS", 0, "Time between saves (10)", 3},
    {"patience", KEY_PATIENCE, "SECONDS", 0, "How long it tries to reach the broker (60)", 4},
    {"metrics", KEY_METRICS, "PORT", 0, "Answer Prometheus on this port of loopback", 4},
    {"figures-every", KEY_FIGURES, "SECONDS", 0, "Time between figures on stderr (10)", 4},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct options *o = state->input;
  switch (key) {
  case 'q':
    o->queue = argument;
    return 0;
  case 'w':
    o->once.path = argument;
    return 0;
  case 'e':
    o->effects = argument;
    return 0;
  case 't':
    o->threads = (unsigned) option_number(argument, 1, 1024, state);
    return 0;
  case 'p':
    o->prefetch = (unsigned) option_number(argument, 1, 65535, state);
    return 0;
  case 'c':
    o->once.capacity = (uint64_t) option_number(argument, 1, 1e12, state);
    return 0;
  case KEY_RATE:
    o->once.rate = option_number(argument, 1e-12, 0.99, state);
    return 0;
  case KEY_REMEMBER:
    o->once.remember = option_number(argument, 0.1, 1e9, state);
    return 0;
  case KEY_PERIODS:
    o->once.periods = (unsigned) option_number(argument, 1, 64, state);
    return 0;
  case KEY_SAVE:
    o->save_every = option_number(argument, 0.01, 1e9, state);
    return 0;
  case KEY_PATIENCE:
    o->patience = option_number(argument, 0, 1e9, state);
    return 0;
  case KEY_METRICS:
    o->metrics_port = (unsigned) option_number(argument, 1, 65535, state);
    return 0;
  case KEY_FIGURES:
    o->figures_every = option_number(argument, 0.1, 1e9, state);
    return 0;
  case ARGP_KEY_END:
    if (o->queue == NULL || o->once.path == NULL || o->effects == NULL)
      argp_error(state, "--queue, --window and --effects are needed");
    if (o->prefetch == 0)
      o->prefetch = o->threads < 4096 ? o->threads * 16 : 65535;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp argp = {
    entries,
    parse,
    NULL,
    "Works each message of a RabbitMQ queue once, although it comes several times.\v"
    "The broker's URL is in the environment's AMQP_URL, or in the file that AMQP_URL_FILE names.  "
    "SIGTERM "
    "ends the process cleanly; a second one ends it at once.",
    NULL,
    NULL,
    NULL};

struct program {
  struct options options;
  struct broker broker;
  struct figures figures;
  struct once *once;
  struct pool *pool;
  struct receiver *receiver;
  struct metrics *metrics;
};

static bool save(struct program *p)
{
  int result;
  double begin = seconds_now();
  uint64_t unsaved = once_unsaved(p->once);
  if (!once_save(p->once, &result)) {
    const char *why = result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result);
    atomic_fetch_add(&p->figures.failed_saves, 1);
    say("cannot save %s: %s; a crash may repeat %llu messages", p->options.once.path, why,
        (unsigned long long) once_unsaved(p->once));
    return false;
  }
  atomic_fetch_add(&p->figures.saves, 1);
  say("saved %llu more; the save began at %.6f", (unsigned long long) unsaved, begin);
  return true;
}

static void say_figures(struct program *p)
{
  const struct figures *f = &p->figures;
  say("received %llu, worked %llu, copies %llu, held %llu, failed %llu, in hand %u, unsaved %llu",
      (unsigned long long) atomic_load(&f->received), (unsigned long long) atomic_load(&f->worked),
      (unsigned long long) atomic_load(&f->copies), (unsigned long long) atomic_load(&f->held),
      (unsigned long long) atomic_load(&f->failed), pool_count(p->pool),
      (unsigned long long) once_unsaved(p->once));
}

static bool start(struct program *p)
{
  const struct options *o = &p->options;
  struct receiver_options receiver = {&p->broker, o->queue, (uint16_t) o->prefetch, o->patience};
  /* Beside the messages of this connection, threads may still work on some of the one before. */
  unsigned limit = o->prefetch + o->threads;
  p->options.once.claim_count = limit;
  if (!broker_read(&p->broker) || !work_open(o->effects) ||
      (p->once = once_open(&o->once)) == NULL ||
      (p->pool = pool_start(p->once, &p->figures, o->threads, limit)) == NULL)
    return false;
  if (o->metrics_port != 0 &&
      (p->metrics = metrics_start(o->metrics_port, p->once, p->pool, &p->figures)) == NULL)
    return false;
  p->receiver = receiver_start(&receiver, p->pool, &p->figures);
  return p->receiver != NULL;
}

/* Until a signal comes: what is done now and then. */
static void run(struct program *p, const sigset_t *signals)
{
  const struct timespec tick = {0, 100000000};
  double next_save = seconds_now() + p->options.save_every, next_second = seconds_now() + 1,
         next_figures = seconds_now() + p->options.figures_every;
  int signal_number;
  while ((signal_number = sigtimedwait(signals, NULL, &tick)) < 0) {
    double now = seconds_now();
    once_forget(p->once);
    if (now >= next_second) {
      pool_try_again(p->pool);
      next_second = now + 1;
    }
    if (now >= next_save) {
      save(p);
      next_save = now + p->options.save_every;
    }
    if (now >= next_figures) {
      say_figures(p);
      next_figures = now + p->options.figures_every;
    }
  }
  say("%s: ending when the works under way are done",
      signal_number == SIGUSR1 ? "no broker" : strsignal(signal_number));
}

/* What was started, in an order in which nothing is lost: works end, their acknowledgements are
 * sent, and the window is saved with all of them. */
static bool stop(struct program *p)
{
  bool ok = true;
  if (p->pool != NULL)
    pool_stop(p->pool);
  if (p->receiver != NULL) {
    ok = receiver_stop(p->receiver) && ok;
    ok = save(p) && ok;
    say_figures(p);
  }
  metrics_stop(p->metrics);
  if (p->pool != NULL)
    pool_free(p->pool);
  once_close(p->once);
  broker_forget(&p->broker);
  return work_close() && ok;
}

int main(int argc, char **argv)
{
  struct program p = {
      .options = {.once = {.capacity = 1000000, .rate = 1e-6, .periods = 12, .remember = 3600},
                  .threads = 4,
                  .patience = 60,
                  .save_every = 10,
                  .figures_every = 10}};
  argp_parse(&argp, argc, argv, 0, NULL, &p.options);

  /* Blocked in all threads, and taken by run(). */
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1); /* from the receiver */
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* writes fail instead */

  bool started = start(&p);
  if (started) {
    run(&p, &signals);
    sigdelset(&signals, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  }
  bool stopped = stop(&p);
  return started && stopped ? 0 : 1;
}
