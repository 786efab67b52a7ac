/*
 * krr-json: how fast JSON numbers are read into a matrix and printed, and how much memory reading
 * takes, beside other libraries. One JSON line on stdout:
 *
 *     krr-json [ROWS [COLUMNS [REPEATS]]]
 *
 * Five texts: numbers of 16 and 17 digits, as programs print doubles; of six and of three decimals,
 * as data files have them; rows of four like [5.1,3.5,1.4,0.2], as people write them; and integers
 * among numbers of up to three decimals. Times are CPU seconds, the best of REPEATS; MB are 10^6
 * bytes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/json/contender.h"
#include "bench/machine.h"

struct workload {
    const char *name;
    int columns;     /* 0: as asked for */
    double from, to; /* range of the numbers */
    int least, most; /* decimals of each, drawn; ALL_DIGITS */
};

struct sample {
    int64_t rows, columns;
    double *values;
    struct buf text;
};

enum { ALL_DIGITS = -1 };

static const struct workload workloads[] = {
    {"all_digits", 0, -5.0, 5.0, ALL_DIGITS, ALL_DIGITS},
    {"six_decimals", 0, -5.0, 5.0, 6, 6},
    {"three_decimals", 0, -5.0, 5.0, 3, 3},
    {"one_decimal_rows_of_4", 4, 0.0, 8.0, 1, 1},
    {"integers_to_three_decimals", 0, -100.0, 100.0, 0, 3},
};

struct result {
    bool good;
    double read_s, print_s;
    size_t printed;
    double memory; /* bytes that reading adds to the process */
};

static struct result measure(const struct contender *c, const struct sample *w, int repeats)
{
    struct result r = {.read_s = INFINITY, .print_s = INFINITY};
    double sum = 0.0;
    machine_reset_peak();
    const int64_t before = machine_resident_bytes();
    r.good = c->read(w->text.data, w->text.len, w->columns, &sum) == w->rows * w->columns;
    r.memory = (double)(machine_peak_bytes() - before);
    for (int i = 0; i < repeats; i++) {
        const double start = machine_cpu_s();
        c->read(w->text.data, w->text.len, w->columns, &sum);
        const double middle = machine_cpu_s();
        r.printed = c->print(w->values, w->rows * w->columns);
        const double end = machine_cpu_s();
        r.read_s = fmin(r.read_s, middle - start);
        r.print_s = fmin(r.print_s, end - middle);
    }
    return r;
}

/* In a process of its own, so that each one's memory is its own. */
static struct result measure_apart(const struct contender *c, const struct sample *w, int repeats)
{
    struct result r = {.good = false};
    int ends[2];
    if (pipe(ends) != 0) {
        return r;
    }
    const pid_t child = fork();
    if (child == 0) {
        r = measure(c, w, repeats);
        _exit(write(ends[1], &r, sizeof r) == sizeof r ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &r, sizeof r) != sizeof r) {
        r.good = false;
    }
    close(ends[0]);
    waitpid(child, NULL, 0);
    return r;
}

static void describe(struct json *to, const struct contender *c, const struct sample *w,
                     int repeats)
{
    const struct result r = measure_apart(c, w, repeats);
    struct json *j = json_set_object(to, c->name);
    if (!r.good) {
        json_set_string(j, "error", "it read something else");
        return;
    }
    json_set_number(j, "read_mb_per_s", round((double)w->text.len / r.read_s / 1e6));
    json_set_number(j, "print_mb_per_s", round((double)r.printed / r.print_s / 1e6));
    json_set_int(j, "printed_bytes", (int64_t)r.printed);
    json_set_number(j, "read_memory_over_body",
                    round(100.0 * r.memory / (double)w->text.len) / 100.0);
}

static void write_body(struct sample *w)
{
    buf_str(&w->text, "{\"instances\":[");
    for (int64_t i = 0; i < w->rows; i++) {
        buf_str(&w->text, i > 0 ? ",[" : "[");
        buf_json_numbers(&w->text, w->values + i * w->columns, w->columns);
        buf_char(&w->text, ']');
    }
    buf_str(&w->text, "]}");
}

static double draw(const struct workload *w, struct rng *r)
{
    const double v = w->from + (w->to - w->from) * ((double)(rng_u64(r) >> 11) * 0x1p-53);
    if (w->least == ALL_DIGITS) {
        return v;
    }
    const double power = pow(10, w->least + (int)rng_below(r, w->most - w->least + 1));
    return round(v * power) / power;
}

static bool make(const struct workload *w, struct sample *ret)
{
    struct rng r = rng_new(7, RNG_TEST);
    const int64_t n = ret->rows * ret->columns;
    ret->values = mem_array((size_t)n, sizeof *ret->values);
    for (int64_t i = 0; ret->values != NULL && i < n; i++) {
        ret->values[i] = draw(w, &r);
    }
    if (ret->values != NULL) {
        write_body(ret);
    }
    return ret->values != NULL && !ret->text.failed;
}

static void compare(const struct workload *w, int64_t rows, int64_t columns, int repeats,
                    struct json *report)
{
    struct sample s = {.rows = rows, .columns = columns};
    if (w->columns > 0) {
        s.rows = rows * columns / w->columns;
        s.columns = w->columns;
    }
    struct json *j = json_set_object(report, w->name);
    if (make(w, &s)) {
        json_set_int(j, "body_bytes", (int64_t)s.text.len);
        describe(j, &contender_krrd, &s, repeats);
        describe(j, &contender_cjson, &s, repeats);
        if (contender_yyjson != NULL) {
            describe(j, contender_yyjson, &s, repeats);
        }
    } else {
        json_set_string(j, "error", "not enough memory");
    }
    mem_free(s.values);
    buf_deinit(&s.text);
}

static int64_t argument(int argc, char **argv, int i, int64_t usual)
{
    const long long v = argc > i ? strtoll(argv[i], NULL, 10) : usual;
    return v > 0 ? v : usual;
}

int main(int argc, char **argv)
{
    const int64_t rows = argument(argc, argv, 1, 100000);
    const int64_t columns = argument(argc, argv, 2, 18);
    const int repeats = (int)argument(argc, argv, 3, 5);
    cleanup_json struct json *report = json_new_object();
    char command[96];
    snprintf(command, sizeof command, "krr-json %lld %lld %d", (long long)rows, (long long)columns,
             repeats);
    json_set_string(report, "command", command);
    machine_to_json(report);
    json_set_int(report, "rows", rows);
    json_set_int(report, "columns", columns);
    json_set_int(report, "repeats", repeats);
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        compare(&workloads[i], rows, columns, repeats, report);
    }
    cleanup_mem char *text = json_print(report);
    return text != NULL && puts(text) >= 0 ? 0 : 1;
}
