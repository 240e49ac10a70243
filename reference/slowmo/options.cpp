#include "reference/slowmo/options.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::slowmo {
namespace {

void require(bool is_right, const char* option, auto value, const char* right) {
  if (!is_right) throw InvalidArgument(fmt::format("slowmo: {} is {}; {}", option, value, right));
}

void require_world(const Options& options, int rank, int world) {
  require(options.ranks_per_node >= 1, "ranks_per_node", options.ranks_per_node, "a node has at least one rank");
  if (world % options.ranks_per_node != 0)
    throw InvalidArgument(
        fmt::format("slowmo: {} ranks are no multiple of ranks_per_node, which is {}", world, options.ranks_per_node));
  require(rank >= 0 && rank < world, "rank", rank, "ranks go from 0 to the world's size");
  if (options.rank) require(*options.rank == rank, "rank", *options.rank, "the group has another rank");
  if (options.world_size)
    require(*options.world_size == world, "world_size", *options.world_size, "the group has another size");
}

void require_numbers(const Options& options, const Setting& setting) {
  require(std::isfinite(options.slow_momentum), "slow_momentum", options.slow_momentum, "it is a finite number");
  require(std::isfinite(options.slow_learning_rate), "slow_learning_rate", options.slow_learning_rate,
          "it is a finite number");
  if (setting.slow) {
    require(options.slow_frequency >= 1, "slow_frequency", options.slow_frequency, "it is at least 1 step");
    require(!options.memory_efficient || options.shards >= 1, "shards", options.shards, "there is at least one");
  }
  if (options.base == BaseAlgorithm::local_sgd)
    require(options.local_sgd_frequency >= 1, "local_sgd_frequency", options.local_sgd_frequency,
            "it is at least 1 step");
  require(options.local_sgd_begin >= 0, "local_sgd_begin", options.local_sgd_begin, "it is 0 or more steps");
  const bool is_fairscale = options.convention == Convention::fairscale;
  require(!is_fairscale || options.local_sgd_begin == 0, "local_sgd_begin", options.local_sgd_begin,
          "FairScale has none");
  require(!is_fairscale || !options.outer, "outer", "given", "FairScale has slow momentum alone");
  require(options.synch_freq >= 0, "synch_freq", options.synch_freq, "it is 0 or more steps");
}

void require_overlap(const Options& options) {
  if (!options.overlap) return;
  require(options.convention == Convention::plumbline, "overlap", true, "FairScale rejects it");
  require(options.accepts_stale, "overlap", true,
          "it is off, since updates then come from parameters that lack the peers' latest messages; set "
          "accepts_stale to allow it");
}

}  // namespace

std::string_view name_of(BaseAlgorithm algorithm) {
  constexpr std::array<std::string_view, 3> names{"localsgd", "sgp", "none"};
  return names[static_cast<std::size_t>(algorithm)];
}

BaseAlgorithm parse_base_algorithm(std::string_view name) {
  for (const auto algorithm : {BaseAlgorithm::local_sgd, BaseAlgorithm::sgp, BaseAlgorithm::none})
    if (name_of(algorithm) == name) return algorithm;
  throw InvalidArgument(fmt::format("slowmo: there is no base algorithm '{}'; there are localsgd, sgp and none", name));
}

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases> names{"buffers", "gradients",   "error_before", "gossip",   "average",
                                                        "node",    "error_after", "slow",         "copy_back"};
  return names[static_cast<std::size_t>(phase)];
}

void refuse_blocking_wait(const char* value) {
  if (value != nullptr && std::string_view(value) != "0")
    throw InvalidArgument(
        fmt::format("slowmo: NCCL_BLOCKING_WAIT is {} in the environment; it must be 0 or absent, since "
                    "waits that block one process group keep another one from going on",
                    value));
}

Setting settle(const Options& options, int rank, int world) {
  require_world(options, rank, world);
  Setting setting{
      .rank = rank,
      .world = world,
      .ranks_per_node = options.ranks_per_node,
      .node = rank / options.ranks_per_node,
      .nodes = world / options.ranks_per_node,
      .local_rank = rank % options.ranks_per_node,
      .slow = !(options.outer.value_or(slowmo_rule(options.slow_momentum, options.slow_learning_rate)).is_mean()),
      .local_sgd = options.base == BaseAlgorithm::local_sgd,
      .sgp = options.base == BaseAlgorithm::sgp,
      .outer = options.outer.value_or(slowmo_rule(options.slow_momentum, options.slow_learning_rate)),
      .slow_frequency = options.slow_frequency,
      .local_sgd_frequency = options.local_sgd_frequency,
      .local_sgd_begin = options.local_sgd_begin,
      .memory_efficient = options.memory_efficient,
      .sgp_average_params = options.sgp_average_params,
      .overlap = options.overlap,
      .convention = options.convention,
      .warnings = {}};
  require_numbers(options, setting);
  require_overlap(options);
  // FairScale asks whether there is a group of masters, which nodes of one rank always have.
  const bool alone = setting.nodes == 1 && (options.ranks_per_node > 1 || options.convention == Convention::plumbline);
  if (alone && options.base != BaseAlgorithm::none) {
    setting.local_sgd = setting.sgp = setting.overlap = false;
    if (options.ranks_per_node > 1)
      setting.warnings.push_back({Warning::What::one_node,
                                  "LocalSGD and SGP are off: with one node, the all-reduce inside "
                                  "it averages everything"});
  }
  if (setting.slow && !setting.local_sgd && !setting.sgp && (options.ranks_per_node > 1 || !alone))
    setting.warnings.push_back({Warning::What::no_base, "slow momentum is used without LocalSGD and SGP"});
  if (setting.slow && setting.local_sgd && options.convention == Convention::plumbline &&
      options.slow_frequency % options.local_sgd_frequency != 0)
    setting.warnings.push_back(
        {Warning::What::frequencies,
         fmt::format(
             "slow_frequency is {}, which is no multiple of local_sgd_frequency, {}: slow steps average on steps "
             "of their own",
             options.slow_frequency, options.local_sgd_frequency)});
  setting.shards = options.memory_efficient ? std::min(world, options.shards) : 1;
  setting.owns_shard = !options.memory_efficient || rank < setting.shards;
  return setting;
}

}  // namespace plumbline::slowmo
