/* Moves the wall clock of one process, and nothing else.
 *
 * Loaded into a node with LD_PRELOAD. CHAOS_CLOCK names a file of 32 bytes that is mapped at start. It has four signed 64-bit
 * numbers {sequence, offset_ns, drift_ppb, since_ns}. CLOCK_REALTIME is moved by offset_ns + (monotonic - since_ns) * drift_ppb / 1e9, from
 * the next call after each write to the file. The writer makes `sequence` odd while it writes, so that no half of a change is used.
 *
 * The monotonic clocks pass through untouched. libfaketime, which keeps a monotonic clock of its own, breaks time.sleep of Python 3.11.
 * Python takes its wall clock from clock_gettime(CLOCK_REALTIME), also for datetime. C code may call gettimeofday and time, so they
 * move too. All three reach the vDSO only from inside the C library, so a library in front of it is enough.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

struct control {
    volatile int64_t sequence, offset_ns, drift_ppb, since_ns;
};

static const struct control *control;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_control(void)
{
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static int real_time(clockid_t clock, struct timespec *at)
{
    if (real_clock_gettime == NULL) /* another library's constructor asks before ours ran */
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real_clock_gettime(clock, at);
}

static int64_t shift_ns(void)
{
    int64_t sequence, offset_ns, drift_ppb, since_ns;
    if (control == NULL)
        return 0;
    do {
        sequence = control->sequence;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        offset_ns = control->offset_ns;
        drift_ppb = control->drift_ppb;
        since_ns = control->since_ns;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((sequence & 1) || sequence != control->sequence);
    if (drift_ppb != 0) {
        struct timespec now;
        real_time(CLOCK_MONOTONIC, &now);
        __int128 passed_ns = (__int128)now.tv_sec * SECOND_NS + now.tv_nsec - since_ns;
        offset_ns += (int64_t)(passed_ns * drift_ppb / SECOND_NS);
    }
    return offset_ns;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = real_time(clock, at);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t ns = (int64_t)at->tv_sec * SECOND_NS + at->tv_nsec + shift_ns();
    at->tv_sec = ns / SECOND_NS;
    at->tv_nsec = ns % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone; /* obsolete, and never filled */
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
