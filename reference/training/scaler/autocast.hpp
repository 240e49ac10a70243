// reference/training/scaler/autocast.hpp: LibTorch's choice of a type for each operation, for as long as a value lives.
//
// Threads Of the calling thread. Back-propagation belongs outside: it follows what the forward pass has chosen.
// Source  torch.autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace plumbline::training {

class Autocast {
 public:
  Autocast(c10::DeviceType device, at::ScalarType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_, was_cached_;
  at::ScalarType type_;
};

}  // namespace plumbline::training
