#include "base/sha256.h"

#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#undef sha256_update /* nettle's macro; its functions are called by their full names */

#include <string.h>

#include "base/mem.h"

struct sha256 {
    struct sha256_ctx ctx;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *h = mem_alloc(sizeof(*h));
    if (h != NULL) {
        nettle_sha256_init(&h->ctx);
    }
    return h;
}

void sha256_update(struct sha256 *h, const void *data, size_t len)
{
    nettle_sha256_update(&h->ctx, len, data);
}

void sha256_hex(struct sha256 *h, char ret[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];
    nettle_sha256_digest(&h->ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        ret[2 * i] = digits[digest[i] >> 4];
        ret[2 * i + 1] = digits[digest[i] & 15];
    }
    ret[2 * sizeof(digest)] = '\0';
}

struct sha256 *sha256_free(struct sha256 *h)
{
    return mem_free(h);
}

bool sha256_text(const void *data, size_t len, char ret[SHA256_HEX_SIZE])
{
    struct sha256 *h = sha256_new();
    if (h == NULL) {
        return false;
    }
    if (len > 0) {
        sha256_update(h, data, len);
    }
    sha256_hex(h, ret);
    sha256_free(h);
    return true;
}

void hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                 char ret[SHA256_BASE64_SIZE])
{
    struct hmac_sha256_ctx ctx;
    uint8_t digest[SHA256_DIGEST_SIZE];
    nettle_hmac_sha256_set_key(&ctx, key_size, key);
    nettle_hmac_sha256_update(&ctx, size, data);
    nettle_hmac_sha256_digest(&ctx, sizeof(digest), digest);
    nettle_base64_encode_raw(ret, sizeof(digest), digest);
    ret[SHA256_BASE64_SIZE - 1] = '\0';
}

bool base64_decode(const char *text, size_t len, void *ret, size_t *ret_size)
{
    struct base64_decode_ctx ctx;
    size_t size = *ret_size;
    if (BASE64_DECODE_LENGTH(len) > size + 2) { /* what is asked for at most, before the padding */
        return false;
    }
    cleanup_mem uint8_t *bytes = mem_alloc(BASE64_DECODE_LENGTH(len) + 1);
    nettle_base64_decode_init(&ctx);
    size_t decoded = BASE64_DECODE_LENGTH(len);
    if (bytes == NULL || !nettle_base64_decode_update(&ctx, &decoded, bytes, len, text) ||
        !nettle_base64_decode_final(&ctx) || decoded > size) {
        return false;
    }
    memcpy(ret, bytes, decoded);
    *ret_size = decoded;
    return true;
}
