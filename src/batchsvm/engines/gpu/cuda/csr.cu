// Passes over sparse rows (CSR), in float64; one warp per row, or per column of a transposed copy.
//
// Any order of summation is within the bounds of core/rounding.py.

#define CSR                                                             \
    const SOURCE *__restrict__ values, const INDEX *__restrict__ indices, \
        const START *__restrict__ starts

constexpr int AT_ONCE = 4;  // problems for which a row is read once

__device__ inline long long own_warp() {
    return ((long long)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
}

// What has to be known of CSR before anything else believes it, in the order of sparse_read.py, and
// ||x_i||^2 of every row.
enum Fact { BELOW_ZERO, HIGHEST, FALLS, UNORDERED, LONGEST, FIRST, LAST, LARGEST_NORM2 };

// Few rows are beyond all those before: these alone wait for each other.
__device__ inline void raise(long long *fact, long long value) {
    if (value > *(volatile long long *)fact) atomicMax(fact, value);
}

extern "C" __global__ void csr_check(
    CSR, double *__restrict__ norms2, long long *facts, long long rows, long long count) {
    const long long row = own_warp();
    const int lane = threadIdx.x & 31;
    if (row >= rows) return;
    const long long begin = starts[row], end = starts[row + 1];
    if (lane == 0) {
        if (row == 0) facts[FIRST] = begin;
        if (row == rows - 1) facts[LAST] = end;
        if (end < begin) facts[FALLS] = 1;
    }
    if (begin < 0 || end <= begin || end > count) {
        if (lane == 0) norms2[row] = 0;
        return;
    }
    long long lowest = indices[begin], highest = lowest;
    bool unordered = false;
    double square = 0;
    for (long long e = begin + lane; e < end; e += 32) {
        const long long index = indices[e];
        const double value = read(values + e);
        lowest = min(lowest, index), highest = max(highest, index);
        unordered |= e > begin && indices[e - 1] >= index;
        square += value * value;
    }
    for (int offset = 16; offset; offset >>= 1) {
        lowest = min(lowest, __shfl_xor_sync(~0u, lowest, offset));
        highest = max(highest, __shfl_xor_sync(~0u, highest, offset));
    }
    square = warp_sum(square);
    if (unordered) facts[UNORDERED] = 1;
    if (lane) return;
    norms2[row] = square;
    raise(facts + BELOW_ZERO, -lowest);
    raise(facts + HIGHEST, highest);
    raise(facts + LONGEST, end - begin);
    // A NaN may have a sign, which would put it below all numbers.
    raise(facts + LARGEST_NORM2, __double_as_longlong(square) & 0x7fffffffffffffffLL);
}

// ||x_i||^2 of every row.
extern "C" __global__ void csr_norms2(CSR, double *__restrict__ out, long long rows) {
    long long row = own_warp();
    if (row >= rows) return;
    double sum = 0;
    for (long long e = starts[row] + (threadIdx.x & 31); e < starts[row + 1]; e += 32) {
        double value = read(values + e);
        sum += value * value;
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) out[row] = sum;
}

// out[p] = the row cut[p], where out has been 0; a row number of -1 leaves it so.
extern "C" __global__ void csr_dense(
    CSR, const int *__restrict__ cut, int count, double *__restrict__ out, int columns) {
    long long p = own_warp();
    if (p >= count || cut[p] < 0) return;
    long long end = starts[cut[p] + 1];
    for (long long e = starts[cut[p]] + (threadIdx.x & 31); e < end; e += 32)
        out[p * columns + indices[e]] = read(values + e);
}

// out[k][p] = <w_k, x_i> for the row i = cut[p]; a row number of -1 gives 0.  The problems of a row
// are divided among `shares` warps.
extern "C" __global__ void csr_products(
    CSR, const int *__restrict__ cut, int count, const double *__restrict__ W,
    double *__restrict__ out, int K, int columns, int shares) {
    long long p = own_warp() / shares;
    int lane = threadIdx.x & 31, share = int(own_warp() - p * shares);
    if (p >= count) return;
    int row = cut[p];
    long long begin = row < 0 ? 0 : (long long)starts[row];
    long long end = row < 0 ? 0 : (long long)starts[row + 1];
    for (int first = share * AT_ONCE; first < K; first += shares * AT_ONCE) {
        int problems = min(AT_ONCE, K - first);
        double sums[AT_ONCE] = {};
        for (long long e = begin + lane; e < end; e += 32) {
            double value = read(values + e);
            const double *w = W + (long long)first * columns + indices[e];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (k < problems) sums[k] += value * w[(long long)k * columns];
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            double sum = warp_sum(sums[k]);
            if (lane == 0 && k < problems) out[(long long)(first + k) * count + p] = sum;
        }
    }
}

// out[k] += sum_p coefficients[k][p] x_i for i = cut[p], by atomic additions: in no fixed order.
// Column j is at `place_of` (strips.cuh).
extern "C" __global__ void csr_combine(
    CSR, const int *__restrict__ cut, int count, const double *__restrict__ coefficients,
    double *__restrict__ out, int K, int strip) {
    long long p = own_warp();
    if (p >= count) return;
    int row = cut[p];
    if (row < 0) return;
    for (int k = 0; k < K; k++) {
        double coefficient = coefficients[(long long)k * count + p];
        if (coefficient == 0) continue;
        double *to = out + (long long)k * STRIPS * strip;
        for (long long e = starts[row] + (threadIdx.x & 31); e < starts[row + 1]; e += 32)
            atomicAdd(to + place_of(indices[e], strip), coefficient * read(values + e));
    }
}

// The same, always in the same order, from the columns: `indices` are numbers of rows here, and
// coefficients[k][i] belongs to row i of `rows`.
extern "C" __global__ void csr_columns(
    CSR, const double *__restrict__ coefficients, long long rows, double *__restrict__ out, int K,
    int columns) {
    long long column = own_warp();
    if (column >= columns) return;
    for (int k = 0; k < K; k++) {
        const double *of_rows = coefficients + k * rows;
        double sum = 0;
        for (long long e = starts[column] + (threadIdx.x & 31); e < starts[column + 1]; e += 32)
            sum += read(values + e) * of_rows[indices[e]];
        sum = warp_sum(sum);
        if ((threadIdx.x & 31) == 0) out[(long long)k * columns + column] += sum;
    }
}

// The entries of row chosen[r] to where row r of another matrix begins.
extern "C" __global__ void csr_take(
    CSR, const long long *__restrict__ chosen, const long long *__restrict__ new_starts,
    SOURCE *__restrict__ new_values, INDEX *__restrict__ new_indices, long long rows) {
    long long r = own_warp();
    if (r >= rows) return;
    long long from = starts[chosen[r]], to = new_starts[r], length = new_starts[r + 1] - to;
    for (long long e = threadIdx.x & 31; e < length; e += 32) {
        new_values[to + e] = values[from + e];
        new_indices[to + e] = indices[from + e];
    }
}
