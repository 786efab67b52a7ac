#include "engine/squares.h"

#include <math.h>

enum { EXPONENT_MIN = -1000 };

int squares_exponent(double largest)
{
    int exponent = 0;
    if (isfinite(largest)) {
        frexp(largest, &exponent);
    }
    return exponent < EXPONENT_MIN ? EXPONENT_MIN : exponent;
}

double squares_factor(int exponent)
{
    return ldexp(1.0, -exponent);
}

struct squares squares_add(struct squares a, struct squares b)
{
    if (a.sum == 0 || b.sum == 0) {
        return a.sum == 0 ? b : a;
    }
    const int exponent = a.exponent > b.exponent ? a.exponent : b.exponent;
    return (struct squares){ldexp(a.sum, 2 * (a.exponent - exponent)) +
                                ldexp(b.sum, 2 * (b.exponent - exponent)),
                            exponent};
}

double squares_root_mean(struct squares s, double count)
{
    return ldexp(sqrt(s.sum / count), s.exponent);
}

double squares_ratio(struct squares a, struct squares b)
{
    return ldexp(a.sum / b.sum, 2 * (a.exponent - b.exponent));
}
