#include "server/api/dataset_wish.h"

#include <string.h>
#include <strings.h>

#include "ingest/ingest_numeral.h"
#include "server/api/table_type.h"
#include "server/http/problem.h"

/* Characters of a text that is UTF-8. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xC0) != 0x80; /* no byte that continues one */
    }
    return count;
}

static int read_name(struct request *rq, struct upload_wish *wish, struct err *err)
{
    wish->name = request_query(rq, "name");
    const size_t len = wish->name != NULL ? characters(wish->name) : 1;
    return len > 0 && len <= UPLOAD_NAME_MAX
               ? 0
               : err_at(err, ERR_INVALID, "#/query/name", "A name has 1 to %d characters.",
                        UPLOAD_NAME_MAX);
}

static int read_targets(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *target;
    while ((target = request_query_nth(rq, "target", wish->target_count)) != NULL) {
        if (wish->target_count == UPLOAD_TARGETS_MAX) {
            return err_at(err, ERR_INVALID, "#/query/target", "There may be at most %d targets.",
                          UPLOAD_TARGETS_MAX);
        }
        if (*target == '\0') {
            return err_at(err, ERR_INVALID, "#/query/target",
                          "A target is the name or the 0-based index of a column.");
        }
        wish->targets[wish->target_count++] = target;
    }
    return 0;
}

static int read_ignored(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *column;
    while ((column = request_query_nth(rq, "ignore", wish->ignored_count)) != NULL) {
        if (wish->ignored_count == UPLOAD_IGNORED_MAX) {
            return err_at(err, ERR_INVALID, "#/query/ignore", "At most %d columns can be left out.",
                          UPLOAD_IGNORED_MAX);
        }
        if (*column == '\0') {
            return err_at(err, ERR_INVALID, "#/query/ignore",
                          "What is left out is the name or the 0-based index of a column.");
        }
        wish->ignored[wish->ignored_count++] = column;
    }
    return 0;
}

static int read_format(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *format = request_query(rq, "format");
    if (format != NULL) {
        return ingest_format_parse(format, &wish->format, NULL) == 0
                   ? 0
                   : err_at(err, ERR_INVALID, "#/query/format",
                            "The format must be csv, libsvm, npy or npz.");
    }
    const char *type = request_header(rq, "Content-Type");
    if (type == NULL || ingest_format_from_type(type, &wish->format, NULL) != 0) {
        return err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_TYPE,
                      "The Content-Type must be text/csv, text/x-libsvm, application/x-npy or "
                      "application/x-npz; or name the format with ?format=csv, libsvm, npy or "
                      "npz.");
    }
    return 0;
}

static bool is_text(enum ingest_format format)
{
    return format == INGEST_CSV || format == INGEST_LIBSVM;
}

/* What the parameters of the Content-Type say of a text. */
static int read_parameters(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *type = request_header(rq, "Content-Type");
    if (type == NULL || !is_text(wish->format)) {
        return 0;
    }
    const int rc = table_type_charset(type, err);
    return rc == 0 && wish->format == INGEST_CSV ? table_type_header(type, &wish->header, err) : rc;
}

static int read_header(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *text = request_query(rq, "header");
    const enum ingest_header said = wish->header;
    if (text == NULL) {
        return 0;
    }
    if (ingest_header_parse(text, &wish->header, NULL) != 0) {
        return err_at(err, ERR_INVALID, "#/query/header",
                      "The header must be auto, present or absent.");
    }
    return said == INGEST_HEADER_AUTO || said == wish->header
               ? 0
               : err_at(err, ERR_INVALID, "#/query/header",
                        "The Content-Type says that the header is %s.", ingest_header_name(said));
}

static int read_task(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *task = request_query(rq, "task");
    return task == NULL || task_parse(task, &wish->task, NULL) == 0
               ? 0
               : err_at(err, ERR_INVALID, "#/query/task",
                        "The task must be auto, regression or classification.");
}

static int read_missing(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *rule = request_query(rq, "missing");
    return rule == NULL || ingest_missing_parse(rule, &wish->missing, NULL) == 0
               ? 0
               : err_at(err, ERR_INVALID, "#/query/missing", INGEST_MISSING_RULES);
}

static int read_decimal(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *sign = request_query(rq, "decimal");
    return sign == NULL || ingest_decimal_parse(sign, &wish->decimal_comma, NULL) == 0
               ? 0
               : err_at(err, ERR_INVALID, "#/query/decimal", INGEST_DECIMAL_RULES);
}

static int read_encoding(struct request *rq, struct upload_wish *wish, struct err *err)
{
    const char *encoding = request_header(rq, "Content-Encoding");
    if (encoding == NULL || strcasecmp(encoding, "identity") == 0) {
        return 0;
    }
    wish->gzip = strcasecmp(encoding, "gzip") == 0 || strcasecmp(encoding, "x-gzip") == 0;
    return wish->gzip ? 0
                      : err_at(err, ERR_UNSUPPORTED, PROBLEM_CONTENT_ENCODING,
                               "The Content-Encoding must be gzip or identity.");
}

/* How the body is to be read, but for its format. */
static int read_manner(struct request *rq, struct upload_wish *wish, struct err *err)
{
    int rc = read_targets(rq, wish, err);
    rc = rc == 0 ? read_header(rq, wish, err) : rc;
    rc = rc == 0 ? read_ignored(rq, wish, err) : rc;
    rc = rc == 0 ? read_task(rq, wish, err) : rc;
    rc = rc == 0 ? read_missing(rq, wish, err) : rc;
    rc = rc == 0 ? read_decimal(rq, wish, err) : rc;
    return rc == 0 ? request_query_flag(rq, "one_hot", &wish->one_hot, err) : rc;
}

/* What is said of a CSV alone, and another than what holds anyway. */
static int check_csv_alone(struct request *rq, const struct upload_wish *wish, struct err *err)
{
    const bool header = request_query(rq, "header") != NULL && wish->header != INGEST_HEADER_AUTO;
    if (wish->format == INGEST_CSV || (!header && !wish->one_hot && !wish->decimal_comma)) {
        return 0;
    }
    return err_at(err, ERR_INVALID,
                  header          ? "#/query/header"
                  : wish->one_hot ? "#/query/one_hot"
                                  : "#/query/decimal",
                  "This is for format csv alone, and the body's is %s: leave it out.",
                  ingest_format_name(wish->format));
}

int upload_wish_read(struct request *rq, struct upload_wish *ret, struct err *err)
{
    int rc = read_format(rq, ret, err);
    rc = rc == 0 ? read_parameters(rq, ret, err) : rc;
    rc = rc == 0 ? read_encoding(rq, ret, err) : rc;
    rc = rc == 0 ? read_name(rq, ret, err) : rc;
    rc = rc == 0 ? read_manner(rq, ret, err) : rc;
    return rc == 0 ? check_csv_alone(rq, ret, err) : rc;
}

static void digest(struct sha256 *to, const char *text)
{
    sha256_update(to, text, strlen(text) + 1);
}

/* gzip is not in it: the bytes tell. */
int upload_wish_recipe(const struct upload_wish *wish, char ret[SHA256_HEX_SIZE], struct err *err)
{
    struct sha256 *to = sha256_new();
    if (to == NULL) {
        return err_no_memory(err);
    }
    digest(to, ingest_format_name(wish->format));
    digest(to, task_name(wish->task));
    digest(to, wish->one_hot ? "one_hot" : "");
    if (wish->format == INGEST_CSV && wish->header != INGEST_HEADER_AUTO) {
        digest(to, ""); /* no target is empty, */
        digest(to, ""); /* and no column that is ignored */
        digest(to, ingest_header_name(wish->header));
    }
    if (wish->missing != INGEST_MISSING_REFUSE) {
        digest(to, ""); /* one more than stands before a header */
        digest(to, "");
        digest(to, "");
        digest(to, ingest_missing_name(wish->missing));
    }
    if (wish->decimal_comma) {
        digest(to, ""); /* and one more than before a rule of what is missing */
        digest(to, "");
        digest(to, "");
        digest(to, "");
        digest(to, "comma");
    }
    for (int i = 0; i < wish->target_count; i++) {
        digest(to, wish->targets[i]);
    }
    if (wish->ignored_count > 0) {
        digest(to, ""); /* which no target is */
    }
    for (int i = 0; i < wish->ignored_count; i++) {
        digest(to, wish->ignored[i]);
    }
    sha256_hex(to, ret);
    sha256_free(to);
    return 0;
}

/* ---- bodies that may be there already ---- */

static const char digest_prefix[] = "sha256:";
enum { PREFIX = sizeof(digest_prefix) - 1 };

const char *upload_digest_of(const char *id)
{
    const bool named = strncmp(id, digest_prefix, PREFIX) == 0;
    return named && strspn(id + PREFIX, "0123456789abcdef") == SHA256_HEX_SIZE - 1 &&
                   strlen(id + PREFIX) == SHA256_HEX_SIZE - 1
               ? id + PREFIX
               : NULL;
}

int upload_find(struct request *rq, const char *digest_hex, const struct upload_wish *wish,
                struct dataset_row *ret, struct err *err)
{
    char recipe[SHA256_HEX_SIZE];
    const int rc = upload_wish_recipe(wish, recipe, err);
    return rc == 0 ? datasets_find(rq->app->store, digest_hex, recipe, ret, err) : rc;
}

int upload_find_asked(struct request *rq, const char *digest_hex, struct dataset_row *ret,
                      struct err *err)
{
    struct upload_wish wish = {.name = NULL};
    int rc = read_manner(rq, &wish, err);
    if (rc != 0) {
        return rc;
    }
    if (request_query(rq, "format") != NULL) {
        rc = read_format(rq, &wish, err);
        rc = rc == 0 ? check_csv_alone(rq, &wish, err) : rc;
        return rc == 0 ? upload_find(rq, digest_hex, &wish, ret, err) : rc;
    }
    rc = -ERR_NOT_FOUND;
    for (int f = INGEST_CSV; rc == -ERR_NOT_FOUND && f <= INGEST_NPZ; f++) {
        wish.format = (enum ingest_format)f;
        rc = upload_find(rq, digest_hex, &wish, ret, err);
    }
    return rc;
}
