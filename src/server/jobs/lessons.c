#include "server/jobs/lessons.h"

#include <string.h>

#include "base/mem.h"
#include "server/app.h"
#include "store/experience.h"

_Static_assert(EXPERIENCE_KEPT == EXPERIENCE_RECORDS, "the store keeps what counts");

struct lessons {
    struct experience experience;
};

static void take(void *context, const char *record)
{
    struct experience_record r;
    cleanup_json struct json *j = NULL;
    if (json_parse(record, strlen(record), &j, NULL) == 0 && experience_record_read(j, &r)) {
        lessons_keep(context, &r);
    }
}

int lessons_new(struct app *app, struct lessons **ret, struct err *err)
{
    struct lessons *l = mem_zalloc(sizeof *l);
    if (!l) {
        return err_no_memory(err);
    }
    struct err why;
    if (experience_each(app->store, take, l, &why) < 0) {
        log_msg(&app->log, LOG_WARNING, "experience.not_read", "detail", why.detail, NULL);
    }
    *ret = l;
    return 0;
}

struct lessons *lessons_free(struct lessons *l)
{
    return mem_free(l);
}

void lessons_keep(struct lessons *l, const struct experience_record *r)
{
    if (l) {
        experience_add(&l->experience, r);
    }
}

const struct experience *lessons_experience(const struct lessons *l)
{
    return l ? &l->experience : NULL;
}

void lessons_correct(const struct lessons *l, const struct job_spec *spec, struct json *plan)
{
    if (l) {
        experience_correct(&l->experience, spec, plan);
    }
}

static bool make_record(const struct lessons_job *job, const struct job_spec *spec,
                        const struct json *done, struct experience_record *ret)
{
    cleanup_json struct json *plan = NULL;
    const char *reason = json_string(json_get(done, "reason"));
    return reason && json_parse(job->plan, strlen(job->plan), &plan, NULL) == 0 &&
           experience_record_make(spec, plan, json_get(done, "result"), reason_from_name(reason),
                                  job->device, ret);
}

char *lessons_draw(const struct lessons_job *job, const struct json *done,
                   struct experience_record *ret)
{
    cleanup_json struct json *document = NULL;
    struct job_spec *spec = NULL;
    if (!job->plan || json_parse(job->spec, strlen(job->spec), &document, NULL) < 0 ||
        job_spec_read(document, &spec, NULL) < 0) {
        return NULL;
    }
    const bool teaches = make_record(job, spec, done, ret);
    job_spec_free(spec);
    cleanup_json struct json *record = teaches ? experience_record_write(ret) : NULL;
    return record ? json_print(record) : NULL;
}
