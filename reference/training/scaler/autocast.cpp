#include "reference/training/scaler/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace plumbline::training {

Autocast::Autocast(c10::DeviceType device, at::ScalarType type)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      was_cached_(at::autocast::is_autocast_cache_enabled()),
      type_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, type);
  // Rounded weights are kept by address, and optimizers change them in place.
  at::autocast::set_autocast_cache_enabled(false);
}

Autocast::~Autocast() {
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, type_);
  at::autocast::set_autocast_cache_enabled(was_cached_);
}

}  // namespace plumbline::training
