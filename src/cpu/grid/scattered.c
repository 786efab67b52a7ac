#include "cpu/grid/scattered.h"

#include <math.h>

#include "base/mem.h"

/* A near pair, of all that cells bring together: in such kernel values as tiles would take for it,
 * and in those that a torus counts in, which are shorter. */
#define PAIR_COST_F32 4.0
#define PAIR_COST_F64 5.0
#define PAIR_TIME_F32 6.0
#define PAIR_TIME_F64 17.0
/* Steps along the longest axis that are tried, each so many times those before. */
#define FEWEST_STEPS 8.0
#define FINER 1.2

/* What a gaussian leaves out; errors of products are some 5 times that and what windows lose. */
static double gaussian_loss(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1e-11 : 1e-16;
}

/* What each part of a split leaves out, and places enough for distances to turn that smoothly. */
static double split_loss(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1e-9 : 1e-14;
}

static double split_zone(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 32.0 : 48.0;
}

/* ---- what takes least ---- */

static void lay_gaussian(struct scattered *s, const struct cloud_ranges *r, double sigma,
                         enum dtype dtype, int64_t most)
{
    const double reach = sqrt(-2.0 * log(gaussian_loss(dtype)));
    const struct cloud_layout l = {
        .step = M_PI * sigma / (CLOUD_OVERSAMPLED * reach), .beyond = reach * sigma, .most = most};
    cloud_lay(&s->cloud, r, dtype, &l, s->be);
}

static void lay_split(struct scattered *s, const struct cloud_ranges *r, const struct points *p,
                      double step, int64_t most)
{
    const double frequency = M_PI / (CLOUD_OVERSAMPLED * step);
    s->splits = true;
    s->zone = split_zone(p->dtype);
    s->split = split_at(p->kernel.id, p->scale, r->dims, frequency, split_loss(p->dtype));
    const struct cloud_layout l = {
        .step = step, .beyond = s->split.beyond, .zone = s->zone, .most = most};
    cloud_lay(&s->cloud, r, p->dtype, &l, s->be);
}

/* Of what depends on how fine places are, for n rows. */
static double split_time(const struct scattered *s, double n)
{
    const double pair = s->cloud.dtype == DTYPE_F32 ? PAIR_TIME_F32 : PAIR_TIME_F64;
    return torus_cost(&s->cloud.torus) + pair * s->near_share * n * n;
}

static double longest_of(const struct cloud_ranges *r)
{
    double longest = 0.0;
    for (int k = 0; k < r->dims; k++) {
        longest = fmax(longest, r->most[k] - r->least[k]);
    }
    return longest;
}

static struct census census_of(const struct points *p, const struct cloud_ranges *r)
{
    const struct rows X = points_rows(p);
    return census_take(&X, r->dims, r->feature, longest_of(r) * sqrt(r->dims));
}

/* From the coarsest places to the finest. */
static void choose_split(struct scattered *s, const struct cloud_ranges *r, const struct points *p,
                         int64_t most)
{
    const struct census census = census_of(p, r);
    const double n = (double)p->n;
    struct scattered next = {.be = s->be};
    double step = longest_of(r) / FEWEST_STEPS;
    bool finer = true;
    while (finer) {
        lay_split(&next, r, p, step, most);
        const bool near = next.split.reach > 0.0;
        next.near_share = near ? census_share(&census, r->dims, next.split.reach) : 0.0;
        const bool exists = next.cloud.torus.grid.dims > 0, first = s->cloud.torus.grid.dims == 0;
        if (exists && (first || split_time(&next, n) < split_time(s, n))) {
            *s = next;
        }
        finer = exists && near && torus_cost(&next.cloud.torus) < split_time(s, n);
        step /= FINER;
    }
}

static double near_at(const void *context, double r)
{
    return split_near(context, r);
}

static bool has_near(const struct scattered *s)
{
    return s->splits && s->split.reach > 0.0;
}

static const struct points *first_of(struct points *const *sets, int count, enum dtype dtype)
{
    const struct points *ret = NULL;
    for (int i = count - 1; i >= 0; i--) {
        ret = sets[i]->dtype == dtype && sets[i]->n > 0 ? sets[i] : ret;
    }
    return ret;
}

/* Cells are what they are, with rows far out: pairs are counted then. */
static bool lay_near(struct scattered *s, const struct cloud_ranges *r, const struct points *p)
{
    const double loss = 2.0 * split_loss(s->cloud.dtype);
    const struct near_range range = {r->dims, r->feature, r->least, r->most};
    const struct rows X = points_rows(p);
    if (!has_near(s)) {
        return true;
    }
    const bool fits = near_lay(&s->near, &range, s->split.reach, loss, p->n, near_at, &s->split);
    s->near_share = fits ? near_share(&s->near, &X) : 1.0;
    return fits;
}

/* Even without places and near pairs; and squares of all distances are numbers. */
static bool could_pay(const struct points *p, const struct cloud_ranges *r)
{
    const double longest = longest_of(r);
    return r->dims > 0 && longest > 1e-100 && longest < 1e100 &&
           cloud_point_cost(p->dtype, r->dims) < (double)p->n;
}

void scattered_measure(struct scattered *s, struct points *const *sets, int count, enum dtype dtype,
                       int64_t most, const struct backend *be)
{
    *s = (struct scattered){.be = be};
    const struct points *p = first_of(sets, count, dtype);
    const enum kernel_id id = sets[0]->kernel.id;
    if (p == NULL || (id != KERNEL_GAUSSIAN && !split_exists(id, 1))) {
        return;
    }
    const struct cloud_ranges r = cloud_ranges(sets, count, dtype);
    if (could_pay(p, &r) && id == KERNEL_GAUSSIAN) {
        lay_gaussian(s, &r, p->scale, dtype, most);
    } else if (could_pay(p, &r) && split_exists(id, r.dims)) {
        choose_split(s, &r, p, most);
    }
    const struct torus *t = &s->cloud.torus;
    const bool fits = t->grid.dims > 0 && lay_near(s, &r, p);
    s->cloud.torus.grid.dims = fits ? t->grid.dims : 0;
    s->bytes = t->bytes + t->places * (int64_t)sizeof(double);
}

double scattered_cost(const struct scattered *s, double p, double q)
{
    const double pair = s->cloud.dtype == DTYPE_F32 ? PAIR_COST_F32 : PAIR_COST_F64;
    const double point = cloud_point_cost(s->cloud.dtype, s->cloud.torus.grid.dims);
    return point * (p + q) / 2.0 + pair * s->near_share * p * q;
}

/* ---- preparation ---- */

static double far_at(const void *context, const int64_t *steps)
{
    const struct scattered *s = context;
    const struct torus *t = &s->cloud.torus;
    /* Around the torus distances turn within a zone, by the integral of an error function: as far
     * as points are apart they are what they are, and nowhere is there an edge. */
    const double width = s->zone / 2.0 / sqrt(-log(split_loss(s->cloud.dtype)));
    double square = 0.0;
    for (int k = 0; k < t->grid.dims; k++) {
        const double half = (double)t->extent[k] / 2.0, u = ((double)steps[k] - half) / width;
        const double turned = half - width * (u * erf(u) + exp(-u * u) / sqrt(M_PI));
        square += pow(turned * t->grid.step[k], 2.0);
    }
    return split_far(&s->split, sqrt(square));
}

int scattered_prepare(struct scattered *s, const struct points *p, double *numbers, struct err *err)
{
    const struct grid *g = &s->cloud.torus.grid;
    s->column = mem_aligned((size_t)s->cloud.torus.places, sizeof(double));
    if (s->column == NULL) {
        return err_no_memory(err);
    }
    return s->splits ? cloud_prepare(&s->cloud, far_at, s, numbers, err)
                     : cloud_prepare_gaussian(&s->cloud, p->scale / g->step[0], err);
}

static const struct tile_loops *loops_of(const struct scattered *s, const struct tile_isa *isa)
{
    return s->cloud.dtype == DTYPE_F32 ? &isa->f32 : &isa->f64;
}

static int settle(const struct scattered *s, const struct tile_isa *isa, const struct points *p,
                  struct scattered_set *set, struct err *err)
{
    const int r = cloud_sort(&s->cloud, p, &set->order, err);
    set->bytes = cloud_order_bytes(&s->cloud, p->n);
    if (r < 0 || !has_near(s)) {
        return r;
    }
    set->bytes += near_set_bytes(&s->near, p->dtype, p->n);
    return near_sort(&s->near, loops_of(s, isa), p, &set->near, err);
}

struct scattered_set *scattered_settle(const struct scattered *s, const struct tile_isa *isa,
                                       const struct points *p, struct err *err)
{
    struct scattered_set *set = mem_zalloc(sizeof *set);
    if (set == NULL) {
        (void)err_no_memory(err);
        return NULL;
    }
    return settle(s, isa, p, set, err) == 0 ? set : scattered_set_free(set);
}

struct scattered_set *scattered_set_free(struct scattered_set *set)
{
    if (set != NULL) {
        cloud_order_deinit(&set->order);
        near_set_deinit(&set->near);
    }
    return mem_free(set);
}

int64_t scattered_set_bytes(const struct scattered *s, int64_t n)
{
    return cloud_order_bytes(&s->cloud, n) +
           (has_near(s) ? near_set_bytes(&s->near, s->cloud.dtype, n) : 0);
}

void scattered_deinit(struct scattered *s)
{
    cloud_deinit(&s->cloud);
    s->column = mem_free(s->column);
}

/* ---- products ---- */

void scattered_spread(const struct scattered *s, const struct tile_isa *isa, const struct points *q,
                      const struct mat *V, int64_t j, int c, double *numbers)
{
    const bool exists = j + c < V->cols;
    if (exists) {
        const struct mat v = mat_cols(*V, j + c, 1);
        cloud_spread(&s->cloud, isa, q, &q->scattered->order, &v, s->column);
    }
#pragma omp parallel for num_threads(s->be->threads)
    for (int64_t i = 0; i < s->cloud.torus.places; i++) {
        numbers[2 * i + c] = exists ? s->column[i] : 0.0;
    }
}

void scattered_gather(const struct scattered *s, const struct tile_isa *isa, const struct points *p,
                      double a, const double *numbers, double b, const struct mat *Y, int64_t j,
                      int c)
{
#pragma omp parallel for num_threads(s->be->threads)
    for (int64_t i = 0; i < s->cloud.torus.places; i++) {
        s->column[i] = numbers[2 * i + c];
    }
    const struct mat y = mat_cols(*Y, j + c, 1);
    cloud_gather(&s->cloud, isa, p, &p->scattered->order, a, s->column, b, &y);
}

void scattered_near(const struct scattered *s, const struct tile_isa *isa, const struct points *p,
                    const struct points *q, double a, const struct mat *V, const struct mat *Y)
{
    if (has_near(s)) {
        near_product(&s->near, loops_of(s, isa), s->be->threads, &p->scattered->near,
                     &q->scattered->near, a, V, Y);
    }
}
