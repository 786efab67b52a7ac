#include "worker/faulty.h"

#include <unistd.h>

/* The operations stand first in struct faulty. */
static struct faulty *of(struct backend *be)
{
    return (struct faulty *)(uintptr_t)be->ops;
}

static int check(struct faulty *f, struct err *err)
{
    f->broken = f->broken || unlink(f->trigger) == 0;
    return f->broken ? err_set(err, ERR_DEVICE,
                               "The device could not go on: an illegal access, made up for a test.")
                     : 0;
}

static int faulty_col_dots(struct backend *be, const struct mat *A, const struct mat *B,
                           double *ret, struct err *err)
{
    struct faulty *f = of(be);
    const int r = check(f, err);
    return r < 0 ? r : f->real->col_dots(be, A, B, ret, err);
}

static int faulty_mat_get(struct backend *be, const struct mat *src, double *dst, int64_t ld,
                          struct err *err)
{
    struct faulty *f = of(be);
    const int r = check(f, err);
    return r < 0 ? r : f->real->mat_get(be, src, dst, ld, err);
}

void faulty_install(struct faulty *f, struct backend *be, const char *trigger)
{
    *f = (struct faulty){.ops = *be->ops, .real = be->ops, .trigger = trigger};
    f->ops.col_dots = faulty_col_dots;
    f->ops.mat_get = faulty_mat_get;
    be->ops = &f->ops;
}

void faulty_restore(struct faulty *f, struct backend *be)
{
    be->ops = f->real;
}
