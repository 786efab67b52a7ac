#include "server/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/offload.h"
#include "store/datasets.h"
#include "store/jobs.h"

/* The ids that the store knows, ascending as it tells them. */
struct known {
    char (*ids)[ID_SIZE];
    size_t count, room;
    bool failed;
};

static void add_known(void *context, const char *id)
{
    struct known *k = context;
    if (k->count == k->room) {
        const size_t room = k->room > 0 ? 2 * k->room : 64;
        void *ids = mem_regrow(k->ids, room, sizeof(*k->ids));
        if (ids == NULL) {
            k->failed = true;
            return;
        }
        k->ids = ids;
        k->room = room;
    }
    snprintf(k->ids[k->count++], ID_SIZE, "%s", id);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Whether the file is "<known id><suffix>". */
static bool belongs(const struct known *k, const char *file, const char *suffix)
{
    char id[ID_SIZE];
    const char *dot = strchr(file, '.');
    const size_t len = dot != NULL ? (size_t)(dot - file) : 0;
    if (dot == NULL || strcmp(dot, suffix) != 0 || len >= sizeof(id)) {
        return false;
    }
    memcpy(id, file, len);
    id[len] = '\0';
    return k->count > 0 && bsearch(id, k->ids, k->count, sizeof(*k->ids), compare_ids) != NULL;
}

struct folder {
    const char *name, *suffix, *event; /* of the log */
};

static const struct folder datasets = {"datasets", ".krds", "dataset.orphan_removed"};
static const struct folder checkpoints = {"checkpoints", ".krdc", "checkpoint.orphan_removed"};

/* NULL, with errno, where it cannot be read. */
static DIR *open_folder(const struct app *app, const struct folder *f)
{
    char path[APP_PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", app->config.data_dir, f->name);
    return opendir(path);
}

static int sweep_orphans(struct app *app, const struct folder *f, const struct known *k,
                         struct err *err)
{
    DIR *dir = open_folder(app, f);
    if (dir == NULL) {
        return err_errno(err, "list the files of the data directory");
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.' && !belongs(k, entry->d_name, f->suffix)) {
            log_msg(&app->log, LOG_WARNING, f->event, "file", entry->d_name, NULL);
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
    return 0;
}

/* The files of a folder that belong to none of the ids that `each` tells. */
static int sweep_folder(struct app *app, const struct folder *f,
                        int (*each)(struct store *s, void (*visit)(void *context, const char *id),
                                    void *context, struct err *err),
                        struct err *err)
{
    struct known known = {.ids = NULL};
    int rc = each(app->store, add_known, &known, err);
    if (rc == 0 && known.failed) {
        rc = err_no_memory(err);
    }
    rc = rc == 0 ? sweep_orphans(app, f, &known, err) : rc;
    mem_free(known.ids);
    return rc;
}

/* How many files a sweep would look at. */
static int count_files(const struct app *app, const struct folder *f, int64_t *ret, struct err *err)
{
    DIR *dir = open_folder(app, f);
    if (dir == NULL) {
        return err_errno(err, "list the files of the data directory");
    }
    *ret = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        *ret += entry->d_name[0] != '.' && entry->d_type != DT_DIR;
    }
    closedir(dir);
    return 0;
}

/* An empty file is what a copy leaves that was cut off; SQLite takes it for a new database. */
static bool database_missing(const struct app *app)
{
    char path[APP_PATH_MAX];
    struct stat st;
    app_database_path(app, path);
    return stat(path, &st) != 0 ? errno == ENOENT : st.st_size == 0;
}

int sweep_check(const struct app *app, struct err *err)
{
    int64_t sets = 0, kept = 0;
    if (!database_missing(app)) {
        return 0;
    }
    int rc = count_files(app, &datasets, &sets, err);
    rc = rc == 0 ? count_files(app, &checkpoints, &kept, err) : rc;
    if (rc < 0 || sets + kept == 0) {
        return rc;
    }
    return err_set(err, ERR_CONFLICT,
                   "The data directory (--data-dir) has files in datasets/ (%lld) and checkpoints/ "
                   "(%lld), but its krrd.db is missing or empty; with a new one they would be "
                   "removed. Put the database back, or move the files away to begin anew.",
                   (long long)sets, (long long)kept);
}

int sweep_data_dir(struct app *app, struct err *err)
{
    char path[APP_PATH_MAX];
    snprintf(path, sizeof(path), "%s/tmp", app->config.data_dir);
    const int rc = file_sweep(path, "", err);
    return rc < 0 ? rc : sweep_folder(app, &datasets, datasets_each, err);
}

int sweep_checkpoints(struct app *app, struct err *err)
{
    return sweep_folder(app, &checkpoints, jobs_each_unfinished, err);
}

void sweep_checkpoint(struct app *app, const char *job)
{
    char path[APP_PATH_MAX];
    app_checkpoint_path(app, job, path);
    if (access(path, F_OK) == 0) {
        offload_discard(app, -1, path);
    }
}

void sweep_checkpoint_part(struct app *app, const char *job, int pid)
{
    char path[APP_PATH_MAX], part[APP_PATH_MAX + 16];
    app_checkpoint_path(app, job, path);
    snprintf(part, sizeof(part), "%s.%d", path, pid);
    unlink(part);
}
