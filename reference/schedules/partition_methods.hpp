// reference/schedules/partition_methods.hpp: partitions by the names under which DeepSpeed and ColossalAI offer them.
//
// Model   A method gives each layer a weight, by its type or its trainable parameters, and leaves the dealing to the
//         system's own rule, which is in partition_conventions.hpp.
// Methods DeepSpeed, in any case: `uniform`; `parameters`; `type:EXPRESSION`, where a layer in whose type the expression
//         is found, in any case, weighs 1 and any other 0. ColossalAI, as written: `layer` is uniform, `parameter` balanced.
// Quirks  DeepSpeed lowers the whole method, the expression with it (\D is \d), and lets it end at the next colon, so that
//         (?:a|b) is an open parenthesis.
// Unlike  Expressions are ECMAScript's and not Python's: named groups, \A and \Z, look-behind are not known. Matching takes
//         polynomial time, so references to groups are refused as well.
// Source  DeepSpeed runtime/pipe/module.py (0.19.8), whose partition functions of 0.6.3 are at hand as well; ColossalAI
//         builder/pipeline.py at #94.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reference/schedules/partition_conventions.hpp"

namespace plumbline::schedules {

/// What the methods look at.
struct LayerDescription {
  std::optional<std::string> type;  // "Linear"; nothing for a function without a name, which no expression finds
  std::int64_t parameters = 0;      // trainable ones
};

/// Throws InvalidArgument for a method that the source does not have, `profile` among them, NotFound for an expression that is
/// found in no type, and InvalidArgument for an expression that is none, or is longer than 256 characters, or whose
/// repetitions multiply to more than 1000; else as deepspeed_uniform() and deepspeed_balanced().
[[nodiscard]] Boundaries deepspeed_by_method(std::span<const LayerDescription> layers, int parts,
                                             std::string_view method);
/// The same over deepspeed06_uniform() and deepspeed06_balanced().
[[nodiscard]] Boundaries deepspeed06_by_method(std::span<const LayerDescription> layers, int parts,
                                               std::string_view method);

/// Throws InvalidArgument that lists the methods for another one; else as colossalai_uniform() and colossalai_balanced().
[[nodiscard]] ColossalaiPartition colossalai_by_method(std::span<const LayerDescription> layers, int stages, int chunks,
                                                       std::string_view method);

/// By layer, whether the expression is found in its type, in any case. Throws as deepspeed_by_method() for the expression.
[[nodiscard]] std::vector<bool> types_with(std::span<const LayerDescription> layers, std::string_view expression);

}  // namespace plumbline::schedules
