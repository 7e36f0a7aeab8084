// Spectrum-aware attention of one graph, eight heads at a time.
//
//   s_ij = Σ_k u_ik u_jk φ₂(λ_k)                    symmetric: computed for one half
//   x_ij = φ₁(s_ij) + ψ(q_i·k_j / √C) + b_ij
//   α_ij = exp(x_ij - m_i) / Σ_j exp(x_ij - m_i)     in tiles, with a running maximum
//   o_i  = Σ_j keep_ij α_ij (v_j + w_ij)
//
// Compiled once per instruction set, see setup.py. For that reason nothing here may be a function
// that the linker shares between them: no standard library beyond C's.

#include "backward.h"
#include "filters.h"
#include "forward.h"
#include "gates.h"
#include "linear_pieces.h"

#define EIGENFORMER_STRING2(x) #x
#define EIGENFORMER_STRING(x) EIGENFORMER_STRING2(x)

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

size_t state_bytes(const AttentionCall& p, int64_t nodes, int64_t frequencies, bool is_backward) {
    const Shape shape(p, nodes, frequencies);
    Carver carver{nullptr};
    if (is_backward) BackwardState(carver, p, shape);
    else ForwardState(carver, shape);
    return (size_t)carver.at;
}

size_t scratch_bytes(const AttentionCall& p, int64_t nodes, int64_t frequencies, bool is_backward) {
    const Shape shape(p, nodes, frequencies);
    Carver carver{nullptr};
    Scratch(carver, p, shape, is_backward);
    return (size_t)carver.at + state_bytes(p, nodes, frequencies, is_backward);
}

}  // namespace

extern const Kernel kernel;
const Kernel kernel = {EIGENFORMER_STRING(EIGENFORMER_TARGET),
                       scratch_bytes,
                       state_bytes,
                       forward,
                       backward,
                       merge_forward,
                       merge_backward,
                       filter_bytes,
                       filter,
                       gate,
                       gate_backward,
                       evaluate,
                       evaluate_backward,
                       walk_bytes,
                       linear_pieces,
                       linear_pieces_backward};

}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
