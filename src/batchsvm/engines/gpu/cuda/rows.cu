// Rows of X: gathered into work space, and their norms.

// out[r] = X[rows[r]], in the numbers of the steps; a row number of -1 gives zeros.
// With an order, the rows are those of the batches of this round: batch `order[round S + s]`.
extern "C" __global__ void gather(
    const SOURCE *__restrict__ X, const int *__restrict__ cut, const int *__restrict__ order,
    const int *__restrict__ round, T *__restrict__ out, int batch_rows, int batches, int columns) {
    int slot = blockIdx.x / batch_rows, place = blockIdx.x % batch_rows;
    int batch = order ? order[(long long)*round * batches + slot] : slot;
    int row = batch < 0 ? -1 : cut[(long long)batch * batch_rows + place];
    T *to = out + (long long)blockIdx.x * columns;
    const SOURCE *from = X + (long long)row * columns;
    for (int j = threadIdx.x; j < columns; j += blockDim.x)
        to[j] = row < 0 ? T(0) : T(read(from + j));
}

// ||x_i||^2 of every row, in float64; one warp per row.
extern "C" __global__ void row_norms2(
    const SOURCE *__restrict__ X, double *__restrict__ out, long long rows, int columns) {
    long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int lane = threadIdx.x & 31;
    if (row >= rows) return;
    const SOURCE *x = X + row * columns;
    double sum = 0;
    for (int j = lane; j < columns; j += 32) {
        double value = read(x + j);
        sum += value * value;
    }
    sum = warp_sum(sum);
    if (lane == 0) out[row] = sum;
}
