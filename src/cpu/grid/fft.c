#include "cpu/grid/fft.h"

int64_t fft_length(int64_t n)
{
    static const int primes[] = {2, 3, 5};
    for (;; n++) {
        int64_t rest = n;
        for (int i = 0; i < 3; i++) {
            while (rest > 0 && rest % primes[i] == 0) {
                rest /= primes[i];
            }
        }
        if (rest == 1) {
            return n;
        }
    }
}
