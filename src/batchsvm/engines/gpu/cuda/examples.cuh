// What the problems know of a row: its sign s, its weight c and its offset o (core/problem.py).
//
// Targets of K problems lie problem by problem; a stride of 0 means that one column serves all.
// Column `problems[k]` belongs to problem k of a launch, since problems that are done leave.

struct Example {
    T sign, weight, offset;
};

#define TARGETS                                                                               \
    const int *__restrict__ codes, const T *__restrict__ y, const T *__restrict__ weights,    \
        const T *__restrict__ offsets, long long y_stride, long long weight_stride,           \
        long long offset_stride, const T *__restrict__ constants, const int *__restrict__ problems
#define TARGETS_PASSED \
    codes, y, weights, offsets, y_stride, weight_stride, offset_stride, constants, problems

__device__ inline Example example_of(TARGETS, int row, int k) {
    long long problem = problems[k];
    T value = codes ? (codes[row] == problem ? T(1) : T(-1)) : y[problem * y_stride + row];
    T fixed = constants[k] + (offsets ? offsets[problem * offset_stride + row] : T(0));
    Example found;
    found.weight = weights ? weights[problem * weight_stride + row] : T(1);
    found.sign = CLASSIFICATION ? value : T(1);
    found.offset = (CLASSIFICATION ? T(0) : value) - found.sign * fixed;
    return found;
}
