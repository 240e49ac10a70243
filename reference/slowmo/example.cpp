// LocalSGD with slow momentum on 2 ranks: each takes its own steps, and every second step they agree.
#include <cstdio>
#include <vector>

#include "reference/comm/local.hpp"
#include "reference/slowmo/slowmo.hpp"

using namespace plumbline;

int main() {
  comm::run_ranks(2, [](comm::Communicator& world) {
    std::vector<float> weights{1, 2};
    const auto parameters = comm::Buffer::of(weights);
    const auto optimizer = [&] {
      return std::vector{slowmo::ParameterGroup{.parameters = {parameters}, .learning_rate = 0.1}};
    };
    slowmo::SlowMo slowmo(world, {.parameters = {parameters}}, optimizer,
                          {.slow_frequency = 2, .local_sgd_frequency = 2});
    for (int step = 0; step < 4; ++step) {
      for (float& weight : weights) weight -= 0.1F * static_cast<float>(1 + world.rank());  // its own gradient
      slowmo.step();
      if (world.rank() == 0) std::printf("step %d: rank 0 has %.4f %.4f\n", step, weights[0], weights[1]);
    }
  });
}
