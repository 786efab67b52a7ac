/* Quotas of control groups, from folders that look like theirs. */
#include "base/processors.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/assert.h"

static void put(const char *root, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static void folder(const char *root, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static double quota(const char *root)
{
    char groups[256];
    snprintf(groups, sizeof(groups), "%s/self", root);
    return processors_quota(groups, root);
}

static void test_version_2(void **state)
{
    (void)state;
    char root[] = "/tmp/krrd-groups-XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_true(isinf(quota(root))); /* there is no such file */
    put(root, "self", "1:name=systemd:/x\n0::/a/b\n");
    assert_true(isinf(quota(root))); /* the group is not there */
    folder(root, "a");
    folder(root, "a/b");
    put(root, "a/b/cpu.max", "max 100000\n");
    assert_true(isinf(quota(root)));
    put(root, "a/b/cpu.max", "150000 100000\n");
    assert_true(quota(root) == 1.5);
    put(root, "a/cpu.max", "50000 200000\n"); /* what contains it has less */
    assert_true(quota(root) == 0.25);
    put(root, "a/cpu.max", "800000 200000\n");
    assert_true(quota(root) == 1.5);
    put(root, "a/b/cpu.max", "150000\n"); /* no period */
    assert_true(quota(root) == 4.0);
    put(root, "a/cpu.max", "");
    assert_true(isinf(quota(root)));
}

static void test_version_1(void **state)
{
    (void)state;
    char root[] = "/tmp/krrd-groups-XXXXXX";
    assert_non_null(mkdtemp(root));
    put(root, "self", "8:cpuset:/\n7:cpu,cpuacct:/a\n6:cpuacct,memory:/b\n");
    folder(root, "cpu");
    folder(root, "cpu/a");
    folder(root, "cpu/b");
    put(root, "cpu/b/cpu.cfs_quota_us", "10000\n");
    put(root, "cpu/b/cpu.cfs_period_us", "100000\n");
    put(root, "cpu/a/cpu.cfs_period_us", "100000\n");
    assert_true(isinf(quota(root)));
    put(root, "cpu/a/cpu.cfs_quota_us", "-1\n");
    assert_true(isinf(quota(root)));
    put(root, "cpu/a/cpu.cfs_quota_us", "200000\n");
    assert_true(quota(root) == 2.0);
    put(root, "cpu/cpu.cfs_quota_us", "50000\n");
    put(root, "cpu/cpu.cfs_period_us", "100000\n");
    assert_true(quota(root) == 0.5);
}

static void test_allowed(void **state)
{
    (void)state;
    cpu_set_t mine;
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    const double allowed = processors_allowed();
    assert_true(allowed > 0.0 && allowed <= (double)CPU_COUNT(&mine));
}

TEST_MAIN(cmocka_unit_test(test_version_2), cmocka_unit_test(test_version_1),
          cmocka_unit_test(test_allowed))
