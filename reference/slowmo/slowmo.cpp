#include "reference/slowmo/slowmo.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/master_weights.hpp"
#include "reference/slowmo/detail/node_groups.hpp"
#include "reference/slowmo/detail/slow_buffers.hpp"
#include "reference/slowmo/detail/step_exchange.hpp"
#include "reference/slowmo/detail/step_log.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {

using comm::Buffer;
using comm::Communicator;

namespace {

void require_parameters(const Tensors& tensors) {
  if (tensors.parameters.empty()) throw InvalidArgument("slowmo: a model without parameters");
  for (const Buffer& parameter : tensors.parameters) require_floating("slowmo", parameter);
}

// Where all tensors are.
MemorySpace place_of(const Tensors& tensors, const std::vector<Buffer>& masters, const Options& options) {
  const MemorySpace place = device::place_of("slowmo: parameters", tensors.parameters, options.device);
  device::require_at("slowmo: masters", masters, place);
  device::require_at("slowmo: buffers", tensors.buffers, place);
  const auto wanted = options.communication_device;
  if (wanted && wanted->kind != comm::Device::Kind::cpu && *wanted != place.device())
    throw InvalidArgument(
        fmt::format("slowmo: communication_device is {}, and the parameters are in memory of {}; it is that, or cpu",
                    comm::name_of(*wanted), comm::name_of(place.device())));
  return place;
}

void require_loadable(const Setting& setting, const Checkpoint& checkpoint, bool is_whole) {
  const auto require = [](bool has, const char* what) {
    if (!has) throw NotFound(fmt::format("slowmo: the checkpoint lacks {}", what));
  };
  if (!setting.sgp && (checkpoint.push_sum_weight || checkpoint.is_numerator))
    throw InvalidArgument("slowmo: the checkpoint has a push-sum weight, and there is no push-sum here");
  require(!setting.sgp || checkpoint.push_sum_weight, "the push-sum weight");
  require(!setting.sgp || checkpoint.is_numerator, "whether parameters are numerators");
  require(!is_whole || checkpoint.steps, "the number of steps");
  require(!is_whole || !setting.sgp || !setting.is_master() || checkpoint.round, "the round of gossip");
  require(!is_whole || !setting.slow || !setting.owns_shard || checkpoint.slow, "the slow momentum buffers");
  if (is_whole && checkpoint.steps.value_or(0) < 0)
    throw InvalidArgument(
        fmt::format("slowmo: the checkpoint has {} steps; there must be 0 or more", *checkpoint.steps));
  if (is_whole && checkpoint.round.value_or(0) < 0)
    throw InvalidArgument(
        fmt::format("slowmo: the checkpoint has gossip round {}; the first one is 0", *checkpoint.round));
}

}  // namespace

// The order of a step, slow momentum and checkpoints. What is communicated is StepExchange's.
class SlowMo::Impl {
 public:
  Impl(Communicator& world, Tensors tensors, OptimizerGroups optimizer, Options options);

  void before_forward();
  void after_backward(std::span<const Buffer> gradients);
  void step();
  void begin_slow_buffers();
  void train() { training_ = true; }
  void evaluate();
  [[nodiscard]] Checkpoint checkpoint();
  void load(const Checkpoint& checkpoint);

  [[nodiscard]] const Setting& setting() const { return setting_; }
  [[nodiscard]] std::int64_t steps_done() const { return step_; }
  [[nodiscard]] StepPlan plan() const { return plan_of(setting_, step_); }
  [[nodiscard]] const StepExchange& exchange() const { return *exchange_; }
  [[nodiscard]] bool is_training() const { return training_; }
  [[nodiscard]] std::optional<SlowState> slow_state() const {
    if (!slow_) return {};
    return slow_->state();
  }
  [[nodiscard]] std::int64_t slow_buffer_bytes() const { return slow_ ? slow_->bytes() : 0; }
  [[nodiscard]] const std::vector<Warning>& warnings() const { return setting_.warnings; }
  [[nodiscard]] const std::array<double, kPhases>& seconds() const { return log_.seconds(); }

 private:
  [[nodiscard]] const MemorySpace& place() const { return workspace_->place(); }
  [[nodiscard]] bool overlaps() const { return setting_.sgp && setting_.overlap; }
  [[nodiscard]] bool gossips_beside() const { return overlaps() && training_ && !plan().skip_averaging; }
  void warn_of_halves();
  void share_start();
  void apply_slow_momentum(const StepPlan& plan, std::span<const ParameterGroup> groups);

  const Options options_;
  const Tensors tensors_;
  OptimizerGroups optimizer_;
  Setting setting_;
  std::int64_t step_ = 0;
  bool training_ = true;
  StepLog log_{options_, setting_, step_};
  std::optional<MasterWeights> masters_;
  std::optional<Workspace> workspace_;
  std::optional<NodeGroups> groups_;
  std::optional<StepExchange> exchange_;
  std::optional<SlowBuffers> slow_;
};

SlowMo::Impl::Impl(Communicator& world, Tensors tensors, OptimizerGroups optimizer, Options options)
    : options_(std::move(options)), tensors_(std::move(tensors)), optimizer_(std::move(optimizer)) {
  refuse_blocking_wait(std::getenv("NCCL_BLOCKING_WAIT"));
  require_parameters(tensors_);
  Communicator& global = options_.groups.global != nullptr ? *options_.groups.global : world;
  setting_ = settle(options_, global.rank(), global.size());
  masters_.emplace(tensors_);
  workspace_.emplace(place_of(tensors_, masters_->list(), options_));
  const bool is_fairscale = setting_.convention == Convention::fairscale;
  if (!is_fairscale) SlowBuffers::require_groups(setting_, optimizer_(), place());
  groups_.emplace(global, options_, setting_, place());
  exchange_.emplace(options_, setting_, tensors_, *masters_, *groups_, *workspace_, log_);
  for (const Warning& warning : setting_.warnings) log_.tell(warning.message);
  if (is_fairscale) return;
  share_start();
  begin_slow_buffers();
}

// Rank 0's parameters are where all start from, and the optimizer's where those are others.
void SlowMo::Impl::share_start() {
  Communicator& global = groups_->global();
  broadcast(global, tensors_.parameters, 0, *workspace_);
  broadcast(global, masters_->list(), 0, *workspace_);
  if (options_.broadcast_buffers) broadcast(global, tensors_.buffers, 0, *workspace_, kBroadcastBucketBytes);
  for (const ParameterGroup& group : optimizer_()) broadcast(global, group.parameters, 0, *workspace_);
}

// ---- around forward and backward ----

// Assran et al., algorithm 1: gradients are of the estimate z = x / w.
void SlowMo::Impl::before_forward() {
  {
    const StepLog::Timer timer(log_, Phase::buffers);
    if (options_.broadcast_buffers)
      broadcast(groups_->global(), tensors_.buffers, 0, *workspace_, kBroadcastBucketBytes);
  }
  if (!setting_.sgp) return;
  if (gossips_beside()) exchange_->hand_over(step_);
  exchange_->take_estimate();
}

void SlowMo::Impl::after_backward(std::span<const Buffer> gradients) {
  exchange_->average_gradients(gradients);
  if (!setting_.sgp) return;
  exchange_->take_numerator();
  // Never earlier, though it may be there: nodes that made other numbers of rounds would wait for each other at the
  // end.
  if (gossips_beside() && step_ - exchange_->handed_over_in() >= options_.synch_freq) exchange_->collect();
}

// ---- the step ----

// SlowMo, algorithm 1, after the base optimizer's step: parameters are gossiped or averaged, and every
// slow_frequency steps slow momentum is applied to their average. Around it what halves lose: header, Order.
void SlowMo::Impl::step() {
  if (!slow_) begin_slow_buffers();
  const std::vector<ParameterGroup> groups = optimizer_();
  const StepPlan plan = this->plan();
  if (plan.slow && setting_.convention == Convention::plumbline) SlowBuffers::require_rates(setting_, groups);
  if (step_ == 0) warn_of_halves();
  if (overlaps() && plan.slow_average) exchange_->drain();
  const bool gossips = plan.gossip && !overlaps();
  const bool communicates = gossips || plan.average;
  if (communicates) exchange_->keep_errors(plan.average ? setting_.nodes : 1);
  if (gossips && training_) exchange_->mix();
  if (plan.average) exchange_->average();
  if (communicates) {
    exchange_->share_in_node();
    exchange_->add_errors();
  }
  if (plan.slow) apply_slow_momentum(plan, groups);
  if (communicates || plan.slow) exchange_->copy_back();
  ++step_;
}

void SlowMo::Impl::warn_of_halves() {
  const bool has_halves =
      std::ranges::any_of(tensors_.parameters, [](const Buffer& one) { return comm::size_of(one.dtype) == 2; });
  if (has_halves && masters_->empty())
    log_.warn(Warning::What::no_master_weights,
              "parameters have 16 bits and no f32 master weights: what they lose in averages is lost for good");
}

void SlowMo::Impl::begin_slow_buffers() {
  if (slow_ || !setting_.slow) return;
  slow_.emplace(setting_, optimizer_(), *workspace_);
}

void SlowMo::Impl::apply_slow_momentum(const StepPlan& plan, std::span<const ParameterGroup> groups) {
  const StepLog::Timer timer(log_, Phase::slow);
  if (setting_.sgp) exchange_->take_numerator();
  const bool is_plumbline = setting_.convention == Convention::plumbline;
  // Without an average, slow momentum is of each node's estimate.
  const bool is_of_estimate = is_plumbline && setting_.sgp && !plan.slow_average && !exchange_->is_lazy();
  for (const ParameterGroup& group : groups)
    if (is_of_estimate) divide(place(), group.parameters, exchange_->weight());
  slow_->step(groups_->global(), plan, groups);
  for (const ParameterGroup& group : groups)
    if (is_of_estimate) multiply(place(), group.parameters, exchange_->weight());
  // All have the mean now. FairScale leaves the weight, and what follows is biased.
  if (is_plumbline && setting_.sgp && plan.slow_average) exchange_->set_weight(1);
}

// ---- train, evaluate, save, load ----

void SlowMo::Impl::evaluate() {
  if (overlaps()) exchange_->drain();
  training_ = false;
}

Checkpoint SlowMo::Impl::checkpoint() {
  if (overlaps()) exchange_->drain();
  Checkpoint made;
  if (setting_.sgp) {
    made.push_sum_weight = exchange_->weight();
    made.is_numerator = exchange_->is_numerator();
  }
  if (setting_.convention == Convention::fairscale) return made;
  made.steps = step_;
  if (setting_.sgp && setting_.is_master()) made.round = exchange_->round();
  made.slow = slow_state();
  return made;
}

void SlowMo::Impl::load(const Checkpoint& checkpoint) {
  const bool is_whole = setting_.convention == Convention::plumbline;
  require_loadable(setting_, checkpoint, is_whole);
  if (is_whole && checkpoint.round) exchange_->set_round(*checkpoint.round);
  if (setting_.sgp) {
    exchange_->set_weight(*checkpoint.push_sum_weight);
    exchange_->set_numerator(*checkpoint.is_numerator);
  }
  if (!is_whole) return;
  step_ = *checkpoint.steps;
  if (checkpoint.slow && setting_.slow) {
    begin_slow_buffers();
    slow_->load(*checkpoint.slow);
  }
}

SlowMo::SlowMo(Communicator& world, Tensors tensors, OptimizerGroups optimizer, const Options& options)
    : impl_(std::make_unique<Impl>(world, std::move(tensors), std::move(optimizer), options)) {}
SlowMo::~SlowMo() = default;
void SlowMo::before_forward() { impl_->before_forward(); }
void SlowMo::after_backward(std::span<const Buffer> gradients) { impl_->after_backward(gradients); }
void SlowMo::step() { impl_->step(); }
void SlowMo::begin_slow_buffers() { impl_->begin_slow_buffers(); }
void SlowMo::train() { impl_->train(); }
void SlowMo::evaluate() { impl_->evaluate(); }
bool SlowMo::is_training() const { return impl_->is_training(); }
Checkpoint SlowMo::checkpoint() { return impl_->checkpoint(); }
void SlowMo::load(const Checkpoint& checkpoint) { impl_->load(checkpoint); }
const Setting& SlowMo::setting() const { return impl_->setting(); }
std::int64_t SlowMo::steps_done() const { return impl_->steps_done(); }
StepPlan SlowMo::plan() const { return impl_->plan(); }
double SlowMo::push_sum_weight() const { return impl_->exchange().weight(); }
bool SlowMo::is_numerator() const { return impl_->exchange().is_numerator(); }
bool SlowMo::is_lazy() const { return impl_->exchange().is_lazy(); }
std::optional<SlowState> SlowMo::slow_state() const { return impl_->slow_state(); }
std::int64_t SlowMo::slow_buffer_bytes() const { return impl_->slow_buffer_bytes(); }
const std::vector<Warning>& SlowMo::warnings() const { return impl_->warnings(); }
const std::array<double, kPhases>& SlowMo::seconds() const { return impl_->seconds(); }

}  // namespace plumbline::slowmo
