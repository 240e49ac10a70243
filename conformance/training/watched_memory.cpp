#include "conformance/training/watched_memory.hpp"

#include <algorithm>
#include <chrono>

namespace plumbline::conformance {

using comm::Call;
using comm::Communicator;
using comm::Device;

namespace {

constexpr auto kLate = std::chrono::milliseconds(5);  // more than a busy machine delays what is not ordered after it

bool is_on_tensors(const Call& call) {
  if (call.operation == comm::Operation::barrier) return false;
  const bool is_message = call.operation == comm::Operation::send || call.operation == comm::Operation::recv;
  // One byte says that something came.
  return (comm::is_floating(call.dtype()) && call.dtype() != comm::DType::f64) ||
         (is_message && call.dtype() == comm::DType::u8 && std::max(call.in.count, call.out.count) > 1);
}

}  // namespace

void SlowStream::do_run(const Call& call, comm::Timeout timeout) {
  meet(call);
  CommunicatorDecorator::do_run(call, timeout);
}
comm::Work SlowStream::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) meet(call);
  return CommunicatorDecorator::do_start(calls);
}
std::unique_ptr<Communicator> SlowStream::decorate(std::unique_ptr<Communicator> group) {
  return std::make_unique<SlowStream>(std::move(group), seat_, seen_, stream_);
}
void SlowStream::use_stream(void* stream) {
  stream_ = stream;
  CommunicatorDecorator::use_stream(stream);
}
void SlowStream::meet(const Call& call) {
  const bool on_host = call.device().kind == Device::Kind::cpu;
  if (!on_host) seat_.runtime->pause(seat_.device.index, kLate, stream_);
  if (is_on_tensors(call)) ++(on_host ? seen_.on_host : seen_.on_device);
}

HostsMemoryAlone::HostsMemoryAlone(std::unique_ptr<Communicator> inner) : CommunicatorDecorator(std::move(inner)) {
  can_ = CommunicatorDecorator::capabilities();
  can_.devices = {Device::Kind::cpu};
}
std::unique_ptr<Communicator> HostsMemoryAlone::decorate(std::unique_ptr<Communicator> group) {
  return std::make_unique<HostsMemoryAlone>(std::move(group));
}

}  // namespace plumbline::conformance
