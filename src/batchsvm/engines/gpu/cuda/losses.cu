// The formulas of one loss over arrays, for the tests that compare them with NumPy's.
extern "C" __global__ void formulas(
    const T *a, const T *alpha, const T *q, T *value, T *subgradient, T *conjugate, T *step,
    int count, T parameter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    value[i] = loss_value(a[i], parameter);
    subgradient[i] = loss_subgradient(a[i], parameter);
    conjugate[i] = loss_conjugate(alpha[i], parameter);
    step[i] = loss_dual_step(alpha[i], a[i], q[i], parameter);
}
