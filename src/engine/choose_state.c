/* What was chosen, kept with checkpoints: another attempt, with another clock, could choose another
 * kernel, and the checkpoint would be of another problem. */
#include <math.h>
#include <string.h>

#include "engine/choose.h"

static const char key[] = "chosen", numbers_name[] = "choice";

enum { NUMBERS = 6 };

int choice_save(const struct choice *c, const char *of, struct state *to, struct err *err)
{
    const double numbers[NUMBERS] = {(double)c->kernel, c->medians,         c->ridge,
                                     c->regularization, (double)c->centers, (double)c->hurry};
    const int r = state_put_text(to, key, of, err);
    return r == 0 ? state_put_reals(to, numbers_name, numbers, NUMBERS, err) : r;
}

static bool is_whole(double v, double most)
{
    return v >= 0 && v <= most && v == floor(v);
}

bool choice_load(const struct state *from, const char *of, struct choice *ret)
{
    const char *made_on = state_text(from, key);
    double v[NUMBERS];
    struct err err;
    if (made_on == NULL || strcmp(made_on, of) != 0 ||
        state_get_reals(from, numbers_name, v, NUMBERS, &err) < 0) {
        return false;
    }
    const bool numbers =
        v[1] > 0 && isfinite(v[1]) && v[2] >= 0 && isfinite(v[2]) && v[3] >= 0 && isfinite(v[3]);
    if (!numbers || !is_whole(v[0], KERNEL_COUNT_ - 1) || !is_whole(v[4], 1e15) ||
        !is_whole(v[5], HURRY_MOST)) {
        return false;
    }
    *ret = (struct choice){.kernel = (enum kernel_id)(int)v[0],
                           .medians = v[1],
                           .ridge = v[2],
                           .regularization = v[3],
                           .centers = (int64_t)v[4],
                           .hurry = (int)v[5]};
    return true;
}
