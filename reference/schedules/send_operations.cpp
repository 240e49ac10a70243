// schedules.send_tensors: outputs of a stage on their way to the next one, with or without their descriptions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/comm/local.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Metadata;
using schedules::Schedule;
using schedules::TensorDescriptions;

namespace {

constexpr int kMostSentOutputs = 64;
constexpr std::int64_t kMostSentElements = 1 << 20;  // of all tensors
constexpr double kLargestSent = 255;                 // every type has the whole numbers up to it

struct SentOutput {
  TensorDescriptions descriptions;
  std::vector<TypedValues> tensors;
};

struct Sending {
  std::vector<SentOutput> outputs;  // of each micro-batch
  Metadata described = Metadata::each;
  std::optional<std::int64_t> most_bytes;
};

comm::DType sent_dtype(const Arguments& tensor) {
  using comm::DType;
  return tensor.choice<DType>("dtype", {{"float16", DType::f16},
                                        {"bfloat16", DType::bf16},
                                        {"float32", DType::f32},
                                        {"float64", DType::f64},
                                        {"int32", DType::i32},
                                        {"int64", DType::i64},
                                        {"uint8", DType::u8}});
}
std::string_view name_of_sent(comm::DType dtype) {
  using comm::DType;
  switch (dtype) {
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    default:
      return "uint8";
  }
}

void read_tensor(const Arguments& tensor, SentOutput& output) {
  schedules::TensorDescription description{.dtype = sent_dtype(tensor),
                                           .shape = tensor.get<std::vector<std::int64_t>>("shape")};
  const auto values = tensor.get<std::vector<double>>("values");
  if (schedules::elements_of(description) != static_cast<std::int64_t>(values.size()))
    tensor.refuse(
        fmt::format("values has {} elements, and shape {}", values.size(), schedules::elements_of(description)));
  for (const double value : values)
    if (!(value >= 0 && value <= kLargestSent && std::trunc(value) == value))
      tensor.refuse(fmt::format("values has {}; it must be a whole number from 0 to {}", value, kLargestSent));
  output.tensors.emplace_back(description.dtype, values);
  output.descriptions.push_back(std::move(description));
}

Sending sending_in(const Arguments& arguments) {
  Sending all;
  std::int64_t elements = 0;
  for (const std::vector<Arguments>& tensors : arguments.get<std::vector<std::vector<Arguments>>>("outputs")) {
    SentOutput& output = all.outputs.emplace_back();
    for (const Arguments& tensor : tensors) read_tensor(tensor, output);
    for (const TypedValues& tensor : output.tensors) elements += static_cast<std::int64_t>(tensor.size());
  }
  if (all.outputs.empty() || all.outputs.size() > static_cast<std::size_t>(kMostSentOutputs))
    arguments.refuse(
        fmt::format("outputs has {} micro-batches; they are 1 to {}", all.outputs.size(), kMostSentOutputs));
  if (elements > kMostSentElements)
    arguments.refuse(fmt::format("outputs has {} elements; they are at most {}", elements, kMostSentElements));
  all.described = arguments.choice<Metadata>(
      "described", {{"each", Metadata::each}, {"once", Metadata::once}, {"in_advance", Metadata::none}},
      Metadata::each);
  all.most_bytes = arguments.find<std::int64_t>("most_bytes");
  return all;
}

/// A rank's side of the boundary: rank 0 sends, rank 1 receives.
class BoundarySide {
 public:
  BoundarySide(const Sending& all, comm::Communicator& world)
      : all_(all),
        world_(world),
        exchange_(all.described,
                  all.described == Metadata::none ? all.outputs.front().descriptions : TensorDescriptions()),
        sent_(all.outputs),
        received_(all.outputs.size()),
        errors_(all.outputs.size()) {}

  void run() {
    const auto count = static_cast<int>(all_.outputs.size());
    if (all_.described == Metadata::each) return pass(0, count, true);
    for (int micro_batch = 0; micro_batch < count; ++micro_batch)
      if (keeps_to_it(micro_batch)) pass(micro_batch, micro_batch + 1, is_described_with(micro_batch));
    world_.barrier();  // nobody leaves while the other one still waits for it
  }
  // By micro-batch: what came, and why an output was not sent.
  [[nodiscard]] const std::vector<std::optional<SentOutput>>& received() const { return received_; }
  [[nodiscard]] const std::vector<json>& errors() const { return errors_; }

 private:
  [[nodiscard]] bool is_described_with(int micro_batch) const {
    return all_.described == Metadata::once && micro_batch == 0;
  }
  // Whether the output is as it was described; the receiver is told, too.
  bool keeps_to_it(int micro_batch) {
    const auto at = static_cast<std::size_t>(micro_batch);
    std::uint8_t keeps = 1;
    if (world_.rank() == 0 && !is_described_with(micro_batch)) try {
        exchange_.keep_to(micro_batch, all_.outputs[at].descriptions);
      } catch (const schedules::DescriptionMismatch& error) {
        errors_[at] = {{"kind", error.kind()}, {"message", error.what()}};
        keeps = 0;
      }
    world_.broadcast({&keeps, 1, comm::DType::u8}, 0);
    return keeps == 1;
  }
  // The micro-batches from `first` to before `end`, all under way at once.
  void pass(int first, int end, bool with_descriptions) {
    Schedule schedule{.stages = 2, .micro_batches = end, .stage_to_rank = {0, 1}, .ranks = {{}, {}}};
    for (int micro_batch = first; micro_batch < end; ++micro_batch)
      for (int stage = 0; stage < 2; ++stage)
        schedule.ranks[static_cast<std::size_t>(stage)].push_back(
            {.kind = ActionKind::forward, .stage = stage, .micro_batch = micro_batch});
    schedules::StageCallbacks callbacks;
    callbacks.forward = [](int, int) {};
    callbacks.tensors = [this](const Action& message) { return memory_of(message); };
    (void)schedules::run_rank(world_, schedules::lower(schedule, with_descriptions ? Metadata::each : Metadata::none),
                              callbacks, {.most_bytes_a_call = all_.most_bytes});
    world_.barrier();  // memory lives until all has arrived
  }
  std::vector<comm::Buffer> memory_of(const Action& message) {
    const auto at = static_cast<std::size_t>(message.micro_batch);
    if (message.kind == ActionKind::send_metadata)
      return {exchange_.tell(message.micro_batch, all_.outputs[at].descriptions)};
    if (message.kind == ActionKind::recv_metadata) return {exchange_.room(message.micro_batch)};
    if (message.kind == ActionKind::send_forward) return buffers_of(sent_[at].tensors);
    SentOutput& output = received_[at].emplace();
    output.descriptions = exchange_.expected(message.micro_batch);
    for (const schedules::TensorDescription& tensor : output.descriptions)
      output.tensors.emplace_back(tensor.dtype,
                                  std::vector<double>(static_cast<std::size_t>(schedules::elements_of(tensor))));
    return buffers_of(output.tensors);
  }

  const Sending& all_;
  comm::Communicator& world_;
  schedules::DescriptionExchange exchange_;
  std::vector<SentOutput> sent_;
  std::vector<std::optional<SentOutput>> received_;
  std::vector<json> errors_;
};

json answer_of_sent(const std::optional<SentOutput>& output) {
  if (!output) return nullptr;
  json tensors = json::array();
  for (std::size_t i = 0; i < output->tensors.size(); ++i)
    tensors.push_back({{"dtype", name_of_sent(output->descriptions[i].dtype)},
                       {"shape", output->descriptions[i].shape},
                       {"values", output->tensors[i].values()}});
  return tensors;
}

json send_tensors(const Arguments& arguments) {
  const Sending all = sending_in(arguments);
  arguments.expect_no_others();
  json received = json::array(), errors;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    BoundarySide side(all, world);
    side.run();
    if (world.rank() == 0)
      errors = side.errors();
    else
      for (const auto& output : side.received()) received.push_back(answer_of_sent(output));
  });
  return {{"received", std::move(received)}, {"errors", std::move(errors)}};
}

}  // namespace

void add_send_operations(AdapterService& service) {
  service.add(
      {"schedules.send_tensors",
       "sends outputs of a stage, lists of tensors, to the next stage on another rank",
       {"plumbline"},
       {with_fields({"outputs", "list of list of object [microbatches][tensors]",
                     "output of the stage for each micro-batch, of 64 at most; 2^20 elements at most together"},
                    {{"dtype", "text", "float16, bfloat16, float32, float64, int32, int64 or uint8"},
                     {"shape", "list of integer", "size of each dimension; empty for a scalar"},
                     {"values", "list of number", "elements in row-major order, whole numbers from 0 to 255"}}),
        {"described",
         "text",
         "how the receiver knows dtypes and shapes: they are sent before each output, once before the first, or known "
         "in advance: those of the first output",
         R"("each")",
         {"each", "once", "in_advance"}},
        where_named({"most_bytes", "long integer",
                     "bytes of one call, at least 1: longer tensors are sent in pieces; null: any number", kOptional})},
       {{"received", "list of any [microbatches]",
         "tensors that the next stage has of each micro-batch, a list of dtype, shape and values; null: the output was "
         "rejected"},
        {"errors", "list of any [microbatches]", "kind and message of the error that rejects an output, or null"}},
       R"({"outputs": [[{"dtype": "float32", "shape": [2], "values": [1, 2]}]]})",
       {{"invalid_argument",
         "a tensor has another number of values than its shape, a value is no whole number from 0 to 255, or "
         "most_bytes is below 1"}}},
      send_tensors);
}

}  // namespace plumbline::adapter
