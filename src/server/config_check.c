#include "server/config_check.h"

#include <string.h>

#include "server/http/http_listen.h"
#include "wire/spec.h"

static const char host_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";

/* "https://a.example:8443", as browsers send it: a slash behind it would fit no origin. "null" is
 * that of pages from files. */
static bool is_origin(const char *text, size_t len)
{
    if (len == 4 && memcmp(text, "null", 4) == 0) {
        return true;
    }
    const char *host = memmem(text, len, "://", 3);
    if (host == NULL || host == text) {
        return false;
    }
    host += 3;
    const size_t rest = len - (size_t)(host - text);
    return rest > 0 && memchr(host, '/', rest) == NULL && memchr(host, '?', rest) == NULL &&
           memchr(host, '#', rest) == NULL;
}

/* A name or ".suffix", without a port; an address may be in brackets. */
static bool is_host(const char *text, size_t len)
{
    const bool address = len > 2 && text[0] == '[' && text[len - 1] == ']';
    return address || strspn(text, host_characters) >= len;
}

/* Every item of a list with commas or blanks between is `fits`, or "*". */
static int check_list(const char *list, const char *flag, const char *expected,
                      bool (*fits)(const char *text, size_t len), struct err *err)
{
    while (*list != '\0') {
        const size_t len = strcspn(list, ", ");
        const bool any = len == 1 && *list == '*';
        if (len > 0 && !any && !fits(list, len)) {
            return err_set(err, ERR_INVALID, "--%s: expected %s; found \"%.*s\".", flag, expected,
                           (int)(len < 200 ? len : 200), list);
        }
        list += len + strspn(list + len, ", ");
    }
    return 0;
}

static int check_names(const struct config *c, struct err *err)
{
    int rc = check_list(c->cors_origin, "cors-origin",
                        "origins such as https://a.example, without a slash behind, or *",
                        is_origin, err);
    rc = rc == 0 ? check_list(c->allowed_hosts, "allowed-hosts",
                              "names such as krrd.example or .lab.example, without a port, or *",
                              is_host, err)
                 : rc;
    if (rc == 0 && c->default_model[0] != '\0' && !spec_name_valid(c->default_model)) {
        return err_set(err, ERR_INVALID, "--default-model: \"%.100s\" is no name of a model.",
                       c->default_model);
    }
    return rc;
}

int config_check(const struct config *c, struct err *err)
{
    if (!c->insecure && c->api_keys[0] == '\0' && !http_address_is_loopback(c->listen_address)) {
        return err_set(err, ERR_INVALID,
                       "--listen %s: anybody who reaches that address could use the server; name "
                       "a file of keys with --api-keys, listen on 127.0.0.1, or allow it with "
                       "--insecure.",
                       c->listen_address);
    }
    if ((c->tls_cert[0] == '\0') != (c->tls_key[0] == '\0')) {
        return err_set(err, ERR_INVALID, "--tls-cert and --tls-key go together.");
    }
    if (c->webhooks && c->webhook_secret_file[0] == '\0') {
        return err_set(err, ERR_INVALID, "--webhooks needs --webhook-secret-file.");
    }
    if (c->data_dir[0] == '\0') {
        return err_set(err, ERR_INVALID, "--data-dir is empty.");
    }
    return check_names(c, err);
}
