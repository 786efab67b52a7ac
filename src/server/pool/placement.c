#include "server/pool/placement.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A decimal number up to `most` without a needless zero, the whole item. */
static bool read_number(const char *text, size_t len, int most, int *ret)
{
    if (len == 0 || len > 3 || (text[0] == '0' && len > 1)) {
        return false;
    }
    int n = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return false;
        }
        n = 10 * n + (text[i] - '0');
    }
    *ret = n;
    return n <= most;
}

static bool starts(const char *text, size_t len, const char *prefix)
{
    return len >= strlen(prefix) && strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool add_cuda(const char *text, size_t len, struct placement *p)
{
    int n;
    if (len == 3 && strncmp(text, "all", 3) == 0) {
        const bool once = !p->cuda_all && p->cuda == 0;
        p->cuda_all = true;
        return once;
    }
    if (p->cuda_all || !read_number(text, len, PLACEMENT_CUDA_MAX - 1, &n) || p->cuda >> n & 1) {
        return false;
    }
    p->cuda |= UINT64_C(1) << n;
    return true;
}

/* `seen`: whether the CPU had its item. */
static bool add_item(const char *text, size_t len, struct placement *p, bool *seen)
{
    static const char cpu[] = "cpu:", cuda[] = "cuda:";
    if (starts(text, len, cuda)) {
        return add_cuda(text + strlen(cuda), len - strlen(cuda), p);
    }
    const size_t skip = starts(text, len, cpu) ? strlen(cpu) : 0;
    const bool again = *seen;
    *seen = true;
    return !again && read_number(text + skip, len - skip, PLACEMENT_CPU_MAX, &p->cpu);
}

bool placement_parse(const char *text, struct placement *ret)
{
    struct placement p = {.cpu = 0};
    bool seen = false;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        if (!add_item(at, len, &p, &seen)) {
            return false;
        }
        at += len;
        if (*at == '\0') {
            *ret = p;
            return true;
        }
    }
}

void placement_print(const struct placement *p, char *ret, size_t size)
{
    size_t len = 0;
    ret[0] = '\0';
    if (p->cpu > 0 || (p->cuda == 0 && !p->cuda_all)) {
        len += (size_t)snprintf(ret, size, "cpu:%d", p->cpu);
    }
    if (p->cuda_all && len < size) {
        snprintf(ret + len, size - len, "%scuda:all", len > 0 ? "," : "");
    }
    for (int i = 0; i < PLACEMENT_CUDA_MAX && len < size; i++) {
        if (p->cuda >> i & 1) {
            len += (size_t)snprintf(ret + len, size - len, "%scuda:%d", len > 0 ? "," : "", i);
        }
    }
}
