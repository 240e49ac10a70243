// conformance/slowmo/rounding.hpp: how far apart two right runs of SlowMo may be.
//
// Model   One run's kernels round every product and every sum on their own; those with a fused multiply-add round
//         both at once, and a sum may have another order. What a step of such operations may add between the two is
//         carried from step to step: of a product u times its size, of a result 2u.
#pragma once

#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

/// Unit round-off of float32, float64 and float16.
inline constexpr double kSingleUnit = 0x1p-24, kDoubleUnit = 0x1p-53, kHalfUnit = 0x1p-11;

/// The largest magnitudes of a run.
struct RunSizes {
  double gradients = 0, parameters = 0, momentum = 0;
};
/// Of a question to slowmo.trace and the steps of its right answer.
[[nodiscard]] RunSizes sizes_of_run(const nlohmann::json& args, const nlohmann::json& steps);

/// How far a value may be off.
struct Distances {
  double parameters = 0, old = 0, slow = 0, weight = 0;
  double copied = 0;  // what is moved and not computed
};

/// Of one element, whichever it is, after each step of a run.
class Rounding {
 public:
  /// `args`, a question to slowmo.trace, must outlive it. `half` is the rounding of parameters that are kept as
  /// halves: 0 unless one of them may round the other way.
  Rounding(const nlohmann::json& args, const RunSizes& sizes, double unit, double half);

  /// Of the steps in their order.
  const Distances& after(std::size_t step);

 private:
  [[nodiscard]] std::pair<double, double> rates(std::size_t step) const;
  void optimize(double rate);
  void average();
  void step_slowly(double least, double most);

  const nlohmann::json& args_;
  RunSizes sizes_;
  double unit_, half_, ranks_, momentum_ = 0, decay_ = 0;
  bool shares_old_;  // all ranks keep the same slow buffers
  double buffer_ = 0, buffer_size_ = 0;
  double from_old_ = 0;    // of the difference between parameters and slow parameters
  std::size_t first_ = 0;  // step since a start or resume
  Distances far_;
};

}  // namespace plumbline::conformance
