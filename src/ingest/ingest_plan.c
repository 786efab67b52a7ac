#include "ingest/ingest_plan.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ingest/ingest_text.h"
#include "wire/names.h"

static int too_large(const struct plan *p, double have, const char *what, int64_t limit,
                     const char *option, struct err *err)
{
    const bool spread = p->spread;
    return err_at(err, ERR_TOO_LARGE, spread ? "#/one_hot" : "#/missing",
                  "%s %.0f %s, more than the limit of %lld (%s).",
                  spread && p->indicators > 0 ? "One-hot encoding and missing=indicate make"
                  : spread                    ? "One-hot encoding makes"
                                              : "With missing=indicate the table has",
                  have, what, (long long)limit, option);
}

/* Text columns become many, and there are indicators. */
static int check_size(const struct plan *p, const struct ingest_table *t,
                      const struct dataset_info *info, struct err *err)
{
    if (info->columns <= t->columns) {
        return 0;
    }
    const int64_t limit = ingest_max_columns(t->options);
    const double bytes =
        (double)info->rows * (double)info->columns * (double)dtype_size(info->dtype);
    if (info->columns > limit) {
        return too_large(p, (double)info->columns, "columns", limit, "--max-columns", err);
    }
    return bytes > (double)t->options->max_unpacked_bytes
               ? too_large(p, bytes, "bytes", t->options->max_unpacked_bytes,
                           "--max-unpacked-bytes", err)
               : 0;
}

/* How a name stands to "prefix=", of which `length` bytes come before the sign: before it, 0 where
 * it begins so, or behind. */
static int prefix_order(const char *name, const char *prefix, size_t length)
{
    const int order = strncmp(name, prefix, length);
    return order != 0 ? order : (int)(unsigned char)name[length] - '=';
}

/* A name that begins as those that one-hot encoding makes of column `text`; NULL: none. */
static const char *find_made_of(const struct name_index *index, const char *text)
{
    const size_t length = strlen(text);
    int64_t low = 0, high = index->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const bool before = prefix_order(index->entries[middle].name, text, length) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    const char *name = low < index->count ? index->entries[low].name : NULL;
    return name != NULL && prefix_order(name, text, length) == 0 ? name : NULL;
}

/* The names of the columns that stay, sorted; borrowed of t. */
static int index_kept(const struct ingest_table *t, const struct plan *p, struct name_index *ret,
                      struct err *err)
{
    cleanup_mem char **kept = mem_array((size_t)t->columns, sizeof(*kept));
    if (kept == NULL) {
        return err_no_memory(err);
    }
    int64_t count = 0;
    for (int64_t j = 0; j < t->columns; j++) {
        if (p->column[j].width > 0) {
            kept[count++] = t->names[j];
        }
    }
    return name_index_init(ret, kept, count, err);
}

/* A prediction's column "a" would not be known from a feature "a=b" of another column. */
static int check_origins(const struct ingest_table *t, const struct plan *p, struct err *err)
{
    cleanup_name_index struct name_index index = {0};
    int r = index_kept(t, p, &index, err);
    for (int64_t j = 0; r == 0 && j < t->columns; j++) {
        const char *text = t->names[j];
        const char *made = ingest_plan_spreads(&p->column[j]) ? find_made_of(&index, text) : NULL;
        if (made != NULL) {
            char show[INGEST_SHOW_SIZE], other[INGEST_SHOW_SIZE];
            r = err_at(err, ERR_INVALID, "#/one_hot",
                       "The column %s is named as if one-hot encoding had made it of the "
                       "column %s.",
                       ingest_show(made, strlen(made), show),
                       ingest_show(text, strlen(text), other));
        }
    }
    return r;
}

/* A column of its own would be taken for the indicator of another one, also where it is of words.
 */
static int check_indicators(const struct ingest_table *t, const struct plan *p, struct err *err)
{
    cleanup_name_index struct name_index index = {0};
    int r = p->indicators > 0 ? index_kept(t, p, &index, err) : 0;
    for (int64_t k = 0; r == 0 && k < p->indicators; k++) {
        const char *of = t->names[p->indicated[k]];
        cleanup_buf struct buf name = BUF_INIT;
        buf_printf(&name, "%s" INGEST_INDICATOR, of);
        if (name.failed) {
            r = err_no_memory(err);
        } else if (name_index_find(&index, name.data) >= 0) {
            char show[INGEST_SHOW_SIZE], other[INGEST_SHOW_SIZE];
            r = err_at(err, ERR_INVALID, "#/missing",
                       "The column %s is named as the one that missing=indicate makes to tell "
                       "where %s has no value: rename it, or leave it out here (ignore, krr: "
                       "--ignore) and in questions, where it would be taken for that one.",
                       ingest_show(name.data, name.len, show), ingest_show(of, strlen(of), other));
        }
    }
    return r;
}

static int check_names(const struct dataset_info *info, struct err *err)
{
    int64_t first = 0;
    int64_t second = 0;
    int r = ingest_names_unique(info->column_names, info->columns, &first, &second, err);
    if (r <= 0) {
        return r;
    }
    char show[INGEST_SHOW_SIZE];
    const char *name = info->column_names[first];
    return err_at(err, ERR_INVALID, "#/one_hot",
                  "One-hot encoding makes two columns with the name %s.",
                  ingest_show(name, strlen(name), show));
}

int ingest_plan_check(const struct plan *p, const struct ingest_table *t,
                      const struct dataset_info *info, struct err *err)
{
    int r = check_size(p, t, info, err);
    r = r < 0 ? r : check_indicators(t, p, err);
    r = r < 0 ? r : check_names(info, err);
    return r < 0 ? r : check_origins(t, p, err);
}
