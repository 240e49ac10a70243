// harness/suite/door.hpp: the ways in which a subject is tested.
#pragma once

#include <string_view>

namespace plumbline::suite {

enum class Door { backend, adapter, job };
[[nodiscard]] std::string_view name_of(Door door);
/// The door of a subject that is named by an adapter's command, by a job's, or by neither; a subject has one name.
[[nodiscard]] inline Door door_of(std::string_view adapter, std::string_view job) {
  return !adapter.empty() ? Door::adapter : !job.empty() ? Door::job : Door::backend;
}

}  // namespace plumbline::suite
