/* The first row of a CSV: whether it is a header, and the names that it gives. */
#include <string.h>

#include "base/mem.h"
#include "ingest/ingest_csv.h"
#include "ingest/ingest_number.h"
#include "ingest/ingest_text.h"
#include "wire/names.h"

/* The rule of ingest_formats.h. */
static bool is_header(const struct csv_table *c, const struct csv_row *second)
{
    const struct csv_row *first = &c->held[0];
    bool all_text = true;
    for (int64_t j = 0; j < first->count; j++) {
        const bool text = csv_is_text(c, &first->cell[j]) && !csv_is_missing(c, &first->cell[j]);
        all_text = all_text && (text || first->cell[j].len == 0);
        bool number_below =
            second != NULL && second->cell[j].len > 0 && !csv_is_text(c, &second->cell[j]);
        if (text && number_below) {
            return true;
        }
    }
    return all_text;
}

/* As the upload says, where it does. */
bool csv_choose_header(const struct csv_table *c, const struct csv_row *second)
{
    switch (c->t->options->header) {
    case INGEST_HEADER_PRESENT:
        return true;
    case INGEST_HEADER_ABSENT:
        return false;
    default:
        return is_header(c, second);
    }
}

/* The names, from the first row where it is a header. */
int csv_make_names(const struct csv_table *c, char **names, struct err *err)
{
    if (!c->header) {
        return ingest_names_number(names, "column", 0, c->width, err);
    }
    const struct csv_row *first = &c->held[0];
    for (int64_t j = 0; j < c->width; j++) {
        const struct csv_cell *cell = &first->cell[j];
        const char *fault = cell->len == 0 ? NULL : ingest_name_fault(cell->text, cell->len);
        if (fault != NULL) {
            char show[INGEST_SHOW_SIZE], hint[INGEST_ENCODING_SIZE];
            return csv_cell_error(c, cell->line, j, ERR_INVALID, err, "the name %s %s%s.",
                                  ingest_show(cell->text, cell->len, show), fault,
                                  ingest_encoding_hint(cell->text, cell->len, hint));
        }
        int status = 0;
        if (cell->len == 0) {
            status = ingest_names_number(names + j, "column", j, 1, err);
        } else if ((names[j] = mem_strdup(cell->text)) == NULL) {
            status = err_no_memory(err);
        }
        if (status < 0) {
            return status;
        }
    }
    int64_t a = 0;
    int64_t b = 0;
    int same = ingest_names_unique(names, c->width, &a, &b, err);
    if (same > 0) {
        char show[INGEST_SHOW_SIZE];
        same = csv_cell_error(c, first->cell[b].line, b, ERR_INVALID, err,
                              "column %lld has the name %s as well.", (long long)a + 1,
                              ingest_show(names[b], strlen(names[b]), show));
    }
    return same;
}

#define TAKEN_FOR_NAMES "The first row was taken for the names of the columns"
#define IF_IT_HOLDS_DATA                                                                           \
    "If it holds data, give the table a header, or upload it with header=absent."

/* A fraction among the names. Fractions are none, whereas columns are often numbered. */
static const struct csv_cell *find_fraction(const struct csv_table *c)
{
    for (int64_t j = 0; j < c->width; j++) {
        const struct csv_cell *cell = &c->held[0].cell[j];
        if (memchr(cell->text, c->t->options->decimal_comma ? ',' : '.', cell->len) != NULL &&
            !csv_is_text(c, cell)) {
            return cell;
        }
    }
    return NULL;
}

/* A name that is a value of its own column. */
static const struct csv_cell *find_value(const struct csv_table *c)
{
    for (int64_t j = 0; j < c->width; j++) {
        const struct csv_cell *cell = &c->held[0].cell[j];
        const struct ingest_labels *labels = c->t->labels[j];
        if (labels != NULL && ingest_labels_find(labels, cell->text, cell->len) >= 0) {
            return cell;
        }
    }
    return NULL;
}

static bool is_all_text(const struct csv_table *c)
{
    for (int64_t j = 0; j < c->width; j++) {
        if (!c->t->is_ignored[j] && c->t->labels[j] == NULL) {
            return false;
        }
    }
    return true;
}

/* One text above a number makes a header, and so does a mark of what is missing in the first row of
 * a table that has none. Where there is text alone, nothing tells names from values, but that
 * values come again in a table that has rows enough. */
int csv_warn_header(const struct csv_table *c, struct err *err)
{
    if (!c->begun || !c->header || c->t->options->header != INGEST_HEADER_AUTO) {
        return 0;
    }
    char show[INGEST_SHOW_SIZE];
    const struct csv_cell *cell = find_fraction(c);
    if (cell != NULL) {
        return ingest_table_warn(c->t, err, TAKEN_FOR_NAMES ", %s among them. " IF_IT_HOLDS_DATA,
                                 ingest_show(cell->text, cell->len, show));
    }
    if ((cell = find_value(c)) != NULL) {
        return ingest_table_warn(c->t, err,
                                 TAKEN_FOR_NAMES
                                 ", though %s is a value of its own column, too. " IF_IT_HOLDS_DATA,
                                 ingest_show(cell->text, cell->len, show));
    }
    if (is_all_text(c) && c->t->writer.rows < INGEST_FEW_ROWS) {
        return ingest_table_warn(c->t, err,
                                 TAKEN_FOR_NAMES ". All others hold text alone as well, so that "
                                                 "nothing tells. " IF_IT_HOLDS_DATA
                                                 " header=present says that it does not.");
    }
    return 0;
}

/* Tables that are written with the numbers of their rows have those in a column without a name,
 * which pandas calls "Unnamed: 0" when it reads such a table. */
static bool is_row_number(const struct csv_table *c, int64_t column)
{
    const struct csv_cell *name = &c->held[0].cell[column];
    const bool unnamed = name->len == 0 || strncmp(name->text, "Unnamed: ", 9) == 0;
    return unnamed && c->t->labels[column] == NULL && !c->t->is_ignored[column] &&
           !c->t->is_target[column] && c->t->column[column].counts;
}

int csv_warn_row_numbers(const struct csv_table *c, struct err *err)
{
    for (int64_t j = 0; c->begun && c->header && c->t->writer.rows > 1 && j < c->width; j++) {
        if (is_row_number(c, j)) {
            char show[INGEST_SHOW_SIZE];
            const char *name = c->t->names[j];
            return ingest_table_warn(c->t, err,
                                     "The column %lld, which has no name and is called %s here, "
                                     "numbers the rows, and became a feature; ignore=%lld (krr: "
                                     "--ignore %lld), which counts from 0, leaves it out.",
                                     (long long)j + 1, ingest_show(name, strlen(name), show),
                                     (long long)j, (long long)j);
        }
    }
    return 0;
}
