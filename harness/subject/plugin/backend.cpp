// The plugin backend module: its factory, and the Backend that it makes of a library with the C interface.
#include "harness/subject/backend.hpp"

#include <fmt/format.h>

#include "harness/subject/plugin/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

class PluginBackend final : public Backend {
 public:
  explicit PluginBackend(const BackendOptions& options)
      : job_(std::make_shared<Job>(options, place_of_worker("plugin"))) {}

  [[nodiscard]] const comm::Capabilities& capabilities() const override { return job_->capabilities; }
  [[nodiscard]] int rank() const override { return job_->place.rank; }
  [[nodiscard]] int size() const override { return job_->place.size; }

  [[nodiscard]] std::unique_ptr<comm::Communicator> world(int ranks) override {
    if (ranks < 1 || ranks > size())
      throw InvalidArgument(fmt::format("backend plugin: world({}): this job has {} ranks", ranks, size()));
    if (rank() >= ranks)
      throw InvalidArgument(fmt::format("backend plugin: world({}): rank {} is not a member", ranks, rank()));
    return std::make_unique<PluginCommunicator>(Group::world(job_, ranks));
  }

  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    return {{"library", job_->library.file()},
            {"name", job_->capabilities.backend},
            {"version", job_->capabilities.version},
            {"interface", std::to_string(job_->library->version)}};
  }

 private:
  const std::shared_ptr<Job> job_;
};

}  // namespace
}  // namespace plumbline::subject::plugin

PLUMBLINE_EXPORT plumbline::subject::Backend* plumbline_open_backend(
    const plumbline::subject::BackendOptions& options) {
  return new plumbline::subject::plugin::PluginBackend(options);
}

PLUMBLINE_EXPORT void plumbline_backend_runtime(std::string& version) {
  version =
      fmt::format("--backend plugin:FILE, interface version {} of plumbline_backend.h", PLUMBLINE_BACKEND_VERSION);
}
