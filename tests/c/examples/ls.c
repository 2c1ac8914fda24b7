/* SPDX-License-Identifier: Apache-2.0
 *
 * ls URI PATH: lists what is below a directory, page by page and directory by directory, and what can be done there.
 *
 *     cc ls.c -o ls $(pkg-config --cflags --libs libappend)
 *     ./ls ofs://localhost:9862/ /volume/bucket
 */
#include <append.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries of one answer of the server. */
enum { PAGE = 100 };

static int list(append_fs *fs, const char *path, append_error **error);

static int show(append_fs *fs, const append_entry *entry, append_error **error)
{
    int directory = entry->flags & APPEND_ENTRY_FLAG_DIRECTORY;

    printf("%c %d %-8s %12lld %lld %s", directory ? 'd' : '-', entry->replication, entry->owner, (long long)entry->length,
           (long long)entry->modified_ms, entry->path);
    if (entry->holder != NULL) {
        printf(" (written by %s)", entry->holder->owner);
    }
    printf("\n");
    return directory ? list(fs, entry->path, error) : 0;
}

static int list(append_fs *fs, const char *path, append_error **error)
{
    char *after = NULL;
    int more = 1, result = 0;

    while (more > 0 && result == 0) {
        append_entries *page = append_fs_list(fs, path, after, PAGE, NULL, error);
        int64_t count;
        if (page == NULL) {
            result = -1;
            break;
        }
        count = append_entries_count(page, NULL);
        for (int64_t i = 0; i < count && result == 0; i++) {
            result = show(fs, append_entries_at(page, i, NULL), error);
        }
        more = count > 0 ? append_entries_more(page, NULL) : 0;
        if (more > 0) {
            /* The name belongs to the page, and the next one starts after it. */
            free(after);
            after = strdup(append_entries_at(page, count - 1, NULL)->name);
            if (after == NULL) {
                perror("ls");
                exit(1);
            }
        }
        append_entries_free(page, NULL);
    }
    free(after);
    return result;
}

int main(int argc, char **argv)
{
    append_error *error = NULL;
    append_fs *fs;
    int can, status = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: ls URI PATH\n");
        return 2;
    }
    fs = append_fs_connect(argv[1], NULL, NULL, &error);
    if (fs != NULL && list(fs, argv[2], &error) == 0 && (can = append_fs_capabilities(fs, argv[2], NULL, &error)) >= 0) {
        printf("append: %s\n", can & APPEND_CAPABILITY_APPEND ? "yes" : "no");
    } else {
        fprintf(stderr, "ls: %s\n", append_error_text(error));
        append_error_free(error);
        status = 1;
    }
    if (fs != NULL) {
        append_fs_disconnect(fs, NULL);
    }
    return status;
}
