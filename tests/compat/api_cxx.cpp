// SPDX-License-Identifier: MIT
//
// The public header as a C++ program uses it.
#include <tamis/tamis.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

int main()
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100000;
  options.fpp = 0.001;
  tamis_filter *filter = nullptr;
  char why[100];
  options.stripes = 5000;
  if (tamis_options_check(&options, why, sizeof why) != TAMIS_EINVAL ||
      std::string(why) != "stripes is 5000; it must be from 0 to 4096")
    return 1;
  tamis_options_init(&options);
  options.capacity = 100000;
  options.fpp = 0.001;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;

  std::vector<std::thread> threads;
  std::vector<int> won(2);
  for (int t = 0; t < 2; t++)
    threads.emplace_back([&won, filter, t] {
      for (int i = 0; i < 10000; i++) {
        std::string key = "key " + std::to_string(i);
        won[static_cast<std::size_t>(t)] +=
            tamis_add_unique(filter, key.data(), key.size()) == TAMIS_OK;
      }
    });
  for (std::thread &thread : threads)
    thread.join();

  tamis_stats stats;
  tamis_stats_init(&stats);
  bool good = tamis_get_stats(filter, &stats) == TAMIS_OK;
  good = good && won[0] + won[1] == static_cast<int>(stats.count) && stats.count > 9900 &&
         stats.count <= 10000;
  tamis_destroy(filter);
  std::printf("%s: %d + %d first\n", good ? "good" : "BAD", won[0], won[1]);
  return good ? 0 : 1;
}
