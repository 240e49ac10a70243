// harness/modes/forwarding_window.hpp: a window around another, for decorators of communicators to derive from.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::modes {

/// The lengths of the memory of the members of a group of `ranks`, in bytes.
[[nodiscard]] inline std::vector<std::int64_t> lengths_of(const comm::Window& window, int ranks) {
  std::vector<std::int64_t> lengths;
  for (int rank = 0; rank < ranks; ++rank) lengths.push_back(window.bytes(rank));
  return lengths;
}

/// Forwards everything by default.
class ForwardingWindow : public comm::Window {
 public:
  ForwardingWindow(std::unique_ptr<comm::Window> inner, int ranks)
      : Window(lengths_of(*inner, ranks)), inner_(std::move(inner)) {}

 protected:
  void do_put(comm::ConstBuffer in, int to, std::int64_t offset, int context) override {
    inner_->put(in, to, offset, context);
  }
  void do_signal(int to, int context) override { inner_->signal(to, context); }
  void do_wait(int from, std::int64_t signals, int context, comm::Timeout timeout) override {
    inner_->wait(from, signals, context, timeout);
  }
  void do_close(comm::Timeout timeout) override { inner_->close(timeout); }

 private:
  std::unique_ptr<comm::Window> inner_;
};

}  // namespace plumbline::modes
