/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded: the wall clock is APPEND_CLOCK_HOURS hours off. Time that only passes is left alone. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, time);

    if (rc == 0 && clock == CLOCK_REALTIME) {
        const char *hours = getenv("APPEND_CLOCK_HOURS");
        time->tv_sec += hours == NULL ? 0 : 3600 * atol(hours);
    }
    return rc;
}
