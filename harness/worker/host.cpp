#include "harness/worker/host.hpp"

#include <string>
#include <thread>

#include <pthread.h>

#include "reference/comm/errors.hpp"

namespace plumbline::worker {
namespace {

class LocalHost final : public Host {
 public:
  explicit LocalHost(comm::Device::Kind kind) : kind_(kind) {}
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return comm::local_capabilities(kind_); }
  void serve_devices(std::shared_ptr<comm::DeviceCalls> calls) override { device_calls_ = std::move(calls); }
  [[nodiscard]] std::map<std::string, std::string> environment() const override { return {}; }
  void run(int size, std::chrono::nanoseconds timeout, const std::function<void(Seat&)>& body) override {
    comm::LocalOptions options;
    options.timeout = timeout;
    options.device_calls = device_calls_;
    comm::LocalWorld world(size, options);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&world, &body, rank] {
        ::pthread_setname_np(::pthread_self(), ("rank " + std::to_string(rank)).c_str());  // in stacks
        LocalSeat seat(world, rank);
        body(seat);
      });
  }

 private:
  class LocalSeat final : public Seat {
   public:
    LocalSeat(comm::LocalWorld& world, int rank) : world_(world), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] std::unique_ptr<comm::Communicator> open() override { return world_.communicator(rank_); }
    void abort(const std::string& reason) noexcept override { world_.abort(reason); }

   private:
    comm::LocalWorld& world_;
    int rank_;
  };
  comm::Device::Kind kind_;
  std::shared_ptr<comm::DeviceCalls> device_calls_;
};

class ProcessHost final : public Host {
 public:
  explicit ProcessHost(std::unique_ptr<subject::Backend> backend) : backend_(std::move(backend)) {}
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return backend_->capabilities(); }
  [[nodiscard]] std::map<std::string, std::string> environment() const override { return backend_->environment(); }
  [[nodiscard]] subject::Backend::OwnDevice own_device() const override { return backend_->own_device(); }
  [[nodiscard]] bool is_one_rank() const override { return true; }
  [[nodiscard]] bool progress() override { return backend_->progress(); }
  void run(int size, std::chrono::nanoseconds, const std::function<void(Seat&)>& body) override {
    ProcessSeat seat(*backend_, size);
    body(seat);
  }

 private:
  class ProcessSeat final : public Seat {
   public:
    ProcessSeat(subject::Backend& backend, int size) : backend_(backend), size_(size) {}
    [[nodiscard]] int rank() const override { return backend_.rank(); }
    [[nodiscard]] std::unique_ptr<comm::Communicator> open() override { return backend_.world(size_); }
    void abort(const std::string&) noexcept override {}  // the driver ends the peers that wait

   private:
    subject::Backend& backend_;
    int size_;
  };
  std::unique_ptr<subject::Backend> backend_;
};

class SingleHost final : public Host {
 public:
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::map<std::string, std::string> environment() const override { return {}; }
  void run(int, std::chrono::nanoseconds, const std::function<void(Seat&)>& body) override {
    SingleSeat seat;
    body(seat);
  }

 private:
  class SingleSeat final : public Seat {
   public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] std::unique_ptr<comm::Communicator> open() override { return nullptr; }
    void abort(const std::string&) noexcept override {}
  };
  comm::Capabilities capabilities_{.backend = "none"};
};

}  // namespace

std::unique_ptr<Host> make_local_host(comm::Device::Kind kind) { return std::make_unique<LocalHost>(kind); }
std::unique_ptr<Host> make_process_host(std::unique_ptr<subject::Backend> backend) {
  return std::make_unique<ProcessHost>(std::move(backend));
}
std::unique_ptr<Host> make_single_host() { return std::make_unique<SingleHost>(); }

}  // namespace plumbline::worker
