/* What each column of a data set is to a job, and which tell too much of its targets. */
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"
#include "wire/spec_roles.h"

static const char *const role_names[] = {
    [ROLE_NONE] = "unused",
    [ROLE_TARGET] = "a target",
    [ROLE_MASK] = "the mask",
    [ROLE_FEATURE] = "a feature",
};

static int assign(struct spec_roles *c, const char *name, enum role role, const char *key,
                  int64_t position, struct err *err)
{
    int64_t at = -1;
    const int rc = name_lookup_find(&c->names, name, -1, &at, err);
    if (rc < 0) {
        return rc;
    }
    if (at < 0) {
        return field_error(err, key, position, "The data set has no column \"%.64s\".", name);
    }
    if (c->roles[at] != ROLE_NONE) {
        return field_error(err, key, position, "The column \"%.64s\" is %s already.", name,
                           role_names[c->roles[at]]);
    }
    c->roles[at] = (unsigned char)role;
    return 0;
}

static int assign_targets(const struct job_spec *spec, const struct dataset_info *info,
                          struct spec_roles *c, struct err *err)
{
    for (int64_t i = 0; spec->targets == 0 && i < info->targets; i++) {
        c->roles[info->target_columns[i]] = ROLE_TARGET;
    }
    for (int64_t i = 0; i < spec->targets; i++) {
        const int64_t position = spec->targets == 1 ? FIELD_WHOLE : i;
        const int rc = assign(c, spec->target_names[i], ROLE_TARGET, "target", position, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int assign_mask(const struct job_spec *spec, struct spec_roles *c, struct err *err)
{
    if (spec->test.kind != SPEC_TEST_MASK) {
        return 0;
    }
    const int rc = assign(c, spec->test.mask, ROLE_MASK, "mask", FIELD_WHOLE, err);
    if (rc < 0) {
        err_prefix(err, "#/test");
    }
    return rc;
}

/* Columns that tell of each other: of a list, or one behind the other. */
struct family {
    const int64_t *columns; /* [count] or NULL */
    int64_t first, count;
};

static int64_t member(const struct family *f, int64_t i)
{
    return f->columns != NULL ? f->columns[i] : f->first + i;
}

/* Where one of them is predicted, the others are siblings of it. */
static void mark_family(const struct name_index *predicted, const struct dataset_info *info,
                        const struct family *f, bool *siblings)
{
    bool any = false;
    for (int64_t i = 0; !any && i < f->count; i++) {
        any = name_index_find(predicted, info->column_names[member(f, i)]) >= 0;
    }
    for (int64_t i = 0; any && i < f->count; i++) {
        const int64_t column = member(f, i);
        siblings[column] |= name_index_find(predicted, info->column_names[column]) < 0;
    }
}

/* Where it is predicted whether a value is missing, what stands for that value tells it. */
static void mark_told(const struct name_index *predicted, const struct dataset_info *info,
                      int64_t column, bool *siblings)
{
    const int64_t of = info->missing.indicates[column];
    if (of < 0 || name_index_find(predicted, info->column_names[column]) < 0) {
        return;
    }
    const struct dataset_words *w = &info->words;
    const int64_t text = dataset_words_of(w, of);
    const int64_t count = text >= 0 ? w->width[text] : 1;
    for (int64_t i = of; i < of + count; i++) {
        siblings[i] |= name_index_find(predicted, info->column_names[i]) < 0;
    }
}

int job_spec_mark_siblings(const struct job_spec *spec, const struct dataset_info *info,
                           bool *siblings, struct err *err)
{
    cleanup_name_index struct name_index predicted = {0};
    const int rc = name_index_init(&predicted, spec->target_names, spec->targets, err);
    if (rc < 0 || spec->targets == 0) {
        return rc;
    }
    const struct family own = {.columns = info->target_columns, .count = info->targets};
    mark_family(&predicted, info, &own, siblings);
    for (int64_t i = 0; i < info->words.count; i++) {
        const struct family words = {.first = info->words.first[i], .count = info->words.width[i]};
        mark_family(&predicted, info, &words, siblings);
    }
    for (int64_t i = 0; info->missing.indicates != NULL && i < info->columns; i++) {
        mark_told(&predicted, info, i, siblings);
    }
    return 0;
}

static int assign_features(const struct job_spec *spec, const struct dataset_info *info,
                           struct spec_roles *c, struct err *err)
{
    bool *siblings cleanup_mem = mem_zarray((size_t)info->columns, sizeof(*siblings));
    if (siblings == NULL) {
        return err_no_memory(err);
    }
    int rc = job_spec_mark_siblings(spec, info, siblings, err);
    for (int64_t i = 0; rc == 0 && i < spec->features; i++) {
        rc = assign(c, spec->feature_names[i], ROLE_FEATURE, "features", i, err);
    }
    for (int64_t i = 0; rc == 0 && spec->features == 0 && i < c->names.count; i++) {
        if (c->roles[i] == ROLE_NONE && !siblings[i]) {
            c->roles[i] = ROLE_FEATURE;
        }
    }
    return rc;
}

static int roles_init(const struct dataset_info *info, struct spec_roles *ret, struct err *err)
{
    ret->roles = mem_zalloc((size_t)info->columns);
    ret->names = (struct name_lookup){.names = info->column_names, .count = info->columns};
    return ret->roles == NULL ? err_no_memory(err) : 0;
}

void spec__roles_deinit(struct spec_roles *c)
{
    name_lookup_deinit(&c->names);
    c->roles = mem_free(c->roles);
}

int spec__assign_roles(const struct job_spec *spec, const struct dataset_info *info,
                       struct spec_roles *ret, struct err *err)
{
    int rc = roles_init(info, ret, err);
    rc = rc < 0 ? rc : assign_targets(spec, info, ret, err);
    rc = rc < 0 ? rc : assign_mask(spec, ret, err);
    return rc < 0 ? rc : assign_features(spec, info, ret, err);
}
