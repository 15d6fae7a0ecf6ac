// The joint update over a batch (methods/gram.py) of many problems: serial steps, one thread per
// problem.
//
// In gram.cu a warp works for one problem, and where all rows move, 31 of its threads compute steps
// in vain.  Here no thread does; but none passes over rows at rest either.  A thread takes ROWS rows
// at a time: it adds to their products with w what the steps of all rows before have changed in
// them, and then visits one after another.  There is one sweep, so that a row need not know of those
// after it.  The THREADS problems of a block share the Gram matrix, and leave their steps in shared
// memory: steps[row][thread].

constexpr int ROWS = 8, WIDE = 16 / sizeof(T);
extern __shared__ __align__(16) char shared_memory[];

struct alignas(16) Wide {
    T entries[WIDE];
};

__device__ inline void load(T *to, const T *from) {
#pragma unroll
    for (int j = 0; j < ROWS; j += WIDE) {
        const Wide some = *(const Wide *)(from + j);
#pragma unroll
        for (int e = 0; e < WIDE; e++) to[j + e] = some.entries[e];
    }
}

__device__ inline void store(T *to, const T *from) {
#pragma unroll
    for (int j = 0; j < ROWS; j += WIDE) {
        Wide some;
#pragma unroll
        for (int e = 0; e < WIDE; e++) some.entries[e] = from[j + e];
        *(Wide *)(to + j) = some;
    }
}

// A matrix into shared memory; the thread does not wait for one part before it asks for the next.
__device__ inline void copy_to_shared(T *to, const T *from, int count) {
    for (int j = threadIdx.x * WIDE; j < count; j += THREADS * WIDE) {
#if __CUDA_ARCH__ >= 800
        const unsigned place = unsigned(__cvta_generic_to_shared(to + j));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from + j));
#else
        *(Wide *)(to + j) = *(const Wide *)(from + j);
#endif
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_many(
    const T *__restrict__ products, const T *__restrict__ gram, int gram_is_kept,
    T *__restrict__ alpha, T *__restrict__ fresh, T *__restrict__ changes, T *__restrict__ W,
    int w_stride, int columns, const int *__restrict__ cut, const int *__restrict__ order,
    const int *__restrict__ round, TARGETS, const T *__restrict__ unit,
    const T *__restrict__ bias, const T *__restrict__ betas, double *__restrict__ estimate,
    T *__restrict__ partial, int K, T parameter) {
    const int k = blockIdx.x * THREADS + threadIdx.x, slot = blockIdx.y, batches = gridDim.y;
    const int batch = order[(long long)*round * batches + slot];
    T *G = (T *)shared_memory, *steps = G + B * B + threadIdx.x;
    const long long matrix = gram_is_kept ? max(batch, 0) : slot;
    copy_to_shared(G, gram + matrix * B * B, B * B);
    if (k >= K) return;
    T *changed = changes + ((long long)k * batches + slot) * B;
    T *part = partial + (long long)slot * K + k;
    const long long next_part = (long long)batches * K;
    if (batch < 0) {  // the last round of an epoch may be short of batches
        for (int j = 0; j < B; j++) changed[j] = 0;
        for (int p = 0; p < 4; p++) part[p * next_part] = 0;
        return;
    }
    T *own_alpha = alpha + ((long long)batch * K + k) * B;
    T *own_fresh = fresh ? fresh + ((long long)slot * K + k) * B : own_alpha;
    const T *own_products = products + ((long long)k * batches + slot) * B;
    const T beta = betas[k], bias_k = bias ? bias[k] : T(0), bias2 = bias_k * bias_k;
    const T bias_part = bias ? bias_k * W[(long long)k * w_stride + columns] : T(0);
    const T per_alpha = unit[k];

    T gap = 0, gain = 0, square = 0, spread = 0, total = 0;
    for (int begin = 0; begin < B; begin += ROWS) {
        T first[ROWS], m[ROWS], a[ROWS], v[ROWS];
        Example examples[ROWS];  // asked for before anything is waited for
        load(first, own_products + begin), load(a, own_alpha + begin);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int row = cut[(long long)batch * B + begin + r];
            examples[r] = example_of(TARGETS_PASSED, max(row, 0), k);
            if (row < 0) examples[r].weight = 0;
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            first[r] += bias_part;
            m[r] = first[r] + bias2 * beta * total;
        }
#pragma unroll 4
        for (int j = 0; j < begin; j++) {
            const T step = steps[j * THREADS];
            T g[ROWS];
            load(g, G + j * B + begin);
#pragma unroll
            for (int r = 0; r < ROWS; r++) m[r] += step * g[r];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int place = begin + r;
            const Example e = examples[r];
            v[r] = 0;
            if (e.weight > 0) {
                const T length2 = G[place * B + place] + bias2, old = a[r];
                const T response = e.sign * first[r] - e.offset;  // before the steps of this round
                const T conjugate = loss_conjugate(old, parameter);
                gap += e.weight * (loss_value(response, parameter) + conjugate + old * response);
                const T q = max(beta * length2 * e.weight * per_alpha, T(TINY));
                a[r] = loss_dual_step(old, e.sign * m[r] - e.offset, q, parameter);
                const T move = a[r] - old;
                if (move != 0) {
                    v[r] = e.sign * e.weight * move * per_alpha;
                    // v' G v, of which this row adds its own and its products with those before.
                    square += v[r] * (2 * (m[r] - first[r]) / beta + v[r] * length2);
                    spread += e.weight * move * move;
                    gain += e.weight * (conjugate - loss_conjugate(a[r], parameter) -
                                        move * response);
                    total += v[r];
                }
            }
            const T step = beta * v[r];
            steps[place * THREADS] = step;
#pragma unroll
            for (int after = r + 1; after < ROWS; after++)
                m[after] += step * (G[place * B + begin + after] + bias2);
        }
        store(changed + begin, v), store(own_fresh + begin, a);
    }
    estimate[(long long)slot * K + k] += gap;
    part[0] = gain, part[next_part] = square;
    part[2 * next_part] = spread, part[3 * next_part] = total;
    if (bias && !fresh) W[(long long)k * w_stride + columns] += bias_k * total;
}
