#include "store/migrations.h"

#include <stdbool.h>
#include <stdio.h>

/* "krrd" in ASCII; stands in the file's header beside user_version. */
#define APPLICATION_ID 1802662500

/*
 * jobs.last_event numbers a job's events without gaps. dataset_holds keeps a data set from being
 * deleted while an unfinished job needs it, whereas jobs.dataset is history and may name one that
 * is gone. models.version is NULL while a model is staged. model_names survives its models, so that
 * a version is never used twice. models.key, once committed, is never used twice either
 * (AUTOINCREMENT): workers know loaded models by it. That of a row that was rolled back is given
 * again.
 */
static const char version_1[] =
    "CREATE TABLE datasets ("
    "    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 31),"
    "    name TEXT NOT NULL,"
    "    info TEXT NOT NULL,"
    "    rows INTEGER NOT NULL CHECK (rows >= 1),"
    "    columns INTEGER NOT NULL CHECK (columns >= 1),"
    "    bytes INTEGER NOT NULL CHECK (bytes >= 0),"
    "    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),"
    "    created_ms INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE jobs ("
    "    key INTEGER PRIMARY KEY,"
    "    id TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 31),"
    "    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'paused', 'cancelling',"
    "                                           'succeeded', 'failed', 'cancelled')),"
    "    reason TEXT,"
    "    model TEXT NOT NULL CHECK (length(model) >= 1),"
    "    model_version INTEGER CHECK (model_version >= 1),"
    "    dataset TEXT NOT NULL,"
    "    test_dataset TEXT,"
    "    spec TEXT NOT NULL,"
    "    progress TEXT,"
    "    result TEXT,"
    "    error TEXT,"
    "    worker TEXT,"
    "    device TEXT,"
    "    priority INTEGER NOT NULL,"
    "    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND max_attempts),"
    "    max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),"
    "    created_ms INTEGER NOT NULL,"
    "    queued_ms INTEGER NOT NULL,"
    "    started_ms INTEGER,"
    "    finished_ms INTEGER,"
    "    last_event INTEGER NOT NULL DEFAULT 0 CHECK (last_event >= 0),"
    "    CHECK ((finished_ms IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),"
    "    CHECK (status NOT IN ('running', 'cancelling')"
    "           OR (worker IS NOT NULL AND started_ms IS NOT NULL AND attempt >= 1))"
    ") STRICT;"
    "CREATE INDEX jobs_queue ON jobs (priority DESC, key) WHERE status = 'queued';"
    "CREATE INDEX jobs_by_status ON jobs (status, id);"
    "CREATE INDEX jobs_by_model ON jobs (model, id);"

    "CREATE TABLE dataset_holds ("
    "    job INTEGER NOT NULL REFERENCES jobs (key) ON DELETE CASCADE,"
    "    dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE RESTRICT,"
    "    PRIMARY KEY (job, dataset)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX dataset_holds_by_dataset ON dataset_holds (dataset);"

    "CREATE TABLE events ("
    "    job INTEGER NOT NULL REFERENCES jobs (key) ON DELETE CASCADE,"
    "    id INTEGER NOT NULL CHECK (id >= 1),"
    "    created_ms INTEGER NOT NULL,"
    "    level TEXT NOT NULL CHECK (level IN ('info', 'warning', 'error')),"
    "    type TEXT NOT NULL CHECK (type IN ('status', 'metrics', 'message')),"
    "    message TEXT NOT NULL,"
    "    data TEXT,"
    "    PRIMARY KEY (job, id)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE model_names ("
    "    name TEXT NOT NULL PRIMARY KEY,"
    "    next_version INTEGER NOT NULL CHECK (next_version >= 1)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE models ("
    "    key INTEGER PRIMARY KEY AUTOINCREMENT,"
    "    name TEXT NOT NULL,"
    "    version INTEGER CHECK (version >= 1),"
    "    job TEXT NOT NULL,"
    "    dataset TEXT NOT NULL,"
    "    description TEXT,"
    "    sha256 TEXT CHECK (length(sha256) = 64),"
    "    bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),"
    "    chunks INTEGER NOT NULL DEFAULT 0 CHECK (chunks >= 0),"
    "    created_ms INTEGER,"
    "    UNIQUE (name, version),"
    "    CHECK ((sha256 IS NULL) = (description IS NULL)),"
    "    CHECK (version IS NULL OR (sha256 IS NOT NULL AND created_ms IS NOT NULL))"
    ") STRICT;"
    "CREATE INDEX models_staged ON models (job) WHERE version IS NULL;"

    "CREATE TABLE model_chunks ("
    "    model INTEGER NOT NULL REFERENCES models (key) ON DELETE CASCADE,"
    "    number INTEGER NOT NULL CHECK (number >= 0),"
    "    data BLOB NOT NULL CHECK (length(data) BETWEEN 1 AND 8388608),"
    "    UNIQUE (model, number)"
    ") STRICT;";

static const char version_2[] = "ALTER TABLE jobs ADD COLUMN centers_dataset TEXT;";

static const char version_3[] =
    "CREATE TABLE idempotency_keys ("
    "    operation TEXT NOT NULL CHECK (length(operation) BETWEEN 1 AND 15),"
    "    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 255),"
    "    request TEXT NOT NULL CHECK (length(request) = 64),"
    "    status INTEGER NOT NULL,"
    "    location TEXT NOT NULL,"
    "    body TEXT NOT NULL,"
    "    created_ms INTEGER NOT NULL,"
    "    PRIMARY KEY (operation, key)"
    ") STRICT;"
    "CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_ms);";

/* A copy of what the specifications hold, to find jobs by. By id, which is what lists go along. */
static const char version_4[] =
    "CREATE TABLE job_metadata ("
    "    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,"
    "    name TEXT NOT NULL,"
    "    value TEXT NOT NULL,"
    "    PRIMARY KEY (job, name)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX job_metadata_by_value ON job_metadata (name, value, job);"
    "INSERT INTO job_metadata (job, name, value)"
    "    SELECT jobs.id, pair.key, pair.value"
    "    FROM jobs, json_each(iif(json_valid(spec), spec, '{}'), '$.metadata') AS pair;";

/* Of finished jobs old events may be removed: first_event is the first that is left. The indexes
 * find the jobs that still have some to remove, by age and by number. */
static const char version_5[] =
    "ALTER TABLE jobs ADD COLUMN first_event INTEGER NOT NULL DEFAULT 1 CHECK (first_event >= 1);"
    "CREATE INDEX jobs_events_by_age ON jobs (finished_ms)"
    "    WHERE finished_ms IS NOT NULL AND first_event < last_event;"
    "CREATE INDEX jobs_events_by_number ON jobs (last_event - first_event)"
    "    WHERE finished_ms IS NOT NULL AND first_event < last_event;";

static const char version_6[] = "ALTER TABLE jobs ADD COLUMN next_attempt_ms INTEGER;";

/* model_aliases.moves is the number of the last move, stands that of the move which put the alias
 * where it is: the same, unless it was rolled back since. Before a move stood alias_moves.before.
 * Moves outlive their alias and name versions by number, which may be gone. */
static const char version_7[] =
    "CREATE TABLE model_aliases ("
    "    name TEXT NOT NULL,"
    "    alias TEXT NOT NULL CHECK (length(alias) BETWEEN 1 AND 64),"
    "    model INTEGER NOT NULL REFERENCES models (key) ON DELETE RESTRICT,"
    "    moves INTEGER NOT NULL CHECK (moves >= 1),"
    "    stands INTEGER NOT NULL CHECK (stands BETWEEN 1 AND moves),"
    "    PRIMARY KEY (name, alias)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX model_aliases_by_model ON model_aliases (model);"
    "CREATE TABLE alias_moves ("
    "    name TEXT NOT NULL,"
    "    alias TEXT NOT NULL,"
    "    number INTEGER NOT NULL CHECK (number >= 1),"
    "    kind TEXT NOT NULL CHECK (kind IN ('set', 'rollback', 'promotion', 'delete')),"
    "    from_version INTEGER CHECK (from_version >= 1),"
    "    to_version INTEGER CHECK (to_version >= 1),"
    "    before INTEGER CHECK (before < number),"
    "    moved_ms INTEGER NOT NULL,"
    "    request TEXT NOT NULL,"
    "    job TEXT,"
    "    PRIMARY KEY (name, alias, number)"
    ") STRICT, WITHOUT ROWID;";

/* What became of the promotion that the job asked for. */
static const char version_8[] = "ALTER TABLE jobs ADD COLUMN promotion TEXT;";

/* A sample of the job's test rows, as JSON; apart from the jobs, whose rows are read often. */
static const char version_9[] =
    "CREATE TABLE job_test_predictions ("
    "    job INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (key) ON DELETE CASCADE,"
    "    data TEXT NOT NULL"
    ") STRICT;";

/* Lists of a model's jobs of some status go along it, however rare the status is. */
static const char version_10[] = "DROP INDEX jobs_by_model;"
                                 "CREATE INDEX jobs_by_model ON jobs (model, status, id);";

/* Models that are loaded whenever the daemon runs. */
static const char version_11[] =
    "ALTER TABLE models ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));"
    "CREATE INDEX models_pinned ON models (key) WHERE pinned = 1;";

/* What a job was predicted to take when it came in. */
static const char version_12[] = "ALTER TABLE jobs ADD COLUMN plan TEXT;";

/* next_ms is that of the next attempt, while there is to be one. */
static const char version_13[] =
    "CREATE TABLE webhooks ("
    "    id TEXT NOT NULL PRIMARY KEY,"
    "    job TEXT NOT NULL UNIQUE REFERENCES jobs (id) ON DELETE CASCADE,"
    "    url TEXT NOT NULL,"
    "    body TEXT NOT NULL,"
    "    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'given_up')),"
    "    attempts INTEGER NOT NULL DEFAULT 0,"
    "    created_ms INTEGER NOT NULL,"
    "    next_ms INTEGER,"
    "    finished_ms INTEGER,"
    "    last_status INTEGER,"
    "    last_error TEXT,"
    "    CHECK ((state = 'pending') = (next_ms IS NOT NULL)),"
    "    CHECK ((state = 'pending') = (finished_ms IS NULL))"
    ") STRICT;"
    "CREATE INDEX webhooks_pending ON webhooks (next_ms) WHERE state = 'pending';";

/* An answer belongs to the API key that asked; those from before are anybody's until they expire.
 */
static const char version_14[] =
    "ALTER TABLE idempotency_keys RENAME TO idempotency_keys_before;"
    "DROP INDEX idempotency_keys_by_age;"
    "CREATE TABLE idempotency_keys ("
    "    operation TEXT NOT NULL CHECK (length(operation) BETWEEN 1 AND 15),"
    "    owner TEXT NOT NULL CHECK (length(owner) <= 64),"
    "    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 255),"
    "    request TEXT NOT NULL CHECK (length(request) = 64),"
    "    status INTEGER NOT NULL,"
    "    location TEXT NOT NULL,"
    "    body TEXT NOT NULL,"
    "    created_ms INTEGER NOT NULL,"
    "    PRIMARY KEY (operation, key, owner)"
    ") STRICT;"
    "INSERT INTO idempotency_keys "
    "    (operation, owner, key, request, status, location, body, created_ms)"
    "    SELECT operation, '*', key, request, status, location, body, created_ms"
    "    FROM idempotency_keys_before;"
    "DROP TABLE idempotency_keys_before;"
    "CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_ms);";

/* How the body was read, as a digest; '' of those from before, which nobody can tell. */
static const char version_15[] = "ALTER TABLE datasets ADD COLUMN recipe TEXT NOT NULL DEFAULT '';"
                                 "CREATE INDEX datasets_digest ON datasets (sha256, recipe);";

/* What claims go by, copied from the specification and the plan: the device that the job asks for
 * and what it takes of the host's memory. Plans of before say what kept kernel values take among
 * their parts alone. */
static const char version_16[] =
    "ALTER TABLE jobs ADD COLUMN wanted_device TEXT NOT NULL DEFAULT 'auto'"
    "    CHECK (length(wanted_device) BETWEEN 1 AND 15);"
    "ALTER TABLE jobs ADD COLUMN host_bytes INTEGER NOT NULL DEFAULT 0 CHECK (host_bytes >= 0);"
    "UPDATE jobs SET wanted_device = json_extract(spec, '$.device')"
    "    WHERE iif(json_valid(spec), json_type(spec, '$.device') = 'text'"
    "        AND length(json_extract(spec, '$.device')) BETWEEN 1 AND 15"
    "        AND json_extract(spec, '$.device') NOT GLOB '*[^a-z0-9:,]*', 0);"
    "UPDATE jobs SET plan = json_set(plan, '$.kernel_cache_bytes',"
    "        CAST(coalesce(json_extract(plan, '$.memory.parts.kernel_cache'), 0) AS INTEGER))"
    "    WHERE iif(json_valid(plan), json_type(plan, '$.memory') = 'object'"
    "        AND json_type(plan, '$.kernel_cache_bytes') IS NULL, 0);"
    "UPDATE jobs SET host_bytes = max(0, CAST(coalesce(json_extract(plan,"
    "        iif(json_extract(plan, '$.memory.device_bytes') > 0, '$.memory.host_bytes',"
    "            '$.memory.reserved_bytes')), 0) AS INTEGER))"
    "    WHERE iif(json_valid(plan), json_type(plan, '$.memory') = 'object', 0);"
    "DROP INDEX jobs_queue;"
    "CREATE INDEX jobs_queue ON jobs (priority DESC, key, wanted_device) WHERE status = 'queued';"
    "CREATE INDEX jobs_claims ON jobs"
    "    (wanted_device, priority DESC, key, host_bytes, next_attempt_ms)"
    "    WHERE status = 'queued';"
    "CREATE INDEX jobs_retries ON jobs (next_attempt_ms)"
    "    WHERE status = 'queued' AND next_attempt_ms IS NOT NULL;";

/* How a model's predictions are batched and bounded; -1: by the daemon's settings. */
static const char version_17[] =
    "CREATE TABLE model_limits ("
    "    name TEXT NOT NULL PRIMARY KEY,"
    "    batch_rows INTEGER NOT NULL,"
    "    batch_delay_us INTEGER NOT NULL,"
    "    queue INTEGER NOT NULL,"
    "    deadline_us INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TRIGGER model_limits_end AFTER DELETE ON models "
    "WHEN NOT EXISTS (SELECT 1 FROM models WHERE name = OLD.name AND version IS NOT NULL) BEGIN"
    "    DELETE FROM model_limits WHERE name = OLD.name;"
    "END;";

/* What finished jobs taught of the seconds of plans. */
static const char version_18[] =
    "CREATE TABLE plan_experience ("
    "    key INTEGER PRIMARY KEY,"
    "    record TEXT NOT NULL CHECK (length(record) BETWEEN 2 AND 4096)"
    ") STRICT;";

/* How many queued jobs of each 256 keys ask for a device (job_queue.c). */
static const char version_19[] =
    "CREATE TABLE queue_blocks ("
    "    priority INTEGER NOT NULL,"
    "    block INTEGER NOT NULL,"
    "    wanted_device TEXT NOT NULL,"
    "    jobs INTEGER NOT NULL,"
    "    PRIMARY KEY (priority, block, wanted_device)"
    ") STRICT, WITHOUT ROWID;"
    "INSERT INTO queue_blocks (priority, block, wanted_device, jobs)"
    "    SELECT priority, key >> 8, wanted_device, count(*) FROM jobs WHERE status = 'queued'"
    "    GROUP BY priority, key >> 8, wanted_device;"
    "CREATE TRIGGER queue_blocks_insert AFTER INSERT ON jobs WHEN NEW.status = 'queued' BEGIN"
    "    INSERT INTO queue_blocks (priority, block, wanted_device, jobs)"
    "        VALUES (NEW.priority, NEW.key >> 8, NEW.wanted_device, 1)"
    "        ON CONFLICT DO UPDATE SET jobs = jobs + 1;"
    "END;"
    "CREATE TRIGGER queue_blocks_leave AFTER UPDATE OF status, priority, wanted_device ON jobs "
    "WHEN OLD.status = 'queued' BEGIN"
    "    UPDATE queue_blocks SET jobs = jobs - 1 WHERE priority = OLD.priority"
    "        AND block = OLD.key >> 8 AND wanted_device = OLD.wanted_device;"
    "    DELETE FROM queue_blocks WHERE priority = OLD.priority"
    "        AND block = OLD.key >> 8 AND wanted_device = OLD.wanted_device AND jobs <= 0;"
    "END;"
    "CREATE TRIGGER queue_blocks_enter AFTER UPDATE OF status, priority, wanted_device ON jobs "
    "WHEN NEW.status = 'queued' BEGIN"
    "    INSERT INTO queue_blocks (priority, block, wanted_device, jobs)"
    "        VALUES (NEW.priority, NEW.key >> 8, NEW.wanted_device, 1)"
    "        ON CONFLICT DO UPDATE SET jobs = jobs + 1;"
    "END;"
    "CREATE TRIGGER queue_blocks_delete AFTER DELETE ON jobs WHEN OLD.status = 'queued' BEGIN"
    "    UPDATE queue_blocks SET jobs = jobs - 1 WHERE priority = OLD.priority"
    "        AND block = OLD.key >> 8 AND wanted_device = OLD.wanted_device;"
    "    DELETE FROM queue_blocks WHERE priority = OLD.priority"
    "        AND block = OLD.key >> 8 AND wanted_device = OLD.wanted_device AND jobs <= 0;"
    "END;";

/* Which losses of workers cost attempts (jobs.h, struct job_loss). An attempt that was put aside,
 * or still runs, is not spent. */
static const char version_20[] =
    "ALTER TABLE jobs ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN spared INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN checkpoint TEXT;"
    "UPDATE jobs SET spent = iif(attempt > 0 AND (status IN ('running', 'cancelling')"
    "    OR coalesce(reason, '') IN ('paused', 'daemon_stopped')), attempt - 1, attempt);";

/* What model_holds keeps from being deleted: the models that unfinished jobs begin with. */
static const char version_21[] =
    "CREATE TABLE model_holds ("
    "    job INTEGER NOT NULL PRIMARY KEY REFERENCES jobs (key) ON DELETE CASCADE,"
    "    model INTEGER NOT NULL REFERENCES models (key) ON DELETE RESTRICT"
    ") STRICT;"
    "CREATE INDEX model_holds_by_model ON model_holds (model);"
    "INSERT INTO model_holds (job, model)"
    "    SELECT jobs.key, models.key FROM jobs JOIN models"
    "    ON models.name = json_extract(iif(json_valid(jobs.spec), jobs.spec, '{}'),"
    "                                  '$.warm_start.model')"
    "    AND models.version = json_extract(iif(json_valid(jobs.spec), jobs.spec, '{}'),"
    "                                      '$.warm_start.version')"
    "    WHERE jobs.status IN ('queued', 'running', 'paused', 'cancelling');";

/* What lists show of a data set, apart from the names of its columns, which may be many. Data sets
 * from before have none. */
static const char version_22[] = "ALTER TABLE datasets ADD COLUMN summary TEXT;";

/* Scheme, host and port of a message's address, for a fair share of those who wait. */
static const char version_23[] =
    "ALTER TABLE webhooks ADD COLUMN receiver TEXT NOT NULL GENERATED ALWAYS AS (lower(substr("
    "    url, 1, instr(url, '://') + 1 + instr(replace(replace(substr(url, instr(url, '://') + 3),"
    "    '?', '/'), '#', '/') || '/', '/')))) VIRTUAL;"
    "DROP INDEX webhooks_pending;"
    "CREATE INDEX webhooks_pending ON webhooks (next_ms, receiver, attempts, id)"
    "    WHERE state = 'pending';";

static int read_pragma(struct sql *db, const char *text, int64_t *ret, struct err *err)
{
    const int rc = sql_number(db, text, SQL_NO_ARGS, ret, err);
    return rc < 0 ? rc : 0;
}

int migrations_version(struct sql *db, int *ret, struct err *err)
{
    int64_t version = 0, application = 0, objects = 0;
    int rc = read_pragma(db, "PRAGMA user_version", &version, err);
    if (rc == 0) {
        rc = read_pragma(db, "PRAGMA application_id", &application, err);
    }
    if (rc == 0) {
        rc = read_pragma(db, "SELECT count(*) FROM sqlite_schema", &objects, err);
    }
    if (rc < 0) {
        return rc;
    }
    const bool empty = version == 0 && application == 0 && objects == 0;
    if (!empty && (application != APPLICATION_ID || version < 1)) {
        return err_set(err, ERR_UNSUPPORTED, "The database belongs to another program.");
    }
    *ret = (int)version;
    return 0;
}

static int apply(struct sql *db, const char *text, int version, struct err *err)
{
    const int rc = sql_script(db, text, err);
    if (rc < 0) {
        return rc;
    }
    char stamp[96];
    snprintf(stamp, sizeof(stamp), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             APPLICATION_ID, version);
    return sql_script(db, stamp, err);
}

int migrations_check(int version, const struct migrations *list, struct err *err)
{
    if (version <= list->count) {
        return 0;
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "The database was written by a newer version of this program (schema %d; this "
                   "one knows %d).",
                   version, list->count);
}

int migrations_run(struct sql *db, const struct migrations *list, struct err *err)
{
    int version;
    int rc = migrations_version(db, &version, err);
    if (rc == 0) {
        rc = migrations_check(version, list, err);
    }
    if (rc < 0) {
        return rc;
    }
    while (version < list->count) {
        rc = sql_begin(db, err);
        if (rc < 0) {
            return rc;
        }
        rc = sql_end(db, apply(db, list->texts[version], version + 1, err), err);
        if (rc < 0) {
            return rc;
        }
        version++;
    }
    return 0;
}

static const char *const texts[] = {
    version_1,  version_2,  version_3,  version_4,  version_5,  version_6,  version_7,  version_8,
    version_9,  version_10, version_11, version_12, version_13, version_14, version_15, version_16,
    version_17, version_18, version_19, version_20, version_21, version_22, version_23};

const struct migrations migrations = {
    .texts = texts,
    .count = sizeof(texts) / sizeof(texts[0]),
};
