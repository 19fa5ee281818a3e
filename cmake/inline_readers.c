/* SPDX-License-Identifier: MIT
 *
 * Compiles where liburcu's readers are what lib/base/reclaim.h inlines: these fields and constants, of
 * these types, with this meaning.
 */
#define _LGPL_SOURCE
#include <urcu/urcu-bp.h>

#define IS(type, expression) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(expression), type), #expression)

IS(unsigned long, ((struct urcu_bp_reader *) 0)->ctr);
IS(unsigned long, urcu_bp_gp.ctr);
IS(struct urcu_bp_reader *, urcu_bp_reader);
IS(int, urcu_bp_has_sys_membarrier);
_Static_assert(URCU_BP_GP_COUNT == 1, "sections are counted from the lowest bit on");
_Static_assert(URCU_BP_GP_CTR_NEST_MASK == (1UL << 4 * sizeof(long)) - 1, "in the lower half");

int main(void)
{
  struct urcu_bp_reader *reader = urcu_bp_reader;
  CMM_STORE_SHARED(reader->ctr, CMM_LOAD_SHARED(urcu_bp_gp.ctr));
  cmm_barrier();
  return 0;
}
