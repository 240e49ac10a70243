// Groups that take in ranks which were no members.
#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::comm {
namespace {

void check_newcomers(const char* function, std::span<const int> newcomers) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(fmt::format("{}([{}]): {}", function, fmt::join(newcomers, " "), why));
  };
  if (newcomers.empty()) refuse("no rank is new; duplicate() makes a group of the same ranks");
  for (auto rank = newcomers.begin(); rank != newcomers.end(); ++rank) {
    if (*rank < 0) refuse(fmt::format("{} is not a rank of the world", *rank));
    if (std::find(newcomers.begin(), rank, *rank) != rank) refuse(fmt::format("rank {} stands twice", *rank));
  }
}

}  // namespace

std::string Communicator::invite() {
  expect_claim(Capability::grow, "invite");
  return do_invite();
}

std::unique_ptr<Communicator> Communicator::grow(const std::string& invitation, std::span<const int> newcomers) {
  check_newcomers("grow", newcomers);
  for (const int rank : newcomers)
    if (std::ranges::find(group_.ranks, rank) != group_.ranks.end())
      throw InvalidArgument(
          fmt::format("grow([{}]): world rank {} is a member already", fmt::join(newcomers, " "), rank));
  expect_claim(Capability::grow, "grow");
  return do_grow(invitation, newcomers);
}

std::unique_ptr<Communicator> Communicator::join(const std::string& invitation, std::span<const int> newcomers) {
  check_newcomers("join", newcomers);
  const int self = group_.ranks[static_cast<std::size_t>(rank_)];
  if (std::ranges::find(newcomers, self) == newcomers.end())
    throw InvalidArgument(
        fmt::format("join([{}]): the calling world rank {} is not in it", fmt::join(newcomers, " "), self));
  expect_claim(Capability::grow, "join");
  return do_join(invitation, newcomers);
}

// What a backend claims and does not have.
std::string Communicator::do_invite() { throw Unsupported("invite: not implemented"); }
std::unique_ptr<Communicator> Communicator::do_grow(const std::string& /*invitation*/,
                                                    std::span<const int> /*newcomers*/) {
  throw Unsupported("grow: not implemented");
}
std::unique_ptr<Communicator> Communicator::do_join(const std::string& /*invitation*/,
                                                    std::span<const int> /*newcomers*/) {
  throw Unsupported("join: not implemented");
}

}  // namespace plumbline::comm
