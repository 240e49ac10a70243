#include "harness/expectations/facts.hpp"

#include <cctype>
#include <sstream>

namespace plumbline::expectations {

std::set<std::string> names_of(const suite::Suite& suite) {
  std::set<std::string> names{"adapter", "arm",    "backend", "check",         "compiler", "component", "cores",
                              "cpu",     "device", "gpus",    "job",           "kernel",   "mutant",    "os",
                              "profile", "seed",   "subject", "suite_version", "version",  "world_size"};
  for (const suite::Case& one : suite.cases())
    for (const auto& [name, value] : one.parameters.all()) names.insert(name);
  return names;
}

Facts facts_of_environment(const nlohmann::json& environment) {
  Facts facts;
  std::istringstream system(environment.value("kernel", ""));  // "Linux 6.1.0 x86_64"
  std::string os, kernel;
  if (system >> os >> kernel) {
    for (char& c : os) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    facts["os"] = os;
    facts["kernel"] = kernel;
  }
  for (const char* name : {"cpu", "compiler"})
    if (const auto text = environment.value(name, ""); !text.empty()) facts[name] = text;
  for (const char* name : {"cores", "gpus"})
    if (environment.contains(name)) facts[name] = environment.at(name).dump();
  return facts;
}

suite::Identity identity_of(const nlohmann::json& description, const Facts& facts) {
  const nlohmann::json capabilities = description.value("capabilities", nlohmann::json::object());
  const std::string of_backend = capabilities.value("version", "");
  suite::Identity identity{capabilities.value("backend", ""),
                           suite::version_in(of_backend.empty() ? description.value("version", "") : of_backend)};
  for (const char* command : {"adapter", "job"})
    if (const auto found = facts.find(command); found != facts.end()) identity.name = found->second;
  return identity;
}

Facts facts_of(const record::Run& run) {
  Facts facts = run.header.facts;
  facts.merge(facts_of_environment(run.header.environment));
  facts.merge(Facts{{"profile", run.header.profile}, {"suite_version", run.header.suite_version}});
  if (run.subject.empty()) return facts;
  const suite::Identity identity = identity_of(run.subject, facts);
  facts["subject"] = identity.name;
  if (!identity.version.empty()) facts["version"] = identity.version;
  if (!facts.contains("adapter") && !facts.contains("job")) facts.emplace("backend", identity.name);
  return facts;
}

Facts facts_of(const Facts& run, const record::Result& one) {
  Facts facts = run;
  facts["check"] = one.check;
  facts["component"] = one.check.substr(0, one.check.find('.'));
  facts["arm"] = one.mode;
  facts["seed"] = std::to_string(one.seed);
  for (const auto& [name, value] : one.parameters) {
    facts[name] = value;
    if (name == "world") facts["world_size"] = value;
  }
  return facts;
}

record::Result blank_result(const suite::Suite& suite, const suite::Case& one) {
  record::Result result{.check = one.check->id, .case_id = one.id(), .parameters = one.parameters.all()};
  for (const suite::Requirement* requirement : suite.verified_by(*one.check))
    result.requirements.push_back(requirement->id);
  return result;
}

}  // namespace plumbline::expectations
