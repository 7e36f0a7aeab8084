// Tasks on threads: those of the OpenMP runtime that is already in the process (PyTorch's own),
// found by name, so that a second runtime is never loaded.
//
// Part of library.cpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace eigenformer {
namespace {

using ParallelRegion = void (*)(void (*)(void*), void*, unsigned, unsigned);
ParallelRegion parallel_region() {
#if defined(__unix__) || defined(__APPLE__)
    static const auto region =
        reinterpret_cast<ParallelRegion>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    return region;
#else
    return nullptr;
#endif
}

// Runs task(0) … task(count - 1), each on one of at most `threads` threads.
template <class Task>
void run(int64_t count, int64_t threads, const Task& task) {
    struct Shared {
        const Task& task;
        int64_t count;
        std::atomic<int64_t> next{0};
        std::atomic<bool> failed{false};
        void work() {
            try {
                for (int64_t i; (i = next.fetch_add(1)) < count;) task(i);
            } catch (...) {
                failed = true;
            }
        }
    } shared{task, count};
    threads = std::min(threads, count);
    const auto work = [](void* s) { static_cast<Shared*>(s)->work(); };
    if (threads <= 1) {
        shared.work();
    } else if (parallel_region()) {
        parallel_region()(work, &shared, static_cast<unsigned>(threads), 0);
    } else {
        std::vector<std::thread> pool;
        for (int64_t t = 1; t < threads; ++t) pool.emplace_back(work, &shared);
        shared.work();
        for (auto& thread : pool) thread.join();
    }
    if (shared.failed) throw std::bad_alloc();
}

}  // namespace
}  // namespace eigenformer
