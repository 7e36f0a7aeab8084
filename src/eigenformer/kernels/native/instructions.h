// The kernels that were compiled, and the best of them for this processor.
//
// Part of library.cpp.
#pragma once

#include <cstring>

#include "structures.h"

namespace eigenformer {

namespace baseline { extern const Kernel kernel; }
#ifdef EIGENFORMER_X86_64_V3
namespace x86_64_v3 { extern const Kernel kernel; }
#endif
#ifdef EIGENFORMER_X86_64_V4
namespace x86_64_v4 { extern const Kernel kernel; }
#endif

namespace {

// Kernel number `index` from the widest instruction set down, null where the processor has none.
constexpr int kKernels = 3;
const Kernel* kernel_at(int index) {
#if defined(EIGENFORMER_X86_64_V3) || defined(EIGENFORMER_X86_64_V4)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#endif
#ifdef EIGENFORMER_X86_64_V4
    if (index == 0 && v3 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
        return &x86_64_v4::kernel;
#endif
#ifdef EIGENFORMER_X86_64_V3
    if (index == 1 && v3) return &x86_64_v3::kernel;
#endif
    return index == 2 ? &baseline::kernel : nullptr;
}

const Kernel* find_kernel(const char* name) {
    for (int index = 0; index < kKernels; ++index)
        if (const Kernel* kernel = kernel_at(index))
            if (!name || !std::strcmp(kernel->name, name)) return kernel;
    return nullptr;
}

const Kernel* active = nullptr;
const Kernel& active_kernel() {
    if (!active) active = find_kernel(nullptr);
    return *active;
}

}  // namespace
}  // namespace eigenformer
