#include "plan/machine.h"

#include <stddef.h>

/* Resident bytes of a worker that has measured its rates; seen with OpenBLAS on x86-64. */
#define USUAL_BASE_BYTES (INT64_C(24) << 20)

static const struct {
    const char *key;
    size_t offset; /* of a double in struct plan_rates */
} rates[] = {
    {"kernel_values_float32_per_s", offsetof(struct plan_rates, values_f32)},
    {"kernel_values_float64_per_s", offsetof(struct plan_rates, values_f64)},
    {"multiply_adds_float32_per_s", offsetof(struct plan_rates, multiply_adds_f32)},
    {"multiply_adds_float64_per_s", offsetof(struct plan_rates, multiply_adds_f64)},
    {"bytes_per_s", offsetof(struct plan_rates, bytes)},
    {"near_values_float32_per_s", offsetof(struct plan_rates, near_f32)},
    {"near_values_float64_per_s", offsetof(struct plan_rates, near_f64)},
};
enum { RATES = sizeof(rates) / sizeof(rates[0]) };

struct plan_machine plan_machine_unknown(void)
{
    return (struct plan_machine){
        .threads = 1,
        .limit_bytes = INT64_MAX,
        .free_bytes = INT64_MAX,
        .base_bytes = USUAL_BASE_BYTES,
    };
}

void plan_rates_write(const struct plan_rates *r, struct json *to)
{
    if (!(r->bytes > 0)) {
        json_set(to, "rates", json_new_null());
        return;
    }
    struct json *members = json_set_object(to, "rates");
    for (int i = 0; i < RATES; i++) {
        const double rate = *(const double *)((const char *)r + rates[i].offset);
        if (rate > 0) {
            json_set_number(members, rates[i].key, rate);
        }
    }
}

void plan_machine_write(const struct plan_machine *m, struct json *hello)
{
    json_set_int(hello, "threads", m->threads);
    json_set_int(hello, "base_bytes", m->base_bytes);
    json_set(hello, "device_bytes",
             m->own_memory ? json_new_number((double)m->device_bytes) : json_new_null());
    plan_rates_write(&m->rates, hello);
}

/* A number of at least `least`, or what was there. */
static double take(const struct json *from, const char *key, double least, double otherwise)
{
    const struct json *j = json_get(from, key);
    const bool number = j != NULL && json_type(j) == JSON_NUMBER && json_number(j) >= least;
    return number ? json_number(j) : otherwise;
}

static void read_rates(const struct json *from, struct plan_rates *ret)
{
    const struct json *measured = json_get(from, "rates");
    for (int i = 0; measured != NULL && json_type(measured) == JSON_OBJECT && i < RATES; i++) {
        double *to = (double *)(void *)((char *)ret + rates[i].offset);
        *to = take(measured, rates[i].key, 0, *to);
    }
}

void plan_machine_write_left(const struct plan_machine *m, int64_t process_bytes, struct json *done)
{
    json_set_int(done, "process_bytes", process_bytes);
    plan_rates_write(&m->rates, done);
}

void plan_machine_read_left(const struct json *done, struct plan_machine *ret)
{
    const double most = 9007199254740992.0; /* 2^53 */
    const double process = take(done, "process_bytes", 0, 0);
    const double left = process <= most ? process - (double)ret->base_bytes : 0;
    ret->left_bytes = left > 0 ? (int64_t)left : 0;
    read_rates(done, &ret->rates);
}

void plan_machine_read(const struct json *hello, struct plan_machine *ret)
{
    const double most = 9007199254740992.0; /* 2^53 */
    const double threads = take(hello, "threads", 1, ret->threads);
    const double base = take(hello, "base_bytes", 1, (double)ret->base_bytes);
    const double device = take(hello, "device_bytes", 1, 0);
    ret->threads = threads <= 4096 ? (int)threads : 1;
    ret->base_bytes = base <= most ? (int64_t)base : ret->base_bytes;
    ret->own_memory = device > 0 && device <= most;
    ret->device_bytes = ret->own_memory ? (int64_t)device : 0;
    read_rates(hello, &ret->rates);
}
