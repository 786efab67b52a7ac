/*
 * What the engine's unit tests share: data sets in memory, job specs from their JSON text, and the
 * reference backend. Failures end the test.
 */
#pragma once

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/backend.h"
#include "support/assert.h"
#include "wire/names.h"
#include "wire/spec.h"

static inline char **fixture_names(const char *prefix, int64_t count)
{
    char **names = mem_zarray((size_t)count, sizeof(*names));
    assert_non_null(names);
    for (int64_t j = 0; j < count; j++) {
        char name[32];
        snprintf(name, sizeof(name), "%s%d", prefix, (int)j);
        names[j] = mem_strdup(name);
    }
    return names;
}

/* Columns x0 .. x{columns-1}, the last one the target; classes = 0: regression, else the labels are
 * c0 .. c{classes-1}. */
static inline struct dataset_info fixture_info(int64_t rows, int64_t columns, int64_t classes)
{
    struct dataset_info info = {
        .rows = rows,
        .columns = columns,
        .dtype = DTYPE_F64,
        .column_names = fixture_names("x", columns),
        .targets = 1,
        .target_columns = mem_zarray(1, sizeof(int64_t)),
        .task = classes > 0 ? TASK_CLASSIFICATION : TASK_REGRESSION,
        .classes = classes,
        .class_labels = classes > 0 ? fixture_names("c", classes) : NULL,
    };
    info.target_columns[0] = columns - 1;
    return info;
}

/* The same with data: `values` [rows, columns] is copied. */
static inline struct dataset *fixture_dataset(const double *values, int64_t rows, int64_t columns,
                                              int64_t classes)
{
    struct dataset *ds = mem_zalloc(sizeof(*ds));
    assert_non_null(ds);
    ds->info = fixture_info(rows, columns, classes);
    ds->data = mem_dup(values, (size_t)(rows * columns) * sizeof(double));
    assert_non_null(ds->data);
    return ds;
}

/* y = 5 + 3 sin(x0) + x1 + noise; one constant feature; x3 a mask of every fifth row. */
static inline struct dataset *fixture_smooth(int64_t rows, uint64_t seed)
{
    struct rng rng = rng_new(seed, RNG_TEST);
    double *v = mem_array((size_t)rows, 5 * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        double *x = v + 5 * i;
        x[0] = 2 * rng_normal(&rng);
        x[1] = 10 + 0.1 * rng_normal(&rng);
        x[2] = 7;
        x[3] = (double)(i % 5 == 0);
        x[4] = 5 + 3 * sin(x[0]) + x[1] + 0.01 * rng_normal(&rng);
    }
    struct dataset *ds = fixture_dataset(v, rows, 5, 0);
    mem_free(v);
    return ds;
}

static inline void fixture_rename(char **name, const char *to)
{
    mem_free(*name);
    *name = mem_strdup(to);
}

static inline void fixture_dataset_free(struct dataset *ds)
{
    mem_free((void *)ds->data);
    dataset_info_deinit(&ds->info);
    mem_free(ds);
}

/* `fields` continue the document, e.g. "\"seed\":1"; "" takes every default. Single quotes stand
 * for double ones. */
static inline struct job_spec *fixture_spec_read(const char *fields)
{
    char text[2048];
    snprintf(text, sizeof(text), "{'model':'m','dataset':'ds_01HZXW5GQ0ABCDEFGHJKMNPQRS'%s%s}",
             fields[0] != '\0' ? "," : "", fields);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    struct err err = {.code = ERR_OK};
    struct json *j = NULL;
    struct job_spec *spec = NULL;
    if (json_parse(text, strlen(text), &j, &err) < 0 || job_spec_read(j, &spec, &err) < 0) {
        fail_msg("%s: %s %s", text, err.pointer, err.detail);
    }
    json_free(j);
    return spec;
}

static inline struct backend *fixture_backend(void)
{
    static const struct backend_provider *const providers[] = {&backend_cpu_provider, NULL};
    struct backend *be = NULL;
    assert_int_equal(backend_open(providers, "cpu", 2, &be, NULL), 0);
    return be;
}
