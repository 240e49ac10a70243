// The NCCL backend module: its factory, and the Backend that it makes.
#include "harness/subject/backend.hpp"

#include <numeric>

#include <fmt/format.h>

#include "harness/subject/nccl/communicator.hpp"
#include "harness/subject/nccl/self_description.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

class NcclBackend final : public Backend {
 public:
  explicit NcclBackend(const BackendOptions& options)
      : job_(std::make_shared<Job>(Options::parse(options), place_of_worker("nccl", Meeting::memory))) {}

  [[nodiscard]] const comm::Capabilities& capabilities() const override { return job_->process.capabilities; }
  [[nodiscard]] int rank() const override { return job_->process.place.rank; }
  [[nodiscard]] int size() const override { return job_->process.place.size; }

  [[nodiscard]] std::unique_ptr<comm::Communicator> world(int ranks) override {
    if (ranks < 1 || ranks > size())
      throw InvalidArgument(fmt::format("backend nccl: world({}): this job has {} processes", ranks, size()));
    if (rank() >= ranks)
      throw InvalidArgument(fmt::format("backend nccl: world({}): process {} is not among those", ranks, rank()));
    std::vector<int> world_ranks(static_cast<std::size_t>(ranks));
    std::iota(world_ranks.begin(), world_ranks.end(), 0);
    constexpr device::Stream kDefaultStream = nullptr;
    return std::make_unique<NcclCommunicator>(Group::create(job_, nullptr, std::move(world_ranks), "world"),
                                              kDefaultStream);
  }

  [[nodiscard]] std::map<std::string, std::string> environment() const override {
    return environment_of(job_->process);
  }
  [[nodiscard]] OwnDevice own_device() const override {
    const Process& process = job_->process;
    return {process.runtime, {process.options.runtime, static_cast<std::int16_t>(process.device)}};
  }

 private:
  const std::shared_ptr<Job> job_;
};

}  // namespace
}  // namespace plumbline::subject::nccl

PLUMBLINE_EXPORT plumbline::subject::Backend* plumbline_open_backend(
    const plumbline::subject::BackendOptions& options) {
  return new plumbline::subject::nccl::NcclBackend(options);
}

PLUMBLINE_EXPORT void plumbline_backend_runtime(std::string& version) {
  using namespace plumbline::subject::nccl;
  version = "NCCL " + Library(Options().library).version();
}
