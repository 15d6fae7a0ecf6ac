// Sums over the threads of a warp and of a block, always in the same order.

template <typename V>
__device__ inline V warp_sum(V value) {
    for (int offset = 16; offset; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

// The sum over a block of up to 1024 threads; each of them has it.
template <typename V>
__device__ inline V block_sum(V value) {
    __shared__ V parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    value = warp_sum(value);
    __syncthreads();  // the last sum has been read
    if (lane == 0) parts[warp] = value;
    __syncthreads();
    value = lane < warps ? parts[lane] : V(0);
    return warp_sum(value);
}
