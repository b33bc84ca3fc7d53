/* Preloaded into a process: counts the calls that write below a folder, and lets one of them fail, or all from one on.

   Nothing is counted until `arm` is called; a path is below the folder if its folder is, links resolved. Python, SQLite,
   Arrow and torch call these functions of the C library alike, so none of them can tell this from a disk that fails.
   Memory that is shared with a file (SQLite's index of its log) counts once, when it is mapped to be written. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static char failed[PATH_MAX + 64];
static size_t root_length;
static long first_failing, calls;
static int error_number, is_lasting, is_armed;
static int trace = -1;

/* From now on the call with number `at` (from 0 on; none if negative) that writes below `folder` fails with `error`, and
   if `lasting` all that follow. `log`: a file to which the counted calls are written, or NULL. */
void arm(const char *folder, long at, int error, int lasting, const char *log) {
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    first_failing = at;
    error_number = error;
    is_lasting = lasting;
    calls = 0;
    failed[0] = 0;
    trace = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    is_armed = 1;
}

/* So many calls were counted; none fails any more. */
long disarm(void) {
    is_armed = 0;
    return calls;
}

/* The first call that failed and its path, or "". */
const char *what_failed(void) { return failed; }

static int is_below(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == 0 || path[root_length] == '/');
}

static int fails(const char *call, const char *path) {
    long number = __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    int now = first_failing >= 0 && (number == first_failing || (is_lasting && number > first_failing));
    if (trace >= 0) dprintf(trace, "%ld %s %s\n", number, call, path + root_length);
    if (now && !failed[0]) snprintf(failed, sizeof failed, "%s %s", call, path + root_length);
    if (now) errno = error_number;
    return now;
}

static int fd_fails(const char *call, int fd) {
    char link[64], path[PATH_MAX];
    if (!is_armed) return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return fd != trace && is_below(path) && fails(call, path);
}

static int path_fails(const char *call, int folder, const char *name) {
    char joined[2 * PATH_MAX], link[64], base[PATH_MAX], resolved[PATH_MAX];
    if (!is_armed || !name) return 0;
    int before = errno;
    if (name[0] == '/') {
        snprintf(joined, sizeof joined, "%s", name);
    } else {
        ssize_t length = -1;
        if (folder == AT_FDCWD) {
            length = getcwd(base, sizeof base) ? (ssize_t)strlen(base) : -1;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            length = readlink(link, base, sizeof base - 1);
        }
        errno = before;
        if (length < 0) return 0;
        base[length] = 0;
        snprintf(joined, sizeof joined, "%s/%s", base, name);
    }
    char *last = strrchr(joined, '/');
    const char *leaf = last + 1;
    *last = 0;
    int known = realpath(joined[0] ? joined : "/", resolved) != NULL;
    errno = before;
    if (!known) return 0;
    snprintf(base, sizeof base, "%.*s/%.255s", PATH_MAX - 300, resolved[1] ? resolved : "", leaf);
    return is_below(base) && fails(call, base);
}

/* A function of the C library that is called unless `condition` holds. */
#define WRAP(type, name, signature, arguments, condition, result) \
    type name signature { \
        static type(*real) signature; \
        if (!real) real = (type(*) signature)dlsym(RTLD_NEXT, #name); \
        if (condition) return result; \
        return real arguments; \
    }

#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))

/* The ways to open a file: with the permissions of a new one as a last argument, if there is one. */
#define OPEN(name, signature, named, arguments, folder, path) \
    int name signature { \
        static int(*real) named; \
        mode_t mode = 0; \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (!real) real = (int(*) named)dlsym(RTLD_NEXT, #name); \
        if (WRITES(flags) && path_fails(#name, folder, path)) return -1; \
        return real arguments; \
    }

OPEN(open, (const char *p, int flags, ...), (const char *, int, mode_t), (p, flags, mode), AT_FDCWD, p)
OPEN(open64, (const char *p, int flags, ...), (const char *, int, mode_t), (p, flags, mode), AT_FDCWD, p)
OPEN(openat, (int d, const char *p, int flags, ...), (int, const char *, int, mode_t), (d, p, flags, mode), d, p)
OPEN(openat64, (int d, const char *p, int flags, ...), (int, const char *, int, mode_t), (d, p, flags, mode), d, p)
WRAP(int, __open_2, (const char *p, int f), (p, f), WRITES(f) && path_fails("open", AT_FDCWD, p), -1)
WRAP(int, __open64_2, (const char *p, int f), (p, f), WRITES(f) && path_fails("open", AT_FDCWD, p), -1)
WRAP(int, creat, (const char *p, mode_t m), (p, m), path_fails("creat", AT_FDCWD, p), -1)
WRAP(int, creat64, (const char *p, mode_t m), (p, m), path_fails("creat", AT_FDCWD, p), -1)
WRAP(FILE *, fopen, (const char *p, const char *m), (p, m), m[strcspn(m, "wa+")] && path_fails("fopen", AT_FDCWD, p), NULL)
WRAP(FILE *, fopen64, (const char *p, const char *m), (p, m), m[strcspn(m, "wa+")] && path_fails("fopen", AT_FDCWD, p), NULL)

WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), fd_fails("write", fd), -1)
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd_fails("writev", fd), -1)
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), fd_fails("pwrite", fd), -1)
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), fd_fails("pwrite", fd), -1)
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o), fd_fails("pwritev", fd), -1)
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o), fd_fails("pwritev", fd), -1)
WRAP(ssize_t, sendfile, (int to, int from, off_t *o, size_t n), (to, from, o, n), fd_fails("sendfile", to), -1)
WRAP(ssize_t, sendfile64, (int to, int from, off64_t *o, size_t n), (to, from, o, n), fd_fails("sendfile", to), -1)
WRAP(ssize_t, copy_file_range, (int from, off64_t *a, int to, off64_t *b, size_t n, unsigned f), (from, a, to, b, n, f), fd_fails("copy_file_range", to), -1)

WRAP(int, fsync, (int fd), (fd), fd_fails("fsync", fd), -1)
WRAP(int, fdatasync, (int fd), (fd), fd_fails("fdatasync", fd), -1)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), fd_fails("ftruncate", fd), -1)
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n), fd_fails("ftruncate", fd), -1)
WRAP(int, truncate, (const char *p, off_t n), (p, n), path_fails("truncate", AT_FDCWD, p), -1)
WRAP(int, truncate64, (const char *p, off64_t n), (p, n), path_fails("truncate", AT_FDCWD, p), -1)
WRAP(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n), fd_fails("fallocate", fd), -1)
WRAP(int, fallocate64, (int fd, int m, off64_t o, off64_t n), (fd, m, o, n), fd_fails("fallocate", fd), -1)
WRAP(int, posix_fallocate, (int fd, off_t o, off_t n), (fd, o, n), fd_fails("posix_fallocate", fd), error_number)
WRAP(int, posix_fallocate64, (int fd, off64_t o, off64_t n), (fd, o, n), fd_fails("posix_fallocate", fd), error_number)
WRAP(void *, mmap, (void *a, size_t n, int prot, int flags, int fd, off_t o), (a, n, prot, flags, fd, o), (flags & MAP_SHARED) && (prot & PROT_WRITE) && fd >= 0 && fd_fails("mmap", fd), MAP_FAILED)
WRAP(void *, mmap64, (void *a, size_t n, int prot, int flags, int fd, off64_t o), (a, n, prot, flags, fd, o), (flags & MAP_SHARED) && (prot & PROT_WRITE) && fd >= 0 && fd_fails("mmap", fd), MAP_FAILED)

WRAP(int, rename, (const char *a, const char *b), (a, b), path_fails("rename", AT_FDCWD, b), -1)
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), path_fails("rename", e, b), -1)
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f), path_fails("rename", e, b), -1)
WRAP(int, link, (const char *a, const char *b), (a, b), path_fails("link", AT_FDCWD, b), -1)
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), path_fails("link", e, b), -1)
WRAP(int, symlink, (const char *a, const char *b), (a, b), path_fails("symlink", AT_FDCWD, b), -1)
WRAP(int, symlinkat, (const char *a, int e, const char *b), (a, e, b), path_fails("symlink", e, b), -1)
WRAP(int, mkdir, (const char *p, mode_t m), (p, m), path_fails("mkdir", AT_FDCWD, p), -1)
WRAP(int, mkdirat, (int d, const char *p, mode_t m), (d, p, m), path_fails("mkdir", d, p), -1)
WRAP(int, rmdir, (const char *p), (p), path_fails("rmdir", AT_FDCWD, p), -1)
WRAP(int, unlink, (const char *p), (p), path_fails("unlink", AT_FDCWD, p), -1)
WRAP(int, unlinkat, (int d, const char *p, int f), (d, p, f), path_fails("unlink", d, p), -1)
WRAP(int, remove, (const char *p), (p), path_fails("remove", AT_FDCWD, p), -1)
WRAP(int, chmod, (const char *p, mode_t m), (p, m), path_fails("chmod", AT_FDCWD, p), -1)
WRAP(int, fchmod, (int fd, mode_t m), (fd, m), fd_fails("fchmod", fd), -1)
WRAP(int, fchmodat, (int d, const char *p, mode_t m, int f), (d, p, m, f), path_fails("chmod", d, p), -1)
