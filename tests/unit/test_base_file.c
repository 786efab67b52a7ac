#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/assert.h"

/* A directory of its own for each test, and the working directory meanwhile. */
struct fixture {
    char dir[64];
    int old_dir;
};

static int setup(void **state)
{
    struct fixture *f = mem_zalloc(sizeof(*f));
    *state = f;
    if (f == NULL) {
        return -1;
    }
    snprintf(f->dir, sizeof(f->dir), "/tmp/krrd-test-file-XXXXXX");
    f->old_dir = open(".", O_RDONLY | O_DIRECTORY);
    return f->old_dir >= 0 && mkdtemp(f->dir) != NULL && chdir(f->dir) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    const int rc = fchdir(f->old_dir) + system(command);
    close(f->old_dir);
    mem_free(f);
    return rc;
}

static void put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
    close(fd);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void test_read_all(void **state)
{
    (void)state;
    struct err err;
    char *text = NULL;
    size_t len = 0;
    put("a", "hello");
    assert_int_equal(file_read_all("a", 5, &text, &len, &err), 0);
    assert_int_equal(len, 5);
    assert_string_equal(text, "hello");
    text = mem_free(text);
    assert_int_equal(file_read_all("a", SIZE_MAX, &text, &len, &err), 0);
    assert_int_equal(len, 5);
    text = mem_free(text);
    put("empty", "");
    assert_int_equal(file_read_all("empty", 0, &text, &len, &err), 0);
    assert_int_equal(len, 0);
    assert_string_equal(text, "");
    text = mem_free(text);

    len = 77;
    assert_int_equal(file_read_all("a", 4, &text, &len, &err), -ERR_TOO_LARGE);
    assert_contains(err.detail, "more than 4 bytes");
    assert_int_equal(file_read_all("a", 0, &text, &len, &err), -ERR_TOO_LARGE);
    assert_int_equal(file_read_all("absent", 9, &text, &len, &err), -ERR_NOT_FOUND);
    assert_null(strstr(err.detail, "absent"));
    assert_int_equal(file_read_all(".", 9, &text, &len, &err), -ERR_IO);
    assert_null(text);
    assert_int_equal(len, 77);
}

static void test_read_large(void **state)
{
    (void)state;
    const size_t size = 300001; /* several chunks and a bit */
    cleanup_mem char *data = mem_alloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        data[i] = (char)('a' + i % 23);
    }
    data[size] = '\0';
    put("large", data);
    cleanup_mem char *text = NULL;
    size_t len = 0;
    assert_int_equal(file_read_all("large", size, &text, &len, NULL), 0);
    assert_int_equal(len, size);
    assert_memory_equal(text, data, size + 1);
    cleanup_mem char *none = NULL;
    assert_int_equal(file_read_all("large", size - 1, &none, &len, NULL), -ERR_TOO_LARGE);
    for (int64_t n = 1; n <= 3; n++) {
        mem_fail_nth(n);
        assert_int_equal(file_read_all("large", size, &none, &len, NULL), -ERR_NO_MEMORY);
    }
    assert_null(none);
}

static void test_write_failures(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(file_write_all(-1, "x", 1, &err), -ERR_IO);
    assert_string_equal(err.detail, "Could not write: Bad file descriptor.");
    const int full = open("/dev/full", O_WRONLY);
    assert_true(full >= 0);
    assert_int_equal(file_write_all(full, "x", 1, &err), -ERR_DISK_FULL);
    assert_contains(err.detail, "No space left");
    assert_int_equal(file_write_all(full, "", 0, &err), 0);
    close(full);
}

static void test_make_dirs(void **state)
{
    struct fixture *f = *state;
    struct err err;
    assert_int_equal(file_make_dirs("x/y/z", &err), 0);
    assert_int_equal(file_make_dirs("x/y/z", &err), 0);
    assert_int_equal(file_make_dirs("x//y/../w/", &err), 0);
    assert_true(exists("x/y/z") && exists("x/w"));
    char path[128];
    snprintf(path, sizeof(path), "%s/abs/olute", f->dir);
    assert_int_equal(file_make_dirs(path, &err), 0);
    assert_true(exists("abs/olute"));
    assert_int_equal(file_make_dirs("/", &err), 0);
    put("plain", "");
    assert_int_equal(file_make_dirs("plain", &err), -ERR_IO);
    assert_contains(err.detail, "Not a directory");
    assert_int_equal(file_make_dirs("plain/below", &err), -ERR_IO);
    assert_int_equal(file_make_dirs("", &err), -ERR_IO);
}

static void test_publish(void **state)
{
    struct fixture *f = *state;
    struct err err;
    const char *const targets[] = {"here", "./there", NULL};
    char absolute[128];
    snprintf(absolute, sizeof(absolute), "%s/absolute", f->dir);
    for (int i = 0; i < 3; i++) {
        const char *target = targets[i] == NULL ? absolute : targets[i];
        put(target, "old");
        const int fd = open("tmp", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(file_write_all(fd, "new", 3, &err), 0);
        assert_int_equal(file_publish(fd, "tmp", target, &err), 0);
        close(fd);
        assert_false(exists("tmp"));
        cleanup_mem char *text = NULL;
        size_t len = 0;
        assert_int_equal(file_read_all(target, 99, &text, &len, &err), 0);
        assert_string_equal(text, "new");
    }
}

/* What was published before stays when a step fails. */
static void test_publish_failures(void **state)
{
    (void)state;
    struct err err;
    put("kept", "old");
    assert_int_equal(file_publish(-1, "tmp", "kept", &err), -ERR_IO);
    const int fd = open("tmp", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(file_publish(fd, "another", "kept", &err), -ERR_IO);
    assert_int_equal(file_publish(fd, "tmp", "secret/name", &err), -ERR_IO);
    assert_null(strstr(err.detail, "secret"));
    close(fd);
    cleanup_mem char *text = NULL;
    size_t len = 0;
    assert_int_equal(file_read_all("kept", 99, &text, &len, &err), 0);
    assert_string_equal(text, "old");
    assert_true(exists("tmp"));
    assert_int_equal(file_sync_dir(".", &err), 0);
    assert_int_equal(file_sync_dir("absent", &err), -ERR_IO);
    assert_int_equal(file_sync_dir("kept", &err), -ERR_IO);
}

static void test_sweep(void **state)
{
    (void)state;
    struct err err;
    put("tmp-1", "");
    put("tmp-2", "x");
    put("tmp", "");
    put("data-tmp-", "");
    assert_int_equal(mkdir("tmp-dir", 0700), 0);
    assert_int_equal(symlink("data-tmp-", "tmp-link"), 0);
    assert_int_equal(file_sweep(".", "tmp-", &err), 2);
    assert_false(exists("tmp-1") || exists("tmp-2"));
    assert_true(exists("tmp") && exists("data-tmp-") && exists("tmp-dir") && exists("tmp-link"));
    assert_int_equal(file_sweep(".", "tmp-", &err), 0);
    assert_int_equal(file_sweep("absent", "tmp-", &err), -ERR_IO);
}

static void test_map(void **state)
{
    (void)state;
    struct err err;
    struct file_map map;
    put("a", "hello");
    assert_int_equal(file_map_open("a", &map, &err), 0);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "hello", 5);
    file_map_close(&map);
    assert_null(map.data);
    file_map_close(&map); /* twice does no harm */
    put("empty", "");
    assert_int_equal(file_map_open("empty", &map, &err), 0);
    assert_int_equal(map.size, 0);
    assert_non_null(map.data);
    file_map_close(&map);
    map = (struct file_map){.data = &map, .size = 1};
    assert_int_equal(file_map_open("absent", &map, &err), -ERR_NOT_FOUND);
    assert_int_equal(file_map_open(".", &map, &err), -ERR_INVALID);
    assert_int_equal(file_map_open("/dev/null", &map, &err), -ERR_INVALID);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(file_map_open("pipe", &map, &err), -ERR_INVALID); /* nobody writes to it */
    assert_ptr_equal(map.data, &map);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

TEST_MAIN(IN_DIR(test_read_all), IN_DIR(test_read_large), IN_DIR(test_write_failures),
          IN_DIR(test_make_dirs), IN_DIR(test_publish), IN_DIR(test_publish_failures),
          IN_DIR(test_sweep), IN_DIR(test_map))
