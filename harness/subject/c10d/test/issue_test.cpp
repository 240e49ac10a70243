// What a backend of torch.distributed is asked for: sums with a factor, and complex numbers.
#include "harness/subject/c10d/issue.hpp"

#include <complex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::subject::c10d_backend {
namespace {

using comm::Buffer;
using comm::ConstBuffer;
using comm::DType;
using comm::Operation;
using testing::ElementsAre;

using Asked = ::c10d::ReduceOp;

// A group of one rank that multiplies as NCCL's does, where it is asked to.
class Multiplier final : public ::c10d::Backend {
 public:
  Multiplier() : Backend(0, 1) {}
  [[nodiscard]] const std::string getBackendName() const override { return "multiplier"; }
  c10::intrusive_ptr<::c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                             const ::c10d::AllreduceOptions& options) override {
    return make(tensors.front(), options.reduceOp);
  }
  c10::intrusive_ptr<::c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                          const ::c10d::ReduceOptions& options) override {
    return make(tensors.front(), options.reduceOp);
  }
  c10::intrusive_ptr<::c10d::Work> _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                                        const ::c10d::ReduceScatterOptions& options) override {
    out.copy_(in);
    return make(out, options.reduceOp);
  }

  Asked::RedOpType last = Asked::UNUSED;
  at::ScalarType type = at::kByte;
  std::int64_t elements = 0;

 private:
  c10::intrusive_ptr<::c10d::Work> make(const at::Tensor& tensor, const Asked& op) {
    last = op.op_;
    type = tensor.scalar_type();
    elements = tensor.numel();
    if (op.op_ == Asked::PREMUL_SUM) {
      const auto* const factor = dynamic_cast<const ::c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      tensor.mul_(factor->double_factor);
    }
    return c10::make_intrusive<::c10d::Work>();
  }
};

struct Alone {
  Alone() : backend(c10::make_intrusive<Multiplier>()), group(c10::make_intrusive<::c10d::ProcessGroup>(0, 1)) {
    group->setBackend(at::kCPU, ::c10d::ProcessGroup::BackendType::CUSTOM, backend);
    group->setDefaultBackend(::c10d::ProcessGroup::BackendType::CUSTOM);
  }
  void make(const comm::Call& call, std::optional<double> factor) {
    std::vector<std::byte> scratch;
    (void)issue(*group, Issue{.call = call,
                              .rank = 0,
                              .size = 1,
                              .timeout = ::c10d::kUnsetTimeout,
                              .is_async = false,
                              .scratch = scratch,
                              .factor = factor});
  }
  c10::intrusive_ptr<Multiplier> backend;
  c10::intrusive_ptr<::c10d::ProcessGroup> group;
};

TEST(Issue, HandsDownTheFactorOfEachReduction) {
  Alone alone;
  for (const Operation operation : {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter})
    for (const double factor : {2.5, -0.25}) {
      const std::vector<float> in{1, 2, 3};
      std::vector<float> out(3);
      const comm::Call call{.operation = operation, .root = 0, .in = ConstBuffer::of(in), .out = Buffer::of(out)};
      alone.make(call, factor);
      EXPECT_EQ(alone.backend->last, Asked::PREMUL_SUM) << name_of(operation);
      const auto by = static_cast<float>(factor);
      EXPECT_THAT(out, ElementsAre(by, 2 * by, 3 * by)) << name_of(operation);
      EXPECT_THAT(in, ElementsAre(1, 2, 3));
      alone.make(call, {});
      EXPECT_EQ(alone.backend->last, Asked::SUM);
      EXPECT_THAT(out, ElementsAre(1, 2, 3));
    }
}

TEST(Issue, HandsComplexNumbersDownAsPairs) {
  Alone alone;
  const std::vector<std::complex<float>> in{{1, 2}, {3, 4}, {5, 6}};
  std::vector<std::complex<float>> out(3);
  alone.make({.operation = Operation::all_reduce, .in = {in.data(), 3, DType::c64}, .out = {out.data(), 3, DType::c64}},
             {});
  EXPECT_EQ(out, in);
  EXPECT_EQ(alone.backend->type, at::kFloat);
  EXPECT_EQ(alone.backend->elements, 6);
}

}  // namespace
}  // namespace plumbline::subject::c10d_backend
