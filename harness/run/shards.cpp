#include "harness/run/shards.hpp"

#include <array>
#include <map>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::run {

using nlohmann::json;
using record::Header;
using record::Planned;
using record::Result;
using record::Run;
using record::Verdict;

namespace {

constexpr std::array kOfOneMachine{"host", "host_identity", "load_before", "memory_bytes", "slowness"};

// What a launcher tells its own ranks; settings are OMPI_MCA_… other than these.
bool is_of_one_job(const std::string& name) {
  return name.starts_with("PMIX_") || name.starts_with("OMPI_MCA_orte_") || name.starts_with("OMPI_MCA_ess_") ||
         name == "OMPI_MCA_initial_wdir" || (name.starts_with("OMPI_") && !name.starts_with("OMPI_MCA_"));
}

[[noreturn]] void refuse(const NamedRun& one, const std::string& why) {
  throw InvalidArgument(fmt::format("{}: {}", one.name, why));
}

void require_same(const NamedRun& first, const NamedRun& other, const char* what, const std::string& here,
                  const std::string& there) {
  if (here != there)
    refuse(other, fmt::format("{} is '{}', and in {} it is '{}'; shards of one run must agree", what, there, first.name,
                              here));
}

// By index, all of them, each once.
std::map<int, const NamedRun*> in_order(const std::vector<NamedRun>& shards) {
  std::map<int, const NamedRun*> ordered;
  for (const NamedRun& one : shards) {
    if (!one.run.header.shard) refuse(one, "is no shard; plumbline check --shard I/N makes one");
    const auto [entry, fresh] = ordered.emplace(one.run.header.shard->index, &one);
    if (!fresh) refuse(one, fmt::format("is shard {} as well as {}", entry->first, entry->second->name));
    if (!one.run.complete) refuse(one, "is not complete; plumbline check --resume runs the rest");
  }
  const int count = shards.front().run.header.shard->count;
  for (int index = 1; index <= count; ++index)
    if (!ordered.contains(index)) refuse(shards.front(), fmt::format("shard {} of {} is missing", index, count));
  return ordered;
}

void require_alike(const NamedRun& first, const NamedRun& other) {
  const Header& here = first.run.header;
  const Header& there = other.run.header;
  require_same(first, other, "the subject", here.subject, there.subject);
  require_same(first, other, "the suite's version", here.suite_version, there.suite_version);
  require_same(first, other, "the profile", here.profile, there.profile);
  require_same(first, other, "the profile's version", here.profile_version, there.profile_version);
  require_same(first, other, "the number of shards", std::to_string(here.shard->count),
               std::to_string(there.shard->count));
  require_same(first, other, "the whole plan", here.shard->whole_plan, there.shard->whole_plan);
  require_same(first, other, "--allow-unexpected-pass", here.allow_unexpected_pass ? "on" : "off",
               there.allow_unexpected_pass ? "on" : "off");
  require_same(first, other, "--warnings-fail", here.warnings_fail ? "on" : "off", there.warnings_fail ? "on" : "off");
  require_same(first, other, "the list of expectations", json(here.expectations).dump(),
               json(there.expectations).dump());
  const json ours = comparable_environment(first.run), theirs = comparable_environment(other.run);
  for (const auto* side : {&ours, &theirs})
    for (const auto& [name, value] : side->items())
      require_same(first, other, name.c_str(), ours.value(name, json()).dump(), theirs.value(name, json()).dump());
}

}  // namespace

json comparable_environment(const Run& run) {
  json environment = run.header.environment;
  for (const char* name : kOfOneMachine) environment.erase(name);
  const json captured = environment.value("variables", json::object());
  json variables = json::object();
  for (const auto& [name, value] : captured.items())
    if (!is_of_one_job(name)) variables[name] = value;
  environment["variables"] = variables;
  environment["capabilities"] = run.subject.value("capabilities", json::object());
  environment["runtime"] = run.subject.value("environment", json::object());
  return environment;
}

Run merge(const std::vector<NamedRun>& shards) {
  if (shards.empty()) throw InvalidArgument("merge: no records were given");
  const auto ordered = in_order(shards);
  const NamedRun& first = *ordered.begin()->second;
  Run whole{.header = first.run.header, .subject = first.run.subject, .complete = true};
  whole.header.plan_hash = first.run.header.shard->whole_plan;
  whole.header.shard.reset();
  whole.header.plan.clear();
  whole.header.budget_seconds = 0;  // each shard was through
  std::map<std::string, std::pair<const NamedRun*, Verdict>> seen;
  for (const auto& [index, shard] : ordered) {
    require_alike(first, *shard);
    whole.seconds += shard->run.seconds;
    const Header& header = shard->run.header;
    whole.header.requirements.insert(header.requirements.begin(), header.requirements.end());
    whole.header.checks.insert(header.checks.begin(), header.checks.end());
    std::erase_if(whole.header.labels, [&](const auto& label) {  // those of single shards are not the whole's
      const auto found = header.labels.find(label.first);
      return found == header.labels.end() || found->second != label.second;
    });
    for (const Planned& planned : shard->run.header.plan)
      if (seen.emplace(planned.key(), std::pair(shard, Verdict::missing)).second) whole.header.plan.push_back(planned);
    for (const Result& result : shard->run.results) {
      const auto place = seen.find(result.key());
      if (place == seen.end()) refuse(*shard, fmt::format("{} is not in its plan", result.case_id));
      auto& [from, verdict] = place->second;
      if (verdict == Verdict::missing) {
        verdict = result.verdict;
        whole.results.push_back(result);
      } else if (verdict != result.verdict) {
        refuse(*shard, fmt::format("{} ends with {}, and in {} with {}: the machines differ, or the case is a flake",
                                   result.case_id, name_of(result.verdict), from->name, name_of(verdict)));
      }
    }
    whole.controls.insert(whole.controls.end(), shard->run.controls.begin(), shard->run.controls.end());
  }
  return whole;
}

}  // namespace plumbline::run
