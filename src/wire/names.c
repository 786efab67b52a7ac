#include "wire/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/field.h"

/* So many names are looked for one by one, more in an index. */
enum { FEW_NAMES = 8 };

char **names_free(char **names, int64_t count)
{
    for (int64_t i = 0; names != NULL && i < count; i++) {
        mem_free(names[i]);
    }
    return mem_free(names);
}

static int copy_items(const struct json *list, const char *key, char **names, struct err *err)
{
    int64_t i = 0;
    for (const struct json *item = json_first(list); item != NULL; item = json_next(item), i++) {
        if (json_type(item) != JSON_STRING) {
            return field_wrong(err, key, i, item, "a string");
        }
        names[i] = mem_strdup(json_string(item));
        if (names[i] == NULL) {
            return err_no_memory(err);
        }
    }
    return 0;
}

int names_read(const struct json *obj, const char *key, int64_t least, int64_t most, char ***ret,
               int64_t *ret_count, struct err *err)
{
    const struct json *list = json_get(obj, key);
    if (list == NULL || json_type(list) != JSON_ARRAY) {
        return field_wrong(err, key, FIELD_WHOLE, list, "an array of strings");
    }
    const int64_t count = json_size(list);
    if (count < least || count > most) {
        return field_wrong(err, key, FIELD_WHOLE, list,
                           "an array of %" PRId64 " to %" PRId64 " strings", least, most);
    }
    char **names = NULL;
    if (count > 0) {
        names = mem_zarray((size_t)count, sizeof(*names));
        if (names == NULL) {
            return err_no_memory(err);
        }
        const int rc = copy_items(list, key, names, err);
        if (rc < 0) {
            names_free(names, count);
            return rc;
        }
    }
    *ret = names;
    *ret_count = count;
    return 0;
}

int names_check_distinct(char *const *names, int64_t count, const char *key, struct err *err)
{
    struct name_index index cleanup_name_index = {0};
    const int rc = name_index_init(&index, names, count, err);
    if (rc < 0) {
        return rc;
    }
    for (int64_t i = 0; i < count; i++) {
        const struct name_entry *e = &index.entries[i];
        if (e->name[0] == '\0') {
            return field_error(err, key, e->position, "A name must not be empty.");
        }
        if (i > 0 && strcmp(e[-1].name, e->name) == 0) {
            return field_error(err, key, e->position, "The name \"%.64s\" stands here twice.",
                               e->name);
        }
    }
    return 0;
}

int64_t name_json_size(const char *name)
{
    int64_t size = 3;
    for (; *name != '\0'; name++) {
        const unsigned char c = (unsigned char)*name;
        size += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : 1;
    }
    return size;
}

void names_write(struct json *obj, const char *key, char *const *names, int64_t count)
{
    struct json *list = json_set_array(obj, key);
    for (int64_t i = 0; i < count; i++) {
        json_push(list, json_new_string(names[i]));
    }
}

static int compare_entries(const void *a, const void *b)
{
    const struct name_entry *x = a;
    const struct name_entry *y = b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->position > y->position) - (x->position < y->position);
}

int name_index_init(struct name_index *index, char *const *names, int64_t count, struct err *err)
{
    struct name_entry *entries = mem_array((size_t)count + 1, sizeof(*entries));
    if (entries == NULL) {
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < count; i++) {
        entries[i] = (struct name_entry){.name = names[i], .position = i};
    }
    qsort(entries, (size_t)count, sizeof(*entries), compare_entries);
    *index = (struct name_index){.entries = entries, .count = count};
    return 0;
}

void name_index_deinit(struct name_index *index)
{
    index->entries = mem_free(index->entries);
    index->count = 0;
}

int64_t name_index_find(const struct name_index *index, const char *name)
{
    int64_t low = 0;
    int64_t high = index->count; /* the first entry >= name lies in [low, high] */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(index->entries[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct name_entry *e = &index->entries[low];
    return low < index->count && strcmp(e->name, name) == 0 ? e->position : -1;
}

static int64_t look_through(const struct name_lookup *l, const char *name)
{
    int64_t i = 0;
    while (i < l->count && strcmp(l->names[i], name) != 0) {
        i++;
    }
    return i < l->count ? i : -1;
}

int name_lookup_find(struct name_lookup *l, const char *name, int64_t likely, int64_t *ret,
                     struct err *err)
{
    int rc = 0;
    if (likely >= 0 && likely < l->count && strcmp(l->names[likely], name) == 0) {
        *ret = likely;
    } else if (++l->found <= FEW_NAMES) {
        *ret = look_through(l, name);
    } else {
        rc = l->index.entries == NULL ? name_index_init(&l->index, l->names, l->count, err) : 0;
        *ret = rc == 0 ? name_index_find(&l->index, name) : -1;
    }
    return rc;
}

void name_lookup_deinit(struct name_lookup *l)
{
    name_index_deinit(&l->index);
}
