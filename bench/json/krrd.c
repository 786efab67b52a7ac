/* The reader of prediction bodies and the printer of answers. */
#include "base/buf.h"
#include "bench/json/contender.h"
#include "server/bodies/question.h"

static int64_t read_text(const char *text, size_t len, int64_t columns, double *ret_sum)
{
    const struct served_model model = {.name = "m", .version = 1, .d = columns, .outputs = 1};
    struct question q = {.X = NULL};
    if (question_read_json(text, len, &model, (struct columns_rules){.extra = EXTRA_REFUSED}, &q,
                           NULL) < 0) {
        return -1;
    }
    const int64_t count = q.rows * columns;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += q.X[i];
    }
    *ret_sum = sum;
    question_deinit(&q);
    return count;
}

static size_t print_text(const double *v, int64_t count)
{
    cleanup_buf struct buf b = BUF_INIT;
    buf_char(&b, '[');
    buf_json_numbers(&b, v, count);
    buf_char(&b, ']');
    return b.failed ? 0 : b.len;
}

const struct contender contender_krrd = {.name = "krrd", .read = read_text, .print = print_text};
