/* Preloaded into a writer: writes down every change that it makes to files below $POWER_FOLDER, so that a test can cut the power at
   any of them. One record: op (1 byte), length of the path, offset, length of the data (8 bytes each), path, data.
   op: w write, t truncate (offset: new size), s sync, u unlink. What is mapped (SQLite's -shm) is not written down: it is made anew. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int record_file = -1;

static const char *below(const char *path)
{
    const char *folder = getenv("POWER_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0 ? path : NULL;
}

static const char *path_of(int file, char *place)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, place, PATH_MAX - 1);
    if (length < 0)
        return NULL;
    place[length] = 0;
    return below(place);
}

static void record(char op, const char *path, uint64_t offset, const void *data, uint64_t length)
{
    if (!path)
        return;
    if (record_file < 0)
        record_file = REAL(open)(getenv("POWER_LOG"), O_CREAT | O_APPEND | O_WRONLY, 0600);
    uint64_t head[3] = {strlen(path), offset, length};
    struct iovec parts[4] = {{&op, 1}, {head, sizeof head}, {(void *)path, head[0]}, {(void *)data, length}};
    if (writev(record_file, parts, data ? 4 : 3) < 0)
        abort();
}

#define PWRITE(name, type)                                              \
    ssize_t name(int file, const void *data, size_t length, type offset) \
    {                                                                   \
        char place[PATH_MAX];                                           \
        ssize_t done = REAL(name)(file, data, length, offset);          \
        if (done > 0)                                                   \
            record('w', path_of(file, place), offset, data, done);      \
        return done;                                                    \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int file, const void *data, size_t length)
{
    char place[PATH_MAX];
    off_t offset = lseek(file, 0, SEEK_CUR);
    ssize_t done = REAL(write)(file, data, length);
    if (done > 0 && offset >= 0)
        record('w', path_of(file, place), offset, data, done);
    return done;
}

#define TRUNCATE(name, type)                                            \
    int name(int file, type size)                                       \
    {                                                                   \
        char place[PATH_MAX];                                           \
        int failed = REAL(name)(file, size);                            \
        if (!failed)                                                    \
            record('t', path_of(file, place), size, NULL, 0);           \
        return failed;                                                  \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                      \
    int name(int file)                                                  \
    {                                                                   \
        char place[PATH_MAX];                                           \
        int failed = REAL(name)(file);                                  \
        if (!failed)                                                    \
            record('s', path_of(file, place), 0, NULL, 0);              \
        return failed;                                                  \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path)
{
    int failed = REAL(unlink)(path);
    if (!failed)
        record('u', below(path), 0, NULL, 0);
    return failed;
}
