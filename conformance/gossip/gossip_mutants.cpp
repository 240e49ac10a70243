// Push-sum over devices whose kernels are wrong in one known way.
#include "conformance/gossip/gossip_mutants.hpp"

#include "harness/mutants/wrong_kernels.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::mutants {

std::vector<Mutant> gossip_mutants() {
  const auto rounds = [](const char* kind, int world) {
    return std::string("gossip.device.rounds[graph=ring,kind=") + kind + ",types=f32,world=" + std::to_string(world) +
           "]";
  };
  return {
      {"gos.device_sums_whole", "GOSSIP-180", "lazy sums on a device are not multiplied by the share", "GOS-01",
       rounds("uniform", 3), rounds("skewed", 3), "values are scaled before they are sent",
       changing<gossip::MixWork>([](gossip::MixWork& work) { work.step.scales = false; })},
      racing({"gos.device_default_stream", "GOSSIP-181", "sums are put into the device's default stream",
              "a stream that was not handed on", rounds("uniform", 2), rounds("uniform", 1), "alone, nothing is added",
              launching_by_default()}),
      {"gos.device_host_waits", "GOSSIP-181", "the host waits for each sum", "a stream is synchronized",
       "gossip.device.host_goes_on[how=mix,world=2]", rounds("uniform", 2), "nobody looks at what the host does",
       waiting_for_kernels()},
  };
}

}  // namespace plumbline::mutants
