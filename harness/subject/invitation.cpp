#include "harness/subject/invitation.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject {

Invitation Invitation::to(const comm::Group& group, int rank, std::string words) {
  static std::atomic<int> made{0};  // by this process; the rank tells it from others
  const std::uint64_t origin = ~(group.id + static_cast<std::uint64_t>(rank));
  return {.id = comm::group_id(origin, group.ranks, ++made),
          .group = group.id,
          .members = group.ranks,
          .words = std::move(words)};
}

std::string Invitation::text() const {
  return fmt::format("plumbline {:016x} {:016x} {} {}", id, group, fmt::join(members, ","), words);
}

Invitation Invitation::parse(const std::string& text) {
  static const std::regex form("plumbline ([0-9a-f]{16}) ([0-9a-f]{16}) ([0-9]{1,6}(?:,[0-9]{1,6})*) (.*)");
  std::smatch found;
  if (!std::regex_match(text, found, form))
    throw InvalidArgument(fmt::format("'{}' is no invitation: give the words that invite() returned", text));
  Invitation made{.id = std::stoull(found[1], nullptr, 16),
                  .group = std::stoull(found[2], nullptr, 16),
                  .members = {},
                  .words = found[4]};
  std::istringstream ranks(found[3]);
  for (std::string rank; std::getline(ranks, rank, ',');) made.members.push_back(std::stoi(rank));
  return made;
}

void Invitation::use() const {
  static std::mutex mutex;
  static std::set<std::uint64_t> used;
  const std::lock_guard hold(mutex);
  if (!used.insert(id).second)
    throw InvalidArgument(fmt::format("'{}' has served: ask for new words by invite()", text()));
}

std::vector<int> Invitation::with(std::span<const int> newcomers, int job_size) const {
  for (const int rank : newcomers)
    if (rank >= job_size)
      throw InvalidArgument(fmt::format("newcomer {} is not a rank of the job of {}", rank, job_size));
  for (const int rank : newcomers)
    if (std::ranges::find(members, rank) != members.end())
      throw InvalidArgument(fmt::format("newcomer {} is a member already", rank));
  std::vector<int> all = members;
  all.insert(all.end(), newcomers.begin(), newcomers.end());
  return all;
}

}  // namespace plumbline::subject
