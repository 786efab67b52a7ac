/*
 * Inside a group of devices (backend_group.h).
 *
 *   backend_group.c   open, close, points, and what the first device does alone
 *   group_products.c  products that are divided
 */
#pragma once

#include "engine/group/backend_group.h"

struct group {
    struct backend base; /* first */
    struct backend_ops ops;
    int count;
    int64_t least_values;
    int64_t entries; /* kernel values that the group has taken over from its members' counts */
    struct backend *members[BACKEND_GROUP_MAX]; /* [0]: the lead */
};

/* The same points on every member. */
struct points {
    int64_t n;
    struct points *on[BACKEND_GROUP_MAX];
};

static inline struct group *group_of(struct backend *be)
{
    return (struct group *)be;
}

static inline struct backend *group_lead(struct backend *be)
{
    return group_of(be)->members[0];
}

/* The lead for what it does alone: it asks whom the group is to ask, until group_done. */
static inline struct backend *group_asking_lead(struct backend *be)
{
    struct backend *lead = group_lead(be);
    lead->stop = be->stop;
    lead->stop_context = be->stop_context;
    return lead;
}

/* What the lead is asked for in the group's name: its figures become the group's. Every operation
 * that changes them ends with it. */
static inline int group_done(struct backend *be, int rc)
{
    struct group *g = group_of(be);
    g->members[0]->stop = NULL;
    be->bytes = g->members[0]->bytes;
    be->peak_bytes = g->members[0]->peak_bytes;
    int64_t entries = 0;
    for (int i = 0; i < g->count; i++) {
        entries += g->members[i]->kernel_entries;
    }
    be->kernel_entries += entries - g->entries; /* who has set it back has it so */
    g->entries = entries;
    return rc;
}

/* The view as member i has it. */
static inline struct view group_view(const struct view *v, int i)
{
    struct view ret = *v;
    ret.points = v->points->on[i];
    return ret;
}

static inline struct view group_part(const struct view *v, int i, int64_t first, int64_t count)
{
    const struct view on = group_view(v, i);
    return v->index != NULL ? view_index(on.points, on.index + first, count)
                            : view_range(on.points, on.first + first, count);
}

/* ---- group_products.c: as backend.h ---- */

int group__kmv(struct backend *be, struct view P, struct view Q, double a, const struct mat *V,
               double b, const struct mat *Y, struct err *err);
int group__kmtkv(struct backend *be, struct view P, struct view Q, const double *weights,
                 const struct mat *V, const struct mat *T, const struct mat *U, bool add,
                 const struct mat *Y, struct err *err);
int group__ksketch(struct backend *be, const struct sign_sketch *phi, struct view P, struct view Q,
                   bool add, const struct mat *S, struct err *err);
