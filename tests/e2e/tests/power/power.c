/*
 * Preloaded into the server under test: writes down, in order, everything that changes files or folders below
 * APPEND_POWER_ROOT, and what an fsync covers, into the journal APPEND_POWER_JOURNAL. The change itself is made too, but an
 * fsync is only written down: no power fails here, the replayer decides what would have been lost. With APPEND_POWER_QUICK it
 * writes nothing down, and an fsync does nothing: for looking at what a cut left.
 *
 * What it cannot describe (shared writable mappings, links, copies inside the kernel) is written down as unsupported, and the
 * replayer fails on it. Linux, 64 bit, glibc.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC, SYNC_DIR, ALLOCATE, UNSUPPORTED };
enum { FRAMES = 32, SITE_FRAMES = 8, SITES = 4096, TEMPORARY = 64 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_len;
static int journal = -1, sites = -1, quick;
static uintptr_t code_from, code_to, code_base;
static uint64_t seen[SITES];

/* Files that were made under a temporary name: the crate tempfile renames them by a system call of its own, which is noticed later. */
static struct { ino_t number; char path[256]; } temporary[TEMPORARY];
/* SIGUSR1: end before the next change, never between a change and its record. SIGUSR2 and SIGIO: end before the next fsync of a
 * file of the log and of a container, with all that it would have covered; SIGHUP and SIGWINCH: before that of their folders. */
static volatile sig_atomic_t dying, dying_at_sync;
static void on_signal(int number) { if (number == SIGUSR1) dying = 1; else dying_at_sync = number; }

static int ends_at(const char *name, int folder) {
    switch (dying_at_sync) {
    case SIGUSR2: return !folder && strncmp(name, "om/log/", 7) == 0;
    case SIGIO: return !folder && strncmp(name, "blocks/containers/", 18) == 0;
    case SIGHUP: return folder && strcmp(name, "om/log") == 0;
    case SIGWINCH: return folder && strcmp(name, "blocks/containers") == 0;
    default: return 0;
    }
}

static int first_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size; (void)data;
    code_base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            code_from = code_base + info->dlpi_phdr[i].p_vaddr;
            code_to = code_from + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

static int open_aside(const char *path) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("APPEND_POWER_ROOT"), *file = getenv("APPEND_POWER_JOURNAL");
    char name[PATH_MAX];
    void *warm[2];
    quick = getenv("APPEND_POWER_QUICK") != NULL;
    if (!given || !file || !realpath(given, root)) return;
    backtrace(warm, 2);
    dl_iterate_phdr(first_object, NULL);
    snprintf(name, sizeof name, "%s.sites", file);
    sites = open_aside(name);
    root_len = strlen(root);
    journal = open_aside(file);
    if (journal < 0 || sites < 0) abort();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
}


static void before_change(void);
static void lock(void) { pthread_mutex_lock(&turn); before_change(); }
static void unlock(void) { int e = errno; pthread_mutex_unlock(&turn); errno = e; }

static void put_all(const void *bytes, size_t len) {
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = syscall(SYS_write, journal, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) abort();
        at += n;
        len -= (size_t)n;
    }
}

/* One record: op u8, site u64, number u64, a u64, path length u32, data length u32, path, data. */
static void record(uint8_t op, uint64_t site, uint64_t number, uint64_t a, const char *path,
                   const struct iovec *data, int count, size_t len) {
    size_t paths = path ? strlen(path) : 0, total = 33 + paths + len, at = 33;
    uint32_t path_len = (uint32_t)paths, data_len = (uint32_t)len;
    char small[8192], *out = total <= sizeof small ? small : malloc(total);
    int error = errno;
    if (!out) abort();
    out[0] = (char)op;
    memcpy(out + 1, &site, 8);
    memcpy(out + 9, &number, 8);
    memcpy(out + 17, &a, 8);
    memcpy(out + 25, &path_len, 4);
    memcpy(out + 29, &data_len, 4);
    if (paths) memcpy(out + at, path, paths);
    at += paths;
    for (int i = 0; i < count && len > 0; i++) {
        size_t n = data[i].iov_len < len ? data[i].iov_len : len;
        memcpy(out + at, data[i].iov_base, n);
        at += n;
        len -= n;
    }
    put_all(out, total);
    if (out != small) free(out);
    errno = error;
}

static void record_path(uint8_t op, uint64_t number, const char *path) {
    record(op, 0, number, 0, path, NULL, 0, 0);
}

/* The path below the root, or nothing. "" is the root itself. */
static const char *below(const char *path) {
    if (journal < 0 || strncmp(path, root, root_len) != 0) return NULL;
    if (path[root_len] == 0) return "";
    return path[root_len] == '/' ? path + root_len + 1 : NULL;
}

/* Makes a path absolute, its parent's links resolved. */
static const char *resolve(int dir, const char *path, char out[PATH_MAX]) {
    char whole[2 * PATH_MAX], parent[PATH_MAX], link[64];
    if (journal < 0 || !path) return NULL;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else if (dir == AT_FDCWD) {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return NULL;
        snprintf(whole, sizeof whole, "%s/%s", here, path);
    } else {
        char at[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, at, sizeof at - 1);
        if (n < 0) return NULL;
        at[n] = 0;
        snprintf(whole, sizeof whole, "%s/%s", at, path);
    }
    size_t len = strlen(whole);
    while (len > 1 && whole[len - 1] == '/') whole[--len] = 0;
    char *slash = strrchr(whole, '/');
    if (!slash) return NULL;
    *slash = 0;
    int error = errno;
    if (!realpath(slash == whole ? "/" : whole, parent)) { errno = error; return NULL; }
    if (strlen(parent) + strlen(slash + 1) + 2 > PATH_MAX) return NULL;
    strcpy(out, parent);
    strcat(out, "/");
    strcat(out, slash + 1);
    return below(out);
}

static void renamed(const char *from, const char *to) {
    struct iovec second = {(void *)to, strlen(to)};
    record(RENAME, 0, 0, 0, from, &second, 1, second.iov_len);
}

static void note_temporary(ino_t number, const char *name) {
    const char *last = strrchr(name, '/');
    if (strncmp(last ? last + 1 : name, ".tmp", 4) != 0) return;
    for (int i = 0; i < TEMPORARY; i++) {
        if (temporary[i].number == 0) {
            if (strlen(name) >= sizeof temporary[i].path) abort();
            temporary[i].number = number;
            strcpy(temporary[i].path, name);
            return;
        }
    }
    abort();
}

/* The file is now known as name. */
static void notice_rename(ino_t number, const char *name) {
    for (int i = 0; i < TEMPORARY; i++) {
        if (temporary[i].number != number) continue;
        if (strcmp(temporary[i].path, name) == 0) return;
        renamed(temporary[i].path, name);
        temporary[i].number = 0;
    }
}

static void forget_temporary(const char *name) {
    for (int i = 0; i < TEMPORARY; i++)
        if (temporary[i].number && strcmp(temporary[i].path, name) == 0) temporary[i].number = 0;
}

/* With the lock held. */
static void before_change(void) {
    if (!dying || journal < 0) return;
    for (int i = 0; i < TEMPORARY; i++) {
        char at[PATH_MAX + 300], *slash;
        struct stat st;
        if (!temporary[i].number) continue;
        snprintf(at, sizeof at, "%s/%s", root, temporary[i].path);
        if (lstat(at, &st) == 0 || !(slash = strrchr(at, '/'))) continue;
        *slash = 0;
        DIR *folder = opendir(at);
        struct dirent *entry;
        while (folder && (entry = readdir(folder))) {
            char name[PATH_MAX + 600];
            if (entry->d_ino != temporary[i].number) continue;
            snprintf(name, sizeof name, "%s/%s", at, entry->d_name);
            renamed(temporary[i].path, name + root_len + 1);
        }
    }
    syscall(SYS_kill, getpid(), SIGKILL);
    pause();
}

/* Whether fd is a file or folder below the root; its path too. */
static int tracked(int fd, struct stat *st, char path[PATH_MAX], const char **name) {
    char link[64];
    int error = errno, found = 0;
    if (journal >= 0 && fd >= 0 && fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, PATH_MAX - 1);
        if (n > 0) {
            path[n] = 0;
            *name = below(path);
            found = *name != NULL;
        }
    }
    errno = error;
    return found;
}

/* Who asks: a number for the innermost frames of the program, the same in every run of the same binary. */
static uint64_t site_of(const char *path, int folder) {
    void *frames[FRAMES];
    char line[PATH_MAX + 512];
    int count = backtrace(frames, FRAMES), kept = 0;
    uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)folder;
    int len = snprintf(line, sizeof line, " %s %s", folder ? "folder" : "file", *path ? path : ".");
    for (int i = 0; i < count && kept < SITE_FRAMES; i++) {
        uintptr_t at = (uintptr_t)frames[i];
        if (at < code_from || at >= code_to) continue;
        hash = (hash ^ (at - code_base)) * 0x100000001b3u;
        len += snprintf(line + len, sizeof line - (size_t)len, " %lx", (unsigned long)(at - code_base - 1));
        kept++;
    }
    if (hash == 0) hash = 1;
    size_t slot = hash % SITES;
    while (seen[slot] && seen[slot] != hash) slot = (slot + 1) % SITES;
    if (!seen[slot]) {
        char whole[PATH_MAX + 600];
        seen[slot] = hash;
        int n = snprintf(whole, sizeof whole, "%016lx%s\n", (unsigned long)hash, line);
        if (syscall(SYS_write, sites, whole, (size_t)n) != n) abort();
    }
    return hash;
}

static void unsupported(const char *what) {
    lock();
    record_path(UNSUPPORTED, 0, what);
    unlock();
}

/* ---- opening ---- */

static int open_as(int dir, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC))) return (int)syscall(SYS_openat, dir, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) unsupported("O_TMPFILE");
    lock();
    const char *name = resolve(dir, path, full);
    struct stat before, st;
    int there = name && fstatat(dir, path, &before, 0) == 0;
    int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (name && fd >= 0 && fstat(fd, &st) == 0) {
        if (!there) {
            record_path(CREATE, st.st_ino, name);
            note_temporary(st.st_ino, name);
        }
        else if ((flags & O_TRUNC) && before.st_size > 0) record(TRUNCATE, 0, st.st_ino, 0, name, NULL, 0, 0);
    }
    unlock();
    return fd;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { va_list args; va_start(args, flags); mode = va_arg(args, mode_t); va_end(args); }

int open(const char *path, int flags, ...) { MODE return open_as(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_as(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return open_as(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return open_as(dir, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return open_as(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* ---- writing ---- */

static ssize_t write_as(int fd, const struct iovec *data, int count, off_t at, int placed) {
    struct stat st;
    char path[PATH_MAX];
    const char *name;
    if (!tracked(fd, &st, path, &name))
        return placed ? syscall(SYS_pwritev, fd, data, count, at, 0) : syscall(SYS_writev, fd, data, count);
    lock();
    ssize_t n = placed ? syscall(SYS_pwritev, fd, data, count, at, 0) : syscall(SYS_writev, fd, data, count);
    if (n > 0) {
        /* Of a file that is open for appending the offset behind a write is its end. */
        off_t start = placed ? at : lseek(fd, 0, SEEK_CUR) - n;
        record(WRITE, 0, st.st_ino, (uint64_t)start, name, data, count, (size_t)n);
    }
    unlock();
    return n;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    struct iovec one = {(void *)bytes, len};
    return write_as(fd, &one, 1, 0, 0);
}
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    struct iovec one = {(void *)bytes, len};
    return write_as(fd, &one, 1, at, 1);
}
ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) { return pwrite(fd, bytes, len, at); }
ssize_t writev(int fd, const struct iovec *data, int count) { return write_as(fd, data, count, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) { return write_as(fd, data, count, at, 1); }
ssize_t pwritev64(int fd, const struct iovec *data, int count, off64_t at) { return write_as(fd, data, count, at, 1); }

int ftruncate(int fd, off_t len) {
    struct stat st;
    char path[PATH_MAX];
    const char *name;
    if (!tracked(fd, &st, path, &name)) return (int)syscall(SYS_ftruncate, fd, len);
    lock();
    int rc = (int)syscall(SYS_ftruncate, fd, len);
    if (rc == 0) record(TRUNCATE, 0, st.st_ino, (uint64_t)len, name, NULL, 0, 0);
    unlock();
    return rc;
}
int ftruncate64(int fd, off64_t len) { return ftruncate(fd, len); }

int fallocate(int fd, int mode, off_t at, off_t len) {
    struct stat st;
    char path[PATH_MAX];
    const char *name;
    if (!tracked(fd, &st, path, &name)) return (int)syscall(SYS_fallocate, fd, mode, at, len);
    if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE) unsupported("fallocate with a mode");
    lock();
    int rc = (int)syscall(SYS_fallocate, fd, mode, at, len);
    if (rc == 0 && mode == 0) record(ALLOCATE, 0, st.st_ino, (uint64_t)(at + len), name, NULL, 0, 0);
    unlock();
    return rc;
}
int fallocate64(int fd, int mode, off64_t at, off64_t len) { return fallocate(fd, mode, at, len); }
int posix_fallocate(int fd, off_t at, off_t len) { return fallocate(fd, 0, at, len) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t at, off64_t len) { return posix_fallocate(fd, at, len); }

/* ---- names ---- */

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    char from_full[PATH_MAX], to_full[PATH_MAX];
    lock();
    const char *a = resolve(from_dir, from, from_full), *b = resolve(to_dir, to, to_full);
    int rc = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
    if (rc == 0 && (a || b)) {
        if (a && b && !(flags & ~1u)) {
            forget_temporary(a);
            renamed(a, b);
        } else {
            record_path(UNSUPPORTED, 0, "a rename across the root, or an exchange");
        }
    }
    unlock();
    return rc;
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) { return renameat2(from_dir, from, to_dir, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dir, const char *path, int flags) {
    char full[PATH_MAX];
    lock();
    const char *name = resolve(dir, path, full);
    int rc = (int)syscall(SYS_unlinkat, dir, path, flags);
    if (rc == 0 && name) {
        forget_temporary(name);
        record_path(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, name);
    }
    unlock();
    return rc;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int dir, const char *path, mode_t mode) {
    char full[PATH_MAX];
    lock();
    const char *name = resolve(dir, path, full);
    int rc = (int)syscall(SYS_mkdirat, dir, path, mode);
    if (rc == 0 && name) record_path(MKDIR, 0, name);
    unlock();
    return rc;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- durability ---- */

static int sync_as(int fd, long call) {
    struct stat st;
    char path[PATH_MAX];
    const char *name;
    if (quick) return 0;
    if (!tracked(fd, &st, path, &name)) return (int)syscall(call, fd);
    int folder = S_ISDIR(st.st_mode);
    if (ends_at(name, folder)) dying = 1;
    lock();
    if (!folder) notice_rename(st.st_ino, name);
    record(folder ? SYNC_DIR : SYNC, site_of(name, folder), st.st_ino, 0, name, NULL, 0, 0);
    unlock();
    return 0;
}
int fsync(int fd) { return sync_as(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_as(fd, SYS_fdatasync); }

/* ---- what is not described ---- */

static void refuse_on(int fd, const char *what) {
    struct stat st;
    char path[PATH_MAX];
    const char *name;
    if (tracked(fd, &st, path, &name)) unsupported(what);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset) {
    if (fd >= 0 && (flags & MAP_SHARED) && (prot & PROT_WRITE)) refuse_on(fd, "a shared writable mapping");
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}
void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t offset) { return mmap(at, len, prot, flags, fd, offset); }
int syncfs(int fd) { refuse_on(fd, "syncfs"); return (int)syscall(SYS_syncfs, fd); }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t len, unsigned flags) {
    refuse_on(out, "copy_file_range");
    return syscall(SYS_copy_file_range, in, from, out, to, len, flags);
}
ssize_t sendfile(int out, int in, off_t *from, size_t len) {
    refuse_on(out, "sendfile");
    return syscall(SYS_sendfile, out, in, from, len);
}
ssize_t sendfile64(int out, int in, off64_t *from, size_t len) { return sendfile(out, in, from, len); }
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char full[PATH_MAX];
    if (resolve(to_dir, to, full)) unsupported("a link");
    return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int truncate(const char *path, off_t len) {
    char full[PATH_MAX];
    if (resolve(AT_FDCWD, path, full)) unsupported("truncate by name");
    return (int)syscall(SYS_truncate, path, len);
}
int truncate64(const char *path, off64_t len) { return truncate(path, len); }
