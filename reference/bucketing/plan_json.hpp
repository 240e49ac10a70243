// reference/bucketing/plan_json.hpp: plans as JSON, and what other systems write about theirs, read as plans.
//
// Form    {"schema": 1, "buckets": [{"dtype": "f32", "device": "cpu", "group": 0, "sparse": false, "elements": 192,
//          "limit_bytes": 1048576, "members": [[gradient, begin], ...]}, ...]}
//         Buckets stand in launch order; places and sizes are elements. device, group, sparse and limit_bytes may be
//         left out (cpu, 0, false, 0). A plan that is padded may say for which alignment, as "member_alignment" and
//         "bucket_alignment". A plan that is read need not be right: that is for check_plan() to say.
// Errors  InvalidArgument that names the field and what it must be; OutOfRange for numbers that 64 bits do not hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

[[nodiscard]] nlohmann::json json_of(const Plan& plan);
[[nodiscard]] Plan plan_of_json(const nlohmann::json& value);

/// Elements: members start at multiples of the one, buckets are multiples of the other.
struct Alignment {
  std::int64_t member = 1, bucket = 1;
  friend bool operator==(const Alignment&, const Alignment&) = default;
};
/// What a plan of our form says of its padding; 1 where it says nothing, as those of others do.
[[nodiscard]] Alignment alignment_of_json(const nlohmann::json& value);
[[nodiscard]] nlohmann::json json_of(const Plan& plan, const Alignment& alignment);

/// What DDP's _get_ddp_logging_data() says of its buckets: those that it rebuilt, by their indices; before that their
/// sizes alone, from which the members follow, since buckets are launched from the last to the first and gathered in
/// the order of registration. Throws InvalidArgument also where the sizes are not those of these gradients.
[[nodiscard]] Plan plan_of_ddp_logging(const nlohmann::json& value, std::span<const Gradient> gradients);

/// Megatron-core's layout of one buffer: param_index (start, end, bucket of each parameter) and bucket_indices.
[[nodiscard]] Plan plan_of_megatron_layout(const nlohmann::json& value, std::span<const Gradient> gradients);

/// Paddle's groups of gradients, each with `gradients` by name, `numel`, `dtype` and `ring_id`.
[[nodiscard]] Plan plan_of_paddle_groups(const nlohmann::json& value, std::span<const std::string> names,
                                         std::span<const Gradient> gradients);

/// Gradients with the names of their parameters.
struct NamedGradients {
  std::vector<std::string> names;
  std::vector<Gradient> gradients;
};
/// [{"name": "fc.weight", "elements": 1024, "dtype": "f32", "device": "cpu", "group": 0, "sparse": false}, ...]; only
/// `elements` is needed. Throws InvalidArgument, naming both places, for two gradients of one name.
[[nodiscard]] NamedGradients gradients_of_json(const nlohmann::json& value);
/// The same fields as the columns of a table, whose first line names them: name,elements,dtype.
[[nodiscard]] NamedGradients gradients_of_csv(std::string_view text);

/// A plan in whichever of these forms it is, and what that is called: empty for our own. Throws InvalidArgument, naming
/// the forms, for what has none of them.
struct ReadPlan {
  Plan plan;
  std::string form;
};
[[nodiscard]] ReadPlan plan_of_any_form(const nlohmann::json& value, const NamedGradients& gradients);

// ---- The list of gradients that a plan is made of: their sizes, and the names of their types.

/// Size in bytes of `elements` elements of a gradient's type. Throws OutOfRange where 64 bits do not hold them.
[[nodiscard]] std::int64_t bytes_of(std::int64_t elements, comm::DType dtype, int components_per_element);
[[nodiscard]] inline std::int64_t bytes_of(const Gradient& gradient) {
  return bytes_of(gradient.elements, gradient.dtype, gradient.components_per_element);
}

/// Throws InvalidArgument, naming the gradient by its index, for fewer than no elements, elements of other than one or
/// two numbers, or a group below 0; OutOfRange where the bytes of one, or of all together, are more than 64 bits hold,
/// or where there are more gradients than an int counts.
void require_gradients(std::span<const Gradient> gradients);

/// Whether two gradients may lie in one bucket: of one type, device and group. Sparse ones lie alone.
[[nodiscard]] bool mix(const Gradient& a, const Gradient& b);

/// What an element is: a number type, or a complex one of two numbers.
struct ElementType {
  comm::DType dtype = comm::DType::f32;
  std::int8_t components_per_element = 1;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// "f32", …; "c32", "c64" and "c128" for two f16, f32 and f64. Throws InvalidArgument for two of another type.
[[nodiscard]] std::string_view name_of(ElementType type);
[[nodiscard]] std::optional<ElementType> parse_element_type(std::string_view name);

/// The device of "cpu", "cuda", "cuda:1", or nothing.
[[nodiscard]] std::optional<comm::Device> parse_device(std::string_view name);

}  // namespace plumbline::bucketing
