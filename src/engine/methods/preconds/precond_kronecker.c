/*
 * Rows on a grid, of a kernel that is a product over the features: K between all G places has the
 * eigenvectors Q = Q_1 x Q_2 x ... (kron_basis.h), and S, n x G, says which place a row has, so
 * that the system's matrix is S K S' + rho I.
 *
 * Paper: none has it as a whole. K as a Kronecker product: Bartels, Hennig, "Conjugate gradients
 * for kernel machines", JMLR 21, 2020, section 4.2. The rest is Woodbury's formula and Chebyshev's
 * iteration. With K = Q L Q', D = S'S (rows at each place, c = n / G on average) and
 * root = (L / (rho + c L))^1/2, all three diagonal,
 *
 *     (S K S' + rho I)^-1 R = (R - S Q root X) / rho,    H X = root Q' S' R,
 *     H = I - root Q' (c I - D) Q root
 *
 * Where every place has as many rows, H = I, and this is the inverse. Else the eigenvalues of H are
 * between 0 and max(D) / c, and few of them are small where gaps are scattered, because functions
 * that a row or two less would change are rough, and those the ridge holds anyhow. What X lacks
 * comes back multiplied by |D| |K| / rho, so H X = .. is solved beyond that.
 *
 * X comes from a fixed number of Chebyshev's steps, so that P^-1 is linear. They are for
 * eigenvalues from `low` to `high`; `low` is Lanczos' estimate, and below it they give X too small,
 * never too large, so that P^-1 is positive definite all the same, and conjugate gradients see to
 * what is left.
 *
 * Cost: of an application 2 `steps` products with Q or Q', each G (s_1 + s_2 + ...) multiplications
 * and a target; s_k^3 once. Memory: G (4 t + 5) + n (2 t + 4) numbers. Float64 throughout.
 */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/memory.h"
#include "engine/methods/methods.h"
#include "engine/methods/preconds/kron_basis.h"
#include "engine/methods/preconds/kron_rows.h"

/* Places for each row, and of an axis, that are still of use. */
enum { PLACES_MOST = 4, AXIS_MOST = 4096 };
enum { LANCZOS_STEPS = 24, CHEBYSHEV_MOST = 400 };
#define RIDGE_LEAST 1e-12  /* of the largest eigenvalue: rounding stays below it */
#define ERROR_MOST 1e-4    /* of P^-1, where the steps reach */
#define LANCZOS_LEAST 1e-8 /* of a vector that is still a direction */
#define EIGENVALUE_LEAST 1e-10
#define LANCZOS_SHARE 0.9 /* the least eigenvalue is a little below its estimate */

struct precond {
    struct problem p;
    struct kron_basis basis;
    struct kron_rows rows;
    double *root, *lack;   /* [G]: of the header; c - D */
    double *scale;         /* [3 t]: two sets of coefficients, and ones */
    struct mat N, M;       /* n x t */
    struct mat X, D, R, T; /* G x t */
    double rho, low, high; /* rho = 0: not known yet */
    double error;          /* of X, that P^-1 stands */
    bool even;             /* D = c I */
    int64_t steps;         /* Chebyshev's; 0: not known yet */
    int taken;             /* Lanczos' steps so far */
    double diagonal[LANCZOS_STEPS], beside[LANCZOS_STEPS];
};

static void teardown(struct precond *m)
{
    if (m == NULL) {
        return;
    }
    struct mat *const matrices[] = {&m->N, &m->M, &m->X, &m->D, &m->R, &m->T};
    for (int i = 0; i < 6; i++) {
        m->p.be->ops->mat_free(m->p.be, matrices[i]);
    }
    kron_basis_deinit(&m->basis);
    kron_rows_deinit(&m->rows);
    mem_free(m->root);
    mem_free(m->lack);
    mem_free(m->scale);
    mem_free(m);
}

/* ---- setup ---- */

static const char field[] = "#/solver/preconditioner";

static bool any_varies(const struct rows *X)
{
    for (int64_t i = 1; i < X->n; i++) {
        for (int64_t j = 0; j < X->d; j++) {
            if (rows_at(X, i, j) != rows_at(X, 0, j)) {
                return true;
            }
        }
    }
    return false;
}

/* Of rows on which kron_basis_find sees none. */
static int no_grid(const struct problem *p, struct err *err)
{
    if (!any_varies(p->host)) {
        return err_at(err, ERR_INVALID, field,
                      "All training rows are equal, so that there is no feature for the "
                      "preconditioner \"kronecker\" to take apart. Look whether the features are "
                      "the right ones, or leave `preconditioner` open.");
    }
    return err_at(err, ERR_INVALID, field,
                  "The preconditioner \"kronecker\" is for training rows on a grid: at most six "
                  "features that vary, with at most %d values each and at most %d combinations of "
                  "them for each row.",
                  AXIS_MOST, PLACES_MOST);
}

static int find_grid(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    if (p->host == NULL || !kernel_is_product(p->kernel->id)) {
        return err_at(err, ERR_INVALID, field,
                      "The preconditioner \"kronecker\" is for kernels that are products over the "
                      "features: gaussian and laplacian_l1.");
    }
    const int r = kron_basis_find(&m->basis, p->be, p->kernel, p->host, PLACES_MOST * p->n, err);
    bool fits = m->basis.axes.dims > 0;
    for (int k = 0; k < m->basis.axes.dims; k++) {
        fits = fits && m->basis.axes.size[k] <= AXIS_MOST;
    }
    return r < 0 || fits ? r : no_grid(p, err);
}

static int allocate(struct precond *m, struct err *err)
{
    const struct problem *p = &m->p;
    const int64_t places = m->basis.axes.places;
    m->root = mem_array((size_t)places, sizeof *m->root);
    m->lack = mem_array((size_t)places, sizeof *m->lack);
    m->scale = mem_array((size_t)p->t, 3 * sizeof *m->scale);
    if (m->root == NULL || m->lack == NULL || m->scale == NULL) {
        return err_no_memory(err);
    }
    struct mat *const of_rows[] = {&m->N, &m->M}, *const all[] = {&m->X, &m->D, &m->R, &m->T};
    int r = memory_check_pair(p->be, places, 4 * p->t, DTYPE_F64, p->n, 2 * p->t, DTYPE_F64,
                              "preconditioner `kronecker`", err);
    for (int i = 0; r == 0 && i < 2; i++) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, p->n, p->t, of_rows[i], err);
    }
    for (int i = 0; r == 0 && i < 4; i++) {
        r = p->be->ops->mat_new(p->be, DTYPE_F64, places, p->t, all[i], err);
    }
    return r;
}

static double average(const struct precond *m)
{
    return (double)m->p.n / (double)m->basis.axes.places;
}

/* What there is of rows: c - D, whether that is 0, and the largest eigenvalue that H may have. */
static void count_rows(struct precond *m)
{
    const double c = average(m);
    m->even = true;
    m->low = m->high = 1.0;
    for (int64_t i = 0; i < m->basis.axes.places; i++) {
        const double count = (double)m->rows.count[i];
        m->lack[i] = c - count;
        m->even = m->even && count == c;
        m->high = fmax(m->high, count / c);
    }
    for (int64_t j = 0; j < m->p.t; j++) {
        m->scale[2 * m->p.t + j] = 1.0;
    }
}

static int setup(const struct problem *p, const struct param_set *params, struct precond **ret,
                 struct err *err)
{
    (void)params;
    struct precond *m = mem_zalloc(sizeof *m);
    if (m == NULL) {
        return err_no_memory(err);
    }
    m->p = *p;
    int r = find_grid(m, err);
    r = r == 0 ? kron_rows_init(&m->rows, &m->basis.axes, p->host, err) : r;
    r = r == 0 ? allocate(m, err) : r;
    if (r < 0) {
        teardown(m);
        return r;
    }
    count_rows(m);
    *ret = m;
    return 0;
}

/* ---- H ---- */

/* Y <- a X + b Y. */
static int combine(struct precond *m, double a, const struct mat *X, double b, const struct mat *Y,
                   struct err *err)
{
    double *const factors = m->scale, *const others = m->scale + m->p.t;
    for (int64_t j = 0; j < Y->cols; j++) {
        factors[j] = a;
        others[j] = b;
    }
    return m->p.be->ops->col_axpby(m->p.be, factors, X, others, Y, err);
}

static int scale_by(struct precond *m, const double *factors, const struct mat *X, struct err *err)
{
    return m->p.be->ops->scale_rows(m->p.be, factors, X, err);
}

/* T <- root Q' (c I - D) Q root X = X - H X. May be long: asks be->stop. */
static int deviate(struct precond *m, const struct mat *X, const struct mat *T, struct err *err)
{
    struct backend *be = m->p.be;
    int r = be->stop != NULL ? be->stop(be->stop_context, err) : 0;
    r = r == 0 ? be->ops->copy(be, X, T, err) : r;
    r = r == 0 ? scale_by(m, m->root, T, err) : r;
    r = r == 0 ? kron_basis_multiply(&m->basis, false, T, err) : r;
    r = r == 0 ? scale_by(m, m->lack, T, err) : r;
    r = r == 0 ? kron_basis_multiply(&m->basis, true, T, err) : r;
    return r == 0 ? scale_by(m, m->root, T, err) : r;
}

/* ---- building ---- */

/* rho, root; and a random vector for Lanczos. */
static int know_values(struct precond *m, struct err *err)
{
    const int64_t places = m->basis.axes.places;
    const double c = average(m), *values = m->basis.values;
    double largest = 0.0;
    for (int64_t i = 0; i < places; i++) {
        largest = fmax(largest, values[i]);
    }
    m->rho = fmax(m->p.ridge, RIDGE_LEAST * c * largest);
    struct rng rng = rng_new(m->p.seed, RNG_PRECOND);
    cleanup_mem double *v = mem_array((size_t)places, sizeof *v);
    if (v == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < places; i++) {
        m->root[i] = sqrt(values[i] / (m->rho + c * values[i]));
        v[i] = rng_normal(&rng);
    }
    const double wanted = ERROR_MOST * m->rho / (c * largest);
    m->error = fmin(wanted, ERROR_MOST);
    const struct mat X = mat_cols(m->X, 0, 1);
    return m->p.be->ops->mat_put(m->p.be, v, places, &X, err);
}

/* A vector v in X, the one before in D: w = H v into T, less its parts along both. 1: done. */
static int lanczos(struct precond *m, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    const struct mat v = mat_cols(m->X, 0, 1), before = mat_cols(m->D, 0, 1);
    const struct mat w = mat_cols(m->T, 0, 1);
    double size = 1.0, *const along = m->diagonal + m->taken, *const rest = m->beside + m->taken;
    int r = m->taken == 0 ? o->col_dots(m->p.be, &v, &v, &size, err) : 0;
    r = r == 0 ? combine(m, 0.0, &v, 1.0 / sqrt(size), &v, err) : r;
    r = r == 0 ? deviate(m, &v, &w, err) : r;
    r = r == 0 ? combine(m, 1.0, &v, -1.0, &w, err) : r;
    r = r == 0 ? o->col_dots(m->p.be, &v, &w, along, err) : r;
    r = r == 0 ? combine(m, -*along, &v, 1.0, &w, err) : r;
    r = r == 0 && m->taken > 0 ? combine(m, -rest[-1], &before, 1.0, &w, err) : r;
    r = r == 0 ? o->col_dots(m->p.be, &w, &w, &size, err) : r;
    r = r == 0 ? o->copy(m->p.be, &v, &before, err) : r;
    if (r < 0) {
        return r;
    }
    *rest = sqrt(size);
    m->taken++;
    if (m->taken == LANCZOS_STEPS || !(*rest > LANCZOS_LEAST)) {
        return 1;
    }
    return combine(m, 1.0 / *rest, &w, 0.0, &v, err);
}

/* The least eigenvalue of the tridiagonal matrix that Lanczos has come to. */
static int least_eigenvalue(struct precond *m, double *ret, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    double T[LANCZOS_STEPS * LANCZOS_STEPS] = {0.0}, values[LANCZOS_STEPS] = {1.0};
    const int64_t k = m->taken;
    for (int64_t i = 0; i < k; i++) {
        T[i + i * k] = m->diagonal[i];
        if (i + 1 < k) {
            T[i + 1 + i * k] = T[i + (i + 1) * k] = m->beside[i];
        }
    }
    struct mat A = {.rows = 0};
    int r = o->mat_new(m->p.be, DTYPE_F64, k, k, &A, err);
    r = r == 0 ? o->mat_put(m->p.be, T, k, &A, err) : r;
    r = r == 0 ? o->eigh(m->p.be, &A, values, err) : r;
    o->mat_free(m->p.be, &A);
    *ret = values[0];
    return r;
}

/* T_k of the interval makes what is left of X's error there 1 / T_k(theta). */
static int choose_steps(struct precond *m, struct err *err)
{
    double least = 1.0;
    const int r = least_eigenvalue(m, &least, err);
    m->low = fmax(LANCZOS_SHARE * least, EIGENVALUE_LEAST);
    const double reach = acosh(1.0 / m->error);
    double theta = (m->high + m->low) / (m->high - m->low);
    m->steps = (int64_t)fmin(ceil(reach / acosh(theta)), CHEBYSHEV_MOST);
    if (m->steps == CHEBYSHEV_MOST) {
        theta = cosh(reach / (double)m->steps);
        m->low = m->high * (theta - 1.0) / (theta + 1.0);
    }
    return r < 0 ? r : 1;
}

static int build(struct precond *m, double *ret_fraction, struct err *err)
{
    *ret_fraction = 1.0;
    if (m->steps > 0) {
        return 1;
    }
    if (m->rho == 0.0) {
        const int r = kron_basis_build(&m->basis, err);
        *ret_fraction = 0.5 * (double)m->basis.next / (double)m->basis.axes.dims;
        return r > 0 ? know_values(m, err) : r;
    }
    if (m->even) {
        m->steps = 1;
        return 1;
    }
    const int r = lanczos(m, err);
    *ret_fraction = r > 0 ? 1.0 : 0.5 + 0.5 * (double)m->taken / LANCZOS_STEPS;
    return r > 0 ? choose_steps(m, err) : r;
}

/* ---- application ---- */

/* H X = R, by which R goes. */
static int chebyshev(struct precond *m, struct err *err)
{
    const double middle = (m->high + m->low) / 2, half = (m->high - m->low) / 2;
    double rate = half / middle;
    int r = combine(m, 1.0 / middle, &m->R, 0.0, &m->D, err);
    r = r == 0 ? m->p.be->ops->copy(m->p.be, &m->D, &m->X, err) : r;
    for (int64_t k = 1; r == 0 && k < m->steps; k++) {
        const double next = 1.0 / (2.0 * middle / half - rate);
        r = deviate(m, &m->D, &m->T, err);
        r = r == 0 ? combine(m, 1.0, &m->T, 1.0, &m->R, err) : r;
        r = r == 0 ? combine(m, -1.0, &m->D, 1.0, &m->R, err) : r;
        r = r == 0 ? combine(m, 2.0 * next / half, &m->R, next * rate, &m->D, err) : r;
        r = r == 0 ? combine(m, 1.0, &m->D, 1.0, &m->X, err) : r;
        rate = next;
    }
    return r;
}

/* R <- root Q' S' N. */
static int to_places(struct precond *m, struct err *err)
{
    const double *ones = m->scale + 2 * m->p.t;
    int r = kron_rows_spread(&m->rows, m->p.be, ones, &m->N, &m->M, &m->R, err);
    r = r == 0 ? kron_basis_multiply(&m->basis, true, &m->R, err) : r;
    return r == 0 ? scale_by(m, m->root, &m->R, err) : r;
}

/* M <- S Q root X. */
static int to_rows(struct precond *m, struct err *err)
{
    int r = scale_by(m, m->root, &m->X, err);
    r = r == 0 ? kron_basis_multiply(&m->basis, false, &m->X, err) : r;
    return r == 0 ? kron_rows_gather(&m->rows, m->p.be, &m->X, &m->M, err) : r;
}

static int apply(struct precond *m, const struct mat *R, const struct mat *Z, struct err *err)
{
    const struct backend_ops *o = m->p.be->ops;
    int r = o->copy(m->p.be, R, &m->N, err);
    r = r == 0 ? to_places(m, err) : r;
    r = r == 0 ? chebyshev(m, err) : r;
    r = r == 0 ? to_rows(m, err) : r;
    r = r == 0 ? combine(m, -1.0 / m->rho, &m->M, 1.0 / m->rho, &m->N, err) : r;
    return r == 0 ? o->copy(m->p.be, &m->N, Z, err) : r;
}

/* It is no approximation of low rank. */
static int64_t rank(const struct precond *m)
{
    (void)m;
    return 0;
}

const struct precond_ops precond_kronecker_ops = {
    .name = "kronecker",
    .setup = setup,
    .build = build,
    .apply = apply,
    .rank = rank,
    .teardown = teardown,
};
