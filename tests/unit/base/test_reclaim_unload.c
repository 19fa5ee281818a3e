/* SPDX-License-Identifier: MIT
 *
 * Plugins that are unloaded, with the static library in them, while its thread waits or idles.
 * This program is linked neither with the library nor with liburcu.
 */
#include "unit.h"

#include <dlfcn.h>
#include <semaphore.h>

struct plugin {
  const char *path;
  void *handle;
  bool (*work)(unsigned rounds);
  void (*lock)(void), (*unlock)(void); /* of liburcu */
};

static struct plugin load(const char *path)
{
  struct plugin plugin = {.path = path, .handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (!plugin.handle)
    fail_msg("%s", dlerror());
  *(void **) &plugin.work = dlsym(plugin.handle, "plugin_work");
  *(void **) &plugin.lock = dlsym(plugin.handle, "urcu_bp_read_lock");
  *(void **) &plugin.unlock = dlsym(plugin.handle, "urcu_bp_read_unlock");
  assert_non_null(plugin.work);
  return plugin;
}

/* Its code is gone, or what follows would show nothing. */
static void unload(const struct plugin *plugin)
{
  assert_int_equal(dlclose(plugin->handle), 0);
  assert_null(dlopen(plugin->path, RTLD_NOW | RTLD_NOLOAD));
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

/* The kernel counts a thread for an instant after it has been joined. */
static bool tasks_become(unsigned long n)
{
  AWAIT(tasks() == n);
  return tasks() == n;
}

static sem_t looked_up, unloaded;

static void *wait_for_post(void *unused)
{
  sem_wait(&unloaded);
  return unused;
}

/* With the first thread a sanitizer may start one of its own. */
TEST(a_plugin_goes_while_the_thread_idles)
{
  pthread_t thread;
  sem_init(&unloaded, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, wait_for_post, NULL), 0);
  unsigned long before = tasks() - 1;
  sem_post(&unloaded);
  pthread_join(thread, NULL);
  for (unsigned i = 0; i < 5; i++) { /* and comes again */
    struct plugin plugin = load(PLUGIN);
    assert_true(plugin.work(2));
    usleep(50000);
    unload(&plugin);
    assert_true(tasks_become(before));
    usleep(i == 0 ? 1200000 : 1000); /* in which it would have ended by itself */
  }
}

TEST(a_plugin_goes_while_the_thread_waits)
{
  for (unsigned i = 0; i < 50; i++) {
    struct plugin plugin = load(PLUGIN);
    assert_true(plugin.work(1));
    unload(&plugin);
  }
}

static void *look_up(void *plugin)
{
  ((struct plugin *) plugin)->work(0); /* registers it with liburcu */
  sem_post(&looked_up);
  sem_wait(&unloaded);
  return NULL;
}

/* The program reads by liburcu itself, for longer than the end of a process would wait. */
static void *read_for_a_while(void *plugin)
{
  const struct plugin loaded = *(struct plugin *) plugin;
  loaded.lock();
  sem_post(&looked_up);
  usleep(1500000);
  loaded.unlock();
  return NULL;
}

TEST(a_plugin_goes_when_readers_have_left)
{
  pthread_t thread;
  sem_init(&looked_up, 0, 0);
  struct plugin plugin = load(PLUGIN);
  assert_int_equal(pthread_create(&thread, NULL, read_for_a_while, &plugin), 0);
  sem_wait(&looked_up);
  assert_true(plugin.work(1));
  unload(&plugin);
  pthread_join(thread, NULL);
  usleep(100000); /* in which a thread that was left behind would return to the plugin's code */
}

/* A reader that never leaves does not keep a process that has a plugin from ending. */
TEST(a_process_with_a_plugin_ends)
{
  pid_t child = fork_child();
  if (child == 0) {
    struct plugin plugin = load(PLUGIN);
    plugin.lock();
    alarm(PATIENCE_SECONDS);
    exit(plugin.work(1) ? 0 : 1);
  }
  assert_int_equal(wait_for(child), 0);
}

/* liburcu has code to run when it ends. */
TEST(a_thread_may_end_after_the_plugin)
{
  pthread_t thread;
  sem_init(&looked_up, 0, 0);
  sem_init(&unloaded, 0, 0);
  struct plugin plugin = load(PLUGIN);
  assert_int_equal(pthread_create(&thread, NULL, look_up, &plugin), 0);
  sem_wait(&looked_up);
  unload(&plugin);
  sem_post(&unloaded);
  pthread_join(thread, NULL);
}

TEST(a_fork_may_come_after_the_plugin)
{
  struct plugin plugin = load(PLUGIN);
  assert_true(plugin.work(1));
  unload(&plugin);
  pid_t child = fork_child();
  if (child == 0)
    _exit(0);
  assert_int_equal(wait_for(child), 0);
}

/* glibc keeps some hundred bytes in each thread for libraries that are loaded later, and each plugin takes of
 * them. */
TEST(many_plugins_are_loaded_at_a_time)
{
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

/* The shared library stays loaded, and so would be in the child of a later fork. */
TEST(a_plugin_on_the_shared_library_goes)
{
  for (unsigned i = 0; i < 3; i++) {
    struct plugin plugin = load(SHARED_PLUGIN);
    assert_true(plugin.work(1));
    unload(&plugin);
    usleep(i == 0 ? 1200000 : 1000);
  }
}
