#include "harness/cli/train_size.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "harness/record/environment.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/record/training_record.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = std::uint64_t{1} << 30;

}  // namespace

RecordSize record_size(const job::RunSpec& spec) {
  const double steps = spec.run.steps;
  RecordSize size;
  const auto moments = static_cast<std::uint64_t>(
      std::ranges::count_if(job::kAllMoments, [&](job::Moment moment) { return job::has_moment(spec, moment); }));
  for (int rank = 0; rank < spec.parallel.world(); ++rank) {
    const int pipeline = job::coordinates_of(spec.parallel, rank).pipeline;
    std::uint64_t names = 0, elements = 0;
    for (const job::Parameter& parameter : job::parameters_of(spec)) {
      if (std::ranges::count(job::holders_of(spec, parameter), pipeline) == 0) continue;
      // "step9999/local_grad/0.weight":{"data_offsets":[123456789,123456789],"dtype":"F32","shape":[32,64]},
      constexpr std::uint64_t form = 70;
      names += moments * (form + parameter.name.size() + job::text_of(parameter.shape).size());
      elements += moments * static_cast<std::uint64_t>(job::elements_of(parameter.shape));
    }
    const double bytes = steps * static_cast<double>(names + sizeof(float) * elements);
    size.header = std::max(size.header, steps * static_cast<double>(names));
    size.of_rank = std::max(size.of_rank, bytes);
    size.of_all += bytes;
  }
  return size;
}

std::string require_room(const job::RunSpec& spec, const RunPlace& place) {
  constexpr double most = job::SafetensorsReader::kLargestHeader;
  const std::string steps = place.steps + std::to_string(spec.run.steps);
  const RecordSize record = record_size(spec);
  if (record.header > most)
    throw InvalidArgument(
        fmt::format("{}: the tensors of each step are named in the header of a rank's record, which has at most {} MB; "
                    "it must be at most {:.0f} steps of this model",
                    steps, most / 1e6, std::max(1.0, spec.run.steps * most / record.header)));
  const double batches = 4.0 * spec.run.steps * spec.run.accumulation * static_cast<double>(spec.run.global_batch) *
                         static_cast<double>(place.values_of_a_row);
  // Where its other ranks are, and what is free there, is not known before they start.
  const double in_memory = ((place.on_one_host ? record.of_all : record.of_rank) + batches) / kGib;
  const double on_disk = (record.of_all + batches) / kGib;
  std::error_code error;
  fs::path there = fs::absolute(place.folder);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const double memory = static_cast<double>(record::available_memory()) / kGib;
  const double disk = static_cast<double>(fs::space(there, error).available) / kGib;
  const std::string until = place.on_one_host ? "of memory until the ranks end" : "of a rank's memory until it ends";
  struct Need {
    std::string what;
    double gib, free;
  };
  for (const auto& [what, gib, free] : {Need{until, in_memory, memory}, Need{"on the disk", on_disk, disk}})
    if (gib > free && !error)
      throw RuntimeFailure(fmt::format(
          "{}: the training record and the batches take {:.1f} GiB {}, and {:.1f} GiB are available; a run with fewer "
          "steps takes less",
          steps, gib, what, free));
  if (std::max(in_memory, on_disk) < 1) return {};
  return fmt::format("takes       {:.1f} GiB {}, of {:.1f}, and {:.1f} of {:.1f} on the disk\n", in_memory, until,
                     memory, on_disk, disk);
}

}  // namespace plumbline::cli
