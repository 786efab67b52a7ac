#include "engine/methods/eigenpro/eigenpro34.h"

/* Rows of w that hold something. */
static int64_t temporary(const struct solver *s)
{
    return s->delayed ? s->at.next - s->at.window : 0;
}

int eigenpro34__save(const struct solver *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const struct mat w = mat_rows(s->w, 0, temporary(s));
    struct eigenpro34_counters at = s->at;
    at.rank = s->av.rows;
    at.batch = s->batch;
    int r = state_put_ints(to, "counters", (const int64_t *)&at, EIGENPRO34_COUNTERS, err);
    r = r == 0 ? state_put_reals(to, "columns", s->arrays, EIGENPRO34_REALS * s->t, err) : r;
    r = r == 0 ? state_put_reals(to, "total", s->total, s->t, err) : r;
    const struct {
        const char *name;
        const struct mat *m;
    } all[] = {
        {"coefficients", &s->B}, {"gradient", &s->G},  {"change", &s->D},
        {"outside", &s->Q},      {"drift", &s->drift}, {"sum", &s->HD},
        {"place", &s->V},        {"moments", &s->av},  {"temporary", &w},
    };
    for (int i = 0; r == 0 && i < 9; i++) {
        r = all[i].m->rows > 0 ? state_put_mat(to, all[i].name, be, all[i].m, err) : 0;
    }
    return r == 0 ? conjugate_save(s->outer, to, err) : r;
}

static bool plausible(const struct solver *s, const struct eigenpro34_counters *c)
{
    const int64_t n = s->p.n;
    const bool counts = c->epoch >= 0 && c->draws >= 0 && c->stale >= 0 && c->halvings >= 0 &&
                        c->halvings <= EIGENPRO34_HALVINGS &&
                        (c->checked | c->given | c->exact) <= 1 && c->checked >= 0 &&
                        c->given >= 0 && c->exact >= 0;
    const bool places = c->stage >= 0 && c->stage < EP_STAGES && c->window >= 0 &&
                        c->next >= c->window && c->next <= n && c->tile >= 0 &&
                        c->tile < rowset_tiles(s->p.restricted->rows);
    const bool sizes = c->rank >= 0 && c->rank <= s->c && c->batch >= 0 && c->next - c->window <= n;
    const bool reason =
        c->ended == 0 || c->ended == REASON_CONVERGED || c->ended == REASON_STAGNATED;
    return counts && places && sizes && reason;
}

/* What has a size that the building finds out waits for it. */
static int load_sized(struct solver *s, const struct state *from, struct err *err)
{
    const struct {
        const char *name;
        struct mat *m;
        int64_t rows, cols;
    } all[] = {{"moments", &s->held_av, s->at.rank, 2 * s->t},
               {"temporary", &s->held_w, temporary(s), s->t}};
    int r = 0;
    for (int i = 0; r == 0 && i < 2; i++) {
        if (all[i].rows > 0) {
            r = s->p.be->ops->mat_new(s->p.be, s->p.dtype, all[i].rows, all[i].cols, all[i].m, err);
            r = r == 0 ? state_get_mat(from, all[i].name, s->p.be, all[i].m, err) : r;
        }
    }
    return r;
}

int eigenpro34__load(struct solver *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    struct eigenpro34_counters at;
    int r = state_get_ints(from, "counters", (int64_t *)&at, EIGENPRO34_COUNTERS, err);
    if (r == 0 && !plausible(s, &at)) {
        r = err_set(err, ERR_CORRUPT, "The saved state of the solver holds impossible counters.");
    }
    r = r == 0 ? state_get_reals(from, "columns", s->arrays, EIGENPRO34_REALS * s->t, err) : r;
    if (r == 0 && state_has(from, "total")) { /* earlier versions had none */
        r = state_get_reals(from, "total", s->total, s->t, err);
    }
    const struct {
        const char *name;
        const struct mat *m;
    } all[] = {
        {"coefficients", &s->B}, {"gradient", &s->G}, {"change", &s->D}, {"outside", &s->Q},
        {"drift", &s->drift},    {"sum", &s->HD},     {"place", &s->V},
    };
    for (int i = 0; r == 0 && i < 7; i++) {
        r = state_get_mat(from, all[i].name, be, all[i].m, err);
    }
    r = r == 0 ? conjugate_load(s->outer, from, err) : r;
    if (r < 0) {
        return r;
    }
    s->at = at;
    s->pass.tile = at.tile;
    s->projecting.exact = at.exact;
    s->loaded = true;
    return load_sized(s, from, err);
}
