// reference/training/detail/on_this_thread.hpp: back-propagation on the thread that calls it.
#pragma once

#include <c10/core/AutogradState.h>

namespace plumbline::training {

/// Back-propagation has threads of its own for GPUs, one for all ranks of a process: a rank that waits there for
/// another one would wait for ever. While a value lives, it runs on the thread that calls it.
class OnThisThread {
 public:
  OnThisThread() : before_(c10::AutogradState::get_tls_state()) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  ~OnThisThread() { c10::AutogradState::set_tls_state(before_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  c10::AutogradState before_;
};

}  // namespace plumbline::training
