/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function with NULL for each of its pointers, and with handles that are closed, of another type or invented; and a
 * process that forks. scripts/test-c checks that no function of the header is missing here.
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUCKET "/handles/bucket"
#define FILE_PATH BUCKET "/file"

/* Handles of every type, open or closed. */
struct handles {
    append_config *config;
    append_cancel *cancel;
    append_fs *fs;
    append_entries *entries;
    append_reader *reader;
    append_writer *writer;
    append_error *error;
};

static char buffer[64];

static append_error *some_error(void)
{
    append_error *error = NULL;

    append_cancel_trigger(NULL, &error);
    return error;
}

static struct handles opened(void)
{
    struct handles all;

    all.config = OK(append_config_new(&error));
    all.cancel = OK(append_cancel_new(&error));
    all.fs = OK(append_fs_connect(server(), all.config, NULL, &error));
    OK(append_fs_mkdir(all.fs, BUCKET, 1, NULL, &error));
    all.writer = OK(append_fs_create(all.fs, FILE_PATH, NULL, NULL, &error));
    OK(append_writer_write(all.writer, "content", 7, NULL, &error));
    OK(append_writer_hsync(all.writer, NULL, &error));
    all.reader = OK(append_fs_open(all.fs, FILE_PATH, NULL, &error));
    all.entries = OK(append_fs_stat(all.fs, FILE_PATH, NULL, &error));
    all.error = some_error();
    return all;
}

static void close_all(struct handles *all)
{
    append_error_free(all->error);
    OK(append_entries_free(all->entries, &error));
    OK(append_reader_close(all->reader, &error));
    OK(append_writer_close(all->writer, NULL, &error));
    OK(append_fs_disconnect(all->fs, &error));
    OK(append_cancel_free(all->cancel, &error));
    OK(append_config_free(all->config, &error));
}

/* Every function that takes a handle. Closing a stream, and flushing or syncing one, does nothing when it is closed already. */
static void each_function(const struct handles *all, int number, int kind, int closed_streams_are_fine)
{
    append_wait wait = {.size = sizeof wait, .cancel = all->cancel};

    FAILS(append_config_set(all->config, "key", "value", &error), number, kind);
    FAILS(append_config_set_user(all->config, "user", &error), number, kind);
    FAILS(append_config_free(all->config, &error), number, kind);
    if (all->config != NULL) {
        FAILS(append_fs_connect(server(), all->config, NULL, &error), number, kind);
    }

    FAILS(append_cancel_trigger(all->cancel, &error), number, kind);
    FAILS(append_cancel_free(all->cancel, &error), number, kind);
    if (all->cancel != NULL) {
        FAILS(append_fs_connect(server(), NULL, &wait, &error), number, kind);
    }

    FAILS(append_fs_stat(all->fs, "/", NULL, &error), number, kind);
    FAILS(append_fs_list(all->fs, "/", NULL, 0, NULL, &error), number, kind);
    FAILS(append_fs_mkdir(all->fs, "/x", 0, NULL, &error), number, kind);
    FAILS(append_fs_rename(all->fs, "/x/y/z", "/x/y/w", NULL, &error), number, kind);
    FAILS(append_fs_delete(all->fs, "/x", 0, NULL, &error), number, kind);
    FAILS(append_fs_set_times(all->fs, "/x", 1, 1, NULL, &error), number, kind);
    FAILS(append_fs_capabilities(all->fs, "/x", NULL, &error), number, kind);
    FAILS(append_recover_lease(all->fs, "/x", NULL, &error), number, kind);
    FAILS(append_is_file_closed(all->fs, "/x", NULL, &error), number, kind);
    FAILS(append_fs_open(all->fs, "/x", NULL, &error), number, kind);
    FAILS(append_fs_create(all->fs, "/x", NULL, NULL, &error), number, kind);
    FAILS(append_fs_append(all->fs, "/x", NULL, NULL, &error), number, kind);
    FAILS(append_fs_disconnect(all->fs, &error), number, kind);

    FAILS(append_entries_count(all->entries, &error), number, kind);
    FAILS(append_entries_at(all->entries, 0, &error), number, kind);
    FAILS(append_entries_more(all->entries, &error), number, kind);
    FAILS(append_entries_free(all->entries, &error), number, kind);

    FAILS(append_reader_read(all->reader, buffer, 1, NULL, &error), number, kind);
    FAILS(append_reader_pread(all->reader, buffer, 1, 0, NULL, &error), number, kind);
    FAILS(append_reader_seek(all->reader, 0, &error), number, kind);
    FAILS(append_reader_tell(all->reader, &error), number, kind);
    FAILS(append_reader_length(all->reader, &error), number, kind);

    FAILS(append_writer_write(all->writer, "x", 1, NULL, &error), number, kind);
    FAILS(append_writer_can_sync(all->writer, &error), number, kind);
    FAILS(append_writer_start(all->writer, &error), number, kind);
    FAILS(append_writer_tell(all->writer, &error), number, kind);

    if (closed_streams_are_fine) {
        OK(append_reader_close(all->reader, &error));
        OK(append_writer_flush(all->writer, &error));
        OK(append_writer_hflush(all->writer, NULL, &error));
        OK(append_writer_hsync(all->writer, NULL, &error));
        OK(append_writer_close(all->writer, NULL, &error));
        OK(append_writer_abort(all->writer, &error));
    } else {
        FAILS(append_reader_close(all->reader, &error), number, kind);
        FAILS(append_writer_flush(all->writer, &error), number, kind);
        FAILS(append_writer_hflush(all->writer, NULL, &error), number, kind);
        FAILS(append_writer_hsync(all->writer, NULL, &error), number, kind);
        FAILS(append_writer_close(all->writer, NULL, &error), number, kind);
        FAILS(append_writer_abort(all->writer, &error), number, kind);
    }

    errno = 0;
    CHECK(append_error_kind(all->error) == -1 && errno == number);
    errno = 0;
    CHECK(append_error_errno(all->error) == -1 && errno == number);
    errno = 0;
    CHECK(strcmp(append_error_text(all->error), "not an error object") == 0 && errno == number);
    errno = 0;
    CHECK(append_error_path(all->error) == NULL && errno == number);
    errno = 0;
    CHECK(append_error_request(all->error) == NULL && errno == number);
    errno = 0;
    CHECK(append_error_retry(all->error) == -1 && errno == number);
    errno = 0;
    CHECK(append_error_retry_after_ms(all->error) == -1 && errno == number);
    errno = 0;
    CHECK(append_error_holder(all->error) == NULL && errno == number);
    errno = 0;
    CHECK(append_error_bad_offset(all->error) == -1 && errno == number);
    append_error_free(all->error);
}

static void null_handles_are_refused(void)
{
    struct handles none = {0};

    each_function(&none, EINVAL, APPEND_KIND_INVALID_ARGUMENT, 0);
}

static void closed_handles_are_refused(void)
{
    struct handles all = opened(), again;

    close_all(&all);
    each_function(&all, EBADF, APPEND_KIND_CLOSED, 1);
    /* The tables use the same places again, and the old handles still name nothing. */
    again = opened();
    each_function(&all, EBADF, APPEND_KIND_CLOSED, 1);
    CHECK(append_reader_length(again.reader, NULL) == 7);
    CHECK(append_entries_count(again.entries, NULL) == 1);
    close_all(&again);
}

static void handles_of_another_type_are_refused(void)
{
    struct handles all = opened();
    struct handles mixed = {
        .config = (append_config *)all.cancel,
        .cancel = (append_cancel *)all.fs,
        .fs = (append_fs *)all.entries,
        .entries = (append_entries *)all.reader,
        .reader = (append_reader *)all.writer,
        .writer = (append_writer *)all.error,
        .error = (append_error *)all.config,
    };

    each_function(&mixed, EBADF, APPEND_KIND_BAD_HANDLE, 0);
    close_all(&all);
}

static void invented_handles_are_refused(void)
{
    uintptr_t numbers[] = {1, 0x1000, UINTPTR_MAX, (uintptr_t)buffer};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uintptr_t number = numbers[i];
        struct handles all = {
            .config = (append_config *)number,
            .cancel = (append_cancel *)number,
            .fs = (append_fs *)number,
            .entries = (append_entries *)number,
            .reader = (append_reader *)number,
            .writer = (append_writer *)number,
            .error = (append_error *)number,
        };
        each_function(&all, EBADF, APPEND_KIND_BAD_HANDLE, 0);
    }
}

/* Every other pointer argument, with handles that are open. */
static void null_arguments_are_refused(void)
{
    struct handles all = opened();
    append_wait small_wait = {.size = 1}, negative_wait = {.size = sizeof negative_wait, .timeout_ms = -1};
    append_create_options create = {.size = 4};
    append_append_options append = {.size = 4};
    const int inval = APPEND_KIND_INVALID_ARGUMENT;

    FAILS(append_config_set(all.config, NULL, "value", &error), EINVAL, inval);
    FAILS(append_config_set(all.config, "key", NULL, &error), EINVAL, inval);
    FAILS(append_config_set_user(all.config, NULL, &error), EINVAL, inval);
    FAILS(append_config_from_directory(NULL, &error), EINVAL, inval);
    FAILS(append_fs_connect(NULL, all.config, NULL, &error), EINVAL, inval);
    FAILS(append_fs_stat(all.fs, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_fs_list(all.fs, NULL, NULL, 0, NULL, &error), EINVAL, inval);
    FAILS(append_fs_mkdir(all.fs, NULL, 0, NULL, &error), EINVAL, inval);
    FAILS(append_fs_rename(all.fs, NULL, FILE_PATH, NULL, &error), EINVAL, inval);
    FAILS(append_fs_rename(all.fs, FILE_PATH, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_fs_delete(all.fs, NULL, 0, NULL, &error), EINVAL, inval);
    FAILS(append_fs_set_times(all.fs, NULL, 1, 1, NULL, &error), EINVAL, inval);
    FAILS(append_fs_capabilities(all.fs, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_recover_lease(all.fs, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_is_file_closed(all.fs, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_fs_open(all.fs, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_fs_create(all.fs, NULL, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_fs_append(all.fs, NULL, NULL, NULL, &error), EINVAL, inval);
    FAILS(append_reader_read(all.reader, NULL, 1, NULL, &error), EINVAL, inval);
    FAILS(append_reader_pread(all.reader, NULL, 1, 0, NULL, &error), EINVAL, inval);
    FAILS(append_writer_write(all.writer, NULL, 1, NULL, &error), EINVAL, inval);
    /* Nothing to read or write needs no buffer. */
    CHECK(OK(append_reader_read(all.reader, NULL, 0, NULL, &error)) == 0);
    CHECK(OK(append_reader_pread(all.reader, NULL, 0, 3, NULL, &error)) == 0);
    CHECK(OK(append_writer_write(all.writer, NULL, 0, NULL, &error)) == 0);

    FAILS(append_fs_stat(all.fs, "/\xff", NULL, &error), EINVAL, inval);
    FAILS(append_fs_stat(all.fs, "relative", NULL, &error), EINVAL, inval);
    FAILS(append_fs_stat(all.fs, "/", &small_wait, &error), EINVAL, inval);
    FAILS(append_fs_stat(all.fs, "/", &negative_wait, &error), EINVAL, inval);
    FAILS(append_fs_create(all.fs, FILE_PATH, &create, NULL, &error), EINVAL, inval);
    create = (append_create_options){.size = sizeof create, .replication = 2};
    FAILS(append_fs_create(all.fs, FILE_PATH, &create, NULL, &error), EINVAL, inval);
    create = (append_create_options){.size = sizeof create, .block_size = -1};
    FAILS(append_fs_create(all.fs, FILE_PATH, &create, NULL, &error), EINVAL, inval);
    FAILS(append_fs_append(all.fs, FILE_PATH, &append, NULL, &error), EINVAL, inval);
    FAILS(append_reader_pread(all.reader, buffer, 1, -1, NULL, &error), EINVAL, inval);
    FAILS(append_reader_read(all.reader, buffer, SIZE_MAX, NULL, &error), EINVAL, inval);
    FAILS(append_writer_write(all.writer, buffer, SIZE_MAX, NULL, &error), EINVAL, inval);
    FAILS(append_reader_seek(all.reader, -1, &error), EINVAL, inval);
    FAILS(append_reader_seek(all.reader, 8, &error), EINVAL, inval);
    FAILS(append_entries_at(all.entries, -1, &error), EINVAL, inval);
    FAILS(append_entries_at(all.entries, 1, &error), EINVAL, inval);

    /* Without an error object errno is all there is. */
    errno = 0;
    CHECK(append_fs_stat(all.fs, NULL, NULL, NULL) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(append_config_from_directory(NULL, NULL) == NULL && errno == EINVAL);
    close_all(&all);
}

static void the_library_says_what_it_is(void)
{
    append_config *config = OK(append_config_from_environment(&error));

    CHECK(append_abi_version() >= APPEND_ABI_VERSION);
    CHECK(strlen(append_version()) > 0);
    CHECK(append_open_handles() == 1);
    OK(append_config_free(config, &error));
    CHECK(append_open_handles() == 0);
}

/*
 * Runs a test in a child, whom an alarm ends if he hangs. With `strange` the child has a copy of the parent's memory without the
 * threads that used it; exec ends it before a tool could look for leaks among what they held.
 */
static void in_child(void (*test)(const struct handles *), const struct handles *all, int strange)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        int before = checks_failed;
        alarm(60);
        test(all);
        fflush(stdout);
        if (strange) {
            execl("/bin/sh", "sh", "-c", checks_failed == before ? "exit 0" : "exit 1", (char *)NULL);
        }
        _exit(checks_failed == before ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void every_call_fails_at_once(const struct handles *all)
{
    const int forked = APPEND_KIND_FORKED;

    FAILS(append_config_new(&error), EINVAL, forked);
    FAILS(append_cancel_new(&error), EINVAL, forked);
    FAILS(append_fs_connect(server(), NULL, NULL, &error), EINVAL, forked);
    FAILS(append_fs_stat(all->fs, FILE_PATH, NULL, &error), EINVAL, forked);
    FAILS(append_fs_append(all->fs, FILE_PATH, NULL, NULL, &error), EINVAL, forked);
    FAILS(append_reader_read(all->reader, buffer, 1, NULL, &error), EINVAL, forked);
    FAILS(append_reader_close(all->reader, &error), EINVAL, forked);
    FAILS(append_writer_write(all->writer, "x", 1, NULL, &error), EINVAL, forked);
    FAILS(append_writer_flush(all->writer, &error), EINVAL, forked);
    FAILS(append_writer_close(all->writer, NULL, &error), EINVAL, forked);
    FAILS(append_writer_abort(all->writer, &error), EINVAL, forked);
    FAILS(append_entries_count(all->entries, &error), EINVAL, forked);
    FAILS(append_fs_disconnect(all->fs, &error), EINVAL, forked);
    FAILS(append_config_free(all->config, &error), EINVAL, forked);
    errno = 0;
    CHECK(append_fs_stat(all->fs, FILE_PATH, NULL, NULL) == NULL && errno == EINVAL);
    CHECK(append_error_kind(all->error) == APPEND_KIND_FORKED);
    append_error_free(all->error);
}

static void a_child_of_a_connected_process_is_refused_at_once(void)
{
    struct handles all = opened();

    in_child(every_call_fails_at_once, &all, 1);
    /* The parent goes on as if nothing had been. */
    CHECK(append_error_kind(all.error) == APPEND_KIND_INVALID_ARGUMENT);
    OK(append_writer_write(all.writer, " and more", 9, NULL, &error));
    close_all(&all);
}

static void connects_and_reads(const struct handles *none)
{
    struct handles all = opened();

    (void)none;
    CHECK(OK(append_reader_read(all.reader, buffer, sizeof buffer, NULL, &error)) == 7);
    close_all(&all);
}

static void a_child_that_is_forked_before_can_connect(void)
{
    in_child(connects_and_reads, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        only = argv[1];
    }
    RUN(the_library_says_what_it_is);
    /* Before the first connect of this process. */
    RUN(a_child_that_is_forked_before_can_connect);
    RUN(null_handles_are_refused);
    RUN(closed_handles_are_refused);
    RUN(handles_of_another_type_are_refused);
    RUN(invented_handles_are_refused);
    RUN(null_arguments_are_refused);
    RUN(a_child_of_a_connected_process_is_refused_at_once);
    return end();
}
