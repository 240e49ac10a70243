#include "benchmarks/bubble_published.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace plumbline::cli {
namespace {

using schedules::ScheduleKind;
using schedules::Shape;

enum class Compared {
  step,        // of the makespan: steps end with a barrier
  free_step,   // steps follow each other as each rank ends: work and the longest span bubble
  activations  // the peak of the rank that keeps most, in micro-batches of a rank
};

struct Side {
  ScheduleKind schedule_kind;
  Shape shape;
};

struct Claim {
  const char* what;
  const char* source;
  const char* configuration;
  double published;
  Compared compared;
  Side of, to;  // the claim is of/to, of steps in a time to/of
};

constexpr const char* kIssue21 = "sail-sg issue 21";
constexpr const char* kUntold = "8 ranks; 32 micro-batches assumed: they fit ZB-2P's 67 over 55";

const std::array<Claim, 10>& claims() {
  static const std::array<Claim, 10> list{{
      {"interleaved over 1F1B, throughput: 10+ %",
       "Megatron-LM, SC'21, abstract",
       "none told; 8 ranks, 2 chunks, 32 micro-batches",
       1.10,
       Compared::step,
       {ScheduleKind::interleaved, {8, 32, 2}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"zero bubble over 1F1B, similar memory: up to 23 %",
       "arXiv 2401.10241, abstract",
       "none told; ZB-H1, 8 ranks, 24 micro-batches",
       1.23,
       Compared::step,
       {ScheduleKind::zb_h1, {8, 24, 1}},
       {ScheduleKind::one_f_one_b, {8, 24, 1}}},
      {"the same with more memory: up to 31 %",
       "arXiv 2401.10241, abstract",
       "none told; ZB-H2, no barrier, 8 ranks, 24 micro-batches",
       1.31,
       Compared::free_step,
       {ScheduleKind::zb_h2, {8, 24, 1}},
       {ScheduleKind::one_f_one_b, {8, 24, 1}}},
      {"interleaved over 1F1B, 8 H800: 66 over 55 samples/s",
       kIssue21,
       kUntold,
       66.0 / 55,
       Compared::step,
       {ScheduleKind::interleaved, {8, 32, 4}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"ZB-2P over 1F1B, 8 H800: 67 over 55 samples/s",
       kIssue21,
       kUntold,
       67.0 / 55,
       Compared::free_step,
       {ScheduleKind::zb_h2, {8, 32, 1}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"ZB-V over 1F1B, 8 H800: 64 over 55 samples/s",
       kIssue21,
       kUntold,
       64.0 / 55,
       Compared::free_step,
       {ScheduleKind::zbv, {8, 32, 2}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"V-Half's activations over 1F1B's: 1/2",
       "arXiv 2405.15362",
       "8 ranks, 32 micro-batches",
       0.5,
       Compared::activations,
       {ScheduleKind::v_half, {8, 32, 2}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"V-Min's activations over 1F1B's: 1/3",
       "arXiv 2405.15362",
       "8 ranks, 32 micro-batches",
       1.0 / 3,
       Compared::activations,
       {ScheduleKind::v_min, {8, 32, 2}},
       {ScheduleKind::one_f_one_b, {8, 32, 1}}},
      {"V-Half's activations over 1F1B's: 1/2",
       "arXiv 2405.15362",
       "32 ranks, 128 micro-batches",
       0.5,
       Compared::activations,
       {ScheduleKind::v_half, {32, 128, 2}},
       {ScheduleKind::one_f_one_b, {32, 128, 1}}},
      {"V-Min's activations over 1F1B's: 1/3",
       "arXiv 2405.15362",
       "32 ranks, 128 micro-batches",
       1.0 / 3,
       Compared::activations,
       {ScheduleKind::v_min, {32, 128, 2}},
       {ScheduleKind::one_f_one_b, {32, 128, 1}}},
  }};
  return list;
}

constexpr std::array<std::array<const char*, 3>, 5> kNotHere{{
    {"V schedules over 1F1B, throughput: 7 to 55 %", "arXiv 2405.15362, abstract",
     "where memory is fixed and the micro-batch grows instead: a matter of kernels, not of the schedule"},
    {"Chimera: 1.16 to 2.34 times, half the bubbles", "abstract",
     "each stage is on two ranks, which no schedule here has; the closed form for N = D = 32 is 30 idle slots for 62"},
    {"Hanayo: up to 30.4 %", "abstract", "no schedule here is one of its waves; no closed form is confirmed"},
    {"BPipe: 1.25 to 2.17 times", "abstract", "it moves activations between ranks; the bubble is 1F1B's"},
    {"activation offload: peak -62.3 %, throughput -34 %", "torch pull request 174436",
     "traffic between device and host; the schedule is the same"},
}};

bool is_same(const Side& side, const BubbleCase& of) {
  return side.schedule_kind == of.schedule_kind && side.shape.ranks == of.shape.ranks &&
         side.shape.micro_batches == of.shape.micro_batches && side.shape.stages_per_rank == of.shape.stages_per_rank;
}

// What is less the better it is.
double cost_of(Compared compared, const Side& side) {
  const BubbleCase of{.schedule_kind = side.schedule_kind, .shape = side.shape, .times = {}};
  const schedules::Timeline timeline = view_of(of.request()).timeline;
  double most = 0;
  for (const schedules::RankTimes& rank : timeline.ranks)
    most = std::max(most, compared == Compared::activations
                              ? static_cast<double>(rank.peak_activations) / side.shape.stages_per_rank
                              : rank.work + rank.span_bubble);
  return compared == Compared::step ? timeline.makespan : most;
}

// Of the fastest repetition.
double measured_cost_of(Compared compared, const BubbleRow& row) {
  switch (compared) {
    case Compared::step:
      return std::ranges::min(row.makespans);
    case Compared::free_step:
      return std::ranges::min(row.free_steps);
    default:
      return static_cast<double>(row.peak_activations) / row.of.shape.stages_per_rank;
  }
}

double ratio_of(Compared compared, double of, double to) {
  return compared == Compared::activations ? of / to : to / of;
}

std::optional<double> measured_ratio(const Claim& claim, std::span<const BubbleRow> rows) {
  const auto find = [&](const Side& side) {
    return std::ranges::find_if(rows, [&](const BubbleRow& row) { return is_same(side, row.of); });
  };
  const auto of = find(claim.of), to = find(claim.to);
  if (of == rows.end() || to == rows.end()) return std::nullopt;
  return ratio_of(claim.compared, measured_cost_of(claim.compared, *of), measured_cost_of(claim.compared, *to));
}

}  // namespace

std::vector<BubbleCase> published_cases(const schedules::StageTimes& times) {
  constexpr int kMostRanks = 8;
  std::vector<BubbleCase> cases;
  for (const Claim& claim : claims())
    for (const Side& side : {claim.of, claim.to})
      if (side.shape.ranks <= kMostRanks &&
          std::ranges::none_of(cases, [&](const BubbleCase& of) { return is_same(side, of); }))
        cases.push_back({.schedule_kind = side.schedule_kind, .shape = side.shape, .times = times});
  return cases;
}

std::string published_text(std::span<const BubbleRow> rows) {
  std::string text = fmt::format("{:<53} {:<29} {:>10} {:>9} {:>9} {:>9}  {}\n", "published", "source", "published",
                                 "simulated", "differs", "fastest", "configuration");
  for (const Claim& claim : claims()) {
    const double simulated =
        ratio_of(claim.compared, cost_of(claim.compared, claim.of), cost_of(claim.compared, claim.to));
    const std::optional<double> measured = measured_ratio(claim, rows);
    text += fmt::format("{:<53} {:<29} {:>10.3f} {:>9.3f} {:>+8.1f}%{:>10}  {}\n", claim.what, claim.source,
                        claim.published, simulated, 100 * (simulated / claim.published - 1),
                        measured ? fmt::format("{:.3f}", *measured) : "", claim.configuration);
  }
  for (const auto& [what, source, why] : kNotHere)
    text += fmt::format("{:<53} {:<30}  not here: {}\n", what, source, why);
  return text;
}

}  // namespace plumbline::cli
