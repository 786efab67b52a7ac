#include "engine/model/model.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "wire/model_file.h"
#include "wire/names.h"

struct model *model_free(struct model *m)
{
    if (m == NULL) {
        return NULL;
    }
    mem_free(m->bandwidths);
    mem_free(m->centers);
    mem_free(m->coef);
    mem_free(m->feature_mean);
    mem_free(m->feature_scale);
    mem_free(m->feature_fill);
    mem_free(m->feature_indicates);
    mem_free(m->target_mean);
    mem_free(m->target_scale);
    mem_free(m->variance_factor);
    mem_free(m->prior_variance);
    mem_free(m->noise_variance);
    names_free(m->feature_names, m->d);
    names_free(m->target_names, m->outputs);
    names_free(m->class_labels, m->t);
    return mem_free(m);
}

void model_keep_scales(struct model *m)
{
    m->centers = mem_free(m->centers);
    m->coef = mem_free(m->coef);
    m->variance_factor = mem_free(m->variance_factor);
}

int64_t model_argmax(const double *scores, int64_t t)
{
    int64_t best = 0;
    for (int64_t j = 1; j < t; j++) {
        if (scores[j] > scores[best]) {
            best = j;
        }
    }
    return best;
}

/* The model as its file has it. Borrows everything. */
static struct model_file view(const struct model *m)
{
    return (struct model_file){
        .kernel = catalog_find(CATALOG_KERNELS, kernel_name(m->kernel.id)),
        .bandwidth = m->kernel.bandwidth,
        .gamma = m->kernel.gamma,
        .coef0 = m->kernel.coef0,
        .degree = m->kernel.degree,
        .task = m->task,
        .m = m->m,
        .d = m->d,
        .t = m->t,
        .outputs = m->outputs,
        .feature_names = m->feature_names,
        .target_names = m->target_names,
        .class_labels = m->class_labels,
        .dtype = m->dtype,
        .coef = m->coef,
        .feature_mean = m->feature_mean,
        .feature_scale = m->feature_scale,
        .feature_fill = m->feature_fill,
        .feature_indicates = m->feature_indicates,
        .target_mean = m->target_mean,
        .target_scale = m->target_scale,
        .bandwidths = m->bandwidths,
        .p = m->p,
        .variance_factor = m->variance_factor,
        .prior_variance = m->prior_variance,
        .noise_variance = m->noise_variance,
        .centers = m->centers,
    };
}

struct json *model_describe(const struct model *m)
{
    const struct model_file f = view(m);
    return model_file_describe(&f);
}

int model_write(const struct model *m,
                int (*sink)(void *context, const void *data, size_t size, struct err *err),
                void *context, struct err *err)
{
    const struct model_file f = view(m);
    return model_file_write(&f, NULL, sink, context, err);
}

static bool copy_numbers(const struct model_file *f, struct model *m)
{
    const struct {
        const void *from;
        size_t bytes;
        void **to;
    } parts[] = {
        {f->coef, (size_t)(f->m * f->t) * sizeof(double), (void **)&m->coef},
        {f->feature_mean, (size_t)f->d * sizeof(double), (void **)&m->feature_mean},
        {f->feature_scale, (size_t)f->d * sizeof(double), (void **)&m->feature_scale},
        {f->feature_fill, (size_t)f->d * sizeof(double), (void **)&m->feature_fill},
        {f->feature_indicates, (size_t)f->d * sizeof(double), (void **)&m->feature_indicates},
        {f->target_mean, (size_t)f->t * sizeof(double), (void **)&m->target_mean},
        {f->target_scale, (size_t)f->t * sizeof(double), (void **)&m->target_scale},
        {f->bandwidths, (size_t)f->d * sizeof(double), (void **)&m->bandwidths},
        {f->variance_factor, (size_t)(f->m * f->p) * sizeof(double), (void **)&m->variance_factor},
        {f->prior_variance, (size_t)f->t * sizeof(double), (void **)&m->prior_variance},
        {f->noise_variance, (size_t)f->t * sizeof(double), (void **)&m->noise_variance},
        {f->centers, (size_t)(f->m * f->d) * dtype_size(f->dtype), &m->centers},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].from != NULL) {
            *parts[i].to = mem_dup(parts[i].from, parts[i].bytes);
            ok = ok && *parts[i].to != NULL;
        }
    }
    return ok;
}

/* Takes the names out of the file. */
static int take(struct model_file *f, struct model *m, struct err *err)
{
    const int r = kernel_id_parse(f->kernel->name, &m->kernel.id, err);
    m->kernel.d = f->d;
    m->kernel.bandwidth = f->bandwidth;
    m->kernel.gamma = f->gamma;
    m->kernel.coef0 = f->coef0;
    m->kernel.degree = f->degree;
    m->task = f->task;
    m->m = f->m;
    m->d = f->d;
    m->t = f->t;
    m->outputs = f->outputs;
    m->dtype = f->dtype;
    m->p = f->p;
    m->feature_names = f->feature_names;
    m->target_names = f->target_names;
    m->class_labels = f->class_labels;
    f->feature_names = f->target_names = f->class_labels = NULL;
    if (r == 0 && !copy_numbers(f, m)) {
        return err_no_memory(err);
    }
    m->kernel.bandwidths = m->bandwidths;
    return r;
}

int model_read(const void *image, size_t size, struct model **ret, struct err *err)
{
    struct model_file f;
    int r = model_file_open(image, size, &f, NULL, err);
    if (r < 0) {
        return r;
    }
    struct model *m = mem_zalloc(sizeof(*m));
    r = m != NULL ? take(&f, m, err) : err_no_memory(err);
    model_file_deinit(&f);
    if (r < 0) {
        model_free(m);
        return r;
    }
    *ret = m;
    return 0;
}
