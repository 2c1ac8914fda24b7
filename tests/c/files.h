/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of files share: the connection that they use, and files made, read and described in one call.
 */
#ifndef FILES_H
#define FILES_H

#include "test.h"
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

static append_fs *fs;

static inline append_fs *connected(const char *key, const char *value)
{
    append_config *config = OK(append_config_new(&error));
    append_fs *made;

    OK(append_config_set(config, key, value, &error));
    made = OK(append_fs_connect(server(), config, NULL, &error));
    OK(append_config_free(config, &error));
    return made;
}

static inline void write_file(const char *path, const void *data, size_t count)
{
    append_writer *writer = OK(append_fs_create(fs, path, NULL, NULL, &error));

    OK(append_writer_write(writer, data, count, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
}

static inline void append_to(const char *path, const void *data, size_t count)
{
    append_writer *writer = OK(append_fs_append(fs, path, NULL, NULL, &error));

    OK(append_writer_write(writer, data, count, NULL, &error));
    OK(append_writer_close(writer, NULL, &error));
}

static inline int64_t length_of(const char *path)
{
    append_entries *found = OK(append_fs_stat(fs, path, NULL, &error));
    int64_t length = found == NULL ? -1 : append_entries_at(found, 0, NULL)->length;

    if (found != NULL) {
        append_entries_free(found, NULL);
    }
    return length;
}

static inline int64_t modified(const char *path)
{
    append_entries *found = OK(append_fs_stat(fs, path, NULL, &error));
    int64_t time = found == NULL ? -1 : append_entries_at(found, 0, NULL)->modified_ms;

    if (found != NULL) {
        append_entries_free(found, NULL);
    }
    return time;
}

static inline int missing(const char *path)
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
static inline char *contents(const char *path, int64_t *length)
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

static inline int contains(const char *path, const void *data, size_t count)
{
    int64_t length = -1;
    char *read = contents(path, &length);
    int same = read != NULL && length == (int64_t)count && memcmp(read, data, count) == 0;

    free(read);
    return same;
}

/* The program: connects, makes the bucket, runs `tests`, leaves. With an argument: the tests whose names start so. */
static inline int all(int argc, char **argv, const char *bucket, void (*tests)(void))
{
    if (argc > 1) {
        only = argv[1];
    }
    fs = OK(append_fs_connect(server(), NULL, NULL, &error));
    if (fs == NULL) {
        printf("0 passed, 1 failed\n");
        return 1;
    }
    OK(append_fs_mkdir(fs, bucket, 1, NULL, &error));
    tests();
    OK(append_fs_disconnect(fs, &error));
    return end();
}

#endif
