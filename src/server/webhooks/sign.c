#include "server/webhooks/sign.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"

enum { FILE_MAX = 4096, SECRET_LEAST = 24 };

static int read_line(const char *line, size_t len, struct sign_secrets *to, struct err *err)
{
    static const char prefix[] = "whsec_";
    const size_t skip = sizeof prefix - 1;
    size_t size = SIGN_SECRET_BYTES;
    if (to->count == SIGN_SECRETS_MAX || len <= skip || strncmp(line, prefix, skip) != 0 ||
        !base64_decode(line + skip, len - skip, to->secrets[to->count].bytes, &size) ||
        size < SECRET_LEAST) {
        return err_set(err, ERR_INVALID,
                       "--webhook-secret-file: expected up to %d lines, each whsec_ and %d to %d "
                       "bytes in base64.",
                       SIGN_SECRETS_MAX, SECRET_LEAST, SIGN_SECRET_BYTES);
    }
    to->secrets[to->count++].size = size;
    return 0;
}

int sign_read(const char *path, struct sign_secrets *ret, struct err *err)
{
    struct err why;
    cleanup_mem char *text = NULL;
    size_t len = 0;
    int r = file_read_all(path, FILE_MAX, &text, &len, &why);
    if (r < 0) {
        return err_set(err, why.code, "--webhook-secret-file: %s", why.detail);
    }
    *ret = (struct sign_secrets){.count = 0};
    for (const char *at = text; r == 0 && *at != '\0';) {
        const size_t n = strcspn(at, "\r\n");
        r = n > 0 ? read_line(at, n, ret, err) : 0;
        at += n + (at[n] != '\0');
    }
    return r == 0 && ret->count == 0 ? read_line("", 0, ret, err) : r;
}

char *sign_message(const struct sign_secrets *s, const char *id, int64_t timestamp_s,
                   const char *body)
{
    cleanup_buf struct buf message = BUF_INIT;
    cleanup_buf struct buf all = BUF_INIT;
    buf_printf(&message, "%s.%lld.", id, (long long)timestamp_s);
    buf_str(&message, body);
    for (int i = 0; i < s->count && !message.failed; i++) {
        char signature[SHA256_BASE64_SIZE];
        hmac_sha256(s->secrets[i].bytes, s->secrets[i].size, message.data, message.len, signature);
        buf_printf(&all, "%sv1,%s", i > 0 ? " " : "", signature);
    }
    return message.failed ? NULL : buf_take(&all);
}
