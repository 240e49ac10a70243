// Two gradients are reduced on a stream of their own and read on the default one with no wait between: a race.
#include <cstdio>

#include "reference/program/race_check.hpp"

using namespace plumbline;

int main() {
  program::Program step;
  step.variables["w@GRAD"] = {.shape = {4, 4}};
  step.ops.push_back({.type = "matmul_grad", .outputs = {{"Out", {"w@GRAD"}}}, .role = program::role::backward});
  step.ops.push_back({.type = "c_allreduce_sum",
                      .inputs = {{"X", {"w@GRAD"}}},
                      .outputs = {{"Out", {"w@GRAD"}}},
                      .role = program::role::backward,
                      .ring = 0,
                      .on_calculation_stream = false,
                      .stream = "gradients"});
  step.ops.push_back({.type = "sgd", .inputs = {{"Grad", {"w@GRAD"}}}, .role = program::role::optimize});
  for (const program::Race& race : program::find_races(step))
    std::printf("op %d and op %d: %s\n", race.first, race.second, race.why.c_str());
}
