// conformance/training/clip_rules.hpp: what a clipped gradient would be by norms that programs have used in place of
// that of the whole model.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "conformance/training/single_device.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::conformance {

struct ClippedByOther {
  std::string rule;  // "clipped by the norm of pipeline rank 0 alone"
  std::vector<double> gradient;
};

/// Of a parameter. `whole` are the parameters that each tensor rank has in full; the norm of the step before is 0 where
/// there is none.
[[nodiscard]] std::vector<ClippedByOther> clipped_by_other_rules(const job::RunSpec& spec, const SingleDevice& single,
                                                                 const training::PrecisionSettings& settings,
                                                                 const std::string& parameter,
                                                                 const std::set<std::string>& whole,
                                                                 double norm_of_step_before);

}  // namespace plumbline::conformance
