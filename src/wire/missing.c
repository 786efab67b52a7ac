#include "wire/missing.h"

#include <string.h>

bool missing_mark(const char *text, size_t len)
{
    static const char *const marks[] = {"NA",  "N/A",  "n/a",  "#N/A", "<NA>", "NaN",
                                        "nan", "null", "NULL", "None", "?"};
    if (len == 0) {
        return true;
    }
    if (strchr("Nn#<?", *text) == NULL) {
        return false;
    }
    for (size_t i = 0; len <= 4 && i < sizeof(marks) / sizeof(*marks); i++) {
        if (strncmp(marks[i], text, len) == 0 && marks[i][len] == '\0') {
            return true;
        }
    }
    return false;
}
