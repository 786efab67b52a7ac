/*
 * Coefficients of powers of two, lowest first, for 2^x = 2^n 2^f. Errors are relative, of 2^f.
 *
 *   TERMS         (2^f - 1) / f on [-1/2, 1/2]: 9e-8 (float32), 6e-16 (float64)
 *   SQUARE, REST  p and q, 2^f = p(f)^2 + q(f) there and exactly for f = 0: 5e-8, 6e-16; with what
 *                 is rounded 3e-7 (1e-7 in the mean square), 1.8e-15 (4e-16)
 *   PART          (2^f - 1) / f on [-1/16, 1/16]: 3e-8, 9e-16; with what is rounded 1.1e-7
 *                 (3e-8), 1.1e-15 (7e-16)
 *   UP            (2^f - 1) / f on [0, 1/8]: 2.4e-8; with what is rounded 1.1e-7
 *   EIGHTHS       2^(j/8); of float32, and LOW and HIGH of float64 (the halves of its bits), less
 *                 j << MANTISSA - 3 in the bits: j joins those of n, shifted by as much
 *   SMALL         (2^f - 1) / f on [-1/32, 1/32]: 9e-18; with what is rounded 2.0e-16 (7e-17)
 *   ABOVE         (2^f - 1) / f on [0, 1] in float32: 1e-7, with what is rounded 1.6e-7 (7e-8); on
 *                 [0, 1/16] in float64: 8e-18. For the number before the end, which is above a
 *                 whole one what is next to 0 from below, it gives exactly 1 there
 *   SIXTEENTHS    2^(j/16)
 *   SERIES        (2^f - 1) / f, the first terms of its series, on [-1/2, 1/2]: 4e-18; with what is
 *                 rounded 2e-16
 */
#pragma once

#define EXP2_TERMS_F32                                                                             \
    0.6931469775997493, 0.2402224208533244, 0.05550733742411255, 0.00967151264264307,              \
        0.0013264727448516489
#define EXP2_SQUARE_F32 1.2607421875, 0.219415543638047, 0.07617784699090775, 0.0087551292959383
#define EXP2_REST_F32 -0.5894708633422852, 0.13989423496908263

#define EXP2_PART_F32_0 0.6931472142603191F
#define EXP2_PART_F32_1 0.2402576297897387F
#define EXP2_PART_F32_2 0.0554962217775085F
#define EXP2_PART_F32 EXP2_PART_F32_0, EXP2_PART_F32_1, EXP2_PART_F32_2
#define EXP2_UP_F32_0 0.6931506991386414F
#define EXP2_UP_F32_1 0.24005571007728577F
#define EXP2_UP_F32_2 0.05785812437534332F
#define EXP2_EIGHTHS_F32                                                                           \
    0x1p+0F, 0x1.f72b84p-1F, 0x1.f06fep-1F, 0x1.ebfdaep-1F, 0x1.ea09e6p-1F, 0x1.eace54p-1F,        \
        0x1.ee89fap-1F, 0x1.f5818ep-1F

#define EXP2_TERMS_F64                                                                             \
    0.69314718055994615897, 0.24022650695910076139, 0.055504108664651672007,                       \
        0.0096181291076186655706, 0.0013333558200794592645, 0.00015403530424776527587,             \
        0.000015252672924850736404, 1.3215451633221434374e-6, 1.0205905413765595794e-7,            \
        7.0709778665081385558e-9
#define EXP2_SQUARE_F64                                                                            \
    1.9340264201164246, 0.36556175018576065, 0.049787074583595194, 0.005668257884207832,           \
        0.0006068506359028583, 8.408910537418723e-05
#define EXP2_REST_F64                                                                              \
    -2.7404581937083528, -0.7208649855265766, -0.0859879214897358, -0.0028215125863467927,         \
        0.0006478494409145299

#define EXP2_PART_F64_0 0.6931471805600481
#define EXP2_PART_F64_1 0.24022650695916303
#define EXP2_PART_F64_2 0.055504108456682424
#define EXP2_PART_F64_3 0.009618129017455472
#define EXP2_PART_F64_4 0.0013334612234312865
#define EXP2_PART_F64_5 0.00015406270503563656
#define EXP2_PART_F64                                                                              \
    EXP2_PART_F64_0, EXP2_PART_F64_1, EXP2_PART_F64_2, EXP2_PART_F64_3, EXP2_PART_F64_4,           \
        EXP2_PART_F64_5
#define EXP2_EIGHTHS_F64_LOW                                                                       \
    0x00000000, 0x3c7d517b, 0x0a31b715, 0xd5362a27, 0x667f3bcd, 0x422aa0db, 0x995ad3ad, 0xdcfba487
#define EXP2_EIGHTHS_F64_HIGH                                                                      \
    0x3ff00000, 0x3fef72b8, 0x3fef06fe, 0x3feebfda, 0x3feea09e, 0x3feeace5, 0x3feee89f, 0x3fef5818

#define EXP2_SMALL_F64                                                                             \
    0.6931471805599468, 0.24022650695910167, 0.055504108651954584, 0.009618129102053624,           \
        0.0013333820232815162, 0.00015404211699335225
#define EXP2_ABOVE_F32                                                                             \
    0.6931518698897852, 0.2401577000664443, 0.05582430336939842, 0.008983278334298543,             \
        0.0018828883400737757
#define EXP2_ABOVE_F64                                                                             \
    0.69314718055993774105, 0.24022650696146325866, 0.055504108419541985971,                       \
        0.0096181408030860942327, 0.0013330742245224846564, 0.00015736282854558428516
#define EXP2_SERIES                                                                                \
    0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477,            \
        0.0013333558146428443, 0.0001540353039338161, 1.5252733804059841e-05,                      \
        1.321548679014431e-06, 1.01780860092397e-07, 7.054911620801123e-09,                        \
        4.4455382718708116e-10, 2.5678435993488206e-11, 1.3691488853904128e-12
#define EXP2_SIXTEENTHS_F64                                                                        \
    0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,                      \
        0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,    \
        0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,    \
        0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0
