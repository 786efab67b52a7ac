#include "engine/state.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "wire/tensors.h"

static const double largest_integer = 9007199254740992.0; /* 2^53 */

/* Numbers of a lent matrix, or of an array for one, that are converted at a time. */
#define CHUNK_NUMBERS (INT64_C(1) << 19)

/* Matrices that somebody else keeps. */
struct lent {
    struct backend *be;
    int64_t count;
    struct mat mats[];
};

struct array {
    char name[STATE_NAME_MAX + 1];
    enum dtype dtype;
    int64_t rows, cols; /* column-major */
    const void *data;   /* NULL: lent */
    void *own;          /* the same, where the state frees it */
    struct lent *lent;
};

struct state {
    int count;
    struct array array[STATE_ARRAYS_MAX];
    struct json *texts; /* object of strings */
    void (*release)(void *context);
    void *context;
};

struct state *state_new(void)
{
    struct state *s = mem_zalloc(sizeof(*s));
    if (s != NULL) {
        s->texts = json_new_object();
        if (s->texts == NULL) {
            s = state_free(s);
        }
    }
    return s;
}

struct state *state_free(struct state *s)
{
    if (s != NULL) {
        for (int i = 0; i < s->count; i++) {
            mem_free(s->array[i].own);
            mem_free(s->array[i].lent);
        }
        json_free(s->texts);
        if (s->release != NULL) {
            s->release(s->context);
        }
        mem_free(s);
    }
    return NULL;
}

static size_t array_bytes(const struct array *a)
{
    return (size_t)a->rows * (size_t)a->cols * dtype_size(a->dtype);
}

int64_t state_bytes(const struct state *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->count; i++) {
        sum += (int64_t)array_bytes(&s->array[i]);
    }
    return sum;
}

static const struct array *find(const struct state *s, const char *name)
{
    for (int i = 0; i < s->count; i++) {
        if (strcmp(s->array[i].name, name) == 0) {
            return &s->array[i];
        }
    }
    return NULL;
}

bool state_has(const struct state *s, const char *name)
{
    return find(s, name) != NULL;
}

/* A new array without any memory. */
static int add_name(struct state *s, const char *name, enum dtype dtype, int64_t rows, int64_t cols,
                    struct array **ret, struct err *err)
{
    const size_t length = strlen(name);
    if (length == 0 || length > STATE_NAME_MAX || s->count == STATE_ARRAYS_MAX ||
        find(s, name) != NULL) {
        return err_set(err, ERR_INTERNAL, "A checkpoint cannot take the array \"%s\".", name);
    }
    struct array a = {.dtype = dtype, .rows = rows, .cols = cols};
    memcpy(a.name, name, length + 1);
    s->array[s->count] = a;
    *ret = &s->array[s->count++];
    return 0;
}

/* A new array, its numbers not set. */
static int add(struct state *s, const char *name, enum dtype dtype, int64_t rows, int64_t cols,
               struct array **ret, struct err *err)
{
    const int r = add_name(s, name, dtype, rows, cols, ret, err);
    if (r < 0) {
        return r;
    }
    (*ret)->data = (*ret)->own = mem_array((size_t)rows, (size_t)cols * dtype_size(dtype));
    if ((*ret)->own == NULL) {
        s->count--;
        return err_no_memory(err);
    }
    return 0;
}

static int expect(const struct state *s, const char *name, enum dtype dtype, int64_t rows,
                  int64_t cols, const struct array **ret, struct err *err)
{
    const struct array *a = find(s, name);
    if (a == NULL) {
        return err_set(err, ERR_CORRUPT, "The checkpoint has no array \"%s\".", name);
    }
    if (a->dtype != dtype || a->rows != rows || a->cols != cols) {
        return err_set(err, ERR_CORRUPT,
                       "The checkpoint's array \"%s\" is %lld x %lld of %s, not %lld x %lld of %s.",
                       name, (long long)a->rows, (long long)a->cols, dtype_name(a->dtype),
                       (long long)rows, (long long)cols, dtype_name(dtype));
    }
    if (a->lent != NULL) {
        return err_set(err, ERR_INTERNAL, "The checkpoint's array \"%s\" is only lent.", name);
    }
    *ret = a;
    return 0;
}

int state_put_mat(struct state *s, const char *name, struct backend *be, const struct mat *m,
                  struct err *err)
{
    cleanup_mem double *host = mem_array((size_t)m->rows, (size_t)m->cols * sizeof(double));
    struct array *a = NULL;
    int r = host != NULL ? 0 : err_no_memory(err);
    if (r == 0) {
        r = be->ops->mat_get(be, m, host, m->rows, err);
    }
    if (r == 0) {
        r = add(s, name, m->dtype, m->rows, m->cols, &a, err);
    }
    for (int64_t i = 0; r == 0 && i < m->rows * m->cols; i++) {
        if (m->dtype == DTYPE_F32) {
            ((float *)a->own)[i] = (float)host[i];
        } else {
            ((double *)a->own)[i] = host[i];
        }
    }
    return r;
}

int state_get_mat(const struct state *s, const char *name, struct backend *be, const struct mat *m,
                  struct err *err)
{
    const struct array *a = NULL;
    const int r = expect(s, name, m->dtype, m->rows, m->cols, &a, err);
    if (r < 0) {
        return r;
    }
    cleanup_mem double *host = mem_array((size_t)m->rows, (size_t)m->cols * sizeof(double));
    if (host == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        host[i] = m->dtype == DTYPE_F32 ? (double)((const float *)a->data)[i]
                                        : ((const double *)a->data)[i];
    }
    return be->ops->mat_put(be, host, m->rows, m, err);
}

int state_put_reals(struct state *s, const char *name, const double *values, int64_t n,
                    struct err *err)
{
    struct array *a = NULL;
    const int r = add(s, name, DTYPE_F64, n, 1, &a, err);
    if (r == 0 && n > 0) {
        memcpy(a->own, values, array_bytes(a));
    }
    return r;
}

int state_get_reals(const struct state *s, const char *name, double *values, int64_t n,
                    struct err *err)
{
    const struct array *a = NULL;
    const int r = expect(s, name, DTYPE_F64, n, 1, &a, err);
    if (r == 0 && n > 0) {
        memcpy(values, a->data, array_bytes(a));
    }
    return r;
}

int state_put_ints(struct state *s, const char *name, const int64_t *values, int64_t n,
                   struct err *err)
{
    struct array *a = NULL;
    const int r = add(s, name, DTYPE_F64, n, 1, &a, err);
    for (int64_t i = 0; r == 0 && i < n; i++) {
        ((double *)a->own)[i] = (double)values[i];
    }
    return r;
}

int state_get_ints(const struct state *s, const char *name, int64_t *values, int64_t n,
                   struct err *err)
{
    const struct array *a = NULL;
    const int r = expect(s, name, DTYPE_F64, n, 1, &a, err);
    if (r < 0) {
        return r;
    }
    for (int64_t i = 0; i < n; i++) {
        const double value = ((const double *)a->data)[i];
        if (!(fabs(value) <= largest_integer) || value != trunc(value)) {
            return err_set(err, ERR_CORRUPT,
                           "The checkpoint's array \"%s\" holds %g where an integer belongs.", name,
                           value);
        }
        values[i] = (int64_t)value;
    }
    return 0;
}

/* ---- lent matrices ---- */

static int64_t numbers(const struct mat *mats, int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += mats[i].rows * mats[i].cols;
    }
    return sum;
}

int state_lend_mats(struct state *s, const char *name, struct backend *be, const struct mat *mats,
                    int64_t count, struct err *err)
{
    const size_t size = (size_t)count * sizeof(*mats);
    struct lent *lent = mem_alloc(sizeof(*lent) + size);
    struct array *a = NULL;
    if (lent == NULL) {
        return err_no_memory(err);
    }
    *lent = (struct lent){.be = be, .count = count};
    if (count > 0) {
        memcpy(lent->mats, mats, size);
    }
    const enum dtype dtype = count > 0 ? mats[0].dtype : DTYPE_F64;
    const int r = add_name(s, name, dtype, numbers(mats, count), 1, &a, err);
    if (r < 0) {
        mem_free(lent);
        return r;
    }
    a->lent = lent;
    return 0;
}

/* Columns of m that are converted at a time. */
static int64_t chunk_columns(const struct mat *m)
{
    const int64_t most = m->rows > 0 ? CHUNK_NUMBERS / m->rows : m->cols;
    return most < 1 ? 1 : most < m->cols ? most : m->cols;
}

/* m's columns from `data` or, when that is NULL, through the sink to a file. */
struct passage {
    struct backend *be;
    const void *data;
    int (*sink)(void *context, const void *data, size_t size, struct err *err);
    void *context;
};

static int pass_in(const struct passage *p, const struct mat *m, double *host, struct err *err)
{
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        host[i] = m->dtype == DTYPE_F32 ? (double)((const float *)p->data)[i]
                                        : ((const double *)p->data)[i];
    }
    return p->be->ops->mat_put(p->be, host, m->rows, m, err);
}

static int pass_out(const struct passage *p, const struct mat *m, double *host, float *narrow,
                    struct err *err)
{
    const int64_t n = m->rows * m->cols;
    const int r = p->be->ops->mat_get(p->be, m, host, m->rows, err);
    for (int64_t i = 0; r == 0 && narrow != NULL && i < n; i++) {
        narrow[i] = (float)host[i];
    }
    const void *data = narrow != NULL ? (const void *)narrow : host;
    return r == 0 ? p->sink(p->context, data, (size_t)n * dtype_size(m->dtype), err) : r;
}

static int pass_mat(struct passage *p, const struct mat *m, struct err *err)
{
    const int64_t wide = chunk_columns(m);
    cleanup_mem double *host = mem_array((size_t)m->rows, (size_t)wide * sizeof(double));
    cleanup_mem float *narrow = p->data == NULL && m->dtype == DTYPE_F32
                                    ? mem_array((size_t)m->rows, (size_t)wide * sizeof(float))
                                    : NULL;
    if (host == NULL || (narrow == NULL && p->data == NULL && m->dtype == DTYPE_F32)) {
        return err_no_memory(err);
    }
    int r = 0;
    for (int64_t j = 0; r == 0 && j < m->cols; j += wide) {
        const struct mat part = mat_cols(*m, j, m->cols - j < wide ? m->cols - j : wide);
        if (p->data == NULL) {
            r = pass_out(p, &part, host, narrow, err);
        } else {
            r = pass_in(p, &part, host, err);
            p->data =
                (const char *)p->data + (size_t)(part.rows * part.cols) * dtype_size(part.dtype);
        }
    }
    return r;
}

int state_get_mats(const struct state *s, const char *name, struct backend *be,
                   const struct mat *mats, int64_t count, struct err *err)
{
    const enum dtype dtype = count > 0 ? mats[0].dtype : DTYPE_F64;
    const struct array *a = NULL;
    int r = expect(s, name, dtype, numbers(mats, count), 1, &a, err);
    struct passage p = {.be = be, .data = r == 0 ? a->data : NULL};
    for (int64_t i = 0; r == 0 && i < count; i++) {
        r = pass_mat(&p, &mats[i], err);
    }
    return r;
}

/* ---- texts ---- */

int state_put_text(struct state *s, const char *key, const char *text, struct err *err)
{
    json_set_string(s->texts, key, text);
    return json_ok(s->texts) ? 0 : err_no_memory(err);
}

const char *state_text(const struct state *s, const char *key)
{
    const struct json *text = json_get(s->texts, key);
    return json_type(text) == JSON_STRING ? json_string(text) : NULL;
}

void state_drop_text(struct state *s, const char *key)
{
    json_remove(s->texts, key);
}

/* ---- files ---- */

/* Array i as the file has it. */
static void describe(const struct array *a, struct tensor_info *ret)
{
    *ret = (struct tensor_info){.dtype = a->dtype, .dims = 2, .shape = {a->cols, a->rows}};
    memcpy(ret->name, a->name, strlen(a->name) + 1);
}

/* The order of the file: float64 arrays first, as the format wants it for their alignment. */
static int list_order(const struct state *s, int *order)
{
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < s->count; i++) {
            if ((s->array[i].dtype == DTYPE_F64) == (pass == 0)) {
                order[n++] = i;
            }
        }
    }
    return n;
}

static int write_array(const struct array *a,
                       int (*sink)(void *context, const void *data, size_t size, struct err *err),
                       void *context, struct err *err)
{
    if (a->lent == NULL) {
        return sink(context, a->data, array_bytes(a), err);
    }
    struct passage p = {.be = a->lent->be, .sink = sink, .context = context};
    int r = 0;
    for (int64_t i = 0; r == 0 && i < a->lent->count; i++) {
        r = pass_mat(&p, &a->lent->mats[i], err);
    }
    return r;
}

int state_write_with(const struct state *s, const char *key, const char *text,
                     int (*sink)(void *context, const void *data, size_t size, struct err *err),
                     void *context, struct err *err)
{
    int order[STATE_ARRAYS_MAX];
    const int n = list_order(s, order);
    struct tensors t = {.count = n, .metadata = json_copy(s->texts)};
    for (int i = 0; i < n; i++) {
        describe(&s->array[order[i]], &t.tensor[i]);
    }
    if (key != NULL) {
        json_set_string(t.metadata, key, text);
    }
    cleanup_buf struct buf header = BUF_INIT;
    int r = json_ok(t.metadata) ? tensors_header(&t, 0, &header, err) : err_no_memory(err);
    if (r == 0) {
        r = sink(context, header.data, header.len, err);
    }
    for (int i = 0; r == 0 && i < n; i++) {
        r = write_array(&s->array[order[i]], sink, context, err);
    }
    tensors_deinit(&t);
    return r;
}

int state_write(const struct state *s,
                int (*sink)(void *context, const void *data, size_t size, struct err *err),
                void *context, struct err *err)
{
    return state_write_with(s, NULL, NULL, sink, context, err);
}

static int take_tensor(struct state *s, const struct tensor_info *info, struct err *err)
{
    const int64_t cols = info->dims == 2 ? info->shape[0] : 1;
    const int64_t rows = info->dims == 2 ? info->shape[1] : info->shape[0];
    struct array *a = NULL;
    const int r = add_name(s, info->name, info->dtype, rows, cols, &a, err);
    if (r == 0) {
        a->data = info->data;
    }
    return r;
}

int state_read(const void *image, size_t size, struct state **ret, struct err *err)
{
    struct tensors t;
    int r = tensors_open(image, size, &t, err);
    if (r < 0) {
        return r;
    }
    struct state *s = state_new();
    r = s != NULL ? 0 : err_no_memory(err);
    for (int i = 0; r == 0 && i < t.count; i++) {
        r = take_tensor(s, &t.tensor[i], err);
    }
    if (r == 0 && t.metadata != NULL) {
        json_free(s->texts);
        s->texts = t.metadata;
        t.metadata = NULL;
    }
    tensors_deinit(&t);
    if (r < 0) {
        state_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void state_keep(struct state *s, void (*release)(void *context), void *context)
{
    s->release = release;
    s->context = context;
}
