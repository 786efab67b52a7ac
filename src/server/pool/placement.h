/*
 * Which devices workers shall run on, as a setting says it: items parted by commas, each "cpu:N" (N
 * worker processes on the CPU), "cuda:N" (one on that GPU, counted from 0) or "cuda:all" (one on
 * each). "N" alone is "cpu:N".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACEMENT_CPU_MAX 64
#define PLACEMENT_CUDA_MAX 64
#define PLACEMENT_TEXT_SIZE 640

struct placement {
    int cpu;       /* 0 to PLACEMENT_CPU_MAX */
    bool cuda_all; /* then `cuda` is 0 */
    uint64_t cuda; /* bit N: one worker on cuda:N */
};

/* Whether the text is such a list, in which no item of the CPU and no GPU comes twice. */
bool placement_parse(const char *text, struct placement *ret);
/* The shortest text that reads as the same. */
void placement_print(const struct placement *p, char *ret, size_t size);
