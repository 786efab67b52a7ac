#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ingest/ingest_array.h"
#include "ingest/ingest_formats.h"
#include "ingest/ingest_text.h"
#include "ingest/ingest_zip.h"
#include "wire/missing.h"
#include "wire/names.h"

/* Doubles converted at once. */
#define BLOCK_DOUBLES ((int64_t)1 << 17)

/* Member names listed in a sentence. */
#define NAMES_LISTED 8
#define LIST_WIDTH ((size_t)300) /* bytes of the list where more is to be said */

enum { MEMBER_X, MEMBER_Y, MEMBER_COUNT };

static const struct {
    const char *name, *file_name, *who, *pointer;
} members[MEMBER_COUNT] = {
    [MEMBER_X] = {"X", "X.npy", "member X", "#/X"},
    [MEMBER_Y] = {"y", "y.npy", "member y", "#/y"},
};

struct npz_reader {
    struct ingest_table *t;
    struct ingest_zip *zip;
    int64_t place[MEMBER_COUNT]; /* in the archive, -1: absent */
    struct ingest_temp file[MEMBER_COUNT];
    struct ingest_array array[MEMBER_COUNT];
    struct deflate_limit limit; /* bytes that may come out of the archive */
};

static void reader_deinit(struct npz_reader *r)
{
    for (int m = 0; m < MEMBER_COUNT; m++) {
        ingest_array_close(&r->array[m]);
        ingest_temp_close(&r->file[m]);
    }
    r->zip = ingest_zip_free(r->zip);
}

#define cleanup_reader __attribute__((cleanup(reader_deinit)))

/* MEMBER_COUNT for a name that is neither. */
static int member_by_name(const char *name)
{
    for (int m = 0; m < MEMBER_COUNT; m++) {
        if (strcmp(name, members[m].file_name) == 0 || strcmp(name, members[m].name) == 0) {
            return m;
        }
    }
    return MEMBER_COUNT;
}

/* "\"a.npy\", \"b.npy\", …": all members, or those that are not read. */
static void list_members(const struct npz_reader *r, bool only_others, struct buf *ret)
{
    int listed = 0;
    for (int64_t i = 0; i < ingest_zip_count(r->zip); i++) {
        const char *name = ingest_zip_name(r->zip, i);
        if (only_others && member_by_name(name) != MEMBER_COUNT) {
            continue;
        }
        if (listed == NAMES_LISTED) {
            buf_str(ret, ", …");
            return;
        }
        char show[INGEST_SHOW_SIZE];
        buf_printf(ret, "%s%s", listed == 0 ? "" : ", ", ingest_show(name, strlen(name), show));
        listed++;
    }
}

static int missing_member(const struct npz_reader *r, int m, struct err *err)
{
    cleanup_buf struct buf list = BUF_INIT;
    list_members(r, false, &list);
    if (list.failed) {
        return err_no_memory(err);
    }
    const char *found = list.len == 0 ? "nothing" : list.data;
    return err_at(err, ERR_INVALID, members[m].pointer,
                  "The archive has no member %s; it holds %.*s.", members[m].name,
                  (int)utf8_fit(found, strlen(found), LIST_WIDTH), found);
}

static int find_members(struct npz_reader *r, struct err *err)
{
    bool others = false;
    for (int64_t i = 0; i < ingest_zip_count(r->zip); i++) {
        int m = member_by_name(ingest_zip_name(r->zip, i));
        if (m == MEMBER_COUNT) {
            others = true;
        } else if (r->place[m] >= 0) {
            return err_at(err, ERR_INVALID, members[m].pointer,
                          "The archive has the member %s twice.", members[m].name);
        } else {
            r->place[m] = i;
        }
    }
    for (int m = 0; m < MEMBER_COUNT; m++) {
        if (r->place[m] < 0) {
            return missing_member(r, m, err);
        }
    }
    if (!others) {
        return 0;
    }
    cleanup_buf struct buf list = BUF_INIT;
    list_members(r, true, &list);
    return list.failed ? err_no_memory(err)
                       : ingest_table_warn(
                             r->t, err, "Members other than X and y were ignored: %s.", list.data);
}

static int open_member(struct npz_reader *r, int m, int64_t *left, struct err *err)
{
    struct ingest_temp *file = &r->file[m];
    int status = ingest_temp_open(file, r->t->output_path, r->t->options, err);
    if (status == 0) {
        status = ingest_zip_unpack(r->zip, r->place[m], file, r->limit, left, err);
    }
    if (status == 0) {
        status = m == MEMBER_Y
                     ? ingest_array_open_any(&r->array[m], file->path, members[m].who, err)
                     : ingest_array_open(&r->array[m], file->path, members[m].who, err);
    }
    r->array[m].missing = r->t->options->missing != INGEST_MISSING_REFUSE;
    r->array[m].advice = INGEST_NAN_ADVICE;
    if (status < 0) {
        err_prefix(err, members[m].pointer);
    }
    return status;
}

static int check_shapes(const struct npz_reader *r, struct err *err)
{
    const struct ingest_array *x = &r->array[MEMBER_X];
    const struct ingest_array *y = &r->array[MEMBER_Y];
    if (x->dims != 2 || x->columns == 0) {
        return err_at(err, ERR_INVALID, "#/X/header/shape",
                      "Member X is no table: it needs two dimensions, rows and columns.");
    }
    if (y->columns == 0) {
        return err_at(err, ERR_INVALID, "#/y/header/shape", "Member y has no columns.");
    }
    if (x->rows != y->rows) {
        return err_at(err, ERR_INVALID, "#/y/header/shape",
                      "Member X has %lld rows, but member y has %lld.", (long long)x->rows,
                      (long long)y->rows);
    }
    int64_t limit = ingest_max_columns(r->t->options);
    if (x->columns > limit || y->columns > limit - x->columns) {
        return err_at(
            err, ERR_TOO_LARGE, "#/X/header/shape",
            "X and y have %lld and %lld columns, more than the limit of %lld (--max-columns).",
            (long long)x->columns, (long long)y->columns, (long long)limit);
    }
    return 0;
}

static int begin(const struct npz_reader *r, struct err *err)
{
    const struct ingest_array *x = &r->array[MEMBER_X];
    const struct ingest_array *y = &r->array[MEMBER_Y];
    int64_t columns = x->columns + y->columns;
    char **names = mem_zarray((size_t)columns, sizeof(*names));
    if (names == NULL) {
        return err_no_memory(err);
    }
    int status = ingest_names_number(names, "x", 0, x->columns, err);
    if (status == 0 && y->columns > 1) {
        status = ingest_names_number(names + x->columns, "y", 0, y->columns, err);
    } else if (status == 0 && (names[x->columns] = mem_strdup("y")) == NULL) {
        status = err_no_memory(err);
    }
    if (status < 0) {
        names_free(names, columns);
        return status;
    }
    bool narrow = ingest_array_dtype(x) == DTYPE_F32 && ingest_array_dtype(y) == DTYPE_F32;
    status =
        ingest_table_begin(r->t, names, columns, y->columns, narrow ? DTYPE_F32 : DTYPE_F64, err);
    return status < 0 ? status : ingest_table_expect(r->t, x->rows, err);
}

static bool has_texts(const struct npz_reader *r)
{
    return r->array[MEMBER_Y].element == NULL;
}

/* Texts are classes, and nothing else. */
static int begin_texts(const struct npz_reader *r, struct err *err)
{
    struct ingest_table *t = r->t;
    const int64_t column = r->array[MEMBER_X].columns;
    if (r->array[MEMBER_Y].columns != 1 ||
        (!t->is_ignored[column] && (!t->is_target[column] || t->targets > 1)) ||
        (!t->is_ignored[column] && t->options->task == TASK_REGRESSION)) {
        return err_at(err, ERR_INVALID, "#/y/header/descr",
                      "Member y holds texts; only the one target of a classification may be text.");
    }
    return t->is_ignored[column] ? 0 : ingest_table_make_text(t, column, err);
}

/* A label as a CSV has it: blanks around it do not count. */
static int add_label(const struct npz_reader *r, int64_t row, const struct buf *text, double *ret,
                     struct err *err)
{
    size_t len = text->len;
    const char *trimmed = ingest_trim(len > 0 ? text->data : "", &len);
    if (r->array[MEMBER_Y].missing && missing_mark(trimmed, len)) {
        *ret = NAN;
        return 0;
    }
    const char *fault = ingest_name_fault(trimmed, len);
    char show[INGEST_SHOW_SIZE];
    if (fault != NULL) {
        return ingest_array_error(&r->array[MEMBER_Y], row, 0, err, "the text %s %s",
                                  ingest_show(trimmed, len, show), fault);
    }
    int64_t number = 0;
    const int status = ingest_labels_add(r->t->labels[r->array[MEMBER_X].columns], trimmed, len,
                                         INGEST_MAX_CLASSES, &number, err);
    *ret = (double)number;
    return status <= 0 ? status
                       : err_at(err, ERR_TOO_LARGE, "", "Member y has more than %d distinct texts.",
                                INGEST_MAX_CLASSES);
}

/* Texts of y as the numbers of their labels. */
static int read_labels(const struct npz_reader *r, int64_t first, int64_t count, double *ret,
                       struct err *err)
{
    const int64_t columns = r->t->columns;
    const bool ignored = r->t->is_ignored[r->array[MEMBER_X].columns];
    cleanup_buf struct buf text = BUF_INIT;
    for (int64_t i = 0; i < count; i++) {
        ret[i * columns] = 0;
        int status = ignored ? 0 : ingest_array_text(&r->array[MEMBER_Y], first + i, &text, err);
        if (status == 0 && !ignored) {
            status = add_label(r, first + i, &text, ret + i * columns, err);
        }
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static int copy_rows(const struct npz_reader *r, struct err *err)
{
    int64_t rows = r->array[MEMBER_X].rows;
    int64_t columns = r->t->columns;
    int64_t block = BLOCK_DOUBLES / columns > 0 ? BLOCK_DOUBLES / columns : 1;
    block = block < rows ? block : rows;
    cleanup_mem double *data = mem_array((size_t)(block * columns), sizeof(*data));
    if (data == NULL) {
        return err_no_memory(err);
    }
    for (int64_t first = 0; first < rows; first += block) {
        int64_t count = rows - first < block ? rows - first : block;
        double *to = data;
        for (int m = 0; m < MEMBER_COUNT; m++) {
            int status = m == MEMBER_Y && has_texts(r)
                             ? read_labels(r, first, count, to, err)
                             : ingest_array_read(&r->array[m], first, count, to, columns, err);
            if (status < 0) {
                err_prefix(err, members[m].pointer);
                return status;
            }
            to += r->array[m].columns;
        }
        int status = ingest_table_rows(r->t, data, count, err);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

int ingest_read_npz(const struct ingest_input *in, struct ingest_table *t, struct err *err)
{
    cleanup_reader struct npz_reader r = {
        .t = t,
        .place = {-1, -1},
        .file = {INGEST_TEMP_INIT, INGEST_TEMP_INIT},
    };
    int status = ingest_zip_open(in->path, in->fd, &r.zip, err);
    status = status < 0 ? status : find_members(&r, err);
    r.limit = ingest_unpack_limit_of(in->fd, t->options);
    int64_t left = r.limit.bytes;
    for (int m = 0; status == 0 && m < MEMBER_COUNT; m++) {
        status = open_member(&r, m, &left, err);
    }
    status = status < 0 ? status : check_shapes(&r, err);
    if (status < 0 || r.array[MEMBER_X].rows == 0) {
        return status;
    }
    status = begin(&r, err);
    if (status == 0 && has_texts(&r)) {
        status = begin_texts(&r, err);
    }
    return status < 0 ? status : copy_rows(&r, err);
}
