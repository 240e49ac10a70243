#include "reference/comm/local/invitations.hpp"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/group.hpp"

namespace plumbline::comm::local {
namespace {

// All ranks are in one process.
struct Invitations {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<LocalGroup>> open;
  int made = 0;
};

Invitations& invitations() {
  static Invitations all;
  return all;
}

}  // namespace

std::string invite_to(const std::shared_ptr<LocalGroup>& group) {
  Invitations& all = invitations();
  const std::lock_guard hold(all.mutex);
  std::erase_if(all.open, [](const auto& one) { return one.second.expired(); });
  std::string words = fmt::format("local {} {:016x}", ++all.made, group->identity.id);
  all.open.emplace(words, group);
  return words;
}

std::shared_ptr<LocalGroup> group_of(const std::string& invitation) {
  Invitations& all = invitations();
  const std::lock_guard hold(all.mutex);
  const auto found = all.open.find(invitation);
  auto group = found == all.open.end() ? nullptr : found->second.lock();
  if (group == nullptr)
    throw InvalidArgument(
        fmt::format("'{}' is no invitation that is open: give words of invite(), for one grow()", invitation));
  return group;
}

void use_up(const std::string& invitation) {
  Invitations& all = invitations();
  const std::lock_guard hold(all.mutex);
  all.open.erase(invitation);
}

}  // namespace plumbline::comm::local
