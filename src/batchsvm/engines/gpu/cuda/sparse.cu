// Mini-batch steps of one problem (methods/sdca.py, methods/pegasos.py): many iterations in one
// launch, over sparse or dense rows.
//
// All blocks are resident at the same time (a cooperative launch) and wait for each other twice in
// an iteration.  First, each warp takes rows of the batch, computes their steps at the same w, and
// adds what they change to `delta`, with atomic additions whose results nobody waits for.  Then all
// threads pass over w, which takes the change; and `delta` is cleared.
//
// A launch may take several epochs, and ends after the first one that has shown a gap within the
// target.  The same warp has a row in each of them, and alpha needs no waiting of its own.  The
// adaptive rule moves w and alpha before it knows whether D has risen, and takes a step that it has
// to refuse back, which costs a third wait; it clears `delta` during the next iteration, which has
// another.
//
// Floating-point additions in no fixed order round differently each time.  With DETERMINISTIC,
// `delta` is made of integers, whose additions round nothing: entry j in units of 1/scales[j], a
// power of two by which no sum can overflow (fixed_point.py).  Sums over blocks are then added up
// in the order of the blocks, by each of them.
//
// What RULE, SOURCE, INDEX, START, DENSE and DETERMINISTIC are is defined by whoever compiles this.

enum Rule { FIXED, ADAPTIVE, PEGASOS };
// Numbers that stay, numbers that a launch leaves to the next one, and sums over an iteration; in
// the order of sparse_kernels.py.
enum Setting { UNIT, BIAS, LEAST_NORM2, BETA_B, GAMMA, LAM, SHARE, RADIUS, PARAMETER, LIMIT };
enum Control { BETA, REFUSED, ESTIMATE, TURN, ITERATIONS, SHRINK, SHOWN, DONE };
enum Sum { GAIN, SPREAD, TOTAL, SQUARE, GAPS, SUMS };

constexpr double AFTER_REFUSAL = 1.5;  // beta grows by it

struct Row {
    const SOURCE *values;
    const INDEX *indices;
    int length;
    __device__ T value(int k) const { return T(read(values + k)); }
    __device__ long long column(int k) const { return DENSE ? (long long)k : indices[k]; }
};

__device__ inline Row row_of(
    const SOURCE *__restrict__ values, const INDEX *__restrict__ indices,
    const START *__restrict__ starts, int row, int columns) {
    if (DENSE) return {values + (long long)row * columns, nullptr, columns};
    long long begin = starts[row];
    return {values + begin, indices + begin, int((long long)starts[row + 1] - begin)};
}

#if DETERMINISTIC
typedef long long Entry;  // of delta
constexpr int PLACES = 1024;  // of blocks, for each sum

__device__ inline void add_to(Entry *to, T coefficient, T value, double scale) {
    const Entry term = __double2ll_rn(double(coefficient) * value * scale);
    atomicAdd((unsigned long long *)to, (unsigned long long)term);
}
__device__ inline T change_of(Entry entry, double scale) { return T(double(entry) / scale); }

// Sums over all threads of all blocks: what each gives, and after a wait what all have given.
__device__ inline void give(double value, double *sums, Sum which) {
    value = block_sum(value);
    if (threadIdx.x == 0) sums[which * PLACES + blockIdx.x] = value;
}
__device__ inline double given(const double *sums, Sum which) {
    double value = 0;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x)
        value += __ldcg(sums + which * PLACES + b);
    return block_sum(value);  // which every thread has
}
#else
typedef T Entry;
constexpr int PLACES = 1;

__device__ inline void add_to(Entry *to, T coefficient, T value, double) {
    atomicAdd(to, coefficient * value);
}
__device__ inline T change_of(Entry entry, double) { return entry; }

__device__ inline void give(double value, double *sums, Sum which) {
    value = block_sum(value);
    if (threadIdx.x == 0 && value != 0) atomicAdd(sums + which, value);
}
__device__ inline double given(const double *sums, Sum which) { return __ldcg(sums + which); }
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) train(
    const SOURCE *__restrict__ values, const INDEX *__restrict__ indices,
    const START *__restrict__ starts, const double *__restrict__ norms2,
    const int *__restrict__ cut, const int *__restrict__ order, int first, int count,
    int batches, int batch_rows, double target, TARGETS, const double *__restrict__ settings,
    const double *__restrict__ scales, int columns, int length, T *w, Entry *deltas, T *alpha,
    T *before, double *control, double *sums, unsigned *arrived) {
    const int lane = threadIdx.x & 31;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long warp = thread >> 5, warps = threads >> 5;
    const T unit = T(settings[UNIT]), parameter = T(settings[PARAMETER]);
    const double bias = settings[BIAS], bias2 = bias * bias, least_norm2 = settings[LEAST_NORM2];
    const double beta_b = settings[BETA_B], radius = settings[RADIUS], lam = settings[LAM];
    const bool projects = radius > 0;
    const T limit = T(settings[LIMIT]);
    double beta = control[BETA], refused = control[REFUSED], iterations = control[ITERATIONS];
    double shrink = control[SHRINK], estimate = control[ESTIMATE], shown = control[SHOWN];
    double gaps = 0;  // of the rows of this thread, since `estimate`
    int turn = int(control[TURN]), step = 0;
    const auto scale_of = [=](long long j) { return DETERMINISTIC ? scales[j] : 1.0; };

    for (bool is_enough = false; step < count && !is_enough; step++) {
        Entry *delta = deltas + (long long)turn * columns;
        double *own = sums + turn * SUMS * PLACES;
        const bool ends_epoch = (first + step + 1) % batches == 0;
        const bool shows = RULE != PEGASOS && (ends_epoch || step + 1 == count);
        const long long base = (long long)order[first + step] * batch_rows;
        const T scale = RULE == PEGASOS ? T(shrink / (lam * max(iterations, 1.0))) : T(1);
        const T w_bias = length > columns ? T(bias) * w[columns] : T(0);
        double gain = 0, spread = 0, total = 0;

        for (long long place = warp; place < batch_rows; place += warps) {
            const int row = cut[base + place];
            if (row < 0) continue;  // the last batch may be short of rows
            const Row x = row_of(values, indices, starts, row, columns);
            const Example e = example_of(TARGETS_PASSED, row, 0);
            const T old = alpha[base + place];
            const double norm2 = norms2[row] + bias2;
            T product = 0;
            for (int k = lane; k < x.length; k += 32) product += x.value(k) * w[x.column(k)];
            product = scale * (warp_sum(product) + w_bias);
            const T response = e.sign * product - e.offset;
            T best = old, coefficient = 0;
            if (e.weight > 0) {
                if (RULE == PEGASOS) {
                    T slope = loss_subgradient(response, parameter);
                    if (DETERMINISTIC) slope = min(max(slope, -limit), limit);
                    best = old - slope;
                    coefficient = -T(settings[SHARE]) * e.sign * e.weight * slope;
                } else {
                    T length2 = T(max(norm2, least_norm2));
                    T q = max(T(beta) * length2 * e.weight * unit, T(TINY));
                    best = loss_dual_step(old, response, q, parameter);
                    // A shorter step raises D as well.
                    if (DETERMINISTIC && best - old > limit) best = old + limit;
                    if (DETERMINISTIC && old - best > limit) best = old - limit;
                    coefficient = e.sign * e.weight * (best - old);
                }
            }
            if (coefficient != 0)
                for (int k = lane; k < x.length; k += 32) {
                    const long long j = x.column(k);
                    add_to(delta + j, coefficient, x.value(k), scale_of(j));
                }
            if (lane == 0) {
                alpha[base + place] = best;
                if (RULE == ADAPTIVE) before[place] = old;
                total += coefficient;
                // In float64: these are differences of numbers that are almost equal.
                const double c = e.weight, a = response, p = parameter, from = old, to = best;
                if (RULE != PEGASOS && c > 0)
                    gaps += c * (loss_value(a, p) + loss_conjugate(from, p) + from * a);
                if (RULE == ADAPTIVE && coefficient != 0) {
                    const double change = c * (to - from);
                    spread += max(norm2, least_norm2) * change * change;
                    gain += c * (loss_conjugate(from, p) - loss_conjugate(to, p)) - change * a;
                }
            }
        }
        if (RULE == ADAPTIVE) give(gain, own, GAIN), give(spread, own, SPREAD);
        if (length > columns) give(total, own, TOTAL);
        if (shows) give(gaps, own, GAPS), gaps = 0;
        wait_for_all(arrived);

        const T bias_change = length > columns ? T(bias * given(own, TOTAL)) : T(0);
        double square = 0;
        for (long long j = thread; j < length; j += threads) {
            const Entry entry = j < columns ? __ldcg(delta + j) : Entry(0);
            const T change = j < columns ? change_of(entry, scale_of(j)) : bias_change;
            if (RULE == PEGASOS) {
                const T moved = T(shrink) * w[j] + change;
                w[j] = moved;
                square += double(moved) * moved;
            } else if (change != 0) {
                w[j] += unit * change;
                square += double(change) * change;
            }
            if (RULE != ADAPTIVE && entry != 0) delta[j] = 0;
        }
        if (RULE == ADAPTIVE || (RULE == PEGASOS && projects)) give(square, own, SQUARE);
        // Everybody has read these.
        if (!DETERMINISTIC && thread < SUMS) sums[(turn ^ 1) * SUMS + thread] = 0;
        wait_for_all(arrived);

        if (RULE == PEGASOS) {
            iterations += 1;
            shrink = 1;
            if (projects) {
                const double size = sqrt(given(own, SQUARE)), limit = radius * lam * iterations;
                if (size > limit) shrink = limit / size;
            }
        }
        if (RULE == ADAPTIVE) {
            spread = given(own, SPREAD), square = given(own, SQUARE), gain = given(own, GAIN);
            const bool moves = spread > 0;
            const bool refuses = moves && !(gain - settings[UNIT] * square / 2 > 0);
            if (moves) {
                const T rho = T(min(max(square / spread, 1.0), beta_b)), gamma = T(settings[GAMMA]);
                beta = max(pow(T(beta), gamma) * pow(rho, 1 - gamma), T(1));
            }
            if (refuses) beta = min(AFTER_REFUSAL * beta, beta_b), refused += 1;
            for (long long j = thread; j < length; j += threads) {
                const Entry entry = j < columns ? __ldcg(delta + j) : Entry(0);
                const T change = j < columns ? change_of(entry, scale_of(j)) : bias_change;
                if (refuses && change != 0) w[j] -= unit * change;
                if (entry != 0) delta[j] = 0;
            }
            if (refuses) {
                if (lane == 0)  // each warp its own rows, so that nobody has to wait
                    for (long long place = warp; place < batch_rows; place += warps)
                        if (cut[base + place] >= 0) alpha[base + place] = before[place];
                wait_for_all(arrived);
            }
        }
        if (shows) estimate += given(own, GAPS);
        if (ends_epoch) {
            is_enough = RULE != PEGASOS && estimate <= target;
            shown = estimate, estimate = 0;
        }
        turn ^= 1;
    }

    if (thread == 0) {
        control[BETA] = beta, control[REFUSED] = refused, control[TURN] = turn;
        control[ITERATIONS] = iterations, control[SHRINK] = shrink, control[DONE] = step;
        control[ESTIMATE] = estimate, control[SHOWN] = shown;
    }
}
