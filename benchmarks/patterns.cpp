// Messages between several ranks at once, and collectives of blocks of different lengths.
#include <numeric>
#include <vector>

#include "benchmarks/answers.hpp"
#include "benchmarks/collectives.hpp"
#include "benchmarks/memory.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::UnevenCall;
using device::MemorySpace;

void require_f32(const Parameters& parameters) {
  if (parameters.dtype != DType::f32) throw Unsupported("the benchmark of collectives takes dtype f32");
}

// To which ranks a rank sends, and from which it receives, a message each.
struct Peers {
  std::vector<int> to, from;
};
using Pattern = Peers (*)(int rank, int world);

Peers each_other(int rank, int) { return rank > 1 ? Peers{} : Peers{{1 - rank}, {1 - rank}}; }
Peers next_rank(int rank, int world) { return {{(rank + 1) % world}, {(rank + world - 1) % world}}; }
Peers partner(int rank, int world) {
  const int half = world / 2;
  if (rank < half) return {{rank + half}, {}};
  return rank < 2 * half ? Peers{{}, {rank - half}} : Peers{};
}

class Messages final : public Operation {
 public:
  Messages(Communicator& world, const MemorySpace& place, std::int64_t elements, Peers peers)
      : world_(world),
        peers_(std::move(peers)),
        in_(place, elements),
        out_(place, elements * static_cast<std::int64_t>(peers_.from.size())) {
    for (const int peer : peers_.to)
      calls_.push_back({.operation = comm::Operation::send, .root = peer, .in = in_.buffer()});
    for (std::size_t i = 0; i < peers_.from.size(); ++i)
      calls_.push_back({.operation = comm::Operation::recv, .root = peers_.from[i], .out = part(i)});
  }
  void run() override {
    if (!calls_.empty()) world_.start(calls_).wait();
  }
  [[nodiscard]] std::int64_t bytes() const override { return static_cast<std::int64_t>(in_.bytes()); }
  std::optional<bool> check() override {
    if (bytes() == 0) return std::nullopt;
    in_.put(0, in_.elements(), given_by(world_.rank(), world_.size(), DType::f32));
    out_.fill(-1);
    run();
    for (std::size_t i = 0; i < peers_.from.size(); ++i)
      if (!out_.has(begin_of(i), in_.elements(), given_by(peers_.from[i], world_.size(), DType::f32))) return false;
    return true;
  }

 private:
  [[nodiscard]] std::int64_t begin_of(std::size_t i) const { return in_.elements() * static_cast<std::int64_t>(i); }
  [[nodiscard]] comm::Buffer part(std::size_t i) const { return out_.part(begin_of(i), in_.elements()); }

  Communicator& world_;
  Peers peers_;
  Memory in_, out_;
  std::vector<Call> calls_;
};

// Of every n (n + 1) / 2 elements rank r has r + 1; of those that rank r gives in an all_to_all, rank p gets
// 1 + (r + p) mod n.
std::vector<std::int64_t> blocks(std::int64_t elements, int world, int shift) {
  const std::int64_t parts = std::int64_t{world} * (world + 1) / 2;
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < world; ++rank)
    counts.push_back((elements + parts - 1) / parts * (1 + (rank + shift) % world));
  return counts;
}

class UnevenBlocks final : public Operation {
 public:
  UnevenBlocks(Communicator& world, const MemorySpace& place, comm::Operation operation, std::int64_t elements)
      : world_(world),
        counts_(blocks(elements, world.size(), operation == comm::Operation::all_to_all ? world.rank() : 0)),
        all_(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0})),
        in_(place, operation == comm::Operation::all_gather ? own() : all_),
        out_(place, operation == comm::Operation::reduce_scatter ? own() : all_),
        call_{.operation = operation, .in = in_.buffer(), .out = out_.buffer()} {
    if (operation != comm::Operation::all_gather) call_.in_counts = counts_;
    if (operation != comm::Operation::reduce_scatter) call_.out_counts = counts_;
  }
  void run() override { world_.run_uneven(call_); }
  [[nodiscard]] std::int64_t bytes() const override { return 4 * all_; }
  std::optional<bool> check() override {
    if (all_ == 0) return std::nullopt;
    in_.put(0, in_.elements(), given_by(world_.rank(), world_.size(), DType::f32));
    out_.fill(-1);
    run();
    const bool right = is_right();
    in_.fill(0);
    return right;
  }

 private:
  [[nodiscard]] std::int64_t own() const { return counts_[static_cast<std::size_t>(world_.rank())]; }
  [[nodiscard]] bool is_right() const {
    const int me = world_.rank(), ranks = world_.size();
    if (call_.operation == comm::Operation::reduce_scatter)
      return out_.has(0, out_.elements(), sums_of(ranks, DType::f32), comm::begin_of_block(counts_, me));
    for (int rank = 0; rank < ranks; ++rank) {
      // Where in its input the rank has what it gives to this one.
      const std::int64_t from =
          call_.operation == comm::Operation::all_gather ? 0 : comm::begin_of_block(blocks(all_, ranks, rank), me);
      if (!out_.has(comm::begin_of_block(counts_, rank), counts_[static_cast<std::size_t>(rank)],
                    given_by(rank, ranks, DType::f32), from))
        return false;
    }
    return true;
  }

  Communicator& world_;
  std::vector<std::int64_t> counts_;
  std::int64_t all_;
  Memory in_, out_;
  UnevenCall call_;
};

void add_messages(Registry& registry, std::string name, std::string title, Pattern pattern, double (*factor)(int)) {
  registry.push_back({.name = std::move(name),
                      .title = std::move(title),
                      .least_world = 2,
                      .busbw_factor = factor,
                      .prepare = [pattern](Communicator& world, const Parameters& parameters) {
                        require_f32(parameters);
                        return std::make_unique<Messages>(world, parameters.place, (parameters.bytes + 3) / 4,
                                                          pattern(world.rank(), world.size()));
                      }});
}

void add_uneven(Registry& registry, std::string name, std::string title, comm::Operation operation) {
  registry.push_back({.name = std::move(name),
                      .title = std::move(title),
                      .busbw_factor = [](int world) { return 1.0 * (world - 1) / world; },
                      .prepare =
                          [operation](Communicator& world, const Parameters& parameters) {
                            require_f32(parameters);
                            return std::make_unique<UnevenBlocks>(world, parameters.place, operation,
                                                                  (parameters.bytes + 3) / 4);
                          }});
}

}  // namespace

void add_patterns(Registry& registry) {
  const auto one = [](int) { return 1.0; };
  add_messages(registry, "messages.both_ways", "ranks 0 and 1 send to each other at once", each_other, one);
  add_messages(registry, "messages.ring", "each rank sends to the next one", next_rank, one);
  add_messages(registry, "messages.pairs", "each rank of the lower half sends to one of the upper half", partner,
               [](int world) { return 1.0 * (world / 2); });
  using enum comm::Operation;
  add_uneven(registry, "uneven.all_gather", "rank r gives r + 1 parts; bytes of the output", all_gather);
  add_uneven(registry, "uneven.reduce_scatter", "rank r gets r + 1 parts; bytes of the input", reduce_scatter);
  add_uneven(registry, "uneven.all_to_all", "rank r gives 1 + (r + p) mod n parts to rank p; bytes of the input",
             all_to_all);
}

}  // namespace plumbline::bench
