#include "conformance/training/averaging/averaging_device_checks.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/watched_memory.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
using training::AveragedStep;
using training::AveragingSettings;
namespace ids = averaging_requirements;

namespace {

AveragingSettings settings_by_name(const std::string& algorithm) {
  if (algorithm == "localsgd") return {.algorithm = "localsgd", .local_sgd_frequency = 2};
  if (algorithm == "sgp-star") return {.algorithm = "sgp", .graph = "star"};
  if (algorithm == "slowmo") return {.local_sgd_frequency = 2, .slow_frequency = 2};
  return {.base = "sgp", .slow_frequency = 2, .graph = "star", .overlap = true};
}

// A rank's steps on that device, of a run that one rank writes and all read.
std::vector<AveragedStep> averaged_on(Context& context, comm::Communicator& world, const std::string& device,
                                      const char* name) {
  const std::filesystem::path folder = std::filesystem::path(context.scratch()) / name;
  if (context.rank() == 0)
    (void)training::write_digits_run({.model = "conv_norm",
                                      .data = context.size(),
                                      .steps = 4,
                                      .global_batch = std::int64_t{8} * context.size(),
                                      .seed = context.seed() & INT64_MAX,
                                      .device = device},
                                     training::digits(), folder);
  context.world().barrier();
  const job::RunSpec spec = job::read_run_spec(folder / "spec.toml");
  const auto session =
      context.training().averaged(spec, world, settings_by_name(context.parameters().text("algorithm")));
  std::vector<AveragedStep> steps;
  for (int step = 0; step < spec.run.steps; ++step) steps.push_back(session->step(step));
  return steps;
}

void averages_stay_there(Context& context) {
  const suite::DeviceSeat seat = context.device_seat();
  Seen seen;
  SlowStream slow(context.world().duplicate(), seat, seen);
  const std::vector<AveragedStep> there = averaged_on(context, slow, context.device(), "device");
  const std::string_view id = suite::id_of_citation(ids::kDeviceMemory);
  EXPECT_EQ(seen.on_host, 0) << id << ": calls on tensors in the host's memory";
  EXPECT_GT(seen.on_device, 0) << id << ": calls on tensors in the device's";
  // On an emulated device LibTorch computes on the host.
  const bool emulated = seat.device.kind == comm::Device::Kind::emulated;
  HostsMemoryAlone through_host(context.world().duplicate());
  const std::vector<AveragedStep> host =
      averaged_on(context, through_host, emulated ? "cpu" : context.device(), "host");
  for (std::size_t step = 0; step < host.size(); ++step)
    EXPECT_TRUE(there[step] == host[step])
        << id << ": step " << step << " of rank " << context.rank() << " has other bits than through the host";
}

}  // namespace

void add_averaging_device_checks(suite::Suite& suite) {
  suite.add({.id = "training.averaging.stays_there",
             .verifies = {std::string(ids::kDeviceMemory)},
             .axes = {{"algorithm", {"localsgd", "sgp-star", "slowmo", "slowmo-sgp-overlap"}}, suite::worlds({2, 3})},
             .modules = {"training"},
             .on_device = true,
             .beside_host = true,
             .body = averages_stay_there});
}

}  // namespace plumbline::conformance
