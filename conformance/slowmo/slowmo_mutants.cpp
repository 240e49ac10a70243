// Mutants of SlowMo that are no edits: of what devices do.
#include "conformance/slowmo/slowmo_mutants.hpp"

#include <memory>
#include <string>
#include <vector>

#include "harness/mutants/wrong_kernels.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::mutants {

namespace {

std::string at_slowmo(const std::string& check, const std::string& parameters, int world) {
  return "slowmo." + check + "[" + parameters + (parameters.empty() ? "" : ",") + "world=" + std::to_string(world) +
         "]";
}

/// Says that a stream is done, whatever it still has to do.
class NeverWaits final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int, device::Stream) override {}
};

}  // namespace

std::vector<Mutant> slowmo_mutants() {
  const auto steps = [](const std::string& run, const char* type, int world = 2) {
    return at_slowmo("device.steps", "run=" + run + ",dtype=" + type, world);
  };
  using SlowWork = slowmo::SlowStepWork<slowmo::SlowStepAsPaper>;
  return {
      {"slo.device_error_sign", "SLOWMO-180",
       "on a device what halves lose is added to their masters before an average", "error feedback sign",
       steps("localsgd", "f16"), steps("localsgd", "f32"), "there are no masters",
       changing<slowmo::SumWork>([](slowmo::SumWork& work) { work.step.subtracts = false; })},
      {"slo.device_forgets_momentum", "SLOWMO-180", "on a device slow momentum begins anew in each slow step",
       "a coefficient that is left out", steps("slowmo-whole", "f32"), steps("localsgd", "f32"), "there is none",
       changing<SlowWork>([](SlowWork& work) { work.in_f32.beta = 0; })},
      racing({"slo.device_default_stream", "SLOWMO-181", "kernels are put into the device's default stream",
              "a stream that was not handed on", steps("localsgd", "f32"), "", "each step launches kernels",
              launching_by_default()}),
      {"slo.device_host_waits", "SLOWMO-181", "the host waits for each kernel", "a stream is synchronized",
       at_slowmo("device.host_goes_on", "run=localsgd,dtype=f32", 2), steps("localsgd", "f32"),
       "nobody looks at what the host does", waiting_for_kernels()},
      racing({"slo.staging_not_awaited", "SLOWMO-182", "what goes by way of the host is sent before it is there",
              "a copy that is not waited for", at_slowmo("device.by_way_of_the_host", "run=localsgd,dtype=f32", 2),
              steps("localsgd", "f32"), "nothing goes by way of the host",
              [](std::shared_ptr<device::Runtime> inner) -> std::shared_ptr<device::Runtime> {
                return std::make_shared<NeverWaits>(std::move(inner));
              }}),
  };
}

}  // namespace plumbline::mutants
