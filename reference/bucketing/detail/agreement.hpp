// reference/bucketing/detail/agreement.hpp: do all ranks of a group have the same plan? Asked before the first
// reduction.
//
// Model   Each rank puts its gradients (name, shape, type, device, group, sparse or not) and its whole plan into lines,
//         and hashes them. Two numbers a rank are exchanged; only where they differ are the lines themselves, and then
//         all ranks find the same first difference and throw it. A difference that would be a hang, or gradients added
//         to strangers, is an error that says which parameter, and which ranks have what.
// Cost    Linear in the gradients, and one all_gather of 24 bytes a rank. In the case of a difference one of
//         everybody's lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/bucketing/plan.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

/// What some ranks have, in words; ranks ascend.
struct Opinion {
  std::vector<int> ranks;
  std::string value;
  friend bool operator==(const Opinion&, const Opinion&) = default;
};

/// The first difference. Every rank throws the same one.
class PlanDisagreement : public comm::MismatchError {
 public:
  PlanDisagreement(std::string subject, std::vector<Opinion> opinions);
  /// The name of the parameter, or "the number of gradients", "bucket 3".
  [[nodiscard]] const std::string& subject() const { return subject_; }
  /// One a value; those of the lowest ranks first.
  [[nodiscard]] const std::vector<Opinion>& opinions() const { return opinions_; }

 private:
  std::string subject_;
  std::vector<Opinion> opinions_;
};

using Shape = std::vector<std::int64_t>;

/// Collective. Returns where all members gave the same. `names` and `shapes` have one entry a gradient, or are empty on
/// every rank: a gradient without a name goes by its number. Throws PlanDisagreement on all members; InvalidArgument,
/// before anything is sent, for another number of names or shapes, or a shape that has not the gradient's elements;
/// what the communicator throws.
void verify_agreement(comm::Communicator& communicator, const Plan& plan, std::span<const Gradient> gradients,
                      std::span<const std::string> names, std::span<const Shape> shapes = {},
                      comm::Timeout timeout = {});

}  // namespace plumbline::bucketing
