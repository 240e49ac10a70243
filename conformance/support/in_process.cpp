#include "conformance/support/in_process.hpp"

#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "harness/device/staged.hpp"
#include "harness/launch/process.hpp"
#include "harness/modes/modes.hpp"
#include "harness/subject/adapter/declared.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/rank_ended.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::conformance {
namespace {

// Keeps the failures of the thread that it lives on; a fatal one ends the rank's body.
class FailuresOfThread final : private testing::TestPartResultArray, public testing::ScopedFakeTestPartResultReporter {
 public:
  FailuresOfThread()
      : ScopedFakeTestPartResultReporter(INTERCEPT_ONLY_CURRENT_THREAD,
                                         static_cast<testing::TestPartResultArray*>(this)) {}
  void ReportTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::string file = part.file_name() == nullptr ? "" : part.file_name();
    file.erase(0, file.rfind('/') + 1);
    all_.push_back({fmt::format("{}:{}: {}", file, part.line_number(), part.message())});
    if (part.fatally_failed()) throw testing::AssertionException(part);
  }
  // Runs a body that may throw what it likes, but that a peer failed.
  void collect(const std::function<void()>& body) {
    try {
      body();
    } catch (const testing::AssertionException&) {
      // is among the failures
    } catch (const suite::RankEnded&) {
      // as the check wants it to
    } catch (const comm::PeerFailed&) {
      throw;
    } catch (const suite::UndeclaredQuestion&) {
      throw;
    } catch (const suite::UnclaimedQuestion&) {
      throw;
    } catch (const suite::UnaskedQuestion&) {
      throw;
    } catch (const suite::Skipped&) {
      throw;
    } catch (const suite::AnswerInAnotherForm& error) {  // is wrong, whatever the check would have made of it
      all_.push_back({error.what(), false});
    } catch (const std::exception& error) {
      all_.push_back({error.what(), true});
    } catch (...) {
      all_.push_back({"an exception of an unknown type", true});
    }
  }
  [[nodiscard]] const std::vector<Failure>& all() const { return all_; }

 private:
  std::vector<Failure> all_;
};

class RankContext final : public suite::Context {
 public:
  RankContext(const suite::Case& one, comm::Communicator* world, suite::Adapter* adapter, suite::DeviceSeat seat = {})
      : one_(one), world_(world), adapter_(adapter), seat_(std::move(seat)) {}
  comm::Communicator& world() override { return given(world_); }
  suite::Adapter& adapter() override { return given(adapter_); }
  training::Training& training() override { throw StateError("no training here"); }
  [[nodiscard]] const suite::Parameters& parameters() const override { return one_.parameters; }
  [[nodiscard]] std::uint64_t seed() const override { return 1; }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return given(world_).capabilities(); }
  [[nodiscard]] const std::string& scratch() const override { return scratch_; }
  [[nodiscard]] std::string device() const override { return seat_.runtime == nullptr ? "cpu" : "emulated"; }
  const suite::DeviceSeat& device_seat() override {
    if (seat_.runtime == nullptr) throw StateError("no device here");
    return seat_;
  }
  void progress(const std::string&) override {}

 private:
  template <class T>
  static T& given(T* subject) {
    if (subject == nullptr) throw StateError("a check has what its door leads to, and no more");
    return *subject;
  }
  const suite::Case& one_;
  comm::Communicator* world_;
  suite::Adapter* adapter_;
  suite::DeviceSeat seat_;
  std::string scratch_;
};

// The limit of waits that are given none.
constexpr auto kPatience = std::chrono::seconds(20);

class Run {
 public:
  Run(const suite::Case& one, const Wrap& wrap, const suite::ExecutionMode& mode,
      std::shared_ptr<device::Runtime> runtime = nullptr)
      : one_(one),
        wrap_(wrap),
        mode_(mode),
        runtime_(std::move(runtime)),
        world_(one.world(), {.timeout = kPatience, .device_calls = runtime_ ? device::make_calls(runtime_) : nullptr}) {
    if (mode.kind != suite::ExecutionMode::Kind::plain) folder_.emplace();
  }

  std::vector<Failure> run() {
    {
      std::vector<std::jthread> ranks;
      for (int rank = 0; rank < one_.world(); ++rank) ranks.emplace_back([this, rank] { run_rank(rank); });
    }
    return causes_.empty() ? consequences_ : causes_;
  }
  // Of the ranks that judged nothing.
  [[nodiscard]] const std::string& skipped() const { return skipped_; }

 private:
  void run_rank(int rank) {
    FailuresOfThread failures;
    std::string consequence;
    auto communicator = world_.communicator(rank);
    suite::DeviceSeat seat;
    if (runtime_ != nullptr)
      seat = {runtime_, {comm::Device::Kind::emulated, static_cast<std::int16_t>(rank % runtime_->count())}};
    if (runtime_ != nullptr && !one_.check->on_device)
      communicator = harness::staged_on(runtime_, seat.device, std::move(communicator));
    if (folder_) communicator = modes::under(mode_, std::move(communicator), folder_->path(), kPatience);
    if (wrap_) communicator = wrap_(std::move(communicator));
    try {
      failures.collect([&] {
        RankContext context(one_, communicator.get(), nullptr, seat);
        one_.check->body(context);
      });
    } catch (const comm::PeerFailed& error) {
      consequence = error.what();
    } catch (const suite::Skipped& skipped) {
      const std::lock_guard hold(mutex_);
      skipped_ = skipped.what;
    }
    if (!failures.all().empty()) world_.abort(fmt::format("rank {} failed", rank));
    const std::lock_guard hold(mutex_);
    for (const Failure& failure : failures.all())
      causes_.push_back({fmt::format("rank {}: {}", rank, failure.text), failure.uncaught});
    if (!consequence.empty()) consequences_.push_back({fmt::format("rank {}: {}", rank, consequence)});
  }

  const suite::Case& one_;
  const Wrap& wrap_;
  const suite::ExecutionMode mode_;
  std::optional<launch::ScratchFolder> folder_;  // of the arm
  std::shared_ptr<device::Runtime> runtime_;     // of a run on devices
  comm::LocalWorld world_;
  std::mutex mutex_;
  std::vector<Failure> causes_;
  std::vector<Failure> consequences_;
  std::string skipped_;
};

}  // namespace

std::vector<Failure> run_in_process(const suite::Case& one, const Wrap& wrap, const suite::ExecutionMode& mode) {
  return Run(one, wrap, mode).run();
}

std::string reason_to_skip(const suite::Case& one, const Wrap& wrap) {
  Run run(one, wrap, {});
  (void)run.run();
  return run.skipped();
}

std::vector<Failure> run_on_devices(const suite::Case& one, const Wrap& wrap) {
  // Many small pieces of work make up a staged call.
  const auto delay = std::chrono::microseconds(one.check->on_device ? 200 : 20);
  return Run(one, wrap, {}, device::make_emulated({.longest_delay = delay})).run();
}

std::vector<Failure> run_in_process(const suite::Case& one, suite::Adapter& adapter) {
  FailuresOfThread failures;
  subject::DeclaredAdapter declared(adapter, one);
  try {
    failures.collect([&] {
      RankContext context(one, nullptr, &declared);
      one.check->body(context);
      if (failures.all().empty()) declared.expect_all_asked(subject::DeclaredAdapter::Values::all);
    });
  } catch (const suite::UnclaimedQuestion&) {
    // skipped
  } catch (const suite::Skipped&) {
    // likewise
  } catch (const suite::UndeclaredQuestion& question) {
    return {{question.what, true}};
  } catch (const suite::UnaskedQuestion& question) {
    return {{question.what, true}};
  }
  return failures.all();
}

}  // namespace plumbline::conformance
