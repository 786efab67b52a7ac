#include "engine/centers.h"

#include "base/mem.h"

void centers_deinit(struct centers *c)
{
    mem_free(c->points);
    mem_free(c->rows);
    mem_free(c->weights);
    mem_free(c->path);
    *c = (struct centers){.m = 0};
}
