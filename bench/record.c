/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static struct {
  FILE *csv, *json;
  const char *csv_name, *json_name;
  unsigned results; /* in the JSON file so far */
  bool ratios;      /* the JSON file is in its second list */
  uint64_t wrong;
} record;

static FILE *open_for_writing(const char *name)
{
  FILE *file = fopen(name, "w");
  if (!file)
    error(2, errno, "%s", name);
  return file;
}

static void close_written(FILE *file, const char *name)
{
  int bad = ferror(file);
  if (fclose(file) || bad)
    error(2, errno, "%s", name);
}

/* The processor's name as the kernel gives it. */
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

void record_open(const char *csv, const char *json)
{
  record.csv_name = csv;
  record.json_name = json;
  if (csv) {
    record.csv = open_for_writing(csv);
    fprintf(record.csv, "workload,keys,fpp,subject,capacity,threads,round,ns_per_call\n");
  }
  if (json) {
    char processor[256];
    struct utsname system;
    record.json = open_for_writing(json);
    find_processor(processor, sizeof processor);
    uname(&system);
    fprintf(record.json,
            "{\n  \"processor\": \"%s\",\n  \"cores\": %u,\n  \"system\": \"%s %s %s\",\n"
            "  \"compiler\": \"%s\",\n  \"results\": [",
            processor, cores(), system.sysname, system.release, system.machine, __VERSION__);
  }
}

static void write_json(const struct experiment *x, const struct entry *e)
{
  const struct series *s = &e->series;
  fprintf(record.json,
          "%s\n    {\"workload\": \"%s\", \"keys\": %" PRIu64
          ", \"fpp\": %g, \"subject\": \"%s\", \"capacity\": %" PRIu64
          ", \"threads\": %u, \"rounds\": %u, \"ns_per_call\": [%.4g, %.4g, %.4g], "
          "\"busy\": %.3f, \"wrong\": %" PRIu64 "}",
          record.results++ ? "," : "", e->workload->name, x->keys, x->fpp, e->subject->name,
          e->capacity, e->threads, s->rounds, series_quartile(s, 1), series_quartile(s, 2),
          series_quartile(s, 3), s->busy, s->wrong);
}

void record_experiment(const struct experiment *x)
{
  for (const struct entry *e = x->entries; e < x->entries + x->count; e++) {
    for (unsigned i = 0; record.csv && i < e->series.rounds; i++)
      fprintf(record.csv, "%s,%" PRIu64 ",%g,%s,%" PRIu64 ",%u,%u,%.4g\n", e->workload->name,
              x->keys, x->fpp, e->subject->name, e->capacity, e->threads, i, e->series.ns[i]);
    if (record.json)
      write_json(x, e);
    record.wrong += e->series.wrong;
    if (e->series.wrong)
      printf("WRONG: %s, %s: %" PRIu64 " wrong answers\n", e->workload->name, e->subject->name,
             e->series.wrong);
  }
}

void record_ratio(const char *what, double value, const char *bound, double limit, bool met)
{
  char number[32] = "null"; /* JSON has no infinity */
  if (!record.json)
    return;
  if (isfinite(value))
    snprintf(number, sizeof number, "%.4g", value);
  fprintf(record.json,
          "%s\n    {\"what\": \"%s\", \"value\": %s, \"bound\": \"%s\", \"limit\": %g, "
          "\"met\": %s}",
          record.ratios ? "," : "\n  ],\n  \"ratios\": [", what, number, bound, limit,
          met ? "true" : "false");
  record.ratios = true;
}

void record_close(void)
{
  if (record.json) {
    fprintf(record.json, "\n  ]\n}\n");
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
  printf("  %-15s %-20s %10s %7s %9s %19s %9s %5s\n", "", "", "made for", "threads", "ns/call",
         "quartiles", "M calls/s", "busy");
  for (const struct entry *e = x->entries; e < x->entries + x->count; e++) {
    const struct series *s = &e->series;
    double median = series_quartile(s, 2);
    printf("  %-15s %-20s %10" PRIu64 " %7u %9.2f %9.2f %9.2f %9.2f %5.2f\n",
           e->subject->passive ? "" : e->workload->name, e->subject->name, e->capacity, e->threads,
           median, series_quartile(s, 1), series_quartile(s, 3), median > 0 ? 1e3 / median : 0,
           s->busy);
  }
  fflush(stdout);
}
