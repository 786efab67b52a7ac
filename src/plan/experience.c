#include "plan/experience.h"

#include <math.h>
#include <string.h>

/* Of the gaussians over the distance between sizes, and between speeds, in powers of two. */
static const double width = 1.5, speed_width = 1.0;
/* Weights of the prior, of all records together that are of another kind, of one that counts. */
static const double prior = 0.15, relatives_most = 0.5, least_weight = 0.01;
/* Records after which one counts half. */
static const double half_life = 128;

/* What a record of another solver, … is worth. Centers and factors are chosen and built in the
 * setup; a certificate is nearly the same work after any solver. */
static const double other_text[PLAN_PHASES][KIND_TEXTS] = {
    [PLAN_SETUP] = {[KIND_SOLVER] = 0.02,
                    [KIND_PRECONDITIONER] = 0.02,
                    [KIND_SELECTOR] = 0.02,
                    [KIND_KERNEL] = 0.2,
                    [KIND_PRECISION] = 0.2,
                    [KIND_VERSION] = 0.3},
    [PLAN_ITERATION] = {[KIND_SOLVER] = 0.02,
                        [KIND_PRECONDITIONER] = 0.2,
                        [KIND_SELECTOR] = 0.5,
                        [KIND_KERNEL] = 0.2,
                        [KIND_PRECISION] = 0.2,
                        [KIND_VERSION] = 0.3},
    [PLAN_FINISH] = {[KIND_SOLVER] = 0.3,
                     [KIND_PRECONDITIONER] = 0.5,
                     [KIND_SELECTOR] = 0.5,
                     [KIND_KERNEL] = 0.2,
                     [KIND_PRECISION] = 0.2,
                     [KIND_VERSION] = 0.3},
};
static const double other_number[PLAN_PHASES][KIND_NUMBERS] = {
    [PLAN_SETUP] = {[KIND_OWN_MEMORY] = 0,
                    [KIND_THREADS] = 0.3,
                    [KIND_RESTRICTED] = 0.02,
                    [KIND_KEPT] = 0.2,
                    [KIND_SEARCHED] = 0.02},
    [PLAN_ITERATION] = {[KIND_OWN_MEMORY] = 0,
                        [KIND_THREADS] = 0.3,
                        [KIND_RESTRICTED] = 0.02,
                        [KIND_KEPT] = 0.02,
                        [KIND_SEARCHED] = 0.5},
    [PLAN_FINISH] = {[KIND_OWN_MEMORY] = 0,
                     [KIND_THREADS] = 0.3,
                     [KIND_RESTRICTED] = 0.02,
                     [KIND_KEPT] = 0.5,
                     [KIND_SEARCHED] = 0.5},
};

static void log_sizes(const struct experience_kind *k, double ret[KIND_SIZES])
{
    for (int i = 0; i < KIND_SIZES; i++) {
        ret[i] = log2(1.0 + (double)k->sizes[i]);
    }
}

void experience_add(struct experience *e, const struct experience_record *r)
{
    const int64_t at = e->count++ % EXPERIENCE_RECORDS;
    e->records[at] = *r;
    log_sizes(&r->kind, e->log_sizes[at]);
}

/* What differs. */
struct contrast {
    bool texts[KIND_TEXTS], numbers[KIND_NUMBERS];
};

static struct contrast contrast(const struct experience_kind *a, const struct experience_kind *b)
{
    struct contrast c;
    for (int i = 0; i < KIND_TEXTS; i++) {
        c.texts[i] = strcmp(a->texts[i], b->texts[i]) != 0;
    }
    for (int i = 0; i < KIND_NUMBERS; i++) {
        c.numbers[i] = a->numbers[i] != b->numbers[i];
    }
    return c;
}

/* 1: both jobs made the same choices. */
static double likeness(enum plan_phase phase, const struct contrast *c)
{
    double like = 1.0;
    for (int i = 0; i < KIND_TEXTS; i++) {
        like *= c->texts[i] ? other_text[phase][i] : 1.0;
    }
    for (int i = 0; i < KIND_NUMBERS; i++) {
        like *= c->numbers[i] ? other_number[phase][i] : 1.0;
    }
    return like;
}

/* Of sizes, of speeds, and in time: `age` records are newer. */
static double nearness(const double a[KIND_SIZES], const double b[KIND_SIZES], double faster,
                       int64_t age)
{
    double sum = pow(faster * width / speed_width, 2);
    for (int i = 0; i < KIND_SIZES; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return exp(-sum / (2.0 * width * width) - log(2.0) * (double)age / half_life);
}

struct weighed {
    double weight, sum; /* of logarithms, so weighted */
};

static void weigh(struct weighed *w, double weight, double log_ratio)
{
    w->weight += weight;
    w->sum += weight * log_ratio;
}

/* A single job that stood still for an hour counts as the largest factor. */
static double bounded(double log_ratio)
{
    const double most = log(EXPERIENCE_BOUND);
    return fmin(fmax(log_ratio, -most), most);
}

struct votes {
    struct weighed own[PLAN_PHASES], others[PLAN_PHASES]; /* of the very same kind, or not */
};

/* `faster`, in powers of two, is the machine by now than when the record was made: so much shorter
 * is the plan that it is about. */
static bool vote(struct votes *v, const struct experience_record *r,
                 const struct experience_kind *kind, double near, double faster)
{
    const struct contrast c = contrast(&r->kind, kind);
    bool weighs = false;
    for (int p = 0; p < PLAN_PHASES; p++) {
        const double like = likeness((enum plan_phase)p, &c);
        if (!isnan(r->log_ratio[p]) && like * near >= least_weight) {
            weigh(like < 1.0 ? &v->others[p] : &v->own[p], like * near,
                  bounded(r->log_ratio[p] + log(2.0) * faster));
            weighs = true;
        }
    }
    return weighs;
}

static double factor_of(const struct weighed *own, const struct weighed *others)
{
    const double most = relatives_most / (1.0 + own->weight);
    const double share = others->weight > most ? most / others->weight : 1.0;
    return exp((own->sum + share * others->sum) / (own->weight + share * others->weight + prior));
}

struct experience_factors experience_factors(const struct experience *e,
                                             const struct experience_kind *kind)
{
    struct experience_factors ret = {.jobs = 0};
    struct votes votes = {.own = {{0}}, .others = {{0}}};
    double sizes[KIND_SIZES];
    log_sizes(kind, sizes);
    for (int64_t age = 0; age < EXPERIENCE_RECORDS && age < e->count; age++) {
        const int64_t at = (e->count - 1 - age) % EXPERIENCE_RECORDS;
        const double faster = kind->log2_speed - e->records[at].kind.log2_speed;
        const double near = nearness(e->log_sizes[at], sizes, faster, age);
        ret.jobs += near >= least_weight && vote(&votes, &e->records[at], kind, near, faster);
    }
    for (int p = 0; p < PLAN_PHASES; p++) {
        ret.of[p] = factor_of(&votes.own[p], &votes.others[p]);
    }
    return ret;
}
