#include <stddef.h>
#include <string.h>

#include "engine/methods/methods.h"

static const struct center_ops *const selectors[] = {
    &centers_uniform_ops,    &centers_kmeans_ops,
    &centers_rpcholesky_ops, &centers_bless_ops,
    &centers_bless_r_ops,    &centers_rls_ops,
    &centers_two_pass_ops,   &centers_squeak_ops,
    &centers_file_ops,       NULL,
};

const struct center_ops *const *center_list(void)
{
    return selectors;
}

const struct center_ops *center_find(const char *name)
{
    for (const struct center_ops *const *s = selectors; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}
