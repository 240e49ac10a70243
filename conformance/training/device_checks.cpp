// Training on devices whose streams are slow: what ranks exchange stays in their memory, and who computes waits for it.
#include "conformance/training/device_checks.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "conformance/training/finding.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "conformance/training/watched_memory.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Device;
using suite::Context;
using suite::DeviceSeat;
using training::DigitsRun;
namespace ids = training_requirements;

namespace {

DigitsRun run_named(const std::string& parts, int world) {
  if (parts == "data") return {.model = "conv_norm", .data = world, .accumulation = 2, .bucket_bytes = 2048};
  if (parts == "pipeline")
    return {.model = "conv_norm", .data = world / 2, .pipeline = 2, .chunks = 2, .schedule = "zbv"};
  if (parts == "narrow") return {.data = world};
  if (parts == "tied")
    return {.model = "tied", .data = world / 2, .pipeline = 2, .chunks = 2, .schedule = "interleaved"};
  return {.model = "pairs", .data = world / 2, .tensor = 2};
}

std::filesystem::path place_in_scratch(Context& context, const char* name) {
  return std::filesystem::path(context.scratch()) / name;
}

// The run on that device, written by one rank and read by all; all records are there when it returns.
job::RunSpec trained(Context& context, Communicator& world, const std::string& device, const char* name) {
  const std::filesystem::path folder = place_in_scratch(context, name);
  if (context.rank() == 0) {
    DigitsRun settings = run_named(context.parameters().text("parts"), context.size());
    settings.steps = 3;
    settings.global_batch = 24;
    settings.seed = context.seed() & INT64_MAX;
    settings.device = device;
    (void)training::write_digits_run(settings, training::digits(), folder);
  }
  context.world().barrier();
  const job::RunSpec spec = job::read_run_spec(folder / "spec.toml");
  training::RunSettings settings;
  if (context.parameters().text("parts") == "narrow") settings.gradients.compression = "bf16";
  context.training().run(spec, world, folder, {}, settings);
  context.world().barrier();
  return spec;
}

void stays_there(Context& context) {
  const DeviceSeat seat = context.device_seat();
  Seen seen;
  SlowStream slow(context.world().duplicate(), seat, seen);
  const job::RunSpec spec = trained(context, slow, context.device(), "device");
  EXPECT_EQ(seen.on_host, 0) << "TRAIN-211: calls on tensors in the host's memory";
  EXPECT_GT(seen.on_device, 0) << "TRAIN-211: calls on tensors in the device's";
  // On an emulated device LibTorch computes on the host.
  const bool emulated = seat.device.kind == Device::Kind::emulated;
  HostsMemoryAlone through_host(context.world().duplicate());
  (void)trained(context, through_host, emulated ? "cpu" : context.device(), "host");
  if (context.rank() != 0) return;
  report(compare_runs(spec, job::TrainingRecord(spec, place_in_scratch(context, "host")),
                      job::TrainingRecord(spec, place_in_scratch(context, "device")), ids::kDeviceBits));
}

bool applies_to(const suite::Parameters& one) {
  const std::string parts = one.text("parts");
  return parts == "data" || parts == "narrow" || one.world() % 2 == 0;
}

}  // namespace

void add_training_device_checks(suite::Suite& suite) {
  suite.add({.id = "training.device.stays_there",
             .verifies = cited({ids::kDeviceBits, ids::kDeviceMemory}),
             .axes = {{"parts", {"data", "narrow", "pipeline", "tied", "tensor"}}, suite::worlds({1, 2, 3, 4})},
             .applies = applies_to,
             .modules = {"training"},
             .on_device = true,
             .beside_host = true,
             .body = stays_there});
}

}  // namespace plumbline::conformance
