#include "cpu/grid/split.h"

#include <math.h>

#define STEPS 100     /* of bisections */
#define INTERVALS 128 /* of the spectrum's integral */

static int twice_nu(enum kernel_id id)
{
    return id == KERNEL_MATERN52 ? 5 : id == KERNEL_MATERN32 ? 3 : 1;
}

bool split_exists(enum kernel_id id, int dims)
{
    return kernel_uses_distance(id) && id != KERNEL_GAUSSIAN && (!kernel_uses_l1(id) || dims == 1);
}

/* ---- in space ---- */

/* At a distance, in units of 1 / a: what the closed forms consist of. */
struct place {
    double x, root, y; /* a r, a sqrt(tau), r / (2 sqrt(tau)) */
    double rises;      /* exp(x) erfc(root + y) */
    double gauss;      /* 4 root / sqrt(pi) exp(-root^2 - y^2) */
};

static struct place place_of(const struct split *s, double r)
{
    struct place p = {.x = s->a * r, .root = s->a * s->root_tau, .y = r / (2.0 * s->root_tau)};
    const double at = p.root + p.y;
    p.rises = at < 26.0 ? exp(p.x) * erfc(at) : 0.0; /* erfc is 0 from there on */
    p.gauss = 4.0 * p.root / sqrt(M_PI) * exp(-p.root * p.root - p.y * p.y);
    return p;
}

double split_far(const struct split *s, double r)
{
    const struct place p = place_of(s, r);
    const double falls = exp(-p.x) * erfc(p.root - p.y), first = falls + p.rises;
    const double second = first + p.x * (falls - p.rises) + p.gauss;
    const double third = p.x * p.x * first + 2.0 * p.root * p.root * p.gauss;
    return s->twice_nu == 1   ? first / 2.0
           : s->twice_nu == 3 ? second / 2.0
                              : second / 2.0 + third / 6.0;
}

/* k - far, but without k: small values have digits of their own. */
double split_near(const struct split *s, double r)
{
    const struct place p = place_of(s, r);
    const double falls = exp(-p.x) * erfc(p.y - p.root), first = falls - p.rises;
    const double second = first + p.x * (falls + p.rises) - p.gauss;
    const double third = p.x * p.x * first - 2.0 * p.root * p.root * p.gauss;
    return s->twice_nu == 1   ? first / 2.0
           : s->twice_nu == 3 ? second / 2.0
                              : second / 2.0 + third / 6.0;
}

/* ---- the spectrum ---- */

/* Gamma(p, x) / Gamma(p) for p = twice_p / 2. */
static double upper_gamma(int twice_p, double x)
{
    double p = twice_p % 2 == 0 ? 1.0 : 0.5;
    double sum = twice_p % 2 == 0 ? exp(-x) : erfc(sqrt(x));
    double term = pow(x, p) * exp(-x) / tgamma(p + 1.0);
    for (; 2.0 * p < twice_p - 0.5; p += 1.0) {
        sum += term;
        term *= x / (p + 1.0);
    }
    return sum;
}

/* The share of far's spectrum beyond a frequency w, in units where a = 1: the integral of
 * w^(d-1) (1 + w^2)^-p Gamma(p, tau (1 + w^2)) / Gamma(p), p = nu + d/2, by that of k's own. */
static double spectrum_beyond(int twice_nu, int dims, double frequency, double tau)
{
    const double nu = twice_nu / 2.0, p = nu + dims / 2.0;
    const double all = tgamma(dims / 2.0) * tgamma(nu) / (2.0 * tgamma(p));
    double sum = 0.0;
    for (int i = 0; i < INTERVALS; i++) {
        const double t = (i + 0.5) / INTERVALS, w = frequency / t, square = 1.0 + w * w;
        sum += pow(w, dims - 1) * pow(square, -p) * upper_gamma(twice_nu + dims, tau * square) *
               frequency / (t * t);
    }
    return sum / INTERVALS / all;
}

static double least_root_tau(const struct split *s, int dims, double frequency, double loss)
{
    const double w = frequency / s->a;
    double low = 1e-3 / w, high = 20.0 / w;
    for (int i = 0; i < STEPS && high > 1.01 * low; i++) {
        const double middle = sqrt(low * high);
        const bool enough = spectrum_beyond(s->twice_nu, dims, w, middle * middle) < loss;
        *(enough ? &high : &low) = middle;
    }
    return high / s->a;
}

/* ---- where values are lost ---- */

static double whole(const struct split *s, double r)
{
    return kernel_of_distance(s->id, r / s->bandwidth);
}

/* From which distance on a function that falls is below `loss`. */
static double distance_to(const struct split *s, double (*f)(const struct split *, double),
                          double loss)
{
    double low = 0.0, high = 100.0 * s->bandwidth;
    for (int i = 0; i < STEPS && high > low; i++) {
        const double middle = 0.5 * (low + high);
        *(f(s, middle) > loss ? &low : &high) = middle;
    }
    return high;
}

struct split split_at(enum kernel_id id, double bandwidth, int dims, double frequency, double loss)
{
    struct split s = {.id = id, .twice_nu = twice_nu(id), .bandwidth = bandwidth};
    s.a = sqrt(s.twice_nu) / bandwidth;
    s.root_tau = least_root_tau(&s, dims, frequency, loss);
    s.reach = split_near(&s, 0.0) > loss ? distance_to(&s, split_near, loss) : 0.0;
    s.beyond = distance_to(&s, whole, loss);
    return s;
}
