/* SPDX-License-Identifier: MIT
 *
 * What check_musl.sh runs: threads share a filter that grows and shrinks.
 */
#include <tamis/tamis.h>

#include <pthread.h>
#include <stdio.h>

#ifdef LOADER /* loads it as a plugin */

#include <dlfcn.h>

int main(int argc, char **argv)
{
  void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  int (*use_filters)(void) = plugin ? (int (*)(void)) dlsym(plugin, "use_filters") : NULL;
  if (!use_filters) {
    printf("BAD: %s\n", dlerror());
    return 1;
  }
  return use_filters();
}

#else

enum { THREADS = 4, KEYS = 100000 };

static tamis_filter *filter;

static void *add_and_remove(void *arg)
{
  const uint64_t *base = arg;
  for (uint64_t i = 0; i < KEYS; i++)
    if (tamis_add_unique_hash(filter, *base + i) < 0 || !tamis_contains_hash(filter, *base + i))
      return "an add is lost";
  for (uint64_t i = 0; i < KEYS; i++)
    (void) tamis_remove_hash(filter, *base + i);
  return NULL;
}

__attribute__((visibility("default"))) int use_filters(void)
{
  tamis_options options;
  tamis_options_init(&options);
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  options.fpp = 1e-6;
  char why[200];
  if (tamis_options_check(&options, why, sizeof why) || tamis_create(&options, &filter)) {
    printf("BAD: %s\n", why);
    return 1;
  }
  pthread_t threads[THREADS];
  uint64_t bases[THREADS];
  const char *bad = NULL;
  for (unsigned t = 0; t < THREADS; t++) {
    bases[t] = (uint64_t) t << 32;
    if (pthread_create(&threads[t], NULL, add_and_remove, &bases[t]))
      return 1;
  }
  for (unsigned t = 0; t < THREADS; t++) {
    void *result;
    pthread_join(threads[t], &result);
    bad = result ? result : bad;
  }
  tamis_stats stats;
  tamis_stats_init(&stats);
  if (tamis_get_stats(filter, &stats) || !stats.growths || !stats.joins)
    bad = "the filter did not grow and shrink";
  tamis_destroy(filter);
  puts(bad ? bad : "good");
  return bad != NULL;
}

#ifdef PROGRAM
int main(void)
{
  return use_filters();
}
#endif

#endif
