/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libappend: a native client of Apache Ozone that can also append, where the server can.
 *
 *     append_error *error = NULL;
 *     append_fs *fs = append_fs_connect("ofs://om.example.org:9862/", NULL, NULL, &error);
 *     append_writer *log = fs ? append_fs_append(fs, "/volume/bucket/log", NULL, NULL, &error) : NULL;
 *     if (log == NULL || append_writer_write(log, "line\n", 5, NULL, &error) < 0
 *         || append_writer_close(log, NULL, &error) < 0) {
 *         fprintf(stderr, "%s\n", append_error_text(error));
 *         append_error_free(error);
 *     }
 *
 * Link with -lappend, or with what `pkg-config --libs libappend` says.
 *
 * FAILURE. A function that fails returns -1 or NULL, sets errno, and stores an error object in *error, which the caller frees
 * with append_error_free. When it succeeds it stores NULL there, so do not reuse the variable of an error that is not freed.
 * `error` may be NULL: then errno is all there is. errno means nothing after a success. No call ends the process, and none writes to
 * standard error, except that APPEND_KIND_INTERNAL, a fault of the library itself, prints its place there.
 *
 * HANDLES. append_fs, append_reader, append_writer, append_config, append_cancel, append_entries and append_error are handles:
 * they look like pointers and point nowhere. A handle that is NULL fails with EINVAL; one that was closed or freed, or is none of
 * its type, fails with EBADF, even if its memory were used again. Each handle is closed by exactly one function, which its type
 * names; closing is the caller's part for every handle that a function returned.
 *
 * STRINGS are UTF-8 and end with NUL. Strings that go in stay the caller's and are read during the call only. Strings that come
 * out belong to the object that gave them and live as long.
 *
 * STRUCTURES that go in start with their size: {.size = sizeof(append_wait), ...}. The other members may be zero. NULL stands for
 * all defaults. Structures that come out are read in place and never copied by value, so that later versions can add members.
 *
 * WAITING. `wait` bounds a call: a time-out of its own, and a cancel that another thread can trigger. NULL waits as long as the
 * time-outs of the configuration allow. A call that is given up leaves the handle usable.
 *
 * THREADS. Every function may be called from every thread, with the same handles, at the same time. A handle that one thread
 * closes ends for the calls of others after those that are under way.
 *
 * FORK. The library has threads of its own from the first append_fs_connect on. In a child that is forked afterwards every
 * function fails at once with EINVAL and APPEND_KIND_FORKED; a child that calls exec is not concerned.
 */


#ifndef APPEND_H
#define APPEND_H

#include <stddef.h>
#include <stdint.h>

/**
 * The interface that this header describes; append_abi_version tells what the library has. It grows when functions are added.
 */
#define APPEND_ABI_VERSION 1

/**
 * What went wrong, as far as a program can decide by it. Numbers are never used for anything else; new ones may come.
 */
typedef enum {
    /**
     * A kind that this version of the library has no number for.
     */
    APPEND_KIND_UNKNOWN = 0,
    /**
     * ENOENT: nothing stands at the path, or the file of a stream was deleted or replaced.
     */
    APPEND_KIND_NOT_FOUND = 1,
    /**
     * ENOENT: the parent of a new name is missing and was not to be made.
     */
    APPEND_KIND_PARENT_NOT_FOUND = 2,
    /**
     * EEXIST: the name exists already.
     */
    APPEND_KIND_ALREADY_EXISTS = 3,
    /**
     * EISDIR: the path is a directory, and the call wants a file.
     */
    APPEND_KIND_IS_DIRECTORY = 4,
    /**
     * ENOTDIR: a parent in the path is a file, or the path is one and the call wants a directory.
     */
    APPEND_KIND_NOT_A_DIRECTORY = 5,
    /**
     * ENOTEMPTY: a directory, bucket or volume has entries.
     */
    APPEND_KIND_DIRECTORY_NOT_EMPTY = 6,
    /**
     * EACCES: the caller may not do this.
     */
    APPEND_KIND_PERMISSION_DENIED = 7,
    /**
     * EROFS: the path lies in a snapshot.
     */
    APPEND_KIND_READ_ONLY = 8,
    /**
     * EBUSY: another writer holds the file; append_error_holder tells which.
     */
    APPEND_KIND_CONFLICT = 9,
    /**
     * EBUSY: the file's writer is gone and the file is being recovered.
     */
    APPEND_KIND_RECOVERING = 10,
    /**
     * ESTALE: the stream's session is over for the server. Nothing after its last successful sync is published.
     */
    APPEND_KIND_STALE_SESSION = 11,
    /**
     * ENOTRECOVERABLE: the server may or may not have done it. Look before doing it again.
     */
    APPEND_KIND_OUTCOME_UNKNOWN = 12,
    /**
     * ENOTSUP: the server, the bucket's layout or this library cannot do this.
     */
    APPEND_KIND_UNSUPPORTED = 13,
    /**
     * ENOTSUP: the server could do this, but it is switched off or not finalized.
     */
    APPEND_KIND_DISABLED = 14,
    /**
     * EDQUOT: a quota of the volume or bucket is used up.
     */
    APPEND_KIND_QUOTA_EXCEEDED = 15,
    /**
     * EBADMSG: bytes of a block do not match their checksum; append_error_bad_offset tells where.
     */
    APPEND_KIND_CHECKSUM = 16,
    /**
     * ETIMEDOUT: the time of the call, or of the configuration, is over.
     */
    APPEND_KIND_TIMEOUT = 17,
    /**
     * EINTR: somebody triggered the call's append_cancel. What the server did by then stands.
     */
    APPEND_KIND_CANCELLED = 18,
    /**
     * ECONNREFUSED: no server could be reached.
     */
    APPEND_KIND_CONNECT = 19,
    /**
     * EINVAL: an argument, path or setting is malformed, or a pointer is NULL that must not be.
     */
    APPEND_KIND_INVALID_ARGUMENT = 20,
    /**
     * EBADF: the handle was closed or freed before.
     */
    APPEND_KIND_CLOSED = 21,
    /**
     * ENOSPC: no datanode has room for another block.
     */
    APPEND_KIND_NO_SPACE = 22,
    /**
     * ECANCELED: a condition of a conditional change did not hold.
     */
    APPEND_KIND_CONDITION_FAILED = 23,
    /**
     * EAGAIN: the server cannot serve this now.
     */
    APPEND_KIND_UNAVAILABLE = 24,
    /**
     * EPROTO: a peer broke the protocol.
     */
    APPEND_KIND_PROTOCOL = 25,
    /**
     * EIO: a failure that fits no other kind.
     */
    APPEND_KIND_IO = 26,
    /**
     * EBADF: the value is no handle of this type.
     */
    APPEND_KIND_BAD_HANDLE = 100,
    /**
     * EINVAL: the process is a child of the one that connected. The child cannot use the library, except through exec.
     */
    APPEND_KIND_FORKED = 101,
    /**
     * EMFILE: too many handles are open.
     */
    APPEND_KIND_NO_HANDLES = 102,
    /**
     * EIO: a fault of the library itself.
     */
    APPEND_KIND_INTERNAL = 103,
} append_kind;

/**
 * Whether and when the same call may be made again.
 */
typedef enum {
    /**
     * It would fail again.
     */
    APPEND_RETRY_NEVER = 0,
    /**
     * It may work at once or later.
     */
    APPEND_RETRY_NOW = 1,
    /**
     * It may work after the time that append_error_retry_after_ms gives.
     */
    APPEND_RETRY_AFTER = 2,
    /**
     * The result is not known: look at the file first.
     */
    APPEND_RETRY_LOOK_FIRST = 3,
} append_retry;

/**
 * What kind of writer holds a file: `kind` of `append_holder`.
 */
typedef enum {
    /**
     * A writer that has published nothing.
     */
    APPEND_HOLDER_KIND_ORDINARY = 1,
    /**
     * A writer without a session that has published by hsync.
     */
    APPEND_HOLDER_KIND_HSYNC = 2,
    /**
     * A session of an append, or of a create by libappend.
     */
    APPEND_HOLDER_KIND_APPEND = 3,
} append_holder_kind;

/**
 * Phase of an append session: `phase` of `append_holder`.
 */
typedef enum {
    /**
     * The holder has no session, so no phase.
     */
    APPEND_HOLDER_PHASE_NONE = 0,
    /**
     * The writer may write.
     */
    APPEND_HOLDER_PHASE_ACTIVE = 1,
    /**
     * The writer is fenced, the file is being recovered.
     */
    APPEND_HOLDER_PHASE_RECOVERING = 2,
    /**
     * The file is gone.
     */
    APPEND_HOLDER_PHASE_INVALIDATED = 3,
} append_holder_phase;

/**
 * Bits of `flags` of `append_entry`.
 */
typedef enum {
    /**
     * A directory, bucket, volume or the root.
     */
    APPEND_ENTRY_FLAG_DIRECTORY = 1,
    /**
     * The content is encrypted.
     */
    APPEND_ENTRY_FLAG_ENCRYPTED = 2,
    /**
     * The content is erasure coded.
     */
    APPEND_ENTRY_FLAG_ERASURE_CODED = 4,
} append_entry_flag;

/**
 * What works at a path: bits of append_fs_capabilities.
 */
typedef enum {
    /**
     * Files can be appended to.
     */
    APPEND_CAPABILITY_APPEND = 1,
    /**
     * append_writer_hflush works.
     */
    APPEND_CAPABILITY_HFLUSH = 2,
    /**
     * append_writer_hsync works.
     */
    APPEND_CAPABILITY_HSYNC = 4,
    /**
     * A file whose writer died can be recovered by a call.
     */
    APPEND_CAPABILITY_LEASE_RECOVERY = 8,
    /**
     * A rename of a directory is one atomic step.
     */
    APPEND_CAPABILITY_ATOMIC_RENAME = 16,
} append_capability;

/**
 * Ends waiting calls. It may stand in the append_wait of any number of calls. Freed with append_cancel_free.
 */
typedef struct append_cancel append_cancel;

/**
 * Settings under Ozone's and Hadoop's key names. Connecting copies them, so that they can be changed, used again and freed at any
 * time. Freed with append_config_free.
 */
typedef struct append_config append_config;

/**
 * Files and directories that append_fs_stat or append_fs_list found. It changes no more, may be read by several threads, and is
 * freed with append_entries_free.
 */
typedef struct append_entries append_entries;

/**
 * Why a call failed. Made by the function that fails and owned by the caller, who frees it with append_error_free.
 */
typedef struct append_error append_error;

/**
 * A connected file system. Thread-safe. Closed with append_fs_disconnect.
 */
typedef struct append_fs append_fs;

/**
 * A file that is being read, at the length that it had when it was opened. Thread-safe. Closed with append_reader_close.
 */
typedef struct append_reader append_reader;

/**
 * A file that is being written. Thread-safe: each write is whole, whoever else writes at the same time. Closed with
 * append_writer_close or append_writer_abort.
 */
typedef struct append_writer append_writer;

/**
 * The writer that holds a file. It lives as long as the object that gave it; later versions may add members at its end.
 */
typedef struct {
    /**
     * One of `append_holder_kind`.
     */
    int kind;
    /**
     * One of `append_holder_phase`.
     */
    int phase;
    /**
     * Its session, 0 without one.
     */
    uint64_t session;
    /**
     * Its last renewal, in milliseconds on the server's lease clock.
     */
    int64_t last_renewed_ms;
    /**
     * Renewals so far: grows as long as the writer lives.
     */
    int64_t renewals;
    /**
     * Milliseconds until its file may be recovered if it does not renew.
     */
    int64_t remaining_ms;
    /**
     * Length in bytes of what was there before it.
     */
    int64_t prefix_length;
    /**
     * Length in bytes that readers see.
     */
    int64_t published_length;
    /**
     * Who it says it is; never NULL.
     */
    const char *owner;
    /**
     * Why its recovery does not go on; never NULL, empty if nothing is in the way.
     */
    const char *blocked_reason;
} append_holder;

/**
 * A file or directory. It belongs to its append_entries and lives as long; later versions may add members at its end. Times are
 * milliseconds since 1970.
 */
typedef struct {
    /**
     * Where it stands: /volume/bucket/key. Never NULL.
     */
    const char *path;
    /**
     * Last component of the path, empty for the root. Never NULL.
     */
    const char *name;
    /**
     * Owner, empty if the server does not say. Never NULL.
     */
    const char *owner;
    /**
     * The writer that holds it, as far as the server says; NULL if there is none.
     */
    const append_holder *holder;
    /**
     * Published length in bytes; 0 for a directory.
     */
    int64_t length;
    /**
     * Bytes of one block; 0 for a directory.
     */
    int64_t block_size;
    /**
     * Data last changed.
     */
    int64_t modified_ms;
    /**
     * Last read, as far as anybody counts: Ozone does not, so it is the modification time.
     */
    int64_t accessed_ms;
    /**
     * Identity of the object, which stays over renames; 0 if the server does not say.
     */
    uint64_t object_id;
    /**
     * Copies that are kept of the data; 0 for a directory.
     */
    int replication;
    /**
     * Sum of `append_entry_flag`.
     */
    int flags;
} append_entry;

/**
 * How long a call may wait, and what ends it. A zeroed one with `size` set waits as long as the time-outs of the configuration
 * allow.
 */
typedef struct {
    /**
     * `sizeof(append_wait)`.
     */
    size_t size;
    /**
     * The call fails with `APPEND_KIND_TIMEOUT` after this many milliseconds; 0: no bound.
     */
    int64_t timeout_ms;
    /**
     * The call fails with `APPEND_KIND_CANCELLED` when somebody triggers this; NULL: nobody can.
     */
    append_cancel *cancel;
} append_wait;

/**
 * How append_fs_create makes a file.
 */
typedef struct {
    /**
     * `sizeof(append_create_options)`.
     */
    size_t size;
    /**
     * Largest block in bytes; 0: by configuration. Servers may give smaller blocks.
     */
    int64_t block_size;
    /**
     * Not 0: an existing file is replaced. 0: it is APPEND_KIND_ALREADY_EXISTS.
     */
    int overwrite;
    /**
     * Not 0: missing parents are made, volume and bucket included. 0: that is APPEND_KIND_PARENT_NOT_FOUND.
     */
    int parents;
    /**
     * Copies, 1 or 3; 0: the bucket's default, then the server's.
     */
    int replication;
} append_create_options;

/**
 * How append_fs_append opens a file.
 */
typedef struct {
    /**
     * `sizeof(append_append_options)`.
     */
    size_t size;
    /**
     * Not 0: a missing file is made, with its parents. 0: it is APPEND_KIND_NOT_FOUND.
     */
    int create_if_missing;
} append_append_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * A cancel that nobody triggered. The caller frees it with append_cancel_free.
 */
append_cancel *append_cancel_new(append_error **error);

/**
 * Ends every call that waits with this cancel, now and later, with APPEND_KIND_CANCELLED: triggered once is triggered for good.
 * May be called from any thread, but not from a signal handler.
 */
int append_cancel_trigger(append_cancel *cancel,
                          append_error **error);

/**
 * Frees a cancel. Calls that wait with it go on, and nobody can cancel them any more.
 */
int append_cancel_free(append_cancel *cancel, append_error **error);

/**
 * No settings: every key has its default. The caller frees it with append_config_free.
 */
append_config *append_config_new(append_error **error);

/**
 * The settings of core-site.xml and ozone-site.xml in $HADOOP_CONF_DIR, else in $HADOOP_HOME/etc/hadoop. Without such a variable,
 * folder or file: no settings. A malformed file is APPEND_KIND_INVALID_ARGUMENT, and the text names it. The caller frees the
 * result with append_config_free.
 */
append_config *append_config_from_environment(append_error **error);

/**
 * As append_config_from_environment, from this folder.
 */
append_config *append_config_from_directory(const char *directory, append_error **error);

/**
 * Sets a key. Values are read when something connects, and a malformed one fails there. 0, or -1.
 */
int append_config_set(append_config *config, const char *key, const char *value, append_error **error);

/**
 * Sets the user whom servers see. Without it: $HADOOP_USER_NAME, else the user of the process. 0, or -1.
 */
int append_config_set_user(append_config *config, const char *user, append_error **error);

/**
 * Frees settings. Connections that were made with them keep their copy. 0, or -1.
 */
int append_config_free(append_config *config, append_error **error);

/**
 * How many entries there are, or -1.
 */
int64_t append_entries_count(const append_entries *entries, append_error **error);

/**
 * The entry with this index, from 0. It belongs to `entries` and lives as long. NULL for an index out of range (EINVAL).
 */
const append_entry *append_entries_at(const append_entries *entries,
                                      int64_t index,
                                      append_error **error);

/**
 * 1 if another page may follow: list again after the name of the last entry. 0 if not, or -1.
 */
int append_entries_more(const append_entries *entries, append_error **error);

/**
 * Frees entries, with every append_entry in them. 0, or -1.
 */
int append_entries_free(append_entries *entries, append_error **error);

/**
 * What went wrong: one of `append_kind`. -1 for a value that is no error object (errno EINVAL for NULL, else EBADF).
 */
int append_error_kind(const append_error *error);

/**
 * The errno that the failed call set. -1 for a value that is no error object.
 */
int append_error_errno(const append_error *error);

/**
 * One line for people: the call, the path, what the server said, the request's identity as the server logs it. The string
 * belongs to the error object and lives as long. Never NULL: a value that is no error object has the text
 * "not an error object" (and errno says why).
 */
const char *append_error_text(const append_error *error);

/**
 * The path that the call was about. The string belongs to the error object; NULL if it names none.
 */
const char *append_error_path(const append_error *error);

/**
 * Identity of the failed request, as the server logs it. The string belongs to the error object; NULL if no request failed.
 */
const char *append_error_request(const append_error *error);

/**
 * Whether and when the same call may be made again: one of `append_retry`. -1 for a value that is no error object.
 */
int append_error_retry(const append_error *error);

/**
 * Milliseconds after which the same call may work: for a conflict the time that the other writer still has if it does not
 * renew. 0: it may work at once. -1: no time is known, or a value that is no error object.
 */
int64_t append_error_retry_after_ms(const append_error *error);

/**
 * The writer in the way, for APPEND_KIND_CONFLICT and APPEND_KIND_RECOVERING. It belongs to the error object; NULL if there is
 * none.
 */
const append_holder *append_error_holder(const append_error *error);

/**
 * Offset in the file of the first byte that does not match its checksum, for APPEND_KIND_CHECKSUM; else -1.
 */
int64_t append_error_bad_offset(const append_error *error);

/**
 * Frees an error object and what belongs to it. NULL and objects that were freed before are left alone.
 */
void append_error_free(append_error *error);

/**
 * Connects. `address` is a URI ("ofs://host:port/", "ofs://service/", "o3fs://bucket.volume.host:port/", whose paths are below
 * that bucket), an authority ("host:port", "host", a service's name), or "": then the settings name the server. With a NULL
 * `config` the settings are those of append_config_from_environment; the caller keeps and frees his `config` in any case.
 * APPEND_KIND_CONNECT within the connect time-out when no server answers. The library's threads start here: after a fork only
 * the parent can go on. Closed with append_fs_disconnect.
 */
append_fs *append_fs_connect(const char *address,
                             const append_config *config,
                             const append_wait *wait,
                             append_error **error);

/**
 * Ends a connection: its open streams fail from then on, and their sessions end when their leases do, so close them first.
 * 0, or -1.
 */
int append_fs_disconnect(append_fs *fs,
                         append_error **error);

/**
 * What stands at a path: a set of exactly one entry, which the caller frees with append_entries_free.
 */
append_entries *append_fs_stat(append_fs *fs, const char *path, const append_wait *wait, append_error **error);

/**
 * One page of a directory's entries in the byte order of names, after the name `start_after` (NULL or "": from the first), at
 * most `max` (0: by configuration). A file is its own only entry. append_entries_more tells whether to go on. The caller frees
 * the result with append_entries_free.
 */
append_entries *append_fs_list(append_fs *fs,
                               const char *path,
                               const char *start_after,
                               uint32_t max,
                               const append_wait *wait,
                               append_error **error);

/**
 * Makes a directory; an existing one is fine. "/volume" makes a volume, "/volume/bucket" a bucket. With `parents` not 0 missing
 * parents are made, volume and bucket included. 0, or -1.
 */
int append_fs_mkdir(append_fs *fs,
                    const char *path,
                    int parents,
                    const append_wait *wait,
                    append_error **error);

/**
 * Renames a file or directory to exactly this name. A destination that exists is APPEND_KIND_ALREADY_EXISTS, another bucket
 * APPEND_KIND_UNSUPPORTED. 0, or -1.
 */
int append_fs_rename(append_fs *fs,
                     const char *source,
                     const char *destination,
                     const append_wait *wait,
                     append_error **error);

/**
 * Deletes a file, directory, bucket or volume. With `recursive` not 0 what is inside goes first; else a directory with entries
 * is APPEND_KIND_DIRECTORY_NOT_EMPTY. 0, or -1; nothing at the path is APPEND_KIND_NOT_FOUND.
 */
int append_fs_delete(append_fs *fs,
                     const char *path,
                     int recursive,
                     const append_wait *wait,
                     append_error **error);

/**
 * Sets times in milliseconds since 1970; a negative one stays as it is. Ozone keeps no access time. 0, or -1.
 */
int append_fs_set_times(append_fs *fs,
                        const char *path,
                        int64_t modified_ms,
                        int64_t accessed_ms,
                        const append_wait *wait,
                        append_error **error);

/**
 * What works at a path, whether or not something stands there: a sum of `append_capability`, or -1.
 */
int append_fs_capabilities(append_fs *fs, const char *path, const append_wait *wait, append_error **error);

/**
 * Recovers a file whose writer died, at the length that its writer had synced or more; a file that is closed is left alone. 1: it is
 * closed now. -1: it is not; APPEND_KIND_CONFLICT while the lease of its writer runs (append_error_retry_after_ms tells for how
 * long), APPEND_KIND_RECOVERING if a datanode could not be asked: call again. A writer of this connection is not waited for: its
 * stream is over then.
 */
int append_recover_lease(append_fs *fs,
                         const char *path,
                         const append_wait *wait,
                         append_error **error);

/**
 * Whether nobody writes to a file: no append session, none that is being recovered, and no writer that has synced. 1: it is closed,
 * 0: it is not, -1: failed.
 */
int append_is_file_closed(append_fs *fs,
                          const char *path,
                          const append_wait *wait,
                          append_error **error);

/**
 * Opens a file for reading, at the length that it has now. Closed with append_reader_close.
 */
append_reader *append_fs_open(append_fs *fs, const char *path, const append_wait *wait, append_error **error);

/**
 * Creates a file and opens it for writing. With NULL `options` an existing file is replaced and missing parents are made. On a
 * server that can append the file is visible at once. APPEND_KIND_CONFLICT while an append owns the file. Closed with
 * append_writer_close.
 */
append_writer *append_fs_create(append_fs *fs,
                                const char *path,
                                const append_create_options *options,
                                const append_wait *wait,
                                append_error **error);

/**
 * Opens a file for append: the stream starts at the file's end. With NULL `options` a missing file is APPEND_KIND_NOT_FOUND. While an
 * append session of another client has the file, the call waits, as long as the server gives that session, and then recovers the
 * file; `wait` can only shorten this. APPEND_KIND_CONFLICT if the other writer lives, at once if it is of this connection:
 * append_error_holder tells which and append_error_retry_after_ms for how long at most; APPEND_KIND_RECOVERING if the recovery
 * did not end in time; APPEND_KIND_UNSUPPORTED where nobody can append. After a failure no session of this call is left. Closed with
 * append_writer_close.
 */
append_writer *append_fs_append(append_fs *fs,
                                const char *path,
                                const append_append_options *options,
                                const append_wait *wait,
                                append_error **error);

/**
 * Reads the next bytes: as many as fit into `buffer` and are there, 0 at the end of the file, or -1, and then the position is as
 * before. Fewer than `count` only at the end. Threads that read at once get bytes that follow each other, each its own. Bytes that
 * do not match their checksum are APPEND_KIND_CHECKSUM and never returned; the contents of `buffer` are undefined after a failure.
 */
int64_t append_reader_read(append_reader *reader,
                           void *buffer,
                           size_t count,
                           const append_wait *wait,
                           append_error **error);

/**
 * As append_reader_read, at a position in the file and without moving the reader's own. Calls run side by side.
 */
int64_t append_reader_pread(append_reader *reader,
                            void *buffer,
                            size_t count,
                            int64_t position,
                            const append_wait *wait,
                            append_error **error);

/**
 * Sets the position of the next append_reader_read, from 0 to the file's length. Returns it, or -1.
 */
int64_t append_reader_seek(append_reader *reader, int64_t position, append_error **error);

/**
 * Position of the next append_reader_read, or -1.
 */
int64_t append_reader_tell(append_reader *reader, append_error **error);

/**
 * Length in bytes, fixed at open: what is published, and for a file that is being written what its writer has synced since.
 * -1 on failure.
 */
int64_t append_reader_length(append_reader *reader,
                             append_error **error);

/**
 * Closes a reader. Closing it again does nothing. 0, or -1.
 */
int append_reader_close(append_reader *reader, append_error **error);

/**
 * The interface of the library that is loaded. A program may call it when this is at least the APPEND_ABI_VERSION that it was
 * compiled with. Never fails.
 */
uint32_t append_abi_version(void);

/**
 * The library's release, such as "0.1.0". The string is never freed.
 */
const char *append_version(void);

/**
 * How many handles of all types, error objects included, are open in this process. For tests that look for leaks: the tables
 * keep everything reachable, so that a tool would not find one.
 */
size_t append_open_handles(void);

/**
 * Takes all of `data`, which is buffered: readers see it after the next sync or close. `count`, or -1: what went wrong with
 * bytes taken before, or APPEND_KIND_CLOSED. After a time-out or cancel an unknown part of `data` was taken.
 */
int64_t append_writer_write(append_writer *writer,
                            const void *data,
                            size_t count,
                            const append_wait *wait,
                            append_error **error);

/**
 * For programs that flush before they sync. What append_writer_write took is past every buffer of this interface, so there is
 * nothing to hand on; use append_writer_hflush to show bytes to readers. 0, also after close, or -1.
 */
int append_writer_flush(append_writer *writer,
                        append_error **error);

/**
 * Makes all bytes taken before visible to readers that open the file afterwards. They are durable, too, so that nobody reads
 * what a crash could take back. A closed stream: nothing to do. 0, or -1.
 */
int append_writer_hflush(append_writer *writer,
                         const append_wait *wait,
                         append_error **error);

/**
 * Makes all bytes taken before durable, and visible to readers that open the file afterwards. A closed stream: nothing to do.
 * 0, or -1; APPEND_KIND_UNSUPPORTED if the stream cannot, which leaves it open.
 */
int append_writer_hsync(append_writer *writer,
                        const append_wait *wait,
                        append_error **error);

/**
 * 1 if append_writer_hflush and append_writer_hsync work on this stream, 0 if not, or -1.
 */
int append_writer_can_sync(append_writer *writer, append_error **error);

/**
 * Position in the file of the stream's first byte: 0 for create, the file's length for append. -1 on failure.
 */
int64_t append_writer_start(append_writer *writer, append_error **error);

/**
 * Position in the file of the next byte, or -1.
 */
int64_t append_writer_tell(append_writer *writer, append_error **error);

/**
 * Publishes all bytes, ends the session and closes the handle, also when it fails: then -1 says that bytes after the last
 * successful sync may be missing, and nothing is written a second time. A close goes on in the background after a time-out or
 * cancel. Closing again does nothing and returns 0.
 */
int append_writer_close(append_writer *writer,
                        const append_wait *wait,
                        append_error **error);

/**
 * Ends the session without publishing anything more and closes the handle: the file keeps what the last sync published. Waits
 * at most a second for the server to hear of it. A closed stream: nothing to do. 0, or -1.
 */
int append_writer_abort(append_writer *writer,
                        append_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* APPEND_H */
