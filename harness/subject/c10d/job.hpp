// harness/subject/c10d/job.hpp: the torch.distributed job that this process belongs to.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/subject/backend.hpp"
#include "harness/subject/place.hpp"

namespace plumbline::subject::c10d_backend {

/// The backend of which more is known: what it claims and lacks.
inline constexpr const char* kGloo = "gloo";

/// How a Work is asked whether it is complete: by isCompleted(), or by a wait() in a thread of its own, for backends of
/// which isCompleted() is true only after a wait.
enum class Polling { is_completed, wait };

class Job {
 public:
  /// Initialises torch.distributed with the backend that option `backend` names. Throws InvalidArgument for an option
  /// that there is not, NotAvailable, and RuntimeFailure.
  Job(const BackendOptions& options, Place place);

  const Place place;
  const std::string backend;  // in torch's registry
  const Polling polling;
  const std::string torch;  // its version
  const comm::Capabilities capabilities;

  /// How many groups of that list and parent this process has created, with this one. Any thread.
  [[nodiscard]] int next_creation(std::uint64_t parent, std::span<const int> world_ranks);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, int> creations_;
};

}  // namespace plumbline::subject::c10d_backend
