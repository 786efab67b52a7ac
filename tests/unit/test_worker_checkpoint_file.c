/* Checkpoint files: whole or absent, and no damage passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/assert.h"
#include "worker/checkpoint_file.h"

struct place {
    char dir[64], path[96];
};

static int setup(void **state)
{
    struct place *p = mem_zalloc(sizeof(*p));
    snprintf(p->dir, sizeof(p->dir), "/tmp/krrd-test-checkpoint-XXXXXX");
    if (mkdtemp(p->dir) == NULL) {
        return -1;
    }
    snprintf(p->path, sizeof(p->path), "%s/job_1.krdc", p->dir);
    *state = p;
    return 0;
}

/* Fails when anything but the checkpoint is left behind. */
static int teardown(void **state)
{
    struct place *p = *state;
    unlink(p->path);
    const int rc = rmdir(p->dir);
    mem_free(p);
    return rc;
}

static struct state *example(double first)
{
    struct state *s = state_new();
    const double reals[3] = {first, -0.0, 1e-300};
    assert_int_equal(state_put_reals(s, "reals", reals, 3, NULL), 0);
    assert_int_equal(state_put_ints(s, "counts", (int64_t[]){7, 8}, 2, NULL), 0);
    assert_int_equal(state_put_text(s, "solver", "pcg", NULL), 0);
    return s;
}

static void check_example(const struct state *s, double first)
{
    double reals[3];
    assert_int_equal(state_get_reals(s, "reals", reals, 3, NULL), 0);
    assert_same_bits(reals[0], first);
    assert_same_bits(reals[1], -0.0);
    assert_same_bits(reals[2], 1e-300);
    assert_string_equal(state_text(s, "solver"), "pcg");
    assert_null(state_text(s, "sha256"));
}

static void test_write_and_read(void **state)
{
    struct place *p = *state;
    struct state *read = NULL;
    assert_int_equal(checkpoint_file_read(p->path, &read, NULL), -ERR_NOT_FOUND);
    for (int i = 1; i <= 2; i++) { /* the second takes the place of the first */
        struct state *s = example(i);
        assert_int_equal(checkpoint_file_write(p->path, s, NULL), 0);
        assert_int_equal(checkpoint_file_read(p->path, &read, NULL), 0);
        check_example(read, i);
        state_free(read);
        state_free(s);
    }
}

static void write_bytes(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* A file with one byte changed, or cut short anywhere, is refused or says the same. */
static void test_damage(void **state)
{
    struct place *p = *state;
    struct state *s = example(1.5);
    assert_int_equal(checkpoint_file_write(p->path, s, NULL), 0);
    char *image = NULL;
    size_t size = 0;
    assert_int_equal(file_read_all(p->path, 1 << 20, &image, &size, NULL), 0);
    int64_t harmless = 0;
    for (size_t i = 0; i < size; i++) {
        struct state *read = NULL;
        image[i] ^= 4;
        write_bytes(p->path, image, size);
        const int r = checkpoint_file_read(p->path, &read, NULL);
        image[i] ^= 4;
        if (r == 0) {
            check_example(read, 1.5);
            state_free(read);
            harmless++;
        } else {
            assert_int_equal(r, -ERR_CORRUPT);
        }
        write_bytes(p->path, image, i);
        assert_int_equal(checkpoint_file_read(p->path, &read, NULL), -ERR_CORRUPT);
    }
    assert_true(harmless < 64); /* blanks that pad the header */
    mem_free(image);
    state_free(s);
}

static void test_nowhere_to_write(void **state)
{
    struct place *p = *state;
    struct state *s = example(1);
    char path[128];
    struct err err;
    snprintf(path, sizeof(path), "%s/none/job_1.krdc", p->dir);
    assert_true(checkpoint_file_write(path, s, &err) < 0);
    assert_null(strstr(err.detail, p->dir));
    /* A folder where the file should be: nothing stays beside it. */
    assert_int_equal(file_make_dirs(p->path, NULL), 0);
    assert_true(checkpoint_file_write(p->path, s, NULL) < 0);
    rmdir(p->path);
    state_free(s);
}

static void test_no_memory(void **state)
{
    struct place *p = *state;
    struct state *s = example(2), *read = NULL;
    int64_t k = 1;
    for (int r = -1; r != 0; k++) {
        mem_fail_nth(k);
        r = checkpoint_file_write(p->path, s, NULL);
        mem_fail_nth(0);
        assert_true(r == 0 || r == -ERR_NO_MEMORY);
        assert_true((access(p->path, F_OK) == 0) == (r == 0));
    }
    assert_true(k > 5);
    k = 1;
    for (int r = -1; r != 0; k++) {
        mem_fail_nth(k);
        r = checkpoint_file_read(p->path, &read, NULL);
        mem_fail_nth(0);
        assert_true(r == 0 || r == -ERR_NO_MEMORY);
    }
    assert_true(k > 5);
    check_example(read, 2);
    state_free(read);
    state_free(s);
}

#define PLACED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

TEST_MAIN(PLACED(test_write_and_read), PLACED(test_damage), PLACED(test_nowhere_to_write),
          PLACED(test_no_memory))
