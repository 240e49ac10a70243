// harness/trainer/batch_tensors.hpp: batches of data as tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "harness/trainer/data/batches.hpp"
#include "harness/trainer/data/text.hpp"

namespace plumbline::training {

/// What goes into a model, and what is to come out.
struct BatchTensors {
  at::Tensor x;
  at::Tensor y;
};

/// float32 [rows, 3, 32, 32] and int64 [rows].
[[nodiscard]] inline BatchTensors tensors_of(const data::ImageBatch& batch) {
  const BatchTensors tensors{at::empty(batch.shape(), at::kFloat),
                             at::empty({static_cast<std::int64_t>(batch.y.size())}, at::kLong)};
  std::ranges::copy(batch.x, tensors.x.data_ptr<float>());
  std::ranges::copy(batch.y, tensors.y.data_ptr<std::int64_t>());
  return tensors;
}

/// int64 [rows, length], both.
[[nodiscard]] inline BatchTensors tensors_of(const data::TextBatch& batch, std::int64_t rows) {
  const std::vector<std::int64_t> shape{rows, static_cast<std::int64_t>(batch.x.size()) / rows};
  const BatchTensors tensors{at::empty(shape, at::kLong), at::empty(shape, at::kLong)};
  std::ranges::copy(batch.x, tensors.x.data_ptr<std::int64_t>());
  std::ranges::copy(batch.y, tensors.y.data_ptr<std::int64_t>());
  return tensors;
}

}  // namespace plumbline::training
