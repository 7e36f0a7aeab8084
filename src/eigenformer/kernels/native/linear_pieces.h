// The linear pieces of scalar ReLU networks, and the way back from the pieces to the weights.
//
// On an interval where nothing below it switches, a unit is a line a·x + b. Its root, if it lies
// inside, cuts the interval in two that differ by this unit alone: the lines of the next layer
// change by one column of weights. So two hidden layers of p units cost O(p²), not O(p³). All is
// in float64: knots, slopes and intercepts are exact to their last digit in float32.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "vectors.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// One layer of one network. Arrays over its units are padded with zeros to whole vectors.
struct Layer {
    int64_t units, inputs, vectors;
    v4 *slope, *intercept;          // the lines, on the interval that is being walked through
    v4 *d_slope, *d_intercept;      // their gradients, from that interval
    v4 *sum_slope, *sum_intercept;  // the sums of these over what is done of a longer interval
    v4 *weight, *d_weight;          // [inputs, units]: what one input adds to all units
    v4 *bias, *d_bias;
    v4 *root, *on;  // on: 1 or 0
    int32_t* order;
    Layer(Carver& c, int64_t units_, int64_t inputs_)
        : units(units_), inputs(inputs_), vectors((units_ + kDoubles - 1) / kDoubles) {
        v4** const arrays[] = {&slope,         &intercept, &d_slope, &d_intercept, &sum_slope,
                               &sum_intercept, &bias,      &d_bias,  &root,        &on};
        for (v4** array : arrays) *array = c.take<v4>(vectors);
        weight = c.take<v4>(weight_vectors());
        d_weight = c.take<v4>(weight_vectors());
        order = c.take<int32_t>(units);
    }
    // The last layer has one unit: its weights are a vector over its inputs.
    bool is_last() const { return units == 1 && inputs > 1; }
    int64_t weight_vectors() const {
        return is_last() ? (inputs + kDoubles - 1) / kDoubles : inputs * vectors;
    }
    // Between the network's order, [units, inputs], and that of `weight`.
    template <class From, class To>
    void transpose(const From* from, To* to, bool back) const {
        const int64_t stride = vectors * kDoubles, size = is_last() ? 1 : stride;
        for (int64_t i = 0; i < inputs; i += kDoubles)
            for (int64_t u = 0; u < units; ++u)
                for (int64_t k = i; k < inputs && k < i + kDoubles; ++k) {
                    const int64_t here = u * inputs + k, there = k * size + u;
                    to[back ? here : there] = (To)from[back ? there : here];
                }
    }
};

INLINE double total(v4 x) {
    double sum = 0;
    for (int h = 0; h < kDoubles; ++h) sum += x[h];
    return sum;
}
INLINE double dot(const v4* a, const v4* b, int64_t vectors) {
    v4 sum = {};
    for (int64_t v = 0; v < vectors; ++v) sum += a[v] * b[v];
    return total(sum);
}
INLINE void add(v4* to, const v4* from, double factor, int64_t vectors) {
    for (int64_t v = 0; v < vectors; ++v) to[v] += factor * from[v];
}
INLINE void zero(v4* x, int64_t vectors) { memset(x, 0, vectors * sizeof(v4)); }
INLINE double& at(v4* x, int64_t index) { return ((double*)x)[index]; }

// Walks through the pieces of one function, from low to high.
struct Walk {
    const Networks& n;
    const int64_t function, module, head;
    Layer* layers;
    int64_t segments = 0;  // so far
    bool finite;           // all parameters, and the range

    Walk(const Networks& networks, int64_t f, char* memory)
        : n(networks), function(f), module(f / networks.heads), head(f % networks.heads) {
        Carver carver{memory};
        layers = make_layers(n, carver);
        v4 check = {};  // 0 times anything that is not finite is a NaN
        for (int64_t layer = 0; layer <= n.depth; ++layer) {
            const Layer& l = layers[layer];
            const float* bias = n.biases[parameters(layer)] + head * l.units;
            zero(l.weight, l.weight_vectors());
            zero(l.bias, l.vectors);
            for (int64_t u = 0; u < l.units; ++u) at(l.bias, u) = bias[u];
            l.transpose(n.weights[parameters(layer)] + head * l.units * l.inputs,
                        (double*)l.weight, false);
            for (int64_t v = 0; v < l.weight_vectors(); ++v) check += 0.0 * l.weight[v];
            for (int64_t v = 0; v < l.vectors; ++v) check += 0.0 * l.bias[v];
        }
        finite = total(check) + 0.0 * n.low[function] + 0.0 * n.high[function] == 0.0;
        const Layer& first = layers[0];
        memcpy(first.slope, first.weight, first.vectors * sizeof(v4));
        memcpy(first.intercept, first.bias, first.vectors * sizeof(v4));
    }
    static Layer* make_layers(const Networks& n, Carver& carver) {
        Layer* layers = carver.take<Layer>(n.depth + 1);
        for (int64_t layer = 0; layer <= n.depth; ++layer) {
            const Layer made(carver, layer == n.depth ? 1 : n.width, layer == 0 ? 1 : n.width);
            if (layers) memcpy((void*)(layers + layer), (const void*)&made, sizeof made);
        }
        return layers;
    }
    int64_t parameters(int64_t layer) const { return module * (n.depth + 1) + layer; }

    void forward() {
        if (finite) {
            walk<false>(0, n.low[function], n.high[function]);
        } else {
            at(layers[n.depth].slope, 0) = at(layers[n.depth].intercept, 0) = NAN;
            write(segments++, FLT_MAX);
        }
        // Functions with fewer pieces repeat the last one, beyond the range.
        for (int64_t m = segments; m < n.capacity; ++m)
            write(m, finite ? n.high[function] : FLT_MAX);
    }
    void write(int64_t m, double knot) const {
        if (m >= n.capacity) return;
        const Layer& last = layers[n.depth];
        n.slopes[function * n.capacity + m] = (float)at(last.slope, 0);
        n.intercepts[function * n.capacity + m] = (float)at(last.intercept, 0);
        if (m + 1 < n.capacity) n.knots[function * (n.capacity - 1) + m] = (float)knot;
    }

    void backward() {
        for (int64_t layer = 0; layer <= n.depth; ++layer) {
            zero(layers[layer].d_weight, layers[layer].weight_vectors());
            zero(layers[layer].d_bias, layers[layer].vectors);
        }
        if (finite) walk<true>(0, n.low[function], n.high[function]);
        const Layer& first = layers[0];
        memcpy(first.d_weight, first.d_slope, first.vectors * sizeof(v4));
        memcpy(first.d_bias, first.d_intercept, first.vectors * sizeof(v4));
        for (int64_t layer = 0; layer <= n.depth; ++layer) {
            const Layer& l = layers[layer];
            float* bias = n.d_biases[parameters(layer)] + head * l.units;
            float* weight = n.d_weights[parameters(layer)] + head * l.units * l.inputs;
            if (!finite) {
                for (int64_t i = 0; i < l.units; ++i) bias[i] = NAN;
                for (int64_t i = 0; i < l.units * l.inputs; ++i) weight[i] = NAN;
                continue;
            }
            for (int64_t u = 0; u < l.units; ++u) bias[u] = (float)at(l.d_bias, u);
            l.transpose((const double*)l.d_weight, weight, true);
        }
    }
    // What came back for segment m; for the last one also what came for its repetitions.
    void read_gradient(int64_t m, bool is_last) const {
        const Layer& last = layers[n.depth];
        at(last.d_slope, 0) = at(last.d_intercept, 0) = 0;
        const int64_t end = is_last ? n.capacity : m + 1;
        for (; m < end && m < n.capacity; ++m) {
            at(last.d_slope, 0) += n.slopes[function * n.capacity + m];
            at(last.d_intercept, 0) += n.intercepts[function * n.capacity + m];
        }
    }

    // The interval (low, high), on which the lines of `layer` are known.
    template <bool kBackward>
    void walk(int64_t layer, double low, double high) {
        if (segments > kMostSegments) return;  // the caller refuses them
        if (layer == n.depth) {
            if (kBackward) read_gradient(segments, !(high < n.high[function]));
            else write(segments, high);
            ++segments;
            return;
        }
        const Layer &l = layers[layer], &next = layers[layer + 1];
        const int64_t switches = find_switches(l, low, high);
        start(l, next);
        if (kBackward) {
            zero(l.d_slope, l.vectors);
            zero(l.d_intercept, l.vectors);
            zero(next.sum_slope, next.vectors);
            zero(next.sum_intercept, next.vectors);
        }
        for (int64_t s = 0; s < switches; ++s) {
            const int64_t u = l.order[s];
            walk<kBackward>(layer + 1, low, at(l.root, u));
            low = at(l.root, u);
            const double sign = at(l.on, u) ? -1.0 : 1.0;
            if (kBackward) {
                sum(next);
                // On so far: its share is what was summed. Off so far: the rest, see `finish`.
                share(l, next, u, -sign);
            }
            at(l.on, u) = 1.0 - at(l.on, u);
            add_unit(l, next, u, sign);
        }
        walk<kBackward>(layer + 1, low, high);
        if (kBackward) finish(l, next);
    }

    // Which units are on where the interval starts, and in which order they switch.
    static int64_t find_switches(const Layer& l, double low, double high) {
        const double middle = (low + high) / 2;
        const v4 one = v4{} + 1.0;
        int64_t found = 0;
        for (int64_t v = 0; v < l.vectors; ++v) {
            const v4 a = l.slope[v], b = l.intercept[v], root = -b / a;
            // A unit that never switches has slope 0: its root is infinite or NaN, never inside.
            const l4 inside = (root > low) & (root < high);
            l.root[v] = root;
            l.on[v] = (inside ? a < 0.0 : a * middle + b > 0.0) ? one : v4{};
            if (!any(inside)) continue;
            for (int64_t h = 0; h < kDoubles; ++h) {
                if (!inside[h]) continue;
                int64_t place = found++;
                for (; place > 0 && at(l.root, l.order[place - 1]) > root[h]; --place)
                    l.order[place] = l.order[place - 1];
                l.order[place] = (int32_t)(v * kDoubles + h);
            }
        }
        return found;
    }
    // The next layer's lines: sums over the units that are on.
    static void start(const Layer& l, const Layer& next) {
        if (next.is_last()) {
            v4 slope = {}, intercept = {};
            for (int64_t v = 0; v < l.vectors; ++v) {
                const v4 weight = l.on[v] * next.weight[v];
                slope += weight * l.slope[v];
                intercept += weight * l.intercept[v];
            }
            at(next.slope, 0) = total(slope);
            at(next.intercept, 0) = at(next.bias, 0) + total(intercept);
            return;
        }
        zero(next.slope, next.vectors);
        memcpy(next.intercept, next.bias, next.vectors * sizeof(v4));
        for (int64_t u = 0; u < l.units; ++u)
            if (at(l.on, u)) add_unit(l, next, u, 1.0);
    }
    static void add_unit(const Layer& l, const Layer& next, int64_t u, double sign) {
        const double slope = sign * at(l.slope, u), intercept = sign * at(l.intercept, u);
        if (next.is_last()) {
            at(next.slope, 0) += slope * at(next.weight, u);
            at(next.intercept, 0) += intercept * at(next.weight, u);
            return;
        }
        add(next.slope, next.weight + u * next.vectors, slope, next.vectors);
        add(next.intercept, next.weight + u * next.vectors, intercept, next.vectors);
    }

    static void sum(const Layer& next) {
        add(next.sum_slope, next.d_slope, 1.0, next.vectors);
        add(next.sum_intercept, next.d_intercept, 1.0, next.vectors);
    }
    // The gradients of unit u and of the weights it goes through, from the sums.
    static void share(const Layer& l, const Layer& next, int64_t u, double sign) {
        const double slope = sign * at(l.slope, u), intercept = sign * at(l.intercept, u);
        if (next.is_last()) {
            const double d_slope = at(next.sum_slope, 0), d_intercept = at(next.sum_intercept, 0);
            at(l.d_slope, u) += sign * at(next.weight, u) * d_slope;
            at(l.d_intercept, u) += sign * at(next.weight, u) * d_intercept;
            at(next.d_weight, u) += slope * d_slope + intercept * d_intercept;
            return;
        }
        const v4* weight = next.weight + u * next.vectors;
        at(l.d_slope, u) += sign * dot(weight, next.sum_slope, next.vectors);
        at(l.d_intercept, u) += sign * dot(weight, next.sum_intercept, next.vectors);
        add(next.d_weight + u * next.vectors, next.sum_slope, slope, next.vectors);
        add(next.d_weight + u * next.vectors, next.sum_intercept, intercept, next.vectors);
    }
    // The same for all units that are on at the end.
    static void finish(const Layer& l, const Layer& next) {
        sum(next);
        add(next.d_bias, next.sum_intercept, 1.0, next.vectors);
        if (!next.is_last()) {
            for (int64_t u = 0; u < l.units; ++u)
                if (at(l.on, u)) share(l, next, u, 1.0);
            return;
        }
        const double d_slope = at(next.sum_slope, 0), d_intercept = at(next.sum_intercept, 0);
        for (int64_t v = 0; v < l.vectors; ++v) {
            const v4 weight = l.on[v] * next.weight[v];
            l.d_slope[v] += weight * d_slope;
            l.d_intercept[v] += weight * d_intercept;
            next.d_weight[v] += l.on[v] * (l.slope[v] * d_slope + l.intercept[v] * d_intercept);
        }
    }
};

size_t walk_bytes(const Networks& n) {
    Carver carver{nullptr};
    Walk::make_layers(n, carver);
    return (size_t)carver.at;
}

// The pieces of one function, as far as there is room; returns how many it has.
int64_t linear_pieces(const Networks& n, int64_t function, char* memory) {
    Walk walk(n, function, memory);
    walk.forward();
    return walk.segments;
}

void linear_pieces_backward(const Networks& n, int64_t function, char* memory) {
    Walk(n, function, memory).backward();
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
