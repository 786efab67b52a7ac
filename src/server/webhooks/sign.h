/*
 * Signatures of webhooks as in Standard Webhooks (standardwebhooks.com): HMAC-SHA256 of
 * "<id>.<timestamp>.<body>" under a secret that receiver and operator share.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SIGN_SECRETS_MAX 4
#define SIGN_SECRET_BYTES 64

struct sign_secrets {
    int count;
    struct {
        uint8_t bytes[SIGN_SECRET_BYTES];
        size_t size;
    } secrets[SIGN_SECRETS_MAX];
};

/* A file with one secret a line, "whsec_" and 24 to 64 bytes in base64; every message is signed
 * with each, so that a secret can be replaced while receivers still know the old one. */
int sign_read(const char *path, struct sign_secrets *ret, struct err *err);

/* "v1,<base64>" for each secret, separated by blanks: mem_free it; NULL on lack of memory. */
char *sign_message(const struct sign_secrets *s, const char *id, int64_t timestamp_s,
                   const char *body);
