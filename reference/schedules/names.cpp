#include "reference/schedules/names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

struct NamesOfKind {
  ScheduleKind family;
  std::string_view ours, in_specifications, torch;
};
constexpr std::array kNamesOfFamilies{
    NamesOfKind{ScheduleKind::gpipe, "gpipe", "gpipe", "GPipe"},
    NamesOfKind{ScheduleKind::one_f_one_b, "1f1b", "1f1b", "1F1B"},
    NamesOfKind{ScheduleKind::interleaved, "interleaved", "interleaved-1f1b", "Interleaved1F1B"},
    NamesOfKind{ScheduleKind::looped_breadth_first, "looped-bfs", "looped-bfs", "LoopedBFS"},
    NamesOfKind{ScheduleKind::zb_h1, "zb-h1", "zb-h1", ""},
    NamesOfKind{ScheduleKind::zb_h2, "zb-h2", "zb-h2", ""},
    NamesOfKind{ScheduleKind::interleaved_zero_bubble, "interleaved-zero-bubble", "interleaved-zb",
                "InterleavedZeroBubble"},
    NamesOfKind{ScheduleKind::zbv, "zbv", "zbv", "ZBVZeroBubble"},
    NamesOfKind{ScheduleKind::v_half, "v-half", "v-half", ""},
    NamesOfKind{ScheduleKind::v_min, "v-min", "v-min", ""},
    NamesOfKind{ScheduleKind::dualpipev, "dualpipev", "dualpipev", "DualPipeV"},
    NamesOfKind{ScheduleKind::forward_only, "forward-only", "", ""},
    NamesOfKind{ScheduleKind::automatic, "auto", "", ""}};
constexpr std::array kAllFamilies = [] {
  std::array<ScheduleKind, kNamesOfFamilies.size()> families{};
  for (std::size_t i = 0; i < families.size(); ++i) families[i] = kNamesOfFamilies[i].family;
  return families;
}();
constexpr std::string_view kClassPrefix = "schedule";  // of PyTorch's classes

const NamesOfKind& names_of_family(ScheduleKind family) {
  return *std::ranges::find(kNamesOfFamilies, family, &NamesOfKind::family);
}

std::string in_lower_case(std::string_view name) {
  std::string lower(name);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

}  // namespace

std::string_view name_of(ScheduleKind family) { return names_of_family(family).ours; }

std::string_view name_in_specifications(ScheduleKind family) { return names_of_family(family).in_specifications; }

std::vector<std::string> names_in_specifications() {
  std::vector<std::string> names;
  for (const NamesOfKind& known : kNamesOfFamilies)
    if (!known.in_specifications.empty()) names.emplace_back(known.in_specifications);
  return names;
}

std::vector<std::string> torch_class_names() {
  std::vector<std::string> names;
  for (const NamesOfKind& known : kNamesOfFamilies)
    if (!known.torch.empty()) names.push_back(fmt::format("Schedule{}", known.torch));
  return names;
}

std::vector<std::pair<std::string, ScheduleKind>> family_names() {
  std::vector<std::pair<std::string, ScheduleKind>> names;
  for (const NamesOfKind& known : kNamesOfFamilies) {
    names.emplace_back(known.ours, known.family);
    if (!known.in_specifications.empty() && known.in_specifications != known.ours)
      names.emplace_back(known.in_specifications, known.family);
    if (known.torch.empty()) continue;
    if (std::string torch = in_lower_case(known.torch); torch != known.ours) names.emplace_back(torch, known.family);
    names.emplace_back(std::string(kClassPrefix) + in_lower_case(known.torch), known.family);
  }
  return names;
}

std::optional<ScheduleKind> find_family(std::string_view name) {
  const std::string sought = in_lower_case(name);
  for (const auto& [known, family] : family_names())
    if (known == sought) return family;
  return std::nullopt;
}

ScheduleKind family_of(std::string_view name) {
  if (const auto found = find_family(name)) return *found;
  std::string names;
  for (const NamesOfKind& known : kNamesOfFamilies) names.append(names.empty() ? "" : ", ").append(known.ours);
  throw NotFound(fmt::format("schedule: there is no '{}', but {}", name, names));
}

std::span<const ScheduleKind> families() { return kAllFamilies; }

}  // namespace plumbline::schedules
