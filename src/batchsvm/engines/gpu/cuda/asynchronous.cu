// Asynchronous steps of K problems over sparse rows (methods/asynchronous.py): many epochs in one
// launch.
//
// Each of `at_once` warps takes rows one after another.  It computes the steps of all problems at
// the W that it finds, and adds what they change to W by atomic additions whose results nobody
// waits for.  The entries of the next row are on their way meanwhile.
//
// W lies column by column of X, the K problems of a column next to each other: a warp works on
// GROUP problems at once (a power of two up to 32), with 32 / GROUP threads for each.  Column j is at
// `place_of` (strips.cuh).
//
// After an epoch all blocks wait for each other, D is compared with what it was, and w and alpha of
// problems whose D has fallen are put back.
//
// What SOURCE, INDEX, START, GROUP, STRIPS and ROUNDING are is defined by whoever compiles this.

// Numbers of the whole launch and lines of numbers of each problem, in the order of
// sparse_kernels.py; sums over an epoch.
enum Control { AT_ONCE, POSITION, EPOCHS, VISITS, ENOUGH };
enum Line { SQUARE, SHOWN, REFUSED, FELL, GOAL };
enum Sum { GAPS, GAIN, SQUARES, SUMS };

constexpr int COPIES = 32;  // of each sum, so that not all warps add to the same place
constexpr long long MANY_ADDITIONS = 8192;  // to few places: more would wait for each other
constexpr int SLOTS = 32 / GROUP, KEPT = 4;  // entries of a row that each thread holds

struct Row {
    int number, length;
    const SOURCE *values;
    const INDEX *indices;
    T value[KEPT];
    int column[KEPT];
};

struct Rows {
    const SOURCE *values;
    const INDEX *indices;
    const START *starts;

    // The row of this number; of its entries, those that a thread holds.
    __device__ Row at(unsigned number, int slot) const {
        Row x;
        x.number = int(number);
        const long long begin = starts[x.number];
        x.length = int((long long)starts[x.number + 1] - begin);
        x.values = values + begin, x.indices = indices + begin;
        for (int m = 0; m < KEPT; m++) {
            const int e = m * SLOTS + slot;
            x.value[m] = e < x.length ? T(read(x.values + e)) : T(0);
            x.column[m] = e < x.length ? int(x.indices[e]) : 0;
        }
        return x;
    }
};

__device__ inline double total_of(const double *sums, Sum which, int k, int K) {
    double value = 0;
    for (int copy = 0; copy < COPIES; copy++)
        value += __ldcg(sums + ((long long)copy * SUMS + which) * K + k);
    return value;
}

// Add what a thread has summed up for one problem, and begin anew.
__device__ inline void add_up(double &gaps, double &gain, double *own, int K) {
    if (gaps != 0) atomicAdd(own + GAPS * K, gaps);
    if (gain != 0) atomicAdd(own + GAIN * K, gain);
    gaps = gain = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) train(
    const SOURCE *__restrict__ values, const INDEX *__restrict__ indices,
    const START *__restrict__ starts, const double *__restrict__ norms2,
    unsigned long long key, unsigned long long first_epoch, long long n, long long visits, TARGETS,
    const T *__restrict__ units, const T *__restrict__ biases,
    double share, T parameter, int K, int columns,
    int strip, long long padded, T *W, T *alpha, T *W_before, T *alpha_before,
    double *control, double *lines, double *sums, unsigned *arrived) {
    const int lane = threadIdx.x & 31, slot = lane / GROUP;
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = (long long)gridDim.x * blockDim.x;
    // The first warps of all blocks come before the second ones.
    const unsigned warp = (threadIdx.x >> 5) * gridDim.x + blockIdx.x;
    const long long places = (long long)STRIPS * strip;
    const Rows rows = {values, indices, starts};
    const long long bias_place = place_of(columns, strip) * K;
    double *own = sums + (warp % COPIES) * SUMS * K;
    long long position = (long long)control[POSITION], left = visits;
    int epochs = 0;
    bool is_enough = false;

    while (left > 0 && !is_enough) {
        const unsigned at_once = unsigned(min((long long)__ldcg(control + AT_ONCE), threads >> 5));
        const unsigned end = unsigned(position + min(left, n - position));
        const Permutation order(key, first_epoch + epochs, unsigned(n));
        double gaps = 0, gain = 0;  // of one problem: a thread has no other where K <= GROUP
        Row next;
        unsigned place = warp < at_once ? unsigned(position) + warp : end;
        if (place < end) next = rows.at(order[place], slot);
        for (; place < end; place += at_once) {
            const Row x = next;
            const double norm2 = norms2[x.number];
            for (int base = 0; base < K; base += GROUP) {
                const int k = base + lane % GROUP;
                const bool is_in = k < K;
                // Everything that is read is asked for before anything is waited for.
                Example example = {T(0), T(0), T(0)};
                T old = 0, found[KEPT], product = 0;
                if (is_in) {
                    example = example_of(TARGETS_PASSED, x.number, k);
                    old = __ldcg(alpha + (long long)x.number * K + k);
                }
                // A place without an entry reads nothing: all of them would read the same column.
                for (int m = 0; m < KEPT; m++) {
                    const bool is_there = is_in && m * SLOTS + slot < x.length;
                    found[m] = is_there ? __ldcg(W + place_of(x.column[m], strip) * K + k) : T(0);
                }
                if (base == 0 && place + at_once < end)
                    next = rows.at(order[place + at_once], slot);
                for (int m = 0; m < KEPT; m++) product += x.value[m] * found[m];
                if (is_in)
                    for (int e = KEPT * SLOTS + slot; e < x.length; e += SLOTS)
                        product += T(read(x.values + e)) *
                                   __ldcg(W + place_of(x.indices[e], strip) * K + k);
                for (int offset = GROUP; offset < 32; offset <<= 1)
                    product += __shfl_xor_sync(~0u, product, offset);
                const T weight = example.weight;
                if (!(weight > 0)) continue;

                const T bias = biases ? biases[k] : T(0);
                if (biases) product += bias * __ldcg(W + bias_place + k);
                const T response = example.sign * product - example.offset;
                const T length2 = T(norm2 + double(bias) * bias);
                const T q = max(length2 * weight * units[k], T(TINY));
                const T best = loss_dual_step(old, response, q, parameter);
                const T change = units[k] * example.sign * weight * (best - old);
                if (change != 0) {
                    for (int m = 0; m < KEPT; m++)
                        if (m * SLOTS + slot < x.length)
                            atomicAdd(W + place_of(x.column[m], strip) * K + k, change * x.value[m]);
                    for (int e = KEPT * SLOTS + slot; e < x.length; e += SLOTS)
                        atomicAdd(W + place_of(x.indices[e], strip) * K + k,
                                  change * T(read(x.values + e)));
                }
                if (slot) continue;
                if (biases && change != 0) atomicAdd(W + bias_place + k, change * bias);
                // In float64: these are differences of numbers that are almost equal.
                const double c = weight, a = response, o = example.offset, p = parameter;
                const double from = old, to = best;
                gaps += c * (loss_value(a, p) + loss_conjugate(from, p) + from * a);
                if (best != old) {
                    alpha[(long long)x.number * K + k] = best;
                    const double conjugates = loss_conjugate(from, p) - loss_conjugate(to, p);
                    gain += c * (conjugates + (to - from) * o);
                }
                if (K > GROUP) add_up(gaps, gain, own + k, K);  // the next problem of this thread
            }
        }
        if (slot == 0 && lane < K) add_up(gaps, gain, own + lane, K);
        left -= end - position, position = end;
        if (position < n) break;  // the next launch goes on here

        // The epoch has ended: ||w||^2 of each problem.  A thread stays with one problem.
        position = 0, epochs++;
        wait_for_all(arrived);
        const long long used = (K == 1 ? threads : min(threads, MANY_ADDITIONS)) / K * K;
        double square = 0;
        if (thread < used)
            for (long long i = thread; i < places * K; i += used) {
                const double w = __ldcg(W + i);
                square += w * w;
            }
        if (K == 1) {
            square = block_sum(square);
            if (threadIdx.x) square = 0;
        }
        if (square != 0)
            atomicAdd(sums + ((thread / K % COPIES) * SUMS + SQUARES) * K + thread % K, square);
        wait_for_all(arrived);

        // One block compares, and says what is to be done.
        if (blockIdx.x == 0) {
            const double infinity = __longlong_as_double(0x7ff0000000000000LL);
            double fallen = 0, reached = 0;
            for (int k = threadIdx.x; k < K; k += blockDim.x) {
                const double after = total_of(sums, SQUARES, k, K) / (2 * double(units[k]));
                const double rise = total_of(sums, GAIN, k, K) - (after - lines[SQUARE * K + k]);
                const bool fell = !(rise >= -ROUNDING * after);
                const double shown = total_of(sums, GAPS, k, K);
                lines[FELL * K + k] = fell;
                if (fell) lines[REFUSED * K + k] += 1, fallen += 1;
                else lines[SQUARE * K + k] = after;
                lines[SHOWN * K + k] = fell ? infinity : shown;
                reached += !fell && shown <= lines[GOAL * K + k];
            }
            fallen = block_sum(fallen), reached = block_sum(reached);
            if (threadIdx.x == 0) {
                if (fallen > 0) control[AT_ONCE] = max(floor(at_once / 2.0), 1.0);
                control[ENOUGH] = reached >= share * K;
            }
        }
        wait_for_all(arrived);
        is_enough = __ldcg(control + ENOUGH) > 0;
        for (long long i = thread; i < padded * K; i += threads) {
            const bool fell = __ldcg(lines + FELL * K + i % K) > 0;
            if (fell) alpha[i] = alpha_before[i];
            else alpha_before[i] = __ldcg(alpha + i);
        }
        for (long long i = thread; i < places * K; i += threads) {
            const bool fell = __ldcg(lines + FELL * K + i % K) > 0;
            if (fell) W[i] = W_before[i];
            else W_before[i] = __ldcg(W + i);
        }
        for (long long i = thread; i < (long long)COPIES * SUMS * K; i += threads) sums[i] = 0;
        wait_for_all(arrived);
    }

    if (thread == 0) {
        control[POSITION] = position, control[EPOCHS] = epochs, control[VISITS] = visits - left;
    }
}
