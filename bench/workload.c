#include "bench/workload.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "wire/tensors.h"

/* Streams of random numbers: none of the engine's. */
enum { STREAM_P = RNG_TEST + 1, STREAM_Q, STREAM_V };

static void set_value(void *data, enum dtype dtype, int64_t i, double value)
{
    if (dtype == DTYPE_F32) {
        ((float *)data)[i] = (float)value;
    } else {
        ((double *)data)[i] = value;
    }
}

static int draw_points(const struct operator_options *o, int64_t n, uint64_t stream, void **memory,
                       struct rows *ret, struct err *err)
{
    const enum dtype dtype = o->precision == PRECISION_FLOAT64 ? DTYPE_F64 : DTYPE_F32;
    *memory = mem_array((size_t)n, (size_t)o->d * dtype_size(dtype));
    if (*memory == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new((uint64_t)o->seed, stream);
    for (int64_t i = 0; i < n; i++) {
        const bool far = o->outliers > 0.0 && rng_uniform(&rng) < o->outliers;
        for (int64_t j = 0; j < o->d; j++) {
            set_value(*memory, dtype, i * o->d + j, rng_normal(&rng) * (far ? 10.0 : 1.0));
        }
    }
    *ret = (struct rows){.dtype = dtype, .n = n, .d = o->d, .data = *memory};
    return 0;
}

static int draw_weights(const struct operator_options *o, struct workload *w, struct err *err)
{
    w->V = mem_array((size_t)o->m, (size_t)o->rhs * sizeof *w->V);
    if (w->V == NULL) {
        return err_no_memory(err);
    }
    struct rng rng = rng_new((uint64_t)o->seed, STREAM_V);
    for (int64_t i = 0; i < o->m * o->rhs; i++) {
        const double value = rng_normal(&rng);
        w->V[i] = w->vectors == DTYPE_F32 ? (double)(float)value : value;
    }
    return 0;
}

int workload_init(struct workload *w, const struct operator_options *o, struct err *err)
{
    *w = (struct workload){
        .kernel = {.id = o->kernel,
                   .d = o->d,
                   .bandwidth = o->bandwidth,
                   .gamma = 1.0 / (double)o->d,
                   .coef0 = o->kernel == KERNEL_LINEAR ? 0.0 : 1.0,
                   .degree = 3},
        .vectors = o->precision == PRECISION_FLOAT32 ? DTYPE_F32 : DTYPE_F64,
        .rhs = o->rhs,
    };
    int r = draw_points(o, o->n, STREAM_P, &w->P_memory, &w->P, err);
    w->Q = w->P;
    if (r == 0 && !o->symmetric) {
        r = draw_points(o, o->m, STREAM_Q, &w->Q_memory, &w->Q, err);
    }
    if (r == 0) {
        r = draw_weights(o, w, err);
    }
    if (r < 0) {
        workload_deinit(w);
    }
    return r;
}

void workload_deinit(struct workload *w)
{
    w->P_memory = mem_free(w->P_memory);
    w->Q_memory = mem_free(w->Q_memory);
    w->V = mem_free(w->V);
}

static void load_row(const struct rows *rows, int64_t i, double *ret)
{
    for (int64_t j = 0; j < rows->d; j++) {
        ret[j] = rows_at(rows, i, j);
    }
}

/* The largest relative error among the right-hand sides of row i. `x`, `z` have room for a point,
 * `k` for a row of K. */
static double row_error(const struct workload *w, const double *Y, int64_t i, double *x, double *z,
                        double *k)
{
    load_row(&w->P, i, x);
    for (int64_t j = 0; j < w->Q.n; j++) {
        load_row(&w->Q, j, z);
        k[j] = kernel_eval(&w->kernel, x, z);
    }
    double worst = 0.0;
    for (int64_t c = 0; c < w->rhs; c++) {
        const double *v = w->V + c * w->Q.n;
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < w->Q.n; j++) {
            sum += k[j] * v[j];
            size += fabs(k[j]) * fabs(v[j]);
        }
        const double error = fabs(Y[i + c * w->P.n] - sum) / size;
        worst = error <= worst ? worst : error; /* NaN counts */
    }
    return worst;
}

int workload_error(const struct workload *w, const double *Y, int64_t rows, double *ret,
                   struct err *err)
{
    cleanup_mem double *room = mem_array((size_t)(2 * w->P.d + w->Q.n), sizeof *room);
    if (room == NULL) {
        return err_no_memory(err);
    }
    double worst = 0.0;
    for (int64_t s = 0; s < rows; s++) {
        const int64_t i = s * (w->P.n - 1) / (rows > 1 ? rows - 1 : 1);
        const double error = row_error(w, Y, i, room, room + w->P.d, room + 2 * w->P.d);
        worst = error <= worst ? worst : error;
    }
    *ret = worst;
    return 0;
}

/* ---- saving ---- */

static void add_tensor(struct tensors *t, const char *name, enum dtype dtype, int64_t rows,
                       int64_t cols)
{
    struct tensor_info *info = &t->tensor[t->count++];
    *info = (struct tensor_info){.dtype = dtype, .dims = 2, .shape = {rows, cols}};
    memcpy(info->name, name, strlen(name) + 1);
    info->bytes = (size_t)(rows * cols) * dtype_size(dtype);
}

static int write_vectors(int fd, const double *values, int64_t count, enum dtype dtype,
                         struct err *err)
{
    cleanup_mem void *converted = mem_array((size_t)count, dtype_size(dtype));
    if (converted == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < count; i++) {
        set_value(converted, dtype, i, values[i]);
    }
    return file_write_all(fd, converted, (size_t)count * dtype_size(dtype), err);
}

static int write_rows(int fd, const struct rows *rows, struct err *err)
{
    return file_write_all(fd, rows->data, (size_t)(rows->n * rows->d) * dtype_size(rows->dtype),
                          err);
}

static int write_all(const struct workload *w, const double *Y, int fd, struct err *err)
{
    struct tensors t = {.count = 0};
    add_tensor(&t, "weights", w->vectors, w->rhs, w->Q.n);
    add_tensor(&t, "product", w->vectors, w->rhs, w->P.n);
    add_tensor(&t, "points", w->P.dtype, w->P.n, w->P.d);
    if (w->Q_memory != NULL) {
        add_tensor(&t, "centers", w->Q.dtype, w->Q.n, w->Q.d);
    }
    cleanup_buf struct buf header = BUF_INIT;
    int r = tensors_header(&t, 0, &header, err);
    if (r == 0) {
        r = file_write_all(fd, header.data, header.len, err);
    }
    if (r == 0) {
        r = write_vectors(fd, w->V, w->rhs * w->Q.n, w->vectors, err);
    }
    if (r == 0) {
        r = write_vectors(fd, Y, w->rhs * w->P.n, w->vectors, err);
    }
    if (r == 0) {
        r = write_rows(fd, &w->P, err);
    }
    return r == 0 && w->Q_memory != NULL ? write_rows(fd, &w->Q, err) : r;
}

int workload_save(const struct workload *w, const double *Y, const char *path, struct err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return err_errno(err, "open the file of --save");
    }
    const int r = write_all(w, Y, fd, err);
    close(fd);
    return r;
}
