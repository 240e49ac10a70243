#include "reference/slowmo/slowmo.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/master_weights.hpp"
#include "reference/slowmo/detail/node_gossip.hpp"
#include "reference/slowmo/detail/node_groups.hpp"
#include "reference/slowmo/detail/slow_buffers.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {

using comm::Buffer;
using comm::Communicator;
using comm::DType;

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

}  // namespace

class SlowMo::Impl {
 public:
  Impl(Communicator& world, Tensors tensors, OptimizerGroups optimizer, Options options)
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
    if (setting_.sgp) gossip_.emplace(groups_->masters(), options_, setting_);
    for (const Warning& warning : setting_.warnings) tell(warning.message);
    if (is_fairscale) return;
    share_start();
    begin_slow_buffers();
  }

  // ---- around forward and backward ----

  // Assran et al., algorithm 1: gradients are of the estimate z = x / w.
  void before_forward() {
    {
      const Timer timer(*this, Phase::buffers);
      if (options_.broadcast_buffers)
        broadcast(groups_->global(), tensors_.buffers, 0, *workspace_, kBroadcastBucketBytes);
    }
    if (!setting_.sgp) return;
    if (overlaps() && training_ && !plan().skip_averaging) hand_over();
    if (!std::exchange(is_numerator_, false) || is_lazy()) return;
    divide(place(), tensors_.parameters, weight());
  }

  void after_backward(std::span<const Buffer> gradients) {
    if (Communicator* const node = groups_->node()) {
      const Timer timer(*this, Phase::gradients);
      all_reduce_mean(*node, gradients, setting_.ranks_per_node, setting_.convention, *workspace_);
    }
    if (!setting_.sgp) return;
    take_numerator();
    // Never earlier, though it may be there: nodes that made other numbers of rounds would wait for each other at the
    // end.
    if (overlaps() && training_ && !plan().skip_averaging && step_ - handed_over_in_ >= options_.synch_freq) collect();
  }

  // ---- the step ----

  // SlowMo, algorithm 1, after the base optimizer's step: parameters are gossiped or averaged, and every
  // slow_frequency steps slow momentum is applied to their average. Around it what halves lose: header, Order.
  void step() {
    if (!slow_) begin_slow_buffers();
    const std::vector<ParameterGroup> groups = optimizer_();
    const StepPlan plan = this->plan();
    if (plan.slow && setting_.convention == Convention::plumbline) SlowBuffers::require_rates(setting_, groups);
    if (step_ == 0) warn_of_halves();
    if (overlaps() && plan.slow_average) drain();
    const bool gossips = plan.gossip && !overlaps();
    const bool communicates = gossips || plan.average;
    if (communicates) keep_errors(plan.average ? setting_.nodes : 1);
    if (gossips && training_) mix();
    if (plan.average) average();
    if (communicates) share_in_node();
    if (communicates) add_errors();
    if (plan.slow) apply_slow_momentum(plan, groups);
    if (communicates || plan.slow) copy_back();
    ++step_;
  }

  void begin_slow_buffers() {
    if (slow_ || !setting_.slow) return;
    slow_.emplace(setting_, optimizer_(), *workspace_);
  }

  // ---- train, evaluate, save, load ----

  void train() {
    training_ = true;
    if (gossip_) gossip_->turn_on();
  }
  void evaluate() {
    if (overlaps()) drain();
    training_ = false;
    if (gossip_) gossip_->turn_off(tensors_.parameters);
  }

  Checkpoint checkpoint() {
    if (overlaps()) drain();
    Checkpoint made;
    if (setting_.sgp) {
      made.push_sum_weight = weight();
      made.is_numerator = is_numerator_;
    }
    if (setting_.convention == Convention::fairscale) return made;
    made.steps = step_;
    if (setting_.sgp && setting_.is_master()) made.round = gossip_->round();
    made.slow = slow_state();
    return made;
  }

  void load(const Checkpoint& checkpoint) {
    const bool is_whole = setting_.convention == Convention::plumbline;
    require_loadable(checkpoint, is_whole);
    if (is_whole && checkpoint.round && gossip_) gossip_->set_round(*checkpoint.round);
    if (setting_.sgp) {
      gossip_->set_weight(*checkpoint.push_sum_weight);
      is_numerator_ = *checkpoint.is_numerator;
    }
    if (!is_whole) return;
    step_ = *checkpoint.steps;
    if (checkpoint.slow && setting_.slow) {
      begin_slow_buffers();
      slow_->load(*checkpoint.slow);
    }
  }

  // ---- what there is ----

  [[nodiscard]] const Setting& setting() const { return setting_; }
  [[nodiscard]] std::int64_t steps_done() const { return step_; }
  [[nodiscard]] StepPlan plan() const { return plan_of(setting_, step_); }
  [[nodiscard]] double weight() const { return gossip_ ? gossip_->weight() : 1; }
  [[nodiscard]] bool is_numerator() const { return is_numerator_; }
  [[nodiscard]] bool is_lazy() const { return gossip_ && gossip_->is_lazy(); }
  [[nodiscard]] bool is_training() const { return training_; }
  [[nodiscard]] std::optional<SlowState> slow_state() const {
    if (!slow_) return {};
    return slow_->state();
  }
  [[nodiscard]] std::int64_t slow_buffer_bytes() const { return slow_ ? slow_->bytes() : 0; }
  [[nodiscard]] const std::vector<Warning>& warnings() const { return setting_.warnings; }
  [[nodiscard]] const std::array<double, kPhases>& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Adds up how long a phase takes, and says that it is over.
  class Timer {
   public:
    Timer(Impl& impl, Phase phase) : impl_(impl), phase_(phase) {
      if (impl.options_.profile) begin_ = Clock::now();
    }
    ~Timer() {
      if (impl_.options_.profile)
        impl_.seconds_[static_cast<std::size_t>(phase_)] +=
            std::chrono::duration<double>(Clock::now() - begin_).count();
      if (impl_.options_.verbose)
        impl_.tell(fmt::format("rank {}, step {}: {} done", impl_.setting_.rank, impl_.step_, name_of(phase_)));
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    Impl& impl_;
    Phase phase_;
    Clock::time_point begin_{};
  };

  void tell(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void warn(Warning::What what, std::string message) {
    tell(message);
    setting_.warnings.push_back({what, std::move(message)});
  }
  void warn_of_halves() {
    const bool has_halves =
        std::ranges::any_of(tensors_.parameters, [](const Buffer& one) { return comm::size_of(one.dtype) == 2; });
    if (has_halves && masters_->empty())
      warn(Warning::What::no_master_weights,
           "parameters have 16 bits and no masters of 32: what they lose in averages is lost for good");
  }

  [[nodiscard]] const MemorySpace& place() const { return workspace_->place(); }

  // Rank 0's parameters are where all start from, and the optimizer's where those are others.
  void share_start() {
    Communicator& global = groups_->global();
    broadcast(global, tensors_.parameters, 0, *workspace_);
    broadcast(global, masters_->list(), 0, *workspace_);
    if (options_.broadcast_buffers) broadcast(global, tensors_.buffers, 0, *workspace_, kBroadcastBucketBytes);
    for (const ParameterGroup& group : optimizer_()) broadcast(global, group.parameters, 0, *workspace_);
  }

  void require_loadable(const Checkpoint& checkpoint, bool is_whole) const {
    const auto require = [](bool has, const char* what) {
      if (!has) throw NotFound(fmt::format("slowmo: the checkpoint lacks {}", what));
    };
    if (!setting_.sgp && (checkpoint.push_sum_weight || checkpoint.is_numerator))
      throw InvalidArgument("slowmo: the checkpoint has a push-sum weight, and there is no push-sum here");
    require(!setting_.sgp || checkpoint.push_sum_weight, "the push-sum weight");
    require(!setting_.sgp || checkpoint.is_numerator, "whether parameters are numerators");
    require(!is_whole || checkpoint.steps, "the number of steps");
    require(!is_whole || !setting_.sgp || !setting_.is_master() || checkpoint.round, "the round of gossip");
    require(!is_whole || !setting_.slow || !setting_.owns_shard || checkpoint.slow, "the slow buffers");
  }

  // ---- gossip ----

  [[nodiscard]] bool overlaps() const { return setting_.sgp && setting_.overlap; }
  void take_numerator() {
    if (std::exchange(is_numerator_, true) || is_lazy()) return;
    multiply(place(), tensors_.parameters, weight());
  }
  void mix() {
    const Timer timer(*this, Phase::gossip);
    take_numerator();
    gossip_->mix(tensors_.parameters);
  }
  // What the master hands over leaves its node, so the others' parameters follow.
  void hand_over() {
    const Timer timer(*this, Phase::gossip);
    take_numerator();
    if (is_under_way_) return;
    gossip_->reserve(tensors_.parameters);  // before the masters' change
    keep_errors(1);
    if (!gossip_->hand_over(tensors_.parameters))
      warn(Warning::What::not_mixed, "what was handed over to gossip before is not collected yet");
    share_in_node();
    add_errors();
    copy_back();
    is_under_way_ = true;
    handed_over_in_ = step_;
  }
  void collect() {
    const Timer timer(*this, Phase::gossip);
    if (!is_under_way_) return;
    keep_errors(1);
    std::int64_t mixed = 0;
    if (setting_.is_master()) {
      using Collected = gossip::GossipThread::Collected;
      const Collected collected = gossip_->collect(tensors_.parameters);
      if (collected == Collected::nothing) warn(Warning::What::not_gossiping, "nothing was handed over to gossip");
      mixed = collected == Collected::mixed ? 1 : 0;
    }
    if (Communicator* const node = groups_->node()) node->broadcast({&mixed, 1, DType::i64}, 0);
    if (mixed == 1) {
      share_in_node();
      is_under_way_ = false;
    }
    add_errors();
    if (mixed == 1) copy_back();
  }
  // Adds what is under way, before anything that needs all of it.
  void drain() {
    take_numerator();
    collect();
  }

  // ---- averages ----

  void average() {
    const Timer timer(*this, Phase::average);
    if (setting_.is_master())
      all_reduce_mean(*groups_->masters(), tensors_.parameters, setting_.nodes, setting_.convention, *workspace_);
  }
  void share_in_node() {
    const Timer timer(*this, Phase::node);
    Communicator* const node = groups_->node();
    if (node == nullptr) return;
    broadcast(*node, tensors_.parameters, 0, *workspace_);
    // FairScale's other ranks keep the weight that they have, 1.
    if (!setting_.sgp || is_lazy() || setting_.convention == Convention::fairscale) return;
    double of_master = weight();
    node->broadcast({&of_master, 1, DType::f64}, 0);
    gossip_->follow(of_master);
  }

  // ---- masters ----

  void keep_errors(int divisor) {
    const Timer timer(*this, Phase::error_before);
    masters_->keep_errors(place(), divisor);
  }
  void add_errors() {
    const Timer timer(*this, Phase::error_after);
    masters_->add_errors(place());
  }
  void copy_back() {
    const Timer timer(*this, Phase::copy_back);
    masters_->copy_back(place());
  }

  // ---- slow momentum ----

  void apply_slow_momentum(const StepPlan& plan, std::span<const ParameterGroup> groups) {
    const Timer timer(*this, Phase::slow);
    if (setting_.sgp) take_numerator();
    const bool is_plumbline = setting_.convention == Convention::plumbline;
    // Without an average, slow momentum is of each node's estimate.
    const bool is_of_estimate = is_plumbline && setting_.sgp && !plan.slow_average && !is_lazy();
    for (const ParameterGroup& group : groups)
      if (is_of_estimate) divide(place(), group.parameters, weight());
    slow_->step(groups_->global(), plan, groups);
    for (const ParameterGroup& group : groups)
      if (is_of_estimate) multiply(place(), group.parameters, weight());
    // All have the mean now. FairScale leaves the weight, and what follows is biased.
    if (is_plumbline && setting_.sgp && plan.slow_average) gossip_->set_weight(1);
  }

  const Options options_;
  Tensors tensors_;
  OptimizerGroups optimizer_;
  Setting setting_;
  std::optional<MasterWeights> masters_;
  std::optional<Workspace> workspace_;
  std::optional<NodeGroups> groups_;
  std::optional<NodeGossip> gossip_;  // of SGP
  std::optional<SlowBuffers> slow_;
  std::array<double, kPhases> seconds_{};
  std::int64_t step_ = 0, handed_over_in_ = 0;
  bool is_numerator_ = false, training_ = true, is_under_way_ = false;
};

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
double SlowMo::push_sum_weight() const { return impl_->weight(); }
bool SlowMo::is_numerator() const { return impl_->is_numerator(); }
bool SlowMo::is_lazy() const { return impl_->is_lazy(); }
std::optional<SlowState> SlowMo::slow_state() const { return impl_->slow_state(); }
std::int64_t SlowMo::slow_buffer_bytes() const { return impl_->slow_buffer_bytes(); }
const std::vector<Warning>& SlowMo::warnings() const { return impl_->warnings(); }
const std::array<double, kPhases>& SlowMo::seconds() const { return impl_->seconds(); }

}  // namespace plumbline::slowmo
