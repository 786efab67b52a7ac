#include "server/jobs/kept.h"

#include <stdio.h>
#include <sys/stat.h>

#include "server/app.h"

void kept_read(void *app, const char *job, char ret[JOBS_CHECKPOINT_SIZE])
{
    char path[APP_PATH_MAX];
    struct stat found;
    app_checkpoint_path(app, job, path);
    ret[0] = '\0';
    if (stat(path, &found) == 0) {
        snprintf(ret, JOBS_CHECKPOINT_SIZE, "%llu %lld.%09ld", (unsigned long long)found.st_ino,
                 (long long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
    }
}
