/* SPDX-License-Identifier: MIT */
#ifndef CRAWLER_COMPLAIN_H
#define CRAWLER_COMPLAIN_H

/* Prints an error, in one line.  Any thread may call it. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
