#include "server/sweep.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/app.h"
#include "store/datasets.h"

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

/* Whether a file of the data sets' directory belongs to a known one. */
static bool belongs(const struct known *k, const char *file)
{
    char id[ID_SIZE];
    const char *dot = strrchr(file, '.');
    const size_t len = dot != NULL ? (size_t)(dot - file) : 0;
    if (dot == NULL || strcmp(dot, ".krds") != 0 || len >= sizeof(id)) {
        return false;
    }
    memcpy(id, file, len);
    id[len] = '\0';
    return k->count > 0 && bsearch(id, k->ids, k->count, sizeof(*k->ids), compare_ids) != NULL;
}

static int sweep_orphans(struct app *app, const struct known *k, struct err *err)
{
    char path[APP_PATH_MAX];
    snprintf(path, sizeof(path), "%s/datasets", app->config.data_dir);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return err_errno(err, "list the data sets");
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.' && !belongs(k, entry->d_name)) {
            log_msg(&app->log, LOG_WARNING, "dataset.orphan_removed", "file", entry->d_name, NULL);
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
    return 0;
}

int sweep_data_dir(struct app *app, struct err *err)
{
    char path[APP_PATH_MAX];
    snprintf(path, sizeof(path), "%s/tmp", app->config.data_dir);
    int rc = file_sweep(path, "", err);
    struct known known = {.ids = NULL};
    rc = rc >= 0 ? datasets_each(app->store, add_known, &known, err) : rc;
    if (rc == 0 && known.failed) {
        rc = err_no_memory(err);
    }
    rc = rc == 0 ? sweep_orphans(app, &known, err) : rc;
    mem_free(known.ids);
    return rc;
}
