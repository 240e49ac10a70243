#include "conformance/scaler/oracles/injection.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::scaler {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using comm::Float16;

namespace {

constexpr std::int64_t kElements = 4;

struct Place {
  int column, stage, replica;
};
Place place_of(const InjectionWorld& world, int rank) {
  return {rank % world.tensor, rank / world.tensor % world.pipeline, rank / (world.tensor * world.pipeline)};
}
bool has_tied(const InjectionWorld& world, int rank) {
  const int stage = place_of(world, rank).stage;
  return world.pipeline > 1 && (stage == 0 || stage + 1 == world.pipeline);
}

// First and last stage of each column and replica.
RankLists tied_lists(const InjectionWorld& world) {
  RankLists lists;
  if (world.pipeline == 1) return lists;
  const int last = (world.pipeline - 1) * world.tensor;
  for (int rank = 0; rank < world.size(); ++rank)
    if (place_of(world, rank).stage == 0) lists.push_back({rank, rank + last});
  return lists;
}

using Halves = std::vector<Float16>;
Buffer buffer_of(Halves& halves) { return {halves.data(), static_cast<std::int64_t>(halves.size()), DType::f16}; }

// One rank through an injection's two steps.
class Rank {
 public:
  Rank(const InjectionGroups& groups, const Injection& injection)
      : groups_(groups),
        injection_(injection),
        place_(place_of(groups.sizes, groups.rank)),
        is_hit_(groups.rank == injection.rank) {
    parameters_.push_back(numbers(place_.column, place_.stage, 1));
    if (has_tied(groups.sizes, groups.rank)) parameters_.push_back(numbers(place_.column, 0, 1));
  }

  InjectedRank run() {
    Fp16Optimizer optimizer(model(), inner(), options(), groups_.of_optimizer);
    const auto before = optimizer.state().master_weights;
    InjectedRank said;
    said.skipped = !optimizer.step(gradients(optimizer.scale(), true)).stepped;
    said.touched = optimizer.state().master_weights != before;
    said.scale = optimizer.scale();
    said.skipped_next = !optimizer.step(gradients(optimizer.scale(), false)).stepped;
    for (const auto& master : optimizer.state().master_weights)
      said.master_weights.insert(said.master_weights.end(), master.begin(), master.end());
    return said;
  }

 private:
  // Numbers that f16 and every sum of replicas have exactly.
  static Halves numbers(int column, int stage, double by) {
    Halves all;
    for (int i = 0; i < kElements; ++i)
      all.push_back(comm::to_float16(static_cast<float>((column + 2 * stage + i % 3 - 1) * by / 8)));
    return all;
  }
  std::vector<ModelParameter> model() {
    std::vector<ModelParameter> list{{.name = "part", .values = buffer_of(parameters_[0])}};
    if (parameters_.size() > 1)
      list.push_back({.name = "tied", .values = buffer_of(parameters_[1]), .tied_copy = place_.stage > 0});
    return list;
  }
  [[nodiscard]] Fp16Options options() {
    return {.scale = HysteresisScale{.rule = {.initial_scale = kInjectionScale, .hysteresis = 1}},
            .deciding = injection_.deciding,
            .reduce = [this](std::span<const Buffer>) { reduce(); }};
  }
  [[nodiscard]] InnerOptimizer inner() {
    InnerOptimizer rule = sgd({.lr = 0.125, .momentum = 0.5});
    if (injection_.moment != Moment::never_reduced) return rule;
    // The sums are there by then, and nobody has looked at them.
    rule.step = [this, step = rule.step](std::span<const Master> master_weights) {
      for (std::size_t i = 0; i < master_weights.size(); ++i)
        std::ranges::transform(sums_[i], master_weights[i].gradient.begin(),
                               [this](Float16 sum) { return comm::to_float(sum) / scale_; });
      step(master_weights);
    };
    return rule;
  }
  // Of scaled losses, which differ by replica.
  std::vector<Buffer> gradients(double scale, bool is_injected) {
    is_injected_ = is_injected && is_hit_;
    scale_ = static_cast<float>(scale);
    gradients_.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      gradients_.push_back(numbers(place_.column, place_.replica + static_cast<int>(i), scale / 64));
    if (injection_.moment != Moment::after_reduction) write(injection_.moment == Moment::in_tied_module ? 1 : 0);
    std::vector<Buffer> list;
    for (Halves& gradient : gradients_) list.push_back(buffer_of(gradient));
    return list;
  }
  void write(std::size_t gradient) {
    if (is_injected_) gradients_[gradient].back() = comm::to_float16(static_cast<float>(injection_.value));
  }
  void reduce() {
    const auto add_up = [](Communicator* group, Halves& gradient) {
      if (group != nullptr && group->size() > 1)
        group->all_reduce(buffer_of(gradient), buffer_of(gradient), comm::ReduceOp::sum);
    };
    sums_ = gradients_;
    std::vector<Halves>& reduced = injection_.moment == Moment::never_reduced ? sums_ : gradients_;
    for (Halves& gradient : reduced) add_up(groups_.of_optimizer.data, gradient);
    if (reduced.size() > 1) add_up(groups_.tied, reduced[1]);
    if (injection_.moment == Moment::after_reduction) write(0);
  }

  const InjectionGroups& groups_;
  Injection injection_;
  Place place_;
  bool is_hit_, is_injected_ = false;
  float scale_ = 1;
  std::vector<Halves> parameters_, gradients_, sums_;
};

bool is_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// NaN is never equal: then replicas count as different.
bool has_equal_replicas(const InjectionWorld& world, const std::vector<InjectedRank>& said) {
  const std::size_t of_replica = static_cast<std::size_t>(world.tensor * world.pipeline);
  for (std::size_t rank = of_replica; rank < said.size(); ++rank)
    if (said[rank].master_weights != said[rank % of_replica].master_weights) return false;
  return true;
}

InjectionOutcome outcome_of(const InjectionWorld& world, const Injection& injection,
                            const std::vector<InjectedRank>& said) {
  InjectionOutcome outcome{.injection = injection,
                           .skipped = {},
                           .scales = {},
                           .touched = {},
                           .not_finite = {},
                           .not_clean = {},
                           .has_equal_replicas = has_equal_replicas(world, said)};
  for (int rank = 0; rank < world.size(); ++rank) {
    const InjectedRank& one = said[static_cast<std::size_t>(rank)];
    if (one.skipped) outcome.skipped.push_back(rank);
    if (one.touched) outcome.touched.push_back(rank);
    if (!is_finite(one.master_weights)) outcome.not_finite.push_back(rank);
    if (one.skipped_next) outcome.not_clean.push_back(rank);
    outcome.scales.push_back(one.scale);
  }
  return outcome;
}

void check_injection(const InjectionWorld& world, const Injection& injection) {
  if (injection.rank < 0 || injection.rank >= world.size())
    throw InvalidArgument(fmt::format("an injection on rank {}; there are {} ranks", injection.rank, world.size()));
  if (injection.moment == Moment::in_tied_module && !has_tied(world, injection.rank))
    throw InvalidArgument(fmt::format("an injection in the tied module of rank {}, which has none", injection.rank));
  if (std::isfinite(injection.value))
    throw InvalidArgument(fmt::format("the injected value is {}; it must be an infinity or NaN", injection.value));
}

}  // namespace

InjectionGroups::InjectionGroups(Communicator& world, const InjectionWorld& sizes) : sizes(sizes), rank(world.rank()) {
  const ModelGroups lists = model_groups(sizes.tensor, sizes.pipeline, sizes.data);
  if (sizes.size() != world.size())
    throw InvalidArgument(fmt::format("{} tensor x {} pipeline x {} data ranks are not the {} of the world",
                                      sizes.tensor, sizes.pipeline, sizes.data, world.size()));
  of_optimizer = {.tensor = mine(world, lists.tensor),
                  .pipeline = mine(world, lists.pipeline),
                  .model = mine(world, lists.model),
                  .data = mine(world, lists.data)};
  tied = mine(world, tied_lists(sizes));
}

Communicator* InjectionGroups::mine(Communicator& world, const RankLists& lists) {
  for (const std::vector<int>& ranks : lists)
    if (std::ranges::find(ranks, world.rank()) != ranks.end())
      return made_.emplace_back(world.create_group(ranks)).get();
  return nullptr;
}

InjectedRank inject_on_rank(const InjectionGroups& groups, const Injection& injection) {
  return Rank(groups, injection).run();
}

std::string_view name_of(Deciding deciding) {
  constexpr auto names =
      std::to_array<std::string_view>({"local", "tensor", "tensor_then_pipeline", "model", "model_and_data"});
  return names[static_cast<std::size_t>(deciding)];
}

std::string_view name_of(Moment moment) {
  constexpr std::array<std::string_view, 4> names{"before_reduction", "in_tied_module", "after_reduction",
                                                  "never_reduced"};
  return names[static_cast<std::size_t>(moment)];
}

bool InjectionOutcome::is_right() const {
  return skipped.size() == scales.size() && touched.empty() && not_finite.empty() && not_clean.empty() &&
         has_equal_replicas && std::ranges::adjacent_find(scales, std::ranges::not_equal_to()) == scales.end();
}

std::vector<Injection> injections(const InjectionWorld& world, const std::vector<double>& values) {
  std::vector<Injection> all;
  for (const Moment moment :
       {Moment::before_reduction, Moment::in_tied_module, Moment::after_reduction, Moment::never_reduced})
    for (const Deciding deciding :
         {Deciding::local, Deciding::tensor, Deciding::tensor_then_pipeline, Deciding::model, Deciding::model_and_data})
      for (const double value : values)
        for (int rank = 0; rank < world.size(); ++rank)
          if (moment != Moment::in_tied_module || has_tied(world, rank))
            all.push_back({.moment = moment, .deciding = deciding, .rank = rank, .value = value});
  return all;
}

std::vector<InjectionOutcome> inject(const InjectionWorld& world, const std::vector<Injection>& injections, int most) {
  (void)model_groups(world.tensor, world.pipeline, world.data, most);
  for (const Injection& one : injections) check_injection(world, one);
  std::vector<std::vector<InjectedRank>> said(injections.size(),
                                              std::vector<InjectedRank>(static_cast<std::size_t>(world.size())));
  comm::run_ranks(world.size(),
                  [&](Communicator& ranks) {
                    const InjectionGroups groups(ranks, world);
                    for (std::size_t i = 0; i < injections.size(); ++i)
                      said[i][static_cast<std::size_t>(ranks.rank())] = inject_on_rank(groups, injections[i]);
                  },
                  {.timeout = std::chrono::minutes(2)});
  std::vector<InjectionOutcome> outcomes;
  for (std::size_t i = 0; i < injections.size(); ++i) outcomes.push_back(outcome_of(world, injections[i], said[i]));
  return outcomes;
}

}  // namespace plumbline::scaler
