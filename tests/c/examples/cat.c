/* SPDX-License-Identifier: Apache-2.0
 *
 * cat URI PATH [OFFSET COUNT]: writes a file, or COUNT bytes of it from OFFSET, to standard output.
 *
 *     cc cat.c -o cat $(pkg-config --cflags --libs libappend)
 *     ./cat ofs://localhost:9862/ /volume/bucket/log
 */
#include <append.h>
#include <stdio.h>
#include <stdlib.h>

static char buffer[256 * 1024];

static int failed(append_error *error)
{
    fprintf(stderr, "cat: %s\n", append_error_text(error));
    append_error_free(error);
    return 1;
}

/* From the reader's own position to the end. */
static int copy_all(append_reader *reader, append_error **error)
{
    int64_t got;

    while ((got = append_reader_read(reader, buffer, sizeof buffer, NULL, error)) > 0) {
        fwrite(buffer, 1, (size_t)got, stdout);
    }
    return got < 0 ? -1 : 0;
}

/* A part, which moves no position: other threads could do the same with this reader. */
static int copy_part(append_reader *reader, int64_t offset, int64_t count, append_error **error)
{
    while (count > 0) {
        size_t wanted = count < (int64_t)sizeof buffer ? (size_t)count : sizeof buffer;
        int64_t got = append_reader_pread(reader, buffer, wanted, offset, NULL, error);
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        fwrite(buffer, 1, (size_t)got, stdout);
        offset += got;
        count -= got;
    }
    return 0;
}

int main(int argc, char **argv)
{
    append_error *error = NULL;
    append_fs *fs;
    append_reader *reader;
    int status = 0;

    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: cat URI PATH [OFFSET COUNT]\n");
        return 2;
    }
    fs = append_fs_connect(argv[1], NULL, NULL, &error);
    if (fs == NULL) {
        return failed(error);
    }
    reader = append_fs_open(fs, argv[2], NULL, &error);
    if (reader == NULL) {
        status = failed(error);
    } else {
        int result = argc == 3 ? copy_all(reader, &error)
                               : copy_part(reader, strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10), &error);
        if (result < 0) {
            status = failed(error);
        }
        append_reader_close(reader, NULL);
    }
    append_fs_disconnect(fs, NULL);
    if (fflush(stdout) != 0) {
        perror("cat");
        status = 1;
    }
    return status;
}
