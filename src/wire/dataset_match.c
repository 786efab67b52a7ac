#include "wire/dataset_match.h"

#include <inttypes.h>

/* Missing columns named in one error text. */
enum { NAMES_SHOWN = 5 };

void dataset_match_init(struct dataset_match *m, const struct dataset_info *info,
                        const struct dataset_info *other)
{
    *m = (struct dataset_match){
        .info = info,
        .other = other,
        .columns = {.names = other->column_names, .count = other->columns},
        .texts = {.names = other->words.names, .count = other->words.count},
        .lacking = BUF_INIT,
        .text = -1,
        .untold = -1,
    };
}

void dataset_match_deinit(struct dataset_match *m)
{
    name_lookup_deinit(&m->columns);
    name_lookup_deinit(&m->texts);
    buf_deinit(&m->lacking);
}

int dataset_match_text(struct dataset_match *m, int64_t text, int64_t *ret, struct err *err)
{
    return name_lookup_find(&m->texts, m->info->words.names[text], text, ret, err);
}

static void lack(struct dataset_match *m, const char *name, const char *what)
{
    if (++m->lacks <= NAMES_SHOWN) {
        buf_printf(&m->lacking, "%s\"%.48s\"%s", m->lacks > 1 ? ", " : "", name, what);
    }
}

/* A word: where the other has that column of words, no row of it has the word. */
static int find_word(struct dataset_match *m, int64_t text, struct err *err)
{
    int64_t there = -1;
    const int rc = text != m->text ? dataset_match_text(m, text, &there, err) : 0;
    if (rc == 0 && text != m->text && there < 0) {
        lack(m, m->info->words.names[text], " (of words)");
        m->text = text; /* which is named once */
    }
    return rc;
}

/* What tells that `of` is missing: where the other has that, and made up nothing of it. */
static int find_told(struct dataset_match *m, int64_t column, int64_t of, struct err *err)
{
    const struct dataset_info *other = m->other;
    const int64_t text = dataset_words_of(&m->info->words, of);
    int64_t at = -1;
    int rc = text >= 0 ? dataset_match_text(m, text, &at, err)
                       : name_lookup_find(&m->columns, m->info->column_names[of], of, &at, err);
    if (rc < 0) {
        return rc;
    }
    if (at < 0) {
        lack(m, m->info->column_names[column], "");
        return 0;
    }
    at = text >= 0 ? other->words.first[at] : at;
    if (other->missing.made_up != NULL && other->missing.made_up[at] > 0) {
        lack(m, m->info->column_names[column], "");
        m->untold = m->untold < 0 ? column : m->untold;
    }
    return 0;
}

int dataset_match_feature(struct dataset_match *m, int64_t column, int64_t *ret, struct err *err)
{
    const int64_t *indicates = m->info->missing.indicates;
    const int64_t of = indicates != NULL ? indicates[column] : -1;
    const int64_t text = dataset_words_of(&m->info->words, column);
    const int rc = name_lookup_find(&m->columns, m->info->column_names[column], column, ret, err);
    if (rc < 0 || *ret >= 0) {
        return rc;
    }
    *ret = DATASET_ZERO;
    if (text >= 0) {
        return find_word(m, text, err);
    }
    if (of >= 0) {
        return find_told(m, column, of, err);
    }
    lack(m, m->info->column_names[column], "");
    return 0;
}

int dataset_match_target(struct dataset_match *m, int64_t column, int64_t *ret, struct err *err)
{
    const char *name = m->info->column_names[column];
    const int rc = name_lookup_find(&m->columns, name, column, ret, err);
    if (rc == 0 && *ret < 0) {
        lack(m, name, "");
    }
    return rc;
}

int dataset_match_end(const struct dataset_match *m, const char *pointer, const char *whose,
                      struct err *err)
{
    if (m->lacks == 0) {
        return 0;
    }
    if (m->lacking.failed) {
        return err_no_memory(err);
    }
    const char *told = m->untold >= 0 ? m->info->column_names[m->untold] : "";
    return err_at(err, ERR_INVALID, pointer,
                  "%s lacks columns of the training data: %s%s.%s%.64s%s", whose, m->lacking.data,
                  m->lacks > NAMES_SHOWN ? " and more" : "", m->untold >= 0 ? " What \"" : "", told,
                  m->untold >= 0 ? "\" tells of was filled in there: upload it with "
                                   "missing=indicate."
                                 : "");
}
