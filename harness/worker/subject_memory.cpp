#include "harness/worker/subject_memory.hpp"

#include <new>

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

class NamingMemory final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  comm::PairExchanges* pair_exchanges() override { return inner().pair_exchanges(); }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    named([&] { return comm::describe(call, size()); }, [&] { CommunicatorDecorator::do_run(call, timeout); });
  }
  comm::Work do_start(std::span<const Call> calls) override {
    return named([&] { return calls.empty() ? "a batch" : comm::describe(calls.front(), size()); },
                 [&] { return CommunicatorDecorator::do_start(calls); });
  }
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    return named([] { return std::string("create_group"); },
                 [&] { return CommunicatorDecorator::do_create_group(ranks); });
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
