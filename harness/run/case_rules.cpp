#include "harness/run/case_rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/suite/eligibility.hpp"

namespace plumbline::run {

using record::RankResult;
using record::Verdict;

std::optional<Word> word_without_run(const suite::Suite& suite, const suite::Profile& profile,
                                     const suite::PlannedCase& planned, const nlohmann::json& description,
                                     const std::string& device, std::uint64_t available_memory) {
  if (planned.mode.kind == suite::ExecutionMode::Kind::rendezvous && !description.value("one_host", true))
    return Word{Verdict::skip, "the rendezvous arm needs all ranks on one host"};
  if (planned.one->parameters.has("gib")) {  // of memory that the case's ranks take together
    constexpr double kGib = std::uint64_t{1} << 30;
    const auto needed = static_cast<double>(planned.one->parameters.number("gib"));
    if (const double there = static_cast<double>(available_memory) / kGib; there < needed)
      return Word{Verdict::skip, fmt::format("needs {} GiB of memory, and {:.1f} are available", needed, there)};
  }
  const auto lack = suite::lacking(suite, profile, *planned.one, description, device);
  if (!lack) return std::nullopt;
  if (!lack->mandatory)
    return Word{Verdict::skip, fmt::format("needs {}, which the subject does not claim", lack->what)};
  return Word{Verdict::fail,
              fmt::format("profile {} demands {}, which the subject does not claim", profile.name, lack->what)};
}

Verdict verdict_at_level(Verdict verdict, std::span<const suite::Requirement* const> requirements) {
  const bool wrong = verdict == Verdict::fail || verdict == Verdict::refuse;
  const bool only_should = std::ranges::all_of(
      requirements, [](const suite::Requirement* one) { return one->level == suite::Level::should; });
  return wrong && !requirements.empty() && only_should ? Verdict::warn : verdict;
}

Word excused_by_machine(Word word, std::span<const RankResult> ranks) {
  constexpr std::string_view less = "a run with fewer --steps, ranks or rows needs less";
  constexpr std::string_view denial = "uncaught exception: std::bad_alloc";
  const bool denied =
      word.reason.find(denial) != std::string::npos && std::ranges::any_of(ranks, [&](const RankResult& rank) {
        return std::ranges::any_of(rank.failures, [&](const record::Failure& failure) {
          return failure.uncaught && failure.message == denial;
        });
      });
  if (word.verdict == Verdict::crash && word.reason.find("killed by signal 9 ") != std::string::npos)
    return {Verdict::error, fmt::format("{}; the system does that when memory runs out: {}", word.reason, less)};
  if (word.verdict == Verdict::fail && denied)
    return {Verdict::error, fmt::format("{}; the machine has no more memory: {}", word.reason, less)};
  return word;
}

}  // namespace plumbline::run
