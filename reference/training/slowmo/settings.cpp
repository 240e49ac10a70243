#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/training/averaging.hpp"

namespace plumbline::training {
namespace {

template <class Names>
void require_name(const char* setting, const std::string& value, const Names& known) {
  if (std::ranges::find(known, value) == known.end())
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", setting, value, fmt::join(known, ", ")));
}

void require_at_least(const char* setting, int value, int least) {
  if (value < least) throw InvalidArgument(fmt::format("{} {}; it must be at least {}", setting, value, least));
}

void require_number(const char* setting, double value) {
  if (!std::isfinite(value)) throw InvalidArgument(fmt::format("{} {}; it must be a finite number", setting, value));
}

// As a checkpoint names them: numbers keep every bit.
std::string words_of(const job::Optimizer& optimizer) {
  if (const auto* sgd = std::get_if<job::Sgd>(&optimizer))
    return fmt::format("sgd(lr={}, momentum={}, nesterov={}, weight_decay={})", sgd->lr, sgd->momentum, sgd->nesterov,
                       sgd->weight_decay);
  const auto& adam = std::get<job::Adam>(optimizer);
  return fmt::format("adam(lr={}, betas={} {}, eps={})", adam.lr, adam.betas[0], adam.betas[1], adam.eps);
}
std::string words_of_layers(const std::vector<job::Parameter>& list) {
  std::string words;
  for (const job::Parameter& parameter : list)
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", parameter.name, job::text_of(parameter.shape));
  return words;
}

slowmo::BaseAlgorithm base_of(const AveragingSettings& settings) {
  using slowmo::BaseAlgorithm;
  if (settings.algorithm == "slowmo") return slowmo::parse_base_algorithm(settings.base);
  if (settings.algorithm == "sgp") return BaseAlgorithm::sgp;
  return settings.algorithm == "diloco" ? BaseAlgorithm::none : BaseAlgorithm::local_sgd;
}

gossip::Graph graph_of(const AveragingSettings& settings, int nodes) {
  const auto kind = gossip::parse_graph_kind(settings.graph);
  if (!kind || *kind == gossip::GraphKind::phone_book) {
    std::vector<std::string_view> names;
    for (const gossip::GraphKind one : gossip::kNamedGraphs) names.push_back(name_of(one));
    throw InvalidArgument(fmt::format("gossip-graph '{}'; it must be {}", settings.graph, fmt::join(names, ", ")));
  }
  try {
    return gossip::Graph(
        {.kind = *kind, .nodes = nodes, .ranks_per_node = settings.ranks_per_node, .peers = settings.peers});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("gossip-graph {}, gossip-peers {}: {}", settings.graph, settings.peers, error.what()));
  }
}

}  // namespace

AveragingSettings settings_of(const job::Averaging& averaging) {
  return {.algorithm = averaging.algorithm,
          .local_sgd_frequency = averaging.period,
          .slow_frequency = averaging.period,
          .slow_momentum = averaging.momentum,
          .slow_learning_rate = averaging.lr,
          .outer_momentum = averaging.momentum,
          .outer_learning_rate = averaging.lr,
          .graph = averaging.graph};
}

void require_possible(const AveragingSettings& settings, int world) {
  require_name("averaging", settings.algorithm, kAveragings);
  require_name("averaging-base", settings.base, kAveragingBases);
  require_at_least("ranks-per-node", settings.ranks_per_node, 1);
  if (world % settings.ranks_per_node != 0)
    throw InvalidArgument(
        fmt::format("ranks-per-node {}; it must divide the {} ranks", settings.ranks_per_node, world));
  require_at_least("localsgd-frequency", settings.local_sgd_frequency, 1);
  require_at_least("localsgd-begin", settings.local_sgd_begin, 0);
  require_at_least("slowmo-frequency", settings.slow_frequency, 1);
  require_at_least("slowmo-shards", settings.shards, 1);
  require_at_least("gossip-peers", settings.peers, 0);
  require_number("slowmo-momentum", settings.slow_momentum);
  require_number("slowmo-lr", settings.slow_learning_rate);
  require_number("slowmo-momentum", settings.outer_momentum);
  require_number("slowmo-lr", settings.outer_learning_rate);
  if (!(settings.rate_decay > 0) || !std::isfinite(settings.rate_decay))
    throw InvalidArgument(fmt::format("lr-decay {}; it must be a number above 0", settings.rate_decay));
  require_at_least("overlap-lag", settings.overlap_lag, 0);
  if (settings.overlap_lag > 0 && !settings.overlap)
    throw InvalidArgument(fmt::format("overlap-lag {}; it needs --overlap", settings.overlap_lag));
  require_at_least("checkpoint-steps", settings.checkpoint_steps, 0);
  const int nodes = world / settings.ranks_per_node;
  if (base_of(settings) == slowmo::BaseAlgorithm::sgp && nodes > 1) (void)graph_of(settings, nodes);
}

void require_averageable(const job::RunSpec& spec) {
  const auto refuse_unless = [](bool possible, const std::string& field, const char* only) {
    if (!possible) throw InvalidArgument(fmt::format("{}: parameters are averaged only {}", field, only));
  };
  refuse_unless(spec.parallel.pipeline == 1, fmt::format("parallel.pipeline = {}", spec.parallel.pipeline),
                "without a pipeline");
  refuse_unless(spec.parallel.tensor == 1, fmt::format("parallel.tensor = {}", spec.parallel.tensor),
                "where each rank has them whole");
  refuse_unless(!spec.clip, "[clip]", "without it");
  refuse_unless(!spec.run.activations, "run.activations = true", "without it");
  refuse_unless(!spec.rate_schedule, "[lr_schedule]", "without it");
  refuse_unless(!spec.checkpoint, "[checkpoint]", "without it");
  refuse_unless(spec.frozen.empty(), "model.frozen", "without it");
  refuse_unless(spec.no_decay.empty(), "optimizer.no_decay", "without it");
  refuse_unless(!spec.row_weights, "loss.row_weights = true", "over rows of one weight");
  refuse_unless(!spec.scaler && spec.injections.empty(), "[scaler] or [[inject]]", "without them");
}

bool lags(const AveragingSettings& settings) {
  return settings.overlap_lag > 0 && base_of(settings) == slowmo::BaseAlgorithm::sgp;
}

double rate_of(const job::RunSpec& spec, const AveragingSettings& settings, int step) {
  const double rate = std::visit([](const auto& rule) { return rule.lr; }, spec.optimizer);
  return rate * std::pow(settings.rate_decay, step);
}

void require_together(const job::RunSpec& spec, const AveragingSettings& settings) {
  for (int step = 0; step < spec.run.steps && settings.rate_decay != 1 && rate_of(spec, settings, 0) != 0; ++step)
    if (const auto rate = static_cast<float>(rate_of(spec, settings, step)); !std::isnormal(rate))
      throw InvalidArgument(fmt::format(
          "lr-decay {}: the learning rate of step {} is {:g}, and float32's are from {:g} to {:g}; a value nearer to "
          "1, or fewer than {} steps",
          settings.rate_decay, step, rate_of(spec, settings, step), std::numeric_limits<float>::min(),
          std::numeric_limits<float>::max(), step + 1));
}

slowmo::Options options_of(const AveragingSettings& settings, int world) {
  require_possible(settings, world);
  const int nodes = world / settings.ranks_per_node;
  slowmo::Options options{.ranks_per_node = settings.ranks_per_node,
                          .base = base_of(settings),
                          .slow_momentum = 0,
                          .slow_frequency = settings.slow_frequency,
                          .memory_efficient = settings.memory_efficient,
                          .shards = settings.shards,
                          .local_sgd_frequency = settings.local_sgd_frequency,
                          .push_sum = settings.push_sum,
                          .sgp_average_params = settings.average_at_slow_steps};
  if (settings.algorithm == "post-localsgd") options.local_sgd_begin = settings.local_sgd_begin;
  if (settings.algorithm == "slowmo") {
    options.slow_momentum = settings.slow_momentum;
    options.slow_learning_rate = settings.slow_learning_rate;
  }
  if (settings.algorithm == "diloco")
    options.outer = slowmo::diloco_rule(settings.outer_learning_rate, settings.outer_momentum);
  if (options.base == slowmo::BaseAlgorithm::sgp && nodes > 1) {
    options.graph = graph_of(settings, nodes);
    options.overlap = options.accepts_stale = settings.overlap;
    options.synch_freq = settings.overlap_lag;
  }
  return options;
}

Configuration configuration_of(const job::RunSpec& spec, const AveragingSettings& settings) {
  return {{"layers", words_of_layers(job::parameters_of(spec))},
          {"optimizer", words_of(spec.optimizer)},
          {"dtype", spec.run.dtype},
          {"seed", fmt::format("{}", spec.seed)},
          {"global_batch", fmt::format("{}", spec.run.global_batch)},
          {"micro_batches", fmt::format("{}", spec.run.micro_batches)},
          {"accumulation", fmt::format("{}", spec.run.accumulation)},
          {"averaging", settings.algorithm},
          {"averaging-base", settings.base},
          {"ranks-per-node", fmt::format("{}", settings.ranks_per_node)},
          {"localsgd-frequency", fmt::format("{}", settings.local_sgd_frequency)},
          {"localsgd-begin", fmt::format("{}", settings.local_sgd_begin)},
          {"slowmo-frequency", fmt::format("{}", settings.slow_frequency)},
          {"slowmo-momentum", fmt::format("{:a}", settings.slow_momentum)},
          {"slowmo-lr", fmt::format("{:a}", settings.slow_learning_rate)},
          {"diloco-momentum", fmt::format("{:a}", settings.outer_momentum)},
          {"diloco-lr", fmt::format("{:a}", settings.outer_learning_rate)},
          {"memory-efficient", fmt::format("{}", settings.memory_efficient)},
          {"slowmo-shards", fmt::format("{}", settings.shards)},
          {"gossip-graph", settings.graph},
          {"gossip-peers", fmt::format("{}", settings.peers)},
          {"push-sum", fmt::format("{}", settings.push_sum)},
          {"average-at-slow-steps", fmt::format("{}", settings.average_at_slow_steps)},
          {"overlap", fmt::format("{}", settings.overlap)},
          {"overlap-lag", fmt::format("{}", settings.overlap_lag)},
          {"checkpoint-steps", fmt::format("{}", settings.checkpoint_steps)},
          {"lr-decay", fmt::format("{:a}", settings.rate_decay)}};
}

}  // namespace plumbline::training
