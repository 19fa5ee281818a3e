/* SPDX-License-Identifier: MIT
 *
 * Plugins that are unloaded, with the static library in them, while its thread waits or idles.
 * This program is linked neither with the library nor with liburcu.
 */
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct plugin {
  void *handle;
  bool (*work)(unsigned rounds);
  void (*look_up_once)(void);
};

static struct plugin load(void)
{
  struct plugin plugin = {.handle = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL)};
  if (!plugin.handle)
    fail_msg("%s", dlerror());
  *(void **) &plugin.work = dlsym(plugin.handle, "plugin_work");
  *(void **) &plugin.look_up_once = dlsym(plugin.handle, "plugin_look_up_once");
  assert_true(plugin.work && plugin.look_up_once);
  return plugin;
}

/* Its code is gone, or what follows would show nothing. */
static void unload(const struct plugin *plugin)
{
  assert_int_equal(dlclose(plugin->handle), 0);
  assert_null(dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD));
}

static unsigned long tasks(void)
{
  unsigned long n = 0;
  FILE *status = fopen("/proc/self/status", "r");
  assert_non_null(status);
  for (char line[256]; fgets(line, sizeof line, status);)
    if (sscanf(line, "Threads: %lu", &n) == 1)
      break;
  fclose(status);
  return n;
}

static void *tell_task(void *task)
{
  *(pid_t *) task = gettid();
  return NULL;
}

/* The kernel counts a thread for an instant after it has been joined. */
static bool tasks_become(unsigned long n)
{
  for (unsigned i = 0; i < 1000 * PATIENCE_SECONDS && tasks() != n; i++)
    usleep(1000);
  return tasks() == n;
}

static void a_plugin_goes_while_the_thread_idles(void **state)
{
  (void) state;
  pthread_t thread; /* the first one, with which a sanitizer may start one of its own */
  pid_t task;
  char path[64];
  assert_int_equal(pthread_create(&thread, NULL, tell_task, &task), 0);
  pthread_join(thread, NULL);
  snprintf(path, sizeof path, "/proc/self/task/%d", task);
  for (unsigned i = 0; i < 1000 * PATIENCE_SECONDS && access(path, F_OK) == 0; i++)
    usleep(1000);
  unsigned long before = tasks();
  for (unsigned i = 0; i < 5; i++) { /* and comes again */
    struct plugin plugin = load();
    assert_true(plugin.work(2));
    usleep(50000);
    unload(&plugin);
    assert_true(tasks_become(before));
    usleep(i == 0 ? 1200000 : 1000); /* in which it would have ended by itself */
  }
}

static void a_plugin_goes_while_the_thread_waits(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 50; i++) {
    struct plugin plugin = load();
    assert_true(plugin.work(1));
    unload(&plugin);
  }
}

static sem_t looked_up, unloaded;

static void *look_up(void *plugin)
{
  ((struct plugin *) plugin)->look_up_once();
  sem_post(&looked_up);
  sem_wait(&unloaded);
  return NULL;
}

/* The program reads by liburcu itself, for longer than the end of a process would wait. */
static void *read_for_a_while(void *plugin)
{
  void (*lock)(void), (*unlock)(void);
  *(void **) &lock = dlsym(((struct plugin *) plugin)->handle, "urcu_bp_read_lock");
  *(void **) &unlock = dlsym(((struct plugin *) plugin)->handle, "urcu_bp_read_unlock");
  lock();
  sem_post(&looked_up);
  usleep(1500000);
  unlock();
  return NULL;
}

static void a_plugin_goes_when_readers_have_left(void **state)
{
  (void) state;
  pthread_t thread;
  sem_init(&looked_up, 0, 0);
  struct plugin plugin = load();
  assert_int_equal(pthread_create(&thread, NULL, read_for_a_while, &plugin), 0);
  sem_wait(&looked_up);
  assert_true(plugin.work(1));
  unload(&plugin);
  pthread_join(thread, NULL);
  usleep(100000); /* in which a thread that was left behind would return to the plugin's code */
}

/* A reader that never leaves does not keep a process that has a plugin from ending. */
static void a_process_with_a_plugin_ends(void **state)
{
  (void) state;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct plugin plugin = load();
    void (*lock)(void);
    *(void **) &lock = dlsym(plugin.handle, "urcu_bp_read_lock");
    lock();
    alarm(PATIENCE_SECONDS);
    exit(plugin.work(1) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* liburcu has code to run when it ends. */
static void a_thread_may_end_after_the_plugin(void **state)
{
  (void) state;
  pthread_t thread;
  sem_init(&looked_up, 0, 0);
  sem_init(&unloaded, 0, 0);
  struct plugin plugin = load();
  assert_int_equal(pthread_create(&thread, NULL, look_up, &plugin), 0);
  sem_wait(&looked_up);
  unload(&plugin);
  sem_post(&unloaded);
  pthread_join(thread, NULL);
}

static void a_fork_may_come_after_the_plugin(void **state)
{
  (void) state;
  struct plugin plugin = load();
  assert_true(plugin.work(1));
  unload(&plugin);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* The shared library stays loaded. */
/* glibc keeps some hundred bytes in each thread for libraries that are loaded later, and each plugin takes of
 * them. */
static void many_plugins_are_loaded_at_a_time(void **state)
{
  (void) state;
  enum { PLUGINS = 10 };
  void *handles[PLUGINS];
  char path[] = "/tmp/plugin-XXXXXX.so", command[sizeof PLUGIN + 100];
  for (unsigned i = 0; i < PLUGINS; i++) {
    memcpy(path, "/tmp/plugin-XXXXXX.so", sizeof path);
    int fd = mkstemps(path, 3);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cp '%s' %s", PLUGIN, path);
    assert_int_equal(system(command), 0);
    handles[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    if (!handles[i])
      fail_msg("plugin %u: %s", i, dlerror());
  }
  for (unsigned i = 0; i < PLUGINS; i++)
    assert_int_equal(dlclose(handles[i]), 0);
}

static void a_plugin_on_the_shared_library_goes(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    void *plugin = dlopen(SHARED_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!plugin)
      fail_msg("%s", dlerror());
    bool (*work)(unsigned rounds);
    *(void **) &work = dlsym(plugin, "plugin_work");
    assert_true(work(1));
    assert_int_equal(dlclose(plugin), 0);
    assert_null(dlopen(SHARED_PLUGIN, RTLD_NOW | RTLD_NOLOAD));
    usleep(i == 0 ? 1200000 : 1000);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plugin_goes_while_the_thread_idles),
      cmocka_unit_test(a_plugin_goes_while_the_thread_waits),
      cmocka_unit_test(a_plugin_goes_when_readers_have_left),
      cmocka_unit_test(a_process_with_a_plugin_ends),
      cmocka_unit_test(a_thread_may_end_after_the_plugin),
      cmocka_unit_test(a_fork_may_come_after_the_plugin),
      cmocka_unit_test(many_plugins_are_loaded_at_a_time),
      cmocka_unit_test(a_plugin_on_the_shared_library_goes),
  };
  return cmocka_run_group_tests_name("reclaim_unload", tests, NULL, NULL);
}
