#include "engine/data/split.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

void split_deinit(struct split *s)
{
    mem_free(s->test);
    *s = (struct split){0};
}

/* Both lists in one piece of memory: test rows first. */
static int allocate(struct split *s, struct err *err)
{
    s->test = mem_array((size_t)s->m + (size_t)s->n, sizeof(*s->test));
    s->train = s->test != NULL ? s->test + s->m : NULL;
    return s->test != NULL ? 0 : err_no_memory(err);
}

static int64_t test_rows(int64_t rows, double fraction)
{
    if (!(fraction > 0)) {
        return 0;
    }
    const double wish = fmax(round(fraction * (double)rows), 1.0);
    return wish < (double)rows ? (int64_t)wish : rows - 1;
}

/* The first s->m of a shuffled list test: they are marked, and the list is written again in order.
 * A list as long as the data is all the memory that this takes. */
static int by_fraction(const struct job_spec *spec, int64_t rows, struct split *s, struct err *err)
{
    s->m = test_rows(rows, spec->test.fraction);
    s->n = rows - s->m;
    cleanup_mem unsigned char *tested = mem_zarray((size_t)(rows / CHAR_BIT + 1), 1);
    const int r = allocate(s, err);
    if (r < 0 || tested == NULL) {
        return err_no_memory(err);
    }
    int64_t *order = s->test;
    for (int64_t i = 0; i < rows; i++) {
        order[i] = i;
    }
    struct rng rng = rng_new((uint64_t)spec->seed, RNG_SPLIT);
    rng_shuffle(&rng, order, rows);
    for (int64_t i = 0; i < s->m; i++) {
        tested[order[i] / CHAR_BIT] |= (unsigned char)(1u << (order[i] % CHAR_BIT));
    }
    int64_t train = 0, test = 0;
    for (int64_t i = 0; i < rows; i++) {
        if ((tested[i / CHAR_BIT] >> (i % CHAR_BIT)) & 1u) {
            s->test[test++] = i;
        } else {
            s->train[train++] = i;
        }
    }
    return 0;
}

static int by_mask(const struct dataset *ds, int64_t mask, struct split *s, struct err *err)
{
    const int64_t rows = ds->info.rows;
    for (int64_t i = 0; i < rows; i++) {
        const double v = dataset_at(ds, i, mask);
        if (v != 0.0 && v != 1.0) {
            return err_at(err, ERR_INVALID, "#/test/mask",
                          "The mask column holds %g in row %" PRId64
                          "; it may hold 0 (train) and 1 (test) only.",
                          v, i + 1);
        }
        s->m += v == 1.0;
    }
    s->n = rows - s->m;
    if (s->n == 0) {
        return err_at(err, ERR_INVALID, "#/test/mask",
                      "The mask makes every row a test row; none is left to train on.");
    }
    const int r = allocate(s, err);
    int64_t train = 0, test = 0;
    for (int64_t i = 0; r == 0 && i < rows; i++) {
        if (dataset_at(ds, i, mask) == 1.0) {
            s->test[test++] = i;
        } else {
            s->train[train++] = i;
        }
    }
    return r;
}

static int whole(int64_t train_rows, int64_t test_rows_there, struct split *s, struct err *err)
{
    s->n = train_rows;
    s->m = test_rows_there;
    const int r = allocate(s, err);
    for (int64_t i = 0; r == 0 && i < s->n; i++) {
        s->train[i] = i;
    }
    for (int64_t i = 0; r == 0 && i < s->m; i++) {
        s->test[i] = i;
    }
    return r;
}

int split_make(const struct job_spec *spec, const struct columns *columns,
               const struct dataset *train_data, const struct dataset *test_data, struct split *ret,
               struct err *err)
{
    struct split s = {0};
    int r = 0;
    if (train_data->info.rows < 1) {
        return err_at(err, ERR_INVALID, "#/dataset", "The data set has no rows.");
    }
    switch (spec->test.kind) {
    case SPEC_TEST_MASK:
        r = by_mask(train_data, columns->mask, &s, err);
        break;
    case SPEC_TEST_DATASET:
        r = whole(train_data->info.rows, test_data->info.rows, &s, err);
        break;
    case SPEC_TEST_FRACTION:
        r = by_fraction(spec, train_data->info.rows, &s, err);
        break;
    }
    if (r < 0) {
        split_deinit(&s);
        return r;
    }
    *ret = s;
    return 0;
}
