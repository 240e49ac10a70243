// harness/suite/check.hpp: a check, written once, run on any subject and world size.
//
// Model   A check verifies requirements. Its axes (dtype, op, world, …) span cases; a case is one line of a record:
//         "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]". The body runs once on every rank and asserts with
//         GoogleTest; a failed assertion belongs to the rank that made it. ASSERT ends that rank's body.
// Doors   A backend check gets a communicator. An adapter check runs on one rank and asks questions. A job check runs
//         on one rank and has whole training programs run, of as many ranks as its parameter "world" says.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/door.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::training {
class Training;  // reference/training/training.hpp
}

namespace plumbline::suite {

/// The values of a case's parameters, in the order of the axes.
class Parameters {
 public:
  void set(std::string name, std::string value) { values_.emplace_back(std::move(name), std::move(value)); }
  [[nodiscard]] bool has(std::string_view name) const;
  /// Throws NotFound.
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] std::int64_t number(std::string_view name) const;
  [[nodiscard]] comm::DType dtype() const;
  [[nodiscard]] comm::ReduceOp op() const;
  [[nodiscard]] int world() const { return static_cast<int>(number("world")); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return values_; }
  /// "[dtype=f32,op=sum,world=3]", or nothing when there are none.
  [[nodiscard]] std::string suffix() const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

struct Axis {
  std::string name;
  std::vector<std::string> values;
};
[[nodiscard]] Axis dtypes();       // all seven
[[nodiscard]] Axis half_dtypes();  // f16, bf16
[[nodiscard]] Axis floating_dtypes();
[[nodiscard]] Axis ops();  // all five
/// The world sizes that a check runs at: 1 to 8 unless it says otherwise; never only powers of two.
[[nodiscard]] Axis worlds(std::vector<int> sizes = {1, 2, 3, 4, 5, 6, 7, 8});
/// The same without 7, of checks whose cases take long: with it, a whole run of the collectives would take 8 % more.
[[nodiscard]] Axis fewer_worlds();

/// Values of options (schedules, graphs, dtypes, devices, forms): by operation and argument.
using OptionValues = std::map<std::string, std::map<std::string, std::set<std::string>>>;

/// Asks an adapter; see the adapter protocol.
class Adapter {
 public:
  virtual ~Adapter() = default;
  /// The "result" of the reply. Throws AdapterError for an error reply, RuntimeFailure when the adapter is no more.
  virtual nlohmann::json ask(const std::string& op, const nlohmann::json& args) = 0;
  [[nodiscard]] virtual const std::set<std::string>& operations() const = 0;
  /// The conventions that it knows, where it says so.
  [[nodiscard]] virtual std::optional<std::set<std::string>> conventions() const { return {}; }
  /// What its greeting claims: "operations", and where it says so "name", "version", "conventions" (name to version),
  /// "options".
  [[nodiscard]] virtual nlohmann::json claims() const { return {{"operations", operations()}}; }
  /// Answers that have not come by then are no more waited for. Set again for each case, and when it makes progress.
  virtual void answer_by(std::chrono::steady_clock::time_point) {}
};

/// A training program under test; see harness/subject/job/README.md.
class Job {
 public:
  virtual ~Job() = default;
  /// Runs the program as `world` ranks on a specification until all of them have ended with status 0, and returns what
  /// they last wrote on standard output and error; no process of it is left. Paths are absolute; the folder is there.
  /// Throws JobCrashed when a rank ended otherwise, JobHung when the time was up (job_error.hpp), RuntimeFailure.
  virtual std::string run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) = 0;
  /// Programs that have not ended by then are ended. Set again for each case, and when it makes progress.
  virtual void end_by(std::chrono::steady_clock::time_point) {}
};

/// A rank's device with memory of its own.
struct DeviceSeat {
  std::shared_ptr<device::Runtime> runtime;
  comm::Device device;
};

/// What one rank's body sees.
class Context {
 public:
  virtual ~Context() = default;
  /// A fresh group of all ranks of the case. Throws StateError in a check of another door than the backend's.
  [[nodiscard]] virtual comm::Communicator& world() = 0;
  /// Throws StateError in a check of another door.
  [[nodiscard]] virtual Adapter& adapter() = 0;
  /// Throws StateError in a check of another door.
  [[nodiscard]] virtual Job& job();
  /// The training module. Throws NotAvailable unless the check says that it needs module "training".
  [[nodiscard]] virtual training::Training& training() = 0;
  [[nodiscard]] virtual const Parameters& parameters() const = 0;
  [[nodiscard]] virtual std::uint64_t seed() const = 0;
  [[nodiscard]] virtual const comm::Capabilities& capabilities() const = 0;
  /// Where the run computes: cpu, cuda, cuda:N, emulated or emulated:N.
  [[nodiscard]] virtual std::string device() const { return "cpu"; }
  /// The rank's device. Throws StateError unless the check says that it is on_device.
  [[nodiscard]] virtual const DeviceSeat& device_seat();
  /// A folder of this case, the same for all ranks of it on one host, gone afterwards.
  [[nodiscard]] virtual const std::string& scratch() const = 0;
  /// Says that this rank is alive and what it does: moves the deadline, up to the hard limit.
  virtual void progress(const std::string& what) = 0;
  /// The training module without what a mutant edits: what computes expectations, and nothing of the subject's.
  [[nodiscard]] virtual training::Training& oracle() { return training(); }
  /// Ends this rank here, while the others go on: one that is a process is killed, and of one that is a thread the
  /// communicators are destroyed. What it asserted until then is its result. A call that other ranks have not left may
  /// fail with it. Only in a check that spoils_group.
  [[noreturn]] virtual void end_rank();
  /// Why no rank can end while the others go on; empty where one can.
  [[nodiscard]] virtual std::string why_no_rank_ends() const { return {}; }

  [[nodiscard]] int rank() { return world().rank(); }
  [[nodiscard]] int size() { return world().size(); }
};

struct Check {
  std::string id;                     // "collectives.all_reduce.exact"
  std::vector<std::string> verifies;  // citations: "COLL-001@041a"
  Door door = Door::backend;
  std::vector<Axis> axes;
  std::function<bool(const Parameters&)> applies = {};  // cases of the axes' product that make sense; all by default
  std::vector<comm::Capability> needs = {};             // beside those of its requirements
  std::vector<std::string> modules = {};                // "training": what must be there to run it
  // Of an adapter check: what it asks. A case that ends without having asked one of its operations is `missing`; one
  // that asks anything else is an `error`.
  std::vector<std::string> operations = {};
  std::function<bool(const Parameters&, std::string_view operation)> asks =
      {};                                                       // where not every case asks all of them
  std::string convention = "plumbline";                         // whose rule
  std::function<OptionValues(const Parameters&)> options = {};  // which values of options
  std::chrono::milliseconds limit = std::chrono::seconds(20);
  bool deadlock_prone = false;  // runs in all arms: see execution_mode.hpp
  bool on_device = false;       // uses memory of a device itself; others' is staged where a run has a device
  bool beside_host = false;     // and the host's over the same backend, for what is right
  bool spoils_group = false;    // leaves calls that nobody completes: processes of ranks are not used again
  std::function<void(Context&)> body;
  std::string file = {};  // where it was added to the suite: "conformance/collectives/copy_checks.cpp"
  int line = 0;
};

/// One case of a check.
struct Case {
  const Check* check = nullptr;
  Parameters parameters;
  int number = 0;  // position in the suite
  [[nodiscard]] std::string id() const { return check->id + parameters.suffix(); }
  /// The ranks that run the body.
  [[nodiscard]] int world() const { return check->door == Door::backend ? parameters.world() : 1; }
  /// The ranks that the case is about: those of a job, too.
  [[nodiscard]] int ranks() const { return check->door == Door::adapter ? 1 : parameters.world(); }
  /// The operations that a case of the adapter door asks.
  [[nodiscard]] std::vector<std::string> operations() const;
  /// The values of options that it asks for.
  [[nodiscard]] OptionValues options() const { return check->options ? check->options(parameters) : OptionValues(); }
  /// "collectives" of "collectives.all_reduce.exact".
  [[nodiscard]] std::string component() const { return check->id.substr(0, check->id.find('.')); }
};

/// All cases of a check, the last axis fastest.
[[nodiscard]] std::vector<Case> cases_of(const Check& check);

}  // namespace plumbline::suite
