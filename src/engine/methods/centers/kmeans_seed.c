#include "engine/methods/centers/kmeans_seed.h"

#include <math.h>

#include "base/mem.h"
#include "base/sort.h"

/* Distances a step. */
#define STEP_VALUES INT64_C(100000000)

static int allocate(struct kmeans_seed *s, struct err *err)
{
    const size_t n = (size_t)s->n;
    s->norms = mem_array(n, sizeof(double));
    s->distance = mem_array(n, sizeof(double));
    s->sums = mem_array(n, sizeof(double));
    s->chosen = mem_array((size_t)s->wanted, sizeof(*s->chosen));
    s->start = mem_array(SEED_BLOCK, sizeof(double));
    s->some_norms = mem_array(SEED_BLOCK, sizeof(double));
    s->candidates = mem_array(SEED_BLOCK, sizeof(*s->candidates));
    s->between = mem_array(SEED_BLOCK, SEED_BLOCK * sizeof(double));
    const bool ok = s->norms && s->distance && s->sums && s->chosen && s->start && s->some_norms &&
                    s->candidates && s->between;
    return ok ? 0 : err_no_memory(err);
}

int kmeans_seed_init(struct kmeans_seed *s, struct nearest *nearest, const void *X, int64_t n,
                     int64_t wanted, uint64_t seed, struct err *err)
{
    *s = (struct kmeans_seed){.nearest = nearest, .n = n, .wanted = wanted};
    s->rng = rng_new(seed, RNG_CENTERS);
    int rc = allocate(s, err);
    if (rc == 0) {
        rc = nearest_points(nearest, X, n, &s->P, s->norms, err);
    }
    if (rc < 0) {
        return rc;
    }
    for (int64_t i = 0; i < n; i++) {
        s->distance[i] = INFINITY;
    }
    s->chosen[0] = rng_below(&s->rng, n);
    s->count = s->fresh = 1;
    return 0;
}

void kmeans_seed_deinit(struct kmeans_seed *s)
{
    if (s->nearest != NULL) {
        s->nearest->be->ops->points_free(s->nearest->be, s->P);
    }
    mem_free(s->norms);
    mem_free(s->distance);
    mem_free(s->sums);
    mem_free(s->chosen);
    mem_free(s->start);
    mem_free(s->some_norms);
    mem_free(s->candidates);
    mem_free(s->between);
    *s = (struct kmeans_seed){.n = 0};
}

/* Few candidates while there are few seeds: each new one then changes all chances. */
static int64_t round_size(const struct kmeans_seed *s)
{
    const int64_t wish = 8 + s->count / 4;
    return wish < SEED_BLOCK ? wish : SEED_BLOCK;
}

/* 0 candidates: every row is a seed, or equal to one. */
static int64_t propose(struct kmeans_seed *s)
{
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        sum += s->distance[i];
        s->sums[i] = sum;
    }
    if (!(sum > 0) || !isfinite(sum)) {
        return 0;
    }
    const int64_t b = round_size(s);
    for (int64_t j = 0; j < b; j++) {
        s->candidates[j] = sort_first_above(s->sums, s->n, rng_uniform(&s->rng) * sum);
        s->start[j] = s->distance[s->candidates[j]];
    }
    return b;
}

static int fetch_products(struct kmeans_seed *s, int64_t b, struct err *err)
{
    struct nearest *w = s->nearest;
    const struct view C = view_index(s->P, s->candidates, b);
    const struct mat block = mat_cols(mat_rows(w->block, 0, b), 0, b);
    const int rc = w->be->ops->kblock(w->be, C, C, &block, err);
    return rc == 0 ? w->be->ops->mat_get(w->be, &block, s->between, b, err) : rc;
}

static void choose(struct kmeans_seed *s, int64_t b)
{
    int64_t taken[SEED_BLOCK], count = 0;
    for (int64_t j = 0; j < b && s->count < s->wanted; j++) {
        double now = s->start[j];
        for (int64_t a = 0; a < count; a++) {
            const double apart =
                nearest_distance(s->nearest, s->norms[s->candidates[j]],
                                 s->norms[s->candidates[taken[a]]], s->between[j + taken[a] * b]);
            now = apart < now ? apart : now;
        }
        if (rng_uniform(&s->rng) * s->start[j] < now) {
            taken[count++] = j;
            s->chosen[s->count++] = s->candidates[j];
        }
    }
    s->fresh = count;
    s->updated = 0;
}

/* A piece of `distance` for the seeds of the last round. */
static int update(struct kmeans_seed *s, struct err *err)
{
    const int64_t most = STEP_VALUES / s->fresh, left = s->n - s->updated;
    const int64_t count = left < most ? left : most;
    const int64_t *seeds = s->chosen + s->count - s->fresh;
    for (int64_t j = 0; j < s->fresh; j++) {
        s->some_norms[j] = s->norms[seeds[j]];
    }
    const int rc = nearest_update(s->nearest, view_range(s->P, s->updated, count),
                                  s->norms + s->updated, view_index(s->P, seeds, s->fresh),
                                  s->some_norms, s->distance + s->updated, NULL, err);
    s->updated += count;
    if (rc == 0 && s->updated == s->n) {
        for (int64_t j = 0; j < s->fresh; j++) {
            s->distance[seeds[j]] = 0;
        }
        s->fresh = 0;
    }
    return rc;
}

int kmeans_seed_step(struct kmeans_seed *s, struct err *err)
{
    if (s->count == s->wanted) {
        return 1;
    }
    if (s->fresh > 0) {
        return update(s, err);
    }
    const int64_t b = propose(s);
    if (b == 0) {
        return 1;
    }
    const int rc = fetch_products(s, b, err);
    if (rc == 0) {
        choose(s, b);
    }
    return rc < 0 ? rc : s->count == s->wanted;
}
