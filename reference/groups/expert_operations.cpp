// groups.expert_groups: who exchanges tokens, and who reduces the gradients of experts.
#include <algorithm>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/groups/deepspeed.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

json expert_groups(const Arguments& arguments) {
  constexpr int most = 1 << 20;
  groups::ExpertSizes sizes;
  sizes.world = static_cast<int>(arguments.integer_in("world_size", 1, most));
  sizes.tensor = arguments.get<int>("tensor", 1);
  sizes.pipeline = arguments.get<int>("pipeline", 1);
  sizes.expert = arguments.get<int>("expert");
  sizes.data_first = arguments.get<bool>("use_data_before_expert_parallel", false);
  groups::ExpertGroups made = groups::expert_groups(sizes);
  std::ranges::sort(made.expert_parallel);
  std::ranges::sort(made.expert_data_parallel);
  return {{"expert_parallel", made.expert_parallel}, {"expert_data_parallel", made.expert_data_parallel}};
}

}  // namespace

void add_expert_group_operations(AdapterService& service) {
  service.add({"groups.expert_groups",
               "the groups in which tokens go to experts, and those in which gradients of experts are reduced",
               {"plumbline", "deepspeed", "megatron"},
               {{"world_size", "integer", "number of ranks, 1 to 2^20"},
                {"tensor", "integer", "tensor-parallel ranks, which vary fastest", "1"},
                {"pipeline", "integer", "pipeline stages, which vary slowest", "1"},
                {"expert", "integer", "replicas of a stage that hold different experts"},
                {"use_data_before_expert_parallel",
                 "boolean",
                 "replicas next to each other hold the same experts; false: different ones",
                 "false",
                 {},
                 {"plumbline", "deepspeed"}}},
               {{"expert_parallel", "list of list of integer", "groups that hold all experts, sorted"},
                {"expert_data_parallel", "list of list of integer", "groups that hold the same experts, sorted"}},
               R"({"world_size": 8, "tensor": 2, "expert": 2})",
               {{"invalid_argument",
                 "a size is below 1, tensor x pipeline does not divide the world, or expert the replicas left"}}},
              expert_groups);
}

}  // namespace plumbline::adapter
