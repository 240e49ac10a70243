// harness/statement/subject_file.hpp: who is responsible for a subject, as its SUBJECT.toml says.
#pragma once

#include <string>
#include <string_view>

#include "harness/suite/door.hpp"

namespace plumbline::statement {

struct SubjectFile {
  std::string vendor;   // "Acme, Inc."
  std::string product;  // "acme-ccl"
  std::string version;  // "2.4.1"
  std::string type;     // "backend", "adapter" or "framework"
  std::string url;      // https://…
  std::string contact;  // whom to ask
};

/// A file to begin with.
extern const char* const kSubjectTemplate;

/// Why a subject of that type does not come through that door; empty: it does.
[[nodiscard]] std::string problem_of_type(const SubjectFile& subject, suite::Door door);

/// Throws InvalidArgument with file, line, column and what would be right: no TOML, an unknown or missing field, an
/// empty value, another type than those three, a url that is none.
[[nodiscard]] SubjectFile read_subject(std::string_view toml, std::string_view origin);

}  // namespace plumbline::statement
