// 12 ranks as 2 stages x 3 replicas x 2 tensor ranks: where rank 7 sits, and with whom it reduces gradients.
#include <cstdio>
#include <string>
#include <vector>

#include "reference/topology/topology.hpp"

using namespace plumbline;

int main() {
  const std::vector<std::string> axes{"pipe", "data", "tensor"};
  const auto world = topology::Topology::row_major(axes, std::vector{2, 3, 2});
  for (const std::string& axis : axes) std::printf("%s %d\n", axis.c_str(), world.position(7, axis));
  for (const std::vector<int>& group : world.groups("data").lists())
    std::printf("data group %d %d %d\n", group[0], group[1], group[2]);
}
