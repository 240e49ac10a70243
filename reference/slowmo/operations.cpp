// slowmo.trace: ranks that are given their gradients, and what they have after each step.
//
// Model   Every rank of a world in this process has a SlowMo and an optimizer; a step takes the gradients as they are
//         given, whatever the parameters. Parameters of 16 bits have masters, which the optimizer works on.
// Source  The recorded runs of FairScale, which hold the gradients of each step.
#include "reference/adapter/operations.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/optimizer.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::adapter {

using comm::Buffer;
using comm::ConstBuffer;
using comm::DType;
using nlohmann::json;
using slowmo::SlowMo;

namespace {

// What one rank is given for a step: values of all parameters, one after the other.
struct TraceGradients {
  std::vector<double> values;
  bool is_local = false;              // still to be averaged inside the node
  std::vector<double> buffer_before;  // of the model, set before the forward; may be empty
  std::set<std::size_t> unused;       // parameters of which the backward pass makes no gradient
};

// What a saved state lacks, or has below zero.
struct BadState {
  bool is_below_zero = false;
  std::string entry;
};

struct Trace {
  enum class MastersAs : std::uint8_t { none, flat, list };
  slowmo::Options options;
  slowmo::OptimizerRule optimizer;
  std::vector<std::int64_t> elements;          // of each parameter
  std::vector<DType> dtypes;                   // of each
  MastersAs master_weights = MastersAs::none;  // of parameters of 16 bits
  // Rates of each step, by group.
  std::vector<std::vector<double>> rates;
  // Parameters from here on are the first group of two; 0: there is one group.
  std::size_t split = 0;
  std::vector<std::vector<double>> initial;            // of each rank
  std::vector<std::vector<TraceGradients>> gradients;  // of each step and rank
  bool begins_first = false;                           // slow buffers are made before the first step
  std::optional<std::int64_t> resume_at{};             // before that step all is saved, and loaded into another SlowMo
  std::set<std::int64_t> evaluate_after;               // steps after which a forward pass is made in evaluation
  bool saves_in_evaluation = false;                    // of resume_at
  std::optional<BadState> bad_state{};                 // that is loaded in its place
  std::optional<std::string> blocking_wait{};          // NCCL_BLOCKING_WAIT in the environment of the ranks
};

constexpr std::int64_t kMostRanks = 64;

// ---- questions ----

constexpr std::int64_t kMostPeers = 1 << 20;
int peers_in(const Arguments& arguments) {
  return arguments.has("peers_per_itr") ? static_cast<int>(arguments.integer_in("peers_per_itr", 1, kMostPeers)) : 1;
}

// The phone book of FairScale's recorded test graph "Hub": everybody's first peer is node 0, whose own is node 1; the
// second is the next one of a ring.
gossip::Graph hub_graph(int nodes, int peers) {
  std::vector<std::vector<int>> rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({node == 0 ? 1 % nodes : 0, (node + 1) % nodes});
  return gossip::Graph(std::move(rows), peers, gossip::Convention::fairscale, false);
}

// Of the nodes; nothing: the default one.
std::optional<gossip::Graph> graph_in(const Arguments& arguments, gossip::Convention convention, int nodes) {
  const int peers = peers_in(arguments);
  const auto name = arguments.find<std::string>("graph");
  const auto rows = arguments.find<std::vector<std::vector<int>>>("phone_book");
  const bool regular = arguments.get<bool>("regular", false);
  if (rows) {
    if (rows->size() != static_cast<std::size_t>(nodes))
      arguments.refuse(fmt::format("phone_book has {} rows; there are {} nodes", rows->size(), nodes));
    return gossip::Graph(*rows, peers, convention, regular);
  }
  if (name == "Hub") return hub_graph(nodes, peers);
  const auto kind = name ? gossip::parse_graph_kind(*name) : gossip::GraphKind::n_peer_exponential;
  if (!kind) arguments.refuse("graph '" + *name + "' is unknown");
  return gossip::Graph({.kind = *kind, .nodes = nodes, .peers = peers, .convention = convention});
}

gossip::Mixing mixing_in(const Arguments& arguments) {
  using gossip::MixingKind;
  return {.kind = arguments.choice<MixingKind>("mixing",
                                               {{"uniform", MixingKind::uniform},
                                                {"skew", MixingKind::skewed},
                                                {"metropolis-hastings", MixingKind::metropolis_hastings}},
                                               MixingKind::uniform)};
}

// Momentum and learning rate are those of the slow update, whatever its rule.
std::optional<slowmo::OuterRule> outer_in(const Arguments& arguments) {
  const auto name = arguments.find<std::string>("outer");
  const auto momentum = arguments.get<double>("slowmo_momentum", 0.5), rate = arguments.get<double>("slowmo_lr", 1);
  if (!name) return std::nullopt;
  return arguments.choice<slowmo::OuterRule>("outer",
                                             {{"slowmo", slowmo::slowmo_rule(momentum, rate)},
                                              {"bmuf", slowmo::bmuf_rule(momentum, rate)},
                                              {"lookahead", slowmo::lookahead_rule(rate)},
                                              {"localsgd", slowmo::local_sgd_rule()},
                                              {"diloco", slowmo::diloco_rule(rate, momentum)}},
                                             slowmo::local_sgd_rule());
}

slowmo::Options options_in(const Arguments& arguments, int world) {
  using slowmo::BaseAlgorithm;
  slowmo::Options options{
      .convention = arguments.convention() == Convention::fairscale ? gossip::Convention::fairscale
                                                                    : gossip::Convention::plumbline,
      .ranks_per_node = arguments.get<int>("nprocs_per_node"),
      .broadcast_buffers = arguments.get<bool>("broadcast_buffers", true),
      .base = slowmo::parse_base_algorithm(arguments.get<std::string>("base", "localsgd")),
      .slow_momentum = arguments.get<double>("slowmo_momentum", 0.5),
      .slow_learning_rate = arguments.get<double>("slowmo_lr", 1),
      .slow_frequency = arguments.get<int>("slowmo_frequency", 48),
      .outer = outer_in(arguments),
      .memory_efficient = arguments.get<bool>("memory_efficient", true),
      .shards = arguments.get<int>("num_shards", 32),
      .local_sgd_frequency = arguments.get<int>("localsgd_frequency", 3),
      .local_sgd_begin = arguments.get<int>("localsgd_begin", 0),
      .mixing = mixing_in(arguments),
      .push_sum = arguments.get<bool>("push_sum", true),
      .sgp_average_params = arguments.get<bool>("sgp_average_params", false),
      .overlap = arguments.get<bool>("overlap", false),
      .accepts_stale = arguments.get<bool>("accepts_stale", false),
      .synch_freq = arguments.get<int>("synch_freq", 0),
  };
  const slowmo::Setting setting = slowmo::settle(options, 0, world);
  if (setting.sgp)
    options.graph = graph_in(arguments, options.convention, setting.nodes);
  else  // read, too: a field that does not matter is not an unknown one
    (void)peers_in(arguments), (void)arguments.has("graph"), (void)arguments.has("phone_book"),
        (void)arguments.has("regular");
  return options;
}

slowmo::OptimizerRule rule_in(const Arguments& optimizer) {
  if (optimizer.choice<bool>("name", {{"sgd", false}, {"adam", true}}, false)) {
    const auto betas = optimizer.get<std::vector<double>>("betas", {0.9, 0.999});
    if (betas.size() != 2) optimizer.refuse("betas has two numbers");
    return slowmo::Adam{.beta1 = betas[0],
                        .beta2 = betas[1],
                        .epsilon = optimizer.get<double>("eps", 1e-8),
                        .weight_decay = optimizer.get<double>("weight_decay", 0)};
  }
  return slowmo::Sgd{.momentum = optimizer.get<double>("momentum", 0),
                     .dampening = optimizer.get<double>("dampening", 0),
                     .weight_decay = optimizer.get<double>("weight_decay", 0),
                     .nesterov = optimizer.get<bool>("nesterov", false)};
}

// Elements of each parameter: of two linear layers with biases where `dims` says them, else all as one parameter.
std::vector<std::int64_t> elements_in(const Arguments& arguments, std::size_t all) {
  if (all == 0) arguments.refuse("ranks[0].init_params is empty; there is at least one parameter");
  const auto dims = arguments.find<std::vector<std::int64_t>>("dims");
  if (!dims) return {static_cast<std::int64_t>(all)};
  if (dims->size() != 3 || std::ranges::any_of(*dims, [](std::int64_t one) { return one < 1 || one > 1 << 20; }))
    arguments.refuse("dims has the three widths of two layers, each from 1 to 2^20");
  const auto& d = *dims;
  return {d[0] * d[1], d[1], d[1] * d[2], d[2]};
}

std::vector<std::vector<double>> rates_in(const Arguments& arguments, double rate, std::size_t steps, Trace& trace) {
  std::vector<std::vector<double>> rates(std::max<std::size_t>(1, steps), {rate});
  const auto by_step = arguments.find<std::vector<double>>("lrs");
  if (by_step && by_step->size() < steps)
    arguments.refuse(fmt::format("lrs has {} rates for {} steps", by_step->size(), steps));
  for (std::size_t i = 0; by_step && i < steps; ++i) rates[i] = {(*by_step)[i]};
  if (const auto groups = arguments.find<Arguments>("groups")) {
    if (by_step) arguments.refuse("lrs and groups are both there; groups have learning rates of their own, groups.lrs");
    const auto of_groups = groups->get<std::vector<double>>("lrs");
    trace.split =
        static_cast<std::size_t>(groups->integer_in("split", 1, static_cast<std::int64_t>(trace.elements.size()) - 1));
    if (of_groups.size() != 2) groups->refuse("groups.lrs has two rates");
    for (auto& step : rates) step = of_groups;
  }
  return rates;
}

// Parameters without a gradient: what is given for their elements is 0.
void read_unused(const Arguments& rank, const std::vector<std::int64_t>& elements, TraceGradients& given) {
  for (const std::int64_t parameter : rank.get<std::vector<std::int64_t>>("unused", {})) {
    if (!given.is_local) rank.refuse("unused needs grads_local: gradients that are averaged have no parameters unused");
    if (parameter < 0 || static_cast<std::size_t>(parameter) >= elements.size())
      rank.refuse(fmt::format("unused names parameter {} of {}", parameter, elements.size()));
    const auto at = static_cast<std::size_t>(parameter);
    const auto first = static_cast<std::size_t>(std::accumulate(elements.begin(), elements.begin() + parameter, 0LL));
    for (std::size_t i = first; i < std::min(given.values.size(), first + static_cast<std::size_t>(elements[at])); ++i)
      if (given.values[i] != 0)
        rank.refuse(fmt::format("grads_local[{}] is {}; parameter {} is unused, and its gradient is 0", i,
                                given.values[i], parameter));
    given.unused.insert(at);
  }
}

TraceGradients gradients_in(const Arguments& rank, const std::vector<std::int64_t>& elements) {
  const bool is_local = rank.has("grads_local");
  TraceGradients given{.values = rank.get<std::vector<double>>(is_local ? "grads_local" : "grads"),
                       .is_local = is_local,
                       .buffer_before = rank.get<std::vector<double>>("buffer_before", {}),
                       .unused = {}};
  read_unused(rank, elements, given);
  return given;
}

Trace trace_in(const Arguments& arguments) {
  const auto world = static_cast<int>(arguments.integer_in("world_size", 1, kMostRanks));
  Trace trace{.options = options_in(arguments, world)};
  for (const Arguments& rank : arguments.get<std::vector<Arguments>>("ranks"))
    trace.initial.push_back(rank.get<std::vector<double>>("init_params"));
  if (trace.initial.size() != static_cast<std::size_t>(world))
    arguments.refuse(fmt::format("ranks has {} entries; world_size is {}", trace.initial.size(), world));
  using MastersAs = Trace::MastersAs;
  const bool is_half = arguments.has("fp16");
  trace.master_weights = arguments.choice<MastersAs>(
      "fp16", {{"flat", MastersAs::flat}, {"list", MastersAs::list}, {"none", MastersAs::none}}, MastersAs::none);
  trace.elements = elements_in(arguments, trace.initial.front().size());
  for (const auto& step : arguments.get<std::vector<std::vector<Arguments>>>("steps")) {
    trace.gradients.emplace_back();
    for (const Arguments& rank : step) trace.gradients.back().push_back(gradients_in(rank, trace.elements));
  }
  trace.blocking_wait = arguments.find<std::string>("blocking_wait");
  trace.dtypes.assign(trace.elements.size(), is_half ? comm::DType::f16 : comm::DType::f32);
  if (arguments.get<bool>("double_tail", false)) {
    if (trace.elements.size() != 4) arguments.refuse("dims is missing: double_tail needs the parameters' sizes");
    trace.dtypes[2] = trace.dtypes[3] = comm::DType::f64;
  }
  const auto optimizer = arguments.get<Arguments>("optimizer");
  trace.optimizer = rule_in(optimizer);
  trace.rates = rates_in(arguments, optimizer.get<double>("lr"), trace.gradients.size(), trace);
  trace.begins_first = arguments.get<bool>("init_first", false);
  trace.resume_at = arguments.find<std::int64_t>("resume_at");
  trace.saves_in_evaluation = arguments.get<bool>("resume_in_evaluation", false);
  if (const auto bad = arguments.find<Arguments>("bad_state")) {
    const bool is_below_zero = bad->has("below_zero");
    trace.bad_state = BadState{is_below_zero, bad->get<std::string>(is_below_zero ? "below_zero" : "lacks")};
    const std::vector<std::string_view> counts{"steps", "gossip_round"},
        entries{"steps", "gossip_round", "ps_weight", "is_numerator", "slow"};
    const auto& known = is_below_zero ? counts : entries;
    if (std::ranges::find(known, trace.bad_state->entry) == known.end())
      bad->refuse(fmt::format("bad_state names '{}'; it is one of {}", trace.bad_state->entry, fmt::join(known, ", ")));
  }
  if (trace.bad_state && !trace.resume_at) arguments.refuse("resume_at is missing: bad_state is loaded there");
  const auto evaluated = arguments.get<std::vector<std::int64_t>>("evaluate_after", {});
  trace.evaluate_after = {evaluated.begin(), evaluated.end()};
  (void)arguments.choice<bool>("arithmetic", {{"separate", true}}, true);  // what it is here
  // What describes the case: starts that differ are given as such, a buffer by its values.
  (void)arguments.get<bool>("same_init", true), (void)arguments.get<bool>("buffer", false);
  return trace;
}

// ---- answers ----

json json_of(const slowmo::StepPlan& plan) {
  return {{"slowmo", plan.slow},
          {"localsgd", plan.local_sgd},
          {"allreduce_params", plan.average},
          {"skip_averaging", plan.skip_averaging},
          {"gossip", plan.gossip}};
}

// Tensors that lie one after the other.
class Store {
 public:
  Store(const std::vector<std::int64_t>& elements, const std::vector<DType>& dtypes) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < elements.size(); ++i)
      bytes += (static_cast<std::size_t>(elements[i]) * comm::size_of(dtypes[i]) + 7) / 8 * 8;
    memory_.resize(bytes);
    std::byte* at = memory_.data();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      views_.push_back({at, elements[i], dtypes[i]});
      at += (views_.back().bytes() + 7) / 8 * 8;
    }
  }
  [[nodiscard]] const std::vector<Buffer>& views() const { return views_; }
  void set(const std::vector<double>& values) const {
    const double* from = values.data();
    for (const Buffer& view : views_) {
      slowmo::copy({from, view.count, DType::f64}, view);
      from += view.count;
    }
  }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> values;
    for (const Buffer& view : views_) {
      std::vector<double> part(static_cast<std::size_t>(view.count));
      slowmo::copy(view, {part.data(), view.count, DType::f64});
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

 private:
  std::vector<std::byte> memory_;
  std::vector<Buffer> views_;
};

std::vector<DType> all_f32(std::size_t count) { return std::vector<DType>(count, DType::f32); }

std::int64_t sum_of(const std::vector<std::int64_t>& elements) {
  std::int64_t sum = 0;
  for (const std::int64_t count : elements) sum += count;
  return sum;
}

class Rank {
 public:
  Rank(const Trace& trace, comm::Communicator& world)
      : trace_(trace),
        world_(world),
        me_(static_cast<std::size_t>(world.rank())),
        parameters_(trace.elements, trace.dtypes),
        gradients_(trace.elements, trace.dtypes),
        flat_master_weights_(flat_elements(trace), all_f32(1)),
        flat_gradients_(flat_elements(trace), all_f32(1)),
        buffer_(trace.gradients.empty() ? 0 : trace.gradients.front()[me_].buffer_before.size()),
        optimizer_(trace.optimizer) {
    parameters_.set(trace.initial[me_]);
    for (const Buffer& parameter :
         trace_.master_weights == Trace::MastersAs::none ? std::vector<Buffer>{} : parameters_.views())
      cut_masters(parameter);
    make();
    if (trace.begins_first) slowmo_->begin_slow_buffers();
  }

  [[nodiscard]] json step(std::size_t at) {
    step_ = at;
    json rejected;
    const bool is_resumed = trace_.resume_at == static_cast<std::int64_t>(at);
    if (is_resumed && trace_.bad_state)
      rejected = load_bad_state();
    else if (is_resumed)
      resume();
    const TraceGradients& given = trace_.gradients[at][me_];
    json row{{"plan", json_of(slowmo_->plan())}};
    if (trace_.bad_state) row["rejected"] = rejected;
    std::ranges::copy(given.buffer_before, buffer_.begin());
    slowmo_->before_forward();
    row["params_in_forward"] = parameters_.values();
    if (!buffer_.empty()) row["buffer_after_forward"] = buffer_;
    gradients_.set(given.values);
    std::vector<Buffer> made;
    for (std::size_t i = 0; i < gradients_.views().size(); ++i)
      if (given.is_local && !given.unused.contains(i)) made.push_back(gradients_.views()[i]);
    slowmo_->after_backward(made);
    optimize();
    row["params_after_optimizer"] = parameters_.values();
    try {
      slowmo_->step();
    } catch (const InvalidArgument& error) {
      row["error"] = {{"kind", error.kind()}, {"message", error.what()}};
      return row;
    }
    if (trace_.evaluate_after.contains(static_cast<std::int64_t>(at))) row["params_in_evaluation"] = evaluate();
    row["params"] = parameters_.values();
    if (has_master_weights()) row["fp32"] = flat_master_weights_.values();
    if (slowmo_->setting().sgp)
      row["ps_weight"] = slowmo_->push_sum_weight(), row["is_numerator"] = slowmo_->is_numerator();
    row["steps_done"] = slowmo_->steps_done(), row["trains"] = slowmo_->is_training();
    row["slow_bytes"] = slowmo_->slow_buffer_bytes();
    if (const auto slow = slowmo_->slow_state())
      row["slow"] = {{"start", slow->range.begin},
                     {"end", slow->range.end},
                     {"old_params", slow->old_parameters},
                     {"momentum", slow->momentum}};
    return row;
  }
  [[nodiscard]] const SlowMo& slowmo() const { return *slowmo_; }

 private:
  static std::vector<std::int64_t> flat_elements(const Trace& trace) {
    return {trace.master_weights == Trace::MastersAs::none ? 0 : sum_of(trace.elements)};
  }
  [[nodiscard]] bool has_master_weights() const { return trace_.master_weights != Trace::MastersAs::none; }
  // The part of the flat masters, and of their gradients, that belongs to a parameter.
  void cut_masters(Buffer parameter) {
    const std::int64_t begin = master_weights_.empty() ? 0 : master_weights_end_;
    master_weights_.push_back(part_of(flat_master_weights_.views()[0], begin, parameter.count));
    master_gradients_.push_back(part_of(flat_gradients_.views()[0], begin, parameter.count));
    master_weights_end_ = begin + parameter.count;
    slowmo::copy(parameter, master_weights_.back());
  }
  void make() {
    slowmo::Tensors tensors{.parameters = parameters_.views()};
    if (!buffer_.empty()) tensors.buffers = {{buffer_.data(), static_cast<std::int64_t>(buffer_.size()), DType::f64}};
    if (trace_.master_weights == Trace::MastersAs::flat) tensors.master_weights = flat_master_weights_.views()[0];
    if (trace_.master_weights == Trace::MastersAs::list) tensors.master_weights = master_weights_;
    slowmo_.reset();
    slowmo_ = std::make_unique<SlowMo>(world_, std::move(tensors), [this] { return groups(); }, trace_.options);
  }
  // In the order of the groups: a second half comes first.
  template <class Tensor>
  [[nodiscard]] std::vector<Tensor> in_group_order(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> ordered(tensors.begin() + static_cast<std::ptrdiff_t>(trace_.split), tensors.end());
    ordered.insert(ordered.end(), tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(trace_.split));
    return ordered;
  }
  [[nodiscard]] std::vector<Buffer> optimized() const {
    if (trace_.master_weights == Trace::MastersAs::flat) return flat_master_weights_.views();
    return in_group_order(has_master_weights() ? master_weights_ : parameters_.views());
  }
  [[nodiscard]] std::vector<slowmo::ParameterGroup> groups() const {
    const std::vector<Buffer> all = optimized();
    const std::vector<double>& rates = trace_.rates[step_];
    if (trace_.split == 0) return {{all, rates[0]}};
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(trace_.elements.size() - trace_.split);
    return {{{all.begin(), first}, rates[0]}, {{first, all.end()}, rates[1]}};
  }
  void optimize() {
    for (std::size_t i = 0; i < master_weights_.size(); ++i) slowmo::copy(gradients_.views()[i], master_gradients_[i]);
    std::vector<Buffer> list;
    if (trace_.master_weights == Trace::MastersAs::flat)
      list = flat_gradients_.views();
    else
      list = in_group_order(has_master_weights() ? master_gradients_ : gradients_.views());
    const std::vector<ConstBuffer> gradients(list.begin(), list.end());
    optimizer_.step(groups(), gradients);
    for (std::size_t i = 0; i < master_weights_.size(); ++i) slowmo::copy(master_weights_[i], parameters_.views()[i]);
  }
  // A forward pass that no backward pass follows.
  [[nodiscard]] std::vector<double> evaluate() {
    slowmo_->evaluate();
    slowmo_->before_forward();
    std::vector<double> seen = parameters_.values();
    slowmo_->train();
    return seen;
  }
  // The run has its own state afterwards, as before. Null: it was not rejected, or this rank saves nothing of it.
  json load_bad_state() {
    slowmo::Checkpoint state = slowmo_->checkpoint();
    const BadState& bad = *trace_.bad_state;
    const slowmo::Checkpoint right = state;
    const auto worsen = [&](auto& entry) {
      using Number = typename std::decay_t<decltype(entry)>::value_type;
      if constexpr (std::is_same_v<Number, std::int64_t>)
        if (bad.is_below_zero && entry) return void(entry = -1);
      if (!bad.is_below_zero) entry.reset();
    };
    if (bad.entry == "steps") worsen(state.steps);
    if (bad.entry == "gossip_round") worsen(state.round);
    if (bad.entry == "ps_weight") worsen(state.push_sum_weight);
    if (bad.entry == "is_numerator") worsen(state.is_numerator);
    if (bad.entry == "slow") worsen(state.slow);
    if (state == right) return nullptr;
    try {
      slowmo_->load(state);
    } catch (const Error& error) {
      return {{"kind", error.kind()}, {"message", error.what()}};
    }
    return "accepted";
  }
  void resume() {
    if (trace_.saves_in_evaluation) {
      slowmo_->evaluate();
      slowmo_->before_forward();
    }
    const slowmo::Checkpoint checkpoint = slowmo_->checkpoint();
    const std::vector<double> parameters = parameters_.values(), master_weights = flat_master_weights_.values();
    make();
    parameters_.set(parameters);
    flat_master_weights_.set(master_weights);
    slowmo_->load(checkpoint);
    if (trace_.saves_in_evaluation) slowmo_->train();
  }

  const Trace& trace_;
  comm::Communicator& world_;
  std::size_t me_;
  Store parameters_, gradients_, flat_master_weights_, flat_gradients_;
  std::vector<Buffer> master_weights_, master_gradients_;  // parts of them, by parameter
  std::int64_t master_weights_end_ = 0;
  std::vector<double> buffer_;
  slowmo::FlatOptimizer optimizer_;
  std::unique_ptr<SlowMo> slowmo_;
  std::size_t step_ = 0;
};

void require_lengths(const Trace& trace) {
  const auto require = [](std::size_t got, std::size_t expected, const char* what) {
    if (got != expected)
      throw InvalidArgument(fmt::format("slowmo trace: {} {}, there must be {}", got, what, expected));
  };
  const auto elements = static_cast<std::size_t>(sum_of(trace.elements));
  require(trace.dtypes.size(), trace.elements.size(), "types of parameters");
  require(trace.rates.size(), std::max<std::size_t>(1, trace.gradients.size()), "steps with learning rates");
  if (trace.split >= std::max<std::size_t>(1, trace.elements.size()))
    throw InvalidArgument(fmt::format("slowmo trace: the second group begins with parameter {} of {}", trace.split,
                                      trace.elements.size()));
  if (trace.split != 0 && trace.master_weights == Trace::MastersAs::flat)
    throw InvalidArgument("slowmo trace: flat master weights are one parameter, which is in one group");
  for (const auto& rates : trace.rates) require(rates.size(), trace.split == 0 ? 1 : 2, "learning rates");
  for (const auto& initial : trace.initial) require(initial.size(), elements, "initial parameters");
  for (const auto& step : trace.gradients) {
    require(step.size(), trace.initial.size(), "ranks in a step");
    for (const TraceGradients& rank : step) {
      require(rank.values.size(), elements, "gradients");
      require(rank.buffer_before.size(), trace.gradients.front().front().buffer_before.size(), "values of a buffer");
    }
  }
}

/// NCCL_BLOCKING_WAIT has this value, as long as it lives; nothing: what it has.
class BlockingWait {
 public:
  explicit BlockingWait(const std::optional<std::string>& value) : is_set_(value.has_value()) {
    if (!is_set_) return;
    if (const char* const there = std::getenv(kName)) before_ = there;
    ::setenv(kName, value->c_str(), 1);
  }
  ~BlockingWait() {
    if (is_set_) before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName);
  }
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

 private:
  static constexpr const char* kName = "NCCL_BLOCKING_WAIT";
  bool is_set_;
  std::optional<std::string> before_;
};

json trace(const Arguments& arguments) {
  const Trace trace = trace_in(arguments);
  arguments.expect_no_others();
  require_lengths(trace);
  const std::size_t ranks = trace.initial.size();
  std::vector<json> steps(trace.gradients.size(), json(ranks, nullptr));
  std::vector<std::size_t> made(ranks, 0);
  json warnings = json::array();
  const BlockingWait environment(trace.blocking_wait);
  comm::run_ranks(static_cast<int>(ranks), [&](comm::Communicator& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    Rank rank(trace, world);
    while (made[me] < steps.size()) {
      json& row = steps[made[me]++][me];
      row = rank.step(made[me] - 1);
      if (row.contains("error")) break;
    }
    if (me == 0)
      for (const slowmo::Warning& warning : rank.slowmo().warnings()) warnings.push_back(warning.message);
    world.barrier();  // nobody leaves while another one still communicates
  });
  steps.resize(*std::ranges::min_element(made));  // the last one is the one that was refused
  return {{"steps", std::move(steps)}, {"warnings", std::move(warnings)}};
}

// ---- averages by a schedule of levels ----

json average(const Arguments& arguments) {
  const auto world = static_cast<int>(arguments.integer_in("world_size", 1, kMostRanks));
  slowmo::AveragingSchedule schedule{.warmup = arguments.get<int>("warmup", 0)};
  for (const Arguments& level : arguments.get<std::vector<Arguments>>("levels"))
    schedule.levels.push_back({.period = level.get<int>("period"), .group_size = level.get<int>("group_size")});
  const auto values = arguments.get<std::vector<std::vector<double>>>("values");
  constexpr std::size_t kMostAnswered = 1 << 20;  // numbers
  const auto calls = static_cast<std::size_t>(arguments.integer_in("calls", 0, kMostAnswered));
  arguments.expect_no_others();
  if (values.size() != static_cast<std::size_t>(world))
    arguments.refuse(fmt::format("values has {} entries; world_size is {}", values.size(), world));
  for (const auto& of_rank : values)
    if (of_rank.size() != values.front().size())
      arguments.refuse(fmt::format("values has lists of {} and {} elements; all ranks must have the same number",
                                   values.front().size(), of_rank.size()));
  if (const std::size_t row = values.size() * std::max<std::size_t>(1, values.front().size());
      calls > kMostAnswered / row)
    arguments.refuse(fmt::format("calls is {}; {} ranks of {} elements may make at most {}", calls, values.size(),
                                 values.front().size(), kMostAnswered / row));
  slowmo::require_schedule(schedule, world);
  json made = json::array();
  for (std::size_t call = 0; call < calls; ++call)
    made.push_back({{"level", nullptr}, {"values", json(values.size(), nullptr)}});
  comm::run_ranks(world, [&](comm::Communicator& group) {
    slowmo::ModelAverager averager(group, schedule);
    const auto me = static_cast<std::size_t>(group.rank());
    for (std::size_t call = 0; call < calls; ++call) {
      std::vector<double> mine = values[me];
      const Buffer tensor{mine.data(), static_cast<std::int64_t>(mine.size()), DType::f64};
      const int level = averager.average(std::span(&tensor, 1));
      if (me == 0 && level >= 0) made[call]["level"] = level;
      made[call]["values"][me] = std::move(mine);
    }
    group.barrier();  // nobody leaves while another one still communicates
  });
  return {{"calls", std::move(made)}};
}

void add_average(AdapterService& service) {
  service.add(
      {"slowmo.average",
       "averages models every few calls, in groups that grow with the period",
       {"plumbline"},
       {{"world_size", "integer", "number of ranks, 1 to 64"},
        {"warmup", "integer [calls]", "calls before the first average; periods count from there", "0"},
        with_fields({"levels", "list of object", "by rising period and group size; the last group is all ranks"},
                    {{"period", "integer [calls]",
                      "calls from one average to the next; of the levels due at a call, the last in the list averages"},
                     {"group_size", "integer", "consecutive ranks that average together"}}),
        {"values", "list of list of number [world_size][elements]",
         "parameters of each rank, the same before each call"},
        {"calls", "integer",
         "number of calls; world_size x elements x calls is at most 2^20, elements being at least 1"}},
       {{"calls",
         "list of object [calls]",
         "the outcome of each call",
         {{"level", "integer or null", "index of the level that averages, or null"},
          {"values", "list of list of number [world_size][elements]", "each rank's parameters afterwards"}}}},
       R"({"world_size": 2, "levels": [{"period": 2, "group_size": 2}], "values": [[1], [3]], "calls": 2})",
       {{"invalid_argument",
         "there are no levels, warmup is negative, periods or group sizes are below 1 or do not rise, a group size "
         "does not divide the next one, the last group is not all ranks, values has another number of ranks than "
         "world_size or lists of several lengths, or world_size or calls is beyond its limits"}}},
      average);
}

}  // namespace

void add_slowmo_operations(AdapterService& service) {
  add_average(service);
  Words graphs{"Hub"};
  for (const gossip::GraphKind kind : gossip::kNamedGraphs) {
    graphs.emplace_back(name_of(kind));
    if (!gossip::fairscale_name_of(kind).empty()) graphs.emplace_back(gossip::fairscale_name_of(kind));
  }
  service.add(
      {"slowmo.trace",
       "steps of data-parallel training that averages parameters: LocalSGD, SGP, with or without slow momentum",
       {"plumbline", "fairscale"},
       {{"world_size", "integer", "number of ranks, 1 to 64"},
        {"nprocs_per_node", "integer", "ranks of a node"},
        {"base", "text", "base algorithm", R"("localsgd")", {"localsgd", "sgp", "none"}},
        {"slowmo_momentum", "number", "momentum of the slow update; 0: none", "0.5"},
        {"slowmo_lr", "number", "learning rate of the slow update", "1.0"},
        {"slowmo_frequency", "integer [steps]", "steps between slow updates", "48"},
        {"memory_efficient", "boolean", "the slow state is sharded over the ranks", "true"},
        {"num_shards", "integer", "shards of the slow state with memory_efficient", "32"},
        {"outer",
         "text",
         "rule of the slow update: slowmo divides differences by the learning rate; bmuf, lookahead (no momentum), "
         "localsgd (neither) and diloco (Nesterov momentum) do not; null: slowmo",
         kOptional,
         {"slowmo", "bmuf", "lookahead", "localsgd", "diloco"},
         {},
         {"slowmo", "bmuf", "lookahead", "localsgd", "diloco"}},
        {"localsgd_frequency", "integer [steps]", "of localsgd: steps between averages", "3"},
        where_named({"localsgd_begin", "integer [steps]", "of localsgd: first steps, each of which averages", "0"}),
        {"broadcast_buffers", "boolean", "buffers of the model are rank 0's", "true"},
        {"graph",
         "text",
         "of sgp: our name, FairScale's or Hub; null: n-peer exponential",
         kOptional,
         graphs,
         {},
         {"Hub"}},
        {"phone_book", "list of list of integer [nodes]", "of sgp: peer list of each node, in place of graph",
         kOptional},
        {"regular", "boolean", "with phone_book: every node has equally many peers", "false"},
        {"peers_per_itr", "integer", "of sgp: peers of a node in a round", "1"},
        {"mixing",
         "text",
         "of sgp: rule of the mixing weights",
         R"("uniform")",
         {"uniform", "skew", "metropolis-hastings"},
         {},
         {"skew"}},
        {"push_sum", "boolean", "of sgp: parameters are exchanged with a push-sum weight", "true"},
        {"sgp_average_params", "boolean", "of sgp: parameters are averaged exactly before a slow update", "false"},
        {"overlap", "boolean", "of sgp: a round overlaps the next step", "false"},
        where_named(
            {"accepts_stale", "boolean", "of overlap: allows it, although updates lack the latest messages", "false"}),
        where_named(
            {"synch_freq", "integer [steps]", "of overlap: steps from a round's messages to their addition", "0"}),
        with_fields({"optimizer", "object", "the optimizer of each rank"},
                    {{"name", "text", "its name", R"("sgd")", {"sgd", "adam"}},
                     {"lr", "number", "learning rate"},
                     {"momentum", "number", "of sgd", "0.0"},
                     {"dampening", "number", "of sgd", "0.0"},
                     {"weight_decay", "number", "L2 penalty", "0.0"},
                     {"nesterov", "boolean", "of sgd", "false"},
                     {"betas", "list of number [2]", "of adam", "[0.9, 0.999]"},
                     {"eps", "number", "of adam", "1e-08"}}),
        {"lrs", "list of number [steps]", "learning rate of each step, in place of the optimizer's", kOptional},
        with_fields({"groups", "object", "two parameter groups of the optimizer", kOptional},
                    {{"split", "integer", "parameters from this one on are the first group"},
                     {"lrs", "list of number [2]", "learning rate of each group"}}),
        {"dims", "list of integer [3]", "widths of two linear layers with biases; null: one parameter", kOptional},
        {"fp16",
         "text",
         "parameters are fp16: how fp32 master weights are kept; null: parameters are fp32",
         kOptional,
         {"flat", "list", "none"}},
        {"double_tail", "boolean", "with dims: the last layer is fp64", "false"},
        {"init_first", "boolean", "the state is created before the first step", "false"},
        {"resume_at", "integer", "step before which the state is saved and loaded; null: none", kOptional},
        where_named({"resume_in_evaluation", "boolean",
                     "of resume_at: the state is saved in evaluation, after a forward pass", "false"}),
        where_named(with_fields(
            {"bad_state", "object",
             "of resume_at: each rank loads its own state with this fault, into the optimizer that runs, and continues",
             kOptional},
            {{"lacks", "text", "it lacks steps, ps_weight, is_numerator, gossip_round or slow", kOptional},
             {"below_zero", "text", "steps or gossip_round is -1, in place of lacks", kOptional}})),
        where_named({"evaluate_after", "list of integer [steps]",
                     "steps, from 0, after which a forward pass is made in evaluation", "[]"}),
        where_named({"blocking_wait", "text",
                     "value of NCCL_BLOCKING_WAIT in the environment of the ranks; null: as it is", kOptional}),
        {"arithmetic",
         "text",
         "separate: every product and every sum is rounded on its own; null: as the kernels round",
         kOptional,
         {"separate"},
         {},
         {"separate"}},
        {"same_init", "boolean", "ignored", "true"},
        {"buffer", "boolean", "ignored", "false"},
        with_fields({"ranks", "list of object [world_size]", "each rank's start"},
                    {{"init_params", "list of number [elements]", "values of all parameters, concatenated"}}),
        with_fields(
            {"steps", "list of list of object [steps][world_size]", "each rank's input to each step"},
            {{"grads", "list of number [elements]", "gradients, averaged over the node; required without grads_local",
              kOptional},
             {"grads_local", "list of number [elements]", "gradients still to be averaged over the node", kOptional},
             {"buffer_before", "list of number", "buffer of the model before the step", kOptional},
             where_named({"unused", "list of integer",
                          "parameters of which the backward pass makes no gradient; it is given as zeros", "[]"})})},
       {{"steps",
         "list of list of object [steps][world_size]",
         "each rank's state after each step",
         {{"plan",
           "object",
           "what the step does",
           {{"slowmo", "boolean", "a slow update"},
            {"localsgd", "boolean", "an average of LocalSGD"},
            {"allreduce_params", "boolean", "an exact average before a slow update"},
            {"skip_averaging", "boolean", "the base algorithm is left out"},
            {"gossip", "boolean", "a round of gossip"}}},
          {"buffer_after_forward", "list of number", "buffer of the model after the forward pass"},
          {"params_in_forward", "list of number", "parameters in the forward pass"},
          {"params_after_optimizer", "list of number", "after the optimizer's step"},
          {"params", "list of number", "after averaging, the slow update and an evaluation"},
          {"params_in_evaluation", "list of number", "in the forward pass of evaluate_after"},
          {"fp32", "any", "fp32 master weights; of fp16"},
          {"ps_weight", "number", "push-sum weight; of sgp"},
          {"is_numerator", "boolean", "params are numerators, to be divided by ps_weight; of sgp"},
          {"steps_done", "integer", "steps that the optimizer counts"},
          {"trains", "boolean", "it is in training"},
          {"slow_bytes", "long integer", "bytes of this rank's slow buffers"},
          {"rejected", "any",
           "of bad_state: kind and message of the error; accepted; or null where this rank's state has no such entry"},
          {"slow",
           "object",
           "slow state of this rank's shard; after a slow update",
           {{"start", "integer", "its first element"},
            {"end", "integer", "its end"},
            {"old_params", "list of number", "parameters of the last slow update"},
            {"momentum", "list of number", "slow momentum buffer"}}},
          {"error", "object", "kind and message of the error that ends the run"}}},
        {"warnings", "list of text", "warnings of rank 0"}},
       R"({"world_size": 2, "nprocs_per_node": 1, "localsgd_frequency": 1, "slowmo_momentum": 0, "optimizer": {"lr": 0.5},
           "ranks": [{"init_params": [1]}, {"init_params": [1]}], "steps": [[{"grads": [2]}, {"grads": [4]}]]})",
       {{"invalid_argument",
         "an option is out of bounds or does not suit the base, or a list has another length than it must have"},
        {"unsupported", "a combination of options that FairScale does not have (convention fairscale)"},
        {"out_of_range", "the graph has fewer peers than a round takes"}}},
      trace);
}

}  // namespace plumbline::adapter
