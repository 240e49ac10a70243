// reference/training/slowmo/averaged_run.hpp: a rank of averaging.hpp, on LibTorch.
#pragma once

#include <filesystem>
#include <memory>

#include "reference/device/runtime.hpp"
#include "reference/training/averaging.hpp"

namespace plumbline::training {

/// On spec.run.device; `devices` are those whose memory the world may serve, or null. Collective over `world`, which
/// must outlive it. Throws InvalidArgument as require_averageable() and require_possible(), and for a world of another
/// size than the specification's; what RankDevice throws; Unsupported for a GPU without its runtime.
[[nodiscard]] std::unique_ptr<AveragedSession> averaged_run(const job::RunSpec& spec, comm::Communicator& world,
                                                            const AveragingSettings& settings,
                                                            const std::shared_ptr<device::Runtime>& devices = nullptr);

/// All steps of a specification with [averaging], recorded in `folder` as training_record.hpp says. Throws as
/// averaged_run(), and RuntimeFailure where nothing can be written.
void run_averaged_specification(const job::RunSpec& spec, comm::Communicator& world,
                                const std::filesystem::path& folder, const Progress& progress,
                                const std::shared_ptr<device::Runtime>& devices);

}  // namespace plumbline::training
