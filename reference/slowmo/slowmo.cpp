#include "reference/slowmo/slowmo.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/gossip_thread.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/slow_buffers.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {

using comm::Buffer;
using comm::Communicator;
using comm::DType;

int divisor_of(const Setting& setting, Mean what) {
  switch (what) {
    case Mean::gradients_of_node:
      return setting.ranks_per_node;
    case Mean::parameters_of_nodes:
      return setting.nodes;
    default:
      return setting.world;
  }
}

void keep_errors_of(const MemorySpace& place, std::span<const TensorPair> halves) { subtract(place, halves); }
void add_errors_of(const MemorySpace& place, std::span<const TensorPair> halves) { add(place, halves); }

namespace {

// A master for each parameter, in order, or none at all.
std::vector<Buffer> master_weights_in(const Tensors& tensors) {
  const auto fit = [&](const std::vector<Buffer>& list) {
    if (list.size() != tensors.parameters.size())
      throw InvalidArgument(
          fmt::format("slowmo: {} masters for {} parameters", list.size(), tensors.parameters.size()));
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].count != tensors.parameters[i].count || list[i].dtype != DType::f32)
        throw InvalidArgument(
            fmt::format("slowmo: master {} has {} elements of {}, its parameter has {}; masters are of f32", i,
                        list[i].count, comm::name_of(list[i].dtype), tensors.parameters[i].count));
    return list;
  };
  const auto cut = [&](Buffer flat) {
    std::int64_t elements = 0;
    std::vector<Buffer> list;
    for (const Buffer& parameter : tensors.parameters) {
      if (elements + parameter.count <= flat.count) list.push_back(part_of(flat, elements, parameter.count));
      elements += parameter.count;
    }
    if (elements != flat.count)
      throw InvalidArgument(
          fmt::format("slowmo: the flat masters have {} elements, the parameters {}", flat.count, elements));
    return fit(list);
  };
  if (const auto* list = std::get_if<std::vector<Buffer>>(&tensors.master_weights)) return fit(*list);
  if (const auto* flat = std::get_if<Buffer>(&tensors.master_weights)) return cut(*flat);
  if (const auto* named = std::get_if<std::map<std::string, Buffer>>(&tensors.master_weights)) {
    if (named->size() != 1)
      throw InvalidArgument(
          fmt::format("slowmo: a dictionary of {} masters; it has one entry, all of them flat", named->size()));
    return cut(named->begin()->second);
  }
  return {};
}

void require_parameters(const Tensors& tensors) {
  if (tensors.parameters.empty()) throw InvalidArgument("slowmo: a model without parameters");
  for (const Buffer& parameter : tensors.parameters) require_floating("slowmo", parameter);
}

// Where all tensors are.
MemorySpace place_of(const Tensors& tensors, const std::vector<Buffer>& master_weights, const Options& options) {
  const MemorySpace place = device::place_of("slowmo: parameters", tensors.parameters, options.device);
  device::require_at("slowmo: masters", master_weights, place);
  device::require_at("slowmo: buffers", tensors.buffers, place);
  const auto wanted = options.communication_device;
  if (wanted && wanted->kind != comm::Device::Kind::cpu && *wanted != place.device())
    throw InvalidArgument(
        fmt::format("slowmo: communication_device is {}, and the parameters are in memory of {}; it is that, or cpu",
                    comm::name_of(*wanted), comm::name_of(place.device())));
  return place;
}

gossip::Graph graph_of(const Options& options, const Setting& setting) {
  if (!options.graph)
    return gossip::Graph({.nodes = setting.nodes,
                          .ranks_per_node = setting.ranks_per_node,
                          .peers = 1,
                          .convention = options.convention});
  if (options.graph->nodes() != setting.nodes)
    throw InvalidArgument(
        fmt::format("slowmo: the graph is of {} nodes, and there are {}", options.graph->nodes(), setting.nodes));
  return *options.graph;
}

}  // namespace

class SlowMo::Impl {
 public:
  Impl(Communicator& world, Tensors tensors, OptimizerGroups optimizer, Options options, SlowMoSteps steps)
      : options_(std::move(options)),
        steps_(std::move(steps)),
        tensors_(std::move(tensors)),
        optimizer_(std::move(optimizer)) {
    steps_.look_at_blocking_wait(steps_.environment("NCCL_BLOCKING_WAIT"));
    require_parameters(tensors_);
    options_.groups = steps_.groups(options_.groups);
    global_ = options_.groups.global != nullptr ? options_.groups.global : &world;
    setting_ = steps_.settle(options_, global_->rank(), global_->size());
    master_weights_ = master_weights_in(tensors_);
    workspace_.emplace(place_of(tensors_, master_weights_, options_));
    if (steps_.looks_at_groups_first(setting_)) SlowBuffers::require_groups(setting_, optimizer_(), place());
    make_groups();
    if (setting_.sgp) make_gossip();
    for (const Warning& warning : setting_.warnings) tell(warning.message);
    if (steps_.shares_start(setting_)) share_start();
    if (steps_.begins_early(setting_)) begin_slow_buffers();
  }

  // ---- around forward and backward ----

  void before_forward() {
    {
      const Timer timer(*this, Phase::buffers);
      if (steps_.broadcasts_buffers(options_.broadcast_buffers, step_))
        broadcast(*global_, tensors_.buffers, 0, *workspace_, steps_.bucket_bytes());
    }
    if (!setting_.sgp) return;
    if (overlaps() && training_ && !plan().skip_averaging) hand_over();
    if (!std::exchange(is_numerator_, false) || is_lazy_) return;
    divide(place(), tensors_.parameters, steps_.debias(weight_));
  }

  void after_backward(std::span<const Buffer> gradients) {
    last_gradients_.assign(gradients.begin(), gradients.end());
    if (node_ != nullptr) {
      const Timer timer(*this, Phase::gradients);
      steps_.reduce_gradients(*node_, gradients, steps_.divisor(setting_, Mean::gradients_of_node), setting_.convention,
                              *workspace_);
    }
    if (!setting_.sgp) return;
    take_numerator();
    // Never earlier, though it may be there: nodes that made other numbers of rounds would wait for each other at the
    // end.
    const auto behind = static_cast<int>(step_ - handed_over_in_);
    if (overlaps() && training_ && !plan().skip_averaging && steps_.collects(behind, options_.synch_freq))
      collect(true);
  }

  // ---- the step ----

  void step() {
    if (!slow_) begin_slow_buffers();
    const std::vector<ParameterGroup> groups = optimizer_();
    const StepPlan plan = this->plan();
    if (plan.slow && steps_.looks_at_rates_first(setting_)) SlowBuffers::require_rates(setting_, groups);
    if (step_ == 0) warn_of_halves();
    if (overlaps() && plan.slow_average) drain();
    const bool gossips = plan.gossip && !overlaps();
    const bool communicates = gossips || plan.average;
    if (communicates) keep_errors(plan);
    if (gossips && steps_.gossips(training_)) mix();
    if (plan.average) average();
    if (communicates) share_in_node();
    if (communicates) add_errors();
    if (plan.slow) apply_slow_momentum(plan, groups);
    if (communicates || plan.slow) copy_back();
    step_ = steps_.next_step(step_, groups.size());
  }

  void begin_slow_buffers() {
    if (slow_ || !setting_.slow) return;
    slow_.emplace(setting_, steps_, optimizer_(), *workspace_);
  }

  // ---- train, evaluate, save, load ----

  void train() {
    training_ = true;
    if (thread_) thread_->turn_on();
  }
  void evaluate() {
    if (overlaps()) drain();
    training_ = false;
    if (thread_) thread_->turn_off(tensors_.parameters);
  }

  Checkpoint checkpoint() {
    if (overlaps()) drain();
    Checkpoint checkpoint;
    if (setting_.sgp) {
      checkpoint.push_sum_weight = weight_;
      checkpoint.is_numerator = is_numerator_;
    }
    if (setting_.convention == Convention::plumbline) {
      checkpoint.steps = step_;
      if (setting_.sgp && setting_.is_master()) checkpoint.round = thread_ ? thread_->round() : push_sum_->round();
      checkpoint.slow = slow_state();
    }
    steps_.saved(checkpoint);
    return checkpoint;
  }

  void load(const Checkpoint& checkpoint) {
    const auto require = [](bool has, const char* what) {
      if (!has) throw NotFound(fmt::format("slowmo: the checkpoint lacks {}", what));
    };
    if (!setting_.sgp && (checkpoint.push_sum_weight || checkpoint.is_numerator))
      throw InvalidArgument("slowmo: the checkpoint has a push-sum weight, and there is no push-sum here");
    const bool is_whole = setting_.convention == Convention::plumbline;
    require(!setting_.sgp || checkpoint.push_sum_weight, "the push-sum weight");
    require(!setting_.sgp || checkpoint.is_numerator, "whether parameters are numerators");
    require(!is_whole || checkpoint.steps, "the number of steps");
    require(!is_whole || !setting_.sgp || !setting_.is_master() || checkpoint.round, "the round of gossip");
    require(!is_whole || !setting_.slow || !setting_.owns_shard || checkpoint.slow, "the slow buffers");
    if (is_whole && checkpoint.round) set_round(*checkpoint.round);
    if (setting_.sgp) {
      set_weight(*checkpoint.push_sum_weight);
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
  [[nodiscard]] StepPlan plan() const { return steps_.plan(setting_, step_); }
  [[nodiscard]] double weight() const { return weight_; }
  [[nodiscard]] bool is_numerator() const { return is_numerator_; }
  [[nodiscard]] bool is_lazy() const { return is_lazy_; }
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
      if (!impl_.steps_.tells(phase_)) return;
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

  // ---- making it ----

  [[nodiscard]] const MemorySpace& place() const { return workspace_->place(); }

  // What the caller gave, by way of the host where that is wanted. Groups made from it are alike.
  [[nodiscard]] Communicator* given(Communicator* group) {
    if (group == nullptr || place().is_host()) return group;
    const auto wanted = options_.communication_device;
    if (steps_.stages(wanted && wanted->kind == comm::Device::Kind::cpu))
      group = staged_.emplace_back(std::make_unique<device::HostStaging>(*group, options_.device)).get();
    device::require_served("slowmo", *group, place());
    group->use_stream(options_.device.stream);
    return group;
  }

  void make_groups() {
    global_ = given(global_);
    master_weights_group_ = given(options_.groups.master_weights);
    node_ = given(options_.groups.node);
    if (setting_.ranks_per_node == 1) {
      node_ = nullptr;
      if (master_weights_group_ == nullptr) master_weights_group_ = global_;
      return;
    }
    if (node_ == nullptr) {
      std::vector<int> ranks;
      for (int i = 0; i < setting_.ranks_per_node; ++i) ranks.push_back(setting_.node * setting_.ranks_per_node + i);
      own_node_ = global_->create_group(ranks);
      node_ = own_node_.get();
    }
    if (master_weights_group_ != nullptr || !setting_.is_master()) return;
    std::vector<int> ranks;
    for (int node = 0; node < setting_.nodes; ++node) ranks.push_back(node * setting_.ranks_per_node);
    own_masters_ = global_->create_group(ranks);
    master_weights_group_ = own_masters_.get();
  }

  void make_gossip() {
    graph_ = graph_of(options_, setting_);
    is_lazy_ = steps_.lazy(gossip::is_lazy(*graph_, options_.mixing), setting_.overlap ? options_.synch_freq : 0);
    if (!setting_.is_master()) return;
    const gossip::PushSumOptions options{
        .algorithm = options_.push_sum ? gossip::Algorithm::push_sum : gossip::Algorithm::push_pull,
        .heartbeat = options_.heartbeat,
        .lazy = is_lazy_,
        .device = options_.device,
        .use_streams = options_.use_streams};
    if (setting_.overlap)
      thread_ =
          std::make_unique<gossip::GossipThread>(master_weights_group_->duplicate(), *graph_, options_.mixing, options);
    else
      push_sum_.emplace(*master_weights_group_, *graph_, options_.mixing, options);
  }

  // Rank 0's parameters are where all start from, and the optimizer's where those are others.
  void share_start() {
    broadcast(*global_, tensors_.parameters, 0, *workspace_);
    broadcast(*global_, master_weights_, 0, *workspace_);
    if (steps_.shares_buffers(options_.broadcast_buffers))
      broadcast(*global_, tensors_.buffers, 0, *workspace_, steps_.bucket_bytes());
    for (const ParameterGroup& group : optimizer_()) broadcast(*global_, group.parameters, 0, *workspace_);
  }

  void warn_of_halves() {
    const bool has_halves =
        std::ranges::any_of(tensors_.parameters, [](const Buffer& one) { return comm::size_of(one.dtype) == 2; });
    if (has_halves && master_weights_.empty())
      warn(Warning::What::no_master_weights,
           "parameters have 16 bits and no masters of 32: what they lose in averages is lost for good");
  }

  // ---- gossip ----

  [[nodiscard]] bool overlaps() const { return setting_.sgp && setting_.overlap; }
  void set_weight(double weight) {
    weight_ = weight;
    if (thread_) thread_->set_weight(weight);
    if (push_sum_) push_sum_->set_weight(weight);
  }
  void set_round(std::int64_t round) {
    if (thread_) thread_->set_round(round);
    if (push_sum_) push_sum_->set_round(round);
  }
  void take_numerator() {
    if (std::exchange(is_numerator_, true) || is_lazy_) return;
    multiply(place(), tensors_.parameters, steps_.bias(weight_));
  }
  void mix() {
    const Timer timer(*this, Phase::gossip);
    take_numerator();
    if (!push_sum_) return;
    const auto until =
        Clock::now() + std::min<std::chrono::nanoseconds>(options_.heartbeat, std::chrono::hours(24 * 365));
    try {
      push_sum_->mix(tensors_.parameters);
    } catch (const RuntimeFailure& error) {
      if (!push_sum_->is_interrupted() || !gossip::may_pass(error)) throw;
      mix_again(error.what(), until);
    }
    weight_ = push_sum_->weight();
  }
  // The same values, not mixed anew, as often as the heartbeat time allows.
  void mix_again(std::string interruption, Clock::time_point until) {
    const std::string words = push_sum_->words_of_round();
    gossip::Backoff backoff(options_.heartbeat);
    while (push_sum_->is_interrupted()) {
      if (Clock::now() >= until) throw gossip::late_round(words, interruption, options_.heartbeat);
      std::this_thread::sleep_until(std::min(Clock::now() + backoff.next(), until));
      try {
        push_sum_->retry(tensors_.parameters);
      } catch (const RuntimeFailure& error) {
        if (!gossip::may_pass(error)) throw;
        interruption = error.what();
      }
    }
  }
  // What the master hands over leaves its node, so the others' parameters follow.
  void hand_over() {
    const Timer timer(*this, Phase::gossip);
    take_numerator();
    if (is_under_way_) return;
    if (thread_) thread_->reserve(tensors_.parameters);  // ahead of the masters' change
    double kept = 1;
    if (!is_lazy_) kept = gossip::shares_of(*graph_, options_.mixing, setting_.node, rounds_handed_over()).kept;
    const double weight = weight_ * kept;
    keep_all_errors();
    if (thread_ && !thread_->hand_over(tensors_.parameters))
      warn(Warning::What::not_mixed, "what was handed over to gossip before is not collected yet");
    weight_ = weight;  // the master's, which goes to its node with the parameters
    share_in_node();
    add_errors();
    copy_back();
    is_under_way_ = true;
    handed_over_in_ = step_;
  }
  [[nodiscard]] std::int64_t rounds_handed_over() const { return thread_ ? thread_->round() : 0; }
  void collect(bool waits) {
    const Timer timer(*this, Phase::gossip);
    if (!is_under_way_) return;
    keep_all_errors();
    std::int64_t mixed = 0;
    if (thread_) {
      using Collected = gossip::GossipThread::Collected;
      Collected collected = Collected::not_yet;
      do collected = thread_->collect(tensors_.parameters, waits);
      while (waits && collected == Collected::interrupted);
      if (collected == Collected::nothing) warn(Warning::What::not_gossiping, "nothing was handed over to gossip");
      mixed = collected == Collected::mixed ? 1 : 0;
      if (mixed == 1) weight_ = thread_->weight();
    }
    if (node_ != nullptr) node_->broadcast({&mixed, 1, DType::i64}, 0);
    if (mixed == 1) {
      share_in_node();
      is_under_way_ = false;
    }
    add_errors();
    if (mixed == 1) copy_back();
  }
  void drain() {
    if (!steps_.drains()) return;
    take_numerator();
    collect(true);
  }

  // ---- averages ----

  void average() {
    const Timer timer(*this, Phase::average);
    if (master_weights_group_ != nullptr && setting_.is_master())
      all_reduce_mean(*master_weights_group_, steps_.averaged(tensors_.parameters, last_gradients_),
                      steps_.divisor(setting_, Mean::parameters_of_nodes), setting_.convention, *workspace_);
  }
  void share_in_node() {
    const Timer timer(*this, Phase::node);
    if (node_ == nullptr || !steps_.shares_in_node()) return;
    broadcast(*node_, tensors_.parameters, 0, *workspace_);
    // FairScale's other ranks keep the weight that they have, 1.
    if (setting_.sgp && !is_lazy_ && setting_.convention == Convention::plumbline)
      node_->broadcast({&weight_, 1, DType::f64}, 0);
  }

  // ---- masters ----

  // Halves are divided and multiplied by what the average divides by, so that the bits which that costs stay here.
  void keep_errors(const StepPlan& plan) {
    const Timer timer(*this, Phase::error_before);
    if (master_weights_.empty()) return;
    if (plan.average) {
      divide(place(), tensors_.parameters, setting_.nodes);
      multiply(place(), tensors_.parameters, setting_.nodes);
    }
    steps_.error_before(place(), fp16_to_master_weights());
  }
  void keep_all_errors() { keep_errors({}); }
  void add_errors() {
    const Timer timer(*this, Phase::error_after);
    if (!master_weights_.empty()) steps_.error_after(place(), fp16_to_master_weights());
  }
  void copy_back() {
    const Timer timer(*this, Phase::copy_back);
    if (!steps_.copies_back()) return;
    std::vector<TensorPair> master_weights_to_fp16;
    for (std::size_t i = 0; i < master_weights_.size(); ++i)
      master_weights_to_fp16.push_back({master_weights_[i], tensors_.parameters[i]});
    copy(place(), master_weights_to_fp16);
  }
  [[nodiscard]] std::vector<TensorPair> fp16_to_master_weights() const {
    std::vector<TensorPair> halves;
    for (std::size_t i = 0; i < master_weights_.size(); ++i)
      halves.push_back({tensors_.parameters[i], master_weights_[i]});
    return halves;
  }

  // ---- slow momentum ----

  void apply_slow_momentum(const StepPlan& plan, std::span<const ParameterGroup> groups) {
    const Timer timer(*this, Phase::slow);
    // Without an average, slow momentum is of each node's estimate.
    const bool is_of_estimate =
        setting_.convention == Convention::plumbline && setting_.sgp && !plan.slow_average && !is_lazy_;
    if (setting_.sgp) take_numerator();
    for (const ParameterGroup& group : groups)
      if (is_of_estimate) divide(place(), group.parameters, weight_);
    slow_->step(*global_, plan, groups);
    for (const ParameterGroup& group : groups)
      if (is_of_estimate) multiply(place(), group.parameters, weight_);
    if (plan.slow_average && setting_.sgp) set_weight(steps_.weight_after_average(setting_, weight_));
  }

  Options options_;
  SlowMoSteps steps_;
  Tensors tensors_;
  OptimizerGroups optimizer_;
  Setting setting_;
  Communicator* global_ = nullptr;
  Communicator* master_weights_group_ = nullptr;
  Communicator* node_ = nullptr;                       // where a node has several ranks
  std::vector<std::unique_ptr<Communicator>> staged_;  // around the caller's
  std::unique_ptr<Communicator> own_masters_, own_node_;
  std::optional<Workspace> workspace_;
  std::vector<Buffer> master_weights_, last_gradients_;
  std::optional<gossip::Graph> graph_;
  std::optional<gossip::PushSum> push_sum_;
  std::unique_ptr<gossip::GossipThread> thread_;
  std::optional<SlowBuffers> slow_;
  std::array<double, kPhases> seconds_{};
  double weight_ = 1;
  std::int64_t step_ = 0, handed_over_in_ = 0;
  bool is_numerator_ = false, is_lazy_ = false, training_ = true, is_under_way_ = false;
};

SlowMo::SlowMo(Communicator& world, Tensors tensors, OptimizerGroups optimizer, const Options& options,
               const SlowMoSteps& steps)
    : impl_(std::make_unique<Impl>(world, std::move(tensors), std::move(optimizer), options, steps)) {}
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
