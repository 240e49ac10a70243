// harness/subject/plugin/job.hpp: the plugin in this process, open, and the job that the process belongs to.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/subject/backend.hpp"
#include "harness/subject/place.hpp"
#include "harness/subject/plugin/library.hpp"

namespace plumbline::subject::plugin {

class Job {
 public:
  /// Opens the library that option `library` names; the other options are the plugin's. Throws InvalidArgument and
  /// RuntimeFailure.
  Job(const BackendOptions& options, Place place);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Place place;
  const Library library;
  const comm::Capabilities capabilities;

  [[nodiscard]] plumbline_context* context() const { return context_; }
  /// How many groups of that list and parent this process has created, with this one. Any thread.
  [[nodiscard]] int next_creation(std::uint64_t parent, std::span<const int> world_ranks);

 private:
  void open(const BackendOptions& options);

  plumbline_context* context_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, int> creations_;
};

}  // namespace plumbline::subject::plugin
