/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#ifdef __clang__
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

const double parts_shown[] = {0.5, 0.9, 0.99, 0.999, 0.9999, 1};

/* A list of the JSON file.  It is kept in memory and written in the end. */
struct list {
  FILE *text;
  char *buffer;
  size_t size;
  unsigned count;
};

static struct {
  FILE *csv, *json;
  const char *csv_name, *json_name;
  struct list results, calls, ratios;
  uint64_t wrong;
} record;

FILE *open_for_writing(const char *name)
{
  FILE *file = fopen(name, "w");
  if (!file)
    error(2, errno, "%s", name);
  return file;
}

void close_written(FILE *file, const char *name)
{
  int bad = ferror(file);
  if (fclose(file) || bad)
    error(2, errno, "%s", name);
}

/* The name of the processor, as the kernel gives it. */
static void find_processor(char *name, size_t size)
{
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(name, size, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (value) {
      value[strcspn(value, "\n\"\\")] = 0;
      snprintf(name, size, "%s", value + 2);
      break;
    }
  }
  if (file)
    fclose(file);
}

static void list_open(struct list *list)
{
  list->text = open_memstream(&list->buffer, &list->size);
  if (!list->text)
    error(2, errno, "no memory for results");
}

/* The stream for the next element. */
static FILE *list_next(struct list *list)
{
  fprintf(list->text, "%s\n    ", list->count++ ? "," : "");
  return list->text;
}

static void list_write(struct list *list, const char *name)
{
  if (fclose(list->text))
    error(2, errno, "no memory for results");
  fprintf(record.json, ",\n  \"%s\": [%s\n  ]", name, list->buffer);
  free(list->buffer);
}

struct machine {
  char processor[256];
  struct utsname system;
};

static struct machine find_machine(void)
{
  struct machine machine;
  find_processor(machine.processor, sizeof machine.processor);
  uname(&machine.system);
  return machine;
}

void print_machine(FILE *to)
{
  const struct machine m = find_machine();
  fprintf(to, "%s, %u core%s, %s %s %s, compiled by %s %s\n", m.processor, cores(),
          cores() > 1 ? "s" : "", m.system.sysname, m.system.release, m.system.machine, COMPILER,
          __VERSION__);
}

void record_open(const char *csv, const char *json)
{
  record.csv_name = csv;
  record.json_name = json;
  if (csv) {
    record.csv = open_for_writing(csv);
    fprintf(record.csv, "workload,keys,fpp,subject,capacity,threads,round,ns_per_call\n");
  }
  if (json) {
    const struct machine m = find_machine();
    record.json = open_for_writing(json);
    fprintf(record.json,
            "{\n  \"processor\": \"%s\",\n  \"cores\": %u,\n  \"system\": \"%s %s %s\",\n"
            "  \"compiler\": \"%s %s\"",
            m.processor, cores(), m.system.sysname, m.system.release, m.system.machine, COMPILER,
            __VERSION__);
    list_open(&record.results);
    list_open(&record.calls);
    list_open(&record.ratios);
  }
}

static void write_json(const struct experiment *x, const struct entry *e)
{
  const struct series *s = &e->series;
  fprintf(list_next(&record.results),
          "{\"workload\": \"%s\", \"keys\": %" PRIu64
          ", \"fpp\": %g, \"subject\": \"%s\", \"capacity\": %" PRIu64
          ", \"threads\": %u, \"rounds\": %u, \"ns_per_call\": [%.4g, %.4g, %.4g], "
          "\"busy\": %.3f, \"wrong\": %" PRIu64 "}",
          e->workload->name, x->keys, e->fpp, e->subject->name, e->capacity, e->threads, s->rounds,
          series_quartile(s, 1), series_quartile(s, 2), series_quartile(s, 3), s->busy, s->wrong);
}

void record_experiment(const struct experiment *x)
{
  for (const struct entry *e = x->entries; e < x->entries + x->count; e++) {
    for (unsigned i = 0; record.csv && i < e->series.rounds; i++)
      fprintf(record.csv, "%s,%" PRIu64 ",%g,%s,%" PRIu64 ",%u,%u,%.4g\n", e->workload->name,
              x->keys, e->fpp, e->subject->name, e->capacity, e->threads, i, e->series.ns[i]);
    if (record.json)
      write_json(x, e);
    record.wrong += e->series.wrong;
    if (e->series.wrong)
      printf("WRONG: %s, %s: %" PRIu64 " wrong answers\n", e->workload->name, e->subject->name,
             e->series.wrong);
  }
}

void record_calls(const char *subject, uint64_t from, uint64_t keys, double fpp,
                  const struct histogram *h)
{
  if (!record.json)
    return;
  FILE *text = list_next(&record.calls);
  fprintf(text,
          "{\"subject\": \"%s\", \"capacity\": %" PRIu64 ", \"keys\": %" PRIu64
          ", \"fpp\": %g, \"calls\": %" PRIu64 ", \"ns\": {",
          subject, from, keys, fpp, h->all);
  for (const double *part = parts_shown; *part < 1; part++)
    fprintf(text, "\"P%g\": %" PRIu64 ", ", 100 * *part, histogram_quantile(h, *part));
  fprintf(text, "\"max\": %" PRIu64 "}}", h->longest);
}

void record_ratio(const char *what, double value, const char *bound, double limit, bool met)
{
  char number[32] = "null"; /* JSON has no infinity */
  if (!record.json)
    return;
  if (isfinite(value))
    snprintf(number, sizeof number, "%.4g", value);
  fprintf(list_next(&record.ratios),
          "{\"what\": \"%s\", \"value\": %s, \"bound\": \"%s\", \"limit\": %g, "
          "\"met\": %s}",
          what, number, bound, limit, met ? "true" : "false");
}

void record_close(void)
{
  if (record.json) {
    list_write(&record.results, "results");
    list_write(&record.calls, "calls");
    list_write(&record.ratios, "ratios");
    fprintf(record.json, "\n}\n");
    close_written(record.json, record.json_name);
  }
  if (record.csv)
    close_written(record.csv, record.csv_name);
}

uint64_t record_wrong(void)
{
  return record.wrong;
}

void print_experiment(const struct experiment *x)
{
  printf("\n%s: %" PRIu64 " keys, fpp %g\n", x->title, x->keys, x->fpp);
  printf("  %-15s %-20s %10s %7s %9s %19s %9s %5s\n", "", "", "capacity", "threads", "ns/call",
         "quartiles", "M calls/s", "busy");
  for (const struct entry *e = x->entries; e < x->entries + x->count; e++) {
    const struct series *s = &e->series;
    double median = series_quartile(s, 2);
    printf("  %-15s %-20s %10" PRIu64 " %7u %9.2f %9.2f %9.2f %9.2f %5.2f\n",
           e->subject->is_machine ? "" : e->workload->name, e->subject->name, e->capacity,
           e->threads, median, series_quartile(s, 1), series_quartile(s, 3),
           median > 0 ? 1e3 / median : 0, s->busy);
  }
  fflush(stdout);
}
