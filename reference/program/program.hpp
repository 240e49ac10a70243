// reference/program/program.hpp: a training step written down as a list of operations, for passes to rewrite.
//
// Model   A program has variables and operations ("ops") that run in order. An op reads and writes variables through
//         named slots, each a list of names. Its role says which part of the step it belongs to; a communication op
//         names the ring, the group of ranks, that it runs over; an op may be put on a stream of its own. What else an
//         op needs are attributes by name.
// Values  A program is a plain value: passes take one and return another. Nothing here checks one; that is
//         validate.hpp's.
// Source  The static programs of PaddlePaddle 3.3.1, reduced to what a data-parallel pass looks at.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reference/comm/dtype.hpp"

namespace plumbline::program {

/// The type of a variable's elements.
enum class DataType : std::uint8_t { boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128 };
/// "bool", "uint8", "int8", …, "float16", "bfloat16", "float32", "float64", "complex64", "complex128".
[[nodiscard]] std::string_view name_of(DataType type);
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name);

/// The number of elements of the dimension is known only in a run.
inline constexpr std::int64_t kUnknownDimension = -1;

/// Where a variable lies: on which ranks, and along which axis of their mesh each of its dimensions is split (-1:
/// none).
struct Placement {
  std::vector<int> process_mesh{};  // ranks
  std::vector<int> dims_mapping{};
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Variable {
  std::vector<std::int64_t> shape{};  // empty: one element
  DataType dtype = DataType::f32;
  bool persistable = false;  // outlives a step
  bool parameter = false;    // is trained
  std::optional<Placement> placement{};
  friend bool operator==(const Variable&, const Variable&) = default;
};

/// What part of a step an op belongs to. Bits: the op that starts the backward with the gradient of the loss is
/// backward | loss.
namespace role {
inline constexpr int forward = 0, backward = 1, optimize = 2, loss = 256;
}  // namespace role

/// Slot by slot the names of variables. "The" input or output of an op is the first name of the first slot that has
/// any.
using Slots = std::map<std::string, std::vector<std::string>, std::less<>>;

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// Of a communication op: who runs it, over whom.
using RingId = int;

/// How an op that a pass puts in is spread over ranks: those that run it, and the splitting of each variable that it
/// names.
struct OpPlacement {
  std::vector<int> process_mesh{};
  std::map<std::string, std::vector<int>, std::less<>> input_dims_mappings{}, output_dims_mappings{};
  friend bool operator==(const OpPlacement&, const OpPlacement&) = default;
};

struct Op {
  std::string type{};
  Slots inputs{}, outputs{};
  int role = role::forward;
  std::string name_scope{};                     // "/auto_parallel/data_parallel", …
  std::optional<RingId> ring{};                 // of communication
  std::optional<comm::ReduceOp> reduction{};    // of a reduction
  std::optional<bool> on_calculation_stream{};  // of communication; nothing: not specified
  std::string stream{};                         // that it is issued on; empty: the default one
  Attributes attributes{};                      // all others
  std::optional<OpPlacement> placement{};
  friend bool operator==(const Op&, const Op&) = default;
};

struct Program {
  std::map<std::string, Variable, std::less<>> variables{};  // by name
  std::vector<Op> ops{};
  /// The bodies of loops and branches: of each its op types, which is all that the pass looks at.
  std::vector<std::vector<std::string>> other_blocks{};
  friend bool operator==(const Program&, const Program&) = default;
};

/// The ranks of each group by the ring's number, in the group's order. Ring 0 is the world.
using Rings = std::map<RingId, std::vector<int>>;

// ---- looking at ops ----

/// All names of all slots, in order, as often as they stand there.
[[nodiscard]] std::vector<std::string> names_in(const Slots& slots);
/// The first of them; empty if the list is empty.
[[nodiscard]] const std::string& first_name(const Slots& slots);
[[nodiscard]] bool has_name(const Slots& slots, std::string_view name);
[[nodiscard]] inline bool reads(const Op& op, std::string_view name) { return has_name(op.inputs, name); }
[[nodiscard]] inline bool writes(const Op& op, std::string_view name) { return has_name(op.outputs, name); }

/// A number among the attributes, whole or not; nothing if no attribute has that name.
[[nodiscard]] std::optional<double> number_of(const Op& op, std::string_view attribute);

/// The elements of a shape; nothing where a dimension is unknown. Throws OutOfRange where 64 bits do not count them.
[[nodiscard]] std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape);

}  // namespace plumbline::program
