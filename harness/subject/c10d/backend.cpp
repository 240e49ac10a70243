// The c10d backend module: its factory, and the Backend that it makes of torch.distributed.
#include "harness/subject/backend.hpp"

#include <fmt/format.h>

#include "harness/subject/c10d/communicator.hpp"
#include "harness/subject/c10d/connect.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {
namespace {

class C10dBackend final : public Backend {
 public:
  explicit C10dBackend(const BackendOptions& options)
      : job_(std::make_shared<Job>(options, place_of_worker("c10d", Meeting::address))) {}

  [[nodiscard]] const comm::Capabilities& capabilities() const override { return job_->capabilities; }
  [[nodiscard]] int rank() const override { return job_->place.rank; }
  [[nodiscard]] int size() const override { return job_->place.size; }

  [[nodiscard]] std::unique_ptr<comm::Communicator> world(int ranks) override {
    if (ranks < 1 || ranks > size())
      throw InvalidArgument(fmt::format("backend c10d: world({}): this job has {} ranks", ranks, size()));
    if (rank() >= ranks)
      throw InvalidArgument(fmt::format("backend c10d: world({}): rank {} is not a member", ranks, rank()));
    return std::make_unique<C10dCommunicator>(Group::world(job_, ranks));
  }

  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    return {{"torch", job_->torch}, {"backend", job_->backend}};
  }

 private:
  const std::shared_ptr<Job> job_;
};

}  // namespace
}  // namespace plumbline::subject::c10d_backend

PLUMBLINE_EXPORT plumbline::subject::Backend* plumbline_open_backend(
    const plumbline::subject::BackendOptions& options) {
  return new plumbline::subject::c10d_backend::C10dBackend(options);
}

PLUMBLINE_EXPORT void plumbline_backend_runtime(std::string& version) {
  version = "--backend c10d:NAME, a backend of torch.distributed, built for torch " PLUMBLINE_TORCH_VERSION;
}

PLUMBLINE_EXPORT void plumbline_c10d_connect(plumbline::subject::c10d_backend::AskPython* ask) {
  plumbline::subject::c10d_backend::connect(ask);
}
