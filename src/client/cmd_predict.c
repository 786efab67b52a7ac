/* krr predict: a table in, a table out, in pieces of about a megabyte. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/api.h"
#include "client/args.h"
#include "client/interrupt.h"
#include "client/model_name.h"
#include "client/pieces.h"
#include "client/show.h"

/* A server whose queue is full is asked again so often. */
#define ATTEMPTS 10
#define LONGEST_WAIT_S 30.0

struct predicting {
    struct client *client;
    const char *path;
    FILE *out;
    struct pieces pieces;
    struct meter meter;
    bool wrote;      /* something, so that the header stands */
    int64_t unknown; /* words that the model does not know */
};

static void wait_for(double seconds)
{
    const double s = seconds > 0 && seconds < LONGEST_WAIT_S ? seconds : 1;
    usleep((useconds_t)(s * 1e6));
}

/* JSON is whole in every answer, CSV has its header in the first. */
static const char *wanted(const struct predicting *p)
{
    if (p->client->json) {
        return "application/json";
    }
    return p->wrote ? "text/csv; header=absent" : "text/csv";
}

static enum exit_code put_out(struct predicting *p, const struct buf *answer)
{
    if (p->client->json) {
        show_json(answer->data ? answer->data : "");
        return EXIT_DONE;
    }
    if (!show_text(p->out, answer->data, answer->len)) {
        complain("writing failed: %s", strerror(errno));
        return EXIT_LOCAL;
    }
    return EXIT_DONE;
}

/* Of a table in pieces, whether they have its header; a table in one piece speaks for itself. */
static const char *sent(const struct pieces *p)
{
    return p->whole            ? "text/csv"
           : p->header.len > 0 ? "text/csv; header=present"
                               : "text/csv; header=absent";
}

static enum exit_code ask_once(struct predicting *p, const struct buf *piece,
                               struct http_reply *ret)
{
    struct err err;
    const struct http_ask ask = {
        .method = "POST",
        .path = p->path,
        .content_type = sent(&p->pieces),
        .accept = wanted(p),
        .body = piece->data,
        .size = piece->len,
    };
    return http_call(p->client->http, &ask, ret, &err) < 0 ? api_no_answer(&err) : EXIT_DONE;
}

/* A refusal counts rows from the piece's first. */
static void tell_where(int64_t before)
{
    if (before > 0) {
        fprintf(stderr, "  (in the part that begins after row %lld; rows up to there are done)\n",
                (long long)before);
    }
}

static enum exit_code ask(struct predicting *p, const struct buf *piece, int64_t before)
{
    enum exit_code code = EXIT_DONE;
    for (int attempt = 1; code == EXIT_DONE; attempt++) {
        struct http_reply reply = {.status = 0};
        code = ask_once(p, piece, &reply);
        const bool busy = reply.status == 429 || reply.status == 503;
        const bool again = code == EXIT_DONE && busy && attempt < ATTEMPTS && !interrupt_seen();
        const double wait = reply.retry_after_s;
        if (code == EXIT_DONE && reply.status == 200) {
            p->unknown += reply.unknown_values;
            code = put_out(p, &reply.body);
        } else if (code == EXIT_DONE && !again) {
            code = api_refused(&reply);
            tell_where(before);
        }
        http_reply_deinit(&reply);
        if (!again) {
            break;
        }
        wait_for(wait);
    }
    p->wrote = p->wrote || code == EXIT_DONE;
    return code;
}

static enum exit_code predict_all(struct predicting *p)
{
    struct buf piece = BUF_INIT;
    struct err err;
    enum exit_code code = EXIT_DONE;
    int r = 0;
    interrupt_watch();
    while (code == EXIT_DONE) {
        const int64_t before = p->pieces.records;
        r = pieces_next(&p->pieces, &piece, &err);
        if (r <= 0) {
            break;
        }
        code = interrupt_seen() ? EXIT_INTERRUPTED : ask(p, &piece, before);
        char line[64];
        snprintf(line, sizeof line, "%lld rows", (long long)p->pieces.records);
        meter_show(&p->meter, -1, line);
    }
    buf_deinit(&piece);
    if (r < 0) {
        complain("%s", err.detail);
        code = EXIT_LOCAL;
    } else if (code == EXIT_DONE && p->pieces.records == 0) {
        complain("there is no row to predict");
        code = EXIT_LOCAL;
    }
    return code;
}

/* In JSON every answer says so itself. */
static void tell_unknown(const struct predicting *p)
{
    if (p->unknown > 0 && !p->client->quiet) {
        fprintf(stderr, "%lld %s that the model was not trained on\n", (long long)p->unknown,
                p->unknown == 1 ? "value is a word" : "values are words");
    }
}

enum exit_code cmd_predict(struct client *c, const struct args *args)
{
    const char *from = args_operand(args, 1);
    const bool standard = !from || strcmp(from, "-") == 0;
    FILE *in = standard ? stdin : fopen(from, "rb");
    struct buf path = BUF_INIT;
    if (!in) {
        complain("%s: %s", from, strerror(errno));
        return EXIT_LOCAL;
    }
    enum exit_code code = EXIT_USAGE;
    if (model_name_path(args_operand(args, 0), &path)) {
        buf_str(&path, "/predict");
        api_query_add(&path, "extra_columns", args_has(args, "ignore-extra") ? "ignore" : NULL);
        api_query_add(&path, "unknown_values", args_has(args, "ignore-unknown") ? "ignore" : NULL);
        api_query_add(&path, "decimal", args_get(args, "decimal"));
        api_query_add(&path, "return_variance", args_has(args, "variance") ? "true" : NULL);
        struct predicting p = {.client = c, .path = path.data, .out = stdout};
        pieces_begin(&p.pieces, in);
        meter_begin(&p.meter, c->quiet || isatty(STDOUT_FILENO));
        code = predict_all(&p);
        meter_end(&p.meter);
        tell_unknown(&p);
        pieces_deinit(&p.pieces);
        if (fflush(stdout) != 0 && code == EXIT_DONE) {
            complain("writing failed: %s", strerror(errno));
            code = EXIT_LOCAL;
        }
    } else {
        complain("%s: expected MODEL, MODEL@VERSION or MODEL:ALIAS", args_operand(args, 0));
    }
    buf_deinit(&path);
    if (!standard) {
        fclose(in);
    }
    return code;
}
