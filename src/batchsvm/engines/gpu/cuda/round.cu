// The end of a round of several batches: beta, theta, w and alpha (methods/gram.py).

// One block per problem.  D holds what the batches change w by, without the bias entry, in parts
// that are added up here; the sum is left in the first.  The last block to end goes on to the next
// round.
extern "C" __global__ void finish(
    T *__restrict__ W, T *__restrict__ D, const T *__restrict__ partial,
    T *__restrict__ betas, int *__restrict__ refused, T *__restrict__ alpha,
    const T *__restrict__ fresh, const int *__restrict__ order, int *round, int *ticket,
    const T *__restrict__ unit, const T *__restrict__ bias, int K, int batches, int batch_rows,
    int columns, int w_stride, int parts, T gamma, T curvature) {
    __shared__ T shared_theta, shared_bias_change;
    int k = blockIdx.x;
    T *change = D + (long long)k * columns;
    long long next_d = (long long)K * columns;
    T *w = W + (long long)k * w_stride;
    T square = 0;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) {
        T sum = 0;
#pragma unroll 32
        for (int p = 0; p < parts; p++) sum += change[p * next_d + j];
        change[j] = sum;
        square += sum * sum;
    }
    square = block_sum(square);
    T gain = 0, squares = 0, spread = 0, total = 0;
    if (threadIdx.x < 32) {  // one warp: a thread alone would wait for one batch after another
        long long next_part = (long long)batches * K;
        for (int s = threadIdx.x; s < batches; s += 32) {
            const T *part = partial + (long long)s * K + k;
            gain += part[0], squares += part[next_part];
            spread += part[2 * next_part], total += part[3 * next_part];
        }
        gain = warp_sum(gain), squares = warp_sum(squares);
        spread = warp_sum(spread), total = warp_sum(total);
    }
    if (threadIdx.x == 0) {
        T bias_change = bias ? bias[k] * total : T(0);
        square += bias_change * bias_change;
        T first_order = gain + curvature * spread / 2;
        T quadratic = square / unit[k] + curvature * spread;
        T theta = 1;
        if (batches > 1 && first_order < T(ALMOST_ONE) * quadratic)
            theta = max(first_order / quadratic, T(0.5) / batches);
        if (batches > 1 && squares > 0) {
            T rho = min(max(square / squares, T(1)), T(batches));
            betas[k] = pow(betas[k], gamma) * pow(rho, 1 - gamma);
        }
        refused[k] += theta < 1;
        shared_theta = theta;
        shared_bias_change = bias_change;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < columns; j += blockDim.x) w[j] += shared_theta * change[j];
    if (threadIdx.x == 0 && bias) w[columns] += shared_theta * shared_bias_change;
    const int *own = order + (long long)*round * batches;
    for (int entry = threadIdx.x; entry < batches * batch_rows; entry += blockDim.x) {
        int slot = entry / batch_rows, place = entry - slot * batch_rows, batch = own[slot];
        if (batch < 0) continue;
        T *to = alpha + ((long long)batch * K + k) * batch_rows + place;
        T next = fresh[((long long)slot * K + k) * batch_rows + place];
        *to = shared_theta < 1 ? *to + shared_theta * (next - *to) : next;
    }
    __syncthreads();  // all have read the round
    if (threadIdx.x == 0 && atomicAdd(ticket, 1) == K - 1) {
        *ticket = 0;
        *round += 1;
    }
}

// The next round, where no `finish` has ended this one.
extern "C" __global__ void advance(int *round) { *round += 1; }
