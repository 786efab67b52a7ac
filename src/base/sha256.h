/* SHA-256, HMAC with it, and base64 (nettle underneath). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX_SIZE 65

struct sha256; /* opaque */

struct sha256 *sha256_new(void); /* NULL on lack of memory */
void sha256_update(struct sha256 *h, const void *data, size_t len);
void sha256_hex(struct sha256 *h, char ret[SHA256_HEX_SIZE]); /* ends the digest */
struct sha256 *sha256_free(struct sha256 *h);

/* Of one piece of memory; false on lack of memory. */
bool sha256_text(const void *data, size_t len, char ret[SHA256_HEX_SIZE]);

/* HMAC-SHA256, in base64. */
#define SHA256_BASE64_SIZE 45
void hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                 char ret[SHA256_BASE64_SIZE]);

/* Base64 of whole quadruples into *ret_size bytes at most; *ret_size becomes their number. False
 * where it is none, or too long. */
bool base64_decode(const char *text, size_t len, void *ret, size_t *ret_size);
