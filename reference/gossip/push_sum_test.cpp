#include "reference/gossip/push_sum.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/gossip/gossip_thread.hpp"
#include "reference/gossip/simulate.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using testing::HasSubstr;

using Body = std::function<void(Communicator& nodes)>;

Buffer whole(std::vector<double>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DType::f64};
}

// Fails the call of that number, before it is made.
class FailsOnce : public comm::CommunicatorDecorator {
 public:
  FailsOnce(std::unique_ptr<Communicator> inner, int failing)
      : CommunicatorDecorator(std::move(inner)), left_(failing) {}

 protected:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (left_-- == 0) throw RuntimeFailure("the wire is out");
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override { return group; }

 private:
  int left_;
};

// Receives nothing for a while, and sends at once.
class ReceivesLate : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 protected:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (calls.front().operation == comm::Operation::recv && !std::exchange(waited_, true))
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override { return group; }

 private:
  bool waited_ = false;
};

// Any bits, infinities and NaNs among them, of any length.
TEST(TensorKernels, GiveTheSameBitsInEveryInstructionSet) {
  const TensorKernels& baseline = *all_tensor_kernels().back();
  std::mt19937_64 random(7);
  for (const TensorKernels* kernels : all_tensor_kernels())
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (const std::int64_t count : {0, 1, 7, 33, 1000}) {
        std::vector<std::uint64_t> x(static_cast<std::size_t>(count) + 1), other(x.size());
        std::ranges::generate(x, std::ref(random));
        // Numbers in every type: of two NaNs either may be the sum.
        std::ranges::generate(other, [&] { return random() & 0xbfffbfffbfffbfffu; });
        const auto made_by = [&](const TensorKernels& set) {
          std::array<std::vector<std::uint64_t>, 8> made{x, x, x, x, x, other, x, other};
          const TensorLoops& loops = set.of(dtype);
          loops.scaled_copy(made[0].data(), other.data(), count, 1.0 / 3);
          loops.add(made[1].data(), other.data(), count);
          loops.add_and_scale(made[2].data(), other.data(), count, 1.0 / 3);
          loops.divide(made[3].data(), count, 3);
          loops.meet(made[4].data(), {1, 1, 1.0 / 3}, made[5].data(), {1, 1, 1.0 / 3}, count);
          loops.meet(made[6].data(), {0.3, 0.7, 1}, made[7].data(), {0.25, 3, 0.9}, count);
          return made;
        };
        EXPECT_EQ(made_by(*kernels), made_by(baseline))
            << kernels->instruction_set << ' ' << comm::name_of(dtype) << ' ' << count;
      }
  EXPECT_THROW((void)baseline.of(DType::i32), Unsupported);
}

// Two nodes that meet have the bits of messages, of every type.
TEST(TensorKernels, MeetingIsWhatMessagesDo) {
  std::mt19937_64 random(8);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const auto& [of_a, of_b] :
         {std::pair(comm::PairFactors{1, 1, 0.5}, comm::PairFactors{1, 1, 0.5}),
          std::pair(comm::PairFactors{1, 1, 0.3}, comm::PairFactors{1, 1, 0.7}),
          std::pair(comm::PairFactors{0.3, 7.0 / 3, 1}, comm::PairFactors{0.6, 2.0 / 3, 1})}) {
      constexpr std::int64_t count = 1000;
      std::vector<std::uint64_t> a(count), b(count);
      for (auto* const x : {&a, &b}) std::ranges::generate(*x, [&] { return random() & 0xbfffbfffbfffbfffu; });
      std::vector<std::uint64_t> met_a = a, met_b = b, sent_a(count), sent_b(count);
      const auto buffer = [&](std::vector<std::uint64_t>& x) { return Buffer{x.data(), count, dtype}; };
      scale(buffer(a), of_a[0]);
      scale(buffer(b), of_b[0]);
      scaled_copy(buffer(a), buffer(sent_a), of_a[1]);
      scaled_copy(buffer(b), buffer(sent_b), of_b[1]);
      add_and_scale(buffer(a), buffer(sent_b), of_a[2]);
      add_and_scale(buffer(b), buffer(sent_a), of_b[2]);
      meet(dtype, met_a.data(), of_a, met_b.data(), of_b, count);
      EXPECT_EQ(met_a, a) << comm::name_of(dtype);
      EXPECT_EQ(met_b, b) << comm::name_of(dtype);
    }
}

// More pieces than are ever under way at once.
TEST(PushSum, SendsTheLastPieceWhereThePeerIsBehind) {
  constexpr std::int64_t length = 133 * 8192 + 5;
  comm::run_ranks(2, [](Communicator& group) {
    std::unique_ptr<Communicator> wire = group.duplicate();
    if (group.rank() == 1) wire = std::make_unique<ReceivesLate>(std::move(wire));
    PushSum push_sum(*wire, Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                     {.heartbeat = std::chrono::seconds(20), .confirms = false});
    std::vector<double> values(length, group.rank() + 1);
    push_sum.mix(std::array{whole(values)});
    EXPECT_EQ(values, std::vector<double>(length, 1.5));
  });
}

TEST(PushSum, MakesTheRoundsOfTheSimulation) {
  constexpr int nodes = 5, rounds = 9;
  const Graph star({.kind = GraphKind::star, .nodes = nodes});
  const Mixing skewed{.kind = MixingKind::skewed};
  const std::vector<double> start = random_values(nodes, 3);
  Simulation simulation(star, skewed, start);
  for (int round = 0; round < rounds; ++round) (void)simulation.step();
  for (const bool fuse : {false, true})
    comm::run_ranks(nodes, [&](Communicator& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      PushSum push_sum(group, star, skewed, {.fuse = fuse});
      std::vector<double> first{start[rank]}, second{2 * start[rank], 1};
      std::vector<float> third{static_cast<float>(start[rank])};
      const std::array<Buffer, 3> x{whole(first), whole(second), Buffer{third.data(), 1, DType::f32}};
      for (int round = 0; round < rounds; ++round) push_sum.mix(x);
      EXPECT_NEAR(first[0], simulation.numerators()[rank], 1e-14);
      EXPECT_NEAR(second[0], 2 * simulation.numerators()[rank], 1e-14);
      EXPECT_NEAR(third[0], simulation.numerators()[rank], 1e-6);
      EXPECT_NEAR(second[1], push_sum.weight(), 1e-14);
      EXPECT_NEAR(push_sum.weight(), simulation.weights()[rank], 1e-14);
    });
}

// Rows of 1 to 4 entries, which come together again after 12 rounds.
TEST(PushSum, MakesTheRoundsOfRowsOfUnlikeLengths) {
  constexpr int nodes = 5, rounds = 15;
  const Graph graph({{1}, {2, 0}, {3, 1, 0}, {4, 2, 1, 0}, {0, 3}}, 1, Convention::plumbline, false);
  const std::vector<double> start = random_values(nodes, 4);
  comm::run_ranks(nodes, [&](Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    Simulation simulation(graph, {}, start);
    PushSum push_sum(group, graph);
    std::vector<double> x{start[rank]};
    for (int round = 0; round < rounds; ++round) {
      (void)simulation.step();
      push_sum.mix(whole(x));
      EXPECT_NEAR(x[0], simulation.numerators()[rank], 1e-14) << "round " << round;
      EXPECT_NEAR(push_sum.weight(), simulation.weights()[rank], 1e-14) << "round " << round;
    }
  });
}

TEST(PushSum, OfLargeTensorsInPiecesIsTheSame) {
  const auto star = [](Convention convention) { return Graph({{1, 2}, {0, 3}, {0, 1}, {0, 2}}, 1, convention, false); };
  const Graph exponential({.kind = GraphKind::n_peer_exponential, .nodes = 4, .peers = 2});
  const Mixing skewed{.kind = MixingKind::skewed};
  comm::run_ranks(4, [&](Communicator& group) {
    for (const auto& [graph, mixing] :
         {std::pair(exponential, Mixing()), std::pair(exponential, skewed),
          std::pair(star(Convention::plumbline), skewed), std::pair(star(Convention::fairscale), Mixing())}) {
      std::vector<double> held(300'001), pieces, few{1.0 * group.rank()}, few_pieces = few;
      for (std::size_t i = 0; i < held.size(); ++i)
        held[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(group.rank()) * 13) % 101);
      pieces = held;
      auto told = held;
      auto few_told = few;
      PushSum at_once(group, graph, mixing, {.fuse = true}), plain(group, graph, mixing, {.confirms = false}),
          confirmed(group, graph, mixing);
      const std::array<Buffer, 2> x{whole(held), whole(few)}, y{whole(pieces), whole(few_pieces)},
          z{whole(told), whole(few_told)};
      for (int round = 0; round < 5; ++round) {
        at_once.mix(x);
        plain.mix(y);
        confirmed.mix(z);
        EXPECT_EQ(at_once.weight(), plain.weight());
        EXPECT_EQ(at_once.weight(), confirmed.weight());
        EXPECT_EQ(at_once.round(), plain.round());
        EXPECT_EQ(at_once.round(), confirmed.round());
      }
      EXPECT_EQ(held, pieces);
      EXPECT_EQ(held, told);
      EXPECT_EQ(few, few_pieces);
      EXPECT_EQ(few, few_told);
    }
  });
}

TEST(PushSum, AnInterruptedRoundIsRepeatedWithoutMixing) {
  // Cut before its values are sent, or before they are confirmed.
  for (const int failing : {2, 3})
    comm::run_ranks(3, [failing](Communicator& group) {
      const Graph graph({.kind = GraphKind::star, .nodes = 3});
      std::vector<double> smooth{1.0 + group.rank()}, rough = smooth;
      PushSum undisturbed(group, graph);
      const auto wire = group.duplicate();
      std::unique_ptr<Communicator> cut = wire->duplicate();
      if (group.rank() == 1) cut = std::make_unique<FailsOnce>(std::move(cut), failing);
      PushSum disturbed(*cut, graph);
      for (int round = 0; round < 4; ++round) {
        undisturbed.mix(whole(smooth));
        try {
          disturbed.mix(whole(rough));
        } catch (const RuntimeFailure&) {
          EXPECT_EQ(disturbed.reported_weight(), kInterruptedWeight);
          EXPECT_THROW(disturbed.mix(whole(rough)), StateError);
          disturbed.retry(whole(rough));
        }
        EXPECT_EQ(rough, smooth);
        EXPECT_EQ(disturbed.reported_weight(), undisturbed.weight());
      }
    });
}

TEST(PushSum, GoesOverToAnotherGroupWithoutLosingMass) {
  constexpr int rounds = 5;
  for (int failing = 0; failing < 2 * rounds + 1; ++failing)
    comm::run_ranks(4, [&](Communicator& group) {
      const Graph graph({.kind = GraphKind::n_peer_exponential, .nodes = 4, .peers = 1});
      const Mixing skewed{.kind = MixingKind::skewed};
      std::vector<double> smooth{1.0 + group.rank()}, rough = smooth;
      PushSum undisturbed(group, graph, skewed);
      for (int round = 0; round < rounds; ++round) undisturbed.mix(whole(smooth));
      auto first = group.duplicate(), second = group.duplicate();
      Communicator& inner = *first;
      std::unique_ptr<Communicator> wire = std::move(first);
      if (group.rank() == 2) wire = std::make_unique<FailsOnce>(std::move(wire), failing);
      PushSum disturbed(*wire, graph, skewed);
      bool is_over = false;
      for (int round = 0; round < rounds; ++round) try {
          disturbed.mix(whole(rough));
        } catch (const Error&) {
          inner.abort("a node has failed");
          disturbed.retry(*second, whole(rough));
          is_over = true;
        }
      if (!is_over) disturbed.retry(*second, whole(rough));
      EXPECT_EQ(rough, smooth) << "node " << group.rank() << ", call " << failing;
      EXPECT_EQ(disturbed.weight(), undisturbed.weight());
    });
}

// Cut at any of the calls of a round of six pieces, and at some of the next one.
TEST(PushSum, GoesOnWithThePiecesThatAreMissing) {
  constexpr int nodes = 3, rounds = 2, calls = 24;
  constexpr std::size_t length = 5 * 8192 + 7;
  const auto star = [] { return Graph({.kind = GraphKind::star, .nodes = nodes}); };
  const auto ring = [] { return Graph({.kind = GraphKind::ring, .nodes = nodes}); };
  for (const bool elsewhere : {false, true})
    for (const auto& [graph, mixing] :
         {std::pair(star(), Mixing{.kind = MixingKind::skewed}), std::pair(ring(), Mixing())})
      for (int failing = 0; failing < calls; ++failing)
        comm::run_ranks(nodes, [&](Communicator& group) {
          std::vector<double> smooth(length);
          for (std::size_t i = 0; i < length; ++i)
            smooth[i] = static_cast<double>((i + static_cast<std::size_t>(group.rank()) * 5) % 17);
          std::vector<double> rough = smooth;
          PushSum undisturbed(group, graph, mixing);
          for (int round = 0; round < rounds; ++round) undisturbed.mix(whole(smooth));
          auto first = group.duplicate(), second = group.duplicate();
          Communicator& inner = *first;
          std::unique_ptr<Communicator> wire = std::move(first);
          if (group.rank() == 1) wire = std::make_unique<FailsOnce>(std::move(wire), failing);
          PushSum disturbed(*wire, graph, mixing);
          bool is_over = false;
          for (int round = 0; round < rounds; ++round) try {
              disturbed.mix(whole(rough));
            } catch (const Error&) {
              EXPECT_EQ(disturbed.reported_weight(), kInterruptedWeight);
              if (!elsewhere) {
                disturbed.retry(whole(rough));
                continue;
              }
              inner.abort("a node has failed");
              disturbed.retry(*second, whole(rough));
              is_over = true;
            }
          if (elsewhere && !is_over) disturbed.retry(*second, whole(rough));
          EXPECT_EQ(rough, smooth) << "node " << group.rank() << ", call " << failing << ", elsewhere " << elsewhere;
          EXPECT_EQ(disturbed.weight(), undisturbed.weight());
        });
}

TEST(PushSum, SaysWhoseGraphsDiffer) {
  comm::run_ranks(3, [](Communicator& group) {
    const Graph graph({.kind = GraphKind::ring, .nodes = 3, .peers = group.rank() == 2 ? 2 : 1});
    PushSum push_sum(group, graph);
    std::vector<double> x{1};
    try {
      push_sum.mix(whole(x));
      ADD_FAILURE() << "was not noticed";
    } catch (const comm::MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("node 0 sends to [1], but node 2 receives from [1, 0]"));
    }
  });
}

TEST(PushSum, RefusesWhatItCannotMix) {
  comm::run_ranks(2, [](Communicator& group) {
    EXPECT_THROW(PushSum(group, Graph({.kind = GraphKind::ring, .nodes = 3})), InvalidArgument);
    PushSum push_sum(group, Graph({.kind = GraphKind::ring, .nodes = 2}));
    std::vector<std::int32_t> x{1};
    EXPECT_THROW(push_sum.mix(Buffer{x.data(), 1, DType::i32}), Unsupported);
    EXPECT_THROW(push_sum.retry(std::span<const Buffer>()), StateError);
    EXPECT_THAT([&] { push_sum.set_round(-1); },
                testing::ThrowsMessage<OutOfRange>(HasSubstr("round -1; the first one is 0")));
  });
}

// What is refused leaves nothing, and is refused again.
TEST(PushSum, MixesTheSameTensorsInEveryRound) {
  comm::run_ranks(2, [](Communicator& group) {
    PushSum push_sum(group, Graph({.kind = GraphKind::ring, .nodes = 2}));
    std::vector<double> wide{1.0 * group.rank()}, more{1};
    std::vector<float> narrow{1.0f * static_cast<float>(group.rank())};
    std::vector<std::int32_t> whole_numbers{1};
    const Buffer first = whole(wide), second{narrow.data(), 1, DType::f32};
    for (int time = 0; time < 2; ++time)
      EXPECT_THROW(push_sum.mix(std::array{second, Buffer{whole_numbers.data(), 1, DType::i32}}), Unsupported);
    EXPECT_EQ(narrow[0], static_cast<float>(group.rank())) << "nothing is mixed";
    push_sum.mix(std::array{first, second});
    EXPECT_EQ(wide[0], 0.5);
    EXPECT_EQ(narrow[0], 0.5f);
    const auto refused = [&](std::span<const Buffer> x, const char* words) {
      EXPECT_THAT([&] { push_sum.mix(x); }, testing::ThrowsMessage<InvalidArgument>(HasSubstr(words)));
      EXPECT_FALSE(push_sum.is_interrupted());
    };
    refused(std::array{first}, "1 tensors; those before it had 2");
    refused({}, "0 tensors; those before it had 2");
    refused(std::array{first, second, whole(more)}, "3 tensors; those before it had 2");
    refused(std::array{second, first}, "tensor 0 is of f32; those before it had f64 there");
    push_sum.mix(std::array{first, second});
    EXPECT_EQ(push_sum.round(), 0) << "a ring does not turn";
  });
}

TEST(GossipThread, AddsWhatCameBesideTheWork) {
  comm::run_ranks(4, [](Communicator& group) {
    const Graph graph({.kind = GraphKind::star, .nodes = 4});
    std::vector<double> beside{1.0 + group.rank(), 2}, alone = beside;
    PushSum push_sum(group, graph);
    GossipThread thread(group.duplicate(), graph);
    for (int round = 0; round < 6; ++round) {
      push_sum.mix(whole(alone));
      std::array<Buffer, 1> x{whole(beside)};
      EXPECT_TRUE(thread.hand_over(x));
      EXPECT_FALSE(thread.hand_over(x));
      EXPECT_THROW((void)thread.weight(), StateError);
      EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed);
      EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::nothing);
      EXPECT_EQ(beside, alone);
      EXPECT_EQ(thread.weight(), push_sum.weight());
    }
    std::array<Buffer, 1> x{whole(beside)};
    EXPECT_TRUE(thread.hand_over(x));
    thread.turn_off(x);
    push_sum.mix(whole(alone));
    EXPECT_EQ(beside, alone);
    EXPECT_FALSE(thread.hand_over(x));
  });
}

TEST(GossipThread, NoticesAPeerThatStops) {
  comm::run_ranks(2, [](Communicator& group) {
    auto own = group.duplicate();
    if (group.rank() == 1) {
      group.barrier();
      return;
    }
    GossipThread thread(std::move(own), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                        {.heartbeat = std::chrono::milliseconds(50), .verifies = false});
    std::vector<double> values{1};
    std::array<Buffer, 1> x{whole(values)};
    EXPECT_TRUE(thread.hand_over(x));
    EXPECT_THROW((void)thread.collect(x, true), Error);
    thread.close();
    group.barrier();
  });
}

TEST(GossipThread, RepeatsAnInterruptedRound) {
  comm::run_ranks(2, [](Communicator& group) {
    std::unique_ptr<Communicator> wire = group.duplicate();
    if (group.rank() == 0) wire = std::make_unique<FailsOnce>(std::move(wire), 0);
    GossipThread thread(std::move(wire), Graph({.kind = GraphKind::ring, .nodes = 2}));
    std::vector<double> values{1.0 + 2 * group.rank()};
    std::array<Buffer, 1> x{whole(values)};
    EXPECT_TRUE(thread.hand_over(x));
    if (group.rank() == 0) {
      EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::interrupted);
    }
    EXPECT_EQ(thread.collect(x, true), GossipThread::Collected::mixed);
    EXPECT_EQ(values[0], 2);
  });
}

}  // namespace
}  // namespace plumbline::gossip
