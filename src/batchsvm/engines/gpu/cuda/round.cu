// The end of a round of several batches: beta, theta, w and alpha (methods/gram.py).

// One block per problem.  D holds what the batches change w by, without the bias entry, in parts
// that are added up here; the sum is left in the first.
extern "C" __global__ void finish(
    T *__restrict__ W, T *__restrict__ D, const T *__restrict__ partial,
    T *__restrict__ betas, T *__restrict__ thetas, int *__restrict__ refused,
    const T *__restrict__ unit, const T *__restrict__ bias, int K, int batches, int columns,
    int w_stride, int parts, T gamma, T curvature) {
    __shared__ T shared_theta, shared_bias_change;
    int k = blockIdx.x;
    T *change = D + (long long)k * columns;
    long long next_d = (long long)K * columns;
    T *w = W + (long long)k * w_stride;
    T square = 0;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) {
        T sum = 0;
#pragma unroll 8
        for (int p = 0; p < parts; p++) sum += change[p * next_d + j];
        change[j] = sum;
        square += sum * sum;
    }
    square = block_sum(square);
    if (threadIdx.x == 0) {
        T gain = 0, squares = 0, spread = 0, total = 0;
        const T *part = partial + k;
        long long next_part = (long long)batches * K;
        for (int s = 0; s < batches; s++, part += K) {
            gain += part[0], squares += part[next_part];
            spread += part[2 * next_part], total += part[3 * next_part];
        }
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
        thetas[k] = shared_theta = theta;
        shared_bias_change = bias_change;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < columns; j += blockDim.x) w[j] += shared_theta * change[j];
    if (threadIdx.x == 0 && bias) w[columns] += shared_theta * shared_bias_change;
}

// alpha += theta (fresh - alpha) for the batches of the round.
extern "C" __global__ void apply(
    T *__restrict__ alpha, const T *__restrict__ fresh, const T *__restrict__ thetas,
    const int *__restrict__ order, const int *__restrict__ round, int K, int batch_rows) {
    int slot = blockIdx.y, batches = gridDim.y;
    int batch = order[(long long)*round * batches + slot];
    long long entry = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (batch < 0 || entry >= (long long)K * batch_rows) return;
    T theta = thetas[entry / batch_rows];
    T *to = alpha + (long long)batch * K * batch_rows + entry;
    T next = fresh[(long long)slot * K * batch_rows + entry];
    *to = theta < 1 ? *to + theta * (next - *to) : next;
}

extern "C" __global__ void advance(int *round) { *round += 1; }
