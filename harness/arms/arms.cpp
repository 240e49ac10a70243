#include "harness/arms/arms.hpp"

#include "harness/arms/chaos.hpp"
#include "harness/arms/rendezvous.hpp"

namespace plumbline::arms {

std::unique_ptr<comm::Communicator> under(const suite::Arm& arm, std::unique_ptr<comm::Communicator> world,
                                          const std::filesystem::path& folder, std::chrono::nanoseconds limit) {
  const int rank = world->rank();
  switch (arm.kind) {
    case suite::Arm::Kind::rendezvous:
      return hold_sends(std::move(world), folder / "posted", limit);
    case suite::Arm::Kind::chaos:
      return disturb(std::move(world), std::make_shared<Disturbance>(arm.seed, rank));
    default:
      return world;
  }
}

}  // namespace plumbline::arms
