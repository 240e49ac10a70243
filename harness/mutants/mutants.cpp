#include "harness/mutants/mutants.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "harness/suite/suite.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

// Of a woven build alone (harness/weave/woven.hpp).
extern "C" [[gnu::weak]] void plumbline_woven_choose(const char* mutant);
extern "C" [[gnu::weak]] void plumbline_woven_apply(bool here);

namespace plumbline::mutants {

const std::string& woven_program() {
  static const std::string program = [] {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path own = fs::canonical("/proc/self/exe", error);
    const fs::path woven = own.parent_path().parent_path() / "woven" / "bin" / "plumbline";
    if (error || !fs::is_regular_file(woven, error)) return std::string();
    const fs::path from_here = woven.lexically_relative(fs::current_path(error));
    return (from_here.empty() || *from_here.begin() == ".." ? woven : from_here).string();
  }();
  return program;
}

std::string why_not_woven(const Mutant& mutant) {
  if (plumbline_woven_choose != nullptr || !std::holds_alternative<suite::Edits>(mutant.change)) return {};
  if (!woven_program().empty())
    return "they are edits of the source, which the woven build has: run " + woven_program();
  return "they are edits of the source, which a woven build has: pip install tree-sitter tree-sitter-cpp, configure a "
         "checkout with PLUMBLINE_TESTS=ON, build it, run its woven/bin/plumbline, such as build/woven/bin/plumbline";
}

void choose_woven(const Mutant* mutant) {
  if (plumbline_woven_choose == nullptr) return;
  const bool is_edit = mutant != nullptr && std::holds_alternative<suite::Edits>(mutant->change);
  plumbline_woven_choose(is_edit ? mutant->name.c_str() : "");
  plumbline_woven_apply(is_edit && door_of(*mutant) == suite::Door::backend);
}

WovenHere::WovenHere() {
  if (plumbline_woven_apply != nullptr) plumbline_woven_apply(true);
}
WovenHere::~WovenHere() {
  if (plumbline_woven_apply != nullptr) plumbline_woven_apply(false);
}

Mutant racing(Mutant mutant) {
  mutant.sanitized = Sanitized::race;
  return mutant;
}

std::string why_not_under_sanitizer([[maybe_unused]] const Mutant& mutant) {
#ifdef __SANITIZE_THREAD__
  if (mutant.sanitized == Sanitized::race) return "they are races, at which the thread sanitizer ends a process";
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  if (mutant.sanitized == Sanitized::measured) return "the sanitizer's allocator keeps no figures";
#endif
  return {};
}

const Mutant& find_mutant(const suite::Suite& suite, const std::string& name) {
  if (const Mutant* const mutant = suite.find_mutant(name)) return *mutant;
  const auto hollow = std::ranges::find(hollow_subjects(), name, &Mutant::name);
  if (hollow != hollow_subjects().end()) return *hollow;
  std::vector<std::string> names;
  for (const auto* list : {&suite.mutants(), &hollow_subjects()})
    for (const Mutant& mutant : *list) names.push_back(mutant.name);
  throw NotFound(fmt::format("no mutant '{}'; plumbline mutants --list has them{}", name, did_you_mean(name, names)));
}

const Mutant& find_mutant(const suite::Suite& suite, const std::string& name, suite::Door door) {
  const Mutant& mutant = find_mutant(suite, name);
  if (door_of(mutant) != door)
    throw InvalidArgument(fmt::format(
        "--mutant {}: it breaks what --{} names, and the subject here is one of --{}; plumbline mutants --list has all",
        name, name_of(door_of(mutant)), name_of(door)));
  if (const std::string why = why_not_woven(mutant); !why.empty())
    throw InvalidArgument(fmt::format("--mutant {}: this build has none of its kind; {}", name, why));
  return mutant;
}

}  // namespace plumbline::mutants
