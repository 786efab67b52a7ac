#include "wire/dataset_words.h"

#include <string.h>

#include "base/mem.h"
#include "wire/field.h"
#include "wire/names.h"

int dataset_words_init(struct dataset_words *w, int64_t count, struct err *err)
{
    *w = (struct dataset_words){.count = count};
    w->names = mem_zarray((size_t)count, sizeof(*w->names));
    w->first = mem_zarray((size_t)count, sizeof(*w->first));
    w->width = mem_zarray((size_t)count, sizeof(*w->width));
    return w->names != NULL && w->first != NULL && w->width != NULL ? 0 : err_no_memory(err);
}

void dataset_words_deinit(struct dataset_words *w)
{
    names_free(w->names, w->count);
    mem_free(w->first);
    mem_free(w->width);
    *w = (struct dataset_words){.count = 0};
}

int64_t dataset_words_of(const struct dataset_words *w, int64_t column)
{
    int64_t low = 0, high = w->count;
    while (low < high) { /* how many begin at the column or before */
        const int64_t middle = low + (high - low) / 2;
        low = w->first[middle] <= column ? middle + 1 : low;
        high = w->first[middle] <= column ? high : middle;
    }
    return low > 0 && column < w->first[low - 1] + w->width[low - 1] ? low - 1 : -1;
}

void dataset_words_write(struct json *to, const struct dataset_words *w)
{
    struct json *list = w->count > 0 ? json_set_array(to, "words") : NULL;
    for (int64_t i = 0; i < w->count; i++) {
        struct json *one = json_new_object();
        json_set_string(one, "column", w->names[i]);
        json_set_int(one, "first", w->first[i]);
        json_set_int(one, "count", w->width[i]);
        json_push(list, one);
    }
}

/* Columns behind `end` that begin with the name and a sign. */
static bool are_words(const struct dataset_words *w, int64_t i, int64_t end,
                      char *const *column_names, int64_t columns)
{
    const size_t length = strlen(w->names[i]);
    bool good = w->first[i] >= end && w->width[i] >= 1 && w->first[i] < columns &&
                w->width[i] <= columns - w->first[i];
    for (int64_t k = 0; good && k < w->width[i]; k++) {
        const char *name = column_names[w->first[i] + k];
        good = strncmp(name, w->names[i], length) == 0 && name[length] == '=';
    }
    return good;
}

static int read_one(const struct json *one, struct dataset_words *w, int64_t i, struct err *err)
{
    static const char *const keys[] = {"column", "first", "count", NULL};
    const char *name = NULL;
    if (json_type(one) != JSON_OBJECT) {
        return field_wrong(err, "words", i, one, "an object");
    }
    int rc = json_only_keys(one, keys, err);
    rc = rc < 0 ? rc : field_text(one, "column", &name, err);
    if (rc < 0) {
        return rc;
    }
    if (!field_count(json_get(one, "first"), &w->first[i]) ||
        !field_count(json_get(one, "count"), &w->width[i])) {
        return field_error(err, "words", i, "\"first\" and \"count\" are whole numbers.");
    }
    w->names[i] = mem_strdup(name);
    return w->names[i] != NULL ? 0 : err_no_memory(err);
}

int dataset_words_read(const struct json *from, char *const *column_names, int64_t columns,
                       struct dataset_words *ret, struct err *err)
{
    const struct json *list = json_get(from, "words");
    if (list == NULL) {
        return 0;
    }
    if (json_type(list) != JSON_ARRAY || json_size(list) < 1 || json_size(list) > columns) {
        return field_wrong(err, "words", FIELD_WHOLE, list, "an array of columns of words");
    }
    int rc = dataset_words_init(ret, json_size(list), err);
    int64_t i = 0, end = 0;
    for (const struct json *one = json_first(list); rc == 0 && one != NULL; one = json_next(one)) {
        rc = read_one(one, ret, i, err);
        if (rc == 0 && !are_words(ret, i, end, column_names, columns)) {
            rc = field_error(err, "words", i, "There are no such columns.");
        }
        end = rc == 0 ? ret->first[i] + ret->width[i] : end;
        i++;
    }
    return rc;
}
