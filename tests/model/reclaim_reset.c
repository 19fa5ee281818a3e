/* SPDX-License-Identifier: MIT
 *
 * lib/base/reclaim.c, and a way to begin anew: an execution that is given up leaves its static data in the
 * middle of something.
 */
#include "../../lib/base/reclaim.c"

#include "base/stripe.h"

#include "model.h"

#include <stddef.h>

const size_t model_stripe_used = offsetof(struct stripe, used);

void model_reset_reclaim(void)
{
  waiter.wanted = waiter.started = waiter.elapsed = 0;
  waiter.running = waiter.unjoined = waiter.stopping = false;
  tamis__reader =
      registered_reader(); /* no need to register threads with liburcu, which is not there */
}
