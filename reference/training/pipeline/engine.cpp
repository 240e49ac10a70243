#include "reference/training/pipeline/engine.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/training/detail/on_this_thread.hpp"
#include "reference/training/pipeline/memory.hpp"

namespace plumbline::training {
namespace {

using schedules::Action;
using Kind = schedules::ActionKind;
using Place = std::pair<int, int>;  // stage, micro-batch

template <class Value>
Value taken(std::map<Place, Value>& from, const Place& place) {
  auto node = from.extract(place);
  return node.empty() ? Value() : std::move(node.mapped());
}

void refuse_unless_as_announced(const char* what, std::size_t given, int announced) {
  if (given != static_cast<std::size_t>(announced))
    throw InvalidArgument(fmt::format("{}: {} micro-batches given, {} announced", what, given, announced));
}

// The same computations without those that train.
schedules::Schedule forwards_of(schedules::Schedule schedule) {
  for (auto& actions : schedule.ranks) {
    std::erase_if(actions, [](const Action& action) { return action.kind != Kind::forward; });
    for (Action& action : actions) action.joined = false;
  }
  return schedule;
}

}  // namespace

// One batch. A micro-batch passes a stage in six steps:
//   forward          1. Its inputs x come: rows of the batch, a message, or the stage before it on this rank.
//                    2. y = layers(x), of which what the backward pass needs is kept.
//                    3. y goes to the next stage. At the last one L = criterion(y, labels) / micro-batches of the step.
//   input gradient   4. dL/dy comes; at the last stage it is 1.
//                    5. dL/dx = dL/dy dy/dx goes to the stage before.
//   weight gradient  6. dL/dW, with 5 or apart from it, is added to the parameters' grad. Nothing is kept any more.
class PipelineEngine::Call {
 public:
  Call(PipelineEngine& engine, const EngineCall& call, const schedules::Schedule& schedule, Telling telling)
      : engine_(engine),
        call_(call),
        schedule_(schedule),
        telling_(telling),
        actions_(schedule.ranks[static_cast<std::size_t>(engine.group_.rank())]) {
    for (const Action& action : actions_)
      if (action.kind == Kind::weight_gradient) split_.insert(place_of(action));
    for (const auto& [stage, layers] : engine.stages_)
      for (const int boundary : {stage - 1, stage})
        if (boundary >= 0 && boundary < last()) begin_boundary(boundary);
  }

  EngineResult run() {
    if (is_here(0)) refuse_unless_as_announced("inputs", call_.inputs.size(), call_.micro_batches);
    if (is_here(last()) && call_.return_loss)
      refuse_unless_as_announced("labels", call_.labels.size(), call_.micro_batches);
    if (is_here(last())) {
      const auto count = static_cast<std::size_t>(call_.micro_batches);
      if (call_.return_loss) result_.losses.resize(count);
      if (call_.return_outputs) result_.outputs.resize(count);
      if (call_.return_outputs && !call_.labels.empty()) result_.labels.resize(count);
    }
    const c10::AutoGradMode mode(!call_.forward_only);
    result_.periods = run_rank(engine_.group_, schedule_, callbacks(), engine_.options_.executor);
    result_.actions = std::move(actions_);
    return std::move(result_);
  }

 private:
  // What a stage keeps of a micro-batch from its forward to the end of its backward.
  struct Kept {
    Tensors inputs;
    Tensors outputs;  // of the last stage: the loss
    DeferredGradients deferred;
  };

  [[nodiscard]] static Place place_of(const Action& action) { return {action.stage, action.micro_batch}; }
  [[nodiscard]] int last() const { return schedule_.stages - 1; }
  [[nodiscard]] bool is_here(int stage) const { return engine_.stages_.contains(stage); }

  schedules::StageCallbacks callbacks() {
    schedules::StageCallbacks callbacks;
    callbacks.forward = [this](int stage, int micro_batch) { forward({stage, micro_batch}); };
    callbacks.backward = [this](int stage, int micro_batch) {
      input_gradient({stage, micro_batch});
      weight_gradient({stage, micro_batch});
    };
    callbacks.input_gradient = [this](int stage, int micro_batch) { input_gradient({stage, micro_batch}); };
    callbacks.weight_gradient = [this](int stage, int micro_batch) { weight_gradient({stage, micro_batch}); };
    callbacks.buffer = [this](const Action& message) { return buffer(message); };
    callbacks.release = [this](const Action& message) { release(message); };
    callbacks.hand_over = [this](const Action& send) { hand_over(send); };
    return callbacks;
  }

  // What was told in a call before counts where nothing is told in this one.
  void begin_boundary(int boundary) {
    if (telling_ == Telling::never && engine_.boundaries_.contains(boundary)) return;
    const std::optional<Description>& promised = engine_.options_.promised;
    const auto told = promised                    ? schedules::Metadata::none
                      : telling_ == Telling::each ? schedules::Metadata::each
                                                  : schedules::Metadata::once;
    engine_.boundaries_.insert_or_assign(boundary,
                                         schedules::DescriptionExchange(told, promised.value_or(Description())));
  }
  [[nodiscard]] schedules::DescriptionExchange& boundary_after(int stage) { return engine_.boundaries_.at(stage); }
  // What is told once is told of the whole call.
  [[nodiscard]] Place told_place(const Place& place) const {
    return {place.first, telling_ == Telling::each ? place.second : 0};
  }

  // ---- computations ----

  [[nodiscard]] Tensors part_of(const std::vector<Tensors>& batch, int micro_batch) const {
    return placed_on(engine_.options_.device.computes_on(), batch.at(static_cast<std::size_t>(micro_batch)));
  }

  void forward(const Place& place) {
    const auto [stage, micro_batch] = place;
    Kept& kept = kept_[place];
    result_.peak_activations = std::max(result_.peak_activations, static_cast<int>(kept_.size()));
    // 1.
    kept.inputs = stage == 0 ? part_of(call_.inputs, micro_batch) : taken(inputs_, place);
    // 2.
    const Pass pass{.training = !call_.forward_only, .deferred = split_.contains(place) ? &kept.deferred : nullptr};
    kept.outputs = engine_.stages_.at(stage)->forward(kept.inputs, pass);
    // 3.
    if (stage == last())
      finish_forward(micro_batch, kept);
    else
      hand_on(place, kept.outputs);
    if (call_.forward_only) kept_.erase(place);
  }

  // At the last stage the loss takes the outputs' place.
  void finish_forward(int micro_batch, Kept& kept) {
    const auto at = static_cast<std::size_t>(micro_batch);
    if (call_.return_outputs)
      for (const at::Tensor& output : kept.outputs) result_.outputs[at].push_back(output.detach());
    Tensors labels;
    if (!call_.labels.empty()) labels = part_of(call_.labels, micro_batch);
    if (!result_.labels.empty()) result_.labels[at] = labels;
    if (!call_.return_loss) return;
    const at::Tensor loss = engine_.options_.criterion(kept.outputs, labels);
    result_.losses[at] = loss.item<double>();
    const at::Tensor mean = loss.div(static_cast<double>(call_.micro_batches) * call_.calls);
    const at::Tensor share = call_.divisor == 0 ? mean : loss.div(call_.divisor);
    kept.outputs = {call_.loss_scale == 1 ? share : share.mul(call_.loss_scale)};
  }

  void hand_on(const Place& place, const Tensors& outputs) {
    if (telling_ == Telling::each || (telling_ == Telling::once && !told_.contains(told_place(place))))
      told_[told_place(place)] = boundary_after(place.first).tell(place.second, describe(outputs));
    else
      keep_to_what_is_known(place, describe(outputs));
    Tensors& results = results_[place];
    for (const at::Tensor& output : outputs) results.push_back(output.detach());
  }

  // A promise is about types, sizes and gradients, and says nothing of evaluation or of the order in memory.
  void keep_to_what_is_known(const Place& place, Description outputs) {
    const bool promised = engine_.options_.promised.has_value();
    const Description& known = outputs_of(place);
    for (std::size_t i = 0; promised && i < std::min(outputs.size(), known.size()); ++i) {
      outputs[i].strides = known[i].strides;
      if (call_.forward_only) outputs[i].requires_gradient = known[i].requires_gradient;
    }
    try {
      boundary_after(place.first).keep_to(place.second, outputs);
    } catch (const schedules::DescriptionMismatch& mismatch) {
      throw InvalidArgument(fmt::format(
          "stage {}, {}; {}", place.first, mismatch.what(),
          promised ? "promise nothing where shapes change" : "outputs may change their shape only where inputs do"));
    }
  }

  void input_gradient(const Place& place) {
    Kept& kept = kept_.at(place);
    // 4.
    Tensors roots, gradients;
    if (place.first == last()) {
      roots = kept.outputs;
      gradients.emplace_back();
    } else {
      for (const at::Tensor& output : kept.outputs)
        if (output.requires_grad()) roots.push_back(output);
      gradients = taken(gradients_, place);
    }
    // 5.
    if (!roots.empty()) {
      const OnThisThread here;
      torch::autograd::backward(roots, gradients);
    }
    if (place.first > 0) results_[place] = gradients_of_inputs(kept.inputs);
    // What is left for the weights is in kept.deferred.
    kept.inputs.clear();
    kept.outputs.clear();
  }

  // An input that the loss does not depend on has zeros.
  [[nodiscard]] static Tensors gradients_of_inputs(const Tensors& inputs) {
    Tensors gradients;
    for (const at::Tensor& input : inputs)
      if (input.requires_grad()) gradients.push_back(input.grad().defined() ? input.grad() : at::zeros_like(input));
    return gradients;
  }

  void weight_gradient(const Place& place) {
    // 6.
    kept_.at(place).deferred.compute();
    kept_.erase(place);
  }

  // ---- messages ----

  // What a stage hands on, as it is known here.
  [[nodiscard]] const Description& outputs_of(const Place& place) {
    return boundary_after(place.first).expected(place.second);
  }
  // The gradients of a stage's outputs have the sending stage's place; those of its inputs that of the stage before.
  [[nodiscard]] Description form_of(const Action& message) {
    const Description& outputs =
        outputs_of({std::min(message.stage, schedules::peer_stage(message)), message.micro_batch});
    return schedules::direction_of_message(message.kind) > 0 ? outputs : gradients_of(outputs);
  }

  comm::Buffer buffer(const Action& message) {
    if (message.kind == Kind::send_metadata) return told_.at(told_place(place_of(message)));
    if (message.kind == Kind::recv_metadata) return boundary_after(message.stage - 1).room(message.micro_batch);
    const WireType wire = engine_.options_.wire;
    const RankDevice& where = engine_.options_.device;
    at::Tensor& memory = messages_[{message.kind, message.stage, message.micro_batch}];
    memory = is_send(message.kind) ? pack(taken(results_, place_of(message)), form_of(message), wire, where)
                                   : message_for(form_of(message), wire, where);
    return {memory.data_ptr(), memory.numel(), comm::DType::u8, where.device()};
  }

  void release(const Action& message) {
    const Name name{message.kind, message.stage, message.micro_batch};
    const Place place = place_of(message);
    if (message.kind == Kind::recv_forward) {
      const Description form = form_of(message);
      set_inputs(place, unpack(messages_.at(name), form, engine_.options_.wire, engine_.options_.device), form);
    } else if (message.kind == Kind::recv_backward) {
      gradients_[place] = unpack(messages_.at(name), form_of(message), engine_.options_.wire, engine_.options_.device);
    }
    messages_.erase(name);
  }

  void hand_over(const Action& send) {
    const Place place = place_of(send);
    if (send.kind == Kind::send_forward)
      set_inputs({send.stage + 1, send.micro_batch}, taken(results_, place), outputs_of(place));
    else
      gradients_[{send.stage - 1, send.micro_batch}] = taken(results_, place);
  }

  void set_inputs(const Place& place, Tensors tensors, const Description& form) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (form[i].requires_gradient) tensors[i].requires_grad_();
    inputs_[place] = std::move(tensors);
  }

  using Name = std::tuple<Kind, int, int>;  // of a message

  PipelineEngine& engine_;
  const EngineCall& call_;
  const schedules::Schedule& schedule_;
  Telling telling_;
  std::vector<Action> actions_;
  std::set<Place> split_;  // whose weight gradients come by themselves
  std::map<Place, Kept> kept_;
  std::map<Place, Tensors> inputs_;     // that have come
  std::map<Place, Tensors> gradients_;  // of outputs, that have come
  std::map<Place, Tensors> results_;    // that are to go
  std::map<Place, comm::Buffer> told_;  // messages that tell of outputs
  std::map<Name, at::Tensor> messages_;
  EngineResult result_;
};

PipelineEngine::PipelineEngine(comm::Communicator& group, ScheduleFor schedule_for, std::map<int, Stage*> stages,
                               EngineOptions options)
    : group_(group), schedule_for_(std::move(schedule_for)), stages_(std::move(stages)), options_(std::move(options)) {
  std::set<const void*> seen;
  for (const auto& [number, stage] : stages_)
    for (NamedTensor& parameter : stage->parameters())
      if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second) parameters_.push_back(std::move(parameter));
}

PipelineEngine::~PipelineEngine() = default;

void PipelineEngine::clear_gradients() {
  for (const NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
}

PipelineEngine::Telling PipelineEngine::telling(const EngineCall& call) {
  if (options_.promised) return Telling::never;
  const bool trains = !call.forward_only;
  const Description first = call.inputs.empty() ? Description() : describe(call.inputs.front());
  const auto is_first = [&](const Tensors& one) { return describe(one) == first; };
  if (!std::ranges::all_of(call.inputs, is_first)) {
    inputs_.clear();
    return Telling::each;
  }
  const bool changed = first != inputs_ || trains != trained_;
  inputs_ = first;
  trained_ = trains;
  return changed ? Telling::once : Telling::never;
}

// The rank of the first stage says what is told, and of what call.
PipelineEngine::Telling PipelineEngine::agree(const EngineCall& call) {
  const bool decides = stages_.contains(0);
  std::array<std::int32_t, 3> said{call.micro_batches, call.forward_only ? 1 : 0,
                                   decides ? static_cast<std::int32_t>(telling(call)) : 0};
  const int root = schedule_for_(call.micro_batches).stage_to_rank.front();
  group_.broadcast({said.data(), said.size(), comm::DType::i32}, root, options_.executor.timeout);
  if (said[0] != call.micro_batches || (said[1] == 1) != call.forward_only)
    throw InvalidArgument(fmt::format(
        "rank {} runs {} micro-batches {}, the rank of the first stage {} {}", group_.rank(), call.micro_batches,
        call.forward_only ? "forward only" : "of training", said[0], said[1] == 1 ? "forward only" : "of training"));
  return static_cast<Telling>(said[2]);
}

const schedules::Schedule& PipelineEngine::lowered(const EngineCall& call, Telling telling) {
  const auto [place, is_new] = lowered_.try_emplace({call.micro_batches, call.forward_only, telling});
  if (!is_new) return place->second;
  schedules::Schedule schedule = schedule_for_(call.micro_batches);
  std::vector<int> own, given;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.stage_to_rank[static_cast<std::size_t>(stage)] == group_.rank()) own.push_back(stage);
  for (const auto& [stage, layers] : stages_) given.push_back(stage);
  if (own != given)
    throw InvalidArgument(fmt::format("rank {} was given the stages [{}]; the schedule puts [{}] on it", group_.rank(),
                                      fmt::join(given, ", "), fmt::join(own, ", ")));
  if (call.forward_only) schedule = forwards_of(std::move(schedule));
  const auto metadata = telling == Telling::each   ? schedules::Metadata::each
                        : telling == Telling::once ? schedules::Metadata::once
                                                   : schedules::Metadata::none;
  return place->second = schedules::lower(schedule, metadata);
}

EngineResult PipelineEngine::run(const EngineCall& call) {
  if (!call.forward_only && !call.return_loss)
    throw InvalidArgument("a call that trains returns its loss: return_loss = false needs forward_only = true");
  if (call.micro_batches < 1 || call.calls < 1)
    throw InvalidArgument(
        fmt::format("a call of {} micro-batches, one of {}; at least 1 of each", call.micro_batches, call.calls));
  const Telling telling = agree(call);
  const schedules::Schedule& schedule = lowered(call, telling);
  if (!call.measure_memory) return Call(*this, call, schedule, telling).run();
  const PeakMemory memory;
  EngineResult result = Call(*this, call, schedule, telling).run();
  result.peak_bytes = memory.most();
  return result;
}

}  // namespace plumbline::training
