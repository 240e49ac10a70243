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
  /// Whether the missing of a PEER_FAILED are those that have ended.
  [[nodiscard]] bool names_ended() const { return library->shrink != nullptr; }
  /// How many groups of that list and parent this process has created, with this one. Any thread.
  [[nodiscard]] int next_creation(std::uint64_t parent, std::span<const int> world_ranks);
  /// One of them has failed: the next one has its number again, on members that have tried more often than others, too.
  void take_back_creation(std::uint64_t parent, std::span<const int> world_ranks);

 private:
  void open(const BackendOptions& options);

  plumbline_context* context_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, int> creations_;
};

}  // namespace plumbline::subject::plugin
