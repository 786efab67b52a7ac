#include <stdlib.h>
#include <yyjson.h>

#include "bench/json/contender.h"

static int64_t read_text(const char *text, size_t len, int64_t columns, double *ret_sum)
{
    (void)columns;
    yyjson_doc *doc = yyjson_read(text, len, 0);
    int64_t count = doc != NULL ? 0 : -1;
    double sum = 0.0;
    size_t i, j, rows, numbers;
    yyjson_val *row, *number;
    yyjson_val *all = yyjson_obj_get(yyjson_doc_get_root(doc), "instances");
    yyjson_arr_foreach(all, i, rows, row){
        yyjson_arr_foreach(row, j, numbers, number){sum += yyjson_get_num(number);
    count++;
}
}
*ret_sum = sum;
yyjson_doc_free(doc);
return count;
}

static size_t print_text(const double *v, int64_t count)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_doc_set_root(doc, yyjson_mut_arr_with_double(doc, v, (size_t)count));
    size_t len = 0;
    char *text = yyjson_mut_write_opts(doc, 0, NULL, &len, NULL);
    free(text);
    yyjson_mut_doc_free(doc);
    return len;
}

static const struct contender contender = {
    .name = "yyjson", .read = read_text, .print = print_text};
const struct contender *const contender_yyjson = &contender;
