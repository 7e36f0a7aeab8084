// The structures in words, which the Python side compares with its own before the first call.
//
// Part of library.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "structures.h"

namespace eigenformer {
namespace {

template <class Field>
const char* kind() {
    if (std::is_pointer<Field>::value) return "pointer";
    if (std::is_floating_point<Field>::value) return "float";
    return std::is_signed<Field>::value ? "int" : "uint";
}

// "name offset size kind", one field a line, below "Structure size".
class Layout {
public:
    void begin(const char* name, size_t size) {
        text += std::string(name) + ' ' + std::to_string(size) + '\n';
    }
    template <class Field>
    void field(const char* name, size_t offset) {
        text += std::string("  ") + name + ' ' + std::to_string(offset) + ' ' +
                std::to_string(sizeof(Field)) + ' ' + kind<Field>() + '\n';
    }
    std::string text;
};

// A field that is missing here shows as a gap between the others, or as a size that differs.
#define BEGIN(structure) layout.begin(#structure, sizeof(structure))
#define FIELD(structure, name) layout.field<decltype(structure::name)>(#name, offsetof(structure, name))

std::string describe_structures() {
    Layout layout;
    BEGIN(AttentionCall);
    FIELD(AttentionCall, graphs);
    FIELD(AttentionCall, nodes);
    FIELD(AttentionCall, frequencies);
    FIELD(AttentionCall, heads);
    FIELD(AttentionCall, channels);
    FIELD(AttentionCall, segments);
    FIELD(AttentionCall, edges);
    FIELD(AttentionCall, edge_kinds);
    FIELD(AttentionCall, factors);
    FIELD(AttentionCall, entries);
    FIELD(AttentionCall, first_node);
    FIELD(AttentionCall, first_frequency);
    FIELD(AttentionCall, first_edge);
    FIELD(AttentionCall, edge_source);
    FIELD(AttentionCall, edge_kind);
    FIELD(AttentionCall, edge_coefficients);
    FIELD(AttentionCall, eigenvectors);
    FIELD(AttentionCall, importance);
    FIELD(AttentionCall, knots);
    FIELD(AttentionCall, slopes);
    FIELD(AttentionCall, intercepts);
    FIELD(AttentionCall, values);
    FIELD(AttentionCall, queries);
    FIELD(AttentionCall, keys);
    FIELD(AttentionCall, edge_logits);
    FIELD(AttentionCall, edge_values);
    FIELD(AttentionCall, seed);
    FIELD(AttentionCall, dropout);
    FIELD(AttentionCall, psi);
    FIELD(AttentionCall, shared_kinds);
    FIELD(AttentionCall, threads);
    FIELD(AttentionCall, out);
    FIELD(AttentionCall, maximum);
    FIELD(AttentionCall, inverse);
    BEGIN(Gradients);
    FIELD(Gradients, d_out);
    FIELD(Gradients, importance);
    FIELD(Gradients, slopes);
    FIELD(Gradients, intercepts);
    FIELD(Gradients, values);
    FIELD(Gradients, queries);
    FIELD(Gradients, keys);
    FIELD(Gradients, edge_logits);
    FIELD(Gradients, edge_values);
    BEGIN(FilterCall);
    FIELD(FilterCall, graphs);
    FIELD(FilterCall, nodes);
    FIELD(FilterCall, frequencies);
    FIELD(FilterCall, filters);
    FIELD(FilterCall, channels);
    FIELD(FilterCall, entries);
    FIELD(FilterCall, first_node);
    FIELD(FilterCall, first_frequency);
    FIELD(FilterCall, eigenvectors);
    FIELD(FilterCall, importance);
    FIELD(FilterCall, values);
    FIELD(FilterCall, modes);
    FIELD(FilterCall, out);
    FIELD(FilterCall, d_importance);
    FIELD(FilterCall, threads);
    BEGIN(GateCall);
    FIELD(GateCall, graphs);
    FIELD(GateCall, nodes);
    FIELD(GateCall, channels);
    FIELD(GateCall, edges);
    FIELD(GateCall, rows);
    FIELD(GateCall, factors);
    FIELD(GateCall, first_node);
    FIELD(GateCall, first_edge);
    FIELD(GateCall, edge_source);
    FIELD(GateCall, edge_row);
    FIELD(GateCall, coefficients);
    FIELD(GateCall, target);
    FIELD(GateCall, source);
    FIELD(GateCall, values);
    FIELD(GateCall, edge);
    FIELD(GateCall, out);
    FIELD(GateCall, sums);
    FIELD(GateCall, d_out);
    FIELD(GateCall, d_target);
    FIELD(GateCall, d_source);
    FIELD(GateCall, d_values);
    FIELD(GateCall, d_edge);
    FIELD(GateCall, shared_rows);
    FIELD(GateCall, threads);
    BEGIN(Evaluation);
    FIELD(Evaluation, functions);
    FIELD(Evaluation, segments);
    FIELD(Evaluation, count);
    FIELD(Evaluation, heads);
    FIELD(Evaluation, x);
    FIELD(Evaluation, knots);
    FIELD(Evaluation, slopes);
    FIELD(Evaluation, intercepts);
    FIELD(Evaluation, y);
    FIELD(Evaluation, d_slopes);
    FIELD(Evaluation, d_intercepts);
    BEGIN(Networks);
    FIELD(Networks, functions);
    FIELD(Networks, heads);
    FIELD(Networks, width);
    FIELD(Networks, depth);
    FIELD(Networks, capacity);
    FIELD(Networks, weights);
    FIELD(Networks, biases);
    FIELD(Networks, low);
    FIELD(Networks, high);
    FIELD(Networks, knots);
    FIELD(Networks, slopes);
    FIELD(Networks, intercepts);
    FIELD(Networks, d_weights);
    FIELD(Networks, d_biases);
    FIELD(Networks, threads);
    return layout.text;
}

#undef BEGIN
#undef FIELD

}  // namespace
}  // namespace eigenformer
