#include "harness/worker/subject_memory.hpp"

#include <new>

#include <gtest/gtest.h>

#include "reference/comm/local.hpp"

namespace plumbline::worker {
namespace {

using namespace comm;

// A backend without memory for one operation.
class WithoutMemory final : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const Call& call, Timeout timeout) override {
    if (call.operation == Operation::all_reduce) throw std::bad_alloc();
    CommunicatorDecorator::do_run(call, timeout);
  }
  // A started broadcast has none while it is waited for.
  class NoMemoryLater final : public Work::State {
    bool test() override { throw std::bad_alloc(); }
    void wait(Timeout) override { throw std::bad_alloc(); }
  };
  Work do_start(std::span<const Call> calls) override {
    if (calls.front().operation == Operation::broadcast) return Work(std::make_unique<NoMemoryLater>());
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<WithoutMemory>(std::move(group));
  }
};

std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const SubjectOutOfMemory& error) {
    return error.what();
  }
  return "nothing";
}

TEST(NamingMemory, NamesTheCallInWhichTheBackendHadNone) {
  LocalWorld local(1);
  const auto world = naming_memory(std::make_unique<WithoutMemory>(local.communicator(0)));
  std::vector<float> values(3, 2);
  const Buffer all{values.data(), 3, DType::f32};
  EXPECT_EQ(words_of([&] { world->all_reduce(all, all, ReduceOp::sum); }),
            "all_reduce(f32 x 3, sum): the backend threw std::bad_alloc");
  const auto group = world->duplicate();
  EXPECT_NE(words_of([&] { group->all_reduce(all, all, ReduceOp::sum); }), "nothing") << "in its groups, too";
  EXPECT_EQ(words_of([&] { world->broadcast(all, 0); }), "nothing");
  Work broadcast = world->start({.operation = Operation::broadcast, .root = 0, .out = all});
  EXPECT_EQ(words_of([&] { broadcast.wait(); }),
            "wait of broadcast(f32 x 3, root 0): the backend threw std::bad_alloc");
  EXPECT_EQ(words_of([&] { (void)broadcast.test(); }),
            "test of broadcast(f32 x 3, root 0): the backend threw std::bad_alloc");
  Work barrier = world->start({.operation = Operation::barrier});
  EXPECT_EQ(words_of([&] { barrier.wait(); }), "nothing");
}

}  // namespace
}  // namespace plumbline::worker
