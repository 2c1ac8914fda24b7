/* SPDX-License-Identifier: Apache-2.0
 *
 * append_log URI PATH [LINE...]: adds lines to the end of a file, which is made when it is missing. Without LINE arguments the
 * lines come from standard input, and each is on disk before the next is read.
 *
 *     cc append_log.c -o append_log $(pkg-config --cflags --libs libappend)
 *     ./append_log ofs://localhost:9862/ /volume/bucket/log "first line" "second line"
 */
#include <append.h>
#include <stdio.h>
#include <string.h>

/* Prints an error, frees it, and says that the program failed. */
static int failed(append_error *error)
{
    fprintf(stderr, "append_log: %s\n", append_error_text(error));
    if (append_error_kind(error) == APPEND_KIND_CONFLICT) {
        fprintf(stderr, "append_log: the other writer still has %lld ms\n",
                (long long)append_error_retry_after_ms(error));
    }
    append_error_free(error);
    return 1;
}

static int add_line(append_writer *log, const char *line, size_t length, append_error **error)
{
    if (append_writer_write(log, line, length, NULL, error) < 0) {
        return -1;
    }
    if (length > 0 && line[length - 1] == '\n') {
        return 0;
    }
    return append_writer_write(log, "\n", 1, NULL, error) < 0 ? -1 : 0;
}

static int add_all(append_writer *log, int count, char **lines, append_error **error)
{
    char line[4096];

    for (int i = 0; i < count; i++) {
        if (add_line(log, lines[i], strlen(lines[i]), error) < 0) {
            return -1;
        }
    }
    while (count == 0 && fgets(line, sizeof line, stdin) != NULL) {
        if (append_writer_write(log, line, strlen(line), NULL, error) < 0 || append_writer_hsync(log, NULL, error) < 0) {
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    append_error *error = NULL;
    append_append_options options = {.size = sizeof options, .create_if_missing = 1};
    append_fs *fs;
    append_writer *log;
    int status = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: append_log URI PATH [LINE...]\n");
        return 2;
    }
    fs = append_fs_connect(argv[1], NULL, NULL, &error);
    if (fs == NULL) {
        return failed(error);
    }
    log = append_fs_append(fs, argv[2], &options, NULL, &error);
    if (log == NULL) {
        status = failed(error);
    } else if (add_all(log, argc - 3, argv + 3, &error) < 0) {
        status = failed(error);
        /* The file keeps what was synced; nothing that came after is published. */
        append_writer_abort(log, NULL);
    } else {
        long long start = (long long)append_writer_start(log, NULL);
        long long end = (long long)append_writer_tell(log, NULL);
        /* Until a close succeeds the bytes are not safe, so its result counts like a write's. */
        if (append_writer_close(log, NULL, &error) < 0) {
            status = failed(error);
        } else {
            printf("%s: bytes %lld to %lld\n", argv[2], start, end);
        }
    }
    append_fs_disconnect(fs, NULL);
    return status;
}
