#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::device {

using comm::Call;

// The stream that is the caller's now, and memory of the host.
struct HostStaging::Shared {
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
    std::shared_ptr<const OwnEvent> used = nullptr;  // until it is reached, a copy reads the block
  };
  explicit Shared(DeviceUse of) : use(std::move(of)) {}
  // No copy reads a block when it goes.
  ~Shared() {
    for (Block& block : free) {
      try {
        if (block.used == nullptr || block.used->is_reached()) continue;
        const OwnStream after(use.runtime, block.used->device());
        use.runtime->wait(after.device(), after.get(), block.used->get());
        after.synchronize();
      } catch (const std::exception&) {
        // Nobody can say when the copy ends.
        (void)block.memory.release();
      }
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  Block take(std::size_t bytes) {
    const auto found = std::ranges::find_if(free, [bytes](const Block& block) {
      return block.bytes >= bytes && (block.used == nullptr || block.used->is_reached());
    });
    if (found == free.end()) return {std::make_unique<std::byte[]>(bytes), bytes};
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
    settle();
    if (is_under_way_ || is_lost_) {
      abandon();
      return;
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
    bool is_after_start = false;
    while (!copying_.empty()) {
      shared_->use.runtime->synchronize(copying_.back(), shared_->use.stream);
      copying_.pop_back();
      is_after_start = true;
    }
    if (results_.empty() || is_after_start) return;
    begun_ = std::make_unique<const OwnEvent>(shared_->use.runtime, results_.front().device);
    begun_->record(shared_->use.stream);
  }
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }
  // Makes them. Until they are told to be done, they use the memory, unless they are refused before anything happened.
  template <class Make>
  auto make(const Make& make) {
    is_under_way_ = true;
    try {
      return make();
    } catch (const InvalidArgument&) {
      is_under_way_ = false;
      throw;
    } catch (const Unsupported&) {
      is_under_way_ = false;
      throw;
    }
  }
  void done() { is_under_way_ = false; }
  // Puts what they got into the stream, once; then, and later, the stream that is the caller's meets it.
  void bring_back() {
    if (results_.empty()) return;
    Runtime& runtime = *shared_->use.runtime;
    const int device = results_.front().device;
    if (done_ != nullptr) return runtime.wait(device, shared_->use.stream, done_->get());
    copying_.push_back(device);
    try {
      if (begun_ != nullptr) runtime.wait(device, shared_->use.stream, begun_->get());
      for (const Result& result : results_)
        runtime.copy(device, result.to, result.from, result.bytes, shared_->use.stream);
      auto after = std::make_shared<const OwnEvent>(shared_->use.runtime, device);
      after->record(shared_->use.stream);
      done_ = std::move(after);
    } catch (const std::exception&) {
      settle();  // now, while this stream is the caller's
      throw;
    }
    copying_.clear();
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
      if (!is_root) results_.push_back({device.index, out.data, blocks_.back().memory.get(), out.bytes()});
    }
    calls_.push_back(call);
  }
  // No copy in the stream of now uses the memory any more.
  void settle() noexcept {
    for (const int device : copying_) {
      try {
        shared_->use.runtime->synchronize(device, shared_->use.stream);
      } catch (const std::exception&) {
        is_lost_ = true;
      }
    }
    copying_.clear();
  }
  // Of a call that was given up: whoever has it may use the memory until the process ends.
  void abandon() noexcept {
    for (Shared::Block& block : blocks_) (void)block.memory.release();
  }
  std::byte* place(std::size_t bytes) {
    blocks_.push_back(shared_->take(bytes));
    return blocks_.back().memory.get();
  }
  std::byte* fetched(const void* from, std::size_t bytes, int device) {
    std::byte* const to = place(bytes);
    if (std::ranges::count(copying_, device) == 0) copying_.push_back(device);
    if (bytes > 0) shared_->use.runtime->copy(device, to, from, bytes, shared_->use.stream);
    return to;
  }

  std::shared_ptr<Shared> shared_;
  std::vector<Call> calls_;
  std::vector<Shared::Block> blocks_;
  std::vector<int>
      copying_;  // devices to and from which copies are under way, in the stream of now, that nothing tells the end of
  std::vector<Result> results_;
  std::shared_ptr<const OwnEvent> done_;   // after what was brought back
  std::unique_ptr<const OwnEvent> begun_;  // in the stream of the start, where nothing else has waited for that
  bool is_under_way_ = false;              // the calls
  bool is_lost_ = false;                   // nobody can say when a copy ends
};

class HostStaging::StagedWork final : public comm::Work::State {
 public:
  StagedWork(std::unique_ptr<Staged> staged, comm::Work inner) : staged_(std::move(staged)), inner_(std::move(inner)) {}
  bool test() override {
    if (!inner_.test()) return false;
    if (!is_brought_back_) bring_back();
    return staged_->is_brought_back();
  }
  void wait(comm::Timeout timeout) override {
    inner_.wait(timeout);
    bring_back();
  }
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  void bring_back() {
    staged_->done();
    staged_->bring_back();
    is_brought_back_ = true;
  }

  std::unique_ptr<Staged> staged_;  // goes last: the call is given up before its memory is
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
  for (const auto of_host : {comm::Capability::registered_memory, comm::Capability::allocated_memory})
    capabilities_.claims.erase(of_host);
}

HostStaging::HostStaging(std::unique_ptr<comm::Communicator> inner, DeviceUse use)
    : HostStaging(*inner, std::move(use)) {
  owned_ = std::move(inner);
}

HostStaging::~HostStaging() = default;

void HostStaging::use_stream(void* stream) { shared_->use.stream = stream; }

void HostStaging::make_staged(const Call& call, const std::function<void(const Call&)>& make) {
  Staged staged(shared_);
  staged.fetch(std::span(&call, 1), rank());
  staged.make([&] { make(staged.calls().front()); });
  staged.done();
  staged.bring_back();
}

void HostStaging::do_run(const Call& call, comm::Timeout timeout) {
  make_staged(call, [&](const Call& there) { inner_.run(there, timeout); });
}

void HostStaging::do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) {
  const Call buffers{.operation = call.operation, .op = call.op, .in = call.in, .out = call.out};
  make_staged(buffers, [&](const Call& there) {
    comm::UnevenCall uneven = call;
    uneven.in = there.in;
    uneven.out = there.out;
    inner_.run_uneven(uneven, timeout);
  });
}

void HostStaging::do_run_scaled(const Call& call, double factor, comm::Timeout timeout) {
  make_staged(call, [&](const Call& there) { inner_.run_scaled(there, factor, timeout); });
}

// What lies between the rows of an output must stay, and copies to and fro would change it.
void HostStaging::do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) {
  for (const comm::Device device : {call.call.in.device, call.call.out.device})
    if (device.kind != comm::Device::Kind::cpu)
      throw Unsupported(fmt::format("{}: memory on {} is not staged in rows, only the host's has them",
                                    describe(call, size()), name_of(device)));
  inner_.run_strided(call, timeout);
}

// A put reaches memory without a call of its owner, who would have to copy it to the device.
std::unique_ptr<comm::Window> HostStaging::do_create_window(comm::Buffer memory, comm::Timeout timeout) {
  if (memory.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("create_window: memory on {} is not staged, only the host's can be a window",
                                  name_of(memory.device)));
  return inner_.create_window(memory, timeout);
}

comm::Work HostStaging::do_start(std::span<const Call> calls) {
  auto staged = std::make_unique<Staged>(shared_);
  staged->fetch(calls, rank());
  comm::Work inner = staged->make([&] { return inner_.start(staged->calls()); });
  return comm::Work(std::make_unique<StagedWork>(std::move(staged), std::move(inner)));
}

std::unique_ptr<comm::Communicator> HostStaging::do_create_group(std::span<const int> ranks) {
  return std::make_unique<HostStaging>(inner_.create_group(ranks), shared_->use);
}

std::unique_ptr<comm::Communicator> HostStaging::do_shrink(std::span<const int> excluded) {
  return std::make_unique<HostStaging>(inner_.shrink(excluded), shared_->use);
}

std::string HostStaging::do_invite() { return inner_.invite(); }

std::unique_ptr<comm::Communicator> HostStaging::do_grow(const std::string& invitation,
                                                         std::span<const int> newcomers) {
  return std::make_unique<HostStaging>(inner_.grow(invitation, newcomers), shared_->use);
}

std::unique_ptr<comm::Communicator> HostStaging::do_join(const std::string& invitation,
                                                         std::span<const int> newcomers) {
  return std::make_unique<HostStaging>(inner_.join(invitation, newcomers), shared_->use);
}

}  // namespace plumbline::device
