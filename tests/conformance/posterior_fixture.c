#include "conformance/posterior_fixture.h"

#include <math.h>

#include "base/mem.h"

double *host_product(const double *A, int64_t a, const double *B, int64_t b, int64_t n)
{
    double *C = host_zeros(a * b);
    for (int64_t i = 0; i < a; i++) {
        for (int64_t j = 0; j < b; j++) {
            for (int64_t k = 0; k < n; k++) {
                C[i + j * a] += A[k + i * n] * B[k + j * n];
            }
        }
    }
    return C;
}

double *host_krylov(int64_t n, int64_t t, const double *K, const double *Y, int steps, int64_t *ret)
{
    double *Q = host_zeros(n * t * steps);
    int64_t p = 0;
    for (int64_t c = 0; c < t * steps; c++) {
        double *q = Q + p * n;
        for (int64_t i = 0; i < n; i++) {
            q[i] = c < t ? Y[i + c * n] : 0.0;
            for (int64_t k = 0; c >= t && k < n; k++) {
                q[i] += K[i + k * n] * Q[k + (c - t) * n];
            }
        }
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t j = 0; j < p; j++) {
                double dot = 0;
                for (int64_t i = 0; i < n; i++) {
                    dot += q[i] * Q[i + j * n];
                }
                for (int64_t i = 0; i < n; i++) {
                    q[i] -= dot * Q[i + j * n];
                }
            }
        }
        double size = 0;
        for (int64_t i = 0; i < n; i++) {
            size += q[i] * q[i];
        }
        for (int64_t i = 0; i < n; i++) {
            q[i] /= sqrt(size);
        }
        p++;
    }
    *ret = p;
    return Q;
}

double host_log_det(const double *L, int64_t p)
{
    double sum = 0;
    for (int64_t i = 0; i < p; i++) {
        sum += 2 * log(L[i + i * p]);
    }
    return sum;
}

double *posterior_points(int64_t d)
{
    struct rng rng = rng_new(77, RNG_TEST);
    double *x = host_normal(&rng, TESTS * d);
    for (int64_t j = 0; j < d; j++) {
        x[(TESTS - 1) * d + j] = 40.0;
    }
    return x;
}

double variance_of(const struct posterior *p, const double *k, double own)
{
    double left = own;
    for (int64_t j = 0; j < p->p; j++) {
        double dot = 0;
        for (int64_t i = 0; i < p->m; i++) {
            dot += p->factor[i * p->p + j] * k[i];
        }
        left -= dot * dot;
    }
    return left;
}

void answer_deinit(struct answer *a)
{
    posterior_deinit(&a->posterior);
    mem_free(a->A);
}
