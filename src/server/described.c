#include "server/described.h"

#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/datasets.h"

struct entry {
    char id[ID_SIZE];
    struct dataset_info info;
    size_t bytes; /* about */
    int64_t used; /* the turn of the last use */
};

struct described {
    struct store *store;
    int64_t uses;
    int count;
    size_t bytes;
    struct entry *entries[DESCRIBED_MOST];
};

static void forget(struct described *d, int at)
{
    struct entry *e = d->entries[at];
    d->bytes -= e->bytes;
    d->entries[at] = d->entries[--d->count];
    dataset_info_deinit(&e->info);
    mem_free(e);
}

static int oldest(const struct described *d)
{
    int found = 0;
    for (int i = 1; i < d->count; i++) {
        found = d->entries[i]->used < d->entries[found]->used ? i : found;
    }
    return found;
}

/* Room for another one. */
static void make_room(struct described *d)
{
    while (d->count == DESCRIBED_MOST ||
           (d->count >= DESCRIBED_LEAST && d->bytes > DESCRIBED_BYTES)) {
        forget(d, oldest(d));
    }
}

static int find(const struct described *d, const char *id)
{
    for (int i = 0; i < d->count; i++) {
        if (strcmp(d->entries[i]->id, id) == 0) {
            return i;
        }
    }
    return -1;
}

bool described_has(const struct described *d, const char *id)
{
    return find(d, id) >= 0;
}

/* A pointer and a piece of memory for each. */
static size_t size_of_texts(char *const *texts, int64_t count)
{
    size_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += sizeof(char *) + 32 + strlen(texts[i]);
    }
    return sum;
}

static size_t size_of(const struct dataset_info *info)
{
    return sizeof(struct entry) + (size_t)info->targets * sizeof(int64_t) +
           size_of_texts(info->column_names, info->columns) +
           size_of_texts(info->words.names, info->words.count) +
           2 * (size_t)info->words.count * sizeof(int64_t) +
           size_of_texts(info->class_labels, info->classes) +
           size_of_texts(info->warning_texts, info->warnings) +
           (info->missing.fill != NULL ? (size_t)info->columns * (sizeof(double) + sizeof(int64_t))
                                       : 0) +
           (info->missing.indicates != NULL ? (size_t)info->columns * sizeof(int64_t) : 0);
}

/* Takes info. NULL: memory lacks. */
static struct entry *add(struct described *d, const char *id, struct dataset_info *info)
{
    struct entry *e = mem_zalloc(sizeof(*e));
    if (e == NULL) {
        dataset_info_deinit(info);
        return NULL;
    }
    make_room(d);
    memcpy(e->id, id, strlen(id) + 1);
    e->info = *info;
    *info = (struct dataset_info){.rows = 0};
    e->bytes = size_of(&e->info);
    e->used = ++d->uses;
    d->bytes += e->bytes;
    d->entries[d->count++] = e;
    return e;
}

int described_read(const char *text, struct dataset_info *ret, struct err *err)
{
    struct json *j cleanup_json = NULL;
    int rc = json_parse(text, strlen(text), &j, err);
    rc = rc == 0 ? dataset_info_from_json(j, ret, err) : rc;
    return rc == 0 || rc == -ERR_NO_MEMORY
               ? rc
               : err_set(err, ERR_CORRUPT, "A data set's description is damaged.");
}

static int read_row(const struct described *d, const char *id, struct dataset_info *ret,
                    struct err *err)
{
    struct dataset_row row;
    int rc = datasets_get(d->store, id, &row, err);
    if (rc == 0) {
        rc = described_read(row.info, ret, err);
        dataset_row_deinit(&row);
    }
    return rc;
}

int described_find(struct described *d, const char *id, const struct dataset_info **ret,
                   struct err *err)
{
    const int at = find(d, id);
    if (at >= 0) {
        d->entries[at]->used = ++d->uses;
        *ret = &d->entries[at]->info;
        return 0;
    }
    struct dataset_info info;
    const int rc = read_row(d, id, &info, err);
    if (rc < 0) {
        return rc;
    }
    const struct entry *e = add(d, id, &info);
    *ret = e != NULL ? &e->info : NULL;
    return e != NULL ? 0 : err_no_memory(err);
}

void described_keep(struct described *d, const char *id, struct dataset_info *info)
{
    described_forget(d, id);
    add(d, id, info);
}

void described_forget(struct described *d, const char *id)
{
    const int at = find(d, id);
    if (at >= 0) {
        forget(d, at);
    }
}

int described_new(struct store *store, struct described **ret, struct err *err)
{
    struct described *d = mem_zalloc(sizeof(*d));
    if (d == NULL) {
        return err_no_memory(err);
    }
    d->store = store;
    *ret = d;
    return 0;
}

struct described *described_free(struct described *d)
{
    while (d != NULL && d->count > 0) {
        forget(d, 0);
    }
    return mem_free(d);
}
