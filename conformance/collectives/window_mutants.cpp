// Faults of windows and their signals.
#include <deque>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty_window.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

namespace {

// As code does that lets a signal overtake the data that was put before it.
class SignalOvertakes final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;

 private:
  void do_put(comm::ConstBuffer in, int to, std::int64_t offset, int context) override {
    const auto* const bytes = static_cast<const std::byte*>(in.data);
    late_.push_back({{bytes, bytes + in.bytes()}, to, offset, context});
  }
  void do_close(comm::Timeout timeout) override {
    for (const Put& one : late_)
      ForwardingWindow::do_put({one.bytes.data(), std::ssize(one.bytes), comm::DType::u8}, one.to, one.offset,
                               one.context);
    ForwardingWindow::do_close(timeout);
  }
  struct Put {
    std::vector<std::byte> bytes;
    int to;
    std::int64_t offset;
    int context;
  };
  std::deque<Put> late_;
};

// As code does whose puts begin where the window does.
class OffsetsAreLost final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;

 private:
  void do_put(comm::ConstBuffer in, int to, std::int64_t /*offset*/, int context) override {
    ForwardingWindow::do_put(in, to, 0, context);
  }
};

// As code does whose signal is a flag.
class FirstSignalIsAll final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;

 private:
  void do_wait(int from, std::int64_t /*signals*/, int context, comm::Timeout timeout) override {
    ForwardingWindow::do_wait(from, 1, context, timeout);
  }
};

class OneContext final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;

 private:
  void do_signal(int to, int /*context*/) override { ForwardingWindow::do_signal(to, 0); }
  void do_wait(int from, std::int64_t signals, int /*context*/, comm::Timeout timeout) override {
    ForwardingWindow::do_wait(from, signals, 0, timeout);
  }
};

// What it leaves is closed with the object.
class ClosesAtOnce final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;
  ~ClosesAtOnce() override {
    try {
      if (is_closed()) ForwardingWindow::do_close({});
    } catch (const Error&) {
      // The group has failed.
    }
  }
  ClosesAtOnce(const ClosesAtOnce&) = delete;
  ClosesAtOnce& operator=(const ClosesAtOnce&) = delete;

 private:
  void do_close(comm::Timeout /*timeout*/) override {}
};

class BlamesItself final : public ForwardingWindow {
 public:
  using ForwardingWindow::ForwardingWindow;

 private:
  void do_wait(int from, std::int64_t signals, int context, comm::Timeout timeout) override {
    try {
      ForwardingWindow::do_wait(from, signals, context, timeout);
    } catch (const comm::TimeoutError&) {
      throw comm::TimeoutError("no signal came within the limit; waited for rank 0");
    }
  }
};

}  // namespace

std::vector<Mutant> window_mutants() {
  const char* const kData = "collectives.windows.signals_come_after_data[world=3]";
  const char* const kNccl = "NCCL 2.29: ncclPutSignal and ncclWaitSignal";
  return {
      {"col.window_signal_overtakes", "COLL-160", "a signal comes before the data that was put before it",
       "MPI-3.1 section 11.5: an operation is complete at the target after a flush", kData,
       "collectives.windows.no_signal[world=3]", "nothing is put", wrap_windows_in<SignalOvertakes>},
      {"col.window_offset_lost", "COLL-160", "a put begins at the start of the window", kNccl, kData,
       "collectives.windows.close_waits_for_all[world=3]", "every put is at byte 0", wrap_windows_in<OffsetsAreLost>},
      {"col.window_signal_is_flag", "COLL-161", "a wait for several signals returns after the first", kNccl,
       "collectives.windows.signals_are_counted[world=3]", kData, "every wait is for one signal",
       wrap_windows_in<FirstSignalIsAll>},
      {"col.window_one_context", "COLL-162", "a wait takes the signals of other contexts", kNccl,
       "collectives.windows.signals_are_apart[world=3]", kData, "there is one context", wrap_windows_in<OneContext>},
      {"col.window_closes_at_once", "COLL-163", "close returns before the other members close",
       "MPI-3.1 section 11.2.5: MPI_Win_free", "collectives.windows.close_waits_for_all[world=3]", kData,
       "nothing is put by a member that others do not wait for", wrap_windows_in<ClosesAtOnce>},
      {"col.window_blames_itself", "COLL-164", "a time-out of a wait for a signal names another rank", "COL-08",
       "collectives.windows.no_signal[world=3]", kData, "all signals come", wrap_windows_in<BlamesItself>},
  };
}

}  // namespace plumbline::mutants
