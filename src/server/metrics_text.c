/* The two text formats: what differs between them is here alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/metrics.h"

static const char *kind_name(enum metrics_kind kind, enum metrics_format format)
{
    switch (kind) {
    case METRICS_COUNTER:
        return "counter";
    case METRICS_HISTOGRAM:
        return "histogram";
    case METRICS_INFO:
        return format == METRICS_OPENMETRICS ? "info" : "gauge";
    case METRICS_GAUGE:
        break;
    }
    return "gauge";
}

static const char *suffix(enum metrics_kind kind)
{
    return kind == METRICS_COUNTER ? "_total" : kind == METRICS_INFO ? "_info" : "";
}

/* The base unit that a name ends in; NULL: none. */
static const char *unit(const char *name)
{
    static const char *const units[] = {"seconds", "bytes"};
    const char *last = strrchr(name, '_');
    for (size_t i = 0; last != NULL && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(last + 1, units[i]) == 0) {
            return units[i];
        }
    }
    return NULL;
}

/* OpenMetrics knows a counter by its name without _total, the older format by that with it. */
void metrics_print_head(struct buf *to, enum metrics_format format, enum metrics_kind kind,
                        const char *name, const char *help)
{
    const bool open = format == METRICS_OPENMETRICS;
    const char *end = open ? "" : suffix(kind);
    buf_printf(to, "# HELP %s%s %s\n", name, end, help);
    buf_printf(to, "# TYPE %s%s %s\n", name, end, kind_name(kind, format));
    if (open && unit(name) != NULL) {
        buf_printf(to, "# UNIT %s %s\n", name, unit(name));
    }
}

static void print_number(struct buf *to, double v)
{
    if (isnan(v)) {
        buf_str(to, "NaN");
    } else if (isinf(v)) {
        buf_str(to, v > 0.0 ? "+Inf" : "-Inf");
    } else {
        buf_json_number(to, v);
    }
}

void metrics_print_sample(struct buf *to, enum metrics_kind kind, const char *name,
                          const char *labels, double value)
{
    buf_printf(to, "%s%s", name, suffix(kind));
    if (labels[0] != '\0') {
        buf_printf(to, "{%s}", labels);
    }
    buf_char(to, ' ');
    print_number(to, value);
    buf_char(to, '\n');
}

void metrics_label(struct buf *to, const char *name, const char *value)
{
    buf_printf(to, "%s%s=\"", to->len > 0 ? "," : "", name);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\n') {
            buf_str(to, "\\n");
            continue;
        }
        if (*c == '"' || *c == '\\') {
            buf_char(to, '\\');
        }
        buf_char(to, *c);
    }
    buf_char(to, '"');
}
