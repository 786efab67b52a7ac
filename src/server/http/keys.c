#include "server/http/keys.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"

#define KEYS_FILE_MAX ((size_t)1 << 20)
#define KEYS_MAX 4096
#define KEY_BYTES 32

struct keys {
    struct key *list;
    int count;
};

static const struct {
    const char *name;
    enum key_scope scope;
} scope_names[] = {{"read", SCOPE_READ},
                   {"predict", SCOPE_PREDICT},
                   {"train", SCOPE_TRAIN},
                   {"admin", SCOPE_ADMIN}};

#define SCOPE_COUNT (sizeof scope_names / sizeof *scope_names)

static unsigned scope_of(const char *word, size_t len)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (strlen(scope_names[i].name) == len && memcmp(scope_names[i].name, word, len) == 0) {
            return scope_names[i].scope;
        }
    }
    return 0;
}

unsigned keys_scopes(const char *text)
{
    unsigned all = 0;
    for (;;) {
        const size_t len = strcspn(text, ",");
        const unsigned one = scope_of(text, len);
        if (one == 0) {
            return 0;
        }
        all |= one;
        if (text[len] == '\0') {
            return all;
        }
        text += len + 1;
    }
}

void keys_scopes_text(unsigned scopes, char ret[64])
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (scopes & scope_names[i].scope) {
            used += (size_t)snprintf(ret + used, 64 - used, "%s%s", used > 0 ? " or " : "",
                                     scope_names[i].name);
        }
    }
}

/* ---- the file ---- */

static bool name_valid(const char *name)
{
    const size_t len = strlen(name);
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c)) {
            return false;
        }
    }
    return len > 0 && len <= KEY_NAME_MAX;
}

static bool digest_valid(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static const struct key *find_name(const struct keys *k, const char *name)
{
    for (int i = 0; i < k->count; i++) {
        if (strcmp(k->list[i].name, name) == 0) {
            return &k->list[i];
        }
    }
    return NULL;
}

static int bad_line(int line, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "The file of API keys, line %d: %s", line, what);
}

/* One line without its end; written to. */
static int read_line(struct keys *k, char *text, int line, struct err *err)
{
    char *rest = NULL;
    const char *name = strtok_r(text, " \t\r", &rest);
    if (!name || name[0] == '#') {
        return 0;
    }
    const char *scopes = strtok_r(NULL, " \t\r", &rest);
    const char *digest = strtok_r(NULL, " \t\r", &rest);
    if (!digest || strtok_r(NULL, " \t\r", &rest)) {
        return bad_line(line, "expected NAME SCOPES sha256:DIGEST.", err);
    }
    if (!name_valid(name) || find_name(k, name)) {
        return bad_line(line,
                        "a name has 1 to 64 letters, digits, '.', '_' or '-', and is there "
                        "once.",
                        err);
    }
    if (keys_scopes(scopes) == 0) {
        return bad_line(line, "the scopes are of read, predict, train and admin, with commas.",
                        err);
    }
    if (strncmp(digest, "sha256:", 7) != 0 || !digest_valid(digest + 7)) {
        return bad_line(line, "the digest is sha256: and 64 digits of 0-9 and a-f.", err);
    }
    if (k->count == KEYS_MAX) {
        return bad_line(line, "there are too many keys.", err);
    }
    struct key *key = &k->list[k->count++];
    snprintf(key->name, sizeof key->name, "%s", name);
    snprintf(key->digest, sizeof key->digest, "%s", digest + 7);
    key->scopes = keys_scopes(scopes);
    return 0;
}

static int read_lines(struct keys *k, char *text, struct err *err)
{
    int r = 0;
    int line = 1;
    for (char *next; r == 0 && text; text = next, line++) {
        next = strchr(text, '\n');
        if (next) {
            *next++ = '\0';
        }
        r = read_line(k, text, line, err);
    }
    return r;
}

int keys_read(const char *path, struct keys **ret, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t size = 0;
    int r = file_read_all(path, KEYS_FILE_MAX, &text, &size, err);
    if (r < 0) {
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "There is no file of API keys.")
                                   : r;
    }
    struct keys *k = mem_zalloc(sizeof *k);
    if (!k || !(k->list = mem_zarray(KEYS_MAX, sizeof *k->list))) {
        keys_free(k);
        return err_no_memory(err);
    }
    r = read_lines(k, text, err);
    if (r == 0 && k->count == 0) {
        r = err_set(err, ERR_INVALID, "The file of API keys has no key.");
    }
    if (r < 0) {
        keys_free(k);
        return r;
    }
    *ret = k;
    return 0;
}

struct keys *keys_free(struct keys *k)
{
    if (k) {
        mem_free(k->list);
        mem_free(k);
    }
    return NULL;
}

/* ---- looking one up ---- */

/* No branch depends on what the digests hold. */
static bool same_digest(const char *a, const char *b)
{
    unsigned difference = 0;
    for (int i = 0; i < 64; i++) {
        difference |= (unsigned)(a[i] ^ b[i]);
    }
    return difference == 0;
}

const struct key *keys_find(const struct keys *k, const char *text)
{
    char digest[SHA256_HEX_SIZE];
    return sha256_text(text, strlen(text), digest) ? keys_find_digest(k, digest) : NULL;
}

const struct key *keys_find_digest(const struct keys *k, const char *digest)
{
    const struct key *found = NULL;
    if (!digest_valid(digest)) {
        return NULL;
    }
    for (int i = 0; i < k->count; i++) {
        found = same_digest(digest, k->list[i].digest) ? &k->list[i] : found;
    }
    return found;
}

/* ---- making one ---- */

static int make_text(char ret[KEY_TEXT_SIZE], struct err *err)
{
    unsigned char bytes[KEY_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return err_errno(err, "draw random bytes");
    }
    int used = snprintf(ret, KEY_TEXT_SIZE, "krrd_");
    for (size_t i = 0; i < sizeof bytes; i++) {
        used += snprintf(ret + used, KEY_TEXT_SIZE - (size_t)used, "%02x", bytes[i]);
    }
    return 0;
}

static int append(const char *path, const char *line, struct err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_errno(err, "open the file of API keys");
    }
    int r = file_write_all(fd, line, strlen(line), err);
    if (r == 0 && fsync(fd) != 0) {
        r = err_errno(err, "write the file of API keys");
    }
    close(fd);
    return r;
}

int keys_add(const char *path, const char *name, const char *scopes, char ret[KEY_TEXT_SIZE],
             struct err *err)
{
    struct keys *there = NULL;
    char text[KEY_TEXT_SIZE], digest[SHA256_HEX_SIZE], line[256];
    if (!name_valid(name)) {
        return err_set(err, ERR_INVALID,
                       "A key's name has 1 to %d letters, digits, '.', '_' or "
                       "'-'.",
                       KEY_NAME_MAX);
    }
    if (keys_scopes(scopes) == 0) {
        return err_set(err, ERR_INVALID,
                       "The scopes are of read, predict, train and admin, with commas; found "
                       "\"%s\".",
                       scopes);
    }
    int r = access(path, F_OK) == 0 ? keys_read(path, &there, err) : 0;
    if (r == 0 && there && find_name(there, name)) {
        r = err_set(err, ERR_CONFLICT, "There is a key called %s already.", name);
    }
    keys_free(there);
    r = r == 0 ? make_text(text, err) : r;
    if (r == 0 && !sha256_text(text, strlen(text), digest)) {
        r = err_no_memory(err);
    }
    if (r == 0) {
        snprintf(line, sizeof line, "%s %s sha256:%s\n", name, scopes, digest);
        r = append(path, line, err);
    }
    if (r == 0) {
        memcpy(ret, text, sizeof text);
    }
    return r;
}
