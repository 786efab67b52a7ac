#include "server/api/job_data.h"

#include "server/app.h"
#include "server/described.h"

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
