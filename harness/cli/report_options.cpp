#include "harness/cli/report_options.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include <fmt/format.h>

namespace plumbline::cli {
namespace {

constexpr std::size_t kMostOfValue = 200;

// Of metrics, and of what they are measured by.
const std::set<std::string>& taken_labels() {
  static const std::set<std::string> names{
      "arm",         "backend",  "benchmark", "bucket_bytes",    "bytes",         "chunks",
      "collective",  "command",  "component", "device",          "devices",       "dtype",
      "durations",   "filter",   "le",        "message_size",    "micro_batches", "mutant",
      "nranks",      "phase",    "profile",   "profile_version", "quantile",      "rank",
      "requirement", "schedule", "shard",     "subject",         "sync",          "verdict",
      "version",     "world"};
  return names;
}

bool has_control_characters(const std::string& text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string why_no_label(const std::string& text) {
  static const std::regex form("[a-zA-Z_][a-zA-Z0-9_]*");
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return fmt::format("'{}' is not KEY=VALUE", text);
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  if (!std::regex_match(key, form) || key.starts_with("__"))
    return fmt::format("'{}': the key must be letters, digits and _, and begin with neither a digit nor __", text);
  if (taken_labels().contains(key))
    return fmt::format("'{}': Plumbline's metrics have a label {} of their own; choose another key", text, key);
  if (value.empty() || value.size() > kMostOfValue || has_control_characters(value))
    return fmt::format("'{}': the value must have 1 to {} bytes, without control characters", text, kMostOfValue);
  return {};
}

std::string why_no_name(const std::string& text) {
  if (!text.empty() && text.size() <= kMostOfValue && !has_control_characters(text)) return {};
  return fmt::format("'{}': the name must have 1 to {} bytes, without control characters", text, kMostOfValue);
}

}  // namespace

void ReportOptions::add_to(CLI::App& app) {
  app.add_option("--label", labels, "label of the run in its record, reports and metrics; may be repeated")
      ->type_name("KEY=VALUE")
      ->check(CLI::Validator(why_no_label, ""))
      ->check(CLI::Validator(
          [seen = std::make_shared<std::set<std::string>>()](const std::string& text) -> std::string {
            if (const std::string key = text.substr(0, text.find('=')); !seen->insert(key).second)
              return fmt::format("'{}': {} was given before; give it once", text, key);
            return {};
          },
          ""));
  app.add_option("--subject-name", subject_name, "name of the subject in reports and metrics (default its own)")
      ->type_name("NAME")
      ->check(CLI::Validator(why_no_name, ""));
}

ReportOptions ReportOptions::as_given(const CommandLine& line) {
  ReportOptions given;
  for (const std::string& label : line.single_values("--label"))
    if (why_no_label(label).empty()) given.labels.push_back(label);
  if (const std::string name = line.value("--subject-name"); why_no_name(name).empty()) given.subject_name = name;
  return given;
}

void ReportOptions::put_into(record::Header& header) const {
  header.subject_name = subject_name;
  for (const std::string& label : labels)
    header.labels[label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
}

}  // namespace plumbline::cli
