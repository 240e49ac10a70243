// harness/subject/module_calls_test.hpp: what calls do over any module, written once for the tests of all of them.
//
// Model   A module's tests run in every process of its job, in lock-step. Its kind of memory is the parameter: Elements
//         of a dtype, made of values, or of a count and poison; they compare with what is around them. Values are small
//         whole numbers, so that results are exact in every dtype.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::subject::module_test {

/// The three ways of making a call; a module may ask its runtime differently in each.
enum class Mode { blocking, started, limited };
inline constexpr std::array kModes{Mode::blocking, Mode::started, Mode::limited};

inline void make(comm::Communicator& world, const comm::Call& call, Mode mode) {
  if (mode == Mode::blocking) return world.run(call);
  if (mode == Mode::started) return world.start(call).wait();
  world.run(call, std::chrono::seconds(60));
}

/// Small numbers as elements of any type: exact in all of them.
inline void put(std::byte* to, comm::DType dtype, double value) {
  const auto copy = [to](auto element) { std::memcpy(to, &element, sizeof element); };
  switch (dtype) {
    case comm::DType::f16:
      return copy(comm::to_float16(static_cast<float>(value)));
    case comm::DType::bf16:
      return copy(comm::to_bfloat16(static_cast<float>(value)));
    case comm::DType::f32:
      return copy(static_cast<float>(value));
    case comm::DType::f64:
      return copy(value);
    case comm::DType::i32:
      return copy(static_cast<std::int32_t>(value));
    case comm::DType::i64:
      return copy(static_cast<std::int64_t>(value));
    case comm::DType::u8:
      return copy(static_cast<std::uint8_t>(value));
    default:
      FAIL() << "elements of " << comm::name_of(dtype) << " are made elsewhere";
  }
}

/// Rank's element i, 1 to 3: sums and products over five ranks are exact in every type.
inline double given(int rank, std::size_t i) {
  return 1.0 + static_cast<double>((static_cast<std::size_t>(rank) * 2 + i) % 3);
}

/// Elements [first, first + count) of what `rank` gives, times `factor`.
inline std::vector<double> gift(int rank, std::size_t count, std::size_t first = 0, double factor = 1) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * given(rank, first + i);
  return values;
}

/// What the ranks' elements [first, first + count) make. For avg each rank gives its elements times the number of
/// ranks, so the mean is the sum of the elements.
inline std::vector<double> folded(comm::ReduceOp op, int ranks, std::size_t count, std::size_t first = 0) {
  using comm::ReduceOp;
  std::vector<double> result = gift(0, count, first);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) {
      const double value = given(rank, first + i);
      if (op == ReduceOp::sum || op == ReduceOp::avg) result[i] += value;
      if (op == ReduceOp::product) result[i] *= value;
      if (op == ReduceOp::min) result[i] = std::min(result[i], value);
      if (op == ReduceOp::max) result[i] = std::max(result[i], value);
    }
  return result;
}

/// Rank's element i of what is only moved: of eight ranks that are near each other, no two have the same.
inline double moved(int rank, std::size_t i) {
  return 1.0 + static_cast<double>((static_cast<std::size_t>(rank) * 31 + i) % 97);
}
inline std::vector<double> load(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = moved(rank, first + i);
  return values;
}
/// Element blocks that the ranks give, one after the other: block r is elements [first, first + count) of rank r.
inline std::vector<double> blocks(int ranks, std::size_t count, std::size_t first = 0) {
  std::vector<double> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto block = load(rank, count, first);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

/// Which calls a module's tests make.
struct Range {
  std::vector<comm::DType> dtypes;
  std::vector<std::size_t> counts;
  std::vector<Mode> modes{kModes.begin(), kModes.end()};
};

template <class Elements>
class Calls {
 public:
  Calls(comm::Communicator& world, Range range) : world_(world), range_(std::move(range)) {}

  void all_reduce_gives_every_rank_the_result() const {
    each_reduction([&](Mode mode, comm::DType dtype, comm::ReduceOp op, std::size_t c) {
      const double factor = op == comm::ReduceOp::avg ? n : 1;
      Elements in(dtype, gift(me, c, 0, factor));
      Elements out(dtype, c);
      make(world_, {.operation = Operation::all_reduce, .op = op, .in = in.view(), .out = out.view()}, mode);
      EXPECT_TRUE(out == Elements(dtype, folded(op, n, c)));
      EXPECT_TRUE(in == Elements(dtype, gift(me, c, 0, factor)));
      make(world_, {.operation = Operation::all_reduce, .op = op, .in = in.view(), .out = in.view()}, mode);
      EXPECT_TRUE(in == Elements(dtype, folded(op, n, c)));
    });
  }

  void reduce_gives_the_root_the_result() const {
    each_reduction([&](Mode mode, comm::DType dtype, comm::ReduceOp op, std::size_t c) {
      const double factor = op == comm::ReduceOp::avg ? n : 1;
      for (int root = 0; root < n; ++root) {
        Elements in(dtype, gift(me, c, 0, factor));
        Elements out(dtype, c);
        const comm::Buffer to = me == root ? out.view() : comm::Buffer{};
        make(world_, {.operation = Operation::reduce, .op = op, .root = root, .in = in.view(), .out = to}, mode);
        EXPECT_TRUE(out == (me == root ? Elements(dtype, folded(op, n, c)) : Elements(dtype, c)));
        EXPECT_TRUE(in == Elements(dtype, gift(me, c, 0, factor)));
        make(world_, {.operation = Operation::reduce, .op = op, .root = root, .in = in.view(), .out = in.view()}, mode);
        EXPECT_TRUE(in == Elements(dtype, me == root ? folded(op, n, c) : gift(me, c, 0, factor)));
      }
    });
  }

  void reduce_scatter_gives_each_rank_its_part() const {
    each_reduction([&](Mode mode, comm::DType dtype, comm::ReduceOp op, std::size_t c) {
      const double factor = op == comm::ReduceOp::avg ? n : 1;
      const auto mine = gift(me, c * un, 0, factor);
      const auto part = folded(op, n, c, um * c);
      Elements in(dtype, mine);
      Elements out(dtype, c);
      make(world_, {.operation = Operation::reduce_scatter, .op = op, .in = in.view(), .out = out.view()}, mode);
      EXPECT_TRUE(out == Elements(dtype, part));
      EXPECT_TRUE(in == Elements(dtype, mine));
      make(world_, {.operation = Operation::reduce_scatter, .op = op, .in = in.view(), .out = in.part(um * c, c)},
           mode);
      auto expected = mine;
      std::ranges::copy(part, expected.begin() + static_cast<std::ptrdiff_t>(um * c));
      EXPECT_TRUE(in == Elements(dtype, expected)) << "in place the other parts stay";
    });
  }

  void broadcast_gives_every_rank_the_roots_elements() const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t c) {
      for (int root = 0; root < n; ++root) {
        Elements data(dtype, load(me, c));
        make(world_, {.operation = Operation::broadcast, .root = root, .out = data.view()}, mode);
        EXPECT_TRUE(data == Elements(dtype, load(root, c)));
      }
    });
  }

  void all_gather_gives_every_rank_all_blocks() const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t c) {
      Elements in(dtype, load(me, c));
      Elements out(dtype, c * un);
      make(world_, {.operation = Operation::all_gather, .in = in.view(), .out = out.view()}, mode);
      EXPECT_TRUE(out == Elements(dtype, blocks(n, c)));
      EXPECT_TRUE(in == Elements(dtype, load(me, c)));
      Elements both(dtype, in_its_block(c));
      make(world_, {.operation = Operation::all_gather, .in = both.part(um * c, c), .out = both.view()}, mode);
      EXPECT_TRUE(both == Elements(dtype, blocks(n, c)));
    });
  }

  void gather_gives_the_root_all_blocks() const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t c) {
      for (int root = 0; root < n; ++root) {
        Elements in(dtype, load(me, c));
        Elements out(dtype, c * un);
        const comm::Buffer to = me == root ? out.view() : comm::Buffer{};
        make(world_, {.operation = Operation::gather, .root = root, .in = in.view(), .out = to}, mode);
        EXPECT_TRUE(out == (me == root ? Elements(dtype, blocks(n, c)) : Elements(dtype, c * un)));
        EXPECT_TRUE(in == Elements(dtype, load(me, c)));
        Elements both(dtype, in_its_block(c));
        const comm::Buffer into = me == root ? both.view() : comm::Buffer{};
        make(world_, {.operation = Operation::gather, .root = root, .in = both.part(um * c, c), .out = into}, mode);
        EXPECT_TRUE(both == Elements(dtype, me == root ? blocks(n, c) : in_its_block(c)));
      }
    });
  }

  void scatter_gives_each_rank_its_block() const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t c) {
      for (int root = 0; root < n; ++root) {
        Elements in(dtype, load(root, c * un));
        Elements out(dtype, c);
        const comm::ConstBuffer from = me == root ? comm::ConstBuffer(in.view()) : comm::ConstBuffer{};
        make(world_, {.operation = Operation::scatter, .root = root, .in = from, .out = out.view()}, mode);
        EXPECT_TRUE(out == Elements(dtype, load(root, c, um * c)));
        const comm::Buffer to = me == root ? in.part(um * c, c) : out.view();
        make(world_, {.operation = Operation::scatter, .root = root, .in = from, .out = to}, mode);
        EXPECT_TRUE(in == Elements(dtype, load(root, c * un)));
        EXPECT_TRUE(out == Elements(dtype, load(root, c, um * c)));
      }
    });
  }

  void all_to_all_exchanges_blocks() const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t c) {
      Elements in(dtype, load(me, c * un));
      Elements out(dtype, c * un);
      make(world_, {.operation = Operation::all_to_all, .in = in.view(), .out = out.view()}, mode);
      EXPECT_TRUE(out == Elements(dtype, blocks(n, c, um * c)));
      EXPECT_TRUE(in == Elements(dtype, load(me, c * un)));
      make(world_, {.operation = Operation::all_to_all, .in = in.view(), .out = in.view()}, mode);
      EXPECT_TRUE(in == out);
    });
  }

  void many_are_waited_for_in_any_order() const {
    constexpr std::size_t kCalls = 60;
    std::vector<Elements> gifts, results;
    for (std::size_t i = 0; i < kCalls; ++i) {
      gifts.emplace_back(comm::DType::f32, gift(me, i * 3 % 50));
      results.emplace_back(comm::DType::f32, i * 3 % 50);
    }
    std::vector<comm::Work> works;
    for (std::size_t i = 0; i < kCalls; ++i)
      works.push_back(
          world_.start({.operation = Operation::all_reduce, .in = gifts[i].view(), .out = results[i].view()}));
    Elements between(comm::DType::i32, gift(me, 5));
    world_.all_reduce(between.view(), between.view(), comm::ReduceOp::sum);
    EXPECT_TRUE(between == Elements(comm::DType::i32, folded(comm::ReduceOp::sum, n, 5)));
    for (std::size_t i = 0; i < kCalls; ++i) works[(i * 7 + um) % kCalls].wait();
    for (std::size_t i = 0; i < kCalls; ++i)
      EXPECT_TRUE(results[i] == Elements(comm::DType::f32, folded(comm::ReduceOp::sum, n, i * 3 % 50))) << i;
  }

  void messages_match_by_tag_and_in_order_around_a_ring() const {
    const int to = (me + 1) % n;  // with one rank, itself
    const int from = (me + n - 1) % n;
    for (const std::size_t c : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{50000}}) {
      constexpr auto f32 = comm::DType::f32;
      Elements first(f32, load(me, c)), second(f32, load(me, c, 1)), third(f32, load(me, c, 2));
      Elements a(f32, c), b(f32, c), d(f32, c);
      const comm::Call calls[] = {{.operation = Operation::send, .root = to, .tag = 1, .in = first.view()},
                                  {.operation = Operation::send, .root = to, .tag = 2, .in = second.view()},
                                  {.operation = Operation::send, .root = to, .tag = 1, .in = third.view()},
                                  {.operation = Operation::recv, .root = from, .tag = 2, .out = b.view()},
                                  {.operation = Operation::recv, .root = from, .tag = 1, .out = a.view()},
                                  {.operation = Operation::recv, .root = from, .tag = 1, .out = d.view()}};
      world_.start(calls).wait();
      EXPECT_TRUE(a == Elements(f32, load(from, c)));
      EXPECT_TRUE(b == Elements(f32, load(from, c, 1)));
      EXPECT_TRUE(d == Elements(f32, load(from, c, 2)));
    }
  }

  /// Calls `body` for each mode, dtype and count.
  void each_movement(const std::function<void(Mode, comm::DType, std::size_t)>& body) const {
    for (const Mode mode : range_.modes)
      for (const comm::DType dtype : range_.dtypes)
        for (const std::size_t count : range_.counts) {
          SCOPED_TRACE(testing::Message() << name_of(dtype) << " x " << count << ", mode " << static_cast<int>(mode));
          body(mode, dtype, count);
        }
  }

 private:
  using Operation = comm::Operation;

  void each_reduction(const std::function<void(Mode, comm::DType, comm::ReduceOp, std::size_t)>& body) const {
    each_movement([&](Mode mode, comm::DType dtype, std::size_t count) {
      for (const comm::ReduceOp op : comm::kAllReduceOps)
        if (is_defined(dtype, op)) {
          SCOPED_TRACE(testing::Message() << name_of(op));
          body(mode, dtype, op, count);
        }
    });
  }

  // Room for all blocks, of which this rank's is filled and the others are poisoned.
  [[nodiscard]] std::vector<double> in_its_block(std::size_t count) const {
    std::vector<double> all(count * un, 77);
    std::ranges::copy(load(me, count), all.begin() + static_cast<std::ptrdiff_t>(um * count));
    return all;
  }

  comm::Communicator& world_;
  Range range_;
  const int n = world_.size();
  const int me = world_.rank();
  const std::size_t un = static_cast<std::size_t>(n);
  const std::size_t um = static_cast<std::size_t>(me);
};

}  // namespace plumbline::subject::module_test
