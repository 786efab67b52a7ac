/* Predictions as JSON, CSV and NPY. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "ingest/ingest_numeral.h"
#include "server/api/handlers.h"
#include "server/api/models.h"
#include "server/api/prediction.h"
#include "server/api/table_type.h"
#include "server/app.h"
#include "server/http/http_accept.h"
#include "server/http/http_text.h"
#include "server/http/problem.h"

enum format { FORMAT_JSON, FORMAT_CSV, FORMAT_NPY, FORMATS };

static const char *const types[FORMATS] = {"application/json", "text/csv", "application/x-npy"};

enum wish { AS_USUAL, YES, NO };

enum answer_header { HEADER_AS_ASKED, HEADER_PRESENT, HEADER_ABSENT };

struct plain {
    struct prediction prediction; /* first */
    enum format from, to;
    enum answer_header header;  /* of a CSV answer */
    struct csv_form form;       /* of a CSV body, its header by its type */
    enum wish scores, variance; /* by the query */
    struct columns_rules rules;
};

static struct plain *plain_of(struct prediction *p)
{
    return (struct plain *)(void *)p;
}

/* ---- body and answer ---- */

/* What the query and the body say of one thing, together. */
static int agree(enum wish query, const char *pointer, bool said, bool *wanted, struct err *err)
{
    if (query != AS_USUAL && said && *wanted != (query == YES)) {
        return err_at(err, ERR_INVALID, pointer, "The body's %s says otherwise.",
                      strrchr(pointer, '/') + 1);
    }
    *wanted = query == AS_USUAL ? *wanted : query == YES;
    return 0;
}

static int wish_scores(const struct plain *own, struct question *q, struct err *err)
{
    static const char at[] = "#/query/return_scores";
    const int r = own->scores == YES ? question_no_scores(own->prediction.model, at, err) : 0;
    return r == 0 ? agree(own->scores, at, q->scores_said, &q->scores, err) : r;
}

static int wish_variance(const struct plain *own, struct question *q, struct err *err)
{
    static const char at[] = "#/query/return_variance";
    const int r = own->variance == YES ? question_no_variance(own->prediction.model, at, err) : 0;
    return r == 0 ? agree(own->variance, at, q->variance_said, &q->variance, err) : r;
}

/* One array has room for labels, or for scores and their variances: for labels, as is usual. */
static int fit_array(const struct plain *own, struct question *q, struct err *err)
{
    const bool said = own->scores != AS_USUAL || q->scores_said;
    const bool classes = own->prediction.model->classes > 0;
    if (classes && q->variance && said && !q->scores) {
        return err_at(err, ERR_INVALID,
                      own->variance == YES ? "#/query/return_variance" : "#/return_variance",
                      "An NPY array has no room for labels and variances; take scores with them, "
                      "or the answer as JSON or CSV.");
    }
    q->scores = classes && (said ? q->scores : q->variance);
    return 0;
}

static int wish(const struct plain *own, struct question *q, struct err *err)
{
    int r = wish_scores(own, q, err);
    r = r == 0 ? wish_variance(own, q, err) : r;
    return r == 0 && own->to == FORMAT_NPY ? fit_array(own, q, err) : r;
}

static int plain_read(struct prediction *p, const char *body, size_t len, struct err *err)
{
    const struct plain *own = plain_of(p);
    int r = 0;
    if (own->from == FORMAT_JSON) {
        r = question_read_json(body, len, p->model, own->rules, &p->question, err);
    } else if (own->from == FORMAT_NPY) {
        r = question_read_npy(body, len, p->model, &p->question, err);
    } else {
        r = question_read_csv(body, len, p->model, own->rules, own->form, &p->question, err);
    }
    return r < 0 ? r : wish(own, &p->question, err);
}

/* Whoever lets words pass that the model does not know is told how many. */
static bool counts_unknown(const struct plain *own)
{
    return own->rules.unknown == UNKNOWN_IGNORED;
}

static int plain_write(struct prediction *p, const struct serving_answer *a, struct buf *ret,
                       struct err *err)
{
    const struct plain *own = plain_of(p);
    (void)err;
    if (own->to == FORMAT_JSON) {
        answer_write_json(a, counts_unknown(own) ? p->question.unknown : -1, ret);
    } else if (own->to == FORMAT_NPY) {
        answer_write_npy(a, ret);
    } else {
        const bool header = own->header == HEADER_AS_ASKED
                                ? own->from != FORMAT_CSV || p->question.header
                                : own->header == HEADER_PRESENT;
        answer_write_csv(a, header, own->form.decimal_comma, ret);
    }
    return 0;
}

/* What JSON says in its body. */
static void plain_head(struct prediction *p)
{
    if (plain_of(p)->to != FORMAT_JSON) {
        char version[24];
        snprintf(version, sizeof version, "%lld", (long long)p->model->version);
        request_set_header(p->rq, "X-Krrd-Model", p->model->name);
        request_set_header(p->rq, "X-Krrd-Model-Version", version);
        request_set_header(p->rq, "X-Krrd-Model-Digest", p->model->digest);
    }
    if (plain_of(p)->to != FORMAT_JSON && counts_unknown(plain_of(p))) {
        char unknown[24];
        snprintf(unknown, sizeof unknown, "%lld", (long long)p->question.unknown);
        request_set_header(p->rq, "X-Krrd-Unknown-Values", unknown);
    }
}

static const struct prediction_ops plain_ops = {
    .size = sizeof(struct plain),
    .read = plain_read,
    .write = plain_write,
    .head = plain_head,
};

/* ---- the request ---- */

static int take_type(struct request *rq, enum format *ret, struct err *err)
{
    const char *type = request_header(rq, "Content-Type");
    /* The form type is what `curl -d` says of any text. */
    if (!type || http_type_is_json(type) ||
        http_type_is(type, "application/x-www-form-urlencoded")) {
        *ret = FORMAT_JSON;
    } else if (http_type_is(type, "text/csv")) {
        *ret = FORMAT_CSV;
    } else if (http_type_is(type, "application/x-npy")) {
        *ret = FORMAT_NPY;
    } else {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                      "The body may be application/json, text/csv or application/x-npy.");
    }
    return 0;
}

/* What a CSV's type says of it. */
static int take_parameters(struct plain *own, struct err *err)
{
    const char *type = request_header(own->prediction.rq, "Content-Type");
    if (own->from != FORMAT_CSV) {
        return 0;
    }
    const int r = table_type_charset(type, err);
    return r == 0 ? table_type_header(type, &own->form.header, err) : r;
}

/* RFC 4180's parameter of the media type. */
static enum answer_header header_wanted(const char *accept)
{
    char value[16];
    if (!http_accept_parameter(accept, types[FORMAT_CSV], "header", value, sizeof value)) {
        return HEADER_AS_ASKED;
    }
    return strcasecmp(value, "absent") == 0    ? HEADER_ABSENT
           : strcasecmp(value, "present") == 0 ? HEADER_PRESENT
                                               : HEADER_AS_ASKED;
}

/* In kind, where Accept leaves it open. */
static int take_accept(struct plain *own, struct err *err)
{
    cleanup_mem char *accept = request_header_list(own->prediction.rq, "Accept");
    const char *ordered[FORMATS] = {types[own->from]};
    enum format formats[FORMATS] = {own->from};
    for (int f = 0, n = 1; f < FORMATS; f++) {
        if (f != (int)own->from) {
            formats[n] = (enum format)f;
            ordered[n++] = types[f];
        }
    }
    const int chosen = http_accept_type(accept, ordered, FORMATS);
    if (chosen < 0) {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_ACCEPT,
                      "The answer may be application/json, text/csv or application/x-npy.");
    }
    own->to = formats[chosen];
    if (own->to == FORMAT_CSV) {
        own->header = header_wanted(accept);
    }
    return 0;
}

/* Whether the parameter says ignore; refuse, where it is not there. */
static int take_ignore(const struct plain *own, const char *name, bool *ret, struct err *err)
{
    const char *said = request_query(own->prediction.rq, name);
    *ret = said && strcmp(said, "ignore") == 0;
    if (!said || *ret || strcmp(said, "refuse") == 0) {
        return 0;
    }
    char pointer[48];
    snprintf(pointer, sizeof pointer, "#/query/%s", name);
    return err_at(err, ERR_INVALID, pointer, "This must be refuse or ignore.");
}

static int take_rules(struct plain *own, struct err *err)
{
    bool extra = false, unknown = false;
    int r = take_ignore(own, "extra_columns", &extra, err);
    r = r == 0 ? take_ignore(own, "unknown_values", &unknown, err) : r;
    own->rules.extra = extra ? EXTRA_IGNORED : EXTRA_REFUSED;
    own->rules.unknown = unknown ? UNKNOWN_IGNORED : UNKNOWN_REFUSED;
    return r;
}

static int take_wish(const struct plain *own, const char *name, enum wish *ret, struct err *err)
{
    const char *wanted = request_query(own->prediction.rq, name);
    if (!wanted) {
        return 0;
    }
    if (strcmp(wanted, "true") != 0 && strcmp(wanted, "false") != 0) {
        char pointer[48];
        snprintf(pointer, sizeof pointer, "#/query/%s", name);
        return err_at(err, ERR_INVALID, pointer, "This must be true or false.");
    }
    *ret = wanted[0] == 't' ? YES : NO;
    return 0;
}

/* Of the CSV that comes, and of the one that goes. */
static int take_decimal(struct plain *own, struct err *err)
{
    static const char at[] = "#/query/decimal";
    const char *sign = request_query(own->prediction.rq, "decimal");
    if (!sign) {
        return 0;
    }
    if (ingest_decimal_parse(sign, &own->form.decimal_comma, NULL) < 0) {
        return err_at(err, ERR_INVALID, at, INGEST_DECIMAL_RULES);
    }
    return own->from == FORMAT_CSV || own->to == FORMAT_CSV || !own->form.decimal_comma
               ? 0
               : err_at(err, ERR_INVALID, at,
                        "This is for CSV alone, and neither the body nor the answer is one.");
}

static void answer_with(struct request *rq, prediction_find find)
{
    struct prediction *p = prediction_new(rq, &plain_ops, find);
    if (!p) {
        return;
    }
    struct plain *own = plain_of(p);
    struct err err;
    int r = take_type(rq, &own->from, &err);
    r = r == 0 ? take_parameters(own, &err) : r;
    r = r == 0 ? take_accept(own, &err) : r;
    r = r == 0 ? take_wish(own, "return_scores", &own->scores, &err) : r;
    r = r == 0 ? take_wish(own, "return_variance", &own->variance, &err) : r;
    r = r == 0 ? take_rules(own, &err) : r;
    r = r == 0 ? take_decimal(own, &err) : r;
    if (r < 0) {
        prediction_refuse(p, &err);
        return;
    }
    p->type = own->to == FORMAT_CSV ? "text/csv; charset=utf-8" : types[own->to];
    prediction_run(p);
}

/* POST /v1/models/{name}[/versions/{version}|/aliases/{alias}]/predict, /v1/models/{name}:predict
 */
void predict(struct request *rq)
{
    answer_with(rq, models_find_served);
}

static int find_default(struct request *rq, const struct served_model **ret, struct err *err)
{
    const char *name = rq->app->config.default_model;
    return name[0] != '\0'
               ? served_find(rq->app->served, name, NULL, ret, err)
               : err_set(err, ERR_NOT_FOUND, "The daemon was started without --default-model.");
}

/* POST /invocations: the model that --default-model names. */
void predict_default(struct request *rq)
{
    answer_with(rq, find_default);
}
