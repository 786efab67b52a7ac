#include "engine/methods/gaussian_process/inducing_sums.h"

enum { PLACES = 4, SUMS = 2 };

int inducing_bad_place(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "The checkpoint's array \"inducing.places\" is out of range.");
}

int inducing_save(const struct inducing_sums *s, struct state *to, struct err *err)
{
    struct backend *be = s->p.be;
    const int64_t places[PLACES] = {s->tile, s->row, s->done, s->solved};
    const double sums[SUMS] = {s->log_weights, s->trace};
    int r = state_put_ints(to, "inducing.places", places, PLACES, err);
    r = r == 0 ? state_put_reals(to, "inducing.sums", sums, SUMS, err) : r;
    r = r == 0 ? state_put_reals(to, "inducing.targets", s->targets, s->p.t, err) : r;
    r = r == 0 ? state_put_mat(to, "inducing.c", be, &s->c, err) : r;
    r = r == 0 ? state_lend_mats(to, "inducing.G", be, &s->G, 1, err) : r;
    r = r == 0 && s->solved ? state_put_mat(to, "inducing.a", be, &s->a, err) : r;
    return r == 0 && s->fitc && s->done > 0
               ? state_put_reals(to, "inducing.weights", s->weights, s->done, err)
               : r;
}

static bool plausible(const struct inducing_sums *s, const int64_t *places)
{
    const int64_t tiles = rowset_tiles(s->p.restricted->rows);
    return places[0] >= 0 && places[0] <= tiles && places[1] >= 0 && places[2] >= places[1] &&
           places[2] <= s->p.n && (places[0] == tiles) == (places[2] == s->p.n) &&
           (places[3] == 0 || places[2] == s->p.n);
}

int inducing_load(struct inducing_sums *s, const struct state *from, struct err *err)
{
    struct backend *be = s->p.be;
    int64_t places[PLACES];
    double sums[SUMS];
    int r = state_get_ints(from, "inducing.places", places, PLACES, err);
    if (r == 0 && !plausible(s, places)) {
        r = inducing_bad_place(err);
    }
    r = r == 0 ? state_get_reals(from, "inducing.sums", sums, SUMS, err) : r;
    r = r == 0 ? state_get_reals(from, "inducing.targets", s->targets, s->p.t, err) : r;
    r = r == 0 ? state_get_mat(from, "inducing.c", be, &s->c, err) : r;
    r = r == 0 ? state_get_mats(from, "inducing.G", be, &s->G, 1, err) : r;
    r = r == 0 && places[3] != 0 ? state_get_mat(from, "inducing.a", be, &s->a, err) : r;
    if (r == 0 && s->fitc && places[2] > 0) {
        r = state_get_reals(from, "inducing.weights", s->weights, places[2], err);
    }
    if (r < 0) {
        return r;
    }
    s->tile = places[0];
    s->row = places[1];
    s->done = places[2];
    s->solved = places[3] != 0;
    s->log_weights = sums[0];
    s->trace = sums[1];
    return 0;
}
