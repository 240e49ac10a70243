#include "reference/groups/megatron.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/topology/rank_generator.hpp"

namespace plumbline::groups {
namespace {

using topology::GroupList;
using topology::RankGenerator;
using Lists = std::vector<std::vector<int>>;

// What is left of the world for the dense grid's data axis. Throws unless the other axes divide the world.
int data_size(int world_size, const MegatronArguments& arguments) {
  const std::array sizes{arguments.tensor_model_parallel_size, arguments.pipeline_model_parallel_size,
                         arguments.context_parallel_size, arguments.gtp_remat_size};
  std::int64_t product = 1;
  for (const int size : sizes) product = product > world_size ? product : product * size;
  if (world_size % product != 0)
    throw InvalidArgument(
        fmt::format("groups: world_size {} is not divisible by tensor_model_parallel_size {} x "
                    "pipeline_model_parallel_size {} x context_parallel_size {} x gtp_remat_size {}",
                    world_size, sizes[0], sizes[1], sizes[2], sizes[3]));
  return static_cast<int>(world_size / product);
}

RankGenerator dense_generator(int world_size, const MegatronArguments& arguments) {
  const std::map<std::string, int> sizes{{"tp", arguments.tensor_model_parallel_size},
                                         {"pp", arguments.pipeline_model_parallel_size},
                                         {"dp", data_size(world_size, arguments)},
                                         {"cp", arguments.context_parallel_size},
                                         {"gtp_remat", arguments.gtp_remat_size}};
  try {
    RankGenerator dense(sizes, topology::with_weight_axis(arguments.order, "tp"), arguments.rank_offset,
                        topology::OrderRule::megatron);
    (void)dense.groups("tp");  // not there when the order lacks tp: Megatron finds the name in gtp_remat
    return dense;
  } catch (const NotFound& error) {  // the name is part of an argument
    throw InvalidArgument(fmt::format("groups: order '{}': {}", arguments.order, error.what()));
  }
}

RankGenerator expert_generator(const RankGenerator& dense, const MegatronArguments& arguments) {
  return topology::expert_generator(
      dense, arguments.expert_tensor_parallel_size.value_or(arguments.tensor_model_parallel_size),
      arguments.expert_model_parallel_size, arguments.expert_gtp_remat_size,
      topology::with_weight_axis(arguments.order, "ep"));
}

// Collects creations under Megatron's names.
class Builder {
 public:
  Builder(int world_size, int rank_offset) : plan_{.convention = "megatron", .world_size = world_size + rank_offset} {}

  void add(std::string_view mode, std::vector<int> ranks) {
    plan_.creations.push_back({.mode = std::string(mode), .ranks = std::move(ranks)});
  }
  void add_all(std::string_view mode, const GroupList& groups) {
    groups.for_each([&](std::span<const int> ranks) { add(mode, {ranks.begin(), ranks.end()}); });
  }
  // The same group again, for the CPU, where these are wanted.
  void add_with_gloo(const std::string& mode, const std::string& gloo_mode, const std::vector<int>& ranks, bool gloo) {
    add(mode, ranks);
    if (gloo) add(gloo_mode, ranks);
  }
  // Cuts a group by levels: on each, the members that differ in that level's digit alone, the first level's digit
  // fastest.
  void add_hierarchy(const std::string& mode, std::span<const int> ranks, std::span<const int> sizes, bool gloo) {
    std::size_t below = 1;
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      const auto size = static_cast<std::size_t>(sizes[level]);
      for (std::size_t above = 0; above < ranks.size(); above += size * below)
        for (std::size_t low = 0; low < below; ++low) {
          std::vector<int> members;
          for (std::size_t digit = 0; digit < size; ++digit) members.push_back(ranks[above + digit * below + low]);
          add_with_gloo(fmt::format("HIERARCHICAL_{}_L{}", mode, level),
                        fmt::format("HIERARCHICAL_{}_GLOO_L{}", mode, level), members, gloo);
        }
      below *= size;
    }
  }
  Plan take() { return std::move(plan_); }

 private:
  Plan plan_;
};

std::vector<int> part(const std::vector<int>& ranks, std::size_t from, std::size_t count) {
  const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(count, ranks.size() - from))};
}

// Consecutive parts of each power of two from 2 to below the largest that the list holds.
void add_hybrid(Builder& builder, const std::vector<int>& ranks) {
  if (ranks.size() % 2 != 0)
    throw InvalidArgument(fmt::format(
        "groups: hybrid_context_parallel needs an even number of data and context ranks, got {}", ranks.size()));
  for (std::size_t size = 2; 2 * size <= ranks.size(); size *= 2)
    for (std::size_t from = 0; from < ranks.size(); from += size)
      builder.add(fmt::format("HYBRID_DP_CP_GROUP_{}", size), part(ranks, from, size));
}

// One call of initialize_model_parallel: both grids, and the kinds of groups in turn.
class Initialization {
 public:
  Initialization(int world_size, const MegatronArguments& arguments)
      : arguments_(arguments),
        dense_(dense_generator(world_size, arguments)),
        expert_(expert_generator(dense_, arguments)),
        builder_(world_size, arguments.rank_offset) {
    check_instances();
  }

  Plan plan() {
    add_data();
    add_context();
    add_model();
    add_pipelines();
    add_tensor_and_data();
    add_expert_model();
    add_expert_data();
    add_instances();
    return builder_.take();
  }

 private:
  [[nodiscard]] int instances() const { return arguments_.num_distributed_optimizer_instances; }

  void check_instances() const {
    const int domain = dense_.size("dp") * dense_.size("cp");
    if (domain % instances() != 0 || expert_.size("dp") % instances() != 0)
      throw InvalidArgument(
          fmt::format("groups: num_distributed_optimizer_instances {} must divide data x context {} and expert data {}",
                      instances(), domain, expert_.size("dp")));
  }

  void add_data() {
    const bool gloo = arguments_.create_gloo_process_groups && arguments_.gtp_remat_size == 1;
    builder_.add_all("GTP_WEIGHT_REMAT_GROUP", dense_.groups("gtp_remat"));
    const Lists with_context = dense_.groups("dp-cp").lists();
    for (const auto& ranks : with_context) {
      builder_.add_with_gloo("DATA_PARALLEL_GROUP_WITH_CP", "DATA_PARALLEL_GROUP_WITH_CP_GLOO", ranks, gloo);
      if (instances() == 1) continue;
      const std::size_t size = ranks.size() / static_cast<std::size_t>(instances());
      for (std::size_t from = 0; from < ranks.size(); from += size)
        builder_.add_with_gloo("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
                               "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO", part(ranks, from, size), gloo);
    }
    if (arguments_.hybrid_context_parallel)
      for (const auto& ranks : with_context) add_hybrid(builder_, ranks);
    for (const auto& ranks : dense_.groups("dp").lists())
      builder_.add_with_gloo("DATA_PARALLEL_GROUP", "DATA_PARALLEL_GROUP_GLOO", ranks, gloo);
    if (arguments_.gtp_remat_size == 1) return;
    builder_.add_all("DATA_PARALLEL_GROUP_WITH_GTP_REMAT", dense_.groups("gtp_remat-dp"));
    builder_.add_all("DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT", dense_.groups("gtp_remat-dp-cp"));
  }

  void add_context() {
    for (const auto& ranks : dense_.groups("cp").lists()) {
      builder_.add("CONTEXT_PARALLEL_GROUP", ranks);
      builder_.add_hierarchy("CONTEXT_PARALLEL_GROUP", ranks, arguments_.hierarchical_context_parallel_sizes, false);
    }
  }

  void add_model() {
    builder_.add_all("MODEL_PARALLEL_GROUP", dense_.groups("tp-gtp_remat-pp"));
    builder_.add_all("TENSOR_MODEL_PARALLEL_GROUP", dense_.groups("tp"));
  }

  void add_pipelines() {
    for (const auto& ranks : dense_.groups("pp").lists()) {
      builder_.add("PIPELINE_MODEL_PARALLEL_GROUP", ranks);
      builder_.add("EMBEDDING_GROUP", ranks.size() == 1 ? ranks : std::vector<int>{ranks.front(), ranks.back()});
      builder_.add("POSITION_EMBEDDING_GROUP", {ranks.front()});
    }
  }

  void add_tensor_and_data() {
    builder_.add_all("TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", dense_.groups("tp-gtp_remat-dp-cp"));
    builder_.add_all("TENSOR_AND_DATA_PARALLEL_GROUP", dense_.groups("tp-gtp_remat-dp"));
    builder_.add_all("TENSOR_AND_CONTEXT_PARALLEL_GROUP", dense_.groups("tp-cp"));
  }

  void add_expert_model() {
    builder_.add_all("EXPERT_GTP_WEIGHT_REMAT_GROUP", expert_.groups("gtp_remat"));
    builder_.add_all("EXPERT_MODEL_PARALLEL_GROUP", expert_.groups("ep"));
    builder_.add_all("EXPERT_TENSOR_PARALLEL_GROUP", expert_.groups("tp"));
    builder_.add_all("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", expert_.groups("tp-ep"));
    builder_.add_all("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", expert_.groups("tp-ep-pp"));
    builder_.add_all("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", expert_.groups("tp-ep-gtp_remat-pp"));
  }

  void add_expert_data() {
    const bool gloo = arguments_.create_gloo_process_groups && arguments_.gtp_remat_size == 1 &&
                      arguments_.expert_gtp_remat_size == 1;
    const std::array levels{expert_.size("dp") / instances(), instances()};
    for (const auto& ranks : expert_.groups("dp").lists()) {
      builder_.add_with_gloo("EXPERT_DATA_PARALLEL_GROUP", "EXPERT_DATA_PARALLEL_GROUP_GLOO", ranks, gloo);
      if (instances() > 1) builder_.add_hierarchy("EXPERT_DATA_PARALLEL_GROUP", ranks, levels, gloo);
    }
    if (arguments_.expert_gtp_remat_size > 1)
      builder_.add_all("EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT", expert_.groups("gtp_remat-dp"));
  }

  // The experts' model groups, strung together in their order until an optimizer instance is full. With a weight axis:
  // the whole world, ascending.
  void add_instances() {
    const std::string mode = "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP";
    const bool weights = arguments_.gtp_remat_size > 1 || arguments_.expert_gtp_remat_size > 1;
    const Lists models = expert_.groups("tp-ep-pp").lists();
    const std::size_t count = weights ? models.size() : static_cast<std::size_t>(expert_.size("dp") / instances());
    std::vector<int> ranks;
    for (std::size_t i = 0; i < models.size(); ++i) {
      ranks.insert(ranks.end(), models[i].begin(), models[i].end());
      if ((i + 1) % count != 0) continue;
      if (weights) std::ranges::sort(ranks);
      builder_.add(mode, std::exchange(ranks, {}));
    }
  }

  const MegatronArguments& arguments_;
  RankGenerator dense_;
  RankGenerator expert_;
  Builder builder_;
};

void check_at_least_one(std::string_view name, std::optional<int> value) {
  if (value && *value < 1) throw InvalidArgument(fmt::format("groups: {} must be 1 or more, got {}", name, *value));
}

void check_hierarchy(const MegatronArguments& arguments) {
  const std::vector<int>& sizes = arguments.hierarchical_context_parallel_sizes;
  std::int64_t product = 1;
  for (const int size : sizes) {
    check_at_least_one("a size of hierarchical_context_parallel_sizes", size);
    product = std::min<std::int64_t>(product * size, std::numeric_limits<int>::max());
  }
  if (!sizes.empty() && product != arguments.context_parallel_size)
    throw InvalidArgument(
        fmt::format("groups: hierarchical_context_parallel_sizes {} do not multiply to "
                    "context_parallel_size {}",
                    fmt::join(sizes, " x "), arguments.context_parallel_size));
}

void check(int world_size, const MegatronArguments& arguments) {
  check_at_least_one("world_size", world_size);
  check_at_least_one("tensor_model_parallel_size", arguments.tensor_model_parallel_size);
  check_at_least_one("pipeline_model_parallel_size", arguments.pipeline_model_parallel_size);
  check_at_least_one("virtual_pipeline_model_parallel_size", arguments.virtual_pipeline_model_parallel_size);
  check_at_least_one("context_parallel_size", arguments.context_parallel_size);
  check_at_least_one("expert_model_parallel_size", arguments.expert_model_parallel_size);
  check_at_least_one("expert_tensor_parallel_size", arguments.expert_tensor_parallel_size);
  check_at_least_one("gtp_remat_size", arguments.gtp_remat_size);
  check_at_least_one("expert_gtp_remat_size", arguments.expert_gtp_remat_size);
  check_at_least_one("num_distributed_optimizer_instances", arguments.num_distributed_optimizer_instances);
  if (arguments.rank_offset < 0 || arguments.rank_offset > std::numeric_limits<int>::max() - world_size)
    throw InvalidArgument(fmt::format("groups: rank_offset {} with world_size {} has ranks that no int holds",
                                      arguments.rank_offset, world_size));
  check_hierarchy(arguments);
  if (arguments.virtual_pipeline_model_parallel_size && arguments.pipeline_model_parallel_size == 1)
    throw InvalidArgument(
        fmt::format("groups: virtual_pipeline_model_parallel_size {} needs a pipeline_model_parallel_size above 1",
                    *arguments.virtual_pipeline_model_parallel_size));
  if ((arguments.gtp_remat_size > 1 || arguments.expert_gtp_remat_size > 1) &&
      arguments.num_distributed_optimizer_instances > 1)
    throw InvalidArgument(fmt::format(
        "groups: gtp_remat_size {} and expert_gtp_remat_size {} need num_distributed_optimizer_instances 1, got {}",
        arguments.gtp_remat_size, arguments.expert_gtp_remat_size, arguments.num_distributed_optimizer_instances));
}

// Where a rank stands in its group of a kind.
struct Place {
  const std::vector<int>* ranks = nullptr;  // nothing: in none
  int local_rank = 0;
  [[nodiscard]] int size() const { return static_cast<int>(ranks->size()); }
  [[nodiscard]] int first() const { return ranks->front(); }
  [[nodiscard]] int at(int distance) const {
    return (*ranks)[static_cast<std::size_t>((local_rank + distance + size()) % size())];
  }
};

// Every rank's last group of a mode; all in none where the plan has no such mode.
std::vector<Place> places_in(const Plan& plan, std::string_view mode) {
  std::vector<Place> places(static_cast<std::size_t>(plan.world_size));
  for (const Creation& creation : plan.creations) {
    if (creation.mode != mode) continue;
    for (std::size_t i = 0; i < creation.ranks.size(); ++i)
      places.at(static_cast<std::size_t>(creation.ranks[i])) = {.ranks = &creation.ranks,
                                                                .local_rank = static_cast<int>(i)};
  }
  return places;
}

bool has_mode(const Plan& plan, std::string_view mode) {
  return std::ranges::find(plan.creations, mode, &Creation::mode) != plan.creations.end();
}

// Where each rank stands in its groups of the kinds that Megatron's getters tell of.
struct Places {
  std::vector<Place> tensor, pipeline, data, data_and_weights, context, model, expert, expert_tensor, embedding,
      position_embedding;
};

Places places_in(const Plan& plan) {
  const auto places = [&plan](std::string_view mode) {
    if (!has_mode(plan, mode)) (void)groups_of(plan, mode);  // throws, naming the known modes
    return places_in(plan, mode);
  };
  const bool weights = has_mode(plan, "DATA_PARALLEL_GROUP_WITH_GTP_REMAT");
  return {.tensor = places("TENSOR_MODEL_PARALLEL_GROUP"),
          .pipeline = places("PIPELINE_MODEL_PARALLEL_GROUP"),
          .data = places("DATA_PARALLEL_GROUP"),
          .data_and_weights = places(weights ? "DATA_PARALLEL_GROUP_WITH_GTP_REMAT" : "DATA_PARALLEL_GROUP"),
          .context = places("CONTEXT_PARALLEL_GROUP"),
          .model = places("MODEL_PARALLEL_GROUP"),
          .expert = places("EXPERT_MODEL_PARALLEL_GROUP"),
          .expert_tensor = places("EXPERT_TENSOR_PARALLEL_GROUP"),
          .embedding = places("EMBEDDING_GROUP"),
          .position_embedding = places("POSITION_EMBEDDING_GROUP")};
}

MegatronRank rank_at(const Places& places, std::size_t rank) {
  const Place& stage = places.pipeline[rank];
  return {.rank = static_cast<int>(rank),
          .tensor_rank = places.tensor[rank].local_rank,
          .tensor_size = places.tensor[rank].size(),
          .tensor_source = places.tensor[rank].first(),
          .pipeline_rank = stage.local_rank,
          .pipeline_size = stage.size(),
          .pipeline_first = stage.first(),
          .pipeline_last = stage.ranks->back(),
          .pipeline_next = stage.at(+1),
          .pipeline_previous = stage.at(-1),
          .data_rank = places.data_and_weights[rank].local_rank,
          .data_size = places.data_and_weights[rank].size(),
          .data_source = places.data[rank].first(),
          .context_rank = places.context[rank].local_rank,
          .context_size = places.context[rank].size(),
          .model_source = places.model[rank].first(),
          .expert_rank = places.expert[rank].local_rank,
          .expert_size = places.expert[rank].size(),
          .expert_tensor_rank = places.expert_tensor[rank].local_rank,
          .first_stage = stage.local_rank == 0,
          .last_stage = stage.local_rank + 1 == stage.size(),
          .in_embedding_group = places.embedding[rank].ranks != nullptr,
          .in_position_embedding_group = places.position_embedding[rank].ranks != nullptr};
}

}  // namespace

Plan megatron_plan(int world_size, const MegatronArguments& arguments) {
  check(world_size, arguments);
  return Initialization(world_size, arguments).plan();
}

std::vector<MegatronRank> megatron_ranks(const Plan& plan) {
  const Places places = places_in(plan);
  std::vector<MegatronRank> ranks;
  for (std::size_t rank = 0; rank < places.tensor.size(); ++rank)
    if (places.tensor[rank].ranks != nullptr) ranks.push_back(rank_at(places, rank));  // not below the rank offset
  return ranks;
}

}  // namespace plumbline::groups
