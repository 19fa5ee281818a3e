/* SPDX-License-Identifier: MIT */
/* How does Prometheus get the figures of a filter? */
#include <stdio.h>
#include <tamis/tamis.h>

static int write_to(void *file, const void *text, size_t size)
{
  return fwrite(text, 1, size, file) == size ? 0 : -1;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  tamis_add(filter, "key", 3);
  /* Your server answers GET /metrics with this text. */
  if (tamis_stats_text(filter, TAMIS_PROMETHEUS, "sessions", write_to, stdout) != TAMIS_OK)
    return 1;
  tamis_destroy(filter);
}
/* prints, among others: tamis_keys{name="sessions"} 1 */
/* prints, among others: tamis_capacity_keys{name="sessions"} 1000 */
