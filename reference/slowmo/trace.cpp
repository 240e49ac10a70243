#include "reference/slowmo/trace.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::ConstBuffer;
using comm::DType;

// Tensors that lie one behind the other.
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
      copy({from, view.count, DType::f64}, view);
      from += view.count;
    }
  }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> values;
    for (const Buffer& view : views_) {
      std::vector<double> part(static_cast<std::size_t>(view.count));
      copy(view, {part.data(), view.count, DType::f64});
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
        flat_masters_(flat_elements(trace), all_f32(1)),
        flat_gradients_(flat_elements(trace), all_f32(1)),
        buffer_(trace.gradients.empty() ? 0 : trace.gradients.front()[me_].buffer_before.size()),
        optimizer_(trace.optimizer) {
    parameters_.set(trace.initial[me_]);
    for (const Buffer& parameter :
         trace_.masters == Trace::MastersAs::none ? std::vector<Buffer>{} : parameters_.views())
      cut_masters(parameter);
    make();
    if (trace.begins_first) slowmo_->begin_slow_buffers();
  }

  [[nodiscard]] TraceRow step(std::size_t at) {
    step_ = at;
    if (trace_.resume_at == static_cast<std::int64_t>(at)) resume();
    const TraceGradients& given = trace_.gradients[at][me_];
    TraceRow row{.plan = slowmo_->plan()};
    std::ranges::copy(given.buffer_before, buffer_.begin());
    slowmo_->before_forward();
    row.in_forward = parameters_.values();
    row.buffer_after = buffer_;
    gradients_.set(given.values);
    slowmo_->after_backward(given.is_local ? std::span<const Buffer>(gradients_.views()) : std::span<const Buffer>());
    optimize();
    row.after_optimizer = parameters_.values();
    try {
      slowmo_->step();
    } catch (const InvalidArgument& error) {
      row.error = error.what();
      row.error_kind = error.kind();
      return row;
    }
    row.parameters = parameters_.values();
    if (has_masters()) row.masters = flat_masters_.values();
    row.weight = slowmo_->push_sum_weight();
    row.is_numerator = slowmo_->is_numerator();
    row.slow = slowmo_->slow_state();
    return row;
  }
  [[nodiscard]] const SlowMo& slowmo() const { return *slowmo_; }

 private:
  static std::vector<std::int64_t> flat_elements(const Trace& trace) {
    return {trace.masters == Trace::MastersAs::none ? 0 : sum_of(trace.elements)};
  }
  [[nodiscard]] bool has_masters() const { return trace_.masters != Trace::MastersAs::none; }
  // The part of the flat masters, and of their gradients, that belongs to a parameter.
  void cut_masters(Buffer parameter) {
    const std::int64_t begin = masters_.empty() ? 0 : masters_end_;
    masters_.push_back(part_of(flat_masters_.views()[0], begin, parameter.count));
    master_gradients_.push_back(part_of(flat_gradients_.views()[0], begin, parameter.count));
    masters_end_ = begin + parameter.count;
    copy(parameter, masters_.back());
  }
  void make() {
    Tensors tensors{.parameters = parameters_.views()};
    if (!buffer_.empty()) tensors.buffers = {{buffer_.data(), static_cast<std::int64_t>(buffer_.size()), DType::f64}};
    if (trace_.masters == Trace::MastersAs::flat) tensors.masters = flat_masters_.views()[0];
    if (trace_.masters == Trace::MastersAs::list) tensors.masters = masters_;
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
    if (trace_.masters == Trace::MastersAs::flat) return flat_masters_.views();
    return in_group_order(has_masters() ? masters_ : parameters_.views());
  }
  [[nodiscard]] std::vector<ParameterGroup> groups() const {
    const std::vector<Buffer> all = optimized();
    const std::vector<double>& rates = trace_.rates[step_];
    if (trace_.split == 0) return {{all, rates[0]}};
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(trace_.elements.size() - trace_.split);
    return {{{all.begin(), first}, rates[0]}, {{first, all.end()}, rates[1]}};
  }
  void optimize() {
    for (std::size_t i = 0; i < masters_.size(); ++i) copy(gradients_.views()[i], master_gradients_[i]);
    std::vector<Buffer> list;
    if (trace_.masters == Trace::MastersAs::flat)
      list = flat_gradients_.views();
    else
      list = in_group_order(has_masters() ? master_gradients_ : gradients_.views());
    const std::vector<ConstBuffer> gradients(list.begin(), list.end());
    optimizer_.step(groups(), gradients);
    for (std::size_t i = 0; i < masters_.size(); ++i) copy(masters_[i], parameters_.views()[i]);
  }
  void resume() {
    const Checkpoint checkpoint = slowmo_->checkpoint();
    const std::vector<double> parameters = parameters_.values(), masters = flat_masters_.values();
    make();
    parameters_.set(parameters);
    flat_masters_.set(masters);
    slowmo_->load(checkpoint);
  }

  const Trace& trace_;
  comm::Communicator& world_;
  std::size_t me_;
  Store parameters_, gradients_, flat_masters_, flat_gradients_;
  std::vector<Buffer> masters_, master_gradients_;  // parts of them, by parameter
  std::int64_t masters_end_ = 0;
  std::vector<double> buffer_;
  FlatOptimizer optimizer_;
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
  if (trace.split != 0 && trace.masters == Trace::MastersAs::flat)
    throw InvalidArgument("slowmo trace: flat masters are one parameter, which is in one group");
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

}  // namespace

TraceResult run_trace(const Trace& trace) {
  require_lengths(trace);
  const std::size_t ranks = trace.initial.size();
  TraceResult result{.steps = {}, .warnings = std::vector<std::vector<Warning>>(ranks)};
  result.steps.assign(trace.gradients.size(), std::vector<TraceRow>(ranks));
  std::vector<std::size_t> made(ranks, 0);
  comm::run_ranks(static_cast<int>(ranks), [&](comm::Communicator& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    Rank rank(trace, world);
    for (std::size_t step = 0; step < trace.gradients.size(); ++step) {
      result.steps[step][me] = rank.step(step);
      made[me] = step + 1;
      if (!result.steps[step][me].error.empty()) break;
    }
    result.warnings[me] = rank.slowmo().warnings();
    if (me == 0) result.has_weights = rank.slowmo().setting().sgp;
    world.barrier();  // nobody leaves while another one still communicates
  });
  result.steps.resize(made.empty() ? 0 : *std::ranges::min_element(made));
  return result;
}

gossip::Graph hub_graph(int nodes, int peers) {
  std::vector<std::vector<int>> rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({node == 0 ? 1 % nodes : 0, (node + 1) % nodes});
  return gossip::Graph(std::move(rows), peers, gossip::Convention::fairscale, false);
}

}  // namespace plumbline::slowmo
