/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file system promises, through the C interface: names, streams, appends, conflicts, and bad surroundings. Needs a server
 * of its own; APPEND_SERVER_PID is the process that is stopped for a moment. With an argument: the tests whose names start so.
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define BUCKET "/cases/bucket"

static append_fs *fs;

/* ---- helpers ---- */

static append_fs *connected(const char *key, const char *value)
{
    append_config *config = OK(append_config_new(&error));
    append_fs *made;

    OK(append_config_set(config, key, value, &error));
    made = OK(append_fs_connect(server(), config, NULL, &error));
    OK(append_config_free(config, &error));
    return made;
}

static void write_file(const char *path, const void *data, size_t count)
{
    append_writer *writer = OK(append_fs_create(fs, path, NULL, NULL, &error));

    OK(append_writer_write(writer, data, count, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
}

static void append_to(const char *path, const void *data, size_t count)
{
    append_writer *writer = OK(append_fs_append(fs, path, NULL, NULL, &error));

    OK(append_writer_write(writer, data, count, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
}

static int64_t length_of(const char *path)
{
    append_entries *found = OK(append_fs_stat(fs, path, NULL, &error));
    int64_t length = found == NULL ? -1 : append_entries_at(found, 0, NULL)->length;

    if (found != NULL) {
        append_entries_free(found, NULL);
    }
    return length;
}

static int64_t modified(const char *path)
{
    append_entries *found = OK(append_fs_stat(fs, path, NULL, &error));
    int64_t time = found == NULL ? -1 : append_entries_at(found, 0, NULL)->modified_ms;

    if (found != NULL) {
        append_entries_free(found, NULL);
    }
    return time;
}

static int missing(const char *path)
{
    append_error *error = NULL;
    append_entries *found = append_fs_stat(fs, path, NULL, &error);
    int kind = append_error_kind(error);

    append_error_free(error);
    if (found != NULL) {
        append_entries_free(found, NULL);
        return 0;
    }
    return kind == APPEND_KIND_NOT_FOUND;
}

/* The whole file, in memory that the caller frees, and its length. */
static char *contents(const char *path, int64_t *length)
{
    append_reader *reader = OK(append_fs_open(fs, path, NULL, &error));
    char *data;

    *length = OK(append_reader_length(reader, &error));
    if (*length < 0) {
        return NULL;
    }
    data = malloc(*length > 0 ? (size_t)*length : 1);
    CHECK(OK(append_reader_read(reader, data, (size_t)*length, NULL, &error)) == *length);
    OK(append_reader_close(reader, &error));
    return data;
}

static int contains(const char *path, const void *data, size_t count)
{
    int64_t length = -1;
    char *read = contents(path, &length);
    int same = read != NULL && length == (int64_t)count && memcmp(read, data, count) == 0;

    free(read);
    return same;
}

/* An append that must fail: errno, kind, and a text that names the path. */
static void append_fails(append_fs *on, const char *path, int number, int kind, int asks_server)
{
    append_error *error = NULL;

    errno = 0;
    CHECK(append_fs_append(on, path, NULL, NULL, &error) == NULL);
    CHECK(errno == number);
    if (append_error_kind(error) != kind) {
        printf("%s: kind %d: %s\n", path, append_error_kind(error), append_error_text(error));
    }
    CHECK(append_error_kind(error) == kind);
    CHECK(append_error_errno(error) == number);
    CHECK(strstr(append_error_text(error), path) != NULL);
    CHECK(append_error_path(error) != NULL && strcmp(append_error_path(error), path) == 0);
    if (asks_server) {
        const char *request = append_error_request(error);
        CHECK(request != NULL && strstr(append_error_text(error), request) != NULL);
    }
    append_error_free(error);
}

/* A port of 127.0.0.1 on which nobody ever answers: not listening, or listening and never accepting. */
static int silent_port(int listening, char *uri, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int sock = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(sock >= 0 && bind(sock, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(sock, (struct sockaddr *)&address, &length) == 0);
    if (listening) {
        CHECK(listen(sock, 8) == 0);
    }
    snprintf(uri, size, "ofs://127.0.0.1:%d/", ntohs(address.sin_port));
    return sock;
}

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
    int fso = OK(append_fs_capabilities(fs, BUCKET "/x", NULL, &error));

    CHECK(fso & APPEND_CAPABILITY_APPEND);
    CHECK(fso & APPEND_CAPABILITY_HFLUSH);
    CHECK(fso & APPEND_CAPABILITY_HSYNC);
    CHECK(fso & APPEND_CAPABILITY_ATOMIC_RENAME);
    CHECK(!(OK(append_fs_capabilities(fs, "/cases/obs/x", NULL, &error)) & APPEND_CAPABILITY_APPEND));
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

static void p1_append_wants_an_existing_file(void)
{
    append_append_options options = {.size = sizeof options, .create_if_missing = 1};
    append_writer *writer;

    append_fails(fs, BUCKET "/missing", ENOENT, APPEND_KIND_NOT_FOUND, 1);
    CHECK(missing(BUCKET "/missing"));
    append_fails(fs, BUCKET "/no/parent", ENOENT, APPEND_KIND_NOT_FOUND, 1);
    CHECK(missing(BUCKET "/no"));
    OK(append_fs_mkdir(fs, BUCKET "/dir", 1, NULL, &error));
    append_fails(fs, BUCKET "/dir", EISDIR, APPEND_KIND_IS_DIRECTORY, 1);
    append_fails(fs, BUCKET "/.snapshot/s/file", EROFS, APPEND_KIND_READ_ONLY, 0);

    append_fs *other = connected("ozone.client.fs.default.bucket.layout", "OBJECT_STORE");
    OK(append_fs_mkdir(other, "/cases/obs", 1, NULL, &error));
    write_file("/cases/obs/key", "data", 4);
    append_fails(other, "/cases/obs/key", ENOTSUP, APPEND_KIND_UNSUPPORTED, 0);
    CHECK(contains("/cases/obs/key", "data", 4));
    OK(append_fs_disconnect(other, &error));

    writer = OK(append_fs_append(fs, BUCKET "/wanted/missing", &options, NULL, &error));
    OK(append_writer_write(writer, "made", 4, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    CHECK(contains(BUCKET "/wanted/missing", "made", 4));
    OK(append_fs_delete(fs, BUCKET "/wanted", 1, NULL, &error));
}

static void p2_empty_file_and_empty_appends(void)
{
    char data[256];
    int64_t time;

    for (int i = 0; i < 256; i++) {
        data[i] = (char)('a' + i % 26);
    }
    write_file(BUCKET "/e", "", 0);
    CHECK(length_of(BUCKET "/e") == 0);
    append_to(BUCKET "/e", data, sizeof data);
    CHECK(contains(BUCKET "/e", data, sizeof data));
    time = modified(BUCKET "/e");
    for (int i = 0; i < 5; i++) {
        append_writer *writer = OK(append_fs_append(fs, BUCKET "/e", NULL, NULL, &error));
        OK(append_writer_close(writer, NULL, &error));
    }
    CHECK(contains(BUCKET "/e", data, sizeof data));
    CHECK(modified(BUCKET "/e") == time);
    append_to(BUCKET "/e", "!", 1);
    CHECK(length_of(BUCKET "/e") == 257);
}

/* Memory of this process in pages. */
static long resident(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    long size = 0, pages = 0;

    if (statm != NULL) {
        if (fscanf(statm, "%ld %ld", &size, &pages) != 2) {
            pages = 0;
        }
        fclose(statm);
    }
    return pages;
}

/* P3_SESSIONS says how many; the whole case is 10,000, and only then memory has to stay flat after the first tenth. */
static void p3_short_sessions_one_after_the_other(void)
{
    enum { WHOLE = 10000 };
    const char *wanted = getenv("P3_SESSIONS");
    int sessions = wanted == NULL ? 100 : atoi(wanted), failures = 0;
    int64_t length;
    long early = 0;
    char *data;

    write_file(BUCKET "/l", "", 0);
    for (int i = 0; i < sessions && failures == 0; i++) {
        int before = checks_failed;
        append_to(BUCKET "/l", "\nbar", 4);
        failures += checks_failed - before;
        if (i == sessions / 10) {
            early = resident();
        }
    }
    if (sessions >= WHOLE && resident() > early + early / 10) {
        printf("memory grew from %ld to %ld pages\n", early, resident());
        checks_failed++;
    }
    data = contents(BUCKET "/l", &length);
    CHECK(length == 4 * (int64_t)sessions);
    for (int64_t i = 0; i < length; i++) {
        failures += data[i] != "\nbar"[i % 4];
    }
    CHECK(failures == 0);
    free(data);
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

static void p8_after_close(void)
{
    append_writer *writer = OK(append_fs_create(fs, BUCKET "/closed", NULL, NULL, &error));

    OK(append_writer_write(writer, "data", 4, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    OK(append_writer_flush(writer, &error));
    OK(append_writer_hflush(writer, NULL, &error));
    OK(append_writer_hsync(writer, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    FAILS(append_writer_write(writer, "more", 4, NULL, &error), EBADF, APPEND_KIND_CLOSED);
    FAILS(append_writer_tell(writer, &error), EBADF, APPEND_KIND_CLOSED);
    CHECK(contains(BUCKET "/closed", "data", 4));
}

enum { RECORDS = 1000, RECORD = 64 };

static void *write_records(void *argument)
{
    append_writer **writer = argument;
    char record[RECORD];
    static int threads;
    int self = __atomic_fetch_add(&threads, 1, __ATOMIC_SEQ_CST);
    int64_t failures = 0;

    memset(record, 'a' + self, sizeof record);
    record[RECORD - 1] = '\n';
    for (int i = 0; i < RECORDS; i++) {
        failures += append_writer_write(*writer, record, sizeof record, NULL, NULL) != RECORD;
    }
    return (void *)(intptr_t)failures;
}

static void p8_two_threads_write_whole_records(void)
{
    append_writer *writer = OK(append_fs_create(fs, BUCKET "/records", NULL, NULL, &error));
    pthread_t threads[2];
    int64_t length, counts[2] = {0};
    char *data;

    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, write_records, &writer) == 0);
    }
    for (int i = 0; i < 2; i++) {
        void *failures;
        CHECK(pthread_join(threads[i], &failures) == 0 && failures == NULL);
    }
    OK(append_writer_close(writer, NULL, &error));
    data = contents(BUCKET "/records", &length);
    CHECK(length == 2 * RECORDS * RECORD);
    for (int64_t at = 0; at + RECORD <= length; at += RECORD) {
        int who = data[at] - 'a';
        CHECK((who == 0 || who == 1) && data[at + RECORD - 1] == '\n');
        counts[who & 1]++;
        for (int i = 1; i < RECORD - 1; i++) {
            CHECK(data[at + i] == data[at]);
        }
    }
    CHECK(counts[0] == RECORDS && counts[1] == RECORDS);
    free(data);
}

static void p8_a_close_that_fails_closes_for_good(void)
{
    const char *pid = getenv("APPEND_SERVER_PID");
    append_config *config;
    append_fs *impatient;
    append_writer *writer;
    append_error *error = NULL;
    int64_t length;

    if (pid == NULL) {
        printf("APPEND_SERVER_PID is not set: a failing close is not tested\n");
        checks_failed++;
        return;
    }
    config = OK(append_config_new(&error));
    OK(append_config_set(config, "libappend.call.timeout", "1s", &error));
    OK(append_config_set(config, "libappend.datanode.timeout", "1s", &error));
    impatient = OK(append_fs_connect(server(), config, NULL, &error));
    OK(append_config_free(config, &error));
    write_file(BUCKET "/failing", "before", 6);
    writer = OK(append_fs_append(impatient, BUCKET "/failing", NULL, NULL, &error));
    OK(append_writer_write(writer, "after", 5, NULL, &error));

    CHECK(kill((pid_t)atoi(pid), SIGSTOP) == 0);
    CHECK(append_writer_close(writer, NULL, &error) == -1);
    CHECK(error != NULL && append_error_text(error)[0] != '\0');
    append_error_free(error);
    /* Closed for good: nothing is written again, whether the server answers or not. */
    OK(append_writer_close(writer, NULL, &error));
    FAILS(append_writer_write(writer, "x", 1, NULL, &error), EBADF, APPEND_KIND_CLOSED);
    CHECK(kill((pid_t)atoi(pid), SIGCONT) == 0);

    OK(append_writer_close(writer, NULL, &error));
    OK(append_fs_disconnect(impatient, &error));
    /* The close was sent or not; its bytes are there once or not at all. */
    length = length_of(BUCKET "/failing");
    CHECK(length == 6 || length == 11);
}

static void a_second_writer_is_told_of_the_first(void)
{
    append_fs *other = OK(append_fs_connect(server(), NULL, NULL, &error));
    append_writer *first, *second;
    append_error *error = NULL;
    const append_holder *holder;

    write_file(BUCKET "/held", "base", 4);
    first = OK(append_fs_append(fs, BUCKET "/held", NULL, NULL, &error));
    errno = 0;
    CHECK(append_fs_append(other, BUCKET "/held", NULL, NULL, &error) == NULL);
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

/* ---- bad surroundings ---- */

static void p10_configurations(void)
{
    char folder[] = "/tmp/append-conf.XXXXXX", file[64];
    append_config *config;
    append_fs *made;
    append_error *error = NULL;
    FILE *out;

    CHECK(mkdtemp(folder) != NULL);
    unsetenv("HADOOP_HOME");
    unsetenv("HADOOP_CONF_DIR");
    made = OK(append_fs_connect(server(), NULL, NULL, &error));
    OK(append_fs_disconnect(made, &error));
    setenv("HADOOP_CONF_DIR", "/nonexistent/folder", 1);
    made = OK(append_fs_connect(server(), NULL, NULL, &error));
    OK(append_fs_disconnect(made, &error));

    snprintf(file, sizeof file, "%s/core-site.xml", folder);
    out = fopen(file, "w");
    fputs("<configuration><property><name>a</name>", out);
    fclose(out);
    errno = 0;
    CHECK(append_config_from_directory(folder, &error) == NULL && errno == EINVAL);
    CHECK(append_error_kind(error) == APPEND_KIND_INVALID_ARGUMENT);
    CHECK(strstr(append_error_text(error), file) != NULL);
    append_error_free(error);
    setenv("HADOOP_CONF_DIR", folder, 1);
    FAILS(append_config_from_environment(&error), EINVAL, APPEND_KIND_INVALID_ARGUMENT);
    FAILS(append_fs_connect(server(), NULL, NULL, &error), EINVAL, APPEND_KIND_INVALID_ARGUMENT);

    out = fopen(file, "w");
    fprintf(out,
            "<configuration><property><name>ozone.om.address</name><value>%s</value></property></configuration>",
            server() + strlen("ofs://"));
    fclose(out);
    config = OK(append_config_from_directory(folder, &error));
    OK(append_config_set_user(config, "somebody", &error));
    made = OK(append_fs_connect("", config, NULL, &error));
    append_writer *writer = OK(append_fs_create(made, BUCKET "/owned", NULL, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
    append_entries *found = OK(append_fs_stat(made, BUCKET "/owned", NULL, &error));
    CHECK(found != NULL && strcmp(append_entries_at(found, 0, NULL)->owner, "somebody") == 0);
    OK(append_entries_free(found, &error));
    OK(append_fs_disconnect(made, &error));
    OK(append_config_free(config, &error));
    FAILS(append_config_free(config, &error), EBADF, APPEND_KIND_CLOSED);

    unsetenv("HADOOP_CONF_DIR");
    CHECK(unlink(file) == 0 && rmdir(folder) == 0);
    FAILS(append_fs_connect("ofs://host:port/", NULL, NULL, &error), EINVAL, APPEND_KIND_INVALID_ARGUMENT);
    config = OK(append_config_new(&error));
    OK(append_config_set(config, "ozone.client.stream.buffer.size", "much", &error));
    errno = 0;
    CHECK(append_fs_connect(server(), config, NULL, &error) == NULL && errno == EINVAL);
    CHECK(strstr(append_error_text(error), "ozone.client.stream.buffer.size") != NULL);
    append_error_free(error);
    OK(append_config_free(config, &error));
}

static void *trigger(void *cancel)
{
    append_cancel_trigger(cancel, NULL);
    return NULL;
}

static void p10_servers_that_do_not_answer(void)
{
    char uri[64];
    append_config *config = OK(append_config_new(&error));
    append_wait wait = {.size = sizeof wait};
    pthread_t other;
    int sock;

    OK(append_config_set(config, "ipc.client.connect.timeout", "500ms", &error));
    OK(append_config_set(config, "ozone.client.failover.max.attempts", "1", &error));
    OK(append_config_set(config, "ozone.client.wait.between.retries.millis", "10", &error));
    sock = silent_port(0, uri, sizeof uri);
    FAILS(append_fs_connect(uri, config, NULL, &error), ECONNREFUSED, APPEND_KIND_CONNECT);
    close(sock);

    /* It takes connections and says nothing: the caller's own bounds end the call. */
    sock = silent_port(1, uri, sizeof uri);
    wait.timeout_ms = 300;
    FAILS(append_fs_connect(uri, config, &wait, &error), ETIMEDOUT, APPEND_KIND_TIMEOUT);
    wait.timeout_ms = 0;
    wait.cancel = OK(append_cancel_new(&error));
    CHECK(pthread_create(&other, NULL, trigger, wait.cancel) == 0);
    FAILS(append_fs_connect(uri, config, &wait, &error), EINTR, APPEND_KIND_CANCELLED);
    CHECK(pthread_join(other, NULL) == 0);
    /* Cancelled once is cancelled for good. */
    FAILS(append_fs_connect(uri, config, &wait, &error), EINTR, APPEND_KIND_CANCELLED);
    OK(append_cancel_free(wait.cancel, &error));
    close(sock);
    /* The builder of a connect that failed is still the caller's. */
    OK(append_config_free(config, &error));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        only = argv[1];
    }
    fs = OK(append_fs_connect(server(), NULL, NULL, &error));
    if (fs == NULL) {
        printf("0 passed, 1 failed\n");
        return 1;
    }
    OK(append_fs_mkdir(fs, BUCKET, 1, NULL, &error));
    RUN(directories_are_made_listed_renamed_and_deleted);
    RUN(times_are_set_and_told);
    RUN(reads_from_every_position);
    RUN(threads_that_read_together_get_every_byte_once);
    RUN(create_follows_its_options);
    RUN(synced_bytes_are_seen_and_an_abort_keeps_only_them);
    RUN(p1_append_wants_an_existing_file);
    RUN(capabilities_tell_the_truth_by_path);
    RUN(p2_empty_file_and_empty_appends);
    RUN(p3_short_sessions_one_after_the_other);
    RUN(threads_append_side_by_side);
    RUN(p8_after_close);
    RUN(p8_two_threads_write_whole_records);
    RUN(p8_a_close_that_fails_closes_for_good);
    RUN(a_second_writer_is_told_of_the_first);
    RUN(p10_configurations);
    RUN(p10_servers_that_do_not_answer);
    OK(append_fs_disconnect(fs, &error));
    return end();
}
