/* The rows of a fit as sources (row_source.h): standardised from the mapped data set whenever they
 * are read, by the arithmetic of fit_data. Only the lists of row numbers are in memory. */
#pragma once

#include "engine/data/fit_data.h"
#include "engine/row_source.h"

/* Training rows with their centered and scaled targets. `f` is borrowed. */
struct row_source fit_rows_train(const struct fit_data *f);

/* Test rows; they have no targets (t = 0). */
struct row_source fit_rows_test(const struct fit_data *f);

/* Every row of a third data set, which has the fit's features by name. */
struct fit_rows_file {
    const struct fit_data *fit;
    const struct dataset *file;
    int64_t *features; /* [d] its columns */
};
int fit_rows_file_init(struct fit_rows_file *r, const struct fit_data *f,
                       const struct dataset *file, struct err *err);
void fit_rows_file_deinit(struct fit_rows_file *r); /* accepts a zeroed one */
struct row_source fit_rows_file(const struct fit_rows_file *r);
