#include "conformance/support/device_tensors.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;

namespace {

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// In (-4, 4), with more digits than halves have.
double number(std::uint64_t seed, std::size_t tensor, std::int64_t element) {
  std::uint64_t mixed = seed * 1000003 + tensor * 8191 + static_cast<std::uint64_t>(element) + 1;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(static_cast<std::int64_t>(mixed) >> 11) * 0x1p-50;
}

void set(std::byte* at, DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      return put(at, comm::to_float16(static_cast<float>(value)));
    case DType::bf16:
      return put(at, comm::to_bfloat16(static_cast<float>(value)));
    case DType::f32:
      return put(at, static_cast<float>(value));
    default:
      return put(at, value);
  }
}

// Whether all ranks say yes.
bool all_agree(comm::Communicator& group, bool mine) {
  std::int32_t answer = mine ? 1 : 0;
  group.all_reduce({&answer, 1, DType::i32}, {&answer, 1, DType::i32}, comm::ReduceOp::min);
  return answer != 0;
}

}  // namespace

HostTensors::HostTensors(const std::vector<TensorShape>& shapes, std::uint64_t seed) {
  for (std::size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    const auto& [dtype, count, offset] = shapes[tensor];
    const std::size_t size = comm::size_of(dtype);
    memory_.emplace_back(static_cast<std::size_t>(count) * size);
    for (std::int64_t i = 0; i < count; ++i)
      set(memory_.back().data() + static_cast<std::size_t>(i) * size, dtype, number(seed, tensor, i));
    views_.push_back({memory_.back().data(), count, dtype});
  }
}

DeviceTensors::DeviceTensors(const suite::DeviceSeat& seat, const std::vector<TensorShape>& shapes,
                             device::Stream stream)
    : seat_(seat), stream_(stream) {
  for (const auto& [dtype, count, offset] : shapes) {
    const std::size_t before = static_cast<std::size_t>(offset) * comm::size_of(dtype);
    memory_.emplace_back(seat.runtime, seat.device.index,
                         before + static_cast<std::size_t>(count) * comm::size_of(dtype) + 16);
    views_.push_back({memory_.back().data() + before, count, dtype, seat.device});
  }
}

DeviceTensors::~DeviceTensors() {
  const device::OwnEvent end(seat_.runtime, seat_.device.index);
  end.record(stream_);
  (void)await(end);
}

void DeviceTensors::take(const HostTensors& values) const {
  for (std::size_t i = 0; i < views_.size(); ++i)
    seat_.runtime->copy(seat_.device.index, views_[i].data, values.views()[i].data, views_[i].bytes(), stream_);
}

void DeviceTensors::note() {
  Note& note = notes_.emplace_back();
  for (const Buffer& view : views_) {
    note.bytes.emplace_back(view.bytes());
    seat_.runtime->copy(seat_.device.index, note.bytes.back().data(), view.data, view.bytes(), stream_);
  }
  note.made = std::make_unique<device::OwnEvent>(seat_.runtime, seat_.device.index);
  note.made->record(stream_);
}

std::string DeviceTensors::difference(const HostTensors& expected) {
  const Note note = std::move(notes_.front());
  notes_.pop_front();
  if (!await(*note.made)) return "the stream is not done after a minute";
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const auto* const right = static_cast<const std::byte*>(expected.views()[i].data);
    const auto at = std::ranges::mismatch(note.bytes[i], std::span(right, note.bytes[i].size())).in1;
    if (at == note.bytes[i].end()) continue;
    const auto element = static_cast<std::size_t>(at - note.bytes[i].begin()) / comm::size_of(views_[i].dtype);
    return fmt::format("tensor {} of {} differs from the host's from element {} of {} on", i,
                       comm::name_of(views_[i].dtype), element, views_[i].count);
  }
  return {};
}

bool await(const device::OwnEvent& event) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!event.is_reached())
    if (std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    else
      return false;
  return true;
}

void expect_host_goes_on(suite::Context& context, const char* requirement, device::Stream stream,
                         const std::function<void()>& work) {
  using namespace std::chrono_literals;
  const suite::DeviceSeat& seat = context.device_seat();
  bool went_on = false;
  for (const auto producer : {100ms, 800ms, 5000ms}) {
    const device::OwnEvent produced(seat.runtime, seat.device.index);
    seat.runtime->pause(seat.device.index, producer, stream);
    produced.record(stream);
    work();
    went_on = went_on || !produced.is_reached();
    EXPECT_TRUE(await(produced)) << requirement;
    if (all_agree(context.world(), went_on)) break;
  }
  EXPECT_TRUE(went_on) << requirement << ": the host waited for the device";
}

}  // namespace plumbline::conformance
