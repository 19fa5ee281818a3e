/* SPDX-License-Identifier: MIT */
/* The same from C++: how is each message handled once, and how are keys removed, saved and loaded? */
#include <cstdio>
#include <tamis/tamis.hpp>

int main()
{
  try {
    tamis::filter seen(tamis::options(1000000).kind(TAMIS_CUCKOO).fpp(1e-6));
    for (std::string_view key : {"apple", "pear", "apple"})
      if (seen.add_unique(key))
        std::printf("%.*s is new\n", static_cast<int>(key.size()), key.data());
    seen.remove("pear");
    seen.save_file("seen.tamis");
    tamis::filter again = tamis::filter::load_file("seen.tamis");
    std::printf("apple %d, pear %d\n", again.contains("apple"), again.contains("pear"));
    tamis::filter::load_file("no such file"); // or try_load_file, which returns TAMIS_EIO
  } catch (const tamis::error &error) {
    std::puts(error.what());
  }
}
/* prints: apple is new */
/* prints: pear is new */
/* prints: apple 1, pear 0 */
/* prints: tamis: no such file: No such file or directory */
