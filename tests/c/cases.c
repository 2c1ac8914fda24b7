/* SPDX-License-Identifier: Apache-2.0
 *
 * The black-box cases P1, P2, P3, P8 and P10 through the C interface. Needs a server of its own; APPEND_SERVER_PID is the process that
 * is stopped for a moment. With an argument: the tests whose names start so.
 */
#define _POSIX_C_SOURCE 200809L
#include "files.h"
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#define BUCKET "/cases/bucket"

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

/* Resident memory of a process, "self" for this one, in KiB; 0 when it cannot be told. */
static long resident(const char *pid)
{
    char path[64], line[128];
    long kib = 0;
    FILE *status;

    snprintf(path, sizeof path, "/proc/%s/status", pid);
    status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) {
            break;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib;
}

/* What the server's caches and unwritten tables of rows may take within P3, KiB: they fill up, however much is appended. */
enum { ROWS_IN_MEMORY = 128 * 1024 };

static void flat(const char *what, long early, long late, long more)
{
    printf("%s: %ld KiB, then %ld KiB\n", what, early, late);
    CHECK(early > 0 && late <= early + early / 10 + more);
}

/* P3_SESSIONS says how many; the whole case is 10,000, and only then memory is judged behind the first thousand. */
static void p3_short_sessions_one_after_the_other(void)
{
    enum { WHOLE = 10000, EARLY = 1000 };
    const char *wanted = getenv("P3_SESSIONS");
    int sessions = wanted == NULL ? 100 : atoi(wanted), failures = 0;
    int64_t length;
    const char *pid = getenv("APPEND_SERVER_PID");
    long early = 0, early_server = 0;
    char *data;

    write_file(BUCKET "/l", "", 0);
    for (int i = 0; i < sessions && failures == 0; i++) {
        int before = checks_failed;
        append_to(BUCKET "/l", "\nbar", 4);
        failures += checks_failed - before;
        if (i == EARLY) {
            early = resident("self");
            early_server = pid == NULL ? 0 : resident(pid);
        }
    }
    if (sessions >= WHOLE) {
        flat("client", early, resident("self"), 0);
        flat("server", early_server, pid == NULL ? 0 : resident(pid), ROWS_IN_MEMORY);
    }
    data = contents(BUCKET "/l", &length);
    CHECK(length == 4 * (int64_t)sessions);
    for (int64_t i = 0; i < length; i++) {
        failures += data[i] != "\nbar"[i % 4];
    }
    CHECK(failures == 0);
    free(data);
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
    OK(append_config_set(config, "libappend.outcome.timeout", "1s", &error));
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

static void tests(void)
{
    RUN(p1_append_wants_an_existing_file);
    RUN(p2_empty_file_and_empty_appends);
    RUN(p3_short_sessions_one_after_the_other);
    RUN(p8_after_close);
    RUN(p8_two_threads_write_whole_records);
    RUN(p8_a_close_that_fails_closes_for_good);
    RUN(p10_configurations);
    RUN(p10_servers_that_do_not_answer);
}

int main(int argc, char **argv)
{
    return all(argc, argv, BUCKET, tests);
}
