#include "base/mem.h"
#include "engine/checkpoint.h"
#include "engine/methods/full/pcg.h"
#include "engine/precond.h"

enum { COUNTERS = 6, COLUMN_NUMBERS = 4 };

int pcg_save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t t = s->p.t;
    const int64_t counters[COUNTERS] = {s->iteration,
                                        s->since_check,
                                        s->stale_checks,
                                        s->ended,
                                        s->wide ? 1 + s->wide_from_start : 0,
                                        s->strict};
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    for (int64_t j = 0; j < t; j++) {
        columns[j] = s->c.relative[j];
        columns[t + j] = s->c.best[j];
        columns[2 * t + j] = s->c.omega[j];
        columns[3 * t + j] = s->c.frozen[j];
    }
    int r = state_put_ints(to, "counters", counters, COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "looked", &s->looked, 1, err) : r;
    r = r == 0 ? state_put_reals(to, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    r = r == 0 ? state_put_mat(to, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_put_mat(to, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_put_mat(to, "P", s->p.be, &s->P, err) : r;
    r = r == 0 ? checkpoint_put_rank(to, s->precond->most != NULL ? s->precond->most(s->M) : 0, err)
               : r;
    if (r < 0 || s->precond->save == NULL) {
        return r;
    }
    const int64_t given = pcg_usable(s);
    r = state_put_ints(to, "given", &given, 1, err);
    return r == 0 ? s->precond->save(s->M, to, err) : r;
}

/* What save may have left. */
static bool plausible(const struct solver *s, const int64_t *counters)
{
    const int64_t ended = counters[3];
    const bool reason = ended == 0 || ended == REASON_CONVERGED || ended == REASON_STAGNATED ||
                        ended == REASON_BREAKDOWN;
    return reason && counters[0] >= 0 && counters[1] >= 0 && counters[2] >= 0 &&
           counters[2] <= PCG_STALE_CHECKS && counters[4] >= 0 && counters[4] <= 2 &&
           (counters[4] == 0 || s->p.exact != NULL);
}

/* A column has omega > 0 as soon as it has a direction. None has before the preconditioner of a
 * solve that was given coefficients is built. */
static void take_numbers(struct solver *s, const int64_t *counters, const double *columns)
{
    const int64_t t = s->p.t;
    s->iteration = counters[0];
    s->since_check = counters[1];
    s->stale_checks = (int)counters[2];
    s->ended = (int)counters[3];
    s->strict = counters[5] != 0;
    for (int64_t j = 0; j < t; j++) {
        s->c.relative[j] = columns[j];
        s->c.best[j] = columns[t + j];
        s->c.omega[j] = columns[2 * t + j];
        s->c.frozen[j] = columns[3 * t + j] != 0;
        s->resumed = s->resumed || s->c.omega[j] > 0;
    }
}

/* A checkpoint of a building phase need not have coefficients. */
static int load_preconditioner(struct solver *s, const struct state *from, struct err *err)
{
    int64_t given = 0;
    const int r = state_get_ints(from, "given", &given, 1, err);
    s->given = given != 0;
    return r == 0 ? s->precond->load(s->M, from, err) : r;
}

int pcg_load(struct solver *s, const struct state *from, struct err *err)
{
    const int64_t t = s->p.t;
    int64_t counters[COUNTERS];
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    int r = state_get_ints(from, "counters", counters, COUNTERS, err);
    if (r == 0 && !plausible(s, counters)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"counters\" is out of range.");
    }
    r = r == 0 ? state_get_reals(from, "looked", &s->looked, 1, err) : r;
    r = r == 0 ? state_get_reals(from, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    r = r == 0 ? state_get_mat(from, "B", s->p.be, &s->B, err) : r;
    r = r == 0 ? state_get_mat(from, "R", s->p.be, &s->R, err) : r;
    r = r == 0 ? state_get_mat(from, "P", s->p.be, &s->P, err) : r;
    if (r == 0) {
        take_numbers(s, counters, columns);
        s->warm = false;
        s->given = true;
    }
    if (r == 0 && counters[4] != 0) {
        s->wide = true;
        s->wide_from_start = counters[4] == 2;
        s->X = s->p.exact;
        r = s->p.widened != NULL ? s->p.widened(s->p.widened_context, err) : 0;
    }
    return r == 0 && s->precond->load != NULL ? load_preconditioner(s, from, err) : r;
}
