#include "harness/statement/subject_file.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"

namespace plumbline::statement {

const char* const kSubjectTemplate = R"(# Who stands behind the subject of a conformance statement.
vendor = ""          # "Acme, Inc."
product = ""         # "acme-ccl"
version = ""         # "2.4.1"
type = "backend"     # or adapter, or framework: as the run's subject is
url = ""             # "https://example.com/acme-ccl"
contact = ""         # "ccl@example.com"
)";

std::string problem_of_type(const SubjectFile& subject, suite::Door door) {
  // A framework answers as an adapter, or trains as a job.
  const bool is_backend = subject.type == "backend", is_framework = subject.type == "framework";
  const bool fits =
      door == suite::Door::backend ? is_backend : is_framework || (door == suite::Door::adapter && !is_backend);
  if (fits) return {};
  return fmt::format("type '{}', and the run is of {}", subject.type,
                     door == suite::Door::backend   ? "a backend"
                     : door == suite::Door::adapter ? "an adapter: it is adapter or framework"
                                                    : "a job: it is framework");
}

SubjectFile read_subject(std::string_view toml, std::string_view origin) {
  const toml::table table = suite::parse_toml(toml, origin);
  const suite::TomlRow row(table, origin, "a subject", {"vendor", "product", "version", "type", "url", "contact"});
  const auto text = [&row](std::string_view field) {
    std::string value = row.text(field);
    if (value.find_first_not_of(" \t\n") == std::string::npos) row.refuse(field, fmt::format("{} is empty", field));
    if (std::ranges::any_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      row.refuse(field, fmt::format("{} is more than a line of text", field));
    return value;
  };
  SubjectFile subject{.vendor = text("vendor"),
                      .product = text("product"),
                      .version = text("version"),
                      .type = text("type"),
                      .url = text("url"),
                      .contact = text("contact")};
  constexpr std::array types{"backend", "adapter", "framework"};
  if (std::ranges::count(types, subject.type) == 0)
    row.refuse("type", fmt::format("type '{}'; it is backend, adapter or framework", subject.type));
  if (!subject.url.starts_with("https://") && !subject.url.starts_with("http://"))
    row.refuse("url", fmt::format("url '{}'; it begins with https://", subject.url));
  return subject;
}

}  // namespace plumbline::statement
