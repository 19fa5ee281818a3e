/* SPDX-License-Identifier: MIT
 *
 * Question: how fast is the library, compared with another build of it, with other libraries, and with
 * what the machine can do?
 *
 * Compare figures of one run only: those of two runs, or of two machines, differ for other reasons, too.
 * bench/table prints the library's own figures beside those of another build.
 */
#include "bench.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <error.h>
#include <map>
#include <sched.h>
#include <sstream>

struct flags flags;

/* ---- what bench.h declares ---- */

static cpu_set_t allowed;

void pin(int thread)
{
  int left = thread % CPU_COUNT(&allowed);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      (void) sched_setaffinity(0, sizeof one, &one); /* the measurement works without it */
      return;
    }
}

std::string name_of(const char *workload, const size &z)
{
  char text[64];
  snprintf(text, sizeof text, "/keys:%llu/fpp:%g", static_cast<unsigned long long>(z.keys), z.fpp);
  return z.subject + "/" + workload + text;
}

uint64_t nanoseconds()
{
  timespec t;
  clock_gettime(flags.cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

/* The file of a subject has the times of one repetition after the other, as 32-bit numbers. */
void keep_times(benchmark::State &s, const std::string &subject, std::vector<uint32_t> &times)
{
  if (!flags.times.empty()) {
    const std::string name = flags.times + "/" + subject;
    FILE *file = fopen(name.c_str(), "ab");
    if (!file || fwrite(times.data(), sizeof times[0], times.size(), file) < times.size() ||
        fclose(file))
      error(2, errno, "%s", name.c_str());
  }
  const auto p9999 = times.begin() + static_cast<std::ptrdiff_t>(0.9999 * (times.size() - 1));
  std::nth_element(times.begin(), p9999, times.end());
  s.counters["p9999_ns"] = *p9999;
  s.counters["longest_ns"] = *std::max_element(p9999, times.end());
}

/* ---- the command line ---- */

static const char help[] =
    "bench [OPTION ...]: --benchmark_list_tests lists all benchmarks, --help also Google's "
    "options\n"
    "  --keys=LIST --fpp=LIST --threads=LIST    with commas; default: 1e6, 0.01 and 1,2\n"
    "  --calls=N          calls of a repetition; default: those of --benchmark_min_time\n"
    "  --library=PATH     the libtamis.so to measure; default: that of this build\n"
    "  --other=PATH       another one, whose filters are the subjects other-...\n"
    "  --from=N           the capacity of filters that grow; default: 10000\n"
    "  --filters=N        into which `each' divides the keys; default: 64\n"
    "  --hot              `each' looks up one key all the time\n"
    "  --cpu-time         `grow' takes the time for which the thread has a core\n"
    "  --times=FOLDER     `grow' writes the time of each call into FOLDER/SUBJECT\n"
    "  --directory=PATH   for saved filters; default: /dev/shm\n";

static double number(const std::string &text)
{
  char *end;
  const double value = strtod(text.c_str(), &end);
  if (end == text.c_str() || *end || !(value > 0))
    error(2, 0, "no number: %s", text.c_str());
  return value;
}

static std::vector<double> numbers(const std::string &text)
{
  std::vector<double> list;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');)
    list.push_back(number(part));
  return list;
}

static const std::map<std::string, void (*)(const std::string &)> options{
    {"--keys", [](const std::string &v) { flags.keys = numbers(v); }},
    {"--fpp", [](const std::string &v) { flags.fpp = numbers(v); }},
    {"--calls", [](const std::string &v) { flags.calls = number(v); }},
    {"--threads", [](const std::string &v) { flags.threads = numbers(v); }},
    {"--library", [](const std::string &v) { flags.library = v; }},
    {"--other", [](const std::string &v) { flags.other = v; }},
    {"--from", [](const std::string &v) { flags.from = static_cast<uint64_t>(number(v)); }},
    {"--filters", [](const std::string &v) { flags.filters = static_cast<uint64_t>(number(v)); }},
    {"--hot", [](const std::string &) { flags.hot = true; }},
    {"--cpu-time", [](const std::string &) { flags.cpu_time = true; }},
    {"--times", [](const std::string &v) { flags.times = v; }},
    {"--directory", [](const std::string &v) { flags.directory = v; }}};

static void parse(const std::string &argument)
{
  const size_t end = argument.find('=');
  const auto found = options.find(argument.substr(0, end));
  if (found == options.end())
    error(2, 0, "unknown option: %s", argument.c_str());
  found->second(end == std::string::npos ? "" : argument.substr(end + 1));
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "--help") == 0)
    fputs(help, stdout);
  benchmark::Initialize(&argc, argv); /* takes its own options */
  flags.library = BENCH_LIBRARY;
  for (int i = 1; i < argc; i++)
    parse(argv[i]);
  if (sched_getaffinity(0, sizeof allowed, &allowed))
    error(2, errno, "sched_getaffinity");
  add_tamis("", flags.library);
  if (!flags.other.empty())
    add_tamis("other-", flags.other);
  add_peers();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
