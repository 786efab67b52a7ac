#include "engine/methods/gaussian_process/kmcg.h"
#include "engine/methods/methods.h"

enum { COUNTERS = 4 };

/* Directions and products stay as they are from one step to the next: they are lent. */
int kmcg_save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t count = s->span.count;
    const int64_t counters[COUNTERS] = {s->iteration, count, s->ended,
                                        s->begun ? 2 + s->better : s->rest != NULL};
    const struct mat both[2] = {span_S(&s->span), span_Z(&s->span)};
    const struct mat G = mat_cols(mat_rows(s->G, 0, count), 0, count);
    const struct mat L = mat_cols(mat_rows(s->L, 0, count), 0, count);
    const struct mat c = mat_rows(s->c, 0, count), b = mat_rows(s->b, 0, count);
    int r = state_put_ints(to, "kmcg.counters", counters, COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "kmcg.residual", &s->residual, 1, err) : r;
    r = r == 0 ? state_lend_mats(to, "kmcg.directions", be, both, 2, err) : r;
    r = r == 0 ? state_put_mat(to, "kmcg.G", be, &G, err) : r;
    r = r == 0 ? state_put_mat(to, "kmcg.L", be, &L, err) : r;
    r = r == 0 ? state_put_mat(to, "kmcg.c", be, &c, err) : r;
    r = r == 0 ? state_put_mat(to, "kmcg.b", be, &b, err) : r;
    return r == 0 && s->begun ? solver_pcg_ops.save(s->rest, to, err) : r;
}

static bool plausible(const struct solver *s, const int64_t *counters)
{
    return counters[0] >= 1 && counters[3] >= 0 && counters[3] <= 3 && counters[1] >= 1 &&
           counters[1] <= s->span.room &&
           (counters[2] == 0 || counters[2] == REASON_CONVERGED || counters[2] == REASON_BREAKDOWN);
}

static int load_matrices(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t count = s->span.count;
    const struct mat both[2] = {span_S(&s->span), span_Z(&s->span)};
    const struct mat G = mat_cols(mat_rows(s->G, 0, count), 0, count);
    const struct mat L = mat_cols(mat_rows(s->L, 0, count), 0, count);
    const struct mat c = mat_rows(s->c, 0, count), b = mat_rows(s->b, 0, count);
    int r = state_get_mats(from, "kmcg.directions", be, both, 2, err);
    r = r == 0 ? state_get_mat(from, "kmcg.G", be, &G, err) : r;
    r = r == 0 ? state_get_mat(from, "kmcg.L", be, &L, err) : r;
    r = r == 0 ? state_get_mat(from, "kmcg.c", be, &c, err) : r;
    return r == 0 ? state_get_mat(from, "kmcg.b", be, &b, err) : r;
}

/* The coefficients and the residual follow. */
int kmcg_load(struct solver *s, const struct state *from, struct err *err)
{
    int64_t counters[COUNTERS];
    double residual = 0;
    int r = state_get_ints(from, "kmcg.counters", counters, COUNTERS, err);
    if (r == 0 && !plausible(s, counters)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"kmcg.counters\" is out of range.");
    }
    r = r == 0 ? state_get_reals(from, "kmcg.residual", &residual, 1, err) : r;
    if (r < 0) {
        return r;
    }
    s->iteration = counters[0];
    s->span.count = counters[1];
    r = load_matrices(s, from, err);
    r = r == 0 ? kmcg_solve_back(s, err) : r;
    r = r == 0 ? kmcg_take_residual(s, err) : r;
    s->residual = residual;
    r = r == 0 && counters[3] != 0 ? kmcg_go_on(s, err) : r;
    s->begun = counters[3] >= 2;
    s->better = counters[3] == 3;
    s->ended = (int)counters[2];
    return r == 0 && s->begun ? solver_pcg_ops.load(s->rest, from, err) : r;
}
