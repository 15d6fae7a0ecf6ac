// Numbers of X, which may have 16, 32 or 64 bits.

__device__ inline double read(const double *x) { return *x; }
__device__ inline float read(const float *x) { return *x; }
#ifdef HALF
struct Half { unsigned short bits; };
__device__ inline float read(const Half *x) {
    float value;
#if HALF == 16  // float16
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x->bits));
#else  // bfloat16 is the upper half of a float32
    value = __uint_as_float((unsigned int)x->bits << 16);
#endif
    return value;
}
#endif
