/* What was chosen, kept with checkpoints: another attempt, with another clock, could choose another
 * kernel, and the checkpoint would be of another problem. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/choice.h"

static const char key[] = "chosen", numbers_name[] = "choice",
                  bandwidths_name[] = "choice_bandwidths";

enum { NUMBERS = 7, NUMBERS_BEFORE = 6 }; /* without `plain` */

void choice_deinit(struct choice *c)
{
    c->bandwidths = mem_free(c->bandwidths);
}

int choice_save(const struct choice *c, int64_t d, const char *of, struct state *to,
                struct err *err)
{
    const double numbers[NUMBERS] = {(double)c->kernel, c->medians,         c->ridge,
                                     c->regularization, (double)c->centers, (double)c->hurry,
                                     c->plain ? 1 : 0};
    int r = state_put_text(to, key, of, err);
    r = r == 0 ? state_put_reals(to, numbers_name, numbers, NUMBERS, err) : r;
    return r == 0 && c->bandwidths != NULL
               ? state_put_reals(to, bandwidths_name, c->bandwidths, d, err)
               : r;
}

static bool is_whole(double v, double most)
{
    return v >= 0 && v <= most && v == floor(v);
}

static bool numbers_valid(const double *v)
{
    const bool numbers =
        v[1] > 0 && isfinite(v[1]) && v[2] >= 0 && isfinite(v[2]) && v[3] >= 0 && isfinite(v[3]);
    return numbers && is_whole(v[0], KERNEL_COUNT_ - 1) && is_whole(v[4], 1e15) &&
           is_whole(v[5], HURRY_MOST) && is_whole(v[6], 1);
}

static bool load_numbers(const struct state *from, double *v)
{
    v[NUMBERS_BEFORE] = 0;
    return (state_get_reals(from, numbers_name, v, NUMBERS, NULL) == 0 ||
            state_get_reals(from, numbers_name, v, NUMBERS_BEFORE, NULL) == 0) &&
           numbers_valid(v);
}

/* 1: there are none, or as many as features, and all are usable; *ret is the caller's. */
static int load_bandwidths(const struct state *from, int64_t d, double **ret, struct err *err)
{
    *ret = NULL;
    if (!state_has(from, bandwidths_name)) {
        return 1;
    }
    cleanup_mem double *b = mem_array((size_t)d, sizeof(double));
    if (b == NULL) {
        return err_no_memory(err);
    }
    bool valid = state_get_reals(from, bandwidths_name, b, d, NULL) == 0;
    for (int64_t j = 0; valid && j < d; j++) {
        valid = b[j] > 0 && isfinite(b[j]);
    }
    if (valid) {
        *ret = b;
        b = NULL;
    }
    return valid;
}

int choice_load(const struct state *from, int64_t d, const char *of, struct choice *ret,
                struct err *err)
{
    const char *made_on = state_text(from, key);
    double v[NUMBERS], *bandwidths;
    if (made_on == NULL || strcmp(made_on, of) != 0 || !load_numbers(from, v)) {
        return 0;
    }
    const int r = load_bandwidths(from, d, &bandwidths, err);
    if (r > 0) {
        *ret = (struct choice){.kernel = (enum kernel_id)(int)v[0],
                               .medians = v[1],
                               .bandwidths = bandwidths,
                               .ridge = v[2],
                               .regularization = v[3],
                               .centers = (int64_t)v[4],
                               .hurry = (int)v[5],
                               .plain = v[6] == 1};
    }
    return r;
}
