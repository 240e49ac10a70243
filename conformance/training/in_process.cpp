#include "conformance/training/in_process.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "harness/subject/training_module.hpp"
#include "harness/suite/job_error.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {

training::Training& module() { return subject::training_module(); }

suite::Adapter& ThreadContext::adapter() { throw StateError("a check of a backend has no adapter"); }

std::string ThreadJob::run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) {
  try {
    (void)job::read_run_spec(spec);
  } catch (const InvalidArgument& error) {  // with which a program ends
    throw suite::JobCrashed(error.what(), error.what());
  }
  comm::run_ranks(world, [&](comm::Communicator& communicator) {
    const auto wrapped = fault_.wrap ? fault_.wrap(communicator.duplicate()) : nullptr;
    module().run(job::read_run_spec(spec), wrapped ? *wrapped : communicator, record, {}, {});
  });
  if (fault_.record) fault_.record(job::read_run_spec(spec), record);
  return "";
}

void run_case(const suite::Case& one, const Fault& fault) {
  const job::TemporaryFolder scratch;
  comm::LocalOptions options;
  std::shared_ptr<device::Runtime> devices;
  if (one.check->on_device) {
    devices = device::make_emulated();
    options.device_calls = device::make_calls(devices);
    module().use_devices(devices);
  }
  comm::run_ranks(
      one.world(),
      [&](comm::Communicator& world) {
        const std::unique_ptr<comm::Communicator> wrapped = fault.wrap ? fault.wrap(world.duplicate()) : nullptr;
        Surroundings surroundings{.scratch = scratch.path().string(), .job = fault};
        if (devices) {
          const auto index = static_cast<std::int16_t>(world.rank() % devices->count());
          surroundings.device = "emulated";
          surroundings.seat = {devices, {devices->kind(), index}};
        }
        ThreadContext context(wrapped ? *wrapped : world, one.parameters, std::move(surroundings));
        one.check->body(context);
      },
      options);
}

std::vector<Failure> failures_in(const suite::Case& one, const Fault& fault) {
  testing::TestPartResultArray results;
  std::string suffered;
  {
    testing::ScopedFakeTestPartResultReporter reporter(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
                                                       &results);
    try {
      run_case(one, fault);
    } catch (const comm::PeerFailed& error) {
      // A rank that has failed has said why; one that only suffers from it need not.
      suffered = error.what();
    }
  }
  std::vector<Failure> failures;
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed()) failures.push_back({results.GetTestPartResult(i).message()});
  if (failures.empty() && !suffered.empty()) failures.push_back({suffered, true});
  return failures;
}

std::string failures_of(const suite::Case& one, const Fault& fault) {
  std::string text;
  for (const Failure& failure : failures_in(one, fault)) text += failure.text + "\n";
  return text;
}

}  // namespace plumbline::conformance
