// Products with rows where they lie, for few problems: no work space, and X is read twice a round.
// Without an order, the rows are those of the cut, one batch after another.

__device__ inline int row_at(
    const int *cut, const int *order, const int *round, int place, int batch_rows, int batches) {
    if (!order) return cut[place];
    int batch = order[(long long)*round * batches + place / batch_rows];
    return batch < 0 ? -1 : cut[(long long)batch * batch_rows + place % batch_rows];
}

// <w_k, x_i> for the rows of the batches of a round, one warp per row: out[k][place].
extern "C" __global__ void row_products(
    const SOURCE *__restrict__ X, const T *__restrict__ W, int w_stride,
    const int *__restrict__ cut, const int *__restrict__ order, const int *__restrict__ round,
    T *__restrict__ out, int batch_rows, int batches, int columns, int K) {
    int place = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    int places = batch_rows * batches;
    if (place >= places) return;
    int row = row_at(cut, order, round, place, batch_rows, batches);
    for (int k = 0; k < K; k++) {
        T sum = 0;
        if (row >= 0) {
            const SOURCE *x = X + (long long)row * columns;
            const T *w = W + (long long)k * w_stride;
#pragma unroll 8
            for (int j = lane; j < columns; j += 32) sum += T(read(x + j)) * w[j];
        }
        sum = warp_sum(sum);
        if (lane == 0) out[(long long)k * places + place] = sum;
    }
}

// The sum of v_i x_i over one part of the rows of a round: out[part][k][column].
// Parts are added up by `finish`, always in the same order.
extern "C" __global__ void add_rows(
    const SOURCE *__restrict__ X, const T *__restrict__ changes, const int *__restrict__ cut,
    const int *__restrict__ order, const int *__restrict__ round, T *__restrict__ out,
    int batch_rows, int batches, int columns, int K) {
    int places = batch_rows * batches, per_part = (places + gridDim.x - 1) / gridDim.x;
    int first = blockIdx.x * per_part, stop = min(first + per_part, places);
    int column = blockIdx.y * blockDim.x + threadIdx.x, k = blockIdx.z;
    if (column >= columns) return;
    T sum = 0;
    for (int place = first; place < stop; place++) {
        T v = changes[(long long)k * places + place];
        if (v == 0) continue;
        long long row = row_at(cut, order, round, place, batch_rows, batches);
        sum += v * T(read(X + row * columns + column));
    }
    out[((long long)blockIdx.x * K + k) * columns + column] = sum;
}
