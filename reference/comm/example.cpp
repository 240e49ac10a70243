// Three ranks average their values: each gives its own, and all get the mean.
#include <cstdio>
#include <vector>

#include "reference/comm/local.hpp"

using namespace plumbline;

int main() {
  comm::run_ranks(3, [](comm::Communicator& world) {
    std::vector<float> values{1.0F + static_cast<float>(world.rank()), 10};
    const comm::Buffer view = comm::Buffer::of(values);
    world.all_reduce(view, view, comm::ReduceOp::avg);
    if (world.rank() == 0) std::printf("mean over %d ranks: %g %g\n", world.size(), values[0], values[1]);
  });
}
