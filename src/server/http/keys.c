#include "server/http/keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
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

/* The text is written to. */
static int parse(char *text, struct keys **ret, struct err *err)
{
    struct keys *k = mem_zalloc(sizeof *k);
    if (!k || !(k->list = mem_zarray(KEYS_MAX, sizeof *k->list))) {
        keys_free(k);
        return err_no_memory(err);
    }
    const int r = read_lines(k, text, err);
    if (r < 0) {
        keys_free(k);
        return r;
    }
    *ret = k;
    return 0;
}

int keys_read(const char *path, struct keys **ret, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t size = 0;
    struct keys *k = NULL;
    int r = file_read_all(path, KEYS_FILE_MAX, &text, &size, err);
    if (r < 0) {
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "There is no file of API keys.")
                                   : r;
    }
    r = parse(text, &k, err);
    if (r == 0 && k->count == 0) {
        keys_free(k);
        return err_set(err, ERR_INVALID, "The file of API keys has no key.");
    }
    *ret = r == 0 ? k : *ret;
    return r;
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

/* What an addition is made of. `fd` is the new file, which takes the other's place once it is
 * whole; it is there before the other is read, and so keeps out who would add at the same time. */
struct addition {
    char *path; /* of the file itself, not of a link to it */
    char *tmp_path;
    int fd;
    bool published; /* or tried: the next one's new file may stand there by now */
    struct buf text;
};

static void addition_deinit(struct addition *a)
{
    if (a->fd >= 0) {
        close(a->fd);
    }
    if (a->fd >= 0 && !a->published) {
        unlink(a->tmp_path);
    }
    mem_free(a->path);
    mem_free(a->tmp_path);
    buf_deinit(&a->text);
}

static int begin_addition(struct addition *a, const char *path, struct err *err)
{
    char real[PATH_MAX];
    cleanup_buf struct buf tmp = BUF_INIT;
    a->path = mem_strdup(realpath(path, real) != NULL ? real : path);
    buf_printf(&tmp, "%s.new", a->path ? a->path : "");
    a->tmp_path = buf_take(&tmp);
    if (!a->path || !a->tmp_path) {
        return err_no_memory(err);
    }
    a->fd = open(a->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (a->fd < 0 && errno == EEXIST) {
        return err_set(
            err, ERR_BUSY,
            "There is a file of API keys with \".new\" behind its name: another krrd key "
            "is at work, or one was cut off; then remove that file.");
    }
    return a->fd < 0 ? err_errno(err, "write the file of API keys") : 0;
}

static int own_as(int fd, const struct stat *old)
{
    struct stat now;
    if (fstat(fd, &now) != 0) {
        return -1;
    }
    const bool same = now.st_uid == old->st_uid && now.st_gid == old->st_gid;
    return same ? 0 : fchown(fd, old->st_uid, old->st_gid);
}

/* What is there, with its last line ended. The new file belongs to whom the old one does. */
static int take_old(struct addition *a, struct err *err)
{
    cleanup_mem char *text = NULL;
    size_t size = 0;
    struct stat old;
    const int r = file_read_all(a->path, KEYS_FILE_MAX, &text, &size, err);
    if (r < 0) {
        return r == -ERR_NOT_FOUND ? 0 : r;
    }
    if (stat(a->path, &old) != 0 || own_as(a->fd, &old) != 0 ||
        fchmod(a->fd, old.st_mode & 07777) != 0) {
        return err_errno(err, "keep the owner and the mode of the file of API keys");
    }
    buf_add(&a->text, text, size);
    if (size > 0 && text[size - 1] != '\n') {
        buf_char(&a->text, '\n');
    }
    return 0;
}

/* The keys of the text, read as the daemon reads them; there may be none. */
static int read_addition(const struct addition *a, struct keys **ret, struct err *err)
{
    if (!a->text.failed && a->text.len > KEYS_FILE_MAX) {
        return err_set(err, ERR_TOO_LARGE, "The file of API keys would be too large.");
    }
    cleanup_mem char *copy = a->text.failed ? NULL : mem_strndup(a->text.data, a->text.len);
    return copy ? parse(copy, ret, err) : err_no_memory(err);
}

static int check_name(const struct addition *a, const char *name, struct err *err)
{
    struct keys *there = NULL;
    if (a->text.len == 0 && !a->text.failed) {
        return 0;
    }
    int r = read_addition(a, &there, err);
    if (r == 0 && find_name(there, name)) {
        r = err_set(err, ERR_CONFLICT, "There is a key called %s already.", name);
    }
    keys_free(there);
    return r;
}

static int publish(struct addition *a, struct err *err)
{
    struct keys *all = NULL;
    int r = read_addition(a, &all, err);
    keys_free(all);
    r = r == 0 ? file_write_all(a->fd, a->text.data, a->text.len, err) : r;
    if (r < 0) {
        return r;
    }
    r = file_publish(a->fd, a->tmp_path, a->path, err);
    a->published = r == 0 || access(a->tmp_path, F_OK) != 0;
    return r;
}

/* The scope that a well-formed list names twice, or NULL. */
static const char *repeated_scope(const char *text)
{
    unsigned seen = 0;
    for (;; text++) {
        const size_t len = strcspn(text, ",");
        const unsigned one = scope_of(text, len);
        for (size_t i = 0; (seen & one) != 0 && i < SCOPE_COUNT; i++) {
            if (scope_names[i].scope == one) {
                return scope_names[i].name;
            }
        }
        seen |= one;
        text += len;
        if (*text == '\0') {
            return NULL;
        }
    }
}

static int check_words(const char *name, const char *scopes, struct err *err)
{
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
    const char *twice = repeated_scope(scopes);
    return twice ? err_set(err, ERR_INVALID, "The scopes name %s more than once.", twice) : 0;
}

int keys_add(const char *path, const char *name, const char *scopes, char ret[KEY_TEXT_SIZE],
             struct err *err)
{
    char text[KEY_TEXT_SIZE], digest[SHA256_HEX_SIZE];
    __attribute__((cleanup(addition_deinit))) struct addition a = {.fd = -1};
    int r = check_words(name, scopes, err);
    r = r == 0 ? begin_addition(&a, path, err) : r;
    r = r == 0 ? take_old(&a, err) : r;
    r = r == 0 ? check_name(&a, name, err) : r;
    r = r == 0 ? make_text(text, err) : r;
    if (r == 0 && !sha256_text(text, strlen(text), digest)) {
        r = err_no_memory(err);
    }
    if (r == 0) {
        buf_printf(&a.text, "%s %s sha256:%s\n", name, scopes, digest);
        r = publish(&a, err);
    }
    if (r == 0) {
        memcpy(ret, text, sizeof text);
    }
    return r;
}
