/* What a job left open, as it was settled before the solve. */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "engine/fit/fit_parts.h"

static bool was_open(const struct job_spec *spec)
{
    const struct method_def *m = spec->kernel.method;
    const bool bandwidth =
        m == NULL || (m->has_bandwidth && (spec->kernel.kind == SPEC_BANDWIDTH_AUTO ||
                                           spec->kernel.kind == SPEC_BANDWIDTH_MEDIAN));
    return bandwidth || spec->open_regularization || spec->search.wanted;
}

static double bandwidth_of(const struct kernel *k)
{
    const bool one = kernel_uses_distance(k->id) && k->bandwidths == NULL;
    return one ? k->bandwidth : (double)NAN;
}

static struct json *settled_to_json(const struct fit_result *r)
{
    struct json *j = json_new_object();
    fit__set_kernel(r, j);
    json_set_number(j, "regularization", r->regularization);
    return j;
}

static void tell(const struct fit *f)
{
    const struct fit_result *r = &f->result;
    char text[200], bandwidth[64] = "";
    if (f->kernel.bandwidths != NULL) {
        snprintf(bandwidth, sizeof(bandwidth), ", a bandwidth for each feature");
    } else if (!isnan(r->bandwidth)) {
        snprintf(bandwidth, sizeof(bandwidth), ", bandwidth %.6g", r->bandwidth);
    }
    snprintf(text, sizeof(text), "The model: kernel %s%s, regularization %.6g a row.", r->kernel,
             bandwidth, r->regularization);
    cleanup_json struct json *data = settled_to_json(r);
    if (json_ok(data)) {
        f->control->tell(f->control->context, text, data);
    }
}

void fit__settle(struct fit *f)
{
    f->result.kernel = kernel_name(f->kernel.id);
    f->result.bandwidth = bandwidth_of(&f->kernel);
    if (f->control->tell != NULL && was_open(f->spec)) {
        tell(f);
    }
}
