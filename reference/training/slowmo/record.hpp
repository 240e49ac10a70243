// reference/training/slowmo/record.hpp: what ranks that average had in each step, as files. Free of LibTorch.
//
// Model   A safetensors file a rank, folder/averaging<R>.safetensors: step<S>/before, seen, gradient, updated, after, and
//         where there are some mixed, halves, buffers_seen and buffers, F32 of one dimension; step<S>/numbers, F64: loss, weight
//         before, weight behind the step.
// Errors  InvalidArgument, NotFound, RuntimeFailure: the file and what is wrong.
#pragma once

#include <filesystem>
#include <vector>

#include "reference/training/slowmo/session.hpp"

namespace plumbline::training {

[[nodiscard]] std::filesystem::path averaging_file(const std::filesystem::path& folder, int rank);
void write_averaged_steps(const std::vector<AveragedStep>& steps, const std::filesystem::path& folder, int rank);
/// As many steps as the file has.
[[nodiscard]] std::vector<AveragedStep> read_averaged_steps(const std::filesystem::path& folder, int rank);

}  // namespace plumbline::training
