#include "serve/load_options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "krr-load --port N --path /v1/models/NAME/predict [--host 127.0.0.1] [--connections 64]\n"
    "    [--rows 1] [--d 18] [--format json|npy|npy32] [--distinct 64] [--seconds 5]\n"
    "    [--warm-up-s 1] [--seed 1]\n";

static void fail(const char *name, const char *text)
{
    fprintf(stderr, "krr-load: --%s does not take \"%s\"\n%s", name, text, usage);
    exit(2);
}

static int64_t whole(const char *name, const char *text, int64_t min, int64_t max)
{
    char *end;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || v < min || v > max) {
        fail(name, text);
    }
    return v;
}

static double seconds(const char *name, const char *text)
{
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v > 0.0 && v < 1e6)) {
        fail(name, text);
    }
    return v;
}

static const struct option names[] = {
    {"host", required_argument, NULL, 'h'},    {"port", required_argument, NULL, 'p'},
    {"path", required_argument, NULL, 'u'},    {"connections", required_argument, NULL, 'c'},
    {"rows", required_argument, NULL, 'r'},    {"d", required_argument, NULL, 'd'},
    {"format", required_argument, NULL, 'f'},  {"distinct", required_argument, NULL, 'n'},
    {"seconds", required_argument, NULL, 's'}, {"warm-up-s", required_argument, NULL, 'w'},
    {"seed", required_argument, NULL, 'x'},    {NULL, 0, NULL, 0},
};

static void take(struct load_options *o, int c, const char *name)
{
    switch (c) {
    case 'h':
        o->host = optarg;
        break;
    case 'p':
        o->port = (int)whole(name, optarg, 1, 65535);
        break;
    case 'u':
        o->path = optarg;
        break;
    case 'c':
        o->connections = whole(name, optarg, 1, 10000);
        break;
    case 'r':
        o->rows = whole(name, optarg, 1, 1000000);
        break;
    case 'd':
        o->d = whole(name, optarg, 1, 100000);
        break;
    case 'f':
        o->format = optarg;
        break;
    case 'n':
        o->distinct = whole(name, optarg, 1, 100000);
        break;
    case 's':
        o->seconds = seconds(name, optarg);
        break;
    case 'w':
        o->warm_up_s = seconds(name, optarg);
        break;
    case 'x':
        o->seed = whole(name, optarg, 0, INT64_MAX);
        break;
    default:
        fputs(usage, stderr);
        exit(2);
    }
}

struct load_options load_options_read(int argc, char **argv)
{
    static const char *const formats[] = {"json", "npy", "npy32"};
    struct load_options o = {.host = "127.0.0.1",
                             .format = "json",
                             .connections = 64,
                             .rows = 1,
                             .d = 18,
                             .distinct = 64,
                             .seed = 1,
                             .seconds = 5.0,
                             .warm_up_s = 1.0};
    int index = 0;
    for (int c; (c = getopt_long(argc, argv, "", names, &index)) != -1;) {
        take(&o, c, c == '?' ? "" : names[index].name);
    }
    bool known = false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        known = known || strcmp(o.format, formats[i]) == 0;
    }
    if (!known || o.port == 0 || !o.path || optind != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    return o;
}
