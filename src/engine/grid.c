#include "engine/grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

/* The sorted values of a feature. */
struct column {
    double *values;
    int64_t n;
    double slack; /* that a coordinate may be off by */
    double bound; /* and its place: twice that, but no more than kernel values bear */
};

/* Of a step that coordinates may be off by: then rows that lie anywhere do not fit. */
#define SLACK_MOST (1.0 / 16)

struct axis {
    double origin, step;
    int64_t size; /* 0: none fits */
};

/* The type of the sets that say where the grid is. */
static enum dtype finest(const struct rows *sets, int count)
{
    enum dtype ret = DTYPE_F32;
    for (int s = 0; s < count; s++) {
        ret = sets[s].n > 0 && sets[s].dtype == DTYPE_F64 ? DTYPE_F64 : ret;
    }
    return ret;
}

static int64_t count_rows(const struct rows *sets, int count, enum dtype type)
{
    int64_t n = 0;
    for (int s = 0; s < count; s++) {
        n += sets[s].dtype == type ? sets[s].n : 0;
    }
    return n;
}

static double slack_of(enum dtype type, double largest)
{
    return 4.0 * (type == DTYPE_F32 ? FLT_EPSILON : DBL_EPSILON) * largest;
}

/* Coordinates are in units of the kernel's bandwidth. Beside a value that is far out of the others'
 * range roundings of its size are no roundings of theirs. */
static double bound_of(enum dtype type, double slack)
{
    return fmin(2 * slack, type == DTYPE_F32 ? 1e-4 : 1e-8);
}

static void load(const struct rows *sets, int count, enum dtype type, int64_t feature,
                 struct column *c)
{
    c->n = 0;
    for (int s = 0; s < count; s++) {
        for (int64_t i = 0; sets[s].dtype == type && i < sets[s].n; i++) {
            c->values[c->n++] = rows_at(&sets[s], i, feature);
        }
    }
    sort_f64(c->values, c->n);
    c->slack = slack_of(type, fmax(fabs(c->values[0]), fabs(c->values[c->n - 1])));
    c->bound = bound_of(type, c->slack);
}

/* The least distance of two values that are not the same; 0: there are none. */
static double least_gap(const struct column *c)
{
    double least = INFINITY;
    for (int64_t i = 1; i < c->n; i++) {
        const double gap = c->values[i] - c->values[i - 1];
        least = gap > 2 * c->slack && gap < least ? gap : least;
    }
    return isfinite(least) ? least : 0.0;
}

/* Steps to the last value, counted gap by gap: the further from the first, the better they say how
 * long one is. */
static double refine(const struct column *c, double step)
{
    double steps = 0.0;
    for (int64_t i = 1; i < c->n; i++) {
        if (c->values[i] - c->values[i - 1] > 2 * c->slack) {
            const double passed = c->values[i] - c->values[0];
            steps = fmax(round(passed / step), 1.0);
            step = passed / steps;
        }
    }
    return step;
}

static bool all_fit(const struct column *c, double step)
{
    bool fit = true;
    double first = c->values[0]; /* of a place: what lies far from the origin loses its digits */
    for (int64_t i = 0; fit && i < c->n; i++) {
        const double passed = c->values[i] - c->values[0];
        first = i > 0 && c->values[i] - c->values[i - 1] > 2 * c->slack ? c->values[i] : first;
        fit = c->values[i] - first <= c->bound &&
              fabs(passed - round(passed / step) * step) <= c->bound;
    }
    return fit;
}

static struct axis find_axis(const struct column *c, int64_t most)
{
    const double range = c->values[c->n - 1] - c->values[0];
    const double gap = least_gap(c);
    if (gap == 0.0) { /* side by side, but not all the same where there are many */
        return (struct axis){
            .origin = c->values[0], .step = 1.0, .size = range <= c->bound ? 1 : 0};
    }
    if (!(range / gap < (double)most)) {
        return (struct axis){.size = 0};
    }
    const double step = refine(c, gap);
    const double steps = round(range / step);
    const bool fits = steps < (double)most && c->slack <= SLACK_MOST * step && all_fit(c, step);
    return (struct axis){
        .origin = c->values[0], .step = step, .size = fits ? (int64_t)steps + 1 : 0};
}

static bool add_axis(struct grid *g, int64_t feature, const struct axis *a, int64_t *left)
{
    if (a->size == 1) {
        return true;
    }
    if (a->size == 0 || g->dims == GRID_DIMS || (*left /= a->size) == 0) {
        return false;
    }
    g->feature[g->dims] = feature;
    g->origin[g->dims] = a->origin;
    g->step[g->dims] = a->step;
    g->size[g->dims++] = a->size;
    return true;
}

/* Whether sets of the other, less exact type lie on the places that were found. */
static bool others_fit(const struct rows *sets, int count, enum dtype type, int64_t feature,
                       const struct axis *a)
{
    bool fit = true;
    for (int s = 0; s < count; s++) {
        for (int64_t i = 0; fit && sets[s].dtype != type && i < sets[s].n; i++) {
            const double x = rows_at(&sets[s], i, feature);
            const double place = round((x - a->origin) / a->step);
            const double off = fabs(x - a->origin - place * a->step);
            fit = place >= 0.0 && place < (double)a->size &&
                  off <= bound_of(sets[s].dtype,
                                  slack_of(sets[s].dtype, fmax(fabs(x), fabs(a->origin))));
        }
    }
    return fit;
}

int grid_find(const struct rows *sets, int count, int64_t features, int64_t most, struct grid *ret,
              struct err *err)
{
    struct grid g = {.dims = 0};
    const enum dtype type = finest(sets, count);
    const int64_t n = count_rows(sets, count, type);
    if (n == 0) {
        *ret = g;
        return 0;
    }
    cleanup_mem double *values = mem_array((size_t)n, sizeof *values);
    if (values == NULL) {
        return err_no_memory(err);
    }
    struct column c = {.values = values};
    bool fits = true;
    for (int64_t j = 0; fits && j < features; j++) {
        load(sets, count, type, j, &c);
        const struct axis a = find_axis(&c, most);
        fits = others_fit(sets, count, type, j, &a) && add_axis(&g, j, &a, &most);
    }
    *ret = fits ? g : (struct grid){.dims = 0};
    return 0;
}

int64_t grid_place(const struct grid *g, const struct rows *X, int64_t i, const int64_t *extent)
{
    int64_t place = 0;
    for (int k = 0; k < g->dims; k++) {
        const double at = (rows_at(X, i, g->feature[k]) - g->origin[k]) / g->step[k];
        place = place * extent[k] + llround(at);
    }
    return place;
}

/* ---- any grid ---- */

/* The value that is nearest to x. */
static int64_t nearest(const double *values, int64_t size, double x)
{
    const int64_t at = sort_first_above(values, size, x);
    const bool below = at > 0 && x - values[at - 1] < fabs(values[at] - x);
    return below ? at - 1 : at;
}

/* The distinct values of the column, in place; 0: some are so near that a set of the other type
 * could not tell them apart. */
static int64_t distinct(struct column *c, double other_slack)
{
    int64_t n = 1;
    for (int64_t i = 1; i < c->n; i++) {
        if (c->values[i] > c->values[n - 1]) {
            c->values[n++] = c->values[i];
        }
    }
    for (int64_t i = 1; i < n; i++) {
        if (!(c->values[i] - c->values[i - 1] > 4 * other_slack)) {
            return 0;
        }
    }
    return n;
}

/* Whether all values of the other type's sets are among those. */
static bool others_occur(const struct rows *sets, int count, enum dtype type, int64_t feature,
                         const struct column *c, int64_t size)
{
    bool fit = true;
    for (int s = 0; s < count; s++) {
        for (int64_t i = 0; fit && sets[s].dtype != type && i < sets[s].n; i++) {
            const double x = rows_at(&sets[s], i, feature);
            const double off = fabs(x - c->values[nearest(c->values, size, x)]);
            fit = off <= slack_of(sets[s].dtype, fabs(x));
        }
    }
    return fit;
}

static bool any_other(const struct rows *sets, int count, enum dtype type)
{
    bool any = false;
    for (int s = 0; s < count; s++) {
        any |= sets[s].n > 0 && sets[s].dtype != type;
    }
    return any;
}

/* 1: the column is an axis of g, or is the same everywhere; 0: there is no such grid. */
static int add_values(struct grid_axes *g, int64_t feature, const struct column *c, int64_t size,
                      int64_t most, struct err *err)
{
    if (size == 1) {
        return 1;
    }
    if (size == 0 || g->dims == GRID_DIMS || size > most / g->places) {
        return 0;
    }
    double *values = mem_array((size_t)size, sizeof *values);
    if (values == NULL) {
        return err_no_memory(err);
    }
    memcpy(values, c->values, (size_t)size * sizeof *values);
    g->values[g->dims] = values;
    g->feature[g->dims] = feature;
    g->size[g->dims++] = size;
    g->places *= size;
    return 1;
}

void grid_axes_deinit(struct grid_axes *g)
{
    for (int k = 0; k < g->dims; k++) {
        g->values[k] = mem_free(g->values[k]);
    }
    g->dims = 0;
}

int grid_find_axes(const struct rows *sets, int count, int64_t features, int64_t most,
                   struct grid_axes *ret, struct err *err)
{
    *ret = (struct grid_axes){.places = 1};
    const enum dtype type = finest(sets, count);
    const int64_t n = count_rows(sets, count, type);
    const bool others = any_other(sets, count, type);
    cleanup_mem double *values = mem_array((size_t)n + 1, sizeof *values);
    if (values == NULL) {
        return err_no_memory(err);
    }
    struct column c = {.values = values};
    int r = n > 0;
    for (int64_t j = 0; r > 0 && j < features; j++) {
        load(sets, count, type, j, &c);
        const double largest = fmax(fabs(c.values[0]), fabs(c.values[c.n - 1]));
        const int64_t size = distinct(&c, others ? slack_of(DTYPE_F32, largest) : 0.0);
        const bool fits = size > 0 && others_occur(sets, count, type, j, &c, size);
        r = fits ? add_values(ret, j, &c, size, most, err) : 0;
    }
    if (r <= 0) {
        grid_axes_deinit(ret);
    }
    return r < 0 ? r : 0;
}

int64_t grid_axes_place(const struct grid_axes *g, const struct rows *X, int64_t i)
{
    int64_t place = 0;
    for (int k = 0; k < g->dims; k++) {
        place =
            place * g->size[k] + nearest(g->values[k], g->size[k], rows_at(X, i, g->feature[k]));
    }
    return place;
}
