#include "harness/suite/eligibility.hpp"

#include <algorithm>

#include <fmt/format.h>

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

}  // namespace

std::optional<Lacking> lacking(const Suite& suite, const Profile& profile, const Case& one,
                               const nlohmann::json& description, const std::string& device) {
  if (one.check->door == Door::adapter) {
    const auto operations = description.value("operations", Words{});
    for (const std::string& operation : one.check->operations)
      if (!has(operations, operation)) return Lacking{"operation " + operation};
    // Who names no conventions is asked for all: the protocol does not demand the list.
    if (const std::string& convention = one.check->convention;
        !convention.empty() && description.contains("conventions"))
      if (!has(description.at("conventions").get<Words>(), convention)) return Lacking{"convention " + convention};
    return std::nullopt;
  }
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

}  // namespace plumbline::suite
