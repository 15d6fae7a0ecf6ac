// Products with rows where they lie, for few problems: no work space, and X is read twice a round.
// Without an order, the rows are those of the cut, one batch after another.

__device__ inline int row_at(
    const int *cut, const int *order, const int *round, int place, int batch_rows, int batches) {
    if (!order) return cut[place];
    int batch = order[(long long)*round * batches + place / batch_rows];
    return batch < 0 ? -1 : cut[(long long)batch * batch_rows + place % batch_rows];
}

// So many numbers of a row are on their way at the same time: a thread would wait for each otherwise.
constexpr int ENTRIES = 12, ROWS = 8;

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
            for (int first = lane; first < columns; first += 32 * ENTRIES) {
                T entry[ENTRIES];
#pragma unroll
                for (int e = 0; e < ENTRIES; e++) {
                    const int j = first + 32 * e;
                    entry[e] = j < columns ? T(read(x + j)) * w[j] : T(0);
                }
#pragma unroll
                for (int e = 0; e < ENTRIES; e++) sum += entry[e];
            }
        }
        sum = warp_sum(sum);
        if (lane == 0) out[(long long)k * places + place] = sum;
    }
}

// The sum of v_i x_i over one part of the rows of a round: out[part][k][column].
// Parts are added up by `finish`, always in the same order.  Each lane of a warp knows v and the
// number of one of 32 rows, and those with v = 0 are left out.
extern "C" __global__ void add_rows(
    const SOURCE *__restrict__ X, const T *__restrict__ changes, const int *__restrict__ cut,
    const int *__restrict__ order, const int *__restrict__ round, T *__restrict__ out,
    int batch_rows, int batches, int columns, int K) {
    int places = batch_rows * batches, per_part = (places + gridDim.x - 1) / gridDim.x;
    int first = blockIdx.x * per_part, stop = min(first + per_part, places);
    int column = blockIdx.y * blockDim.x + threadIdx.x, k = blockIdx.z, lane = threadIdx.x & 31;
    const SOURCE *own = X + min(column, columns - 1);
    T sum = 0;
    for (; first < stop; first += 32) {
        const int place = first + lane;
        const T v = place < stop ? changes[(long long)k * places + place] : T(0);
        const int row =
            place < stop ? row_at(cut, order, round, place, batch_rows, batches) : -1;
        unsigned moved = __ballot_sync(~0u, v != 0);
        while (moved) {
            T term[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int from = moved ? __ffs(moved) - 1 : 0;
                const T factor = __shfl_sync(~0u, v, from);
                const long long number = __shfl_sync(~0u, row, from);
                term[r] = moved ? factor * T(read(own + number * columns)) : T(0);
                moved &= moved - 1;
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) sum += term[r];
        }
    }
    if (column < columns) out[((long long)blockIdx.x * K + k) * columns + column] = sum;
}
