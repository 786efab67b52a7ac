#include "server/serving/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/aliases.h"
#include "wire/spec.h"

enum {
    BUCKETS = 256,
    KEPT_MAX = 4096, /* references; when there are more all are forgotten and found again */
};

/* Freed with its last holder. While it lives it is found again by its key, so that a loaded model's
 * description, which may name many features, is read once. */
struct holder {
    struct served_model model; /* first */
    int64_t holders;
    struct served *home; /* NULL: found by none */
    struct holder *next, *previous;
    struct model_row row;
    struct json *description;
    const char **features, **targets, **labels;
    double *fill;
    int64_t *indicates;
    char *labels_text, *head_text;
    char digest[sizeof "sha256:" + SHA256_HEX_SIZE];
};

/* A name, and the version as it was asked for ("" for the newest). */
struct reference {
    struct reference *next;
    char *name, *version;
    struct holder *holder;
};

struct served {
    struct store *store;
    int64_t count;
    struct reference *buckets[BUCKETS];
    struct holder *living;
};

/* ---- a model ---- */

static void leave_home(struct holder *h)
{
    if (h->home) {
        *(h->previous ? &h->previous->next : &h->home->living) = h->next;
        if (h->next) {
            h->next->previous = h->previous;
        }
        h->home = NULL;
    }
}

static struct holder *holder_free(struct holder *h)
{
    if (h) {
        leave_home(h);
        model_row_deinit(&h->row);
        json_free(h->description);
        mem_free((void *)h->features);
        mem_free(h->fill);
        mem_free(h->indicates);
        mem_free((void *)h->targets);
        mem_free((void *)h->labels);
        mem_free(h->labels_text);
        mem_free(h->head_text);
        mem_free(h);
    }
    return NULL;
}

/* The texts of an array, which stay the tree's. */
static int take_names(const struct json *array, const char ***ret, int64_t *ret_count,
                      struct err *err)
{
    const int64_t count = array ? json_size(array) : 0;
    const char **names = mem_zarray((size_t)count, sizeof *names);
    if (!names) {
        return err_no_memory(err);
    }
    const struct json *at = json_first(array);
    for (int64_t i = 0; i < count; i++, at = json_next(at)) {
        names[i] = json_string(at) ? json_string(at) : "";
    }
    *ret = names;
    *ret_count = count;
    return 0;
}

/* A number for each feature; null, or absent in models of older versions, where there is none. */
static int take_fill(struct holder *h, const struct json *fill, struct err *err)
{
    if (!fill || json_type(fill) != JSON_ARRAY || json_size(fill) != h->model.d) {
        return 0;
    }
    h->fill = mem_array((size_t)h->model.d, sizeof *h->fill);
    const struct json *at = json_first(fill);
    for (int64_t i = 0; h->fill && i < h->model.d; i++, at = json_next(at)) {
        h->fill[i] = json_number(at);
    }
    return h->fill ? 0 : err_no_memory(err);
}

/* The place of a feature, or null, for each; as above. */
static int take_indicators(struct holder *h, const struct json *of, struct err *err)
{
    if (!of || json_type(of) != JSON_ARRAY || json_size(of) != h->model.d || !h->fill) {
        return 0;
    }
    h->indicates = mem_array((size_t)h->model.d, sizeof *h->indicates);
    const struct json *at = json_first(of);
    for (int64_t i = 0; h->indicates && i < h->model.d; i++, at = json_next(at)) {
        const double place = json_type(at) == JSON_NUMBER ? json_number(at) : -1;
        h->indicates[i] = place >= 0 && place < (double)h->model.d ? (int64_t)place : -1;
        h->model.indicators += h->indicates[i] >= 0;
    }
    return h->indicates ? 0 : err_no_memory(err);
}

static int take_classes(struct holder *h, const struct json *classes, struct err *err)
{
    if (!classes || json_type(classes) != JSON_ARRAY) {
        return 0;
    }
    h->labels_text = json_print(classes);
    return h->labels_text ? take_names(classes, &h->labels, &h->model.classes, err)
                          : err_no_memory(err);
}

/* A side of a matrix by a description that nobody has checked: the bytes of two sides fit. */
static int64_t side(const struct json *description, const char *key)
{
    const int64_t count = json_int(json_get(description, key));
    return count < 0 ? 0 : count < SPEC_CENTERS_MAX ? count : SPEC_CENTERS_MAX;
}

/* What the description says of the variance, which is null or absent where there is none. */
static void take_variance(struct served_model *m, const struct json *variance)
{
    m->directions = side(variance, "directions");
    m->factor_bytes = m->directions * m->centers * (int64_t)sizeof(double);
    m->variances = m->directions == 0 ? 0 : m->classes > 0 ? m->classes : m->outputs;
}

static int print_head(struct holder *h, struct err *err)
{
    struct buf b = BUF_INIT;
    buf_str(&b, "{\"model\":");
    buf_json_string(&b, h->row.name);
    buf_printf(&b, ",\"version\":%lld,\"digest\":\"sha256:%s\"", (long long)h->row.version,
               h->row.sha256);
    h->head_text = buf_take(&b);
    buf_deinit(&b);
    return h->head_text ? 0 : err_no_memory(err);
}

static void fill(struct holder *h)
{
    struct served_model *m = &h->model;
    const char *precision = json_string(json_get(h->description, "precision"));
    memcpy(h->digest, "sha256:", strlen("sha256:"));
    memcpy(h->digest + strlen("sha256:"), h->row.sha256, sizeof h->row.sha256);
    m->key = h->row.key;
    m->name = h->row.name;
    m->version = h->row.version;
    m->sha256 = h->row.sha256;
    m->digest = h->digest;
    m->bytes = h->row.bytes;
    m->features = h->features;
    m->fill = h->fill;
    m->indicates = h->indicates;
    m->targets = h->targets;
    m->mask = json_string(json_get(h->description, "mask"));
    m->labels = h->labels;
    m->labels_text = h->labels_text;
    m->head_text = h->head_text;
    m->description = h->description;
    m->float32 = precision && strcmp(precision, "float32") == 0;
    m->centers = side(h->description, "centers");
    take_variance(m, json_get(h->description, "variance"));
}

/* Takes the row. */
static int holder_new(struct model_row *row, struct holder **ret, struct err *err)
{
    struct holder *h = mem_zalloc(sizeof *h);
    if (!h) {
        model_row_deinit(row);
        return err_no_memory(err);
    }
    h->holders = 1;
    h->row = *row;
    *row = (struct model_row){.key = 0};
    int r = json_parse(h->row.description, strlen(h->row.description), &h->description, err);
    if (r == 0) {
        r = take_names(json_get(h->description, "features"), &h->features, &h->model.d, err);
    }
    r = r == 0 ? take_fill(h, json_get(h->description, "fill"), err) : r;
    r = r == 0 ? take_indicators(h, json_get(h->description, "indicates"), err) : r;
    if (r == 0) {
        r = take_names(json_get(h->description, "targets"), &h->targets, &h->model.outputs, err);
    }
    r = r == 0 ? take_classes(h, json_get(h->description, "classes"), err) : r;
    r = r == 0 ? print_head(h, err) : r;
    if (r < 0) {
        holder_free(h);
        return r == -ERR_PARSE ? err_set(err, ERR_CORRUPT, "A model's description is damaged.") : r;
    }
    fill(h);
    *ret = h;
    return 0;
}

static struct holder *holder_of(const struct served_model *m)
{
    return (struct holder *)(void *)(uintptr_t)m;
}

const struct served_model *served_hold(const struct served_model *m)
{
    holder_of(m)->holders++;
    return m;
}

const struct served_model *served_release(const struct served_model *m)
{
    struct holder *h = holder_of(m);
    if (h && --h->holders == 0) {
        holder_free(h);
    }
    return NULL;
}

/* ---- references ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash * 0x100000001b3u;
}

static struct reference **bucket_of(struct served *s, const char *name, const char *version)
{
    const uint64_t hash = hash_text(hash_text(0xcbf29ce484222325u, name), version);
    return &s->buckets[(hash ^ hash >> 32) % BUCKETS];
}

static struct holder *known(struct reference *first, const char *name, const char *version)
{
    for (const struct reference *r = first; r; r = r->next) {
        if (strcmp(r->name, name) == 0 && strcmp(r->version, version) == 0) {
            return r->holder;
        }
    }
    return NULL;
}

static void reference_free(struct reference *r)
{
    served_release(r->holder ? &r->holder->model : NULL);
    mem_free(r->name);
    mem_free(r->version);
    mem_free(r);
}

void served_changed(struct served *s)
{
    for (int i = 0; i < BUCKETS; i++) {
        while (s->buckets[i]) {
            struct reference *next = s->buckets[i]->next;
            reference_free(s->buckets[i]);
            s->buckets[i] = next;
        }
    }
    s->count = 0;
}

/* Lack of memory costs the next request a look into the store. */
static void keep(struct served *s, const char *name, const char *version, struct holder *h)
{
    if (s->count == KEPT_MAX) {
        served_changed(s);
    }
    struct reference *r = mem_zalloc(sizeof *r);
    if (!r) {
        return;
    }
    r->name = mem_strdup(name);
    r->version = mem_strdup(version);
    if (!r->name || !r->version) {
        reference_free(r);
        return;
    }
    r->holder = h;
    h->holders++;
    struct reference **bucket = bucket_of(s, name, version);
    r->next = *bucket;
    *bucket = r;
    s->count++;
}

int served_path_version(const char *text, int64_t *ret, struct err *err)
{
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n] != '\0' || text[0] == '0') {
        return err_set(err, ERR_NOT_FOUND, "\"%.40s\" is not the number of a version.", text);
    }
    *ret = strtoll(text, NULL, 10);
    return 0;
}

/* Stands before an alias in a reference; no path can hold it, so that no version is taken for one.
 */
#define ALIAS_MARK '\1'

/* Takes the row. */
static int holder_of_row(struct served *s, struct model_row *row, struct holder **ret,
                         struct err *err)
{
    for (struct holder *h = s->living; h; h = h->next) {
        if (h->row.key == row->key && h->row.version == row->version &&
            strcmp(h->row.name, row->name) == 0 && strcmp(h->row.sha256, row->sha256) == 0) {
            model_row_deinit(row);
            h->holders++;
            *ret = h;
            return 0;
        }
    }
    const int r = holder_new(row, ret, err);
    if (r == 0) {
        struct holder *h = *ret;
        h->home = s;
        h->next = s->living;
        if (h->next) {
            h->next->previous = h;
        }
        s->living = h;
    }
    return r;
}

static int look_up(struct served *s, const char *name, const char *version, struct holder **ret,
                   struct err *err)
{
    int64_t number = 0;
    struct model_row row;
    if (version[0] == ALIAS_MARK) {
        const int found = aliases_model(s->store, name, version + 1, &row, err);
        return found == 0 ? holder_of_row(s, &row, ret, err) : found;
    }
    int r = version[0] != '\0' ? served_path_version(version, &number, err) : 0;
    r = r == 0 ? models_get(s->store, name, number, &row, err) : r;
    return r == 0 ? holder_of_row(s, &row, ret, err) : r;
}

int served_find(struct served *s, const char *name, const char *version,
                const struct served_model **ret, struct err *err)
{
    const char *asked = version ? version : "";
    struct holder *h = known(*bucket_of(s, name, asked), name, asked);
    if (h) {
        *ret = served_hold(&h->model);
        return 0;
    }
    const int r = look_up(s, name, asked, &h, err);
    if (r == 0) {
        keep(s, name, asked, h);
        *ret = &h->model;
    }
    return r;
}

int served_find_alias(struct served *s, const char *name, const char *alias,
                      const struct served_model **ret, struct err *err)
{
    char version[ALIASES_NAME_MAX + 2];
    const int n = snprintf(version, sizeof version, "%c%s", ALIAS_MARK, alias);
    return n < (int)sizeof version ? served_find(s, name, version, ret, err)
                                   : err_set(err, ERR_NOT_FOUND, "There is no such alias.");
}

int served_of_row(struct model_row *row, const struct served_model **ret, struct err *err)
{
    struct holder *h;
    const int r = holder_new(row, &h, err);
    if (r == 0) {
        *ret = &h->model;
    }
    return r;
}

int served_new(struct store *store, struct served **ret, struct err *err)
{
    struct served *s = mem_zalloc(sizeof *s);
    if (!s) {
        return err_no_memory(err);
    }
    s->store = store;
    *ret = s;
    return 0;
}

struct served *served_free(struct served *s)
{
    if (s) {
        served_changed(s);
        while (s->living) {
            struct holder *h = s->living;
            s->living = h->next;
            h->home = NULL;
        }
        mem_free(s);
    }
    return NULL;
}
