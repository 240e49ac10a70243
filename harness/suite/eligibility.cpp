#include "harness/suite/eligibility.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/operation_row.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::suite {
namespace {

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) { return std::ranges::count(words, word) > 0; }

Words capabilities_needed(const Suite& suite, const Check& check) {
  Words needs;
  for (const comm::Capability need : check.needs) needs.emplace_back(name_of(need));
  for (const Requirement* requirement : suite.verified_by(check))
    needs.insert(needs.end(), requirement->needs.begin(), requirement->needs.end());
  return needs;
}

}  // namespace

nlohmann::json description_of(const comm::Capabilities& capabilities) {
  nlohmann::json claims = nlohmann::json::array();
  for (const comm::Capability claim : capabilities.claims) claims.push_back(name_of(claim));
  nlohmann::json dtypes = nlohmann::json::array();
  for (const comm::DType dtype : capabilities.dtypes) dtypes.push_back(name_of(dtype));
  nlohmann::json devices = nlohmann::json::array();
  for (const comm::Device::Kind kind : capabilities.devices) devices.push_back(name_of(kind));
  return {{"backend", capabilities.backend},
          {"version", capabilities.version},
          {"devices", devices},
          {"claims", claims},
          {"dtypes", dtypes},
          {"rounds_each_half_addition", capabilities.rounds_each_half_addition},
          {"notes", capabilities.notes}};
}

bool uses_device_memory(const Check& check, std::string_view device) {
  return check.door == Door::backend && device != "cpu";
}

namespace {

// What of the run's device is missing for a check of the backend door.
std::optional<Lacking> lacking_of_device(const Check& check, const nlohmann::json& description,
                                         const std::string& device) {
  const std::string kind = device.substr(0, device.find(':'));
  if (check.on_device && device == "cpu") return Lacking{"a device with memory of its own (--device)"};
  if (!uses_device_memory(check, device)) return std::nullopt;
  const Words devices = description.at("capabilities").value("devices", Words{"cpu"});
  // Ranks that train agree on some things in the host's memory.
  if (!check.modules.empty() && !has(devices, "cpu")) return Lacking{"memory of the host"};
  if (!check.modules.empty() && !check.on_device && kind == "cuda") return std::nullopt;
  if (description.contains("device_missing"))
    return Lacking{fmt::format("memory of {} ({})", device, description.at("device_missing").get<std::string>())};
  if (!has(devices, kind)) return Lacking{"memory of " + kind};
  if (check.beside_host && !has(devices, "cpu")) return Lacking{"memory of the host beside that of " + kind};
  return std::nullopt;
}

// What an adapter does not claim of what a case asks. One that names no conventions is asked for all, and one that
// names no values of an option for all of them: the protocol demands neither.
std::optional<Lacking> lacking_of_adapter(const Case& one, const nlohmann::json& description) {
  const auto operations = description.value("operations", Words{});
  for (const std::string& operation : one.operations())
    if (!has(operations, operation)) return Lacking{"operation " + operation};
  if (const auto conventions = description.find("conventions"); conventions != description.end()) {
    const std::string& asked = one.check->convention;
    if (conventions->is_array() ? !has(conventions->get<Words>(), asked) : !conventions->contains(asked))
      return Lacking{"convention " + asked};
  }
  const auto claimed = description.value("options", OptionValues());
  for (const auto& [operation, arguments] : one.options()) {
    const auto of_operation = claimed.find(operation);
    if (of_operation == claimed.end()) continue;
    for (const auto& [argument, values] : arguments) {
      const auto of_argument = of_operation->second.find(argument);
      if (of_argument == of_operation->second.end()) continue;
      for (const std::string& value : values)
        if (!claims_value(of_argument->second, value))
          return Lacking{fmt::format("{} {} of {}", argument, value, operation)};
    }
  }
  return std::nullopt;
}

}  // namespace

bool claims_value(const std::set<std::string>& values, std::string_view value) {
  return adapter::claims_value(values, value);
}

std::optional<Lacking> lacking(const Suite& suite, const Profile& profile, const Case& one,
                               const nlohmann::json& description, const std::string& device) {
  if (one.check->door == Door::adapter) return lacking_of_adapter(one, description);
  if (one.check->door != Door::backend) return std::nullopt;
  if (const auto lack = lacking_of_device(*one.check, description, device)) return lack;
  const nlohmann::json& capabilities = description.at("capabilities");
  const auto claims = capabilities.at("claims").get<Words>();
  for (const std::string& need : capabilities_needed(suite, *one.check))
    if (!has(claims, need)) return Lacking{"capability " + need, has(profile.mandatory, need)};
  if (one.parameters.has("dtype") && !has(capabilities.at("dtypes").get<Words>(), one.parameters.text("dtype")))
    return Lacking{"dtype " + one.parameters.text("dtype")};
  return std::nullopt;
}

std::string unasked_conventions(const Suite& suite, const nlohmann::json& claims) {
  if (!claims.contains("conventions")) return {};
  const auto operations = claims.value("operations", Words{});
  std::set<std::string> asked;
  for (const Case& one : suite.cases()) {
    if (one.check->door != Door::adapter) continue;
    const auto of_case = one.operations();
    if (std::ranges::all_of(of_case, [&](const std::string& operation) { return has(operations, operation); }))
      asked.insert(one.check->convention);
  }
  const nlohmann::json& given = claims.at("conventions");
  Words unasked;
  std::string meant;  // where the first is only misspelt
  for (const auto& [key, value] : given.items()) {
    const std::string convention = given.is_array() ? value.get<std::string>() : key;
    if (asked.contains(convention)) continue;
    if (unasked.empty()) meant = did_you_mean(convention, {asked.begin(), asked.end()});
    unasked.push_back(convention);
  }
  if (unasked.empty()) return {};
  if (asked.empty()) asked.insert("none");
  return fmt::format("no case asks the adapter's operations in convention {}, which it claims; cases ask them in {}{}",
                     fmt::join(unasked, ", "), fmt::join(asked, ", "), meant);
}

std::vector<ProfileCases> profiles_for_adapter(const Suite& suite, const nlohmann::json& claims) {
  std::vector<ProfileCases> found;
  for (const Profile& profile : suite.profiles()) found.push_back({&profile, 0});
  for (const Case& one : suite.cases()) {
    if (one.check->door != Door::adapter || lacking_of_adapter(one, claims)) continue;
    const auto requirements = suite.verified_by(*one.check);
    for (ProfileCases& each : found)
      each.cases +=
          std::ranges::any_of(requirements, [&](const Requirement* r) { return suite.belongs(*r, *each.profile); });
  }
  std::ranges::stable_sort(found, {}, [](const ProfileCases& each) { return each.profile->prefixes.size(); });
  std::vector<ProfileCases> narrowest;
  for (const ProfileCases& each : found)
    if (each.cases > 0 && std::ranges::count(narrowest, each.cases, &ProfileCases::cases) == 0)
      narrowest.push_back(each);
  return narrowest;
}

}  // namespace plumbline::suite
