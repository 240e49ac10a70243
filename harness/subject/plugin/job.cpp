#include "harness/subject/plugin/job.hpp"

#include <fmt/format.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/plugin/reply.hpp"
#include "harness/subject/plugin/translation.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

std::string file_in(const BackendOptions& options) {
  const auto file = options.find(kPluginLibrary);
  if (file == options.end() || file->second.empty())
    throw InvalidArgument("backend plugin: no library is named; give --backend plugin:FILE");
  return file->second;
}

// What an error can name: each of the missing ranks.
Place checked(Place place) {
  if (place.size > kMostRanks)
    throw RuntimeFailure(fmt::format("backend plugin: {}: a job has at most {} ranks", place.variables, kMostRanks));
  return place;
}

}  // namespace

Job::Job(const BackendOptions& options, Place place_)
    : place(checked(std::move(place_))), library(file_in(options)), capabilities(capabilities_of(*library)) {
  open(options);
}

Job::~Job() { library->close(context_); }

void Job::open(const BackendOptions& options) {
  std::vector<plumbline_option> list;
  for (const auto& [key, value] : options)
    if (key != kPluginLibrary) list.push_back({key.c_str(), value.c_str()});
  const plumbline_job job{place.rank, place.size, place.scratch.c_str(), list.data(), list.size()};
  call([&] { return fmt::format("backend plugin: open of '{}'", capabilities.backend); },
       [&](plumbline_error* error) { return library->open(&job, &context_, error); });
}

int Job::next_creation(std::uint64_t parent, std::span<const int> world_ranks) {
  const std::lock_guard hold(mutex_);
  return ++creations_[{parent, {world_ranks.begin(), world_ranks.end()}}];
}

void Job::take_back_creation(std::uint64_t parent, std::span<const int> world_ranks) {
  const std::lock_guard hold(mutex_);
  --creations_[{parent, {world_ranks.begin(), world_ranks.end()}}];
}

}  // namespace plumbline::subject::plugin
