/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file system promises, through the C interface: names, streams, appends, conflicts. Needs a server of its own. With an
 * argument: the tests whose names start so.
 */
#define _POSIX_C_SOURCE 200809L
#include "files.h"

#define BUCKET "/files/bucket"

/* ---- names ---- */

static void directories_are_made_listed_renamed_and_deleted(void)
{
    append_entries *page;
    char path[64];
    int seen = 0, more = 1;
    char after[16] = "";

    OK(append_fs_mkdir(fs, BUCKET "/d/e", 1, NULL, &error));
    OK(append_fs_mkdir(fs, BUCKET "/d/e", 1, NULL, &error));
    FAILS(append_fs_mkdir(fs, BUCKET "/none/e", 0, NULL, &error), ENOENT, APPEND_KIND_PARENT_NOT_FOUND);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, BUCKET "/d/f%d", i);
        write_file(path, "12345", (size_t)i);
    }
    FAILS(append_fs_mkdir(fs, BUCKET "/d/f0", 0, NULL, &error), EEXIST, APPEND_KIND_ALREADY_EXISTS);
    FAILS(append_fs_mkdir(fs, BUCKET "/d/f0/x", 1, NULL, &error), ENOTDIR, APPEND_KIND_NOT_A_DIRECTORY);

    page = OK(append_fs_list(fs, BUCKET "/d", NULL, 0, NULL, &error));
    CHECK(append_entries_count(page, NULL) == 6);
    CHECK(append_entries_more(page, NULL) == 0);
    for (int i = 0; i < 6; i++) {
        const append_entry *entry = append_entries_at(page, i, NULL);
        if (entry == NULL) {
            printf("entry %d of %lld is missing\n", i, (long long)append_entries_count(page, NULL));
            checks_failed++;
        } else if (i == 0) {
            CHECK(strcmp(entry->name, "e") == 0 && (entry->flags & APPEND_ENTRY_FLAG_DIRECTORY));
            CHECK(entry->length == 0 && entry->replication == 0);
        } else {
            snprintf(path, sizeof path, BUCKET "/d/f%d", i - 1);
            CHECK(strcmp(entry->path, path) == 0);
            CHECK(entry->length == i - 1 && entry->flags == 0 && entry->replication > 0);
            CHECK(entry->modified_ms > 0 && entry->owner[0] != '\0' && entry->holder == NULL);
        }
    }
    OK(append_entries_free(page, &error));

    /* The same, two at a time. */
    while (more > 0) {
        page = OK(append_fs_list(fs, BUCKET "/d", after, 2, NULL, &error));
        int64_t count = append_entries_count(page, NULL);
        const append_entry *last = append_entries_at(page, count - 1, NULL);
        /* A page that another may follow can turn out to be the last. */
        CHECK(count >= 0 && count <= 2);
        more = last == NULL ? 0 : append_entries_more(page, NULL);
        seen += (int)count;
        snprintf(after, sizeof after, "%s", last == NULL ? "" : last->name);
        OK(append_entries_free(page, &error));
        if (seen > 6) {
            break;
        }
    }
    CHECK(seen == 6);
    FAILS(append_fs_list(fs, BUCKET "/none", NULL, 0, NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);

    OK(append_fs_rename(fs, BUCKET "/d", BUCKET "/g", NULL, &error));
    CHECK(missing(BUCKET "/d") && length_of(BUCKET "/g/f4") == 4);
    FAILS(append_fs_rename(fs, BUCKET "/d", BUCKET "/h", NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    FAILS(append_fs_rename(fs, BUCKET "/g/f1", BUCKET "/g/f2", NULL, &error), EEXIST, APPEND_KIND_ALREADY_EXISTS);
    FAILS(append_fs_rename(fs, BUCKET "/g", BUCKET "/g/e/g", NULL, &error), EINVAL, APPEND_KIND_INVALID_ARGUMENT);

    OK(append_fs_delete(fs, BUCKET "/g/f4", 0, NULL, &error));
    FAILS(append_fs_delete(fs, BUCKET "/g/f4", 0, NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    FAILS(append_fs_delete(fs, BUCKET "/g", 0, NULL, &error), ENOTEMPTY, APPEND_KIND_DIRECTORY_NOT_EMPTY);
    OK(append_fs_delete(fs, BUCKET "/g", 1, NULL, &error));
    CHECK(missing(BUCKET "/g"));
}

static void times_are_set_and_told(void)
{
    write_file(BUCKET "/times", "x", 1);
    OK(append_fs_set_times(fs, BUCKET "/times", 1234567890123, -1, NULL, &error));
    CHECK(modified(BUCKET "/times") == 1234567890123);
    OK(append_fs_set_times(fs, BUCKET "/times", -1, 99, NULL, &error));
    CHECK(modified(BUCKET "/times") == 1234567890123);
    FAILS(append_fs_set_times(fs, BUCKET "/none", 1, 1, NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
}

static void capabilities_tell_the_truth_by_path(void)
{
    append_fs *other = connected("ozone.client.fs.default.bucket.layout", "OBJECT_STORE");
    int fso = OK(append_fs_capabilities(fs, BUCKET "/x", NULL, &error));

    OK(append_fs_mkdir(other, "/files/obs", 1, NULL, &error));
    OK(append_fs_disconnect(other, &error));
    CHECK(fso & APPEND_CAPABILITY_APPEND);
    CHECK(fso & APPEND_CAPABILITY_HFLUSH);
    CHECK(fso & APPEND_CAPABILITY_HSYNC);
    CHECK(fso & APPEND_CAPABILITY_ATOMIC_RENAME);
    CHECK(!(OK(append_fs_capabilities(fs, "/files/obs/x", NULL, &error)) & APPEND_CAPABILITY_APPEND));
}

/* ---- reading ---- */

static void reads_from_every_position(void)
{
    enum { SIZE = 300000 };
    char *data = malloc(SIZE), *part = malloc(SIZE);
    append_reader *reader;

    for (int i = 0; i < SIZE; i++) {
        data[i] = (char)(i * 31 + i / 256);
    }
    write_file(BUCKET "/read", data, SIZE / 3);
    append_to(BUCKET "/read", data + SIZE / 3, SIZE / 3);
    append_to(BUCKET "/read", data + 2 * SIZE / 3, SIZE / 3);
    CHECK(contains(BUCKET "/read", data, SIZE));

    reader = OK(append_fs_open(fs, BUCKET "/read", NULL, &error));
    CHECK(OK(append_reader_length(reader, &error)) == SIZE);
    for (int at = 0; at < SIZE; at += 9973) {
        int64_t wanted = SIZE - at < 20000 ? SIZE - at : 20000;
        CHECK(OK(append_reader_pread(reader, part, 20000, at, NULL, &error)) == wanted);
        CHECK(memcmp(part, data + at, (size_t)wanted) == 0);
    }
    CHECK(OK(append_reader_pread(reader, part, 1, SIZE, NULL, &error)) == 0);
    CHECK(OK(append_reader_pread(reader, part, 1, INT64_MAX, NULL, &error)) == 0);
    CHECK(OK(append_reader_tell(reader, &error)) == 0);
    CHECK(OK(append_reader_seek(reader, SIZE / 3 - 5, &error)) == SIZE / 3 - 5);
    CHECK(OK(append_reader_read(reader, part, 10, NULL, &error)) == 10);
    CHECK(memcmp(part, data + SIZE / 3 - 5, 10) == 0);
    CHECK(OK(append_reader_tell(reader, &error)) == SIZE / 3 + 5);
    FAILS(append_reader_seek(reader, SIZE + 1, &error), EINVAL, APPEND_KIND_INVALID_ARGUMENT);
    CHECK(OK(append_reader_tell(reader, &error)) == SIZE / 3 + 5);
    CHECK(OK(append_reader_seek(reader, SIZE, &error)) == SIZE);
    CHECK(OK(append_reader_read(reader, part, 10, NULL, &error)) == 0);
    OK(append_reader_close(reader, &error));
    OK(append_reader_close(reader, &error));
    FAILS(append_reader_read(reader, part, 10, NULL, &error), EBADF, APPEND_KIND_CLOSED);
    FAILS(append_fs_open(fs, BUCKET, NULL, &error), EISDIR, APPEND_KIND_IS_DIRECTORY);
    FAILS(append_fs_open(fs, BUCKET "/none", NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    free(data);
    free(part);
}

struct shared_read {
    append_reader *reader;
    int64_t bytes, sum;
};

static void *read_on(void *argument)
{
    struct shared_read *mine = argument;
    unsigned char piece[997];
    int64_t got;

    while ((got = append_reader_read(mine->reader, piece, sizeof piece, NULL, NULL)) > 0) {
        for (int64_t i = 0; i < got; i++) {
            mine->sum += piece[i];
        }
        mine->bytes += got;
    }
    return NULL;
}

static void threads_that_read_together_get_every_byte_once(void)
{
    enum { SIZE = 100000 };
    unsigned char *data = malloc(SIZE);
    struct shared_read both[2] = {{0}};
    pthread_t other;
    int64_t sum = 0;

    for (int i = 0; i < SIZE; i++) {
        data[i] = (unsigned char)(i * 7 + i / 255);
        sum += data[i];
    }
    write_file(BUCKET "/shared", data, SIZE);
    both[0].reader = both[1].reader = OK(append_fs_open(fs, BUCKET "/shared", NULL, &error));
    CHECK(pthread_create(&other, NULL, read_on, &both[1]) == 0);
    read_on(&both[0]);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(both[0].bytes + both[1].bytes == SIZE);
    CHECK(both[0].sum + both[1].sum == sum);
    OK(append_reader_close(both[0].reader, &error));
    free(data);
}

/* ---- writing ---- */

static void create_follows_its_options(void)
{
    append_create_options options = {.size = sizeof options};
    append_writer *writer;

    write_file(BUCKET "/made", "old", 3);
    FAILS(append_fs_create(fs, BUCKET "/made", &options, NULL, &error), EEXIST, APPEND_KIND_ALREADY_EXISTS);
    FAILS(append_fs_create(fs, BUCKET "/p/q/made", &options, NULL, &error), ENOENT, APPEND_KIND_PARENT_NOT_FOUND);
    FAILS(append_fs_create(fs, BUCKET "/made/x", NULL, NULL, &error), ENOTDIR, APPEND_KIND_NOT_A_DIRECTORY);
    FAILS(append_fs_create(fs, BUCKET, NULL, NULL, &error), EISDIR, APPEND_KIND_IS_DIRECTORY);
    options.overwrite = options.parents = options.replication = 1;
    options.block_size = 64 * 1024;
    writer = OK(append_fs_create(fs, BUCKET "/made", &options, NULL, &error));
    OK(append_writer_write(writer, "new!", 4, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    CHECK(contains(BUCKET "/made", "new!", 4));
    writer = OK(append_fs_create(fs, BUCKET "/p/q/made", &options, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    CHECK(length_of(BUCKET "/p/q/made") == 0);
}

static void synced_bytes_are_seen_and_an_abort_keeps_only_them(void)
{
    append_writer *writer;

    write_file(BUCKET "/synced", "0123", 4);
    writer = OK(append_fs_append(fs, BUCKET "/synced", NULL, NULL, &error));
    CHECK(OK(append_writer_start(writer, &error)) == 4);
    CHECK(OK(append_writer_can_sync(writer, &error)) == 1);
    OK(append_writer_write(writer, "45", 2, NULL, &error));
    CHECK(OK(append_writer_tell(writer, &error)) == 6);
    OK(append_writer_flush(writer, &error));
    OK(append_writer_hsync(writer, NULL, &error));
    CHECK(contains(BUCKET "/synced", "012345", 6));
    OK(append_writer_write(writer, "6", 1, NULL, &error));
    OK(append_writer_hflush(writer, NULL, &error));
    CHECK(contains(BUCKET "/synced", "0123456", 7));
    OK(append_writer_write(writer, "lost", 4, NULL, &error));
    OK(append_writer_abort(writer, &error));
    FAILS(append_writer_write(writer, "x", 1, NULL, &error), EBADF, APPEND_KIND_CLOSED);
    OK(append_writer_close(writer, NULL, &error));
    CHECK(contains(BUCKET "/synced", "0123456", 7));
    append_to(BUCKET "/synced", "7", 1);
    CHECK(contains(BUCKET "/synced", "01234567", 8));
}

enum { THREADS = 32 };

static void *append_own_file(void *argument)
{
    char path[64], line[32];
    int self = (int)(intptr_t)argument;
    int64_t failures = 0;

    snprintf(path, sizeof path, BUCKET "/thread%d", self);
    for (int i = 0; i < 3; i++) {
        append_append_options options = {.size = sizeof options, .create_if_missing = 1};
        append_writer *writer = append_fs_append(fs, path, &options, NULL, NULL);
        int count = snprintf(line, sizeof line, "%d.%d\n", self, i);
        failures += append_writer_write(writer, line, (size_t)count, NULL, NULL) != count;
        failures += append_writer_close(writer, NULL, NULL) != 0;
    }
    return (void *)(intptr_t)failures;
}

static void threads_append_side_by_side(void)
{
    pthread_t threads[THREADS];
    char path[64], lines[96];

    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, append_own_file, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failures;
        CHECK(pthread_join(threads[i], &failures) == 0 && failures == NULL);
        snprintf(path, sizeof path, BUCKET "/thread%d", i);
        snprintf(lines, sizeof lines, "%d.0\n%d.1\n%d.2\n", i, i, i);
        CHECK(contains(path, lines, strlen(lines)));
    }
}

static void a_second_writer_is_told_of_the_first(void)
{
    append_fs *other = OK(append_fs_connect(server(), NULL, NULL, &error));
    append_writer *first, *second;
    append_error *error = NULL;
    const append_holder *holder;
    /* An append waits for another's session until it is seen alive. */
    append_wait at_once = {.size = sizeof at_once, .timeout_ms = 300};

    write_file(BUCKET "/held", "base", 4);
    first = OK(append_fs_append(fs, BUCKET "/held", NULL, NULL, &error));
    errno = 0;
    CHECK(append_fs_append(other, BUCKET "/held", NULL, &at_once, &error) == NULL);
    CHECK(errno == EBUSY);
    CHECK(append_error_kind(error) == APPEND_KIND_CONFLICT);
    CHECK(append_error_retry(error) == APPEND_RETRY_AFTER);
    CHECK(append_error_retry_after_ms(error) > 0);
    holder = append_error_holder(error);
    CHECK(holder != NULL);
    if (holder != NULL) {
        CHECK(holder->kind == APPEND_HOLDER_KIND_APPEND);
        CHECK(holder->phase == APPEND_HOLDER_PHASE_ACTIVE);
        CHECK(holder->session != 0 && holder->remaining_ms > 0);
        CHECK(holder->prefix_length == 4);
        CHECK(holder->owner != NULL && holder->blocked_reason != NULL);
    }
    append_error_free(error);
    FAILS(append_fs_append(other, BUCKET "/held", NULL, NULL, &error), EBUSY, APPEND_KIND_CONFLICT);
    /* Whoever holds the file himself would wait for himself. */
    CHECK(append_fs_append(fs, BUCKET "/held", NULL, NULL, &error) == NULL);
    CHECK(append_error_kind(error) == APPEND_KIND_CONFLICT);
    CHECK(append_error_retry(error) == APPEND_RETRY_NEVER);
    append_error_free(error);
    OK(append_writer_close(first, NULL, &error));
    second = OK(append_fs_append(other, BUCKET "/held", NULL, NULL, &error));
    OK(append_writer_close(second, NULL, &error));

    /* Who overwrites a file takes it from its creator. */
    first = OK(append_fs_create(fs, BUCKET "/taken", NULL, NULL, &error));
    OK(append_writer_write(first, "first", 5, NULL, &error));
    write_file(BUCKET "/taken", "second", 6);
    FAILS(append_writer_close(first, NULL, &error), ENOENT, APPEND_KIND_NOT_FOUND);
    CHECK(contains(BUCKET "/taken", "second", 6));
    OK(append_fs_disconnect(other, &error));
}

static void tests(void)
{
    RUN(directories_are_made_listed_renamed_and_deleted);
    RUN(times_are_set_and_told);
    RUN(capabilities_tell_the_truth_by_path);
    RUN(reads_from_every_position);
    RUN(threads_that_read_together_get_every_byte_once);
    RUN(create_follows_its_options);
    RUN(synced_bytes_are_seen_and_an_abort_keeps_only_them);
    RUN(threads_append_side_by_side);
    RUN(a_second_writer_is_told_of_the_first);
}

int main(int argc, char **argv)
{
    return all(argc, argv, BUCKET, tests);
}
