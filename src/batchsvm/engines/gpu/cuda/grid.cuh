// All blocks of a cooperative launch wait for all.  The highest bit of `arrived` flips when the
// last one has come.

__device__ inline void wait_for_all(unsigned *arrived) {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned one = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        __threadfence();
        unsigned before = atomicAdd(arrived, one);
        while (((before ^ *(volatile unsigned *)arrived) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
}
