// reference/groups/conventions.hpp: the same sizes under each convention, and where they differ.
//
// Model   Sizes (pipeline, data, tensor) become a plan under the common mode names "data", "pipeline", "tensor" and
//         "model" (all ranks of one data index). deepspeed, torch, megatron and plumbline put tensor fastest, then
//         data, then pipeline; colossalai puts data slowest. They create modes in different orders, so a program of one
//         that meets a program of another hangs even where the lists are equal.
// Order   deepspeed: model, data, pipeline, tensor; megatron: data, model, tensor, pipeline; colossalai: data, model,
//         pipeline (where it has more than one stage), tensor; torch: pipeline, data, tensor, then model, flattened
//         from the mesh of (pipeline, data, tensor); plumbline: data, pipeline, tensor, model.
// Sources DeepSpeed runtime/pipe/topology.py; Megatron-LM core/parallel_state.py; ColossalAI 96780e6; torch
//         distributed/device_mesh.py with TorchTitan's order of axes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/groups/plan.hpp"

namespace plumbline::groups {

struct Sizes {
  int pipeline = 1;
  int data = 1;
  int tensor = 1;
  /// When given, the three must multiply to it.
  std::optional<int> world{};
  bool operator==(const Sizes&) const = default;
};

/// "deepspeed", "megatron", "colossalai", "torch", "plumbline".
[[nodiscard]] std::span<const std::string_view> convention_names();
/// The creations under a convention, modes by their common names. Throws Unsupported for an unknown convention, naming
/// the known ones, and InvalidArgument for a size below 1, for a world that no int holds and for sizes that do
/// not multiply to the world, with the arithmetic.
[[nodiscard]] Plan convention_plan(std::string_view convention, const Sizes& sizes);

/// Conventions that make the same lists of a mode, sorted by first rank, and these lists. None: no group of the mode is
/// made.
struct Agreement {
  std::vector<std::string> conventions;
  std::vector<std::vector<int>> groups;
  bool operator==(const Agreement&) const = default;
};
/// A mode, and what it is under each convention: one Agreement when they all agree.
struct ModeComparison {
  std::string mode;
  std::vector<Agreement> agreements;
  [[nodiscard]] bool differs() const { return agreements.size() > 1; }
};
struct Comparison {
  Sizes sizes;
  std::vector<Plan> plans;            // one for each convention, in the order asked
  std::vector<ModeComparison> modes;  // "data", "pipeline", "tensor", "model"
  bool same_order = true;             // all create the same lists in the same order
};
/// Compares the given conventions, all when none is given. Throws as convention_plan().
[[nodiscard]] Comparison compare_conventions(const Sizes& sizes, std::span<const std::string_view> conventions = {});

}  // namespace plumbline::groups
