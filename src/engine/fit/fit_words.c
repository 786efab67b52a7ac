/* What is told of 0/1 columns: features that give a target away, and what data sets that are
 * matched by name do not have in common. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "engine/fit/fit_parts.h"
#include "wire/dataset_match.h"

static bool is_own_target(const struct dataset_info *info, int64_t column)
{
    int64_t i = 0;
    while (i < info->targets && info->target_columns[i] != column) {
        i++;
    }
    return i < info->targets;
}

/* Other targets of the data set may be known where a model is asked; what was made of the same
 * column of the table is known with the target alone. */
static int warn_of_siblings(const struct fit *f, struct err *err)
{
    const struct fit_data *data = &f->data;
    const struct dataset_info *info = &data->train->info;
    cleanup_mem bool *siblings = mem_zarray((size_t)info->columns, sizeof(*siblings));
    int64_t found = 0, first = 0;
    const int r = siblings == NULL ? err_no_memory(err)
                                   : job_spec_mark_siblings(f->spec, info, siblings, err);
    for (int64_t j = 0; r == 0 && j < data->d; j++) {
        const int64_t column = data->columns.features[j];
        if (siblings[column] && !is_own_target(info, column)) {
            first = found++ == 0 ? column : first;
        }
    }
    if (found > 0) {
        fit__say(f, "warning",
                 "The feature \"%.64s\"%s of the same column of the table as a target, which it "
                 "gives away. Features that the job leaves open are without it.",
                 info->column_names[first], found > 1 ? " is, as others are," : " is");
    }
    return r;
}

/* The fit's data against another data set, whose rows test or are the centers. */
struct matching {
    const struct fit *f;
    const struct dataset *other;
    const char *name; /* for sentences: "test data set" */
    struct dataset_match match;
    bool *used;       /* [info->words.count] some of its columns are features */
    int64_t *unknown; /* [other->info.columns] columns of words that the training data lack */
    int64_t count;
};

static void matching_deinit(struct matching *m)
{
    dataset_match_deinit(&m->match);
    mem_free(m->used);
    mem_free(m->unknown);
}

/* Features that are 0 in all of those rows. */
static int tell_zeros(struct matching *m, struct err *err)
{
    const struct fit_data *data = &m->f->data;
    const struct dataset_info *info = &data->train->info;
    int64_t found = 0, first = 0;
    int r = 0;
    for (int64_t j = 0; r == 0 && j < data->d; j++) {
        const int64_t column = data->columns.features[j];
        const int64_t text = dataset_words_of(&info->words, column);
        int64_t at = 0;
        r = dataset_match_feature(&m->match, column, &at, err);
        first = r == 0 && at == DATASET_ZERO && found++ == 0 ? column : first;
        m->used[text >= 0 ? text : info->words.count] = true;
    }
    if (r == 0 && found > 0 && m->match.lacks == 0) {
        char more[40] = "";
        snprintf(more, sizeof(more), found > 1 ? " and %" PRId64 " more" : "", found - 1);
        fit__say(m->f, "info",
                 "No row of the %s calls for the column \"%.64s\"%s, which it lacks: "
                 "there it is 0.",
                 m->name, info->column_names[first], more);
    }
    return r;
}

/* The columns of one column of words of the other that are none of the training data's. */
static int find_unknown(struct matching *m, int64_t text, int64_t there, struct err *err)
{
    const struct dataset_info *info = m->match.info, *other = m->match.other;
    struct name_lookup known = {.names = info->column_names + info->words.first[text],
                                .count = info->words.width[text]};
    int r = 0;
    for (int64_t k = 0; r == 0 && k < other->words.width[there]; k++) {
        const int64_t column = other->words.first[there] + k;
        int64_t at = -1;
        r = name_lookup_find(&known, other->column_names[column], k, &at, err);
        if (r == 0 && at < 0) {
            m->unknown[m->count++] = column;
        }
    }
    name_lookup_deinit(&known);
    return r;
}

/* Rows that have such a word. */
static int64_t count_unknown(const struct matching *m)
{
    int64_t rows = 0;
    for (int64_t i = 0; m->count > 0 && i < m->other->info.rows; i++) {
        bool any = false;
        for (int64_t k = 0; !any && k < m->count; k++) {
            any = dataset_at(m->other, i, m->unknown[k]) != 0;
        }
        rows += any;
    }
    return rows;
}

/* As unknown words of questions that are let pass, these are none of the words, and counted. */
static int tell_unknown(struct matching *m, struct err *err)
{
    const struct dataset_words *w = &m->match.info->words;
    int r = 0;
    for (int64_t text = 0; r == 0 && text < w->count; text++) {
        int64_t there = -1;
        r = m->used[text] ? dataset_match_text(&m->match, text, &there, err) : 0;
        r = r == 0 && there >= 0 ? find_unknown(m, text, there, err) : r;
    }
    const int64_t rows = r == 0 ? count_unknown(m) : 0;
    if (rows > 0) {
        fit__say(m->f, "warning",
                 "%" PRId64 " of %" PRId64
                 " rows of the %s have a word that the training data do not have "
                 "(\"%.64s\"%s): it is taken as none of the words.",
                 rows, m->other->info.rows, m->name, m->other->info.column_names[m->unknown[0]],
                 m->count > 1 ? " and others" : "");
    }
    return r;
}

static int tell_match(const struct fit *f, const struct dataset *other, const char *name,
                      struct err *err)
{
    const struct dataset_info *info = &f->data.train->info;
    struct matching m = {
        .f = f,
        .other = other,
        .name = name,
        .used = mem_zarray((size_t)info->words.count + 1, sizeof(bool)),
        .unknown = mem_array((size_t)other->info.columns, sizeof(int64_t)),
    };
    dataset_match_init(&m.match, info, &other->info);
    int r = m.used != NULL && m.unknown != NULL ? tell_zeros(&m, err) : err_no_memory(err);
    r = r == 0 ? tell_unknown(&m, err) : r;
    matching_deinit(&m);
    return r;
}

int fit__tell_words(const struct fit *f, const struct dataset *centers, struct err *err)
{
    const struct fit_data *data = &f->data;
    int r = warn_of_siblings(f, err);
    r = r == 0 && data->tested != data->train ? tell_match(f, data->tested, "test data set", err)
                                              : r;
    return r == 0 && centers != NULL ? tell_match(f, centers, "data set of the centers", err) : r;
}
