/* SPDX-License-Identifier: MIT
 *
 * A loss of power, for the scenario: preloaded into the crawler, it keeps beside a folder what a
 * disk would have of it if nothing is written before it must be.  POWER_DISK is where: for each
 * file what it held when it was last synchronised, by the file's number, and in `names` which
 * numbers had which names when the folder itself was.  At a synchronisation that POWER_AT or
 * POWER_AT_NAMES chooses (of any kind; of the folder), the process is killed: 2n - 1 is before the
 * nth one has had an effect, and 2n after it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of the counts and of what the disk has */
static long syncs, syncs_of_names;

static long option(const char *name)
{
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

static void die_if(bool now)
{
  if (now)
    kill(getpid(), SIGKILL);
}

/* Writes what the disk has from now on, as a whole. */
static FILE *begin(const char *name)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/new", getenv("POWER_DISK"));
  FILE *out = fopen(path, "w");
  if (!out)
    fprintf(stderr, "%s/%s cannot be written\n", path, name), abort();
  return out;
}

static void end(FILE *out, const char *name)
{
  char from[4096], to[4096];
  snprintf(from, sizeof from, "%s/new", getenv("POWER_DISK"));
  snprintf(to, sizeof to, "%s/%s", getenv("POWER_DISK"), name);
  if (fclose(out) != 0 || rename(from, to) != 0)
    abort();
}

static void keep_names(const char *path)
{
  FILE *out = begin("names");
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    if (entry->d_name[0] != '.')
      fprintf(out, "%ju %s\n", (uintmax_t) entry->d_ino, entry->d_name);
  if (folder)
    closedir(folder);
  end(out, "names");
}

static void keep_file(const char *path, uintmax_t number)
{
  char name[32], data[65536];
  snprintf(name, sizeof name, "%ju", number);
  FILE *out = begin(name), *in = fopen(path, "r");
  for (size_t size; in && (size = fread(data, 1, sizeof data, in)) > 0;)
    fwrite(data, 1, size, out);
  if (in)
    fclose(in);
  end(out, name);
}

static void synchronised(int file)
{
  struct stat status;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  const char *folder = getenv("POWER_FOLDER");
  if (!folder || length < 0 || fstat(file, &status) != 0)
    return;
  path[length] = '\0';
  if (strncmp(path, folder, strlen(folder)) != 0)
    return;
  bool names = S_ISDIR(status.st_mode);
  pthread_mutex_lock(&lock);
  long at = 2 * ++syncs, at_names = names ? 2 * ++syncs_of_names : -1;
  die_if(at - 1 == option("POWER_AT") || at_names - 1 == option("POWER_AT_NAMES"));
  if (names)
    keep_names(path);
  else
    keep_file(link, status.st_ino);
  die_if(at == option("POWER_AT") || at_names == option("POWER_AT_NAMES"));
  pthread_mutex_unlock(&lock);
}

static int call(const char *name, int file)
{
  int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
  int result = real(file);
  if (result == 0)
    synchronised(file);
  return result;
}

int fsync(int file)
{
  return call("fsync", file);
}

int fdatasync(int file)
{
  return call("fdatasync", file);
}
