// harness/mutants/faulty_window.hpp: a window around another, for mutants to derive from.
#pragma once

#include <memory>
#include <vector>

#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

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
  static std::vector<std::int64_t> lengths_of(const comm::Window& window, int ranks) {
    std::vector<std::int64_t> lengths;
    for (int rank = 0; rank < ranks; ++rank) lengths.push_back(window.bytes(rank));
    return lengths;
  }
  std::unique_ptr<comm::Window> inner_;
};

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
