/*
 * API keys. A file has a line for each: its name, its scopes, and the SHA-256 of the key, so that
 * who reads the file can use none of them:
 *
 *     # comments and empty lines are passed over
 *     dashboard  read            sha256:9f86d0…
 *     ci         read,train      sha256:60303a…
 *
 * A key is 256 random bits in hexadecimal behind "krrd_", so one round of SHA-256 is enough: there
 * is no short list of likely keys to try.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* What a key may do. Admin may do all, and train may read, or nobody could watch his own job. */
enum key_scope {
    SCOPE_READ = 1,    /* look at everything */
    SCOPE_PREDICT = 2, /* predict, and look at models as far as that needs */
    SCOPE_TRAIN = 4,   /* data sets and jobs */
    SCOPE_ADMIN = 8    /* models: load, alias, import, delete */
};

#define KEY_NAME_MAX 64
#define KEY_TEXT_SIZE (5 + 64 + 1) /* "krrd_" and 64 hexadecimal digits */

struct key {
    char name[KEY_NAME_MAX + 1];
    unsigned scopes;
    char digest[65]; /* of the key, lower case hexadecimal */
};

struct keys;

/* -ERR_INVALID names the line; a file without any key is refused as well. */
int keys_read(const char *path, struct keys **ret, struct err *err);
struct keys *keys_free(struct keys *k);

/* The key whose text this is, or NULL. Takes as long for each key of the file, and whatever of the
 * text fits. */
const struct key *keys_find(const struct keys *k, const char *text);

/* The key with that digest (struct key), or NULL. */
const struct key *keys_find_digest(const struct keys *k, const char *digest);

/* "read,train" -> SCOPE_READ | SCOPE_TRAIN; 0 where it is malformed. */
unsigned keys_scopes(const char *text);
/* "read or train" for people. */
void keys_scopes_text(unsigned scopes, char ret[64]);

/* Makes a key, adds its line to the file (made with mode 0600 where there is none; one without any
 * key is fine), and gives its text, which nobody can have again. The file is replaced as a whole,
 * by one that keys_read takes; -ERR_BUSY where somebody else does so. */
int keys_add(const char *path, const char *name, const char *scopes, char ret[KEY_TEXT_SIZE],
             struct err *err);
