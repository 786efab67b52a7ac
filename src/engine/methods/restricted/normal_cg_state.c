#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/methods/restricted/normal_cg_parts.h"

enum { COUNTERS = 6, COLUMN_NUMBERS = 8 };

static const char tolerance_key[] = "deepened_tolerance";

struct array {
    const char *name;
    const struct mat *mat;
};

/* The matrices of a checkpoint. Q counts only where the iteration has variables of its own. */
static int arrays_of(const struct solver *s, struct array ret[NORMAL_CG_MATRICES])
{
    const struct array all[NORMAL_CG_MATRICES] = {
        {"B", &s->B}, {"R", &s->R},         {"P", &s->P},
        {"V", &s->V}, {"best", &s->best_B}, {"best_residual", &s->best_R},
        {"Q", &s->Z},
    };
    for (int i = 0; i < NORMAL_CG_MATRICES; i++) {
        ret[i] = all[i];
    }
    return s->method.variables != NULL ? NORMAL_CG_MATRICES : NORMAL_CG_MATRICES - 1;
}

static void put_columns(const struct solver *s, double *columns)
{
    const int64_t t = s->p.t;
    for (int64_t j = 0; j < t; j++) {
        columns[j] = s->c.relative[j];
        columns[t + j] = s->c.best[j];
        columns[2 * t + j] = s->c.omega[j];
        columns[3 * t + j] = s->c.frozen[j];
        columns[4 * t + j] = s->c.norm[j];
        columns[5 * t + j] = s->doubt[j];
        columns[6 * t + j] = s->falls[j];
        columns[7 * t + j] = s->c.broken[j];
    }
}

static void take_columns(struct solver *s, const double *columns)
{
    const int64_t t = s->p.t;
    for (int64_t j = 0; j < t; j++) {
        s->c.relative[j] = columns[j];
        s->c.best[j] = columns[t + j];
        s->c.omega[j] = columns[2 * t + j];
        s->c.frozen[j] = columns[3 * t + j] != 0;
        s->c.norm[j] = columns[4 * t + j];
        s->doubt[j] = columns[5 * t + j];
        s->falls[j] = columns[6 * t + j];
        s->c.broken[j] = columns[7 * t + j] != 0;
    }
}

/* A tolerance that is the job's own is not in a checkpoint. */
static int put_tolerance(const struct solver *s, struct state *to, struct err *err)
{
    char text[40];
    snprintf(text, sizeof(text), "%a", s->tolerance);
    return s->deepened ? state_put_text(to, tolerance_key, text, err) : 0;
}

static int take_tolerance(struct solver *s, const struct state *from, struct err *err)
{
    const char *text = state_text(from, tolerance_key);
    if (text == NULL) {
        return 0;
    }
    const double tolerance = strtod(text, NULL);
    if (!(tolerance > 0 && tolerance <= s->tolerance)) {
        return err_set(err, ERR_CORRUPT, "The checkpoint's text \"%s\" is out of range.",
                       tolerance_key);
    }
    s->tolerance = tolerance;
    s->deepened = true;
    return 0;
}

int normal_cg_save(const struct solver *s, struct state *to, struct err *err)
{
    const int64_t t = s->p.t;
    const int64_t counters[COUNTERS] = {s->iteration, s->since_check, s->stale_checks,
                                        s->ended,     s->stage,       s->pass.tile};
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    put_columns(s, columns);
    struct array all[NORMAL_CG_MATRICES];
    const int count = arrays_of(s, all);
    int r = state_put_ints(to, "counters", counters, COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    for (int i = 0; r == 0 && i < count; i++) {
        r = state_put_mat(to, all[i].name, s->p.be, all[i].mat, err);
    }
    return r == 0 ? put_tolerance(s, to, err) : r;
}

/* What save may have left. */
static bool plausible(const struct solver *s, const int64_t *c)
{
    const bool reason = c[3] == 0 || c[3] == REASON_CONVERGED || c[3] == REASON_STAGNATED ||
                        c[3] == REASON_BREAKDOWN;
    return reason && c[0] >= 0 && c[1] >= 0 && c[2] >= 0 && c[2] <= NORMAL_CG_STALE_CHECKS &&
           c[4] >= 0 && c[4] < STAGES && c[5] >= 0 && c[5] < rowset_tiles(s->p.restricted->rows);
}

static void take_counters(struct solver *s, const int64_t *counters)
{
    s->iteration = counters[0];
    s->since_check = counters[1];
    s->stale_checks = (int)counters[2];
    s->ended = (int)counters[3];
    s->stage = (enum stage)counters[4];
    s->pass.tile = counters[5];
    s->given = true;
}

int normal_cg_load(struct solver *s, const struct state *from, struct err *err)
{
    const int64_t t = s->p.t;
    int64_t counters[COUNTERS];
    cleanup_mem double *columns = mem_array((size_t)t, COLUMN_NUMBERS * sizeof(double));
    if (columns == NULL) {
        return err_no_memory(err);
    }
    struct array all[NORMAL_CG_MATRICES];
    const int count = arrays_of(s, all);
    int r = state_get_ints(from, "counters", counters, COUNTERS, err);
    if (r == 0 && !plausible(s, counters)) {
        r = err_set(err, ERR_CORRUPT, "The checkpoint's array \"counters\" is out of range.");
    }
    r = r == 0 ? state_get_reals(from, "columns", columns, COLUMN_NUMBERS * t, err) : r;
    for (int i = 0; r == 0 && i < count; i++) {
        r = state_get_mat(from, all[i].name, s->p.be, all[i].mat, err);
    }
    r = r == 0 ? take_tolerance(s, from, err) : r;
    if (r == 0) {
        take_counters(s, counters);
        take_columns(s, columns);
    }
    return r;
}
