// reference/record/training_record.hpp: what a training run computed, step by step and rank by rank.
//
// Model   A folder with rank<R>.safetensors, one file a rank, all values F32 unless said otherwise:
//           step<S>/before/<parameter>, step<S>/grad/<parameter>, step<S>/after/<parameter>
//           step<S>/local_grad/<parameter>   optional: before the reduction over the data group
//           step<S>/loss                     [], of the ranks that hold the last stage
//           step<S>/scale, step<S>/skipped   [], [] U8, where the run has a scaler
//           step<S>/updated/<parameter>      where ranks average parameters: after the optimizer, before the average
//           step<S>/activation/<layer>/<micro-batch>         optional: a layer's output for a micro-batch of the
//           step<S>/activation_grad/<layer>/<micro-batch>    rank's step, and the gradient of that
//           step<S>/seen/<parameter>, step<S>/weight    of sgp: values of the forward pass; [], the push-sum weight
//                                            after the step. before, updated and after are the numerators.
//         Metadata: protocol, framework, version, rank, pipeline, data, tensor, steps. Inside a tensor group
//         a parameter is plain on all members, or "<parameter>@<dim>" on all, joined along that dimension in
//         tensor-rank order; so is an output of a layer. So is a parameter of ranks that hold shards, in the order of
//         these; there "<parameter>@flat" is a part of the parameter's elements, row-major, and local_grad is whole.
// Reading A record is a subject's work: whatever is missing or misshapen in it is a finding, not an
//         exception. Only a file that is cut short while it is read throws (InvalidArgument).
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/record/layout.hpp"
#include "reference/record/safetensors.hpp"

namespace plumbline::job {

enum class Moment { before, grad, after, local_grad, updated, seen };
inline constexpr std::array kAllMoments{Moment::before,     Moment::grad,    Moment::after,
                                        Moment::local_grad, Moment::updated, Moment::seen};
/// "before", "grad", "after", "local_grad", "updated", "seen".
[[nodiscard]] std::string_view name_of(Moment moment);
/// Whether a record of this run has values of a moment, and whether it must have them.
[[nodiscard]] bool has_moment(const RunSpec& spec, Moment moment);
[[nodiscard]] bool needs_moment(const RunSpec& spec, Moment moment);
/// Whether it has those of one parameter: a frozen one has no gradients.
[[nodiscard]] bool has_moment(const RunSpec& spec, Moment moment, const Parameter& parameter);
/// Whether it has push-sum weights.
[[nodiscard]] bool has_push_sum(const RunSpec& spec);

/// The passes through the layers: of outputs, and of their gradients.
enum class Direction { forward, backward };
inline constexpr std::array kDirections{Direction::forward, Direction::backward};
/// "activation", "activation_grad".
[[nodiscard]] std::string_view name_of(Direction direction);

/// Which value of a layer: of the rank's micro-batches of the step, accumulated batches included, the n-th.
struct ActivationPlace {
  int step = 0;
  Direction direction = Direction::forward;
  int layer = 0;
  int micro_batch = 0;
  friend bool operator==(const ActivationPlace&, const ActivationPlace&) = default;
};
/// "activation/2/0"
[[nodiscard]] std::string name_of(const ActivationPlace& place);

/// folder/rank<R>.safetensors
[[nodiscard]] std::filesystem::path record_file(const std::filesystem::path& folder, int rank);

/// Collects what one rank computed.
class RecordWriter {
 public:
  /// `framework` and `version` say what program this is.
  RecordWriter(const RunSpec& spec, int rank, std::string framework, std::string version);

  /// The functions throw InvalidArgument for a value given twice or of another size.
  void add(int step, Moment moment, const Parameter& parameter, std::span<const float> values);
  /// All of it, or this rank's part along a dimension.
  void add(const ActivationPlace& place, std::optional<int> dim, const Shape& shape, std::span<const float> values);
  void add_loss(int step, float loss);
  void add_scale(int step, float scale);
  void add_skipped(int step, bool skipped);
  void add_weight(int step, float weight);
  /// Writes the file into `folder`. Throws RuntimeFailure.
  void write(const std::filesystem::path& folder) const;

 private:
  int rank_;
  SafetensorsWriter writer_;
};

/// One thing that is wrong with a record's form.
struct RecordFinding {
  int rank = -1;
  int step = -1;       // -1: of no step
  std::string tensor;  // its name, a metadata key, or nothing
  std::string what;    // "is missing", "is F64 [3]; it must be F32 [32, 64]"
};

/// A parameter's value at one moment, as one rank wrote it, or in parts the ranks of a tensor group or of a replica.
struct Copy {
  int rank = 0;  // of several: the first
  int data = 0;
  std::vector<int> ranks;  // that one, or all of them
  std::vector<float> values;
};

/// A layer's output or its gradient, as one rank wrote it: all of it, or its part along a dimension.
struct Activation {
  int rank = 0;
  std::optional<int> dim;
  Shape shape;
  std::vector<float> values;
};

/// A number that a rank wrote.
struct RankNumber {
  int rank = 0;
  int data = 0;
  float value = 0;
};

/// The records of all ranks.
class TrainingRecord {
 public:
  /// Opens an existing record and checks its form.
  TrainingRecord(const RunSpec& spec, const std::filesystem::path& folder);

  [[nodiscard]] const std::vector<RecordFinding>& findings() const { return findings_; }

  /// All copies of a parameter that are present and well-formed, by rank. Of a right record: one for each rank
  /// that holds it, or for each tensor group that holds it in parts.
  [[nodiscard]] std::vector<Copy> copies(int step, Moment moment, const Parameter& parameter) const;
  /// Whether any rank recorded outputs of layers or their gradients; those that are in F32, by rank.
  [[nodiscard]] bool has_activations() const;
  [[nodiscard]] std::vector<Activation> activations(const ActivationPlace& place) const;
  /// The recorded losses, by rank.
  [[nodiscard]] std::vector<RankNumber> losses(int step) const;
  [[nodiscard]] std::vector<RankNumber> scales(int step) const;
  /// The push-sum weights after a step.
  [[nodiscard]] std::vector<RankNumber> weights(int step) const;
  /// 1 where the step was skipped.
  [[nodiscard]] std::vector<RankNumber> skipped(int step) const;

 private:
  // How a tensor group, or the ranks with the shards of a replica, hold a parameter: plain, or in parts along a
  // dimension or of all elements.
  struct Form {
    static constexpr int kFlat = 8;  // beyond the dimensions that a part can be along
    int dim = -1;
    [[nodiscard]] std::string name(const std::string& parameter) const;
    friend bool operator==(Form, Form) = default;
  };
  // The place of such a group; its members' ranks in the order of their parts.
  struct Cell {
    int pipeline = 0;
    int data = 0;
    std::vector<int> ranks;
  };

  void open(const std::filesystem::path& folder);
  void check_metadata(int rank);
  void check_names(int rank);
  void check_activation(int rank, int step, const std::string& name, std::string_view place);
  void check_numbers(int rank);
  void check_parameter(const Parameter& parameter);
  void check_value(const Cell& cell, Form form, int step, Moment moment, const Parameter& parameter);
  void check_other_forms(int rank, int step, const std::string& whole, const std::string& name);
  [[nodiscard]] std::string first_form(int rank, const std::string& whole) const;
  bool check_tensor(int rank, int step, const std::string& name, comm::DType dtype, const Shape& shape, int dim = -1);
  void find(int rank, int step, std::string tensor, std::string what);

  [[nodiscard]] const std::optional<SafetensorsReader>& file(int rank) const;
  [[nodiscard]] std::vector<Cell> cells_of(const Parameter& parameter) const;
  [[nodiscard]] std::optional<Form> form_of(const Cell& cell, const Parameter& parameter, Moment moment) const;
  [[nodiscard]] bool has_parts(Moment moment) const;
  [[nodiscard]] std::optional<std::vector<float>> plain(int rank, const std::string& name, const Shape& shape) const;
  [[nodiscard]] std::optional<std::vector<float>> joined(const Cell& cell, int dim, const std::string& name,
                                                         const Shape& shape) const;
  template <class T>
  [[nodiscard]] std::vector<RankNumber> numbers(int step, std::string_view name, bool last_stage_only) const;

  RunSpec spec_;
  std::vector<Parameter> parameters_;
  std::vector<std::optional<SafetensorsReader>> files_;  // by rank
  std::vector<RecordFinding> findings_;
};

}  // namespace plumbline::job
