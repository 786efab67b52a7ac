/* What a solver asks of the rest of a specification. */
#include <string.h>

#include "wire/field.h"
#include "wire/spec_parts.h"

/* A regularization is the variance of the noise to solvers that have one. */
static int check_noise(const struct job_spec *spec, struct err *err)
{
    const bool given = !spec->open_regularization && spec->search.regularizations == 0;
    return !given || spec->regularization > 0 || !spec->solver.method->posterior
               ? 0
               : field_error(err, "regularization", FIELD_WHOLE,
                             "The solver \"%s\" takes it for the variance of the noise, which must "
                             "be positive.",
                             spec->solver.method->name);
}

/* Of solvers that know one. FITC's weights depend on the regularization, so that no closed form
 * serves all of them. */
static int check_evidence(const struct job_spec *spec, struct err *err)
{
    const struct method_def *solver = spec->solver.method;
    if (!spec->search.wanted || spec->search.metric != SEARCH_EVIDENCE) {
        return 0;
    }
    if (!solver->posterior) {
        return err_at(err, ERR_INVALID, "#/search/metric",
                      "The solver \"%s\" knows no evidence: name one whose models know their "
                      "variance, \"kmcg\", \"inducing\" or \"kmcg_restricted\", or search by "
                      "another metric.",
                      solver->name);
    }
    return strcmp(param_choice(&spec->solver.params, "approximation"), "fitc") != 0
               ? 0
               : err_at(err, ERR_INVALID, "#/search/metric",
                        "The evidence of \"fitc\" has no closed form over regularizations: search "
                        "with the approximation \"vfe\" or \"dtc\", or by another metric.");
}

/* The inverse of the centers' own factor multiplies the rounding of kernel values: in float32 it
 * drowns the variance. */
static int check_precision(const struct job_spec *spec, struct err *err)
{
    const bool narrow = spec->precision == PRECISION_FLOAT32 || spec->precision == PRECISION_MIXED;
    return narrow && spec->solver.method->posterior && spec->solver.method->restricted
               ? field_error(err, "precision", FIELD_WHOLE,
                             "The solver \"%s\" takes float64 alone: variances on centers are "
                             "lost in float32.",
                             spec->solver.method->name)
               : 0;
}

/* In float32 there is no float64 factor. */
static int check_factor(const struct job_spec *spec, struct err *err)
{
    const bool wide = strcmp(spec->solver.method->name, "cholesky") == 0 &&
                      !param_get(&spec->solver.params, "factor")->is_auto &&
                      strcmp(param_choice(&spec->solver.params, "factor"), "float64") == 0;
    return wide && spec->precision == PRECISION_FLOAT32
               ? err_at(err, ERR_INVALID, "#/solver/factor",
                        "The parameter \"factor\" has no effect where \"precision\" is "
                        "\"float32\", in which the "
                        "factor is, too: leave one of them out.")
               : 0;
}

/* What a warm start takes the place of, or NULL: a start from zero, and more than the usual one of
 * EigenPro's plain epochs. */
static const char *without_start(const struct job_spec *spec)
{
    const char *solver = spec->solver.method->name;
    const struct param_set *params = &spec->solver.params;
    if (strcmp(solver, "falkon_bless") == 0) {
        return strcmp(param_choice(params, "start"), "zero") == 0 ? "start" : NULL;
    }
    const bool plain = strcmp(solver, "eigenpro3") == 0 || strcmp(solver, "eigenpro4") == 0;
    return plain && param_int(params, "plain_epochs") > 1 ? "plain_epochs" : NULL;
}

static int check_start(const struct job_spec *spec, struct err *err)
{
    const char *key = spec->warm_start.model[0] != '\0' ? without_start(spec) : NULL;
    return key == NULL ? 0
                       : spec__within("solver",
                                      field_error(err, key, FIELD_WHOLE,
                                                  "The parameter \"%s\" has no effect where "
                                                  "\"warm_start\" is given: leave one of them out.",
                                                  key),
                                      err);
}

int spec__check_solver(const struct job_spec *spec, struct err *err)
{
    int rc = check_noise(spec, err);
    rc = rc < 0 ? rc : check_evidence(spec, err);
    return rc < 0 ? rc : check_precision(spec, err);
}

/* Those of the solver's and the centers' own parameters. */
static int check_clashes(const struct job_spec *spec, struct err *err)
{
    const struct method_def *solver = spec->solver.method, *centers = spec->centers.method;
    int rc = param_check_clashes(&spec->solver.params, solver->clashes, err);
    rc = spec__within("solver", rc, err);
    if (rc == 0 && centers != NULL) {
        rc = param_check_clashes(&spec->centers.params, centers->clashes, err);
        rc = spec__within("centers", rc, err);
    }
    return rc;
}

int job_spec_check_effects(const struct job_spec *spec, struct err *err)
{
    int rc = check_clashes(spec, err);
    rc = rc < 0 ? rc : check_factor(spec, err);
    return rc < 0 ? rc : check_start(spec, err);
}
