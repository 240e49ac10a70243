// reference/schedules/metadata.hpp: what a pipeline's messages are made of: the dtypes and shapes of their tensors, and how
// the next stage gets to know them.
//
// Model   A stage's output is a list of tensors. Whoever receives it has to know count, dtypes and shapes first. Either
//         they are promised (Metadata::none), or told ahead of the output: with a boundary's first micro-batch and kept
//         from then on (once), or with each (each), where all of it may change, the number of dimensions too. A
//         gradient has the dtypes and shapes of the floating tensors of what it is the gradient of.
// Message One call of a fixed number of int64, so that its receive can be posted by whoever knows nothing yet: how many
//         words follow that count; the number of tensors; of each the number of dimensions, the dimensions, the dtype's
//         place in comm::kAllDTypes, the program's type, whether it requires a gradient, and 0, or 1 and its strides;
//         zeros. One call, and not two of which the first says how long the second is: what
//         check() proves of schedules is about messages that are there or not, and a message in two steps would have
//         ranks wait where it sees none.
// Errors  DescriptionMismatch, before anything is sent, where an output is not what was promised or told; the
//         communicator can go on. InvalidArgument for what no tensor is, for words that are no description, and where
//         the words of a message do not suffice. StateError where nothing was told yet.
// Sources ColossalAI communication/utils.py (number of dimensions, then dimensions, as int64, once a boundary and chunk);
//         Megatron-LM's variable sequence lengths; stage metadata of torch.distributed.pipelining.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {

/// Without dimensions: a scalar, which has one element.
struct TensorDescription {
  comm::DType dtype = comm::DType::f32;
  std::vector<std::int64_t> shape = {};
  bool requires_gradient = true;           // counts where there are gradients of its type
  std::vector<std::int64_t> strides = {};  // in elements, as it lies in the message; row-major where empty
  int program_type = 0;                    // the program's number of a type that is no dtype; 0: it is the dtype
  bool operator==(const TensorDescription&) const = default;
};
using TensorDescriptions = std::vector<TensorDescription>;

/// "f16[2,3] i64[]"; "type11[4]" for a type of the program; "nothing" for no tensors.
[[nodiscard]] std::string to_string(const TensorDescriptions& tensors);
/// The product of the dimensions. Throws InvalidArgument for one below 0, and for more elements than int64 counts.
[[nodiscard]] std::int64_t elements_of(const TensorDescription& tensor);
/// The floating tensors that require a gradient, and those of a type of the program's that do: of the others there is none.
/// Gradients themselves require none.
[[nodiscard]] TensorDescriptions gradients_of(const TensorDescriptions& tensors);

/// An output is not what was promised or told.
class DescriptionMismatch : public Error {
 public:
  using Error::Error;
};

/// Words of a message unless said otherwise: 2 KiB, enough for 28 tensors of four dimensions.
inline constexpr std::size_t kDescriptionWords = 256;

// The right steps, by name.

/// The words, without zeros behind them.
[[nodiscard]] std::vector<std::int64_t> encode(const TensorDescriptions& tensors);
[[nodiscard]] TensorDescriptions decode(std::span<const std::int64_t> words);
/// Whether an output is what was promised or told.
[[nodiscard]] bool is_same(const TensorDescriptions& expected, const TensorDescriptions& tensors);

/// The steps of an exchange that a wrong program gets wrong.
struct DescriptionSteps {
  std::function<std::vector<std::int64_t>(const TensorDescriptions& tensors)> encode = schedules::encode;
  std::function<TensorDescriptions(std::span<const std::int64_t> words)> decode = schedules::decode;
  std::function<bool(const TensorDescriptions& expected, const TensorDescriptions& tensors)> is_same =
      schedules::is_same;
};

/// One side of one boundary: what a stage tells the next one of its outputs, or what this one hears. Knows of no
/// communicator: its memory is what the executor's callbacks name for SEND and RECV of metadata.
class DescriptionExchange {
 public:
  /// `promised` counts where nothing is told. Both sides are made with equal arguments.
  explicit DescriptionExchange(Metadata told, TensorDescriptions promised = {}, std::size_t words = kDescriptionWords,
                               DescriptionSteps steps = {});

  /// The message that tells of a micro-batch's output. Throws StateError where nothing is to be told (any more).
  [[nodiscard]] comm::Buffer tell(int micro_batch, const TensorDescriptions& tensors);
  /// The memory for what is told of it. Throws likewise.
  [[nodiscard]] comm::Buffer room(int micro_batch);
  /// What the micro-batch's output is, as promised or told. On the side that hears: once the message has come.
  [[nodiscard]] const TensorDescriptions& expected(int micro_batch);
  /// To be called before an output is sent. Throws DescriptionMismatch, with both descriptions.
  void keep_to(int micro_batch, const TensorDescriptions& tensors);
  /// What was told of this micro-batch alone is no more needed; its message is over.
  void forget(int micro_batch);

 private:
  struct Told {
    std::vector<std::int64_t> words;
    std::optional<TensorDescriptions> tensors;
  };
  Told& begin(int micro_batch);
  [[nodiscard]] comm::Buffer message_of(Told& told) const;
  [[nodiscard]] int key_of(int micro_batch) const { return metadata_ == Metadata::each ? micro_batch : 0; }

  Metadata metadata_;
  TensorDescriptions promised_;
  std::size_t words_;
  DescriptionSteps steps_;
  std::map<int, Told> told_;
};

}  // namespace plumbline::schedules
