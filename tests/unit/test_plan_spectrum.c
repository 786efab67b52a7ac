/* Effective dimensions without data, against those of kernel matrices (plan/spectrum.h). */
#include "plan/spectrum.h"

#include <math.h>

#include "engine_fixture.h"

/* 1,500 normal points, standardised; the eigenvalues of their kernel matrix with the median
 * distance as its bandwidth. */
static const struct {
    double features, order, lambda, dimension;
} normal[] = {
    {5, INFINITY, 1e-3, 33},  {5, INFINITY, 1e-5, 137},  {5, INFINITY, 1e-7, 335},
    {17, INFINITY, 1e-3, 81}, {17, INFINITY, 1e-5, 636}, {17, INFINITY, 1e-7, 1413},
    {5, 2.5, 1e-3, 65},       {5, 2.5, 1e-5, 484},       {5, 2.5, 1e-7, 1322},
    {17, 2.5, 1e-3, 142},     {17, 2.5, 1e-5, 1161},     {17, 2.5, 1e-7, 1495},
    {5, 0.5, 1e-3, 237},      {5, 0.5, 1e-5, 1384},      {5, 0.5, 1e-7, 1499},
    {17, 0.5, 1e-3, 330},     {17, 0.5, 1e-5, 1439},     {17, 0.5, 1e-7, 1499},
};
/* Features that are as independent as these are worth more than those of a table. */
static const double independent = 0.7;

static void test_normal_points(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(normal) / sizeof(normal[0]); i++) {
        struct spectrum s;
        spectrum_make(normal[i].features / independent, normal[i].order, 1.0, &s);
        const double found = spectrum_dimension(&s, 1500, normal[i].lambda);
        assert_close(found, normal[i].dimension, 0.26);
        assert_true(found <= 1500);
    }
}

/* Likewise of 1,500 rows of tables, at 1e-4 and 1e-6. */
static const struct {
    double features, order, coarse, fine;
} tables[] = {
    {5, INFINITY, 42, 108},    {5, 2.5, 94, 356},    {5, 0.5, 540, 1428},   /* airfoil */
    {17, INFINITY, 147, 612},  {17, 2.5, 309, 1235}, {17, 0.5, 933, 1489},  /* bike */
    {9, INFINITY, 99, 354},    {9, 2.5, 231, 1085},  {9, 0.5, 897, 1489},   /* hflights */
    {28, INFINITY, 339, 1270}, {28, 2.5, 603, 1461}, {28, 0.5, 1081, 1494}, /* higgs7k */
};

static void test_rows_of_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct spectrum s;
        spectrum_make(tables[i].features, tables[i].order, 1.0, &s);
        const double coarse = spectrum_dimension(&s, 1500, 1e-4);
        const double fine = spectrum_dimension(&s, 1500, 1e-6);
        assert_true(fmax(coarse / tables[i].coarse, tables[i].coarse / coarse) < 1.5);
        assert_true(fmax(fine / tables[i].fine, tables[i].fine / fine) < 1.7);
    }
}

/* Wider kernels have less, more rows more; of one row there is no more than that. */
static void test_bounds(void **state)
{
    (void)state;
    struct spectrum usual, wide;
    spectrum_make(9, INFINITY, 1.0, &usual);
    spectrum_make(9, INFINITY, 4.0, &wide);
    assert_true(spectrum_dimension(&wide, 1e4, 1e-5) < spectrum_dimension(&usual, 1e4, 1e-5) / 3);
    assert_true(spectrum_dimension(&usual, 1e6, 1e-7) > spectrum_dimension(&usual, 1e3, 1e-7));
    assert_true(spectrum_dimension(&usual, 1, 1e-12) <= 1);
    assert_true(spectrum_dimension(&usual, 1e3, 1e3) < 0.01);
}

TEST_MAIN(cmocka_unit_test(test_normal_points), cmocka_unit_test(test_rows_of_tables),
          cmocka_unit_test(test_bounds))
