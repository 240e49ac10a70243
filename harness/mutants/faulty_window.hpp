// harness/mutants/faulty_window.hpp: communicators with faulty windows.
#pragma once

#include <memory>

#include "harness/modes/forwarding_window.hpp"
#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

using modes::ForwardingWindow;

/// A communicator whose windows are of that class.
template <class Faulty>
class WithWindows final : public Plain<WithWindows<Faulty>> {
 public:
  using Plain<WithWindows<Faulty>>::Plain;

 private:
  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, comm::Timeout timeout) override {
    return std::make_unique<Faulty>(Plain<WithWindows<Faulty>>::do_create_window(memory, timeout), this->size());
  }
};
template <class Faulty>
std::unique_ptr<comm::Communicator> wrap_windows_in(std::unique_ptr<comm::Communicator> inner) {
  return wrap_in<WithWindows<Faulty>>(std::move(inner));
}

}  // namespace plumbline::mutants
