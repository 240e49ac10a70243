// Calls on the host's memory that are made on a device: what comes back, and what is found there.
#include "harness/device/staged.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::harness {
namespace {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;

class StagedTest : public testing::Test {
 protected:
  void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
    comm::run_ranks(ranks,
                    [&](Communicator& world) {
                      // run_ranks() keeps the handle: the staged one is of a group with the same ranks.
                      const auto staged = staged_on(
                          runtime_, {comm::Device::Kind::emulated, static_cast<std::int16_t>(world.rank() % 2)},
                          world.duplicate());
                      body(*staged);
                    },
                    {.device_calls = device::make_calls(runtime_)});
  }
  std::shared_ptr<device::Runtime> runtime_ =
      device::make_emulated({.devices = 2, .longest_delay = std::chrono::microseconds(100)});
};

TEST_F(StagedTest, ResultsComeBack) {
  on_ranks(3, [](Communicator& world) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> values(5, static_cast<float>(world.rank() + round));
      const comm::Buffer buffer{values.data(), 5, DType::f32};
      world.all_reduce(buffer, buffer, ReduceOp::sum);
      EXPECT_THAT(values, testing::Each(3.0F + 3.0F * static_cast<float>(round)));
      float block = static_cast<float>(world.rank());
      std::vector<float> all(3, -1);
      world.all_gather({&block, 1, DType::f32}, {all.data(), 3, DType::f32});
      EXPECT_THAT(all, testing::ElementsAre(0, 1, 2));
      world.barrier();
    }
  });
}

TEST_F(StagedTest, HasAStreamOfItsOwn) {
  on_ranks(1, [](Communicator& world) { EXPECT_THROW(world.use_stream(nullptr), StateError); });
}

TEST_F(StagedTest, HasTheCallersStreamWhereItHasNoneOfItsOwn) {
  comm::run_ranks(
      2,
      [&](Communicator& world) {
        const comm::Device device{comm::Device::Kind::emulated, static_cast<std::int16_t>(world.rank())};
        const auto staged = staged_on(runtime_, device, world.duplicate(), StagedStream::callers);
        const device::OwnStream stream(runtime_, device.index);
        const device::Memory memory(runtime_, device.index, sizeof(float));
        const comm::Buffer there{memory.data(), 1, DType::f32, device};
        const float given = static_cast<float>(world.rank() + 1);
        staged->use_stream(stream.get());
        const auto group = staged->duplicate();
        for (Communicator* const each : {staged.get(), group.get()}) {
          // On memory of the device, after a producer in that stream; then on the host's.
          runtime_->pause(device.index, std::chrono::milliseconds(10), stream.get());
          runtime_->copy(device.index, memory.data(), &given, sizeof given, stream.get());
          each->all_reduce(there, there, ReduceOp::sum);
          float sum = 0, value = given;
          runtime_->copy(device.index, &sum, memory.data(), sizeof sum, stream.get());
          stream.synchronize();
          EXPECT_EQ(sum, 3);
          each->start(
                  {.operation = Operation::all_reduce, .in = {&value, 1, DType::f32}, .out = {&value, 1, DType::f32}})
              .wait();
          EXPECT_EQ(value, 3);
          // Both in one batch: the device's memory holds a sum.
          const std::array both{
              Call{.operation = Operation::all_reduce, .op = ReduceOp::max, .in = there, .out = there},
              Call{.operation = Operation::all_reduce, .in = {&value, 1, DType::f32}, .out = {&value, 1, DType::f32}}};
          each->start(both).wait();
          EXPECT_EQ(value, 6);
          runtime_->copy(device.index, &sum, memory.data(), sizeof sum, stream.get());
          stream.synchronize();
          EXPECT_EQ(sum, 3);
        }
      },
      {.device_calls = device::make_calls(runtime_)});
}

// Knows what was registered, and where the last call's input lay.
class Noting final : public comm::CommunicatorDecorator {
 public:
  struct Notes {
    std::vector<comm::Buffer> registered;
    const std::byte* input = nullptr;
    [[nodiscard]] bool lies_in_registered() const {
      return std::ranges::any_of(registered, [&](const comm::Buffer& memory) {
        const auto* const begin = static_cast<const std::byte*>(memory.data);
        return input >= begin && input < begin + memory.bytes();
      });
    }
  };
  Noting(std::unique_ptr<Communicator> inner, Notes& notes) : CommunicatorDecorator(std::move(inner)), notes_(notes) {}

 private:
  comm::Registration do_register(comm::Buffer memory) override {
    notes_.registered.push_back(memory);
    return CommunicatorDecorator::do_register(memory);
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    notes_.input = static_cast<const std::byte*>(call.in.data);
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override { return group; }
  Notes& notes_;
};

TEST_F(StagedTest, CallsOnRegisteredMemoryAreMadeWhereItIsRegisteredOnTheDevice) {
  comm::run_ranks(2,
                  [&](Communicator& world) {
                    const comm::Device device{comm::Device::Kind::emulated, static_cast<std::int16_t>(world.rank())};
                    Noting::Notes notes;
                    const auto staged = staged_on(runtime_, device, std::make_unique<Noting>(world.duplicate(), notes));
                    std::vector<float> memory(100), other(100);
                    const auto sum_of = [&](std::vector<float>& values, std::size_t at) {
                      values[at] = static_cast<float>(world.rank() + 1);
                      staged->all_reduce({&values[at], 1, DType::f32}, {&values[at + 1], 1, DType::f32}, ReduceOp::sum);
                      return values[at + 1];
                    };
                    const comm::Registration registration = staged->register_memory(comm::Buffer::of(memory));
                    ASSERT_EQ(notes.registered.size(), 1u);
                    EXPECT_EQ(notes.registered[0].device, device);
                    EXPECT_EQ(notes.registered[0].bytes(), 400u);
                    EXPECT_EQ(sum_of(memory, 7), 3);
                    EXPECT_TRUE(notes.lies_in_registered());
                    EXPECT_EQ(notes.input, static_cast<std::byte*>(notes.registered[0].data) + 7 * sizeof(float));
                    EXPECT_EQ(sum_of(other, 7), 3);
                    EXPECT_FALSE(notes.lies_in_registered());
                    staged->deregister(registration);
                    EXPECT_EQ(sum_of(memory, 9), 3);
                    EXPECT_THROW(staged->deregister(registration), InvalidArgument);
                  },
                  {.device_calls = device::make_calls(runtime_)});
}

TEST_F(StagedTest, CallsOfABatchShareWhatTheyShareOnTheHost) {
  on_ranks(2, [](Communicator& world) {
    float a = static_cast<float>(world.rank() + 1), b = 0;
    const Call calls[] = {{.operation = Operation::all_reduce, .in = {&a, 1, DType::f32}, .out = {&b, 1, DType::f32}},
                          {.operation = Operation::all_reduce, .in = {&b, 1, DType::f32}, .out = {&b, 1, DType::f32}}};
    world.start(calls).wait();
    EXPECT_EQ(b, 6);
    EXPECT_EQ(a, static_cast<float>(world.rank() + 1));
  });
}

// Writes past the end of what an all_reduce gives, into its input, or before its start.
class Spoils final : public comm::CommunicatorDecorator {
 public:
  Spoils(std::unique_ptr<Communicator> inner, device::Runtime& runtime, std::ptrdiff_t at, bool input)
      : CommunicatorDecorator(std::move(inner)), runtime_(runtime), at_(at), input_(input) {}
  void use_stream(void* stream) override {
    stream_ = stream;
    CommunicatorDecorator::use_stream(stream);
  }

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    runtime_.synchronize(0, stream_);
    auto* data =
        input_ ? static_cast<std::byte*>(const_cast<void*>(call.in.data)) : static_cast<std::byte*>(call.out.data);
    data[at_] ^= std::byte{1};
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator>) override { throw Unsupported("no groups"); }
  device::Runtime& runtime_;
  void* stream_ = nullptr;
  std::ptrdiff_t at_;
  bool input_;
};

TEST_F(StagedTest, WhatIsWrittenBesideIsFound) {
  struct Place {
    std::ptrdiff_t at;
    bool input;
    const char* words;
  };
  for (const Place& place :
       {Place{8, false, "byte 0 after the end of a buffer"}, Place{-1, false, "byte 1 before the start"},
        Place{3, true, "byte 3 of an input on the device was changed"}})
    comm::run_ranks(1,
                    [&](Communicator& world) {
                      const auto staged =
                          staged_on(runtime_, {comm::Device::Kind::emulated, 0},
                                    std::make_unique<Spoils>(world.duplicate(), *runtime_, place.at, place.input));
                      const float in[2] = {1, 2};
                      float out[2] = {};
                      try {
                        staged->all_reduce({in, 2, DType::f32}, {out, 2, DType::f32}, ReduceOp::sum);
                        ADD_FAILURE() << place.words;
                      } catch (const RuntimeFailure& error) {
                        EXPECT_THAT(error.what(), testing::HasSubstr(place.words));
                      }
                    },
                    {.device_calls = device::make_calls(runtime_)});
}

TEST_F(StagedTest, AnUnfinishedCallFailsTheGroupAndIsForgotten) {
  on_ranks(1, [](Communicator& world) {
    const auto group = world.duplicate();
    float value = 1;
    {
      (void)group->start(
          {.operation = Operation::all_reduce, .in = {&value, 1, DType::f32}, .out = {&value, 1, DType::f32}});
    }
    EXPECT_THROW(group->barrier(), comm::PeerFailed);
  });
}

}  // namespace
}  // namespace plumbline::harness
