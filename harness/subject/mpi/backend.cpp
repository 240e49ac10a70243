// The MPI backend module: its factory, and the Backend that it makes.
#include "harness/subject/backend.hpp"

#include <numeric>

#include <fmt/format.h>

#include "harness/subject/mpi/communicator.hpp"
#include "harness/subject/mpi/self_description.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {
namespace {

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(const BackendOptions& options) : runtime_(std::make_shared<Runtime>(Options::parse(options))) {}

  [[nodiscard]] const comm::Capabilities& capabilities() const override { return runtime_->capabilities(); }
  [[nodiscard]] int rank() const override { return runtime_->rank(); }
  [[nodiscard]] int size() const override { return runtime_->size(); }

  [[nodiscard]] std::unique_ptr<comm::Communicator> world(int ranks) override {
    if (ranks < 1 || ranks > size())
      throw InvalidArgument(fmt::format("backend mpi: world({}): this job has {} processes", ranks, size()));
    if (rank() >= ranks)
      throw InvalidArgument(fmt::format("backend mpi: world({}): process {} is not among those", ranks, rank()));
    std::vector<int> world_ranks(static_cast<std::size_t>(ranks));
    std::iota(world_ranks.begin(), world_ranks.end(), 0);
    return std::make_unique<MpiCommunicator>(
        MpiGroup::create(runtime_, comm::kNoParent, std::move(world_ranks), "world"));
  }

  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    return environment_of(runtime_->options(), runtime_->thread_level());
  }
  // A receiver may be done while its word to the sender that the message has come waits for its next call.
  [[nodiscard]] bool progress() override { return runtime_->progress(); }

 private:
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace
}  // namespace plumbline::subject::mpi

PLUMBLINE_EXPORT plumbline::subject::Backend* plumbline_open_backend(
    const plumbline::subject::BackendOptions& options) {
  return new plumbline::subject::mpi::MpiBackend(options);
}

PLUMBLINE_EXPORT void plumbline_backend_runtime(std::string& version) {
  version = plumbline::subject::mpi::runtime_version();
}
