#include "plan/experience.h"

#include <math.h>
#include <string.h>

/* Of the gaussians over the distance between sizes, and between speeds, in powers of two. */
static const double width = 1.5, speed_width = 1.0;
/* Weights of the prior, of all records together that are of another kind, of one that counts. */
static const double prior = 0.15, relatives_most = 0.5, least_weight = 0.01;
/* Records after which one counts half; after which it does for the machine as it is now, and the
 * weight of the prior that this begins with. */
static const double half_life = 128, lately = 16, steadiness = 5;
/* Of surprises: records after which one counts half, and the weight of being surprised by nothing.
 */
static const double surprise_life = 8, calm = 2;

/* What a record of another solver, … is worth. Centers and factors are chosen and built in the
 * setup; a certificate is nearly the same work after any solver, and a choice the same before it.
 */
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
    [PLAN_CHOICE] = {[KIND_SOLVER] = 1,
                     [KIND_PRECONDITIONER] = 1,
                     [KIND_SELECTOR] = 1,
                     [KIND_KERNEL] = 0.2,
                     [KIND_PRECISION] = 1,
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
    [PLAN_CHOICE] = {[KIND_OWN_MEMORY] = 0,
                     [KIND_THREADS] = 0.3,
                     [KIND_RESTRICTED] = 0.5,
                     [KIND_KEPT] = 1,
                     [KIND_SEARCHED] = 0.3},
};

static void log_sizes(const struct experience_kind *k, double ret[KIND_SIZES])
{
    for (int i = 0; i < KIND_SIZES; i++) {
        ret[i] = log2(1.0 + (double)k->sizes[i]);
    }
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

static double gaussian(double squares, double w)
{
    return exp(-squares / (2.0 * w * w));
}

static double halved(int64_t age, double life)
{
    return exp2(-(double)age / life);
}

static double distance(const double a[KIND_SIZES], const double b[KIND_SIZES])
{
    double sum = 0;
    for (int i = 0; i < KIND_SIZES; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sum;
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

/* In one phase: of the very same kind; of others; of all, as the machine is now. */
struct votes {
    struct weighed own, others, all;
};

/* How near a record is: by its sizes and age; by its age alone. */
struct near {
    double as_kin, as_late;
};

static bool vote(struct votes *v, double like, const struct near *near, double log_ratio)
{
    const double weight = like * near->as_kin;
    const bool kin = weight >= least_weight, late = like > 0 && near->as_late >= least_weight;
    if (kin) {
        weigh(like < 1.0 ? &v->others : &v->own, weight, log_ratio);
    }
    if (late) {
        weigh(&v->all, near->as_late, log_ratio);
    }
    return kin || late;
}

/* `faster`, in powers of two, is the machine by now than when the record was made: so much shorter
 * is the plan that it is about. */
static bool vote_all(struct votes v[PLAN_PHASES], const struct experience_record *r,
                     const struct experience_kind *kind, const struct near *near, double faster)
{
    const struct contrast c = contrast(&r->kind, kind);
    bool weighs = false;
    for (int p = 0; p < PLAN_PHASES; p++) {
        const double log_ratio = bounded(r->log_ratio[p] + log(2.0) * faster);
        const double like = likeness((enum plan_phase)p, &c);
        weighs = (!isnan(r->log_ratio[p]) && vote(&v[p], like, near, log_ratio)) || weighs;
    }
    return weighs;
}

/* The logarithms of factors, and what they rest on: the weights of the records. */
struct estimate {
    double log[PLAN_PHASES], support[PLAN_PHASES];
    int64_t jobs;
};

static void settle(const struct votes *v, double *ret_log, double *ret_support)
{
    const double most = relatives_most / (1.0 + v->own.weight);
    const double share = v->others.weight > most ? most / v->others.weight : 1.0;
    const double machine = v->all.sum / (v->all.weight + steadiness);
    *ret_support = v->own.weight + share * v->others.weight;
    *ret_log = (v->own.sum + share * v->others.sum + prior * machine) / (*ret_support + prior);
}

static int64_t place(const struct experience *e, int64_t age)
{
    return (e->count - 1 - age) % EXPERIENCE_RECORDS;
}

static struct estimate estimate(const struct experience *e, const struct experience_kind *kind)
{
    struct estimate ret = {.jobs = 0};
    struct votes votes[PLAN_PHASES] = {{.own = {0}}};
    double sizes[KIND_SIZES];
    log_sizes(kind, sizes);
    for (int64_t age = 0; age < EXPERIENCE_RECORDS && age < e->count; age++) {
        const int64_t at = place(e, age);
        const double faster = kind->log2_speed - e->records[at].kind.log2_speed;
        const double same = gaussian(faster * faster, speed_width);
        const struct near near = {same * gaussian(distance(e->log_sizes[at], sizes), width) *
                                      halved(age, half_life),
                                  same * halved(age, lately)};
        if (fmax(near.as_kin, near.as_late) >= least_weight) {
            ret.jobs += vote_all(votes, &e->records[at], kind, &near, faster);
        }
    }
    for (int p = 0; p < PLAN_PHASES; p++) {
        settle(&votes[p], &ret.log[p], &ret.support[p]);
    }
    return ret;
}

/* ---- surprises ---- */

/* By how much the record's job took longer than the ones before it had let expect, in the mean of
 * its phases. Where these said little, there is nothing to be surprised at. */
static struct experience_surprise surprise(const struct experience *e,
                                           const struct experience_record *r)
{
    const struct estimate expected = estimate(e, &r->kind);
    struct weighed w = {0, 0};
    int phases = 0;
    for (int p = 0; p < PLAN_PHASES; p++) {
        if (!isnan(r->log_ratio[p])) {
            const double support = expected.support[p];
            weigh(&w, support / (1.0 + support), bounded(r->log_ratio[p]) - expected.log[p]);
            phases++;
        }
    }
    return (struct experience_surprise){.weight = phases > 0 ? w.weight / phases : 0,
                                        .log_ratio = w.weight > 0 ? w.sum / w.weight : 0};
}

void experience_add(struct experience *e, const struct experience_record *r)
{
    const struct experience_surprise now = surprise(e, r);
    const int64_t at = e->count++ % EXPERIENCE_RECORDS;
    e->records[at] = *r;
    e->surprises[at] = now;
    log_sizes(&r->kind, e->log_sizes[at]);
}

/* The mean of the latest on such a device. */
static double drift(const struct experience *e, const struct experience_kind *kind)
{
    struct weighed w = {calm, 0};
    for (int64_t age = 0; age < EXPERIENCE_RECORDS && age < e->count; age++) {
        const struct experience_kind *other = &e->records[place(e, age)].kind;
        const struct experience_surprise *s = &e->surprises[place(e, age)];
        const double late = halved(age, surprise_life);
        if (late < least_weight) {
            break;
        }
        if (other->numbers[KIND_OWN_MEMORY] == kind->numbers[KIND_OWN_MEMORY]) {
            weigh(&w, late * s->weight, s->log_ratio);
        }
    }
    return w.sum / w.weight;
}

struct experience_factors experience_factors(const struct experience *e,
                                             const struct experience_kind *kind)
{
    const struct estimate found = estimate(e, kind);
    struct experience_factors ret = {.jobs = found.jobs};
    const double busier = found.jobs > 0 ? drift(e, kind) : 0;
    for (int p = 0; p < PLAN_PHASES; p++) {
        ret.of[p] = exp(bounded(found.log[p] + busier));
    }
    return ret;
}
