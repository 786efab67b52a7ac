#include "ingest/ingest_temp.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "ingest/ingest.h"

int ingest_temp_open(struct ingest_temp *t, const char *beside,
                     const struct ingest_options *options, struct err *err)
{
    *t = (struct ingest_temp){.fd = -1, .options = options};
    const char *prefix = options->temporary_prefix;
    const char *slash = strrchr(beside, '/');
    cleanup_buf struct buf path = BUF_INIT;
    buf_add(&path, beside, slash == NULL ? 0 : (size_t)(slash - beside) + 1);
    buf_str(&path, prefix == NULL ? INGEST_DEFAULT_PREFIX : prefix);
    buf_str(&path, "XXXXXX");
    t->path = buf_take(&path);
    if (t->path == NULL) {
        return err_no_memory(err);
    }
    t->fd = mkostemp(t->path, O_CLOEXEC);
    if (t->fd < 0) {
        int r = err_errno(err, "create a temporary file");
        t->path = mem_free(t->path);
        return r;
    }
    return 0;
}

int ingest_wanted(const struct ingest_options *options, struct err *err)
{
    const atomic_bool *abandoned = options->abandoned;
    return abandoned == NULL || !atomic_load_explicit(abandoned, memory_order_relaxed)
               ? 0
               : err_set(err, ERR_CANCELLED, "Nobody waits for the data set any more.");
}

int ingest_room(const struct ingest_temp *t, int64_t bytes, struct err *err)
{
    const struct ingest_options *options = t->options;
    const int r = ingest_wanted(options, err);
    return r < 0 || options->room == NULL ? r
                                          : options->room(options->room_context, t->fd, bytes, err);
}

int ingest_temp_write(const struct ingest_temp *t, const void *data, size_t size, struct err *err)
{
    const int r = ingest_room(t, (int64_t)size, err);
    return r < 0 ? r : file_write_all(t->fd, data, size, err);
}

void ingest_temp_close(struct ingest_temp *t)
{
    if (t->fd >= 0) {
        close(t->fd);
    }
    if (t->path != NULL) {
        unlink(t->path);
        mem_free(t->path);
    }
    *t = (struct ingest_temp)INGEST_TEMP_INIT;
}

int ingest_temp_publish(struct ingest_temp *t, const char *path, struct err *err)
{
    int r = file_publish(t->fd, t->path, path, err);
    if (r < 0 && access(t->path, F_OK) != 0) {
        unlink(path); // Renamed, but the directory could not be made durable.
    }
    ingest_temp_close(t);
    return r;
}
