#include "base/id.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

enum {
    CHARACTERS = 26,
    RANDOM_BYTES = 10,
    PREFIX_MAX = ID_SIZE - CHARACTERS - 2 /* "_" and the NUL */
};

static const int64_t max_ms = (INT64_C(1) << 48) - 1;

/* Crockford's base 32: without I, L, O, U, and in ASCII order, so that text sorts as time does. */
static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* From the kernel. Where that is forbidden (a strict sandbox), from the clock and the process id:
 * ids need to differ, not to be secret. */
static void fill_random(uint8_t bytes[RANDOM_BYTES])
{
    size_t have = 0;
    while (have < RANDOM_BYTES) {
        const ssize_t n = getrandom(bytes + have, RANDOM_BYTES - have, 0);
        if (n < 0 && errno != EINTR) {
            break;
        }
        have += n > 0 ? (size_t)n : 0;
    }
    struct rng fallback = rng_new((uint64_t)(clock_monotonic_s() * 1e9), (uint64_t)getpid());
    for (; have < RANDOM_BYTES; have++) {
        bytes[have] = (uint8_t)rng_u64(&fallback);
    }
}

/* The next 80-bit number; false on overflow. */
static bool increment(uint8_t bytes[RANDOM_BYTES])
{
    for (int i = RANDOM_BYTES - 1; i >= 0; i--) {
        if (++bytes[i] != 0) {
            return true;
        }
    }
    return false;
}

/* The time never runs backwards, whatever the wall clock does. */
static void advance(struct id_source *source, int64_t wall_ms)
{
    const int64_t ms = wall_ms < 0 ? 0 : wall_ms > max_ms ? max_ms : wall_ms;
    if (ms <= source->last_ms && increment(source->last_random)) {
        return;
    }
    source->last_ms = ms > source->last_ms ? ms : source->last_ms + 1;
    fill_random(source->last_random);
}

void id_new(struct id_source *source, const char *prefix, int64_t wall_ms, char ret[ID_SIZE])
{
    advance(source, wall_ms);
    uint8_t bytes[16];
    for (int i = 0; i < 6; i++) {
        bytes[i] = (uint8_t)((uint64_t)source->last_ms >> (40 - 8 * i));
    }
    memcpy(bytes + 6, source->last_random, RANDOM_BYTES);

    /* 128 bits as 26 groups of five; the first group has two zero bits in front. */
    char text[CHARACTERS + 1] = {0};
    unsigned bits = 0;
    int have = 2;
    int filled = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bits = (bits << 8 | bytes[i]) & 0xFFFF;
        for (have += 8; have >= 5; have -= 5) {
            text[filled++] = alphabet[bits >> (have - 5) & 31];
        }
    }
    snprintf(ret, ID_SIZE, "%.*s_%s", PREFIX_MAX, prefix, text);
}

bool id_valid(const char *id, const char *prefix)
{
    const size_t len = strlen(prefix);
    if (id == NULL || strncmp(id, prefix, len) != 0 || id[len] != '_') {
        return false;
    }
    const char *text = id + len + 1;
    return strlen(text) == CHARACTERS && strspn(text, alphabet) == CHARACTERS && text[0] <= '7';
}

/* The other way round; false for what is no id. */
static bool read_id(const char *id, struct id_source *ret)
{
    const char *mark = strchr(id, '_');
    if (mark == NULL || strlen(mark + 1) != CHARACTERS ||
        strspn(mark + 1, alphabet) != CHARACTERS || mark[1] > '7') {
        return false;
    }
    uint8_t bytes[16];
    unsigned bits = 0;
    int have = -2;
    int filled = 0;
    for (const char *c = mark + 1; *c != '\0'; c++) {
        bits = (bits << 5 | (unsigned)(strchr(alphabet, *c) - alphabet)) & 0xFFFF;
        have += 5;
        if (have >= 8) {
            have -= 8;
            bytes[filled++] = (uint8_t)(bits >> have);
        }
    }
    ret->last_ms = 0;
    for (int i = 0; i < 6; i++) {
        ret->last_ms = ret->last_ms << 8 | bytes[i];
    }
    memcpy(ret->last_random, bytes + 6, RANDOM_BYTES);
    return true;
}

void id_continue(struct id_source *source, const char *id)
{
    struct id_source at;
    if (!read_id(id, &at)) {
        return;
    }
    const bool later = at.last_ms > source->last_ms ||
                       (at.last_ms == source->last_ms &&
                        memcmp(at.last_random, source->last_random, RANDOM_BYTES) > 0);
    if (later) {
        *source = at;
    }
}
