/* A disk that is slow, fails once, or reports no space, for one process. Also the boot id of a machine that was started anew.
 *
 * Loaded into a node with LD_PRELOAD. CHAOS_DISK names a file of 40 bytes that is mapped at start. It holds five signed 64-bit numbers
 * {delay_ns, free_bytes, write_errno, sync_errno, failed}. So a node's disk is set, changed and mended while the node runs.
 *
 * delay_ns: every sync takes this long. The delay comes before the real call, so bytes written meanwhile are synced too. A device
 * that is slow to take commands does the same.
 * write_errno, sync_errno: the next positional write or sync does nothing and fails with that number. The number is then taken back: exactly
 * one call fails, and `failed` counts it.
 * free_bytes: the free bytes that statvfs reports, -1 for the truth.
 *
 * CHAOS_BOOT names the file that is opened instead of BOOT_ID: a process whose power was cut finds another run of the kernel.
 *
 * Positional writes go to the data: storage/file/disk.py and LMDB both use pwrite. A node's log goes out with write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t delay_ns, free_bytes, write_errno, sync_errno, failed;
};

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static struct control *control;
static const char *boot;

__attribute__((constructor)) static void map_control(void)
{
    boot = getenv("CHAOS_BOOT");
    const char *path = getenv("CHAOS_DISK");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

/* True if this call is the one that fails. It then sets errno. */
static int fails(int64_t *number)
{
    int64_t chosen = control == NULL ? 0 : __atomic_exchange_n(number, 0, __ATOMIC_ACQ_REL);
    if (chosen == 0)
        return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_ACQ_REL);
    errno = (int)chosen;
    return 1;
}

static int sync_fails(void)
{
    if (control == NULL)
        return 0;
    int64_t delay = __atomic_load_n(&control->delay_ns, __ATOMIC_ACQUIRE);
    struct timespec left = {delay / 1000000000LL, delay % 1000000000LL};
    while (delay > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return fails(&control->sync_errno);
}

static int write_fails(void)
{
    return control != NULL && fails(&control->write_errno);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int fdatasync(int fd)
{
    REAL(fdatasync);
    return sync_fails() ? -1 : real(fd);
}

int fsync(int fd)
{
    REAL(fsync);
    return sync_fails() ? -1 : real(fd);
}

int syncfs(int fd)
{
    REAL(syncfs);
    return sync_fails() ? -1 : real(fd);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    REAL(pwrite);
    return write_fails() ? -1 : real(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    REAL(pwrite64);
    return write_fails() ? -1 : real(fd, data, size, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    REAL(pwritev);
    return write_fails() ? -1 : real(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    REAL(pwritev64);
    return write_fails() ? -1 : real(fd, parts, count, offset);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    REAL(pwritev2);
    return write_fails() ? -1 : real(fd, parts, count, offset, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    REAL(pwritev64v2);
    return write_fails() ? -1 : real(fd, parts, count, offset, flags);
}

static int64_t said_free(void)
{
    return control == NULL ? -1 : __atomic_load_n(&control->free_bytes, __ATOMIC_ACQUIRE);
}

int statvfs(const char *path, struct statvfs *found)
{
    REAL(statvfs);
    int result = real(path, found);
    if (result == 0 && said_free() >= 0)
        found->f_bavail = found->f_bfree = (fsblkcnt_t)(said_free() / (int64_t)found->f_frsize);
    return result;
}

int statvfs64(const char *path, struct statvfs64 *found)
{
    REAL(statvfs64);
    int result = real(path, found);
    if (result == 0 && said_free() >= 0)
        found->f_bavail = found->f_bfree = (fsblkcnt64_t)(said_free() / (int64_t)found->f_frsize);
    return result;
}

static const char *path_of(const char *path)
{
    return boot != NULL && path != NULL && strcmp(path, BOOT_ID) == 0 ? boot : path;
}

/* A mode is read only if the caller passes one. */
#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        int makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; \
        mode_t mode = makes ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return real(path_of(path), flags, mode); \
    }

OPEN(open)
OPEN(open64)
