/* How does each key expire at its own time?  Here, sessions last for different times. */
#include <stdio.h>
#include <tamis/tamis.h>

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000; /* sessions at one time */
  options.fpp = 1e-6;
  options.window = 60; /* the longest life, in periods of a minute */
  tamis_filter *sessions;
  if (tamis_create(&options, &sessions) != TAMIS_OK)
    return 1;
  tamis_add_for(sessions, "guest", 5, 5);   /* this minute and five more */
  tamis_add_for(sessions, "member", 6, 30); /* this minute and thirty more */
  tamis_add_for(sessions, "guest", 5, 2);   /* does not shorten its life */
  for (int minute = 1; minute <= 20; minute++) {
    tamis_advance(sessions); /* your timer does this every minute: a period ends */
    if (tamis_add_unique_for(sessions, "guest", 5, 10) == TAMIS_OK)
      printf("minute %d: a new session of the guest\n", minute);
  }
  printf("the member is %s\n", tamis_contains(sessions, "member", 6) ? "in" : "out");
  tamis_destroy(sessions);
}
/* prints: minute 6: a new session of the guest */
/* prints: minute 17: a new session of the guest */
/* prints: the member is in */
