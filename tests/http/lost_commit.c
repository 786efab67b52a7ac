/*
 * Loses commits in which one job ends and the next is claimed, or, where KRRD_TEST_LOSE_PIECES is
 * set, those that hold pieces of a model and do not publish it: linked into a daemon of its own
 * with
 * --wrap=sqlite3_step, so that nothing of SQLite is asked for that commit and its caller is told of
 * a failure. KRRD_TEST_LOSE is how it fails, "io" or "full", and how often.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in sqlite3.h, which is of src/store/sql.c alone. */
struct sqlite3_stmt;
enum { SQLITE_IOERR = 10, SQLITE_FULL = 13 };
const char *sqlite3_sql(struct sqlite3_stmt *st);
int __real_sqlite3_step(struct sqlite3_stmt *st);
int __wrap_sqlite3_step(struct sqlite3_stmt *st);

static struct {
    bool read, ends, claims, pieces, publishes;
    int code, left;
} plan;

static void read_plan(void)
{
    const char *text = getenv("KRRD_TEST_LOSE");
    char how[8] = "";
    if (!plan.read && text != NULL && sscanf(text, "%7[a-z]:%d", how, &plan.left) == 2) {
        plan.code = strcmp(how, "full") == 0 ? SQLITE_FULL : SQLITE_IOERR;
    }
    plan.read = true;
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static void note(const char *text)
{
    if (begins_with(text, "BEGIN")) {
        plan.ends = plan.claims = plan.pieces = plan.publishes = false;
    }
    plan.ends |= begins_with(text, "UPDATE jobs SET status = ?2, reason = ?3, result = ?4");
    plan.claims |= begins_with(text, "UPDATE jobs SET status = 'running'");
    plan.pieces |= begins_with(text, "INSERT INTO model_chunks");
    plan.publishes |= begins_with(text, "UPDATE models SET version");
}

static bool unlucky(void)
{
    return getenv("KRRD_TEST_LOSE_PIECES") != NULL ? plan.pieces && !plan.publishes
                                                   : plan.ends && plan.claims;
}

int __wrap_sqlite3_step(struct sqlite3_stmt *st)
{
    const char *text = sqlite3_sql(st);
    read_plan();
    note(text);
    if (begins_with(text, "COMMIT") && unlucky() && plan.left > 0) {
        plan.left--;
        fputs("a commit was lost\n", stderr);
        return plan.code;
    }
    return __real_sqlite3_step(st);
}
