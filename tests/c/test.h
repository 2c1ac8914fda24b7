/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C tests share: checks that print where they fail, and tests that are counted.
 */
#ifndef TEST_H
#define TEST_H

#include <append.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tests_passed, tests_failed, checks_failed;

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                         \
            checks_failed++;                                                                                               \
        }                                                                                                                  \
    } while (0)

/* The value of a call that must succeed; its last argument is &error. */
#define OK(call)                                                                                                           \
    __extension__({                                                                                                        \
        append_error *error = NULL;                                                                                        \
        __auto_type result = (call);                                                                                       \
        if (error != NULL) {                                                                                               \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, append_error_text(error));                                \
            checks_failed++;                                                                                               \
            append_error_free(error);                                                                                      \
        }                                                                                                                  \
        result;                                                                                                            \
    })

/* A call that must fail with -1 or NULL, this errno and this kind; its last argument is &error. */
#define FAILS(call, wanted_errno, wanted_kind)                                                                             \
    do {                                                                                                                   \
        append_error *error = NULL;                                                                                        \
        errno = 0;                                                                                                         \
        int64_t result = (int64_t)(call);                                                                                  \
        int number = errno;                                                                                                \
        if ((result != -1 && result != 0) || error == NULL || number != (wanted_errno)                                     \
            || append_error_kind(error) != (int)(wanted_kind) || append_error_errno(error) != (wanted_errno)               \
            || append_error_text(error)[0] == '\0') {                                                                      \
            printf("%s:%d: %s: result %lld, errno %d (wanted %d), kind %d (wanted %d): %s\n", __FILE__, __LINE__, #call,   \
                   (long long)result, number, (wanted_errno), append_error_kind(error), (int)(wanted_kind),                \
                   append_error_text(error));                                                                              \
            checks_failed++;                                                                                               \
        }                                                                                                                  \
        append_error_free(error);                                                                                          \
    } while (0)

/* Tests whose names do not start with this are left out. */
static const char *only = "";

static void run(const char *name, void (*test)(void))
{
    int before = checks_failed;

    if (strncmp(name, only, strlen(only)) != 0) {
        return;
    }
    test();
    if (checks_failed == before) {
        tests_passed++;
    } else {
        tests_failed++;
        printf("FAILED %s\n", name);
    }
    fflush(stdout);
}

#define RUN(test) run(#test, test)

/* The last line, and the program's exit code. A handle that is open at the end was forgotten by a test or by the library. */
static int end(void)
{
    if (append_open_handles() != 0) {
        printf("%zu handles are open at the end\n", append_open_handles());
        tests_failed++;
    }
    printf("%d passed, %d failed\n", tests_passed, tests_failed);
    return tests_failed == 0 ? 0 : 1;
}

/* Where the server is; scripts/with-server says so. */
static const char *server(void)
{
    const char *uri = getenv("APPEND_URI");

    if (uri == NULL) {
        fprintf(stderr, "APPEND_URI is not set: run it through scripts/with-server\n");
        exit(2);
    }
    return uri;
}

#endif
