/* Notes what a store server has had synced to its disk, so that a power loss can be played afterwards (power.py).
 *
 * Loaded with LD_PRELOAD. It changes nothing that the server does: it passes fsync and fdatasync on, and after each that succeeded
 * writes into $ATF_POWER_STATE/journal what is certain to be on the disk now, of files below $ATF_POWER_DIR:
 *
 *     S <inode> <bytes>          so many first bytes of a file
 *     D <directory>              the names in a directory: the E lines that follow, written together with it
 *     E <inode> <name>
 *
 * It also keeps a second name, $ATF_POWER_STATE/inodes/<inode>, of every file that it writes about: such a file can be brought back
 * under a name that was removed or reused without a sync, and no other file gets its number.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 64 + NAME_MAX, LISTING = 64 * 1024 };

typedef int sync_function(int);

static void append(const char *text, size_t length) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/journal", getenv("ATF_POWER_STATE"));
    int journal = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* One write: O_APPEND keeps the lines of threads and of a child that rewrites the file apart. */
    if (journal < 0 || write(journal, text, length) != (ssize_t)length) abort();
    close(journal);
}

static void keep(const char *path, int flags, unsigned long inode) {
    char kept[PATH_MAX];
    snprintf(kept, sizeof kept, "%s/inodes/%lu", getenv("ATF_POWER_STATE"), inode);
    linkat(AT_FDCWD, path, AT_FDCWD, kept, flags); /* it may have one, or be gone from everywhere: then it is not needed */
}

/* The names of a directory, as lines; the length, 0 if they can't be had. */
static size_t list(const char *directory, char *text) {
    DIR *stream = opendir(directory);
    if (stream == NULL) return 0;
    size_t length = snprintf(text, LISTING, "D %s\n", directory);
    struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        char path[PATH_MAX + NAME_MAX + 2];
        struct stat is;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (lstat(path, &is) != 0 || !S_ISREG(is.st_mode)) continue;
        keep(path, 0, is.st_ino);
        length += snprintf(text + length, LINE, "E %lu %s\n", (unsigned long)is.st_ino, entry->d_name);
        if (length > LISTING - LINE) abort();
    }
    closedir(stream);
    return length;
}

static int sync_and_note(const char *name, int fd) {
    sync_function *real = (sync_function *)dlsym(RTLD_NEXT, name);
    const char *below = getenv("ATF_POWER_DIR");
    char link[64], path[PATH_MAX], text[LISTING];
    struct stat is;
    size_t length = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, path, sizeof path - 1);
    path[got > 0 ? got : 0] = '\0';
    /* Looked at before the call: what comes during it may miss it. */
    if (below != NULL && strncmp(path, below, strlen(below)) == 0 && fstat(fd, &is) == 0 && is.st_nlink > 0) {
        if (S_ISDIR(is.st_mode)) {
            length = list(path, text);
        } else {
            keep(link, AT_SYMLINK_FOLLOW, is.st_ino);
            length = snprintf(text, LINE, "S %lu %lld\n", (unsigned long)is.st_ino, (long long)is.st_size);
        }
    }
    int result = real(fd), error = errno;
    if (result == 0 && length > 0) append(text, length);
    errno = error;
    return result;
}

int fsync(int fd) { return sync_and_note("fsync", fd); }
int fdatasync(int fd) { return sync_and_note("fdatasync", fd); }
