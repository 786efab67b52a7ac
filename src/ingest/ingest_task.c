#include "ingest/ingest_task.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_text.h"

int ingest_values_init(struct ingest_values *v, int64_t capacity, struct err *err)
{
    *v = (struct ingest_values){.integral = true, .capacity = capacity};
    v->value = mem_array((size_t)capacity, sizeof(*v->value));
    return v->value == NULL ? err_no_memory(err) : 0;
}

void ingest_values_deinit(struct ingest_values *v)
{
    v->value = mem_free(v->value);
}

/* The first place whose value is not below `value`. */
static int64_t lower_bound(const struct ingest_values *v, double value)
{
    int64_t low = 0;
    int64_t high = v->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (v->value[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t ingest_values_find(const struct ingest_values *v, double value)
{
    int64_t place = lower_bound(v, value);
    return place < v->count && v->value[place] == value ? place : -1;
}

void ingest_values_add(struct ingest_values *v, double value)
{
    v->rows++;
    v->integral = v->integral && value == floor(value);
    if (v->many || (v->last < v->count && v->value[v->last] == value)) {
        return;
    }
    int64_t place = lower_bound(v, value);
    v->last = place;
    if (place < v->count && v->value[place] == value) {
        return;
    }
    if (v->count == v->capacity) {
        v->many = true;
        return;
    }
    memmove(v->value + place + 1, v->value + place, (size_t)(v->count - place) * sizeof(*v->value));
    v->value[place] = value + 0.0; // Makes 0 of -0.
    v->count++;
}

/* Reads numbers as classes by the rule in the header. */
static bool looks_like_classes(const struct ingest_values *v, bool *ret_guessed)
{
    *ret_guessed = false;
    if (!v->integral || v->many || v->count < 2 || v->count > INGEST_AUTO_DOUBTFUL) {
        return false;
    }
    if (v->count == 2) {
        return v->rows >= 4;
    }
    double span = v->value[v->count - 1] - v->value[0] + 1;
    *ret_guessed = span == (double)v->count && v->rows >= INGEST_AUTO_ROWS_PER_CLASS * v->count;
    return *ret_guessed && v->count <= INGEST_AUTO_MAX_CLASSES;
}

static int check_classes(const struct ingest_target *target, struct err *err)
{
    char show[INGEST_SHOW_SIZE];
    ingest_show(target->name, strlen(target->name), show);
    if (target->values->many) {
        return err_at(err, ERR_INVALID, "#/task",
                      "The target %s has more than %d distinct values, too many for classes.", show,
                      INGEST_MAX_CLASSES);
    }
    if (target->values->count < 2) {
        return err_at(err, ERR_INVALID, "#/target",
                      "The target %s has one class only; classification needs two at least.", show);
    }
    return 0;
}

int ingest_decide_task(enum task wanted, const struct ingest_target *first, int64_t target_count,
                       enum task *ret, bool *ret_guessed, struct err *err)
{
    *ret_guessed = false;
    if (wanted == TASK_AUTO) {
        bool classes =
            target_count == 1 && (first->text || looks_like_classes(first->values, ret_guessed));
        wanted = classes ? TASK_CLASSIFICATION : TASK_REGRESSION;
    }
    if (wanted == TASK_CLASSIFICATION && target_count != 1) {
        return err_at(err, ERR_INVALID, "#/task",
                      "Classification takes one target column; %lld were given.",
                      (long long)target_count);
    }
    int r = wanted == TASK_CLASSIFICATION ? check_classes(first, err) : 0;
    if (r == 0) {
        *ret = wanted;
    }
    return r;
}
