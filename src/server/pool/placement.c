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

/* "0", or "0+1" and so on. */
static bool read_gpus(const char *text, size_t len, uint64_t *ret)
{
    for (size_t at = 0; at <= len;) {
        size_t end = at;
        int n;
        while (end < len && text[end] != '+') {
            end++;
        }
        if (!read_number(text + at, end - at, PLACEMENT_CUDA_MAX - 1, &n) || *ret >> n & 1) {
            return false;
        }
        *ret |= UINT64_C(1) << n;
        at = end + 1;
    }
    return __builtin_popcountll(*ret) <= PLACEMENT_GROUP_SIZE;
}

uint64_t placement_gpus(const struct placement *p)
{
    uint64_t gpus = p->cuda;
    for (int i = 0; i < p->group_count; i++) {
        gpus |= p->groups[i];
    }
    return gpus;
}

static bool add_cuda(const char *text, size_t len, struct placement *p)
{
    uint64_t gpus = 0;
    if (len == 3 && strncmp(text, "all", 3) == 0) {
        const bool once = !p->cuda_all && placement_gpus(p) == 0;
        p->cuda_all = true;
        return once;
    }
    if (p->cuda_all || !read_gpus(text, len, &gpus) || (gpus & placement_gpus(p)) != 0) {
        return false;
    }
    if (__builtin_popcountll(gpus) == 1) {
        p->cuda |= gpus;
    } else {
        p->groups[p->group_count++] = gpus;
    }
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

/* "cuda:" and the GPUs with a sign between them. */
static void print_gpus(uint64_t gpus, char between, char ret[PLACEMENT_DEVICE_SIZE])
{
    size_t len = (size_t)snprintf(ret, PLACEMENT_DEVICE_SIZE, "cuda:");
    const size_t begin = len;
    for (int i = 0; i < PLACEMENT_CUDA_MAX && len < PLACEMENT_DEVICE_SIZE; i++) {
        if (gpus >> i & 1) {
            const char sign[] = {between, '\0'};
            len += (size_t)snprintf(ret + len, PLACEMENT_DEVICE_SIZE - len, "%s%d",
                                    len > begin ? sign : "", i);
        }
    }
}

void placement_device(uint64_t gpus, char ret[PLACEMENT_DEVICE_SIZE])
{
    print_gpus(gpus, ',', ret);
}

static size_t print_item(uint64_t gpus, char *ret, size_t size, size_t len)
{
    char item[PLACEMENT_DEVICE_SIZE];
    print_gpus(gpus, '+', item);
    return len + (size_t)snprintf(ret + len, size - len, "%s%s", len > 0 ? "," : "", item);
}

void placement_print(const struct placement *p, char *ret, size_t size)
{
    size_t len = 0;
    ret[0] = '\0';
    if (p->cpu > 0 || (placement_gpus(p) == 0 && !p->cuda_all)) {
        len += (size_t)snprintf(ret, size, "cpu:%d", p->cpu);
    }
    if (p->cuda_all && len < size) {
        snprintf(ret + len, size - len, "%scuda:all", len > 0 ? "," : "");
    }
    for (int i = 0; i < PLACEMENT_CUDA_MAX && len < size; i++) {
        if (p->cuda >> i & 1) {
            len = print_item(UINT64_C(1) << i, ret, size, len);
        }
    }
    for (int i = 0; i < p->group_count && len < size; i++) {
        len = print_item(p->groups[i], ret, size, len);
    }
}
