/* Delays fdatasync by the milliseconds in a control file.
 *
 * Loaded into a node with LD_PRELOAD. HOURWHEEL_SLOW_DISK names a file that holds a decimal number; it is read before every call, so the delay
 * of one node can be set, changed and lifted while the node runs. No file, an empty one or 0: no delay. The delay comes before the real call:
 * what was written meanwhile is then synced too, as with a device that is slow to take commands.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long delay_ms(void)
{
    const char *path = getenv("HOURWHEEL_SLOW_DISK");
    char text[32] = {0};
    if (path == NULL)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    return size > 0 ? strtol(text, NULL, 10) : 0;
}

int fdatasync(int fd)
{
    static int (*real)(int);
    long delay = delay_ms();
    if (real == NULL)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (delay > 0) {
        struct timespec left = {delay / 1000, (delay % 1000) * 1000000L};
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            ;
    }
    return real(fd);
}
