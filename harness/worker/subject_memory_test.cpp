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
}

}  // namespace
}  // namespace plumbline::worker
