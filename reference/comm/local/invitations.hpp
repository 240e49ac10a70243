// reference/comm/local/invitations.hpp: where newcomers find the group that they join.
#pragma once

#include <memory>
#include <string>

namespace plumbline::comm::local {

class LocalGroup;

/// A new invitation to that group, which is kept alive by its members alone. Any thread.
[[nodiscard]] std::string invite_to(const std::shared_ptr<LocalGroup>& group);
/// The group of an invitation. Throws InvalidArgument for other words, and for one whose group has grown or is gone.
[[nodiscard]] std::shared_ptr<LocalGroup> group_of(const std::string& invitation);
/// The invitation has served.
void use_up(const std::string& invitation);

}  // namespace plumbline::comm::local
