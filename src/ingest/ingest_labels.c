#include "ingest/ingest_labels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 16

void ingest_labels_deinit(struct ingest_labels *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        mem_free(l->text[i]);
    }
    mem_free(l->text);
    mem_free(l->hash);
    mem_free(l->slot);
    *l = (struct ingest_labels)INGEST_LABELS_INIT;
}

/* FNV-1a. The limit on the number of labels bounds what chosen collisions can cost. */
static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    }
    return h;
}

static int64_t first_slot(const struct ingest_labels *l, uint64_t hash)
{
    return (int64_t)((hash ^ (hash >> 32)) & (uint64_t)(l->slot_count - 1));
}

static void place(struct ingest_labels *l, int64_t number)
{
    int64_t s = first_slot(l, l->hash[number]);
    while (l->slot[s] >= 0) {
        s = (s + 1) & (l->slot_count - 1);
    }
    l->slot[s] = number;
}

/* Makes room for one more label. */
static int grow(struct ingest_labels *l, struct err *err)
{
    if (2 * (l->count + 1) <= l->slot_count) {
        return 0;
    }
    int64_t slots = l->slot_count == 0 ? FIRST_SLOTS : 2 * l->slot_count;
    char **text = mem_regrow(l->text, (size_t)slots / 2, sizeof(*text));
    if (text == NULL) {
        return err_no_memory(err);
    }
    l->text = text;
    uint64_t *hash = mem_regrow(l->hash, (size_t)slots / 2, sizeof(*hash));
    if (hash == NULL) {
        return err_no_memory(err);
    }
    l->hash = hash;
    int64_t *slot = mem_regrow(l->slot, (size_t)slots, sizeof(*slot));
    if (slot == NULL) {
        return err_no_memory(err);
    }
    l->slot = slot;
    l->slot_count = slots;
    for (int64_t i = 0; i < slots; i++) {
        slot[i] = -1;
    }
    for (int64_t i = 0; i < l->count; i++) {
        place(l, i);
    }
    return 0;
}

static bool is_label(const struct ingest_labels *l, int64_t number, const char *text, size_t len)
{
    return strncmp(l->text[number], text, len) == 0 && l->text[number][len] == '\0';
}

/* The number of a known text, or -1. */
static int64_t find(const struct ingest_labels *l, uint64_t hash, const char *text, size_t len)
{
    if (l->slot_count == 0) {
        return -1;
    }
    for (int64_t s = first_slot(l, hash); l->slot[s] >= 0; s = (s + 1) & (l->slot_count - 1)) {
        int64_t number = l->slot[s];
        if (l->hash[number] == hash && is_label(l, number, text, len)) {
            return number;
        }
    }
    return -1;
}

int64_t ingest_labels_find(const struct ingest_labels *l, const char *text, size_t len)
{
    return find(l, hash_text(text, len), text, len);
}

int ingest_labels_add(struct ingest_labels *l, const char *text, size_t len, int64_t limit,
                      int64_t *ret, struct err *err)
{
    if (l->last < l->count && is_label(l, l->last, text, len)) {
        *ret = l->last;
        return 0;
    }
    uint64_t hash = hash_text(text, len);
    int64_t number = find(l, hash, text, len);
    if (number < 0) {
        if (l->count >= limit) {
            return 1;
        }
        int r = grow(l, err);
        if (r < 0) {
            return r;
        }
        char *copy = mem_strndup(text, len);
        if (copy == NULL) {
            return err_no_memory(err);
        }
        number = l->count++;
        l->text[number] = copy;
        l->hash[number] = hash;
        place(l, number);
    }
    l->last = number;
    *ret = number;
    return 0;
}

struct ranked {
    const char *text;
    int64_t number;
};

static int compare_ranked(const void *a, const void *b)
{
    return strcmp(((const struct ranked *)a)->text, ((const struct ranked *)b)->text);
}

int ingest_labels_rank(const struct ingest_labels *l, int64_t **ret, struct err *err)
{
    size_t count = (size_t)l->count;
    cleanup_mem struct ranked *sorted = mem_array(count, sizeof(*sorted));
    int64_t *rank = mem_array(count, sizeof(*rank));
    if (sorted == NULL || rank == NULL) {
        mem_free(rank);
        return err_no_memory(err);
    }
    for (int64_t i = 0; i < l->count; i++) {
        sorted[i] = (struct ranked){.text = l->text[i], .number = i};
    }
    qsort(sorted, count, sizeof(*sorted), compare_ranked);
    for (int64_t i = 0; i < l->count; i++) {
        rank[sorted[i].number] = i;
    }
    *ret = rank;
    return 0;
}
