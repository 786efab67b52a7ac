/*
 * The dashboard: the embedded files of web/. The page is one of many clients of the public API and
 * has no way in of its own; the files are the same for everybody and need no key.
 */
#include <string.h>

#include "base/mem.h"
#include "server/api/handlers.h"
#include "server/embedded.h"
#include "server/http/http_accept.h"

/* Scripts and styles come from files of this server alone, none stands in the page; nothing is
 * loaded from or sent to elsewhere; no text becomes markup (trusted types); no other page may show
 * this one in a frame. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "              \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "            \
    "require-trusted-types-for 'script'; trusted-types 'none'"

static const struct embedded_file *find_file(const char *name)
{
    for (const struct embedded_file *f = embedded_web; f->name != NULL; f++) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

/* The browser keeps what it got and asks each time whether it is still right: after an update of
 * the daemon no page runs on scripts of two versions. */
static void reply_file(struct request *rq, const struct embedded_file *f)
{
    cleanup_mem char *accepted = request_header_list(rq, "Accept-Encoding");
    const char *coding = http_accept_encoding(accepted);
    const bool packed = f->gzip.data != NULL && coding != NULL && strcmp(coding, "gzip") == 0;
    const struct embedded_body *body = packed ? &f->gzip : &f->plain;
    request_set_header(rq, "Content-Security-Policy", POLICY);
    request_set_header(rq, "Referrer-Policy", "no-referrer");
    request_set_header(rq, "Cross-Origin-Opener-Policy", "same-origin");
    request_set_header(rq, "Cross-Origin-Resource-Policy", "same-origin");
    request_set_header(rq, "Cache-Control", "no-cache");
    request_set_header(rq, "Vary", "Accept-Encoding");
    request_set_header(rq, "ETag", body->tag);
    if (request_has_tag(rq, body->tag)) {
        reply_unchanged(rq, body->size);
        return;
    }
    if (packed) {
        request_set_header(rq, "Content-Encoding", "gzip");
    }
    reply_bytes(rq, 200, f->type, body->data, body->size);
}

void web_index(struct request *rq)
{
    reply_file(rq, find_file("index.html"));
}

/* The contract for people, made of api/openapi.yaml at build time. */
void web_docs(struct request *rq)
{
    reply_file(rq, find_file("docs.html"));
}

/* What browsers ask for where a page names no icon, as pictures and answers in JSON cannot. */
void web_icon(struct request *rq)
{
    reply_file(rq, find_file("icon.svg"));
}

void web_file(struct request *rq)
{
    const struct embedded_file *f = find_file(rq->param[0]);
    if (f == NULL) {
        struct err err;
        err_set(&err, ERR_NOT_FOUND, "The dashboard has no such file.");
        reply_error(rq, &err);
        return;
    }
    reply_file(rq, f);
}
