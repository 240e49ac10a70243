// reference/program/program_json.hpp: programs as JSON, both ways.
//
// Form    {"vars": [{"name": "w@GRAD", "shape": [16, 32], "dtype": "float32", "persistable": false, "parameter":
//         false}, ...],
//          "ops": [{"type": "all_reduce", "inputs": {"x": ["w@GRAD"]}, "outputs": {"out": ["w@GRAD"]},
//                   "attrs": {"op_role": 1, "ring_id": 12, "reduce_type": "sum", ...}}, ...],
//          "other_blocks": [["while", ...], ...]}
//         Attributes with a field of their own in Op: op_role, op_namescope, ring_id, reduce_type ("sum", "avg", "min",
//         "max", "prod"), use_calc_stream, execution_stream. persistable, parameter and other_blocks may be left out. A
//         variable may have process_mesh and dims_mapping; an op process_mesh, input_dims_mappings and
//         output_dims_mappings.
//         A dimension of -1 is unknown. scale, value and rescale_grad are float32, "inf", "-inf" and "nan" as texts.
// Errors  InvalidArgument that names the field and what it must be; OutOfRange for numbers that its type does not hold.
//         A program that is read need not be right: that is for validate.hpp to say.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reference/program/program.hpp"

namespace plumbline::program {

[[nodiscard]] nlohmann::json json_of(const Program& program);
[[nodiscard]] nlohmann::json json_of(const Op& op);
/// `where` is what errors call it.
[[nodiscard]] Program program_of_json(const nlohmann::json& value, const std::string& where = "program");

/// {"0": [0, 1, 2, 3], "12": [0, 2]}. A ring has ranks, none of them twice or below 0.
[[nodiscard]] nlohmann::json json_of(const Rings& rings);
[[nodiscard]] Rings rings_of_json(const nlohmann::json& value, const std::string& where = "rings");

}  // namespace plumbline::program
