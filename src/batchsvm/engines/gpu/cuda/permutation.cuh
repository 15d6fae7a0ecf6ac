// The order of an epoch: a permutation of 0 .. n - 1 that a key and the number of the epoch decide,
// and that takes no memory.
//
// The bits of a number are cut into two halves.  Each is changed by a hash of the other, in turn,
// four times (a Feistel network), which is a permutation of all numbers of so many bits, fewer than
// 2 n of them.  It is applied again while the result is no number below n, which is a permutation of
// those.

struct Permutation {
    unsigned keys[4], n, low_bits, low_mask, high_mask;

    __device__ static unsigned hash(unsigned x) {
        x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
        return x ^ x >> 16;
    }

    __device__ Permutation(unsigned long long key, unsigned long long epoch, unsigned n) : n(n) {
        for (int round = 0; round < 4; round++) {
            unsigned mixed = hash(unsigned(key) + 4 * unsigned(epoch) + round);
            keys[round] = hash(mixed ^ unsigned(key >> 32));
        }
        const int bits = 32 - __clz(n - 1);
        low_bits = (bits + 1) / 2;
        low_mask = (1u << low_bits) - 1, high_mask = (1u << bits / 2) - 1;
    }

    __device__ unsigned operator[](unsigned place) const {
        do {
            unsigned low = place & low_mask, high = place >> low_bits;
            high ^= hash(low ^ keys[0]) & high_mask, low ^= hash(high ^ keys[1]) & low_mask;
            high ^= hash(low ^ keys[2]) & high_mask, low ^= hash(high ^ keys[3]) & low_mask;
            place = high << low_bits | low;
        } while (place >= n);
        return place;
    }
};
