#include <cjson/cJSON.h>
#include <limits.h>
#include <string.h>

#include "bench/json/contender.h"

static int64_t read_text(const char *text, size_t len, int64_t columns, double *ret_sum)
{
    (void)columns;
    cJSON *root = cJSON_ParseWithLength(text, len);
    int64_t count = root != NULL ? 0 : -1;
    double sum = 0.0;
    const cJSON *row, *number;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "instances")){
        cJSON_ArrayForEach(number, row){sum += number->valuedouble;
    count++;
}
}
*ret_sum = sum;
cJSON_Delete(root);
return count;
}

static size_t print_text(const double *v, int64_t count)
{
    cJSON *array = count <= INT_MAX ? cJSON_CreateDoubleArray(v, (int)count) : NULL;
    char *text = cJSON_PrintUnformatted(array);
    const size_t len = text != NULL ? strlen(text) : 0;
    cJSON_free(text);
    cJSON_Delete(array);
    return len;
}

const struct contender contender_cjson = {.name = "cJSON", .read = read_text, .print = print_text};
