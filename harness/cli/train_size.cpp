#include "harness/cli/train_size.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "harness/record/environment.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/safetensors.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = std::uint64_t{1} << 30;
constexpr std::uint64_t kMoments = 4;  // of a parameter in a step: before, local_grad, grad, after

struct RecordSize {
  double bytes = 0;   // of all ranks
  double header = 0;  // of the rank that names the most
};

RecordSize record_size(const job::RunSpec& spec) {
  const double steps = spec.run.steps;
  RecordSize size;
  for (int rank = 0; rank < spec.parallel.world(); ++rank) {
    const int pipeline = job::coordinates_of(spec.parallel, rank).pipeline;
    std::uint64_t names = 0, elements = 0;
    for (const job::Parameter& parameter : job::parameters_of(spec)) {
      if (std::ranges::count(job::holders_of(spec, parameter), pipeline) == 0) continue;
      // "step9999/local_grad/0.weight":{"data_offsets":[123456789,123456789],"dtype":"F32","shape":[32,64]},
      constexpr std::uint64_t form = 70;
      names += kMoments * (form + parameter.name.size() + job::text_of(parameter.shape).size());
      elements += kMoments * static_cast<std::uint64_t>(job::elements_of(parameter.shape));
    }
    size.header = std::max(size.header, steps * static_cast<double>(names));
    size.bytes += steps * static_cast<double>(names + sizeof(float) * elements);
  }
  return size;
}

}  // namespace

std::string require_room(const job::RunSpec& spec, std::int64_t values_of_a_row, const fs::path& folder) {
  constexpr double most = job::SafetensorsReader::kLargestHeader;
  const RecordSize record = record_size(spec);
  if (record.header > most)
    throw InvalidArgument(
        fmt::format("--steps {}: the tensors of each step are named in the header of a rank's record, which has at most {} "
                    "MB; it must be at most {:.0f} steps of this model",
                    spec.run.steps, most / 1e6, std::max(1.0, spec.run.steps * most / record.header)));
  const double batches = 4.0 * spec.run.steps * spec.run.accumulation * static_cast<double>(spec.run.global_batch) *
                         static_cast<double>(values_of_a_row);
  const double gib = (record.bytes + batches) / kGib;
  std::error_code error;
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const double memory = static_cast<double>(record::available_memory()) / kGib;
  const double disk = static_cast<double>(fs::space(there, error).available) / kGib;
  for (const auto& [what, free] : {std::pair{"of memory until the ranks end", memory}, {"on the disk", disk}})
    if (gib > free && !error)
      throw RuntimeFailure(fmt::format(
          "--steps {}: the training record and the batches take {:.1f} GiB {}, and {:.1f} GiB are available; a run with "
          "fewer steps takes less",
          spec.run.steps, gib, what, free));
  if (gib < 1) return {};
  return fmt::format("takes       {:.1f} GiB of memory until the ranks end, of {:.1f}, and as much of {:.1f} on the disk\n", gib,
                     memory, disk);
}

}  // namespace plumbline::cli
