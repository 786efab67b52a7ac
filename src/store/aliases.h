/*
 * Aliases: names such as "prod" that stand for one version of a model, and the history of their
 * moves. A move is one transaction; who resolves an alias sees the version before it or the one
 * after it. A version with an alias cannot be deleted (models_delete).
 *
 * The moves of an alias are numbered 1, 2, 3, … and the numbers are not used twice, also when it is
 * deleted and made anew: the number of the last move tells whether it has moved meanwhile. Only
 * when the history of a deleted one has been forgotten (aliases_sweep) a new one begins with 1.
 *
 * A rollback takes the latest move back that has not been taken back yet, so that several of them
 * go further and further into the past. It passes over versions that have been deleted.
 */
#pragma once

#include <stdint.h>

#include "store/models.h"
#include "store/store.h"

#define ALIASES_NAME_MAX 64          /* bytes of an alias */
#define ALIASES_MAX 100              /* of one model */
#define ALIASES_HISTORY_MAX 1000     /* moves kept of one alias; older ones are forgotten */
#define ALIASES_HISTORY_PAGE_MAX 100 /* moves read at a time */
#define ALIASES_REQUEST_MAX 128      /* bytes of a request's id */

struct alias_row {
    char *name; /* of the model */
    char *alias;
    int64_t version;
    int64_t moves;    /* the number of its last move */
    int64_t moved_ms; /* when that was */
};
void alias_row_deinit(struct alias_row *r);

/* -ERR_NOT_FOUND. */
int aliases_get(struct store *s, const char *name, const char *alias, struct alias_row *ret,
                struct err *err);
/* All of a model, by name; there may be none. */
int aliases_list(struct store *s, const char *name, struct alias_row **ret, int64_t *ret_count,
                 struct err *err);
/* Of one version, by its key. */
int aliases_of_version(struct store *s, int64_t key, struct alias_row **ret, int64_t *ret_count,
                       struct err *err);
void aliases_list_free(struct alias_row *rows, int64_t count);

/* The version that an alias stands for; -ERR_NOT_FOUND. */
int aliases_model(struct store *s, const char *name, const char *alias, struct model_row *ret,
                  struct err *err);
/* Every version that has an alias, each once, in the order of their keys. */
int aliases_models(struct store *s, struct model_row **ret, int64_t *ret_count, struct err *err);

enum alias_kind { ALIAS_SET, ALIAS_ROLLBACK, ALIAS_PROMOTION, ALIAS_DELETE };
const char *alias_kind_name(enum alias_kind k);

struct alias_move {
    int64_t number;
    char kind[16];
    int64_t from, to; /* versions; 0: none */
    int64_t moved_ms;
    char request[ALIASES_REQUEST_MAX + 1]; /* the X-Request-Id of who moved it, or "" */
    char job[ID_SIZE];                     /* of a promotion, or "" */
};
/* The newest moves first, at most `limit` (1..ALIASES_HISTORY_PAGE_MAX). */
int aliases_history(struct store *s, const char *name, const char *alias, int64_t limit,
                    struct alias_move **ret, int64_t *ret_count, struct err *err);
void aliases_history_free(struct alias_move *moves, int64_t count);

/* What a caller expects of an alias before it is changed: the number of its last move, or: */
#define ALIAS_ANY (-1)   /* whatever it is, also none */
#define ALIAS_SOME (-2)  /* that it exists */
#define ALIAS_ABSENT (0) /* that it does not */
/* The alias is not what was expected; nothing has been changed. */
#define ALIAS_OTHER 1
/* It stands there already; nothing has been changed. */
#define ALIAS_STANDS 2

struct alias_change {
    const char *name, *alias;
    int64_t expected;
    const char *request; /* longer ones are cut; NULL: none */
};

/* Sets the alias to a version (from 1) of the model. 0 or ALIAS_STANDS, *ret is what it is now; or
 * ALIAS_OTHER. -ERR_NOT_FOUND: there is no such version.
 * -ERR_CONFLICT: the model has ALIASES_MAX aliases. */
int aliases_set(struct store *s, const struct alias_change *change, int64_t version, int64_t now_ms,
                struct alias_row *ret, struct err *err);
/* The version that a rollback would go to; -ERR_NOT_FOUND: there is no such alias. -ERR_CONFLICT:
 * nothing is known of an earlier version that is still there. */
int aliases_previous(struct store *s, const char *name, const char *alias, int64_t *ret_version,
                     struct err *err);
/* 0 or ALIAS_OTHER; errors as aliases_previous. */
int aliases_rollback(struct store *s, const struct alias_change *change, int64_t now_ms,
                     struct alias_row *ret, struct err *err);
/* 0 or ALIAS_OTHER; -ERR_NOT_FOUND. */
int aliases_delete(struct store *s, const struct alias_change *change, int64_t now_ms,
                   struct err *err);

/* A place among all histories, from the first on where it is zeroes. */
struct alias_place {
    char name[ALIASES_NAME_MAX + 1];
    char alias[ALIASES_NAME_MAX + 1];
};
/* Looks at the next `steps` histories, going round, and forgets those of aliases that were deleted
 * before that moment, a thousand moves at a time. *ret_count: of how many aliases. */
int aliases_sweep(struct store *s, struct alias_place *place, int steps, int64_t before_ms,
                  int64_t *ret_count, struct err *err);
