#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/data/fit_rows.h"
#include "engine/search/center_path.h"
#include "engine/search/search_parts.h"

#define READ_ROWS 4096 /* at a time */

/* The targets of the rows here. Their features are read with them, and wanted later. */
static int read_targets(struct search *s, const struct row_source *rows, struct err *err)
{
    const int64_t most = s->n < READ_ROWS ? s->n : READ_ROWS;
    cleanup_mem void *X = mem_array((size_t)(most * rows->d), dtype_size(rows->dtype));
    cleanup_mem double *Y = mem_array((size_t)(most * s->t), sizeof(*Y));
    int r = X != NULL && Y != NULL ? 0 : err_no_memory(err);
    for (int64_t first = 0; r == 0 && first < s->n; first += most) {
        const int64_t count = s->n - first < most ? s->n - first : most;
        r = rows->read(rows, 0, s->index + first, count, X, Y, err);
        for (int64_t j = 0; r == 0 && j < s->t; j++) {
            memcpy(s->sampled_Y + first + j * s->n, Y + j * count, (size_t)count * sizeof(*Y));
        }
    }
    return r;
}

/* Centers are drawn among all training rows. */
static int read_centers(struct search *s, const struct row_source *rows, struct rng *rng,
                        struct err *err)
{
    const int64_t m = s->result->centers;
    cleanup_mem int64_t *chosen = mem_array((size_t)m, sizeof(*chosen));
    s->centers = mem_array((size_t)(m * rows->d), dtype_size(rows->dtype));
    if (chosen == NULL || s->centers == NULL) {
        return err_no_memory(err);
    }
    s->Z = (struct rows){.dtype = rows->dtype, .n = m, .d = rows->d, .data = s->centers};
    const int r = rng_choose(rng, rows->n, m, chosen, err);
    return r == 0 ? rows->read(rows, 0, chosen, m, s->centers, NULL, err) : r;
}

int search__draw_centers(struct search *s, struct err *err)
{
    const struct row_source rows = fit_rows_train(s->task->data);
    const size_t missed =
        (size_t)(s->t * search_regularizations(s->task->spec)) * sizeof(*s->missed);
    struct rng rng = rng_new(s->task->seed, RNG_SEARCH);
    s->index = mem_array((size_t)s->n, sizeof(*s->index));
    s->sampled_Y = mem_array((size_t)(s->n * s->t), sizeof(*s->sampled_Y));
    s->missed = mem_array((size_t)s->n, missed);
    s->evidence = mem_array((size_t)search_regularizations(s->task->spec), sizeof(*s->evidence));
    if (s->index == NULL || s->sampled_Y == NULL || s->missed == NULL || s->evidence == NULL) {
        return err_no_memory(err);
    }
    s->Y = s->sampled_Y;
    int r = rng_choose(&rng, rows.n, s->n, s->index, err);
    if (r == 0) {
        sort_i64(s->index, s->n);
        r = read_targets(s, &rows, err);
    }
    return r == 0 ? read_centers(s, &rows, &rng, err) : r;
}

static bool any_nan(const double *x, int64_t count)
{
    bool any = false;
    for (int64_t k = 0; k < count; k++) {
        any = any || isnan(x[k]);
    }
    return any;
}

/* `there`: there are left-out residuals; else no pair has metrics. */
static int judge_all(struct search *s, double bandwidth, bool there, struct err *err)
{
    const int64_t size = s->n * s->t;
    int r = 0;
    for (int64_t l = 0; r == 0 && l < search_regularizations(s->task->spec); l++) {
        const double *missed = s->missed + l * size;
        const bool defined = there && !any_nan(missed, size);
        if (defined) {
            memcpy(s->R, missed, (size_t)size * sizeof(*s->R));
        }
        const double evidence =
            defined && s->result->metric == SEARCH_EVIDENCE ? s->evidence[l] : (double)NAN;
        r = search__judge(s, l, bandwidth, defined, evidence, err);
    }
    return r;
}

int search__try_centers(struct search *s, const struct kernel *kernel, double bandwidth,
                        struct err *err)
{
    const int64_t count = search_regularizations(s->task->spec);
    const struct row_source rows = fit_rows_train(s->task->data);
    /* A full model in float32 cannot be solved below its rounding (rule_narrow_factor); one on
     * centers is solved in float64. */
    const bool single = s->task->centers == 0 && s->task->data->dtype == DTYPE_F32 &&
                        s->task->spec->regularizations > 0;
    const double scale = search__ridge(s, 0) / ((double)s->n * search__regularization(s, 0));
    cleanup_mem double *ridges = mem_array((size_t)count, sizeof(*ridges));
    if (ridges == NULL) {
        return err_no_memory(err);
    }
    for (int64_t l = 0; l < count; l++) {
        ridges[l] = search__ridge(s, l);
    }
    const struct center_path_task path = {
        .be = s->task->be,
        .kernel = kernel,
        .rows = &rows,
        .index = s->index,
        .n = s->n,
        .Z = &s->Z,
        .ridges = ridges,
        .count = count,
        .least = single ? (double)FLT_EPSILON * scale : 0.0,
        .amplitude = s->task->amplitude,
        .bound = s->task->bound,
        .ret_evidence = s->result->metric == SEARCH_EVIDENCE ? s->evidence : NULL,
        .stop = s->task->stop,
        .stop_context = s->task->stop_context,
        .told = search__show_share,
        .told_context = s,
    };
    const int r = center_path_left_out(&path, s->missed, err);
    const bool none = r == -ERR_NOT_POSITIVE_DEFINITE || r == -ERR_DIVERGED;
    return r == 0 || none ? judge_all(s, bandwidth, !none, err) : r;
}
