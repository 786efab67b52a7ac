#include "client/show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#define REDRAW_S 0.1 /* on a terminal */
#define REPEAT_S 5.0 /* elsewhere */
#define BAR_WIDTH 24
#define BAR_LEAST 4
#define BAR_REST 10 /* "[] 100 % " and the end of the string */
#define LINE_MAX_WIDTH 200

void show_bytes(double bytes, char ret[SHOW_CELL])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t i = 0;
    while (bytes >= 999.5 && i + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        i++;
    }
    snprintf(ret, SHOW_CELL, i == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes, units[i]);
}

void show_rate(double v, char ret[SHOW_CELL])
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    size_t i = 0;
    while (v >= 999.5 && i + 1 < sizeof units / sizeof *units) {
        v /= 1000;
        i++;
    }
    if (isfinite(v)) {
        snprintf(ret, SHOW_CELL, "%.3g%s", v, units[i]);
    } else {
        snprintf(ret, SHOW_CELL, "-");
    }
}

void show_duration(double seconds, char ret[SHOW_CELL])
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(ret, SHOW_CELL, "-");
    } else if (seconds < 10) {
        snprintf(ret, SHOW_CELL, "%.1f s", seconds);
    } else {
        const long s = lround(seconds);
        if (s < 3600) {
            snprintf(ret, SHOW_CELL, "%ld:%02ld", s / 60, s % 60);
        } else {
            snprintf(ret, SHOW_CELL, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
        }
    }
}

void show_remaining(double seconds, char ret[SHOW_CELL])
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        ret[0] = '\0';
    } else if (seconds < 1) {
        snprintf(ret, SHOW_CELL, "under 1 s");
    } else if (seconds < 59.5) {
        snprintf(ret, SHOW_CELL, "%.0f s", seconds);
    } else {
        show_duration(seconds, ret);
    }
}

void show_number(double v, char ret[SHOW_CELL])
{
    const bool count = (v == floor(v) && fabs(v) < 1e15) || (fabs(v) >= 1e4 && fabs(v) < 1e6);
    snprintf(ret, SHOW_CELL, !isfinite(v) ? "-" : count ? "%.0f" : "%.4g", v);
}

void show_member(const struct json *obj, const char *key, char ret[SHOW_CELL])
{
    const struct json *v = json_get(obj, key);
    show_number(v && json_type(v) == JSON_NUMBER ? json_number(v) : NAN, ret);
}

/* ---- text of others ---- */

/* Bytes of the character at text[0..len), of which ret_shown tells whether it may be shown. */
static size_t step(const char *text, size_t len, bool *ret_shown)
{
    const unsigned char *u = (const unsigned char *)text;
    const size_t n = utf8_step(text, len);
    const bool c1 = n == 2 && u[0] == 0xC2 && u[1] < 0xA0;
    *ret_shown = n > 0 && u[0] >= ' ' && u[0] != 127 && !c1;
    return n > 0 ? n : 1;
}

static void add_plain(struct buf *b, const char *text, size_t len, const char *kept)
{
    bool shown;
    for (size_t n; len > 0; text += n, len -= n) {
        n = step(text, len, &shown);
        if (shown || (*text != '\0' && strchr(kept, *text))) {
            buf_add(b, text, n);
        } else {
            buf_char(b, '?');
        }
    }
}

void show_line(FILE *to, const char *fmt, ...)
{
    char line[SHOW_LINE];
    struct buf b = BUF_INIT;
    va_list list;
    va_start(list, fmt);
    vsnprintf(line, sizeof line, fmt, list);
    va_end(list);
    utf8_mend(line);
    add_plain(&b, line, strlen(line), "");
    fprintf(to, "%s\n", b.data && !b.failed ? b.data : "");
    buf_deinit(&b);
}

bool show_text(FILE *to, const char *text, size_t len)
{
    struct buf b = BUF_INIT;
    const bool plain = isatty(fileno(to));
    if (plain) {
        add_plain(&b, text, len, "\n\t");
        text = b.data;
        len = b.len;
    }
    const bool ok = !b.failed && (len == 0 || fwrite(text, 1, len, to) == len);
    buf_deinit(&b);
    return ok;
}

void show_json(const char *text)
{
    bool shown;
    size_t len = strlen(text);
    for (size_t n; len > 0; text += n, len -= n) {
        n = step(text, len, &shown);
        if (shown) {
            fwrite(text, 1, n, stdout);
        } else {
            printf("\\u%04x", (unsigned char)text[n - 1]); /* C1: C2, and the number itself */
        }
    }
    putchar('\n');
}

/* ---- tables ---- */

void table_begin(struct table *t, int columns, const char *const *heads)
{
    *t = (struct table){.columns = columns};
    for (int i = 0; i < columns; i++) {
        table_cell(t, heads[i]);
    }
}

void table_cell(struct table *t, const char *text)
{
    text = text ? text : "-";
    add_plain(&t->text, text, strlen(text), "");
    buf_char(&t->text, '\0');
    t->cells++;
}

/* Characters, where bytes that continue one are not counted. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return n;
}

static void measure(const struct table *t, int *ret_widths)
{
    const char *cell = t->text.data;
    for (int i = 0; i < t->cells; i++, cell += strlen(cell) + 1) {
        const int w = width_of(cell);
        int *widest = &ret_widths[i % t->columns];
        *widest = w > *widest ? w : *widest;
    }
}

static void print_cells(const struct table *t, const int *widths)
{
    const char *cell = t->text.data;
    for (int i = 0; i < t->cells; i++, cell += strlen(cell) + 1) {
        const int column = i % t->columns;
        const bool last = column == t->columns - 1;
        printf("%s%*s", cell, last ? 0 : widths[column] - width_of(cell) + 2, "");
        if (last) {
            putchar('\n');
        }
    }
}

bool table_end(struct table *t)
{
    cleanup_mem int *widths = mem_zarray((size_t)t->columns, sizeof *widths);
    const bool ok = widths && !t->text.failed;
    if (ok) {
        measure(t, widths);
        print_cells(t, widths);
    }
    buf_deinit(&t->text);
    return ok;
}

/* ---- the line of progress ---- */

void meter_begin(struct meter *m, bool quiet)
{
    *m = (struct meter){.terminal = isatty(STDERR_FILENO), .quiet = quiet};
    m->last = m->terminal ? 0 : clock_monotonic_s(); /* what is soon done needs no line in a log */
}

static int terminal_width(void)
{
    struct winsize size = {.ws_col = 80};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20) {
        return 80;
    }
    return size.ws_col < LINE_MAX_WIDTH ? size.ws_col : LINE_MAX_WIDTH;
}

/* "[####....]  50 % " with so many characters in the brackets, or without them where there are too
 * few to tell anything; never "100 %" before the end. */
static void print_bar(double fraction, int width, char ret[BAR_WIDTH + BAR_REST])
{
    const int full = (int)(fraction * width);
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', sizeof bar);
    memset(bar, '#', (size_t)full);
    if (width < BAR_LEAST) {
        snprintf(ret, BAR_WIDTH + BAR_REST, "%d %% ", (int)(fraction * 100));
    } else {
        snprintf(ret, BAR_WIDTH + BAR_REST, "[%.*s] %3d %% ", width, bar, (int)(fraction * 100));
    }
}

/* The bar takes what the text leaves of the terminal's line. */
static int bar_width(int room, size_t text)
{
    const int left = room - (int)text - BAR_REST;
    return left < BAR_WIDTH ? left : BAR_WIDTH;
}

static void redraw(struct meter *m, double fraction, bool known, const char *text)
{
    const int room = terminal_width() - 1;
    char bar[BAR_WIDTH + BAR_REST] = "";
    char line[LINE_MAX_WIDTH + 1];
    if (known) {
        const int left = bar_width(room, strlen(text));
        print_bar(fraction, left > 0 ? left : 0, bar);
    }
    snprintf(line, (size_t)room + 1, "%s%s", bar, text);
    const int width = (int)strlen(line);
    fprintf(stderr, "\r%s%*s", line, m->width > width ? m->width - width : 0, "");
    m->width = width;
}

void meter_show(struct meter *m, double fraction, const char *text)
{
    const double now = clock_monotonic_s();
    const double wait = m->terminal ? REDRAW_S : REPEAT_S;
    if (m->quiet || (m->last > 0 && now - m->last < wait)) {
        return;
    }
    const bool known = fraction >= 0 && fraction <= 1;
    m->last = now;
    if (!m->terminal) {
        char bar[BAR_WIDTH + BAR_REST] = "";
        if (known) {
            print_bar(fraction, BAR_WIDTH, bar);
        }
        show_line(stderr, "%s%s", bar, text);
        return;
    }
    struct buf plain = BUF_INIT;
    add_plain(&plain, text, strlen(text), "");
    redraw(m, fraction, known, plain.data ? plain.data : "");
    buf_deinit(&plain);
}

void meter_end(struct meter *m)
{
    if (m->width > 0) {
        fprintf(stderr, "\r%*s\r", m->width, "");
    }
    m->width = 0;
    m->last = m->terminal ? 0 : m->last;
}

void meter_say(struct meter *m, const char *text)
{
    if (!m->quiet) {
        meter_end(m);
        show_line(stderr, "%s", text);
    }
}
