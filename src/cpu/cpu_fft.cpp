#include "cpu/cpu_fft.h"

#include <kissfft/kissfft.hh>
#include <new>

namespace {
using number = std::complex<double>;
}

struct fft {
    explicit fft(std::size_t length) : length(length), there(length, false), back(length, true)
    {
    }

    std::size_t length;
    kissfft<double> there, back;
};

int64_t fft_length(int64_t n)
{
    for (;; n++) {
        int64_t rest = n;
        for (const int prime : {2, 3, 5}) {
            while (rest > 0 && rest % prime == 0) {
                rest /= prime;
            }
        }
        if (rest == 1) {
            return n;
        }
    }
}

struct fft *fft_new(int64_t length)
try {
    return new fft(static_cast<std::size_t>(length));
} catch (const std::bad_alloc &) {
    return nullptr;
}

struct fft *fft_free(struct fft *f)
{
    delete f;
    return nullptr;
}

void fft_line(const struct fft *f, bool back, double *line, int64_t stride, double *scratch)
{
    const auto step = static_cast<std::size_t>(stride);
    auto *const numbers = reinterpret_cast<number *>(line);
    auto *const result = reinterpret_cast<number *>(scratch);
    (back ? f->back : f->there).transform(numbers, result, 0, 1, step);
    for (std::size_t k = 0; k < f->length; k++) {
        numbers[k * step] = result[k];
    }
}
