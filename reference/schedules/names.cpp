#include "reference/schedules/names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/generate_rows.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::schedules {
namespace {

// A row of the table of schedules.
struct KnownSchedule {
  ScheduleTraits traits;
  detail::Generator generator;
};

Schedule automatic_of_equal_times(const Shape& shape) { return automatic(shape).schedule; }

constexpr std::array kSchedules{
    KnownSchedule{{.kind = ScheduleKind::gpipe,
                   .name = "gpipe",
                   .in_specifications = "gpipe",
                   .torch = "GPipe",
                   .stages_per_rank = 1,
                   .rule = "all forwards, then all backwards; one chunk"},
                  detail::gpipe},
    KnownSchedule{{.kind = ScheduleKind::one_f_one_b,
                   .name = "1f1b",
                   .in_specifications = "1f1b",
                   .torch = "1F1B",
                   .stages_per_rank = 1,
                   .rule = "a forward for each stage after it, then a forward and a backward in turn; one chunk"},
                  detail::one_f_one_b},
    KnownSchedule{{.kind = ScheduleKind::interleaved,
                   .name = "interleaved",
                   .in_specifications = "interleaved-1f1b",
                   .torch = "Interleaved1F1B",
                   .usual_stages_per_rank = 2,
                   .rule = "1f1b through all chunks, in rounds; max(1, micro-batches / stages) divides the "
                           "micro-batches"},
                  detail::interleaved_in_rounds},
    KnownSchedule{{.kind = ScheduleKind::looped_breadth_first,
                   .name = "looped-bfs",
                   .in_specifications = "looped-bfs",
                   .torch = "LoopedBFS",
                   .usual_stages_per_rank = 2,
                   .rule = "all micro-batches of a chunk, then those of the next; backwards in reverse"},
                  detail::looped_breadth_first},
    KnownSchedule{{.kind = ScheduleKind::zb_h1,
                   .name = "zb-h1",
                   .in_specifications = "zb-h1",
                   .stages_per_rank = 1,
                   .splits_backward = true,
                   .rule = "1f1b whose weight gradients fill the bubble, with its memory; one chunk"},
                  detail::zb_h1},
    KnownSchedule{{.kind = ScheduleKind::zb_h2,
                   .name = "zb-h2",
                   .in_specifications = "zb-h2",
                   .stages_per_rank = 1,
                   .splits_backward = true,
                   .rule = "twice as many forwards ahead: no bubble for equal times; one chunk"},
                  detail::zb_h2},
    KnownSchedule{{.kind = ScheduleKind::interleaved_zero_bubble,
                   .name = "interleaved-zero-bubble",
                   .in_specifications = "interleaved-zb",
                   .torch = "InterleavedZeroBubble",
                   .usual_stages_per_rank = 2,
                   .splits_backward = true,
                   .rule = "interleaved, with weight gradients that fill the bubble; the rounds of interleaved"},
                  detail::interleaved_zero_bubble},
    KnownSchedule{{.kind = ScheduleKind::zbv,
                   .name = "zbv",
                   .in_specifications = "zbv",
                   .torch = "ZBVZeroBubble",
                   .stages_per_rank = 2,
                   .usual_stages_per_rank = 2,
                   .placement = Placement::v,
                   .splits_backward = true,
                   .rule = "zero bubble, two chunks a rank there and back; exactly 2 chunks"},
                  detail::zbv},
    KnownSchedule{{.kind = ScheduleKind::v_half,
                   .name = "v-half",
                   .in_specifications = "v-half",
                   .stages_per_rank = 2,
                   .usual_stages_per_rank = 2,
                   .placement = Placement::v,
                   .splits_backward = true,
                   .rule = "half the bubble and about half the memory of 1f1b, for equal times, there and back; "
                           "exactly 2 chunks"},
                  detail::v_half},
    KnownSchedule{{.kind = ScheduleKind::v_min,
                   .name = "v-min",
                   .in_specifications = "v-min",
                   .stages_per_rank = 2,
                   .usual_stages_per_rank = 2,
                   .placement = Placement::v,
                   .splits_backward = true,
                   .rule = "two thirds of the bubble and about a third of the memory of 1f1b, there and back; "
                           "exactly 2 chunks"},
                  detail::v_min},
    KnownSchedule{{.kind = ScheduleKind::dualpipev,
                   .name = "dualpipev",
                   .in_specifications = "dualpipev",
                   .torch = "DualPipeV",
                   .stages_per_rank = 2,
                   .usual_stages_per_rank = 2,
                   .placement = Placement::v,
                   .splits_backward = true,
                   .rule = "forward and backward at once, there and back; exactly 2 chunks, micro-batches >= 2 x "
                           "stages"},
                  detail::dualpipev},
    KnownSchedule{{.kind = ScheduleKind::forward_only,
                   .name = "forward-only",
                   .rule = "inference: groups of as many micro-batches as stages, each through all chunks"},
                  detail::forward_only},
    KnownSchedule{{.kind = ScheduleKind::automatic,
                   .name = "auto",
                   .splits_backward = true,
                   .rule = "made for given times, messages and a memory limit, never longer than the others; 1 "
                           "chunk, or 2 there and back"},
                  automatic_of_equal_times}};
constexpr std::array kAllScheduleKinds = [] {
  std::array<ScheduleKind, kSchedules.size()> schedule_kinds{};
  for (std::size_t i = 0; i < schedule_kinds.size(); ++i) schedule_kinds[i] = kSchedules[i].traits.kind;
  return schedule_kinds;
}();
constexpr std::string_view kClassPrefix = "schedule";  // of PyTorch's classes

const KnownSchedule& known_schedule(ScheduleKind schedule_kind) {
  const auto* const known =
      std::ranges::find(kSchedules, schedule_kind, [](const KnownSchedule& row) { return row.traits.kind; });
  if (known == kSchedules.end())
    throw InvalidArgument(fmt::format("schedule: there is no family {}", static_cast<int>(schedule_kind)));
  return *known;
}

}  // namespace

const ScheduleTraits& traits_of(ScheduleKind schedule_kind) { return known_schedule(schedule_kind).traits; }

std::string_view name_of(ScheduleKind schedule_kind) { return traits_of(schedule_kind).name; }

std::string_view name_in_specifications(ScheduleKind schedule_kind) {
  return traits_of(schedule_kind).in_specifications;
}

std::vector<std::string> names_in_specifications() {
  std::vector<std::string> names;
  for (const auto& [known, generator] : kSchedules)
    if (!known.in_specifications.empty()) names.emplace_back(known.in_specifications);
  return names;
}

std::string as_in_specifications(std::string_view name) {
  const auto schedule_kind = find_schedule_kind(name);
  return std::string(
      schedule_kind && !name_in_specifications(*schedule_kind).empty() ? name_in_specifications(*schedule_kind) : name);
}

std::vector<std::string> torch_class_names() {
  std::vector<std::string> names;
  for (const auto& [known, generator] : kSchedules)
    if (!known.torch.empty()) names.push_back(fmt::format("Schedule{}", known.torch));
  return names;
}

std::vector<std::pair<std::string, ScheduleKind>> schedule_kind_names() {
  std::vector<std::pair<std::string, ScheduleKind>> names;
  for (const auto& [known, generator] : kSchedules) {
    names.emplace_back(known.name, known.kind);
    if (!known.in_specifications.empty() && known.in_specifications != known.name)
      names.emplace_back(known.in_specifications, known.kind);
    if (known.torch.empty()) continue;
    if (std::string torch = in_lower_case(known.torch); torch != known.name) names.emplace_back(torch, known.kind);
    names.emplace_back(std::string(kClassPrefix) + in_lower_case(known.torch), known.kind);
  }
  return names;
}

std::optional<ScheduleKind> find_schedule_kind(std::string_view name) {
  const std::string sought = in_lower_case(name);
  for (const auto& [known, schedule_kind] : schedule_kind_names())
    if (known == sought) return schedule_kind;
  return std::nullopt;
}

ScheduleKind schedule_kind_of(std::string_view name) {
  if (const auto found = find_schedule_kind(name)) return *found;
  std::string names;
  for (const auto& [known, generator] : kSchedules) names.append(names.empty() ? "" : ", ").append(known.name);
  throw NotFound(fmt::format("schedule: there is no '{}', but {}", name, names));
}

std::span<const ScheduleKind> schedule_kinds() { return kAllScheduleKinds; }

detail::Generator detail::generator_of(ScheduleKind schedule_kind) { return known_schedule(schedule_kind).generator; }

}  // namespace plumbline::schedules
