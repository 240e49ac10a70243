#include "benchmarks/collectives.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/kernels.hpp"

namespace plumbline::bench {
namespace {

using comm::Buffer;
using comm::Call;
using comm::Communicator;
using comm::ConstBuffer;

// Page-aligned, zeroed (so that every page is there before the clock starts).
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096))) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

// Repeats one call. The inputs are zero, for an in-place reduction that is repeated must not overflow; the check makes one
// call on ones.
class CallOperation final : public Operation {
 public:
  CallOperation(Communicator& world, Call call, std::size_t in_bytes, std::size_t out_bytes, bool in_place)
      : world_(world), call_(call), in_(in_bytes), out_(in_place ? 0 : out_bytes), in_place_(in_place) {
    call_.in.data = in_.data();
    call_.out.data = in_place ? in_.data() : out_.data();
  }
  void run() override { world_.run(call_); }
  [[nodiscard]] std::int64_t bytes() const override { return 4 * std::max(call_.in.count, call_.out.count); }
  std::optional<bool> check() override {
    if (bytes() == 0) return std::nullopt;
    const bool receives = call_.operation == comm::Operation::broadcast && world_.rank() != call_.root;
    fill(in_, receives ? 0 : 1);
    fill(out_, 0);
    run();
    const bool right = all_are(in_place_ ? in_ : out_, is_reduction(call_.operation) ? world_.size() : 1);
    fill(in_, 0);
    fill(out_, 0);
    return right;
  }

 private:
  // Small whole numbers as f32; other dtypes are moved, not added, in what this benchmark measures.
  void fill(const Memory& memory, float value) {
    for (std::size_t at = 0; at + sizeof value <= memory.bytes(); at += sizeof value)
      std::memcpy(memory.data() + at, &value, sizeof value);
  }
  static bool all_are(const Memory& memory, int expected) {
    const auto wanted = static_cast<float>(expected);
    for (std::size_t at = 0; at + sizeof wanted <= memory.bytes(); at += sizeof wanted)
      if (std::memcmp(memory.data() + at, &wanted, sizeof wanted) != 0) return false;
    return true;
  }
  Communicator& world_;
  Call call_;
  Memory in_, out_;
  bool in_place_;
};

// A message from rank 0 to rank 1 and back.
class PingPong final : public Operation {
 public:
  PingPong(Communicator& world, std::int64_t elements)
      : world_(world), memory_(static_cast<std::size_t>(elements) * 4), elements_(elements) {}
  void run() override {
    if (world_.rank() > 1) return;
    const int peer = 1 - world_.rank();
    if (world_.rank() == 0) world_.send({memory_.data(), elements_}, peer);
    world_.recv({memory_.data(), elements_}, peer);
    if (world_.rank() == 1) world_.send({memory_.data(), elements_}, peer);
  }
  [[nodiscard]] std::int64_t bytes() const override { return elements_ * 4; }
  // Rank 1 sends back what rank 0 has forgotten meanwhile.
  std::optional<bool> check() override {
    if (elements_ == 0) return std::nullopt;
    if (world_.rank() > 1) return true;
    const float value = static_cast<float>(++checks_);
    if (world_.rank() == 1) {
      set_last(0);
      run();
      return last() == value;
    }
    set_last(value);
    world_.send({memory_.data(), elements_}, 1);
    set_last(0);
    world_.recv({memory_.data(), elements_}, 1);
    return last() == value;
  }

 private:
  void set_last(float value) { std::memcpy(memory_.data() + (elements_ - 1) * 4, &value, 4); }
  [[nodiscard]] float last() const {
    float value = 0;
    std::memcpy(&value, memory_.data() + (elements_ - 1) * 4, 4);
    return value;
  }
  Communicator& world_;
  Memory memory_;
  std::int64_t elements_;
  int checks_ = 0;
};

// Every rank copies its bytes from one buffer of its own to another, the limit of what shared memory can do.
class Copy final : public Operation {
 public:
  Copy(std::int64_t bytes, bool streaming)
      : from_(static_cast<std::size_t>(bytes)), to_(static_cast<std::size_t>(bytes)), streaming_(streaming) {}
  void run() override {
    comm::local::kernels().copy(to_.data(), from_.data(), from_.bytes(), streaming_);
    asm volatile("" : : "r"(to_.data()) : "memory");
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(from_.bytes()); }
  std::optional<bool> check() override {
    std::memset(from_.data(), 7, from_.bytes());
    std::memset(to_.data(), 0, to_.bytes());
    run();
    return std::memcmp(from_.data(), to_.data(), from_.bytes()) == 0;
  }

 private:
  Memory from_, to_;
  bool streaming_;
};

class Barrier final : public Operation {
 public:
  explicit Barrier(Communicator& world) : world_(world) {}
  void run() override { world_.barrier(); }
  std::optional<bool> check() override { return std::nullopt; }

 private:
  Communicator& world_;
};

double ring(int world) { return 2.0 * (world - 1) / world; }
double half_ring(int world) { return 1.0 * (world - 1) / world; }
double one(int) { return 1; }
double both_ways(int) { return 2; }  // two messages in the time of a round trip

// Which side has only a rank's share of the bytes.
struct Layout {
  bool split_in = false, split_out = false;
};

Benchmark call_benchmark(std::string name, std::string title, comm::Operation operation, Layout layout, bool in_place,
                         double (*factor)(int)) {
  return {.name = std::move(name),
          .title = std::move(title),
          .busbw_factor = factor,
          .prepare = [=](Communicator& world, const Parameters& parameters) -> std::unique_ptr<Operation> {
            if (parameters.dtype != comm::DType::f32) throw Unsupported("the benchmark of collectives takes dtype f32");
            const std::int64_t total = (parameters.bytes + 3) / 4;
            const std::int64_t share = (total + world.size() - 1) / world.size();
            const bool splits = layout.split_in || layout.split_out || operation == comm::Operation::all_to_all;
            const std::int64_t whole = splits ? share * world.size() : total;
            const std::int64_t in = layout.split_in ? share : whole;
            const std::int64_t out = layout.split_out ? share : whole;
            const Call call{.operation = operation, .root = 0, .in = {nullptr, in}, .out = {nullptr, out}};
            return std::make_unique<CallOperation>(world, call, static_cast<std::size_t>(in) * 4,
                                                   static_cast<std::size_t>(out) * 4, in_place);
          }};
}

}  // namespace

void add_collectives(Registry& registry) {
  using enum comm::Operation;
  registry.push_back(call_benchmark("collectives.all_reduce", "sum of f32, out of place", all_reduce, {}, false, ring));
  registry.push_back(
      call_benchmark("collectives.all_reduce_in_place", "sum of f32, in place", all_reduce, {}, true, ring));
  registry.push_back(call_benchmark("collectives.reduce_scatter", "sum of f32; bytes of the input", reduce_scatter,
                                    {.split_out = true}, false, half_ring));
  registry.push_back(call_benchmark("collectives.all_gather", "bytes of the output", all_gather, {.split_in = true},
                                    false, half_ring));
  registry.push_back(call_benchmark("collectives.all_to_all", "bytes of the input", all_to_all, {}, false, half_ring));
  registry.push_back(call_benchmark("collectives.broadcast", "from rank 0", broadcast, {}, true, one));
  registry.push_back({.name = "collectives.send_recv",
                      .title = "ping-pong of ranks 0 and 1, the round trip",
                      .least_world = 2,
                      .busbw_factor = both_ways,
                      .prepare = [](Communicator& world, const Parameters& parameters) -> std::unique_ptr<Operation> {
                        return std::make_unique<PingPong>(world, (parameters.bytes + 3) / 4);
                      }});
  registry.push_back({.name = "collectives.barrier",
                      .title = "all ranks",
                      .has_sizes = false,
                      .busbw_factor = {},
                      .prepare = [](Communicator& world, const Parameters&) -> std::unique_ptr<Operation> {
                        return std::make_unique<Barrier>(world);
                      }});
  for (const bool streaming : {false, true})
    registry.push_back(
        {.name = streaming ? "memory.copy_streaming" : "memory.copy",
         .title = streaming ? "all ranks copy at once, around the cache" : "all ranks copy at once, memcpy",
         .busbw_factor = one,
         .prepare = [streaming](Communicator&, const Parameters& parameters) -> std::unique_ptr<Operation> {
           return std::make_unique<Copy>(parameters.bytes, streaming);
         }});
}

}  // namespace plumbline::bench
