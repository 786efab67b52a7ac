#include "server/credentials.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/http/http_tls.h"
#include "server/http/keys.h"

#define PEM_MAX ((size_t)1 << 20)

static int read_pem(const char *path, const char *flag, char **ret, struct err *err)
{
    size_t size;
    struct err why;
    const int r = file_read_all(path, PEM_MAX, ret, &size, &why);
    return r < 0 ? err_set(err, why.code, "--%s: %s", flag, why.detail) : 0;
}

int credentials_read_tls(const struct app *app, struct http_options *o, struct err *err)
{
    char *certificate = NULL, *key = NULL;
    if (app->config.tls_cert[0] == '\0') {
        return 0;
    }
    int r = read_pem(app->config.tls_cert, "tls-cert", &certificate, err);
    if (r == 0) {
        r = read_pem(app->config.tls_key, "tls-key", &key, err);
    }
    if (r == 0) {
        r = http_tls_check(certificate, key, err);
    }
    o->tls_certificate = certificate;
    o->tls_key = key;
    if (r < 0) {
        credentials_forget_tls(o);
    }
    return r;
}

void credentials_forget_tls(struct http_options *o)
{
    char *key = (char *)o->tls_key; /* ours, and const only for who is lent it */
    if (key) {
        explicit_bzero(key, strlen(key));
    }
    mem_free(key);
    mem_free((char *)o->tls_certificate);
    o->tls_certificate = o->tls_key = NULL;
}

int credentials_check_tls(const struct app *app, struct err *err)
{
    struct http_options o = {.tls_key = NULL};
    const int r = credentials_read_tls(app, &o, err);
    credentials_forget_tls(&o);
    return r;
}

int credentials_read_keys(struct app *app, struct err *err)
{
    const char *path = app->config.api_keys;
    struct keys *keys = NULL;
    struct err cause = {.code = ERR_OK};
    if (path[0] == '\0') {
        return 0;
    }
    if (keys_read(path, &keys, &cause) < 0) {
        return err_set(err, cause.code, "--api-keys %s: %s", path, cause.detail);
    }
    if (app->http) {
        http_set_keys(app->http, keys);
    }
    keys_free(app->keys);
    app->keys = keys;
    return 0;
}

void credentials_reload_keys(struct app *app)
{
    struct err err;
    if (app->config.api_keys[0] == '\0') {
        return;
    }
    if (credentials_read_keys(app, &err) < 0) {
        log_msg(&app->log, LOG_ERROR, "keys.not_read", "detail", err.detail, NULL);
    } else {
        log_msg(&app->log, LOG_INFO, "keys.read", NULL);
    }
}
