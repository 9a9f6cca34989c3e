/* Preloaded: system calls on the files below $FAULTS_BELOW fail while $FAULTS_WHILE/<call> exists. That file has
   the number of the error; every third call fails, half of the writes after a part was written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static unsigned calls;

static int fails(const char *call, const char *path) {
    const char *below = getenv("FAULTS_BELOW"), *directory = getenv("FAULTS_WHILE");
    char name[PATH_MAX], text[16] = "";
    if (!below || !directory || strncmp(path, below, strlen(below)))
        return 0;
    snprintf(name, sizeof name, "%s/%s", directory, call);
    int file = open(name, O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0 || __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 3)
        return 0;
    return atoi(text);
}

static int fails_at(const char *call, int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t count = readlink(link, path, sizeof path - 1);
    if (count < 0)
        return 0;
    path[count] = 0;
    return fails(call, path);
}

#define ACTUAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *data, size_t count) {
    int error = fails_at("write", descriptor);
    if (error && calls % 2 && count > 1)
        return ACTUAL(write)(descriptor, data, count / 2);
    if (error) {
        errno = error;
        return -1;
    }
    return ACTUAL(write)(descriptor, data, count);
}

int fsync(int descriptor) {
    int error = fails_at("fsync", descriptor);
    if (error) {
        errno = error;
        return -1;
    }
    return ACTUAL(fsync)(descriptor);
}

int rename(const char *from, const char *to) {
    int error = fails("rename", from);
    if (error) {
        errno = error;
        return -1;
    }
    return ACTUAL(rename)(from, to);
}

int unlink(const char *path) {
    int error = fails("unlink", path);
    if (error) {
        errno = error;
        return -1;
    }
    return ACTUAL(unlink)(path);
}
