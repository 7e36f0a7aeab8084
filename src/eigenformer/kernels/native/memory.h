// Aligned memory, and the scratch that each thread keeps.
//
// Part of library.cpp.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

namespace eigenformer {
namespace {

// Aligned memory, all zero if asked for.
class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { std::free(data_); }
    char* reserve(size_t bytes) {
        if (bytes > size_) {
            std::free(data_);
            size_ = 0;
            bytes = (bytes + 63) / 64 * 64;
            data_ = static_cast<char*>(std::aligned_alloc(64, bytes));
            if (!data_) throw std::bad_alloc();
            size_ = bytes;
        }
        return data_;
    }
    float* zeros(size_t floats) {
        float* p = reinterpret_cast<float*>(reserve(floats * sizeof(float) + 64));
        std::memset(p, 0, floats * sizeof(float));
        return p;
    }
    void shrink(size_t bytes) {
        if (size_ > bytes) {
            std::free(data_);
            data_ = nullptr;
            size_ = 0;
        }
    }

  private:
    char* data_ = nullptr;
    size_t size_ = 0;
};

// A thread keeps its scratch between calls, unless it is large.
constexpr size_t kKeepBytes = size_t{16} << 20;
thread_local Memory thread_scratch;

}  // namespace
}  // namespace eigenformer
