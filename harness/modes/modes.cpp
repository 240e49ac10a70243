#include "harness/modes/modes.hpp"

#include "harness/modes/chaos.hpp"
#include "harness/modes/rendezvous.hpp"

namespace plumbline::modes {

std::unique_ptr<comm::Communicator> under(const suite::ExecutionMode& mode, std::unique_ptr<comm::Communicator> world,
                                          const std::filesystem::path& folder, std::chrono::nanoseconds limit) {
  const int rank = world->rank();
  switch (mode.kind) {
    case suite::ExecutionMode::Kind::rendezvous:
      return hold_sends(std::move(world), folder / "posted", limit);
    case suite::ExecutionMode::Kind::chaos:
      return disturb(std::move(world), std::make_shared<Disturbance>(mode.seed, rank));
    default:
      return world;
  }
}

}  // namespace plumbline::modes
