#include "reference/device/host_staging.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "reference/comm/errors.hpp"

namespace plumbline::device {

using comm::Call;

// The stream that is the caller's now, and memory of the host.
struct HostStaging::Shared {
  struct Block {
    std::vector<std::byte> bytes;
    std::shared_ptr<const OwnEvent> used;  // until it is reached, a copy reads the block
  };
  explicit Shared(DeviceUse of) : use(std::move(of)) {}
  // No copy reads a block when it goes.
  ~Shared() {
    for (const Block& block : free) {
      try {
        if (block.used == nullptr || block.used->is_reached()) continue;
        const OwnStream behind(use.runtime, block.used->device());
        use.runtime->wait(behind.device(), behind.get(), block.used->get());
        behind.synchronize();
      } catch (const std::exception&) {
        // The device does nothing any more.
      }
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  Block take(std::size_t bytes) {
    const auto found = std::ranges::find_if(free, [bytes](const Block& block) {
      return block.bytes.size() >= bytes && (block.used == nullptr || block.used->is_reached());
    });
    if (found == free.end()) return {std::vector<std::byte>(bytes), nullptr};
    Block block = std::move(*found);
    free.erase(found);
    return block;
  }

  DeviceUse use;
  std::vector<Block> free;
};

// Calls as they are made on the host.
class HostStaging::Staged {
 public:
  explicit Staged(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~Staged() {
    try {
      await_givers();
    } catch (const std::exception&) {
      // The device does nothing any more.
    }
    for (Shared::Block& block : blocks_) {
      block.used = done_;
      shared_->free.push_back(std::move(block));
    }
  }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  // What the calls give is on the host when it returns.
  void fetch(std::span<const Call> calls, int rank) {
    for (const Call& call : calls) add(call, rank);
    await_givers();
  }
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }
  // Puts what they got into the stream, once; then, and later, the stream that is the caller's meets it.
  void bring_back() {
    if (results_.empty()) return;
    Runtime& runtime = *shared_->use.runtime;
    const int device = results_.front().device;
    if (done_ != nullptr) return runtime.wait(device, shared_->use.stream, done_->get());
    for (const Result& result : results_)
      runtime.copy(device, result.to, result.from, result.bytes, shared_->use.stream);
    done_ = std::make_shared<const OwnEvent>(shared_->use.runtime, device);
    done_->record(shared_->use.stream);
  }
  [[nodiscard]] bool is_brought_back() const { return results_.empty() || (done_ != nullptr && done_->is_reached()); }

 private:
  struct Result {
    int device;
    void* to;
    const std::byte* from;
    std::size_t bytes;
  };

  void add(Call call, int rank) {
    const comm::Device device = call.device();
    if (device.kind == comm::Device::Kind::cpu) return calls_.push_back(call);
    const bool gives = call.uses_in(rank), gets = call.uses_out(rank);
    const bool is_root = call.operation == comm::Operation::broadcast && rank == call.root;
    const comm::Buffer out = call.out;
    call.in.device = call.out.device = {};
    if (gives) call.in.data = fetched(call.in.data, call.in.bytes(), device.index);
    if (gets) {
      call.out.data = is_root ? fetched(out.data, out.bytes(), device.index) : place(out.bytes());
      if (!is_root) results_.push_back({device.index, out.data, blocks_.back().bytes.data(), out.bytes()});
    }
    calls_.push_back(call);
  }
  void await_givers() {
    for (const int device : std::exchange(givers_, {})) shared_->use.runtime->synchronize(device, shared_->use.stream);
  }
  std::byte* place(std::size_t bytes) {
    blocks_.push_back(shared_->take(bytes));
    return blocks_.back().bytes.data();
  }
  std::byte* fetched(const void* from, std::size_t bytes, int device) {
    std::byte* const to = place(bytes);
    if (std::ranges::count(givers_, device) == 0) givers_.push_back(device);
    if (bytes > 0) shared_->use.runtime->copy(device, to, from, bytes, shared_->use.stream);
    return to;
  }

  std::shared_ptr<Shared> shared_;
  std::vector<Call> calls_;
  std::vector<Shared::Block> blocks_;
  std::vector<int> givers_;  // devices from which something is under way
  std::vector<Result> results_;
  std::shared_ptr<const OwnEvent> done_;
};

class HostStaging::StagedWork final : public comm::Work::State {
 public:
  StagedWork(std::unique_ptr<Staged> staged, comm::Work inner) : staged_(std::move(staged)), inner_(std::move(inner)) {}
  bool test() override {
    if (!inner_.test()) return false;
    if (!std::exchange(is_brought_back_, true)) staged_->bring_back();
    return staged_->is_brought_back();
  }
  void wait(comm::Timeout timeout) override {
    inner_.wait(timeout);
    staged_->bring_back();
    is_brought_back_ = true;
  }
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  std::unique_ptr<Staged> staged_;  // goes last: the call is given up before its memory is free
  comm::Work inner_;
  bool is_brought_back_ = false;
};

HostStaging::HostStaging(comm::Communicator& inner, DeviceUse use)
    : Communicator(inner.rank(), inner.group()),
      inner_(inner),
      capabilities_(inner.capabilities()),
      shared_(std::make_shared<Shared>(std::move(use))) {
  if (shared_->use.runtime == nullptr) throw InvalidArgument("staging through the host without a device's runtime");
  if (std::ranges::count(capabilities_.devices, shared_->use.runtime->kind()) == 0)
    capabilities_.devices.push_back(shared_->use.runtime->kind());
}

HostStaging::HostStaging(std::unique_ptr<comm::Communicator> inner, DeviceUse use)
    : HostStaging(*inner, std::move(use)) {
  owned_ = std::move(inner);
}

HostStaging::~HostStaging() = default;

void HostStaging::use_stream(void* stream) { shared_->use.stream = stream; }

void HostStaging::do_run(const Call& call, comm::Timeout timeout) {
  Staged staged(shared_);
  staged.fetch(std::span(&call, 1), rank());
  inner_.run(staged.calls().front(), timeout);
  staged.bring_back();
}

comm::Work HostStaging::do_start(std::span<const Call> calls) {
  auto staged = std::make_unique<Staged>(shared_);
  staged->fetch(calls, rank());
  comm::Work inner = inner_.start(staged->calls());
  return comm::Work(std::make_unique<StagedWork>(std::move(staged), std::move(inner)));
}

std::unique_ptr<comm::Communicator> HostStaging::do_create_group(std::span<const int> ranks) {
  return std::make_unique<HostStaging>(inner_.create_group(ranks), shared_->use);
}

}  // namespace plumbline::device
