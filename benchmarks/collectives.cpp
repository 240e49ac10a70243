#include "benchmarks/collectives.hpp"

#include <algorithm>

#include "benchmarks/answers.hpp"
#include "benchmarks/memory.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/kernels.hpp"

namespace plumbline::bench {
namespace {

using comm::Call;
using comm::Communicator;
using device::MemorySpace;

// Repeats one call. The inputs are zero, for an in-place reduction that is repeated must not overflow; the check makes
// one call on numbers that depend on rank and index.
class CallOperation final : public Operation {
 public:
  CallOperation(Communicator& world, const MemorySpace& place, Call call, bool in_place)
      : world_(world),
        call_(call),
        in_(place, call.in.count),
        out_(place, in_place ? 0 : call.out.count),
        in_place_(in_place) {
    call_.in.data = in_.data();
    call_.out.data = in_place ? in_.data() : out_.data();
    call_.in.device = call_.out.device = place.device();
  }
  void run() override { world_.run(call_); }
  [[nodiscard]] std::int64_t bytes() const override { return 4 * std::max(call_.in.count, call_.out.count); }
  std::optional<bool> check() override {
    if (bytes() == 0) return std::nullopt;
    const Memory& result = in_place_ ? in_ : out_;
    give(world_, call_, in_, result);
    run();
    const bool right = is_answer(world_, call_, result);
    in_.fill(0);
    out_.fill(0);
    return right;
  }

 private:
  Communicator& world_;
  Call call_;
  Memory in_, out_;
  bool in_place_;
};

// A message from rank 0 to rank 1 and back.
class PingPong final : public Operation {
 public:
  PingPong(Communicator& world, const MemorySpace& place, std::int64_t elements)
      : world_(world), memory_(place, elements) {}
  void run() override {
    if (world_.rank() > 1) return;
    const int peer = 1 - world_.rank();
    if (world_.rank() == 0) world_.send(memory_.buffer(), peer);
    world_.recv(memory_.buffer(), peer);
    if (world_.rank() == 1) world_.send(memory_.buffer(), peer);
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(memory_.bytes()); }
  // Rank 1 sends back what rank 0 has forgotten meanwhile.
  std::optional<bool> check() override {
    if (bytes() == 0) return std::nullopt;
    if (world_.rank() > 1) return true;
    // Another number at each place, and others at the next check.
    const std::vector<std::byte> sent = given_by(++checks_ % kDifferent, kDifferent, comm::DType::f32);
    if (world_.rank() == 1) {
      memory_.fill(-1);
      run();
      return memory_.has(0, memory_.elements(), sent);
    }
    memory_.put(0, memory_.elements(), sent);
    world_.send(memory_.buffer(), 1);
    memory_.fill(-1);
    world_.recv(memory_.buffer(), 1);
    return memory_.has(0, memory_.elements(), sent);
  }

 private:
  static constexpr int kDifferent = 8;
  Communicator& world_;
  Memory memory_;
  int checks_ = 0;
};

// Every rank copies its bytes from one buffer of its own to another, the limit of what shared memory, or a device's,
// can do.
class Copy final : public Operation {
 public:
  Copy(const MemorySpace& place, std::int64_t bytes, bool streaming)
      : from_(place, (bytes + 3) / 4), to_(place, (bytes + 3) / 4), streaming_(streaming) {}
  void run() override {
    if (!from_.place().is_host()) return from_.place().copy(to_.data(), from_.data(), from_.bytes());
    comm::local::kernels().copy(to_.data(), from_.data(), from_.bytes(), streaming_);
    asm volatile("" : : "r"(to_.data()) : "memory");
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(from_.bytes()); }
  std::optional<bool> check() override {
    const std::vector<std::byte> copied = given_by(0, 1, comm::DType::f32);
    from_.put(0, from_.elements(), copied);
    to_.fill(-1);
    run();
    return to_.has(0, to_.elements(), copied);
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
            const Call call{.operation = operation,
                            .root = 0,
                            .in = {nullptr, in, comm::DType::f32},
                            .out = {nullptr, out, comm::DType::f32}};
            return std::make_unique<CallOperation>(world, parameters.place, call, in_place);
          }};
}

}  // namespace

void add_collectives(Registry& registry) {
  using enum comm::Operation;
  registry.push_back(call_benchmark("collectives.all_reduce", "sum of f32, out of place", all_reduce, {}, false, ring));
  registry.push_back(
      call_benchmark("collectives.all_reduce_in_place", "sum of f32, in place", all_reduce, {}, true, ring));
  registry.push_back(call_benchmark("collectives.reduce", "sum of f32, to rank 0", reduce, {}, false, one));
  registry.push_back(call_benchmark("collectives.reduce_scatter", "sum of f32; bytes of the input", reduce_scatter,
                                    {.split_out = true}, false, half_ring));
  registry.push_back(call_benchmark("collectives.all_gather", "bytes of the output", all_gather, {.split_in = true},
                                    false, half_ring));
  registry.push_back(call_benchmark("collectives.gather", "to rank 0; bytes of the output", gather, {.split_in = true},
                                    false, half_ring));
  registry.push_back(call_benchmark("collectives.scatter", "from rank 0; bytes of the input", scatter,
                                    {.split_out = true}, false, half_ring));
  registry.push_back(call_benchmark("collectives.all_to_all", "bytes of the input", all_to_all, {}, false, half_ring));
  registry.push_back(call_benchmark("collectives.broadcast", "from rank 0", broadcast, {}, true, one));
  registry.push_back({.name = "collectives.send_recv",
                      .title = "ping-pong of ranks 0 and 1, the round trip",
                      .least_world = 2,
                      .busbw_factor = both_ways,
                      .prepare = [](Communicator& world, const Parameters& parameters) -> std::unique_ptr<Operation> {
                        return std::make_unique<PingPong>(world, parameters.place, (parameters.bytes + 3) / 4);
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
         .only_on_host = streaming ? "its copies go around the processor's cache" : "",
         .busbw_factor = one,
         .prepare = [streaming](Communicator&, const Parameters& parameters) -> std::unique_ptr<Operation> {
           return std::make_unique<Copy>(parameters.place, parameters.bytes, streaming);
         }});
}

}  // namespace plumbline::bench
