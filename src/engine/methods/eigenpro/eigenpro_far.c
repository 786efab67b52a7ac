#include "engine/methods/eigenpro/eigenpro_far.h"

#include <math.h>

#include "base/mem.h"
#include "base/sort.h"

enum { ROOM = 256, NEAR_TIMES = 20, FAR_TIMES = 4 };

void eigenpro_far_deinit(struct eigenpro_far *f)
{
    mem_free(f->rows);
    mem_free(f->shares);
    *f = (struct eigenpro_far){0};
}

static int make_room(struct eigenpro_far *f, struct err *err)
{
    const int64_t room = f->room > 0 ? 2 * f->room : ROOM;
    void *rows = mem_regrow(f->rows, (size_t)room, sizeof(*f->rows));
    f->rows = rows != NULL ? rows : f->rows;
    void *shares = rows != NULL ? mem_regrow(f->shares, (size_t)room, sizeof(*f->shares)) : NULL;
    f->shares = shares != NULL ? shares : f->shares;
    f->room = shares != NULL ? room : f->room;
    return shares != NULL ? 0 : err_no_memory(err);
}

int eigenpro_far_add(struct eigenpro_far *f, int64_t row, double share, struct err *err)
{
    const int r = f->count == f->room ? make_room(f, err) : 0;
    if (r == 0) {
        f->rows[f->count] = row;
        f->shares[f->count] = share;
        f->count++;
    }
    return r;
}

double eigenpro_far_share(const struct eigenpro_far *f, int64_t row)
{
    int64_t low = 0, high = f->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (f->rows[middle] < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < f->count && f->rows[low] == row ? f->shares[low] : 1.0;
}

double eigenpro_far_ceiling(double *numbers, int64_t count, double least)
{
    sort_f64(numbers, count);
    const double largest = numbers[count - 1];
    const double usual = fmax(numbers[count - 1 - (count - 1) / NEAR_TIMES], least);
    return usual > 0 && largest > FAR_TIMES * usual ? usual : largest;
}
