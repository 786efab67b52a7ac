/*
 * Which devices workers shall run on, as a setting says it: items parted by commas, each "cpu:N" (N
 * worker processes on the CPU), "cuda:N" (one on that GPU, counted from 0), "cuda:N+M" (one on
 * those GPUs together, up to PLACEMENT_GROUP_SIZE) or "cuda:all" (one on each). "N" alone is
 * "cpu:N".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACEMENT_CPU_MAX 64
#define PLACEMENT_CUDA_MAX 64
#define PLACEMENT_GROUPS_MAX (PLACEMENT_CUDA_MAX / 2)
#define PLACEMENT_GROUP_SIZE 8
#define PLACEMENT_TEXT_SIZE 640
#define PLACEMENT_DEVICE_SIZE 40 /* of "cuda:0,1,..." */

struct placement {
    int cpu;                               /* 0 to PLACEMENT_CPU_MAX */
    bool cuda_all;                         /* then `cuda` is 0, and there are no groups */
    uint64_t cuda;                         /* bit N: one worker on cuda:N */
    uint64_t groups[PLACEMENT_GROUPS_MAX]; /* bit N: cuda:N is one of this worker's */
    int group_count;
};

/* Whether the text is such a list, in which no item of the CPU and no GPU comes twice. */
bool placement_parse(const char *text, struct placement *ret);
/* The shortest text that reads as the same. */
void placement_print(const struct placement *p, char *ret, size_t size);
/* The GPUs that some worker is to run on, those of groups too. */
uint64_t placement_gpus(const struct placement *p);
/* The device of a worker on these GPUs, as it is told to the worker, as jobs ask for it and as it
 * is shown: "cuda:0,1". */
void placement_device(uint64_t gpus, char ret[PLACEMENT_DEVICE_SIZE]);
