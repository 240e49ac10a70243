// conformance/training/in_process.hpp: runs one case of training on the local backend inside a test.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/support/in_process.hpp"
#include "harness/suite/check.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// The training module of this process. Throws NotAvailable.
[[nodiscard]] training::Training& module();

/// What makes a run wrong; each may be empty.
struct Fault {
  std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)> wrap = {};
  std::function<void(const job::RunSpec& spec, const std::filesystem::path& record)> record = {};  // of a job
};

/// What the body of a rank that is a thread is given beside its communicator.
struct Surroundings {
  std::string scratch;
  std::uint64_t seed = 0xfedcba9876543210u;
  std::string device = "cpu";
  suite::DeviceSeat seat = {};  // of a check on a device
  Fault job = {};               // of the program behind the job door
};

/// The reference's executor on threads here, as a job.
class ThreadJob final : public suite::Job {
 public:
  explicit ThreadJob(Fault fault) : fault_(std::move(fault)) {}
  std::string run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) override;

 private:
  Fault fault_;
};

/// What a body sees of such a rank.
class ThreadContext final : public suite::Context {
 public:
  ThreadContext(comm::Communicator& world, const suite::Parameters& parameters, Surroundings surroundings)
      : world_(world), parameters_(parameters), surroundings_(std::move(surroundings)), job_(surroundings_.job) {}
  comm::Communicator& world() override { return world_; }
  suite::Adapter& adapter() override;
  suite::Job& job() override { return job_; }
  training::Training& training() override { return module(); }
  const suite::Parameters& parameters() const override { return parameters_; }
  std::uint64_t seed() const override { return surroundings_.seed; }
  std::string device() const override { return surroundings_.device; }
  const suite::DeviceSeat& device_seat() override { return surroundings_.seat; }
  const comm::Capabilities& capabilities() const override { return world_.capabilities(); }
  const std::string& scratch() const override { return surroundings_.scratch; }
  void progress(const std::string&) override {}

 private:
  comm::Communicator& world_;
  const suite::Parameters& parameters_;
  Surroundings surroundings_;
  ThreadJob job_;
};

/// Runs a case with a thread per rank, on emulated devices where it needs some; its failures are the test's.
void run_case(const suite::Case& one, const Fault& fault = {});
/// The failures of a case which fails on purpose, each in GoogleTest's words: "Failed\nTRAIN-006: step 0, …".
[[nodiscard]] std::vector<Failure> failures_in(const suite::Case& one, const Fault& fault);
/// The same, one after the other; "" where it passes.
[[nodiscard]] std::string failures_of(const suite::Case& one, const Fault& fault);

}  // namespace plumbline::conformance
