// The largest |x_ij| of every column, over sparse or dense rows; one warp per row.
//
// What SOURCE, INDEX, START and DENSE are is defined by whoever compiles this.

extern "C" __global__ void column_peaks(
    const SOURCE *__restrict__ values, const INDEX *__restrict__ indices,
    const START *__restrict__ starts, unsigned long long *out, long long rows, int columns) {
    const long long row = ((long long)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (row >= rows) return;
    const long long begin = DENSE ? row * columns : (long long)starts[row];
    const long long end = DENSE ? begin + columns : (long long)starts[row + 1];
    for (long long e = begin + (threadIdx.x & 31); e < end; e += 32) {
        // Numbers that are not negative are in the order of their bits.
        const unsigned long long size = __double_as_longlong(abs(double(read(values + e))));
        unsigned long long *to = out + (DENSE ? e - begin : (long long)indices[e]);
        if (size > *(volatile unsigned long long *)to) atomicMax(to, size);
    }
}
