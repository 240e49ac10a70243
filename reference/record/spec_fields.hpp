// reference/record/spec_fields.hpp: the fields of a run specification, which its reader requires and its README lists.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plumbline::job {

struct SpecField {
  std::string_view table;    // "run", "model.layer"; empty: the file's top
  std::string_view kinds;    // of layers and optimizers: which have it, "linear, conv2d"; empty: all
  std::string_view name;     // "steps"
  std::string_view type;     // "integer"
  std::string_view initial;  // the default, as TOML; empty: the field is required
  std::string_view meaning;
};

/// All fields, table by table in the order of the file.
[[nodiscard]] std::span<const SpecField> spec_fields();
/// The same as a Markdown table.
[[nodiscard]] std::string spec_fields_as_markdown();

}  // namespace plumbline::job
