#include <string.h>

#include "base/mem.h"
#include "server/serving/internal.h"

#define PIECE_S 0.1   /* that others wait for a piece, and more where FULL_ROWS take longer */
#define BYTE_S 5e-12  /* of a model, for a row: one thread of a Zen 4 takes 4 to 8 */
#define PIECE_MAX 1e9 /* rows */

int64_t bytes_of_row(const struct served_model *m, bool variance)
{
    return m->bytes - (variance ? 0 : m->factor_bytes);
}

int64_t piece_rows(const struct entry *e, bool variance)
{
    const double known = e->row_s[variance];
    const double row_s = known > 0.0 ? known : BYTE_S * (double)bytes_of_row(e->model, variance);
    const double rows = row_s * PIECE_MAX > PIECE_S ? PIECE_S / row_s : PIECE_MAX;
    return rows > FULL_ROWS ? (int64_t)rows : FULL_ROWS;
}

void piece_timed(struct entry *e, bool variance, int64_t rows, double seconds)
{
    if (rows >= FULL_ROWS && seconds > 0.0) {
        e->row_s[variance] = seconds / (double)rows;
    }
}

/* ---- what comes back ---- */

/* Of a call with numbers: whose kinds stand one behind the other, as in a worker's answer. */
static struct serving_answer whole(const struct call *c)
{
    const struct served_model *m = c->ask.model;
    const double *scores = c->numbers + c->ask.rows * m->outputs;
    return (struct serving_answer){
        .model = m,
        .rows = c->ask.rows,
        .values = c->numbers,
        .scores = scores,
        .variances = scores + c->ask.rows * m->classes,
    };
}

static int make_numbers(struct call *c, struct err *err)
{
    c->numbers = c->numbers ? c->numbers : mem_alloc(answer_bytes(&c->ask));
    return c->numbers ? 0 : err_no_memory(err);
}

/* `width` numbers of each row that was away, to where that kind begins. */
static void put(const struct call *c, int64_t begins, const double *part, int64_t width)
{
    if (part) {
        memcpy(c->numbers + begins + c->answered * width, part,
               (size_t)(c->away * width) * sizeof *part);
    }
}

static int keep(struct call *c, const struct serving_answer *part, struct err *err)
{
    const struct served_model *m = c->ask.model;
    const int r = make_numbers(c, err);
    if (r == 0) {
        const int64_t rows = c->ask.rows;
        put(c, 0, part->values, m->outputs);
        put(c, rows * m->outputs, part->scores, m->classes);
        put(c, rows * (m->outputs + m->classes), part->variances, m->variances);
        c->answered += c->away;
    }
    return r;
}

/* Behind those that are as urgent. */
static int wait_again(struct serving *s, struct call *c, struct err *err)
{
    struct entry *e = entry_need(s, c->ask.model, err);
    if (!e) {
        return -(int)err->code;
    }
    if (e->state == SERVING_FAILED) {
        *err = e->failure;
        return -(int)err->code;
    }
    c->batch = NULL;
    c->attempts = 0;
    c->waits_s = e->asked_s = clock_monotonic_s();
    queue_add(e, c, false);
    return 0;
}

static void answer(struct serving *s, struct call *c, struct serving_answer all)
{
    const struct served_model *m = c->ask.model;
    all.scores = c->ask.scores && m->classes > 0 ? all.scores : NULL;
    all.variances = c->ask.variance ? all.variances : NULL;
    call_end(s, c, &all, NULL);
}

bool piece_take(struct serving *s, struct call *c, const struct serving_answer *part)
{
    struct err err;
    if (part->rows == c->ask.rows || !c->ask.done) {
        answer(s, c, *part);
        return false;
    }
    int r = keep(c, part, &err);
    if (r == 0 && call_left(c) == 0) {
        answer(s, c, whole(c));
        return false;
    }
    r = r == 0 ? wait_again(s, c, &err) : r;
    if (r < 0) {
        call_end(s, c, NULL, &err);
    }
    return r == 0;
}
