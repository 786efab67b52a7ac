#include "server/api/job_data.h"

#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/described.h"
#include "server/offload.h"
#include "store/datasets.h"

/* The description of a data set that the spec names at `pointer`. */
static int find(const struct app *app, const char *id, const char *pointer,
                const struct dataset_info **ret, struct err *err)
{
    const int r = described_find(app->described, id, ret, err);
    return r != -ERR_NOT_FOUND
               ? r
               : err_at(err, ERR_INVALID, pointer, "There is no data set \"%s\".", id);
}

int job_data_find(const struct app *app, const struct job_spec *spec, struct job_data *ret,
                  struct err *err)
{
    *ret = (struct job_data){.train = NULL};
    int r = find(app, spec->dataset, "#/dataset", &ret->train, err);
    r = r == 0 ? job_spec_check_columns(spec, ret->train, err) : r;
    if (r == 0 && spec->test.kind == SPEC_TEST_DATASET) {
        r = find(app, spec->test.dataset, "#/test/dataset", &ret->test, err);
        r = r == 0 ? job_spec_check_tested(spec, ret->train, ret->test, err) : r;
    }
    if (r == 0 && spec->centers.dataset[0] != '\0') {
        r = find(app, spec->centers.dataset, "#/centers/dataset", &ret->centers, err);
        r = r == 0 ? job_spec_check_centers(spec, ret->train, ret->centers, err) : r;
    }
    return r;
}

/* ---- before: descriptions that take long to read ---- */

enum { NAMED_MAX = 3 }; /* train, test, centers; of described.h's newest few */
_Static_assert(NAMED_MAX <= DESCRIBED_LEAST, "All of them are kept until the request goes on.");

struct reading {
    void (*then)(struct request *rq);
    int count;
    struct {
        struct dataset_row row;
        struct dataset_info info;
        int rc;
    } of[NAMED_MAX];
};

static bool is_in(const struct reading *r, const char *id)
{
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->of[i].row.id, id) == 0) {
            return true;
        }
    }
    return false;
}

/* What cannot be read is found to be so by job_data_find. */
static void add(struct reading *r, const struct app *app, const char *id)
{
    struct dataset_row *row = &r->of[r->count].row;
    if (id[0] == '\0' || is_in(r, id) || described_has(app->described, id) ||
        datasets_get(app->store, id, row, NULL) != 0) {
        return;
    }
    if (strlen(row->info) < DESCRIBED_LONG) {
        dataset_row_deinit(row);
    } else {
        r->count++;
    }
}

static void read_work(void *context)
{
    struct reading *r = context;
    for (int i = 0; i < r->count; i++) {
        r->of[i].rc = described_read(r->of[i].row.info, &r->of[i].info, NULL);
    }
}

static void read_done(struct app *app, struct request *rq, void *context)
{
    struct reading *r = context;
    for (int i = 0; i < r->count; i++) {
        if (r->of[i].rc == 0) {
            described_keep(app->described, r->of[i].row.id, &r->of[i].info);
        }
        dataset_row_deinit(&r->of[i].row);
    }
    if (rq != NULL) {
        r->then(rq);
    }
    mem_free(r);
}

bool job_data_read_ahead(struct request *rq, const struct job_spec *spec,
                         void (*then)(struct request *rq))
{
    static const struct offload_ops ops = {.work = read_work, .done = read_done};
    struct reading *r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        return false;
    }
    r->then = then;
    add(r, rq->app, spec->dataset);
    if (spec->test.kind == SPEC_TEST_DATASET) {
        add(r, rq->app, spec->test.dataset);
    }
    add(r, rq->app, spec->centers.dataset);
    if (r->count > 0 && offload(rq->app, rq, &ops, r, NULL) == 0) {
        return true;
    }
    for (int i = 0; i < r->count; i++) {
        dataset_row_deinit(&r->of[i].row);
    }
    mem_free(r);
    return false;
}
