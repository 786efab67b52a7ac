#include "server/dataset_upload.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

/* Temporaries beside the data sets' files: swept at start like any file that no row names. */
static const char temporary_prefix[] = "ingest-";

int upload_new(struct app *app, struct upload **ret, struct err *err)
{
    struct upload *u = mem_zalloc(sizeof(*u));
    if (u == NULL) {
        return err_no_memory(err);
    }
    u->app = app;
    app->uploads++;
    u->row.created_ms = clock_wall_ms();
    id_new(&app->ids, "ds", u->row.created_ms, u->row.id);
    app_temporary_path(app, u->row.id, u->tmp_path);
    app_dataset_path(app, u->row.id, u->path);
    u->options = (struct ingest_options){
        .max_unpacked_bytes = app->config.max_unpacked_bytes,
        .max_rows = app->config.max_rows,
        .max_columns = app->config.max_columns,
        .temporary_prefix = temporary_prefix,
    };
    u->fd = open(u->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    u->digest = u->fd >= 0 ? sha256_new() : NULL;
    if (u->digest == NULL) {
        const int rc = u->fd < 0 ? err_errno(err, "store the upload") : err_no_memory(err);
        upload_free(u);
        return rc;
    }
    *ret = u;
    return 0;
}

struct upload *upload_free(struct upload *u)
{
    if (u == NULL) {
        return NULL;
    }
    if (u->fd >= 0) {
        close(u->fd);
    }
    unlink(u->tmp_path);
    sha256_free(u->digest);
    for (int64_t i = 0; i < u->options.target_count; i++) {
        mem_free((void *)u->targets[i]);
    }
    dataset_row_deinit(&u->row);
    dataset_info_deinit(&u->info);
    u->app->uploads--;
    return mem_free(u);
}

int upload_write(struct upload *u, const void *data, size_t size, struct err *err)
{
    sha256_update(u->digest, data, size);
    return file_write_all(u->fd, data, size, err);
}

void upload_finish(struct upload *u)
{
    sha256_hex(u->digest, u->row.sha256);
    close(u->fd);
    u->fd = -1;
}

void upload_ingest(struct upload *u)
{
    u->options.targets = u->options.target_count > 0 ? u->targets : NULL;
    u->rc = ingest_file(u->tmp_path, u->path, &u->options, &u->info, &u->err);
    unlink(u->tmp_path); /* its room is free before the client hears of it */
}

void upload_discard(struct upload *u)
{
    if (u->rc == 0) {
        unlink(u->path);
    }
}

static int fill_row(struct upload *u, struct err *err)
{
    struct json *info cleanup_json = NULL;
    int rc = dataset_info_to_json(&u->info, &info, err);
    if (rc != 0) {
        return rc;
    }
    struct stat status;
    if (stat(u->path, &status) != 0) {
        return err_errno(err, "look at the data set");
    }
    u->row.info = json_print(info);
    u->row.rows = u->info.rows;
    u->row.columns = u->info.columns;
    u->row.bytes = status.st_size;
    return u->row.info != NULL ? 0 : err_no_memory(err);
}

int upload_publish(struct upload *u, struct err *err)
{
    int rc = fill_row(u, err);
    rc = rc == 0 ? datasets_insert(u->app->store, &u->row, err) : rc;
    if (rc != 0) {
        upload_discard(u);
    }
    return rc;
}
