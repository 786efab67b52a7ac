#include "engine/methods/centers/center_pass.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

enum { PICKS_MIN = 64 };

/* Keys up to 1 belong to about as many things as are wanted, up to this to about so many times. */
#define KEY_MOST 4.0

int center_pass_start(struct center_pass *p, const struct center_task *task, int64_t *rows,
                      int64_t count, double each, struct err *err)
{
    center_pass_deinit(p);
    p->task = task;
    p->rows = rows;
    p->count = count;
    p->each = each;
    p->scores = mem_array((size_t)count, sizeof(double));
    p->X = mem_array((size_t)task->rows->d, PASS_ROWS * dtype_size(task->rows->dtype));
    return p->scores != NULL && p->X != NULL ? 0 : err_no_memory(err);
}

void center_pass_deinit(struct center_pass *p)
{
    mem_free(p->rows);
    mem_free(p->scores);
    mem_free(p->X);
    *p = (struct center_pass){.count = 0};
}

int center_pass_step(struct center_pass *p, struct center_scores *scores, struct err *err)
{
    const struct row_source *source = p->task->rows;
    const int64_t left = p->count - p->next, piece = center_scores_piece(scores);
    int64_t count = left < piece ? left : piece;
    count = count < PASS_ROWS ? count : PASS_ROWS;
    const int64_t *index = p->rows != NULL ? p->rows + p->next : NULL;
    int rc = count > 0 ? source->read(source, p->next, index, count, p->X, NULL, err) : 0;
    if (rc == 0 && count > 0) {
        rc = center_scores_of(scores, p->X, count, p->scores + p->next, err);
    }
    p->next += count;
    return rc < 0 ? rc : p->next == p->count;
}

double center_pass_dimension(const struct center_pass *p, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += p->scores[i];
    }
    return sum / (double)count * (p->each * (double)p->count);
}

void center_picks_deinit(struct center_picks *k)
{
    mem_free(k->rows);
    mem_free(k->stands);
    *k = (struct center_picks){.count = 0};
}

int center_picks_add(struct center_picks *k, int64_t row, double stands, struct err *err)
{
    if (k->count == k->room) {
        const int64_t room = k->room > 0 ? 2 * k->room : PICKS_MIN;
        void *rows = mem_regrow(k->rows, (size_t)room, sizeof(*k->rows));
        k->rows = rows != NULL ? rows : k->rows;
        void *more = mem_regrow(k->stands, (size_t)room, sizeof(*k->stands));
        k->stands = more != NULL ? more : k->stands;
        if (rows == NULL || more == NULL) {
            return err_no_memory(err);
        }
        k->room = room;
    }
    k->rows[k->count] = row;
    k->stands[k->count++] = stands;
    return 0;
}

static int64_t row_at(const struct center_pass *p, int64_t i)
{
    return p->rows != NULL ? p->rows[i] : i;
}

int center_pass_draw_each(const struct center_pass *p, double factor, struct rng *rng,
                          struct center_picks *ret, struct err *err)
{
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < p->count; i++) {
        const double chance = fmin(factor * p->each * p->scores[i], 1.0);
        if (rng_uniform(rng) < chance) {
            rc = center_picks_add(ret, row_at(p, i), p->each / chance, err);
        }
    }
    return rc;
}

int center_pass_draw_repeatedly(const struct center_pass *p, int64_t draws, struct rng *rng,
                                struct center_picks *ret, struct err *err)
{
    cleanup_mem double *sums = mem_array((size_t)p->count, sizeof(double));
    cleanup_mem int64_t *drawn = mem_array((size_t)draws, sizeof(*drawn));
    if (sums == NULL || drawn == NULL) {
        return err_no_memory(err);
    }
    double total = 0;
    for (int64_t i = 0; i < p->count; i++) {
        total += p->scores[i];
        sums[i] = total;
    }
    for (int64_t j = 0; j < draws; j++) {
        drawn[j] = sort_first_above(sums, p->count, rng_uniform(rng) * total);
    }
    sort_i64(drawn, draws);
    int rc = 0;
    for (int64_t j = 0; rc == 0 && j < draws; j++) {
        const double chance = p->scores[drawn[j]] / total;
        rc = center_picks_add(ret, row_at(p, drawn[j]), p->each / ((double)draws * chance), err);
    }
    return rc;
}

/* The c with sum_i min(1, c sizes[i]) = wanted, wanted < count: things with chance 1 are set aside
 * until the rest need none. */
static double find_factor(const double *sizes, int64_t count, int64_t wanted)
{
    double c = 0;
    int64_t sure = -1, sure_before;
    do {
        sure_before = sure;
        double rest = 0;
        sure = 0;
        for (int64_t i = 0; i < count; i++) {
            if (c * sizes[i] >= 1.0) {
                sure++;
            } else {
                rest += sizes[i];
            }
        }
        if (sure >= wanted || !(rest > 0)) {
            return c;
        }
        const double next = (double)(wanted - sure) / rest;
        c = next > c ? next : c;
    } while (sure != sure_before);
    return c;
}

static int compare_ordered(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
                            : (a->at > b->at) - (a->at < b->at);
}

static double pareto_key(double chance, struct rng *rng)
{
    const double u = rng_uniform(rng);
    return u / (1.0 - u) * ((1.0 - chance) / chance);
}

/* Keys up to `most`; room is made for `room` of them. */
static int64_t gather(const double *sizes, int64_t count, double c, double most, struct rng rng,
                      struct ordered *ret)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        const double chance = fmin(c * sizes[i], 1.0);
        const double key = pareto_key(chance, &rng);
        if (key <= most) {
            if (ret != NULL) {
                ret[found] = (struct ordered){.key = key, .at = i, .chance = chance};
            }
            found++;
        }
    }
    return found;
}

int64_t order_draw(const double *sizes, int64_t count, int64_t wanted, struct rng *rng,
                   struct ordered **ret, struct err *err)
{
    const double c = wanted < count ? find_factor(sizes, count, wanted) : INFINITY;
    double most = KEY_MOST;
    int64_t found = gather(sizes, count, c, most, *rng, NULL);
    while (found < wanted && found < count && isfinite(most)) {
        most *= 4.0;
        found = gather(sizes, count, c, most, *rng, NULL);
    }
    struct ordered *list = mem_array((size_t)found, sizeof(*list));
    if (list == NULL) {
        return err_no_memory(err);
    }
    gather(sizes, count, c, most, *rng, list);
    rng->position += (uint64_t)count;
    qsort(list, (size_t)found, sizeof(*list), compare_ordered);
    *ret = list;
    return found;
}

int center_pass_draw_exactly(const struct center_pass *p, int64_t wanted, struct rng *rng,
                             struct center_picks *ret, struct err *err)
{
    struct ordered *list = NULL;
    const int64_t found = order_draw(p->scores, p->count, wanted, rng, &list, err);
    int rc = found < 0 ? (int)found : 0;
    for (int64_t j = 0; rc == 0 && j < found; j++) {
        rc = center_picks_add(ret, row_at(p, list[j].at), p->each / list[j].chance, err);
    }
    mem_free(list);
    return rc;
}

int center_picks_read(struct center_picks *k, const struct center_task *task, int64_t most,
                      struct center_set *set, struct err *err)
{
    const struct row_source *source = task->rows;
    const size_t size = (size_t)source->d * dtype_size(source->dtype);
    const int64_t left = k->count - k->next;
    int64_t count = most - set->m < left ? most - set->m : left;
    count = count < PASS_ROWS ? count : PASS_ROWS;
    if (count <= 0) {
        return 1;
    }
    cleanup_mem char *X = mem_array((size_t)count, size);
    if (X == NULL) {
        return err_no_memory(err);
    }
    int rc = source->read(source, 0, k->rows + k->next, count, X, NULL, err);
    for (int64_t i = 0; rc >= 0 && i < count; i++, k->next++) {
        rc = center_set_add(set, X + (size_t)i * size, k->rows[k->next], k->stands[k->next], err);
    }
    return rc < 0 ? rc : set->m == most || k->next == k->count;
}

void center_picks_settle(const struct center_picks *k, int64_t wanted, struct center_set *set)
{
    for (int64_t j = 0; k->next > wanted && j < set->m; j++) {
        set->stands[j] *= (double)wanted / (double)k->next;
    }
}
