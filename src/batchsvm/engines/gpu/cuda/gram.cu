// The joint update over a batch (methods/gram.py): serial steps, one warp per problem and batch.
//
// The warp holds the batch in registers: lane l has the rows l, l + 32, ...  Rows of 32 at a time
// vote which of them would move.  Those before the first one would not, and nothing has changed
// for them, so that the warp goes to the first that moves: the result is that of visiting all rows
// one after another, and a row at rest costs nothing.  B, the rows of a batch, is a multiple of 32.
// The warps of a block work on the same batch, whose Gram matrix they share where it fits (SHARED).

constexpr int GROUPS = B / 32;
extern __shared__ char shared_memory[];

extern "C" __global__ void solve(
    const T *__restrict__ products, const T *__restrict__ gram, int gram_is_kept,
    T *__restrict__ alpha, T *__restrict__ fresh, T *__restrict__ changes, T *__restrict__ W,
    int w_stride, int columns, const int *__restrict__ cut, const int *__restrict__ order,
    const int *__restrict__ round, TARGETS, const T *__restrict__ unit,
    const T *__restrict__ bias, const T *__restrict__ betas, double *__restrict__ estimate,
    T *__restrict__ partial, int K, int sweeps, T parameter) {
    int lane = threadIdx.x & 31, k = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int slot = blockIdx.y, batches = gridDim.y;
    int batch = order[(long long)*round * batches + slot];
    const T *G = gram + (gram_is_kept ? (long long)max(batch, 0) : (long long)slot) * B * B;
    if (SHARED) {
        constexpr int WIDE = 16 / sizeof(T);  // numbers that are copied at a time
        const float4 *from = (const float4 *)G;
        float4 *to = (float4 *)shared_memory;
        for (int j = threadIdx.x; j < B * B / WIDE; j += blockDim.x) to[j] = from[j];
        __syncthreads();
        G = (const T *)shared_memory;
    }
    if (k >= K) return;
    T *changed = changes + ((long long)k * batches + slot) * B;
    T *part = partial + (long long)slot * K + k;
    long long next_part = (long long)batches * K;
    if (batch < 0) {  // the last round of an epoch may be short of batches
        for (int j = lane; j < B; j += 32) changed[j] = 0;
        if (lane == 0) for (int p = 0; p < 4; p++) part[p * next_part] = 0;
        return;
    }
    T *own_alpha = alpha + ((long long)batch * K + k) * B;
    const T beta = betas[k], bias_k = bias ? bias[k] : T(0), bias2 = bias_k * bias_k;
    const T bias_part = bias ? bias_k * W[(long long)k * w_stride + columns] : T(0);
    const T per_alpha = unit[k];

    T m[GROUPS], first[GROUPS], a[GROUPS], old[GROUPS], sign[GROUPS], weight[GROUPS];
    T offset[GROUPS], q[GROUPS];
    T gap = 0;
#pragma unroll
    for (int r = 0; r < GROUPS; r++) {
        int j = r * 32 + lane, row = cut[(long long)batch * B + j];
        Example e = {T(1), T(0), T(0)};
        if (row >= 0) e = example_of(TARGETS_PASSED, row, k);
        sign[r] = e.sign, weight[r] = e.weight, offset[r] = e.offset;
        first[r] = m[r] = products[((long long)k * batches + slot) * B + j] + bias_part;
        a[r] = old[r] = own_alpha[j];
        q[r] = max(beta * (G[(long long)j * B + j] + bias2) * e.weight * per_alpha, T(TINY));
        T response = e.sign * m[r] - e.offset;
        if (e.weight > 0)
            gap += e.weight * (loss_value(response, parameter) +
                               loss_conjugate(a[r], parameter) + a[r] * response);
    }
    gap = warp_sum(gap);
    if (lane == 0) estimate[(long long)slot * K + k] += gap;

    for (int sweep = 0; sweep < sweeps; sweep++) {
#pragma unroll
        for (int r = 0; r < GROUPS; r++) {
            int next = 0;  // the first row of the group that has not been visited
            while (next < 32) {
                T response = sign[r] * m[r] - offset[r];
                T best = a[r];
                if (weight[r] > 0) best = loss_dual_step(a[r], response, q[r], parameter);
                unsigned movers = __ballot_sync(~0u, lane >= next && best != a[r]);
                if (!movers) break;
                int mover = __ffs(movers) - 1;
                T step = sign[r] * weight[r] * (best - a[r]) * per_alpha * beta;
                step = __shfl_sync(~0u, step, mover);
                if (lane == mover) a[r] = best;
                const T *g = G + (long long)(r * 32 + mover) * B + lane;
#pragma unroll
                for (int u = 0; u < GROUPS; u++) m[u] += step * (g[u * 32] + bias2);
                next = mover + 1;
            }
        }
    }

    T gain = 0, square = 0, spread = 0, total = 0;
    T *own_fresh = fresh ? fresh + ((long long)slot * K + k) * B : own_alpha;
#pragma unroll
    for (int r = 0; r < GROUPS; r++) {
        int j = r * 32 + lane;
        T move = a[r] - old[r], v = sign[r] * weight[r] * move * per_alpha;
        changed[j] = v;
        own_fresh[j] = a[r];
        total += v;
        if (move != 0) {
            square += v * (m[r] - first[r]) / beta;
            spread += weight[r] * move * move;
            gain += weight[r] * (loss_conjugate(old[r], parameter) -
                                 loss_conjugate(a[r], parameter) -
                                 move * (sign[r] * first[r] - offset[r]));
        }
    }
    gain = warp_sum(gain), square = warp_sum(square);
    spread = warp_sum(spread), total = warp_sum(total);
    if (lane == 0) {
        part[0] = gain, part[next_part] = square;
        part[2 * next_part] = spread, part[3 * next_part] = total;
        if (bias && !fresh) W[(long long)k * w_stride + columns] += bias_k * total;
    }
}
