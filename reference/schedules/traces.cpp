#include "reference/schedules/detail/traces.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/generate_rows.hpp"

namespace plumbline::schedules {
namespace {

using detail::Virtual;

enum class Framework { colossalai, megatron };

// What a rank posts at once: outputs of computations (nothing: none was made), and what is to come.
struct Exchange {
  std::optional<Action> forward;   // whose output is sent to the next rank
  std::optional<Action> backward;  // whose gradient is sent to the rank before
  bool recv_forward = false;
  bool recv_backward = false;
};

// Writes one rank's trace.
class RankTrace {
 public:
  RankTrace(Framework framework, const Shape& shape, int rank, bool with_shapes)
      : framework_(framework),
        shape_(shape),
        rank_(rank),
        with_shapes_(with_shapes),
        shape_sent_(static_cast<std::size_t>(shape.stages_per_rank)),
        shape_received_(static_cast<std::size_t>(shape.stages_per_rank)) {}

  std::vector<std::string> take() { return std::move(cells_); }
  [[nodiscard]] bool first() const { return rank_ == 0; }
  [[nodiscard]] bool last() const { return rank_ == shape_.ranks - 1; }

  Action compute(ActionKind kind, const Virtual& which) {
    const Action action{.kind = kind, .stage = which.chunk * shape_.ranks + rank_, .micro_batch = which.micro_batch};
    cells_.push_back(to_string(action));
    return action;
  }

  // Before the first activation of a chunk, once.
  void send_shape(int chunk) { tell_shape(shape_sent_, chunk, "SEND_META", fmt::format(">{}", next())); }
  void recv_shape(int chunk) { tell_shape(shape_received_, chunk, "RECV_META", fmt::format("<{}", before())); }

  // The model's ends exchange nothing beyond themselves. ColossalAI receives from the next rank before it sends there.
  void exchange(const Exchange& what) {
    const int stages = shape_.ranks * shape_.stages_per_rank;
    std::vector<std::string> batch;
    if (what.backward && what.backward->stage > 0)
      batch.push_back(fmt::format("SEND grad{}.{}>{}", what.backward->stage, what.backward->micro_batch, before()));
    if (what.recv_forward) batch.push_back(fmt::format("RECV act<{}", before()));
    const auto receive = [&] {
      if (what.recv_backward) batch.push_back(fmt::format("RECV grad<{}", next()));
    };
    if (framework_ == Framework::colossalai) receive();
    if (what.forward && what.forward->stage < stages - 1)
      batch.push_back(fmt::format("SEND act{}.{}>{}", what.forward->stage, what.forward->micro_batch, next()));
    if (framework_ == Framework::megatron) receive();
    if (!batch.empty()) cells_.push_back(fmt::format("P2P({})", fmt::join(batch, ";")));
  }

 private:
  [[nodiscard]] int next() const { return (rank_ + 1) % shape_.ranks; }
  [[nodiscard]] int before() const { return (rank_ + shape_.ranks - 1) % shape_.ranks; }

  void tell_shape(std::vector<bool>& told, int chunk, std::string_view name, const std::string& peer) {
    const auto index = static_cast<std::size_t>(chunk);
    if (!with_shapes_ || told[index]) return;
    told[index] = true;
    for (const char* what : {"ndims", "shape"}) cells_.push_back(fmt::format("{} {}{}", name, what, peer));
  }

  Framework framework_;
  Shape shape_;
  int rank_;
  bool with_shapes_;
  std::vector<bool> shape_sent_;      // by chunk
  std::vector<bool> shape_received_;  // by chunk
  std::vector<std::string> cells_;
};

// One stage a rank. Every rank but the first waits for an activation before its forwards, every rank but the last for
// a gradient before its backwards.
void one_f_one_b_rank(RankTrace& trace, const Shape& shape, int rank, bool forward_only) {
  const bool receives = !trace.first(), hears_back = !trace.last();
  const int warmup = std::min(shape.ranks - rank - 1, shape.micro_batches);
  const int steady = shape.micro_batches - warmup;
  const auto wait_for_forward = [&] {
    if (receives) trace.recv_shape(0);
    trace.exchange({.recv_forward = receives});
  };
  const auto forward = [&](int i) { return trace.compute(ActionKind::forward, {.chunk = 0, .micro_batch = i}); };
  const auto backward = [&](int i) { return trace.compute(ActionKind::backward, {.chunk = 0, .micro_batch = i}); };
  for (int i = 0; i < warmup; ++i) {
    wait_for_forward();
    const Action done = forward(i);
    trace.send_shape(0);
    trace.exchange({.forward = done});
  }
  if (steady > 0) wait_for_forward();
  for (int i = 0; i < steady; ++i) {
    const bool more = receives && i + 1 < steady;
    const Action done = forward(warmup + i);
    trace.exchange({.forward = done, .recv_backward = hears_back && !forward_only});
    if (forward_only)
      trace.exchange({.recv_forward = more});
    else
      trace.exchange({.backward = backward(i), .recv_forward = more});
  }
  for (int i = steady; !forward_only && i < shape.micro_batches; ++i) {
    trace.exchange({.recv_backward = true});
    trace.exchange({.backward = backward(i)});
  }
}

// Several stages a rank. Messages of a step are posted together, after its computations.
class InterleavedRank {
 public:
  InterleavedRank(RankTrace& trace, const Shape& shape, int rank, const std::vector<Virtual>& order, int warmup,
                  bool forward_only)
      : trace_(trace),
        shape_(shape),
        rank_(rank),
        order_(order),
        total_(static_cast<int>(order.size())),
        warmup_(warmup),
        forward_only_(forward_only) {}

  void fill() {
    if (!trace_.first()) trace_.recv_shape(0);
    trace_.exchange({.recv_forward = !trace_.first()});
    for (int k = 0; k < warmup_; ++k) warm_up(k);
    for (int k = 0; k < total_ - warmup_; ++k) steady(k);
    if (forward_only_) return;
    if (warmup_ == total_) trace_.exchange({.recv_backward = !trace_.last()});
    for (int k = total_ - warmup_; k < total_; ++k)
      trace_.exchange({.backward = backward(k), .recv_backward = gradient_comes(k)});
  }

 private:
  [[nodiscard]] int last_chunk() const { return shape_.stages_per_rank - 1; }
  [[nodiscard]] int chunk(int k) const { return order_[static_cast<std::size_t>(k)].chunk; }
  Action forward(int k) { return trace_.compute(ActionKind::forward, order_[static_cast<std::size_t>(k)]); }
  Action backward(int k) {
    Virtual which = order_[static_cast<std::size_t>(k)];
    which.chunk = last_chunk() - which.chunk;
    return trace_.compute(ActionKind::backward, which);
  }

  void warm_up(int k) {
    const Action done = forward(k);
    const bool comes = activation_comes(k);
    if (comes) trace_.recv_shape(next_chunk(k));
    if (!trace_.last() || chunk(k) != last_chunk()) trace_.send_shape(chunk(k));
    const bool steady_follows = k == warmup_ - 1 && warmup_ < total_;
    trace_.exchange(
        {.forward = done, .recv_forward = comes, .recv_backward = steady_follows && !trace_.last() && !forward_only_});
  }

  void steady(int k) {
    const Action done = forward(warmup_ + k);
    const Action back = backward(k);
    trace_.exchange({.forward = done,
                     .backward = back,
                     .recv_forward = activation_comes(warmup_ + k),
                     .recv_backward = gradient_comes(k)});
  }

  // After the k-th forward, whether an activation comes for a later one: of the rank before, which is a step ahead,
  // for the next; to the first rank from the last, p-1 steps later, unless that one was in its last chunk.
  [[nodiscard]] bool activation_comes(int k) const { return k + 1 < total_ && (!trace_.first() || from_the_end(k)); }
  // As above after the k-th backward; there the last rank is the earlier one.
  [[nodiscard]] bool gradient_comes(int k) const { return k + 1 < total_ && (!trace_.last() || from_the_end(k)); }
  [[nodiscard]] bool from_the_end(int k) const {
    const int there = k - (shape_.ranks - 1);
    return there >= 0 && chunk(there) != last_chunk();
  }
  // The chunk that the activation is for.
  [[nodiscard]] int next_chunk(int k) const {
    return trace_.first() ? chunk(k - (shape_.ranks - 1)) + 1 : chunk(k + 1);
  }

  RankTrace& trace_;
  Shape shape_;
  int rank_;
  const std::vector<Virtual>& order_;
  int total_;
  int warmup_;
  bool forward_only_;
};

void require_several_ranks(const Shape& shape) {
  if (shape.ranks < 2)
    throw InvalidArgument(fmt::format("trace: several stages a rank need at least 2 ranks, got {}", shape.ranks));
}

struct Interleaving {
  int group = 0;
  bool forwards_first = false;
};

Trace trace_of(Framework framework, const Shape& shape, bool forward_only, bool with_shapes,
               const Interleaving& interleaving) {
  const std::vector<Virtual> order =
      shape.stages_per_rank > 1 ? detail::depth_first_order(shape, interleaving.group) : std::vector<Virtual>{};
  Trace trace;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    RankTrace row(framework, shape, rank, with_shapes);
    if (shape.stages_per_rank == 1) {
      one_f_one_b_rank(row, shape, rank, forward_only);
    } else {
      const int warmup = forward_only || interleaving.forwards_first
                             ? static_cast<int>(order.size())
                             : detail::depth_first_warmup(shape, interleaving.group, 2, rank);
      InterleavedRank(row, shape, rank, order, warmup, forward_only).fill();
    }
    trace.push_back(row.take());
  }
  return trace;
}

}  // namespace

Trace colossalai_trace(const Shape& shape, bool forward_only, bool tensor_shape_given) {
  detail::require_shape(shape);
  if (shape.stages_per_rank > 1) {
    require_several_ranks(shape);
    detail::require_multiple_of_ranks(shape);
  }
  return trace_of(Framework::colossalai, shape, forward_only, !tensor_shape_given,
                  {.group = shape.ranks, .forwards_first = shape.micro_batches == shape.ranks});
}

Trace megatron_trace(const Shape& shape, bool forward_only, int group) {
  detail::require_shape(shape);
  if (shape.stages_per_rank > 1) {
    require_several_ranks(shape);
    detail::require_groups(shape, group);
  }
  return trace_of(Framework::megatron, shape, forward_only, false, {.group = group});
}

}  // namespace plumbline::schedules
