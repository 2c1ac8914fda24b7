/*
 * Preloaded into the server under test: while the file APPEND_FULL_SWITCH is there, whatever would make a file grow whose path holds the
 * text in it fails with ENOSPC, as on a full disk: of the first write behind the switch a half still goes in. Linux, 64 bit, glibc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int half_written;

/* The text in the switch's file, or nothing. */
static int switched(char text[256])
{
    const char *name = getenv("APPEND_FULL_SWITCH");
    ssize_t n;
    int fd;

    if (!name) return 0;
    fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        half_written = 0;
        return 0;
    }
    n = syscall(SYS_read, fd, text, 255);
    syscall(SYS_close, fd);
    if (n <= 0) return 0;
    text[n] = 0;
    return 1;
}

static int path_is_full(const char *path)
{
    char text[256];
    return path && switched(text) && strstr(path, text) != NULL;
}

static int is_full(int fd)
{
    char text[256], link[64], path[PATH_MAX];
    ssize_t n;
    int error = errno, full = 0;

    if (switched(text)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof path - 1);
        if (n > 0) {
            path[n] = 0;
            full = strstr(path, text) != NULL;
        }
    }
    errno = error;
    return full;
}

/* How much of a write of `len` bytes still goes in: all, a half, or nothing. */
static size_t room(int fd, size_t len)
{
    size_t left = len;

    pthread_mutex_lock(&turn);
    if (len > 0 && is_full(fd)) {
        left = half_written ? 0 : len / 2;
        half_written = 1;
    }
    pthread_mutex_unlock(&turn);
    return left;
}

static ssize_t full(void)
{
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    size_t left = room(fd, len);
    return left == 0 && len > 0 ? full() : syscall(SYS_write, fd, bytes, left);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    size_t left = room(fd, len);
    return left == 0 && len > 0 ? full() : syscall(SYS_pwrite64, fd, bytes, left, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    return pwrite64(fd, bytes, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return is_full(fd) ? full() : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    return is_full(fd) ? full() : syscall(SYS_pwritev, fd, parts, count, at, 0);
}

int fallocate64(int fd, int mode, off64_t at, off64_t len)
{
    return is_full(fd) ? (int)full() : (int)syscall(SYS_fallocate, fd, mode, at, len);
}

/* A name needs room in its folder. */
static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    struct stat found;
    if ((flags & O_CREAT) && path_is_full(path) && fstatat(dir, path, &found, 0) != 0) return (int)full();
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static mode_t mode_of(int flags, va_list more)
{
    return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
}

int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_at(AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_at(dir, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return path_is_full(path) ? (int)full() : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
