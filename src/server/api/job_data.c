#include "server/api/job_data.h"

#include <string.h>

#include "base/json.h"
#include "server/app.h"
#include "store/datasets.h"

void job_data_deinit(struct job_data *d)
{
    dataset_info_deinit(&d->train);
    dataset_info_deinit(&d->test);
    dataset_info_deinit(&d->centers);
    *d = (struct job_data){.tested = false};
}

/* The description of a data set that the spec names at `pointer`. */
static int find(const struct app *app, const char *id, const char *pointer,
                struct dataset_info *ret, struct err *err)
{
    struct dataset_row row;
    if (datasets_get(app->store, id, &row, err) < 0) {
        return err->code == ERR_NOT_FOUND
                   ? err_at(err, ERR_INVALID, pointer, "There is no data set \"%s\".", id)
                   : -(int)err->code;
    }
    cleanup_json struct json *j = NULL;
    int r = json_parse(row.info, strlen(row.info), &j, err);
    if (r == 0) {
        r = dataset_info_from_json(j, ret, err);
    }
    dataset_row_deinit(&row);
    return r;
}

int job_data_find(const struct app *app, const struct job_spec *spec, struct job_data *ret,
                  struct err *err)
{
    *ret = (struct job_data){.tested = spec->test.kind == SPEC_TEST_DATASET,
                             .centered = spec->centers.dataset[0] != '\0'};
    int r = find(app, spec->dataset, "#/dataset", &ret->train, err);
    r = r == 0 ? job_spec_check_columns(spec, &ret->train, err) : r;
    if (r == 0 && ret->tested) {
        r = find(app, spec->test.dataset, "#/test/dataset", &ret->test, err);
        r = r == 0 ? job_spec_check_tested(spec, &ret->train, &ret->test, err) : r;
    }
    if (r == 0 && ret->centered) {
        r = find(app, spec->centers.dataset, "#/centers/dataset", &ret->centers, err);
        r = r == 0 ? job_spec_check_centers(spec, &ret->train, &ret->centers, err) : r;
    }
    return r;
}
