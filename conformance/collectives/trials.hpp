// conformance/collectives/trials.hpp: what the bodies of the checks have in common.
#pragma once

#include <chrono>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "conformance/collectives/exercise.hpp"
#include "conformance/collectives/guarded.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// A failure of this rank with those words, unless they are empty. The rank goes on, so that its peers are not left
/// alone.
void report(const std::string& problem, std::source_location where = std::source_location::current());

/// Runs the trial and reports its problem().
void expect_result(comm::Communicator& group, const Trial& trial,
                   std::source_location where = std::source_location::current());

/// Reports unless the group still serves its members: a reduction and a barrier.
void expect_usable(comm::Communicator& group, std::source_location where = std::source_location::current());

/// The same beside what is refused: the last member alone does that, which is reported if it throws nothing, while a
/// call of all members is under way.
void expect_usable_beside(comm::Communicator& group, const std::function<void()>& refused,
                          std::source_location where = std::source_location::current());

/// Reports unless the wait throws TimeoutError after its limit, and within seconds of it.
void expect_timeout(std::chrono::nanoseconds limit, const std::function<void()>& wait,
                    std::source_location where = std::source_location::current());

/// A buffer as elements of a dtype that the backend claims, to be moved and not added. Its bytes are a multiple of 8:
/// elements of every some_dtype() fit, unless a backend has c128 alone.
[[nodiscard]] comm::ConstBuffer carried(const comm::Communicator& group, const GuardedInput& input);
[[nodiscard]] comm::Buffer carried(const comm::Communicator& group, GuardedOutput& output);
/// The same of nothing, which has no memory.
[[nodiscard]] comm::Buffer nothing(const comm::Communicator& group);

/// Sends and receives one number.
void send_number(comm::Communicator& group, std::int64_t number, int to, int tag = 0);
void expect_number(comm::Communicator& group, std::int64_t number, int from, int tag = 0,
                   std::source_location where = std::source_location::current());

/// How a member learns that calls are complete. A shift that is no batch of the backend's is made by run_calls().
enum class Way { block, wait, test };
/// The ways that the backend has.
[[nodiscard]] std::vector<Way> ways(const comm::Capabilities& capabilities);
/// Makes the calls, and returns when they are complete.
void complete(comm::Communicator& group, std::span<const comm::Call> calls, Way way);

/// What the backend claims of these dtypes.
[[nodiscard]] std::vector<comm::DType> claimed(const comm::Capabilities& capabilities,
                                               std::span<const comm::DType> dtypes = comm::kAllDTypes);
/// The ops that are defined on a dtype.
[[nodiscard]] std::vector<comm::ReduceOp> ops_on(comm::DType dtype);

/// The words of the E that `action` throws. Another exception or none is reported, and gives "".
template <class E>
std::string words_of(const std::function<void()>& action, const std::string& what,
                     std::source_location where = std::source_location::current()) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    report(what + ": another error came: " + error.what(), where);
    return {};
  }
  report(what + ": no error came", where);
  return {};
}

/// The numbers after the last "rank" or "ranks" of a message.
[[nodiscard]] std::vector<int> ranks_at_end(const std::string& words);

/// The values of an axis "operation".
[[nodiscard]] suite::Axis operations_axis(std::span<const comm::Operation> operations);
/// The value of that axis. Throws NotFound; within a case Skipped for a shift that the backend cannot make.
[[nodiscard]] comm::Operation operation_of(const suite::Parameters& parameters);
[[nodiscard]] comm::Operation operation_of(suite::Context& context);
/// Throws Skipped where the backend does not start that operation of an Exercise as one.
void require_start(suite::Context& context, comm::Operation operation);

}  // namespace plumbline::conformance
