// The groups of 8 ranks with 2 pipeline stages and 2 tensor ranks, in the order in which Megatron-LM creates them.
#include <cstdio>

#include "reference/groups/conventions.hpp"
#include "reference/groups/plan.hpp"

using namespace plumbline;

int main() {
  const groups::Plan plan = groups::convention_plan("megatron", {.pipeline = 2, .data = 2, .tensor = 2});
  groups::validate(plan);
  for (const groups::Creation& made : plan.creations)
    std::printf("%s %s\n", made.mode.c_str(), groups::shown(made.ranks).c_str());
  const std::vector<std::vector<groups::Membership>> memberships = groups::memberships_of(plan);
  for (const groups::Membership& of : memberships[5])
    std::printf("rank 5 is %d of %d in a group of mode %s\n", of.local_rank, of.size, of.mode.c_str());
}
