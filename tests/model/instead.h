/* SPDX-License-Identifier: MIT
 *
 * Included before everything else when the library is compiled for the model: what it asks of the
 * system it gets from world.cpp.  (Its atomic and plain accesses arrive there by the compiler's
 * instrumentation for ThreadSanitizer, its stripes by the annotations that it has for that, its
 * grace periods by the names of liburcu's functions, which is not linked.)
 */
#ifndef TAMIS_TESTS_MODEL_INSTEAD_H
#define TAMIS_TESTS_MODEL_INSTEAD_H

#define calloc model_calloc
#define free model_free
#define nanosleep model_nanosleep
#define pthread_mutex_lock model_mutex_lock
#define pthread_mutex_unlock model_mutex_unlock
#define pthread_cond_signal model_cond_signal
#define pthread_cond_timedwait model_cond_timedwait
#define pthread_create model_create
#define pthread_join model_join

#endif
