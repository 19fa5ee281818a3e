/* Which of many partitions, files or segments may hold a key?  Each has a filter that says so, and
 * the others need not be searched. */
#include <stdio.h>
#include <tamis/tamis.h>

enum { DAYS = 200 };

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  options.seed = 42; /* the same for all filters: the key is hashed once */
  tamis_filter *days[DAYS];
  char id[32];
  for (int day = 0; day < DAYS; day++) {
    if (tamis_create(&options, &days[day]) != TAMIS_OK)
      return 1;
    for (int i = 0; i < 1000; i++)
      tamis_add(days[day], id, (size_t) snprintf(id, sizeof id, "order %d-%d", day, i));
  }
  bool found[DAYS]; /* found[day]: the day may hold the key; the others need not be searched */
  size_t n =
      tamis_contains_each((const tamis_filter *const *) days, DAYS, "order 123-77", 12, found);
  printf("day 123: %s, few others: %s\n", found[123] ? "yes" : "no", n < 20 ? "yes" : "no");
  for (int day = 0; day < DAYS; day++)
    tamis_destroy(days[day]);
}
/* prints: day 123: yes, few others: yes */
