#include "reference/schedules/executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using namespace std::chrono_literals;
using samples::from_rows;
using samples::RandomRun;
using testing::AllOf;
using testing::HasSubstr;

using Word = std::uint64_t;
// Larger than what `local` buffers: sends wait for their receives.
constexpr std::size_t kWords = 600;
using Values = std::vector<Word>;

// A model of whole numbers, where every place, stage and micro-batch counts differently. Wrapping sums have no order.
Values input_of(int micro_batch) {
  Values values(kWords);
  for (std::size_t i = 0; i < kWords; ++i) values[i] = (i + 1) * 1'000'003 + static_cast<Word>(micro_batch) * 77'777;
  return values;
}
Values forward_of(int stage, const Values& input) {
  Values output(kWords);
  for (std::size_t i = 0; i < kWords; ++i)
    output[i] = input[(i + 1) % kWords] * (2 * static_cast<Word>(stage) + 3) + static_cast<Word>(stage);
  return output;
}
Values input_gradient_of(int stage, const Values& gradient) {
  Values result(kWords);
  for (std::size_t i = 0; i < kWords; ++i) result[(i + 1) % kWords] = gradient[i] * (2 * static_cast<Word>(stage) + 3);
  return result;
}
void add_weight_gradient(Values& sum, const Values& input, const Values& gradient) {
  for (std::size_t i = 0; i < kWords; ++i) sum[i] += input[i] * gradient[i];
}
Values loss_gradient_of(const Values& output) {
  Values gradient(kWords);
  for (std::size_t i = 0; i < kWords; ++i) gradient[i] = output[i] * 2 + 1;
  return gradient;
}

std::vector<Values> trained_alone(int stages, int micro_batches) {
  std::vector<Values> sums(static_cast<std::size_t>(stages), Values(kWords));
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    std::vector<Values> inputs{input_of(micro_batch)};
    for (int stage = 0; stage < stages; ++stage) inputs.push_back(forward_of(stage, inputs.back()));
    Values gradient = loss_gradient_of(inputs.back());
    for (int stage = stages; stage-- > 0;) {
      const auto at = static_cast<std::size_t>(stage);
      add_weight_gradient(sums[at], inputs[at], gradient);
      gradient = input_gradient_of(stage, gradient);
    }
  }
  return sums;
}

// The stages of one rank. Whatever is not there yet has a poisoned value.
class Model {
 public:
  Model(const Schedule& schedule, std::vector<Values>& sums) : schedule_(schedule), sums_(sums) {}

  StageCallbacks callbacks() {
    StageCallbacks callbacks;
    callbacks.forward = [this](int stage, int micro_batch) {
      if (stage == 0) inputs_[{stage, micro_batch}] = input_of(micro_batch);
      const Values& input = inputs_[{stage, micro_batch}];
      peak_ = std::max(peak_, ++live_);
      Values output = forward_of(stage, input);
      if (stage + 1 == schedule_.stages) gradients_[{stage, micro_batch}] = loss_gradient_of(output);
      outputs_[{stage, micro_batch}] = std::move(output);
    };
    callbacks.input_gradient = [this](int stage, int micro_batch) {
      results_[{stage, micro_batch}] = input_gradient_of(stage, gradients_[{stage, micro_batch}]);
    };
    callbacks.weight_gradient = [this](int stage, int micro_batch) {
      add_weight_gradient(sums_[static_cast<std::size_t>(stage)], inputs_[{stage, micro_batch}],
                          gradients_[{stage, micro_batch}]);
      inputs_.erase({stage, micro_batch});
      --live_;
    };
    callbacks.backward = [callbacks](int stage, int micro_batch) {
      callbacks.input_gradient(stage, micro_batch);
      callbacks.weight_gradient(stage, micro_batch);
    };
    callbacks.buffer = [this](const Action& message) {
      Values& values = memory_of(message);
      if (values.empty()) values.assign(kWords, 0xdead);
      return comm::Buffer{values.data(), static_cast<std::int64_t>(values.size()), comm::DType::i64};
    };
    callbacks.release = [this](const Action& message) {
      if (is_send(message.kind)) std::ranges::fill(memory_of(message), 0xbad);
      released_ += 1;
    };
    callbacks.hand_over = [this](const Action& send) {
      const bool up = send.kind == ActionKind::send_forward;
      const std::pair to{send.stage + (up ? 1 : -1), send.micro_batch};
      (up ? inputs_ : gradients_)[to] = memory_of(send);
    };
    return callbacks;
  }
  [[nodiscard]] int peak() const { return peak_; }
  [[nodiscard]] int released() const { return released_; }

 private:
  using Key = std::pair<int, int>;
  Values& memory_of(const Action& message) {
    const Key key{message.stage, message.micro_batch};
    switch (message.kind) {
      case ActionKind::send_forward:
        return outputs_[key];
      case ActionKind::recv_forward:
        return inputs_[key];
      case ActionKind::send_backward:
        return results_[key];
      case ActionKind::recv_backward:
        return gradients_[key];
      default:
        return shapes_[key];
    }
  }

  const Schedule& schedule_;
  std::vector<Values>& sums_;
  std::map<Key, Values> inputs_, outputs_, gradients_, results_, shapes_;
  int live_ = 0;
  int peak_ = 0;
  int released_ = 0;
};

void expect_trained(const Schedule& lowered, const ExecutorOptions& options = {}) {
  std::vector<Values> sums(static_cast<std::size_t>(lowered.stages),
                           Values(kWords));  // each stage's rank writes its own
  const std::vector<int> peaks = check(lowered).peak_activations;
  comm::run_ranks(static_cast<int>(lowered.ranks.size()), [&](comm::Communicator& communicator) {
    Model model(lowered, sums);
    const std::vector<Period> periods = run_rank(communicator, lowered, model.callbacks(), options);
    const auto& actions = lowered.ranks[static_cast<std::size_t>(communicator.rank())];
    EXPECT_EQ(periods.size(), actions.size());
    EXPECT_EQ(model.peak(), peaks[static_cast<std::size_t>(communicator.rank())]);
    EXPECT_EQ(model.released(), std::ranges::count_if(actions, is_message, &Action::kind));
  });
  EXPECT_EQ(sums, trained_alone(lowered.stages, lowered.micro_batches));
}

TEST(Executor, TrainsAsOneDeviceDoesWithEverySchedule) {
  int run = 0;
  for (const ScheduleKind schedule_kind : schedule_kinds())
    for (const int p : {1, 2, 3, 4, 8})
      for (const int m : {1, p - 1, p, p + 1, 2 * p, 2 * p + 1})
        for (const int v : {1, 2}) {
          if (schedule_kind == ScheduleKind::forward_only || m < 1) continue;
          SCOPED_TRACE(testing::Message() << name_of(schedule_kind) << " p " << p << " m " << m << " v " << v);
          Schedule schedule;
          try {
            schedule = generate(schedule_kind, {p, m, v});
          } catch (const InvalidArgument&) {
            continue;  // the family has no such shape
          }
          ++run;
          expect_trained(lower(schedule));
        }
  EXPECT_GT(run, 100);
}

TEST(Executor, TrainsInAnyOtherOrderThatIsValid) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    expect_trained(RandomRun(1 + seed % 4, 1 + seed % 6, 1 + seed % 5, true, seed).write(),
                   {.most_outstanding_sends = seed % 3});
  }
  expect_trained(lower_as_torch(generate(ScheduleKind::interleaved, {2, 4, 2})));
  expect_trained(lower(generate(ScheduleKind::one_f_one_b, {3, 4, 1}), Metadata::each));
  for (const int most : {1, 3}) expect_trained(add_send_waits(lower(generate(ScheduleKind::v_half, {3, 6, 2})), most));
}

TEST(Executor, CallsForWholeStagesAndMeasuresInOrder) {
  const Schedule schedule = from_rows({"0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD"}, 1);
  std::vector<std::string> calls;
  StageCallbacks callbacks;
  callbacks.forward = callbacks.backward = [&](int, int) { calls.emplace_back("compute"); };
  callbacks.unshard = [&](int) { calls.emplace_back("unshard"); };
  callbacks.reshard = [&](int) { calls.emplace_back("reshard"); };
  callbacks.reduce_gradients = [&](int) { calls.emplace_back("reduce"); };
  comm::run_ranks(1, [&](comm::Communicator& communicator) {
    const std::vector<Period> periods = run_rank(communicator, schedule, callbacks);
    for (std::size_t i = 1; i < periods.size(); ++i) EXPECT_LE(periods[i - 1].end, periods[i].start);
  });
  EXPECT_THAT(calls, testing::ElementsAre("unshard", "compute", "compute", "reduce", "reshard"));
}

template <class Error>
std::string error_of(int ranks, const std::function<void(comm::Communicator&)>& body) {
  try {
    comm::run_ranks(ranks, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Rank 1 receives the second micro-batch only when the first one is through, which rank 0 has to go on with meanwhile.
TEST(Executor, WaitsForItsOwnReceiveAloneAmongJoinedMessages) {
  const Schedule schedule = from_rows({"0F0,0SEND_F0,0F1,(0SEND_F1;2RECV_F0)P2P,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1",
                                       "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,1RECV_F1,1F1,1SEND_F1,3RECV_F1,3F1"},
                                      2, {0, 1, 0, 1});
  std::array<int, 2> computed{};
  comm::run_ranks(2, [&](comm::Communicator& communicator) {
    std::map<std::string, std::vector<std::byte>> memory;
    StageCallbacks callbacks;
    callbacks.forward = [&](int, int) { ++computed[static_cast<std::size_t>(communicator.rank())]; };
    callbacks.buffer = [&](const Action& message) {
      Action name = message;
      name.joined = false;
      auto& bytes = memory[to_string(name)];
      bytes.resize(1 << 22);  // more than is sent before somebody receives it
      return comm::Buffer{bytes.data(), std::ssize(bytes), comm::DType::u8};
    };
    (void)run_rank(communicator, schedule, callbacks, {.timeout = 10s});
  });
  EXPECT_THAT(computed, testing::Each(4));
}

TEST(Executor, SaysForWhomItWaitedInVain) {
  const Schedule schedule = from_rows({"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1);
  std::vector<Values> sums(2, Values(kWords));
  std::array<std::string, 2> errors;
  try {
    comm::run_ranks(2, [&](comm::Communicator& communicator) {
      Model model(schedule, sums);
      try {
        (void)run_rank(communicator, schedule, model.callbacks(), {.timeout = 100ms});
      } catch (const comm::TimeoutError& error) {
        errors[static_cast<std::size_t>(communicator.rank())] = error.what();
        throw;
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const comm::TimeoutError&) {
  }
  EXPECT_THAT(errors, testing::Contains(
                          testing::AnyOf(HasSubstr("rank 1 at position 1 (1F0) waited for 1RECV_F0 from rank 0: "),
                                         HasSubstr("rank 0 at position 2 (0B0) waited for 0RECV_B0 from rank 1: "))));
}

TEST(Executor, RefusesWhatItCannotRun) {
  const auto refusal = [](int ranks, const Schedule& schedule, const StageCallbacks& callbacks) {
    return error_of<InvalidArgument>(
        ranks, [&](comm::Communicator& communicator) { (void)run_rank(communicator, schedule, callbacks); });
  };
  StageCallbacks callbacks;
  callbacks.forward = [](int, int) {};
  EXPECT_THAT(refusal(1, from_rows({"0F0,0B0"}, 1), callbacks), HasSubstr("0B0 has no callback"));
  EXPECT_THAT(refusal(2, from_rows({"0F0"}, 1), callbacks), HasSubstr("the schedule has 1 ranks, the communicator 2"));
  EXPECT_THAT(refusal(1, {.stages = 1 << 20, .micro_batches = 1 << 20, .stage_to_rank = {}, .ranks = {{}}}, callbacks),
              HasSubstr("tags"));
  EXPECT_THAT(refusal(1, {.stages = 2, .micro_batches = 1, .stage_to_rank = {0}, .ranks = {{}}}, callbacks),
              HasSubstr("2 stages need a rank of 1 each, 1 are given"));
  EXPECT_THAT(refusal(1, {.stages = 1, .micro_batches = 1, .stage_to_rank = {1}, .ranks = {{}}}, callbacks),
              HasSubstr("need a rank of 1 each"));
  const Schedule unlowered = from_rows({"0F0", "1F0"}, 1);
  EXPECT_THAT(error_of<StateError>(2, [&](comm::Communicator& c) { (void)run_rank(c, unlowered, callbacks); }),
              HasSubstr("rank 1 at position 0: 1F0 needs 1RECV_F0"));
}

// Whether the result is that of one device.
bool trains(const Schedule& schedule) {
  std::vector<Values> sums(static_cast<std::size_t>(schedule.stages), Values(kWords));
  comm::run_ranks(static_cast<int>(schedule.ranks.size()), [&](comm::Communicator& communicator) {
    Model model(schedule, sums);
    (void)run_rank(communicator, schedule, model.callbacks(), {.timeout = 5s});
  });
  return sums == trained_alone(schedule.stages, schedule.micro_batches);
}

TEST(Executor, TrainsWhereRanksExchangeAndMessagesCross) {
  EXPECT_TRUE(trains(lower(generate(ScheduleKind::gpipe, {2, 2, 1}))));
  EXPECT_TRUE(trains(lower(generate(ScheduleKind::one_f_one_b, {2, 3, 1}))));
  const Schedule crossed = from_rows({"0F0,0F1,(0SEND_F0;0SEND_F1)P2P,0RECV_B0,0B0,0RECV_B1,0B1",
                                      "(1RECV_F1;1RECV_F0)P2P,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1"},
                                     2);
  EXPECT_TRUE(trains(crossed));
}

TEST(Executor, CallsAroundComputationsAlone) {
  const Schedule schedule = lower(generate(ScheduleKind::gpipe, {2, 2, 1}));
  std::array<std::vector<std::string>, 2> computations;
  comm::run_ranks(2, [&](comm::Communicator& communicator) {
    std::vector<Values> sums(2, Values(kWords));
    Model model(schedule, sums);
    auto& own = computations[static_cast<std::size_t>(communicator.rank())];
    const auto around = [&](const Action& computation, const std::function<void()>& compute) {
      own.push_back(to_string(computation));
      compute();
    };
    (void)run_rank(communicator, schedule, model.callbacks(), {.around = around});
  });
  EXPECT_THAT(computations[0], testing::ElementsAre("0F0", "0F1", "0B0", "0B1"));
  EXPECT_THAT(computations[1], testing::ElementsAre("1F0", "1F1", "1B0", "1B1"));
}

// ---- several tensors in a message ----

std::vector<std::int64_t> counts_of(const std::vector<comm::Buffer>& pieces) {
  std::vector<std::int64_t> counts;
  for (const comm::Buffer& piece : pieces) counts.push_back(piece.count);
  return counts;
}

TEST(Pieces, HaveAsManyWholeElementsAsFit) {
  std::array<double, 10> memory{};
  const auto pieces = [&](std::vector<std::int64_t> counts, std::optional<std::int64_t> most) {
    std::vector<comm::Buffer> tensors;
    for (const std::int64_t count : counts) tensors.push_back({memory.data(), count, comm::DType::f64});
    return pieces_of(tensors, most);
  };
  using testing::ElementsAre;
  EXPECT_THAT(counts_of(pieces({10, 0, 1}, {})), ElementsAre(10, 0, 1));
  EXPECT_THAT(counts_of(pieces({10, 0, 3}, 24)), ElementsAre(3, 3, 3, 1, 0, 3));
  EXPECT_THAT(counts_of(pieces({4}, 31)), ElementsAre(3, 1));
  EXPECT_THAT(counts_of(pieces({2}, 1)), ElementsAre(1, 1)) << "one element at least";
  EXPECT_THAT(counts_of(pieces({}, 8)), ElementsAre());
  const auto following = pieces({10}, 32);
  for (std::size_t i = 0; i < following.size(); ++i) EXPECT_EQ(following[i].data, memory.data() + 4 * i);
}

// A line of two ranks that pass numbers on, in lists of different lengths, the first of them none.
TEST(Executor, PassesListsOfTensors) {
  const Schedule schedule = lower(generate(ScheduleKind::gpipe, {2, 4, 1}));
  using Lists = std::map<std::string, std::vector<std::vector<std::int32_t>>>;
  std::array<Lists, 2> memory;
  std::array<int, 2> released{};
  comm::run_ranks(2, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    StageCallbacks callbacks;
    callbacks.forward = callbacks.backward = [](int, int) {};
    callbacks.tensors = [&](const Action& message) {
      Action name = message;
      name.joined = false;
      auto& lists = memory[rank][to_string(name)];
      for (int i = 0; i < message.micro_batch; ++i)
        lists.emplace_back(static_cast<std::size_t>(5 * i), is_send(message.kind) ? 100 * message.micro_batch + i : -1);
      std::vector<comm::Buffer> buffers;
      for (auto& list : lists) buffers.push_back({list.data(), std::ssize(list), comm::DType::i32});
      return buffers;
    };
    callbacks.release = [&](const Action&) { ++released[rank]; };
    const auto gradients = communicator.duplicate();
    (void)run_rank(communicator, schedule, callbacks, {.most_bytes_a_call = 12, .gradients = gradients.get()});
  });
  EXPECT_THAT(released, testing::Each(8)) << "a message without tensors is one, too";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(memory[0].at("0SEND_F" + std::to_string(i)), memory[1].at("1RECV_F" + std::to_string(i)));
    EXPECT_EQ(memory[1].at("1SEND_B" + std::to_string(i)), memory[0].at("0RECV_B" + std::to_string(i)));
  }
}

TEST(Executor, RefusesGroupsAndPiecesThatDoNotFit) {
  const Schedule schedule = lower(generate(ScheduleKind::gpipe, {2, 1, 1}));
  StageCallbacks callbacks;
  callbacks.forward = callbacks.backward = [](int, int) {};
  callbacks.tensors = [](const Action&) { return std::vector<comm::Buffer>{}; };
  EXPECT_THAT(error_of<InvalidArgument>(2,
                                        [&](comm::Communicator& communicator) {
                                          const auto alone = communicator.create_group(std::array{communicator.rank()});
                                          (void)run_rank(communicator, schedule, callbacks, {.gradients = alone.get()});
                                        }),
              HasSubstr("rank 0 of 1 in the gradients' group"));
  EXPECT_THAT(error_of<InvalidArgument>(2,
                                        [&](comm::Communicator& communicator) {
                                          (void)run_rank(communicator, schedule, callbacks, {.most_bytes_a_call = 0});
                                        }),
              HasSubstr("most_bytes_a_call must be 1 or more, got 0"));
}

TEST(Tags, AreDifferentForAllMessagesAndEqualOnBothSides) {
  const Schedule schedule = lower(generate(ScheduleKind::interleaved, {2, 4, 2}), Metadata::each);
  std::map<int, int> sends, receives;
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions)
      if (is_message(action.kind)) ++(is_send(action.kind) ? sends : receives)[tag_of(action, schedule.stages)];
  EXPECT_EQ(sends, receives);
  for (const auto& [tag, count] : sends) EXPECT_EQ(count, 1) << tag;
}

TEST(EmulatedDevice, TakesTheTimeThatTheSimulatorSays) {
  const Schedule schedule = lower(generate(ScheduleKind::one_f_one_b, {2, 3, 1}));
  SimulationOptions options;
  options.message_bytes = {100'000};
  const double unit = 0.02;
  std::vector<std::vector<Period>> periods(2);
  std::vector<int> peaks(2);
  comm::run_ranks(2, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    EmulatedDevice device(schedule, communicator.rank(), options, unit);
    periods[rank] = run_rank(communicator, schedule, device.callbacks());
    peaks[rank] = device.peak_activations();
  });
  const Timeline measured = timeline_of(schedule, periods), simulated = simulate(schedule);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(peaks[rank], simulated.ranks[rank].peak_activations);
    EXPECT_EQ(measured.ranks[rank].peak_activations, simulated.ranks[rank].peak_activations);
    EXPECT_GE(measured.ranks[rank].work, simulated.ranks[rank].work * unit);
  }
  EXPECT_GE(measured.makespan, simulated.makespan * unit * 0.99);  // clocks of the ranks start after a barrier
}

TEST(EmulatedDevice, RefusesWhatTheSimulatorRefuses) {
  const Schedule schedule = from_rows({"0F0,0B0"}, 1);
  SimulationOptions options;
  options.stages = {{-1, 1, 1, {}}};
  EXPECT_THROW(EmulatedDevice(schedule, 0, options), InvalidArgument);
  EXPECT_THROW(EmulatedDevice(schedule, 0, {}, -1), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::schedules
