#include "plan/plan_served.h"

/* As the processor's backend has them (cpu/lanes.h): a lane's run of centers, the most lanes of a
 * group, and the least number of runs that are held so. */
enum { RUN = 120, LANES = 16, LEAST_RUNS = 5 };

/* Likewise (cpu/form.c): of a set's rows that are turned. */
#define TURNED_BYTES (12 << 20)

/* As a predictor has them (predictor.c). */
#define LANES_FROM 1e5
enum { FUNCTION_COST = 12, PANEL_ROWS = 16 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Centers that lanes hold, with those of zeros that fill up the last group. */
static int64_t in_lanes(const struct plan_served *p)
{
    const int64_t runs = ceil_div(p->centers, RUN);
    const double work = (double)p->centers * (double)(p->d + p->outputs + FUNCTION_COST);
    return work >= LANES_FROM && runs >= LEAST_RUNS ? ceil_div(runs, LANES) * LANES * RUN : 0;
}

int64_t plan_served_bytes(const struct plan_served *p)
{
    const int64_t number = sizeof(double);
    const int64_t point = (p->d + 1) * p->point_bytes; /* laplacian_l1 keeps a sum beside them */
    const int64_t coefficients = p->centers * p->outputs * number;
    const int64_t packed = (p->centers + 1 + in_lanes(p)) * point + coefficients;
    const int64_t scales = 2 * (p->d + p->outputs) * number;
    const int64_t room = PANEL_ROWS * (p->d * p->point_bytes + (2 * p->outputs + 1) * number);
    const int64_t turned = p->l1 ? p->centers * point : 0;
    const int64_t variance =
        p->directions > 0 ? (p->centers * p->directions + p->directions + 1) * number : 0;
    return packed + scales + room + variance + (turned <= TURNED_BYTES ? turned : 0);
}
