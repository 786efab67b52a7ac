#include "wire/order.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"

static const struct param_def order_params[] = {
    {
        .key = "attempt",
        .type = PARAM_INT,
        .min = 1,
        .max = 1e9,
        .fallback = "1",
        .help = "How often the job was started, this time included.",
    },
    {
        .key = "checkpoint_interval_s",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e9,
        .fallback = "30",
        .help = "Seconds before the first checkpoint and between two.",
    },
    {
        .key = "start_bytes",
        .type = PARAM_INT,
        .min = 0,
        .max = JSON_WHOLE_MAX,
        .fallback = "0",
        .help = "Size of the earlier model's file that came before the order.",
    },
    {
        .key = "kernel_cache_bytes",
        .type = PARAM_INT,
        .min = 0,
        .max = JSON_WHOLE_MAX,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Of kept kernel values, as the job's plan has it; auto: there is no plan.",
    },
    {
        .key = "open_centers",
        .type = PARAM_BOOL,
        .fallback = "false",
        .help = "Whether the plan chose the spec's centers, so that there may be fewer.",
    },
    {
        .key = "setup_s",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e300,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Seconds before the first iteration, as the plan expects; auto: not known.",
    },
    {
        .key = "finish_s",
        .type = PARAM_REAL,
        .min = 0,
        .max = 1e300,
        .fallback = "\"auto\"",
        .allow_auto = true,
        .help = "Seconds from the last iteration to the end, as setup_s.",
    },
    {.key = NULL},
};

static int read_job(const struct json *j, struct order *o, struct err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *job = NULL;
    const int rc = field_text(j, "job", &job, err);
    if (rc < 0) {
        return rc;
    }
    const size_t len = strlen(job);
    if (len >= sizeof(o->job) || strspn(job, allowed) != len) {
        return field_wrong(err, "job", FIELD_WHOLE, json_get(j, "job"),
                           "at most %zu letters, digits, '_' and '-'", sizeof(o->job) - 1);
    }
    memcpy(o->job, job, len + 1);
    return 0;
}

static int read_path(const struct json *j, const char *key, char **ret, struct err *err)
{
    const char *path = NULL;
    const int rc = field_text(j, key, &path, err);
    if (rc < 0) {
        return rc;
    }
    *ret = mem_strdup(path);
    return *ret == NULL ? err_no_memory(err) : 0;
}

/* The path of a data set that the spec names beside the training data, and of no other. */
static int read_named(const struct json *j, const char *key, bool named, char **ret,
                      struct err *err)
{
    if (named) {
        return read_path(j, key, ret, err);
    }
    const struct json *given = json_get(j, key);
    return given == NULL || json_type(given) == JSON_NULL
               ? 0
               : field_error(err, key, FIELD_WHOLE, "The spec names no such data set.");
}

static int read_paths(const struct json *j, struct order *o, struct err *err)
{
    const bool tested = o->spec->test.kind == SPEC_TEST_DATASET;
    const bool centered = o->spec->centers.dataset[0] != '\0';
    int rc = read_path(j, "dataset_path", &o->dataset_path, err);
    rc = rc < 0 ? rc : read_named(j, "test_dataset_path", tested, &o->test_dataset_path, err);
    return rc < 0 ? rc
                  : read_named(j, "centers_dataset_path", centered, &o->centers_dataset_path, err);
}

/* A text that may be null or absent. */
static int read_optional(const struct json *j, const char *key, char **ret, struct err *err)
{
    const struct json *given = json_get(j, key);
    return given == NULL || json_type(given) == JSON_NULL ? 0 : read_path(j, key, ret, err);
}

static int read_checkpoint(const struct json *j, struct order *o, struct err *err)
{
    int rc = read_optional(j, "dataset_sha256", &o->dataset_sha256, err);
    rc = rc < 0 ? rc : read_optional(j, "test_dataset_sha256", &o->test_dataset_sha256, err);
    rc = rc < 0 ? rc : read_optional(j, "centers_dataset_sha256", &o->centers_dataset_sha256, err);
    return rc < 0 ? rc : read_optional(j, "checkpoint_path", &o->checkpoint_path, err);
}

static int read_spec(const struct json *j, struct order *o, struct err *err)
{
    const struct json *spec = json_get(j, "spec");
    if (spec == NULL) {
        return field_wrong(err, "spec", FIELD_WHOLE, spec, "a job specification");
    }
    const int rc = job_spec_read(spec, &o->spec, err);
    if (rc < 0) {
        err_prefix(err, "#/spec");
        return rc;
    }
    o->document = json_copy(spec);
    return o->document == NULL ? err_no_memory(err) : 0;
}

/* NaN for auto. */
static double real_or_nan(const struct param_set *set, const char *key)
{
    return param_get(set, key)->is_auto ? (double)NAN : param_real(set, key);
}

int order_read(const struct json *j, struct order **ret, struct err *err)
{
    static const char *const also[] = {
        "job",
        "spec",
        "dataset_path",
        "test_dataset_path",
        "centers_dataset_path",
        "dataset_sha256",
        "test_dataset_sha256",
        "centers_dataset_sha256",
        "checkpoint_path",
        NULL,
    };
    if (j == NULL || json_type(j) != JSON_OBJECT) {
        return err_at(err, ERR_INVALID, "#", "A training order is a JSON object.");
    }
    struct order *o = mem_zalloc(sizeof(*o));
    if (o == NULL) {
        return err_no_memory(err);
    }
    struct param_set set;
    int rc = param_read(order_params, j, also, &set, err);
    rc = rc < 0 ? rc : read_job(j, o, err);
    rc = rc < 0 ? rc : read_spec(j, o, err);
    rc = rc < 0 ? rc : read_paths(j, o, err);
    rc = rc < 0 ? rc : read_checkpoint(j, o, err);
    if (rc < 0) {
        order_free(o);
        return rc;
    }
    o->attempt = param_int(&set, "attempt");
    o->start_bytes = param_int(&set, "start_bytes");
    o->checkpoint_interval_s = param_real(&set, "checkpoint_interval_s");
    o->planned = !param_get(&set, "kernel_cache_bytes")->is_auto;
    o->kernel_cache_bytes = o->planned ? param_int(&set, "kernel_cache_bytes") : 0;
    o->open_centers = param_bool(&set, "open_centers");
    o->setup_s = real_or_nan(&set, "setup_s");
    o->finish_s = real_or_nan(&set, "finish_s");
    *ret = o;
    return 0;
}

static void write_known(struct json *j, const char *key, double seconds)
{
    if (!isnan(seconds)) {
        json_set_number(j, key, seconds);
    }
}

struct json *order_write(const struct order *o)
{
    struct json *j cleanup_json = json_new_object();
    json_set_string(j, "job", o->job);
    json_set_int(j, "attempt", o->attempt);
    json_set(j, "spec", json_copy(o->document));
    json_set_string(j, "dataset_path", o->dataset_path);
    json_set_string(j, "test_dataset_path", o->test_dataset_path);
    json_set_string(j, "centers_dataset_path", o->centers_dataset_path);
    json_set_string(j, "dataset_sha256", o->dataset_sha256);
    json_set_string(j, "test_dataset_sha256", o->test_dataset_sha256);
    json_set_string(j, "centers_dataset_sha256", o->centers_dataset_sha256);
    json_set_string(j, "checkpoint_path", o->checkpoint_path);
    json_set_number(j, "checkpoint_interval_s", o->checkpoint_interval_s);
    json_set_int(j, "start_bytes", o->start_bytes);
    if (o->planned) {
        json_set_int(j, "kernel_cache_bytes", o->kernel_cache_bytes);
    }
    if (o->open_centers) {
        json_set_bool(j, "open_centers", true);
    }
    write_known(j, "setup_s", o->setup_s);
    write_known(j, "finish_s", o->finish_s);
    struct json *ret = json_ok(j) ? j : NULL;
    j = ret == NULL ? j : NULL;
    return ret;
}

static void add_text(struct sha256 *hash, const char *text)
{
    sha256_update(hash, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
    sha256_update(hash, "\n", 1);
}

int order_identity(const struct order *o, char ret[SHA256_HEX_SIZE], struct err *err)
{
    char *spec cleanup_mem = json_print(o->document);
    struct sha256 *hash = spec == NULL ? NULL : sha256_new();
    if (hash == NULL) {
        return err_no_memory(err);
    }
    add_text(hash, spec);
    add_text(hash, o->dataset_sha256);
    add_text(hash, o->test_dataset_sha256);
    add_text(hash, o->centers_dataset_sha256);
    sha256_hex(hash, ret);
    sha256_free(hash);
    return 0;
}

struct order *order_free(struct order *o)
{
    if (o != NULL) {
        json_free(o->document);
        job_spec_free(o->spec);
        mem_free(o->dataset_path);
        mem_free(o->test_dataset_path);
        mem_free(o->centers_dataset_path);
        mem_free(o->dataset_sha256);
        mem_free(o->test_dataset_sha256);
        mem_free(o->centers_dataset_sha256);
        mem_free(o->checkpoint_path);
    }
    return mem_free(o);
}
