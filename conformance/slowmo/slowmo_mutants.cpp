// Mutants of SlowMo that are no edits: of push-sum below it, and of what devices do.
#include "conformance/slowmo/slowmo_mutants.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "harness/mutants/wrong_kernels.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/gossip/push_sum.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::mutants {

using gossip::PushSumSteps;

namespace {

std::string at_slowmo(const std::string& check, const std::string& parameters, int world) {
  return "slowmo." + check + "[" + parameters + (parameters.empty() ? "" : ",") + "world=" + std::to_string(world) +
         "]";
}

// ---- push-sum below it ----

std::vector<Mutant> gossiping() {
  const auto over = [](const char* check, const char* graph, int world) {
    return at_slowmo(check, std::string("graph=") + graph, world);
  };
  return {
      {"slo.mass_lost", "SLOWMO-021", "a share that is sent is not received in full", "push-sum with a factor too many",
       over("gossip.conserves", "hub", 3), over("gossip.conserves", "ring", 3), "lazy mixing sends everything",
       with([](PushSumSteps& steps) {
         steps.sent = [](const gossip::Shares& shares, std::size_t peer) { return 0.5 * shares.sent[peer]; };
       })},
      {"slo.retries_without_pause", "SLOWMO-110",
       "a round that is cut is made again at once, as often as the time allows", "a loop around a retry",
       at_slowmo("gossip.gives_up", "overlap=no,wire=cut", 3), at_slowmo("gossip.gives_up", "overlap=no,wire=whole", 3),
       "nothing is cut", with([](PushSumSteps& steps) {
         steps.pause = [](std::chrono::milliseconds) { return std::chrono::milliseconds(0); };
       })},
      {"slo.thread_retries_without_pause", "SLOWMO-110", "the gossip thread makes a round that is cut again at once",
       "a loop around a retry", at_slowmo("gossip.gives_up", "overlap=yes,wire=cut", 2),
       at_slowmo("gossip.gives_up", "overlap=yes,wire=whole", 2), "nothing is cut", with([](PushSumSteps& steps) {
         steps.pause = [](std::chrono::milliseconds) { return std::chrono::milliseconds(0); };
       })},
      {"slo.overlap_loses_values", "SLOWMO-026",
       "beside the backward values are sent with half their share, and weights in full",
       "a factor that the weight lacks", at_slowmo("gossip.overlaps", "graph=hub,lag=0,node=1", 3),
       at_slowmo("gossip.overlaps", "graph=ring,lag=0,node=1", 3), "lazy mixing sends everything",
       with([](PushSumSteps& steps) {
         steps.sent = [](const gossip::Shares& shares, std::size_t peer) { return 0.5 * shares.sent[peer]; };
       })},
      {"slo.retry_mixes_anew", "SLOWMO-027", "a round that is made again is mixed anew", "mass is lost on a retry",
       at_slowmo("gossip.made_again", "graph=hub,when=once", 3),
       at_slowmo("gossip.made_again", "graph=ring,when=once", 3), "lazy values are mixed when they have come",
       with([](PushSumSteps& steps) { steps.retry_mixes = [] { return true; }; })},
  };
}

// ---- memory of devices ----

/// Says that a stream is done, whatever it still has to do.
class NeverWaits final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int, device::Stream) override {}
};

std::vector<Mutant> on_devices() {
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

}  // namespace

std::vector<Mutant> slowmo_mutants() {
  std::vector<Mutant> all = gossiping();
  std::ranges::move(on_devices(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
