/* SPDX-License-Identifier: Apache-2.0
 *
 * Files whose writers die or are stopped: recovered by a call, recovered by the next append, and what the old writer is told. Needs a
 * server with a short soft limit. `recovery --writer PATH` is the writer: it appends, syncs, says so, and closes when it is told.
 */
#define _POSIX_C_SOURCE 200809L
#include "files.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define BUCKET "/recovery/bucket"

/* Longer than any of these waits takes; a test that needs more is wrong. */
enum { LONGEST_S = 120 };

static const char *program;

struct writer {
    pid_t pid;
    FILE *say, *hear;
};

static struct writer started(const char *path)
{
    struct writer writer = {.pid = -1};
    char word[16] = "";
    int to[2], from[2];

    fflush(stdout);
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    writer.pid = fork();
    if (writer.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execl(program, program, "--writer", path, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    writer.say = fdopen(to[1], "w");
    writer.hear = fdopen(from[0], "r");
    CHECK(fscanf(writer.hear, "%15s", word) == 1 && strcmp(word, "synced") == 0);
    return writer;
}

/* Lets it close its stream; the kind of error that it got, or -1 for none. */
static int ended(struct writer *writer)
{
    int kind = -2, status = 0;

    CHECK(fputs("close\n", writer->say) >= 0 && fflush(writer->say) == 0);
    CHECK(fscanf(writer->hear, "%d", &kind) == 1);
    fclose(writer->say);
    fclose(writer->hear);
    CHECK(waitpid(writer->pid, &status, 0) == writer->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return kind;
}

static void killed(struct writer *writer)
{
    int status = 0;

    CHECK(kill(writer->pid, SIGKILL) == 0);
    CHECK(waitpid(writer->pid, &status, 0) == writer->pid && WIFSIGNALED(status));
    fclose(writer->say);
    fclose(writer->hear);
}

static int write_until_told(const char *path)
{
    append_error *error = NULL;
    append_writer *writer;
    char word[16];

    fs = OK(append_fs_connect(server(), NULL, NULL, &error));
    writer = OK(append_fs_append(fs, path, NULL, NULL, &error));
    OK(append_writer_write(writer, "synced", 6, NULL, &error));
    OK(append_writer_hsync(writer, NULL, &error));
    printf("synced\n");
    fflush(stdout);
    if (scanf("%15s", word) != 1) {
        return 1;
    }
    if (append_writer_write(writer, "later", 5, NULL, &error) == 5) {
        append_writer_close(writer, NULL, &error);
    }
    printf("%d\n", error == NULL ? -1 : append_error_kind(error));
    append_error_free(error);
    append_writer_abort(writer, NULL);
    append_fs_disconnect(fs, NULL);
    return checks_failed;
}

/* Calls until the writer's lease is over, each time as long after as the server says. */
static void recovered(const char *path)
{
    struct timespec begun, now;

    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        append_error *error = NULL;
        int closed = append_recover_lease(fs, path, NULL, &error);
        int64_t left = append_error_retry_after_ms(error);

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (closed == 1 || append_error_kind(error) != APPEND_KIND_CONFLICT || now.tv_sec - begun.tv_sec > LONGEST_S) {
            CHECK(closed == 1 && error == NULL);
            append_error_free(error);
            break;
        }
        CHECK(closed == -1 && append_error_errno(error) == EBUSY);
        CHECK(append_error_holder(error) != NULL && append_error_holder(error)->kind == APPEND_HOLDER_KIND_APPEND);
        CHECK(left >= 0);
        append_error_free(error);
        if (left < 20) {
            left = 20;
        }
        nanosleep(&(struct timespec){.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000}, NULL);
    }
    CHECK(OK(append_is_file_closed(fs, path, NULL, &error)) == 1);
}

static void closed_files_are_left_alone(void)
{
    append_fs *other = OK(append_fs_connect(server(), NULL, NULL, &error));
    append_writer *writer;

    write_file(BUCKET "/closed", "data", 4);
    CHECK(OK(append_is_file_closed(fs, BUCKET "/closed", NULL, &error)) == 1);
    CHECK(OK(append_recover_lease(fs, BUCKET "/closed", NULL, &error)) == 1);
    CHECK(contains(BUCKET "/closed", "data", 4));

    writer = OK(append_fs_append(fs, BUCKET "/closed", NULL, NULL, &error));
    CHECK(OK(append_is_file_closed(fs, BUCKET "/closed", NULL, &error)) == 0);
    CHECK(OK(append_is_file_closed(other, BUCKET "/closed", NULL, &error)) == 0);
    FAILS(append_recover_lease(other, BUCKET "/closed", NULL, &error), EBUSY, APPEND_KIND_CONFLICT);
    OK(append_writer_write(writer, "more", 4, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    CHECK(OK(append_is_file_closed(other, BUCKET "/closed", NULL, &error)) == 1);
    CHECK(contains(BUCKET "/closed", "datamore", 8));

    /* A stream of the same connection is not waited for. */
    writer = OK(append_fs_append(fs, BUCKET "/closed", NULL, NULL, &error));
    OK(append_writer_write(writer, "lost", 4, NULL, &error));
    CHECK(OK(append_recover_lease(fs, BUCKET "/closed", NULL, &error)) == 1);
    FAILS(append_writer_close(writer, NULL, &error), ESTALE, APPEND_KIND_STALE_SESSION);
    CHECK(OK(append_is_file_closed(fs, BUCKET "/closed", NULL, &error)) == 1);
    OK(append_fs_disconnect(other, &error));
}

static void what_is_no_file_is_not_recovered(void)
{
    FAILS(append_recover_lease(fs, BUCKET "/none", NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    FAILS(append_is_file_closed(fs, BUCKET "/none", NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    OK(append_fs_mkdir(fs, BUCKET "/dir", 1, NULL, &error));
    FAILS(append_recover_lease(fs, BUCKET "/dir", NULL, &error), EISDIR, APPEND_KIND_IS_DIRECTORY);
    FAILS(append_is_file_closed(fs, BUCKET "/dir", NULL, &error), EISDIR, APPEND_KIND_IS_DIRECTORY);
    FAILS(append_recover_lease(fs, BUCKET, NULL, &error), EISDIR, APPEND_KIND_IS_DIRECTORY);
}

/* All of them begin together, so that their leases end together. */
static void writers_that_die_or_are_stopped(void)
{
    struct writer dead, replaced, stopped;
    int64_t length = 0;
    char *data;

    write_file(BUCKET "/dead", "base", 4);
    write_file(BUCKET "/replaced", "base", 4);
    write_file(BUCKET "/stopped", "base", 4);
    dead = started(BUCKET "/dead");
    replaced = started(BUCKET "/replaced");
    stopped = started(BUCKET "/stopped");
    CHECK(kill(stopped.pid, SIGSTOP) == 0);
    killed(&dead);
    killed(&replaced);

    recovered(BUCKET "/dead");
    CHECK(contains(BUCKET "/dead", "basesynced", 10));
    recovered(BUCKET "/stopped");
    CHECK(kill(stopped.pid, SIGCONT) == 0);
    CHECK(ended(&stopped) == APPEND_KIND_STALE_SESSION);
    CHECK(contains(BUCKET "/stopped", "basesynced", 10));

    /* The append itself waits and recovers. */
    append_to(BUCKET "/replaced", "next", 4);
    data = contents(BUCKET "/replaced", &length);
    CHECK(length == 14 && memcmp(data, "basesyncednext", 14) == 0);
    free(data);
}

static void tests(void)
{
    RUN(closed_files_are_left_alone);
    RUN(what_is_no_file_is_not_recovered);
    RUN(writers_that_die_or_are_stopped);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 3 && strcmp(argv[1], "--writer") == 0) {
        return write_until_told(argv[2]);
    }
    return all(argc, argv, BUCKET, tests);
}
