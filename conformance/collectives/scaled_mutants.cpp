// Faults of sums whose inputs are multiplied by factors.
#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

using comm::Call;

namespace {

// As a backend does that takes the reduction for a plain sum.
class IgnoresFactors final : public Plain<IgnoresFactors> {
 public:
  using Plain::Plain;

 private:
  void do_run_scaled(const Call& call, double /*factor*/, comm::Timeout timeout) override {
    Plain::do_run_scaled(call, 1, timeout);
  }
};

// As one does whose factor is that of the communicator.
class TakesTheFirstFactor final : public Plain<TakesTheFirstFactor> {
 public:
  using Plain::Plain;

 private:
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    inner().broadcast({&factor, 1, comm::DType::f64}, 0, timeout);
    Plain::do_run_scaled(call, factor, timeout);
  }
};

class NarrowFactor final : public Plain<NarrowFactor> {
 public:
  using Plain::Plain;

 private:
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    Plain::do_run_scaled(call, to_float(comm::to_bfloat16(static_cast<float>(factor))), timeout);
  }
};

// As one does whose products are made in the input.
class SpoilsInPlace final : public Plain<SpoilsInPlace> {
 public:
  using Plain::Plain;

 private:
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    Plain::do_run_scaled(call, factor, timeout);
    if (call.operation != comm::Operation::reduce_scatter || size() == 1) return;
    if (element(call.in, rank() * call.out.count) != call.out.data) return;
    const std::int64_t elsewhere = rank() == 0 ? call.out.count : 0;
    *const_cast<std::byte*>(element(call.in, elsewhere)) ^= std::byte{1};
  }
};

class LeavesOutZero final : public Plain<LeavesOutZero> {
 public:
  using Plain::Plain;

 private:
  void do_run_scaled(const Call& call, double factor, comm::Timeout timeout) override {
    const std::vector<std::byte> nothing(call.in.bytes());
    Call changed = call;
    if (factor == 0 && call.in.data != nullptr) changed.in.data = nothing.data();
    Plain::do_run_scaled(changed, factor, timeout);
  }
};

}  // namespace

std::vector<Mutant> scaled_mutants() {
  const char* const kSource = "NCCL 2.11: ncclRedOpCreatePreMulSum";
  return {
      {"col.scaled_sum_is_plain", "COLL-111", "factors are ignored", kSource,
       "collectives.scaled.exact[dtype=f32,factors=own,world=3]",
       "collectives.scaled.exact[dtype=f32,factors=one,world=3]", "every factor is 1", wrap_in<IgnoresFactors>},
      {"col.scaled_by_the_first", "COLL-111", "every member takes the factor of rank 0", kSource,
       "collectives.scaled.exact[dtype=f32,factors=own,world=3]",
       "collectives.scaled.exact[dtype=f32,factors=equal,world=3]", "the factors are equal",
       wrap_in<TakesTheFirstFactor>},
      {"col.scaled_by_a_bf16", "COLL-112", "a factor keeps 8 bits of its fraction",
       "ncclScalarHostImmediate read as another dtype", "collectives.scaled.rounding_bound[dtype=f32,world=3]",
       "collectives.scaled.rounding_bound[dtype=bf16,world=3]", "bf16 has no other factors", wrap_in<NarrowFactor>},
      {"col.scaled_in_place_scratch", "COLL-113", "a reduce_scatter in place changes another block of its input",
       "NCCL: in-place operations", "collectives.scaled.in_place[dtype=f32,world=3]",
       "collectives.scaled.exact[dtype=f32,factors=own,world=3]", "input and output are apart", wrap_in<SpoilsInPlace>},
      {"col.scaled_zero_is_left_out", "COLL-114", "an input whose factor is zero is not read",
       "IEEE 754-2019 section 7.2", "collectives.scaled.zero_meets_overflow[dtype=f32,world=3]",
       "collectives.scaled.exact[dtype=f32,factors=own,world=5]", "all inputs are finite", wrap_in<LeavesOutZero>},
  };
}

}  // namespace plumbline::mutants
