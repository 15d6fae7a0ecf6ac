// Sums over rows for certificates, in float64, and what alpha multiplies rows by.
//
// A dual point lies batch by batch, then problem by problem: alpha[batch][k][place], relative to
// the weights and put into the box here.  Row `cut[position]` is at `position`; a block of
// positions begins `shift` places after the beginning of a batch.  With ABSOLUTE it is alpha itself.

struct Dual {
    T relative, own;  // alpha / c, and alpha
};

__device__ inline Dual dual_of(
    const ALPHA *__restrict__ alpha, int first_batch, int place, int k, int K, int batch_rows,
    T weight, T lower, T upper) {
    int batch = place / batch_rows;  // of 32 bits: a division of 64 takes as long as all the rest
    long long start = ((long long)(first_batch + batch) * K + k) * batch_rows;
    Dual found = {T(0), T(0)};
    if (weight > 0) {
        T stored = T(alpha[start + (place - batch * batch_rows)]);
        found.relative = min(max(ABSOLUTE ? stored / weight : stored, lower), upper);
        found.own = ABSOLUTE ? stored : found.relative * weight;
    }
    return found;
}

// One block per problem and 2048 positions; out[line][chunk][k], lines as in core/certificate.py.
extern "C" __global__ void point_sums(
    const T *__restrict__ products, const ALPHA *__restrict__ alpha, const int *__restrict__ cut,
    int first_batch, int shift, int count, int batch_rows, TARGETS, const T *__restrict__ lengths,
    const T *__restrict__ bias, const T *__restrict__ w_bias, const T *__restrict__ per_length,
    const T *__restrict__ constant, T relative_error, int K, T lower, T upper, T parameter,
    T *__restrict__ out) {
    int k = blockIdx.y, chunk = blockIdx.x;
    T bias_k = bias ? bias[k] : T(0), bias_part = bias ? bias_k * w_bias[k] : T(0);
    T sums[7] = {0, 0, 0, 0, 0, 0, 0};
    int stop = min(count, (chunk + 1) * CHUNK);
    cut += (long long)first_batch * batch_rows + shift;
    for (int p = chunk * CHUNK + threadIdx.x; p < stop; p += blockDim.x) {
        int row = cut[p];
        if (row < 0) continue;
        Example e = example_of(TARGETS_PASSED, row, k);
        T length = lengths[row];
        if (bias) length = sqrt(length * length + bias_k * bias_k);
        Dual dual =
            dual_of(alpha, first_batch, shift + p, k, K, batch_rows, e.weight, lower, upper);
        T own = dual.own, size = abs(own);
        T a = e.sign * (products[(long long)k * count + p] + bias_part) - e.offset;
        // A convex function over [a - err, a + err] exceeds its value at a by at most err times
        // its steepest slope, which it has at an end.
        T err = per_length[k] * length + relative_error * (abs(a) + abs(e.offset)) + constant[k];
        T slope = max(abs(loss_subgradient(a - err, parameter)),
                      abs(loss_subgradient(a + err, parameter)));
        T linear = own * e.offset, conjugate = e.weight * loss_conjugate(dual.relative, parameter);
        sums[0] += e.weight * loss_value(a, parameter);
        sums[1] += linear - conjugate;
        sums[2] += e.weight * err * slope;
        sums[3] += abs(conjugate) + abs(linear);
        sums[4] += size * length;
        sums[5] += size;
        sums[6] += own != 0;
    }
    for (int line = 0; line < 7; line++) {
        T total = block_sum(sums[line]);
        if (threadIdx.x == 0)
            out[((long long)line * gridDim.x + chunk) * gridDim.y + k] = total;
    }
}

// alpha_i s_i for `count` positions, problem by problem.
extern "C" __global__ void coefficients(
    const ALPHA *__restrict__ alpha, const int *__restrict__ cut, int first_batch, int shift,
    int count, int batch_rows, TARGETS, int K, T lower, T upper, T *__restrict__ out) {
    int k = blockIdx.y;
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= count) return;
    int row = cut[(long long)first_batch * batch_rows + shift + p];
    T value = 0;
    if (row >= 0) {
        Example e = example_of(TARGETS_PASSED, row, k);
        value = e.sign * dual_of(alpha, first_batch, shift + p, k, K, batch_rows, e.weight, lower,
                                 upper).own;
    }
    out[(long long)k * count + p] = value;
}
