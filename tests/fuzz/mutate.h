/* SPDX-License-Identifier: MIT
 *
 * Changes a saved filter as somebody would who wants the library to fail: numbers at their
 * extremes, parts that are missing, doubled or in another order, words that no filter writes;
 * nearly always with right sums.
 */
#ifndef TAMIS_TESTS_FUZZ_MUTATE_H
#define TAMIS_TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Changes `size` bytes at `data`, and returns their new number, at most `most`. */
typedef size_t (*mutate_bytes_function)(unsigned char *data, size_t size, size_t most);

/* The same change for the same seed.  `bytes` changes the data of a part; NULL: only as here. */
size_t mutate_saved(unsigned char *data, size_t size, size_t most, uint64_t seed,
                    mutate_bytes_function bytes);

/* Puts parts of another saved filter among those of the first.  Returns the size of the result; 0:
 * there is none. */
size_t mutate_cross(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size,
                    unsigned char *to, size_t most, uint64_t seed);

/* Calls for each of some thousand changes, one by one, with right sums: of every number, of the order of
 * the parts, and of their sizes. */
typedef void (*mutate_try_function)(void *context, const unsigned char *data, size_t size);
void mutate_each(const unsigned char *data, size_t size, mutate_try_function try, void *context);

#endif
