// conformance/training/finding.hpp: one way in which a record violates a requirement.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite/finding.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// The requirements of training records, as checks cite them.
namespace training_requirements {
inline constexpr std::string_view kCoverage = "TRAIN-001@cb3c";
inline constexpr std::string_view kGivenWeights = "TRAIN-002@1009";
inline constexpr std::string_view kContinuity = "TRAIN-003@b3b9";
inline constexpr std::string_view kEqualParameters = "TRAIN-004@df24";
inline constexpr std::string_view kEqualGradients = "TRAIN-005@31d9";
inline constexpr std::string_view kGradient = "TRAIN-006@3ba0";
inline constexpr std::string_view kGradientBits = "TRAIN-007@1baf";
inline constexpr std::string_view kUnionGradient = "TRAIN-008@6e61";
inline constexpr std::string_view kUpdate = "TRAIN-009@7589";
inline constexpr std::string_view kLoss = "TRAIN-010@d65a";
inline constexpr std::string_view kOwnRows = "TRAIN-011@6652";
inline constexpr std::string_view kLearns = "TRAIN-012@4efb";
inline constexpr std::string_view kSameBits = "TRAIN-013@1738";
inline constexpr std::string_view kCutLayers = "TRAIN-014@9dbf";
inline constexpr std::string_view kTensorRanks = "TRAIN-015@85d6";
inline constexpr std::string_view kWeightedGradient = "TRAIN-016@c536";
inline constexpr std::string_view kWeightedLoss = "TRAIN-017@d728";
inline constexpr std::string_view kScheduledUpdate = "TRAIN-019@ec6f";
inline constexpr std::string_view kGroupedUpdate = "TRAIN-020@aeb5";
inline constexpr std::string_view kFrozen = "TRAIN-021@6a30";
inline constexpr std::string_view kFrozenTraffic = "TRAIN-022@4443";
inline constexpr std::string_view kSharedWeight = "TRAIN-023@88fe";
inline constexpr std::string_view kActivations = "TRAIN-030@df22";
inline constexpr std::string_view kResumedValues = "TRAIN-060@3dee";
inline constexpr std::string_view kResumedState = "TRAIN-061@b132";
inline constexpr std::string_view kResumedRows = "TRAIN-062@4b27";
inline constexpr std::string_view kShardedGradient = "TRAIN-063@749b";
inline constexpr std::string_view kShards = "TRAIN-064@83ba";
inline constexpr std::string_view kUnused = "TRAIN-065@dffb";
inline constexpr std::string_view kMixture = "TRAIN-066@557c";
inline constexpr std::string_view kExpertRanks = "TRAIN-067@91b1";
inline constexpr std::string_view kDeviceBits = "TRAIN-210@edd3";
inline constexpr std::string_view kDeviceMemory = "TRAIN-211@7cc2";
}  // namespace training_requirements

/// Those of runs in 16 bits.
namespace scaling_requirements {
inline constexpr std::string_view kTraining = "SCALER-090@d3f8";
inline constexpr std::string_view kSkipsTogether = "SCALER-091@d744";
inline constexpr std::string_view kScale = "SCALER-092@58f8";
inline constexpr std::string_view kSkipLeaves = "SCALER-093@9f21";
inline constexpr std::string_view kClips = "SCALER-094@ae2a";
inline constexpr std::string_view kBits = "SCALER-095@d554";
inline constexpr std::string_view kAutocastClips = "SCALER-110@784b";
}  // namespace scaling_requirements

struct Finding {
  std::string requirement;  // "TRAIN-006"
  int step = -1;            // -1: of no step
  int rank = -1;            // -1: of no rank
  std::string parameter;    // a parameter, a metadata key, "activation/<layer>/<micro-batch>", or nothing
  std::string what;         // "the gradient differs from the single device's"

  /// Of values: the element that is farthest off (row-major), and how many are off out of how many. -1: not
  /// about values.
  std::int64_t index = -1;
  double expected = 0;
  double got = 0;
  double bound = 0;  // of |got - expected|; 0: the bits must be equal
  std::int64_t wrong = 0;
  std::int64_t elements = 0;
  /// Whether it is where the run went wrong: the first wrong activation, or the first wrong gradient of its first step
  /// with one, in backward order.
  bool is_first = false;
  /// What may have made it so (causes.hpp).
  std::vector<std::string> hypotheses{};
};

/// "TRAIN-006: step 2, rank 1, 0.weight[17]: the gradient …: expected 0.25, got 0.5, bound 1e-08 (3 of 640
/// elements); the first wrong gradient of the run, in backward order; hypothesis: …".
[[nodiscard]] std::string text_of(const Finding& finding);

/// Marks the gradient where the run went wrong, and puts it first.
void mark_first_wrong_gradient(std::vector<Finding>& findings, const job::RunSpec& spec);

/// The first wrong activation in the step of the first wrong gradient or loss says where the run went wrong: it is put
/// first, by the requirement of that. Other findings of activations are left out.
void lead_with_activation(std::vector<Finding>& findings);

/// As checks report it: with that text.
[[nodiscard]] suite::Finding reported(const Finding& finding);

}  // namespace plumbline::conformance
