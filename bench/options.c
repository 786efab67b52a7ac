#include "bench/options.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char bench_usage[] =
    "krr-bench operator [--kernel gaussian] [--n 20000] [--m N] [--d 18] [--rhs 1]\n"
    "          [--precision float32|float64|mixed] [--device cpu] [--isa NAME] [--threads 0]\n"
    "          [--symmetric] [--repeat 5] [--bandwidth S] [--outliers SHARE] [--seed 0]\n"
    "          [--save FILE] [--grid] [--cached [--storage exact|float16]]\n"
    "    Times Y <- K(P,Q) V on normal random points; one JSON line. --symmetric: Q is P.\n"
    "    --outliers: so many of the rows, 0 to 1, lie ten times as far out.\n"
    "    --isa takes the kernel loops of avx512, avx512_intel, avx2 or portable instead of the\n"
    "    best.\n"
    "    --grid: by Fourier transforms or a grid, where points have few features and that pays.\n"
    "    --cached keeps the kernel values in memory; it needs --symmetric.\n"
    "    --save writes points, weights and product as a safetensors file.\n"
    "krr-bench solve --job ORDER.json [--trace FILE] [--device cpu] [--threads 0]\n"
    "    Runs one training order; one JSON line. --trace writes what every step reported, a JSON\n"
    "    object a line.\n"
    "krr-bench centers --job ORDER.json [--repeat 1] [--scores FILE] [--device cpu] [--threads 0]\n"
    "    Times the selection of the order's centers, --repeat times with seeds that follow each\n"
    "    other; one JSON line. --scores compares the leverage scores that they give with the "
    "exact\n"
    "    ones, which are computed and written to FILE where it does not exist yet: 8 n^2 bytes.\n";

/* Flags by the number getopt_long returns. */
enum flag {
    FLAG_KERNEL = 1,
    FLAG_N,
    FLAG_M,
    FLAG_D,
    FLAG_RHS,
    FLAG_PRECISION,
    FLAG_SYMMETRIC,
    FLAG_GRID,
    FLAG_CACHED,
    FLAG_STORAGE,
    FLAG_REPEAT,
    FLAG_BANDWIDTH,
    FLAG_OUTLIERS,
    FLAG_SEED,
    FLAG_SAVE,
    FLAG_DEVICE,
    FLAG_ISA,
    FLAG_THREADS,
    FLAG_JOB,
    FLAG_TRACE,
    FLAG_SCORES,
    FLAG_HELP
};

static const struct option operator_flags[] = {
    {"kernel", required_argument, NULL, FLAG_KERNEL},
    {"n", required_argument, NULL, FLAG_N},
    {"m", required_argument, NULL, FLAG_M},
    {"d", required_argument, NULL, FLAG_D},
    {"rhs", required_argument, NULL, FLAG_RHS},
    {"precision", required_argument, NULL, FLAG_PRECISION},
    {"symmetric", no_argument, NULL, FLAG_SYMMETRIC},
    {"grid", no_argument, NULL, FLAG_GRID},
    {"cached", no_argument, NULL, FLAG_CACHED},
    {"storage", required_argument, NULL, FLAG_STORAGE},
    {"repeat", required_argument, NULL, FLAG_REPEAT},
    {"bandwidth", required_argument, NULL, FLAG_BANDWIDTH},
    {"outliers", required_argument, NULL, FLAG_OUTLIERS},
    {"seed", required_argument, NULL, FLAG_SEED},
    {"save", required_argument, NULL, FLAG_SAVE},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"isa", required_argument, NULL, FLAG_ISA},
    {"threads", required_argument, NULL, FLAG_THREADS},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

static const struct option solve_flags[] = {
    {"job", required_argument, NULL, FLAG_JOB},
    {"trace", required_argument, NULL, FLAG_TRACE},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"threads", required_argument, NULL, FLAG_THREADS},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

static const struct option centers_flags[] = {
    {"job", required_argument, NULL, FLAG_JOB},
    {"repeat", required_argument, NULL, FLAG_REPEAT},
    {"scores", required_argument, NULL, FLAG_SCORES},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"threads", required_argument, NULL, FLAG_THREADS},
    {"help", no_argument, NULL, FLAG_HELP},
    {NULL, 0, NULL, 0},
};

/* A decimal integer in min..max, the whole text. */
static int read_integer(const char *flag, const char *text, int64_t min, int64_t max, int64_t *ret,
                        struct err *err)
{
    char *end;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || v < min || v > max) {
        return err_set(err, ERR_INVALID, "--%s takes an integer from %lld to %lld, not \"%.40s\".",
                       flag, (long long)min, (long long)max, text);
    }
    *ret = v;
    return 0;
}

static int read_bandwidth(const char *text, double *ret, struct err *err)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v) || v <= 0.0) {
        return err_set(err, ERR_INVALID, "--bandwidth takes a number above 0, not \"%.40s\".",
                       text);
    }
    *ret = v;
    return 0;
}

static int read_share(const char *text, double *ret, struct err *err)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v >= 0.0 && v <= 1.0)) {
        return err_set(err, ERR_INVALID, "--outliers takes a share from 0 to 1, not \"%.40s\".",
                       text);
    }
    *ret = v;
    return 0;
}

static int read_precision(const char *text, enum precision *ret, struct err *err)
{
    static const enum precision all[] = {PRECISION_FLOAT64, PRECISION_FLOAT32, PRECISION_MIXED};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(text, precision_name(all[i])) == 0) {
            *ret = all[i];
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "--precision is float32, float64 or mixed, not \"%.40s\".",
                   text);
}

static int read_storage(const char *text, enum kernel_storage *ret, struct err *err)
{
    if (strcmp(text, "exact") == 0) {
        *ret = KERNEL_STORE_EXACT;
    } else if (strcmp(text, "float16") == 0) {
        *ret = KERNEL_STORE_HALF;
    } else {
        return err_set(err, ERR_INVALID, "--storage is exact or float16, not \"%.40s\".", text);
    }
    return 0;
}

static int read_operator_flag(int flag, const char *text, struct operator_options *o,
                              struct err *err)
{
    switch (flag) {
    case FLAG_KERNEL:
        return kernel_id_parse(text, &o->kernel, err);
    case FLAG_N:
        return read_integer("n", text, 1, 1000000000, &o->n, err);
    case FLAG_M:
        return read_integer("m", text, 1, 1000000000, &o->m, err);
    case FLAG_D:
        return read_integer("d", text, 1, 1000000, &o->d, err);
    case FLAG_RHS:
        return read_integer("rhs", text, 1, 4096, &o->rhs, err);
    case FLAG_PRECISION:
        return read_precision(text, &o->precision, err);
    case FLAG_SYMMETRIC:
        o->symmetric = true;
        return 0;
    case FLAG_GRID:
        o->grid = true;
        return 0;
    case FLAG_CACHED:
        o->cached = true;
        return 0;
    case FLAG_STORAGE:
        o->storage_given = true;
        return read_storage(text, &o->storage, err);
    case FLAG_REPEAT:
        return read_integer("repeat", text, 1, 1000, &o->repeat, err);
    case FLAG_BANDWIDTH:
        return read_bandwidth(text, &o->bandwidth, err);
    case FLAG_OUTLIERS:
        return read_share(text, &o->outliers, err);
    case FLAG_SEED:
        return read_integer("seed", text, 0, INT64_MAX, &o->seed, err);
    default:
        o->save = text;
        return 0;
    }
}

static int read_flag(int flag, const char *text, struct bench_options *o, struct err *err)
{
    int64_t threads = 0;
    int r = 0;
    switch (flag) {
    case '?':
        return err_set(err, ERR_INVALID, "See krr-bench --help.");
    case FLAG_HELP:
        o->command = BENCH_HELP;
        return 0;
    case FLAG_DEVICE:
        o->device = text;
        return 0;
    case FLAG_ISA:
        o->isa = text;
        return 0;
    case FLAG_JOB:
        o->solve.job = o->centers.job = text;
        return 0;
    case FLAG_TRACE:
        o->solve.trace = text;
        return 0;
    case FLAG_SCORES:
        o->centers.scores = text;
        return 0;
    case FLAG_THREADS:
        r = read_integer("threads", text, 0, 1024, &threads, err);
        o->threads = (int)threads;
        return r;
    default:
        return read_operator_flag(flag, text, &o->product, err);
    }
}

/* What depends on other flags. */
static int complete_operator(struct operator_options *o, struct err *err)
{
    if (o->symmetric && o->m != 0 && o->m != o->n) {
        return err_set(err, ERR_INVALID, "--symmetric means that Q is P, so --m is --n.");
    }
    if (o->cached && !o->symmetric) {
        return err_set(err, ERR_INVALID,
                       "--cached is for products of points with themselves: add --symmetric.");
    }
    if (o->storage_given && !o->cached) {
        return err_set(err, ERR_INVALID, "--storage says how to keep values: add --cached.");
    }
    o->m = o->m != 0 ? o->m : o->n;
    if (o->bandwidth == 0.0) {
        o->bandwidth = kernel_uses_l1(o->kernel) ? (double)o->d : sqrt((double)o->d);
    }
    return 0;
}

static int read_command(const char *name, enum bench_command *ret, struct err *err)
{
    if (name != NULL && strcmp(name, "operator") == 0) {
        *ret = BENCH_OPERATOR;
    } else if (name != NULL && strcmp(name, "solve") == 0) {
        *ret = BENCH_SOLVE;
    } else if (name != NULL && strcmp(name, "centers") == 0) {
        *ret = BENCH_CENTERS;
    } else if (name != NULL && strcmp(name, "--help") == 0) {
        *ret = BENCH_HELP;
    } else {
        return err_set(err, ERR_INVALID,
                       "The first word is operator, solve or centers; see krr-bench --help.");
    }
    return 0;
}

int bench_options_read(int argc, char **argv, struct bench_options *ret, struct err *err)
{
    struct bench_options o = {
        .device = "cpu",
        .product = {.kernel = KERNEL_GAUSSIAN,
                    .n = 20000,
                    .d = 18,
                    .rhs = 1,
                    .precision = PRECISION_FLOAT32,
                    .repeat = 5},
    };
    int r = read_command(argc > 1 ? argv[1] : NULL, &o.command, err);
    const struct option *flags = o.command == BENCH_SOLVE     ? solve_flags
                                 : o.command == BENCH_CENTERS ? centers_flags
                                                              : operator_flags;
    if (o.command == BENCH_CENTERS) {
        o.product.repeat = 1;
    }
    optind = 2;
    for (int c; r == 0 && o.command != BENCH_HELP &&
                (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        r = read_flag(c, optarg, &o, err);
    }
    if (r == 0 && o.command != BENCH_HELP && optind != argc) {
        r = err_set(err, ERR_INVALID, "\"%.40s\" is no flag.", argv[optind]);
    }
    if (r == 0 && o.command == BENCH_OPERATOR) {
        r = complete_operator(&o.product, err);
    }
    if (r == 0 && o.isa != NULL && strcmp(o.device, "cpu") != 0) {
        r = err_set(err, ERR_INVALID, "--isa belongs to --device cpu.");
    }
    if (r == 0 && o.command >= BENCH_SOLVE && o.solve.job == NULL) {
        r = err_set(err, ERR_INVALID, "%s needs --job.", argv[1]);
    }
    o.centers.repeat = o.product.repeat;
    if (r == 0) {
        *ret = o;
    }
    return r;
}
