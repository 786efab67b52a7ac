#include "bench/ceiling.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/ceiling_isa.h"

#define RUNS 40
#define RUN_S 0.0015 /* of one run: well below a scheduler's slice */
#define READS 12
#define SLICE_ROUNDS 1000 /* between two looks at the clock */
#define PROBES (6 + CEILING_EXP2)
#define READ_COUNT (8 << 20) /* doubles a thread: 64 MiB, beyond the share of any cache */

/* NULL, and *err set, when there is none of that name. */
static const struct ceiling_isa *find_isa(const char *name, struct err *err)
{
    const struct ceiling_isa *const *isa = ceiling_isa_list();
    while (*isa != NULL && strcmp((*isa)->name, name) != 0) {
        isa++;
    }
    if (*isa == NULL) {
        err_set(err, ERR_UNSUPPORTED, "There are no ceiling loops for \"%.40s\".", name);
    }
    return *isa;
}

/* ---- arithmetic ---- */

static double run_once(const struct ceiling_loop *loop, int64_t rounds)
{
    char sink[64] __attribute__((aligned(64)));
    const double began = clock_monotonic_s();
    loop->run(rounds, sink);
    return clock_monotonic_s() - began;
}

/* So many that one run takes RUN_S. */
static int64_t count_rounds(const struct ceiling_loop *loop)
{
    int64_t rounds = 1000;
    while (run_once(loop, rounds) < RUN_S && rounds < INT64_MAX / 4) {
        rounds *= 2;
    }
    return rounds;
}

/* One kind of work. */
struct probe {
    const struct ceiling_loop *loop;
    int64_t rounds; /* of one run */
    double rate;    /* lanes a second, summed over the threads */
};

/* Threads run side by side, and each one's best runs count. The kinds take turns, so that a
 * disturbance of some milliseconds spoils no kind's runs altogether. */
static void run_probes(struct probe probes[PROBES], int count, int threads)
{
#pragma omp parallel num_threads(threads)
    {
        double best[PROBES];
        for (int i = 0; i < RUNS * count; i++) {
            const struct probe *p = &probes[i % count];
#pragma omp barrier
            const double seconds = run_once(p->loop, p->rounds);
            best[i % count] = i < count ? seconds : fmin(best[i % count], seconds);
        }
#pragma omp critical
        for (int i = 0; i < count; i++) {
            probes[i].rate += (double)(probes[i].rounds * probes[i].loop->lanes) / best[i];
        }
    }
}

static struct ceiling_rates measure_type(const struct ceiling_type *type, int threads)
{
    struct probe probes[PROBES] = {
        {.loop = &type->fma},  {.loop = &type->add},    {.loop = &type->pair},
        {.loop = &type->root}, {.loop = &type->beside},
    };
    int count = 5;
    if (type->steps.run != NULL) {
        probes[count++].loop = &type->steps;
    }
    const int powers = count;
    for (int i = 0; i < CEILING_EXP2 && type->exp2[i].run != NULL; i++) {
        probes[count++].loop = &type->exp2[i];
    }
    for (int i = 0; i < count; i++) {
        probes[i].rounds = count_rounds(probes[i].loop);
    }
    run_probes(probes, count, threads);
    double exp2 = 0.0;
    for (int i = powers; i < count; i++) {
        exp2 = fmax(exp2, probes[i].rate);
    }
    return (struct ceiling_rates){
        .fma = fmax(probes[0].rate, probes[2].rate), /* a pair holds one */
        .alone = probes[0].rate,
        .add = probes[1].rate,
        .pair = probes[2].rate,
        .root = probes[3].rate,
        .beside = probes[4].rate,
        .steps = powers > 5 ? probes[5].rate : 0.0,
        .exp2 = exp2,
    };
}

/* ---- memory ---- */

/* Eight chains, so that additions do not wait for each other. */
static double sum_array(const double *data, int64_t n)
{
    double sum[8] = {0};
    for (int64_t i = 0; i + 8 <= n; i += 8) {
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++) {
            sum[c] += data[i + c];
        }
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static double read_once(const double *data, int threads)
{
    double total = 0.0;
    const double began = clock_monotonic_s();
#pragma omp parallel num_threads(threads) reduction(+ : total)
    total += sum_array(data + (int64_t)omp_get_thread_num() * READ_COUNT, READ_COUNT);
    const double seconds = clock_monotonic_s() - began;
    return total >= 0.0 ? (double)READ_COUNT * sizeof(double) * threads / seconds : 0.0;
}

static int measure_read(int threads, double *ret, struct err *err)
{
    cleanup_mem double *data = mem_aligned((size_t)threads * READ_COUNT, sizeof *data);
    if (data == NULL) {
        return err_no_memory(err);
    }
    memset(data, 0, (size_t)threads * READ_COUNT * sizeof *data);
    double best = 0.0;
    for (int i = 0; i < READS; i++) {
        const double rate = read_once(data, threads);
        best = rate > best ? rate : best;
    }
    *ret = best;
    return 0;
}

int ceiling_measure(const char *isa, int threads, struct ceiling *ret, struct err *err)
{
    const struct ceiling_isa *loops = find_isa(isa, err);
    if (loops == NULL) {
        return -ERR_UNSUPPORTED;
    }
    double read_bytes = 0.0;
    const int r = measure_read(threads, &read_bytes, err);
    if (r == 0) {
        *ret = (struct ceiling){
            .f32 = measure_type(&loops->f32, threads),
            .f64 = measure_type(&loops->f64, threads),
            .read_bytes = read_bytes,
        };
    }
    return r;
}

int ceiling_mean_fma(const char *isa, enum dtype dtype, int threads, double seconds, double *ret,
                     struct err *err)
{
    const struct ceiling_isa *loops = find_isa(isa, err);
    if (loops == NULL) {
        return -ERR_UNSUPPORTED;
    }
    const struct ceiling_loop *loop = dtype == DTYPE_F32 ? &loops->f32.fma : &loops->f64.fma;
    double rate = 0.0;
#pragma omp parallel num_threads(threads) reduction(+ : rate)
    {
        double passed = 0.0;
        int64_t rounds = 0;
        while (passed < seconds) {
            passed += run_once(loop, SLICE_ROUNDS);
            rounds += SLICE_ROUNDS;
        }
        rate += (double)(rounds * loop->lanes) / passed;
    }
    *ret = rate;
    return 0;
}
