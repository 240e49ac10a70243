// reference/schedules/names.hpp: the known schedules, what is true of each, and every name of each.
// A new one has an enumerator here, a row in names.cpp, and its generator (generate_rows.hpp).
//
// Names   Ours ("interleaved"), PyTorch's as get_schedule_class() takes them ("Interleaved1F1B", also with "Schedule"
//         before it, as its classes are called), and those of run specifications ("interleaved-1f1b"). All are taken in
//         upper and lower case, wherever a schedule is named.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

enum class ScheduleKind {
  gpipe,        // all forwards, then all backwards, the first micro-batch first; v = 1
  one_f_one_b,  // min(p-r-1, m) forwards, then forwards and backwards alternately; v = 1
  interleaved,  // the same in rounds of max(1, m/p), which must divide m; each round goes through all chunks. For v = 1
                // it is 1F1B itself, for any m
  looped_breadth_first,  // a chunk's micro-batches all at once; backwards in reverse
  zb_h1,                 // 1F1B whose weight gradients lag by r micro-batches; v = 1
  zb_h2,  // twice the forwards of zb_h1 before the first backward, and a lag of 2r: no bubble for equal times; v = 1
  interleaved_zero_bubble,  // interleaved with the warm-up of zb_h1 and its lag; the same rounds
  zbv,                      // PyTorch's fixed pattern; v = 2
  v_half,                   // half of 1F1B's bubble, and about half of its activations, for equal times; v = 2
  v_min,                    // two thirds of its bubble and about a third of its activations; v = 2
  dualpipev,                // forward and backward at once; v = 2, m >= 2p
  forward_only,             // inference: in groups of p micro-batches, each through all chunks
  automatic                 // the shortest that automatic() (generate.hpp) finds for equal times; v = 1, or 2 in a V
};

/// What is true of a schedule of any shape: its row of the table.
struct ScheduleTraits {
  ScheduleKind kind = ScheduleKind::gpipe;
  std::string_view name = {};               // ours
  std::string_view in_specifications = {};  // empty: no specification trains by it
  std::string_view torch = {};              // of PyTorch's class, without "Schedule"; empty: PyTorch has none
  int stages_per_rank = 0;                  // exactly this number; 0: any number
  int usual_stages_per_rank = 1;            // if the caller gives none
  Placement placement = Placement::loop;    // automatic of 2 stages a rank is in a V, too
  bool splits_backward = false;             // has I and W
  std::string_view rule = {};               // in a line, for readers
};
[[nodiscard]] const ScheduleTraits& traits_of(ScheduleKind schedule_kind);
/// "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zero-bubble", "zbv", "v-half", "v-min",
/// "dualpipev", "forward-only", "auto".
[[nodiscard]] std::string_view name_of(ScheduleKind schedule_kind);
/// The name that a run specification has, "interleaved-1f1b" for interleaved and "interleaved-zb" for its zero bubble;
/// empty for forward_only and automatic, which train nothing of a specification.
[[nodiscard]] std::string_view name_in_specifications(ScheduleKind schedule_kind);
/// All of those.
[[nodiscard]] std::vector<std::string> names_in_specifications();
/// The name in specifications of the schedule that has this name, whichever of its names it is; any other name as it
/// is.
[[nodiscard]] std::string as_in_specifications(std::string_view name);

/// What PyTorch's classes are called: "ScheduleGPipe", "Schedule1F1B", …
[[nodiscard]] std::vector<std::string> torch_class_names();

/// By any of its names; nothing for another name.
[[nodiscard]] std::optional<ScheduleKind> find_schedule_kind(std::string_view name);
/// Throws NotFound that lists our names.
[[nodiscard]] ScheduleKind schedule_kind_of(std::string_view name);
/// All of them.
[[nodiscard]] std::span<const ScheduleKind> schedule_kinds();
/// Every name, in lower case, with its family.
[[nodiscard]] std::vector<std::pair<std::string, ScheduleKind>> schedule_kind_names();

}  // namespace plumbline::schedules
