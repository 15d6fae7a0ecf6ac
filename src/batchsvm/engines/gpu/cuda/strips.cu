// Numbers of columns in strips (strips.cuh) to the order of the columns, in float64.

// out[k][j] = that of column j and problem k, added to what is there if `adds`.
extern "C" __global__ void from_strips(
    const SOURCE *__restrict__ in, long long place_stride, long long problem_stride,
    double *__restrict__ out, int K, int columns, int strip, int adds) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (long long)K * columns) return;
    const int k = int(i / columns), j = int(i - (long long)k * columns);
    const double value = read(in + place_of(j, strip) * place_stride + k * problem_stride);
    out[i] = adds ? out[i] + value : value;
}
