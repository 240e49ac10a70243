#include "harness/worker/subject_memory.hpp"

#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace plumbline::worker {
namespace {

using comm::Call;

// The words are made where they are needed: calls are timed.
template <class Words, class Make>
auto named(const Words& words, const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw SubjectOutOfMemory(words() + ": the backend threw std::bad_alloc");
  }
}

// A started call, which may need memory until it is complete.
class NamingWork final : public comm::Work::State {
 public:
  NamingWork(comm::Work inner, std::optional<Call> first, int ranks)
      : inner_(std::move(inner)), first_(first), ranks_(ranks) {}
  bool test() override {
    return named([&] { return words("test"); }, [&] { return inner_.test(); });
  }
  void wait(comm::Timeout timeout) override {
    named([&] { return words("wait"); }, [&] { inner_.wait(timeout); });
  }
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  [[nodiscard]] std::string words(const char* what) const {
    return fmt::format("{} of {}", what, first_ ? comm::describe(*first_, ranks_) : "a batch");
  }
  comm::Work inner_;
  std::optional<Call> first_;
  int ranks_;
};

class NamingMemory final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  comm::PairExchanges* pair_exchanges() override { return inner().pair_exchanges(); }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    named([&] { return comm::describe(call, size()); }, [&] { CommunicatorDecorator::do_run(call, timeout); });
  }
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override {
    named([&] { return comm::describe(call); }, [&] { CommunicatorDecorator::do_run_uneven(call, timeout); });
  }
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    named([&] { return comm::describe(call, size()); },
          [&] { CommunicatorDecorator::do_run_scaled(call, factor, timeout); });
  }
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override {
    named([&] { return comm::describe(call, size()); }, [&] { CommunicatorDecorator::do_run_strided(call, timeout); });
  }
  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, comm::Timeout timeout) override {
    return named([] { return std::string("create_window"); },
                 [&] { return CommunicatorDecorator::do_create_window(memory, timeout); });
  }
  comm::Work do_start(std::span<const Call> calls) override {
    const auto first = calls.empty() ? std::nullopt : std::optional(calls.front());
    comm::Work work = named([&] { return first ? comm::describe(*first, size()) : "a batch"; },
                            [&] { return CommunicatorDecorator::do_start(calls); });
    return comm::Work(std::make_unique<NamingWork>(std::move(work), first, size()));
  }
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    return named([] { return std::string("create_group"); },
                 [&] { return CommunicatorDecorator::do_create_group(ranks); });
  }
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return named([] { return std::string("shrink"); }, [&] { return CommunicatorDecorator::do_shrink(excluded); });
  }
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    return named([] { return std::string("grow"); },
                 [&] { return CommunicatorDecorator::do_grow(invitation, newcomers); });
  }
  std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override {
    return named([] { return std::string("join"); },
                 [&] { return CommunicatorDecorator::do_join(invitation, newcomers); });
  }
  comm::Registration do_register(comm::Buffer memory) override {
    return named([] { return std::string("register_memory"); },
                 [&] { return CommunicatorDecorator::do_register(memory); });
  }
  void* do_allocate(std::size_t bytes) override {
    return named([] { return std::string("allocate"); }, [&] { return CommunicatorDecorator::do_allocate(bytes); });
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return naming_memory(std::move(group));
  }
};

}  // namespace

std::unique_ptr<comm::Communicator> naming_memory(std::unique_ptr<comm::Communicator> backend) {
  return std::make_unique<NamingMemory>(std::move(backend));
}

}  // namespace plumbline::worker
