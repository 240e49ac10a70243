// How a call of a rank fails, and takes the group with it.
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/endpoint.hpp"

namespace plumbline::comm::local {

std::string Endpoint::name() const { return fmt::format("{}, rank {}", describe(group->identity), rank); }

void Endpoint::fail(const Failure& failure) {
  group->fail(failure);
  group->await_nobody_inside(rank);
  follow_lane();
  told_ = true;
  if (failure.kind == Failure::Kind::mismatch) throw MismatchError(failure.message);
  if (failure.kind == Failure::Kind::timeout) throw TimeoutError(failure.message);
  throw PeerFailed(failure.message);
}

void Endpoint::fail_late(const std::string& call, std::uint64_t sequence, const Deadline& deadline,
                         const std::vector<int>& missing) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.limit());
  fail({Failure::Kind::timeout, sequence,
        fmt::format("{}: waited {} ms for rank {}", call, limit.count(), fmt::join(missing, ", "))});
}

void Endpoint::fail_deserted(const std::string& call, std::uint64_t sequence, const std::vector<int>& left) {
  fail({Failure::Kind::peer, sequence, fmt::format("{}: rank {} has left the group", call, fmt::join(left, ", "))});
}

void Endpoint::fail_on_device(const std::string& why) {
  group->fail({.kind = Failure::Kind::peer, .message = why});
  follow_lane();  // a part of the call may be under way
  told_ = true;
  throw RuntimeFailure(why);
}

void Endpoint::throw_failure(std::uint64_t sequence, bool had_arrived) {
  group->await_nobody_inside(rank);
  follow_lane();
  const Failure failure = group->failure();
  const bool same = failure.sequence == sequence && sequence != kNoSequence && !told_;
  told_ = true;
  if (same && failure.kind == Failure::Kind::mismatch) throw MismatchError(failure.message);
  if (same && had_arrived && failure.kind == Failure::Kind::timeout) throw TimeoutError(failure.message);
  throw PeerFailed(fmt::format("{}: the group has failed: {}", name(), failure.message));
}

}  // namespace plumbline::comm::local
