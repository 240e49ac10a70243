// harness/launch/driver.hpp: hands assignments to worker groups one at a time, watches them, and says how each ended.
//
// Model   An assignment is a case or a task for a world of ranks. Assignments of one shape (world, isolation) share a
//         group until one of them leaves it in doubt. All ranks report before the next begins. When a rank fails, the
//         others get a second of grace; a rank that has not reported by then is `aborted` and the group ends. A
//         deadline that passes is a `hang`, a process that goes is a `crash`. Nothing that a worker does takes the
//         driver down.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/launch/group.hpp"
#include "harness/record/result.hpp"

namespace plumbline::launch {

/// Progress moves an assignment's deadline, by default up to this many times its limit.
inline constexpr int kHardLimitFactor = 5;

struct Assignment {
  nlohmann::json
      command;  // "type": "run" or "task", and what belongs to it; the driver adds run, world, limit, scratch
  int world = 1;
  std::string isolation;  // assignments that differ in it share no group: the component
  std::chrono::duration<double> limit{20};
  /// Progress and output move the deadline up to here; zero: kHardLimitFactor limits.
  std::chrono::duration<double> hard_limit{0};
  bool spoils_group = false;
};

/// How an assignment ended.
struct Outcome {
  record::Verdict verdict = record::Verdict::missing;
  std::string reason;
  std::vector<record::RankResult> ranks;
  std::string output;
  double seconds = 0;
  std::vector<std::string> warnings;  // what changes no verdict, a line each: calls far slower than their like
};

struct Options {
  GroupOptions group;
  std::string control_address = "127.0.0.1";
  int jobs = 1;
  bool stacks = true;  // of ranks that hang are worth the seconds that they take
  std::chrono::seconds start_limit{60};
  std::chrono::duration<double> remind{30};
  /// A group that takes long to start does so while the one before it works: not where that is timed.
  bool start_ahead = true;
  /// Nothing is started from then on, and what runs is ended without an outcome.
  std::optional<std::chrono::steady_clock::time_point> until = {};
};

/// Where a worker reaches the driver and finds its group's folder. Empty: nobody is expected any more.
struct Rendezvous {
  std::string endpoint;
  std::string token;
  std::string group;
  std::string folder;
};

/// What the driver tells its caller. All are called on the caller's thread.
struct Observer {
  /// Before anything is started for it; false: it is left out.
  std::function<bool(std::size_t assignment)> wanted = {};
  /// The group is ready; an outcome given here stands, and the assignment is not run.
  std::function<std::optional<Outcome>(std::size_t assignment, const nlohmann::json& description)> before;
  std::function<void(std::size_t assignment)> begin;
  /// The assignment runs since then and goes on: each time that Options::remind has passed.
  std::function<void(std::size_t assignment, std::chrono::duration<double> since)> still = {};
  std::function<void(std::size_t assignment, int rank, const nlohmann::json& value)> output;
  /// False: run nothing more.
  std::function<bool(std::size_t assignment, const Outcome& outcome)> end;
  std::function<void(const std::string& line)> log;
  /// The driver listens: what workers that somebody else started must be told; empty once all of them have joined.
  std::function<void(const Rendezvous& rendezvous)> listening = {};
};

/// Runs the assignments in their order, `jobs` at a time, until all have or Options::until. Returns false when it was
/// interrupted by a signal. Throws InvalidArgument or NotAvailable when the subject cannot be started, RuntimeFailure
/// when groups do not start; whatever happens, no process is left.
bool run(const std::vector<Assignment>& assignments, const Options& options, const Observer& observer);

}  // namespace plumbline::launch
