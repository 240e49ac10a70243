// harness/cli/schedule_file.hpp: a schedule that a user wrote, or another framework.
//
// Model   A CSV has a line a rank in PyTorch's notation (reference/schedules/schedule.hpp), with quotes around cells or
//         without. A JSON object has these rows in "ranks", as the operations schedules.* and --format json have them,
//         and optionally "stage_to_rank", "num_stages" and "microbatches"; what else it has is not read.
//         PyTorch once wrote B for the gradient of the input and BW for both, where it writes I and B now. A file is in
//         that notation if a cell of a CSV is BW, or where it is said to be: B and W alone have a meaning in both.
// Sources torch.distributed.pipelining.schedules: _load_csv, _dump_csv. Files in both notations: test/assets of
//         torchtitan, test/distributed/pipelining/artifacts of PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::cli {

struct ScheduleFile {
  schedules::Schedule schedule;
  bool old_notation = false;
  bool may_be_old = false;  // was read as the present one, and each W has a B of its micro-batch
};

/// PyTorch's, of the cells B, I, W and BW.
enum class Notation : std::uint8_t { present, old };
/// Of "torch" and "torch-old"; nothing of other names.
[[nodiscard]] std::optional<Notation> notation_named(std::string_view name);

/// What the options say, in place of what the file has or lets follow.
struct GivenPlacement {
  std::vector<int> stage_to_rank = {};  // empty: who computes a stage has it
  std::optional<int> micro_batches = {};
  std::optional<Notation> notation = {};
};

/// Throws InvalidArgument with line and column of a cell that is none, or with the field of a JSON.
[[nodiscard]] ScheduleFile parse_schedule_file(const std::string& whole, const GivenPlacement& given = {});

/// "read in PyTorch's old notation: …" for such a file.
[[nodiscard]] std::string notation_text(const ScheduleFile& file);
/// What to do where such a file, not valid, is of the old notation; "" of others.
[[nodiscard]] std::string notation_hint(const ScheduleFile& file);

}  // namespace plumbline::cli
