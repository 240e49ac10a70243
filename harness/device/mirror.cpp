#include "harness/device/mirror.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace plumbline::harness {

using comm::Call;
using device::Memory;

namespace {

constexpr std::size_t kGuard = 256;  // bytes on each side, and the alignment of the device's memory
constexpr std::size_t kBoundary = 64;
constexpr std::byte kCanary{0xa7};

bool gives(const Call& call, int rank) { return call.uses_in(rank) && call.in.count != 0; }
bool gets(const Call& call, int rank) { return call.uses_out(rank) && call.out.count != 0; }

}  // namespace

Memory Shelf::take(std::size_t bytes) {
  if (const auto found = free_.lower_bound(bytes); found != free_.end() && found->first <= 4 * bytes + 4096) {
    Memory memory = std::move(found->second);
    free_.erase(found);
    return memory;
  }
  return {runtime_, device_, bytes};
}

Mirror::Mirror(device::Runtime& runtime, Shelf& shelf, comm::Device device, std::span<const Call> calls, int rank,
               const StandingPlaces& standing)
    : runtime_(runtime), shelf_(shelf), device_(device), there_(calls.begin(), calls.end()) {
  for (const Call& call : calls) {
    if (!is_of_host(call)) continue;
    if (gives(call, rank)) note(call.in, false);
    if (gets(call, rank)) note(call.out, true);
  }
  for (Place& place : places_) put_on_device(place, standing);
  for (Call& call : there_) {
    if (call.operation == comm::Operation::barrier || !is_of_host(call)) continue;  // of hosts; of the caller's own
    call.in.device = call.out.device = device_;
    if (gives(call, rank)) call.in.data = on_device(call.in.data);
    if (!gets(call, rank)) continue;
    std::byte* const data = on_device(call.out.data);
    results_.push_back({static_cast<std::byte*>(call.out.data), data, call.out.bytes()});
    call.out.data = data;
  }
}

Mirror::~Mirror() {
  for (Place& place : places_)
    if (place.memory.data() != nullptr) shelf_.put_back(std::move(place.memory));
}

void Mirror::put_on_device(Place& place, const StandingPlaces& standing) {
  for (const auto& [_, one] : standing)
    if (place.host >= one.host.data() && place.host + place.bytes <= one.host.data() + one.host.size())
      place.data = one.data + (place.host - one.host.data());
  if (place.data == nullptr) place.begin = kGuard + reinterpret_cast<std::uintptr_t>(place.host) % kBoundary;
  place.put.resize(place.data != nullptr ? place.bytes : place.begin + place.bytes + kGuard);
  place.seen.resize(place.put.size());
  if (place.data != nullptr) return;
  place.memory = shelf_.take(place.put.size());
  place.data = place.memory.data();
}

void Mirror::note(const comm::ConstBuffer& buffer, bool written) {
  Place made{.host = static_cast<const std::byte*>(buffer.data), .bytes = buffer.bytes(), .only_read = !written};
  const auto swallow = [&](const Place& other) {
    if (made.host + made.bytes <= other.host || other.host + other.bytes <= made.host) return false;
    const std::byte* const end = std::max(made.host + made.bytes, other.host + other.bytes);
    made.host = std::min(made.host, other.host);
    made.bytes = static_cast<std::size_t>(end - made.host);
    made.only_read = made.only_read && other.only_read;
    return true;
  };
  while (std::erase_if(places_, swallow) != 0) continue;  // a larger place may meet more
  places_.push_back(std::move(made));
}

std::byte* Mirror::on_device(const void* host) const {
  const auto* const at = static_cast<const std::byte*>(host);
  const auto found = std::ranges::find_if(
      places_, [&](const Place& place) { return at >= place.host && at < place.host + place.bytes; });
  return found->data + found->begin + (at - found->host);
}

// With guards and contents.
void Mirror::fill(Place& place, std::byte* there, device::Stream stream) {
  std::ranges::fill(place.put, kCanary);
  std::memcpy(place.put.data() + place.begin, place.host, place.bytes);
  runtime_.copy(device_.index, there, place.put.data(), place.put.size(), stream);
}

void Mirror::send(device::Stream stream) {
  for (Place& place : places_) fill(place, place.data, stream);
}

void Mirror::set_aside(device::Stream stream) {
  for (Place& place : places_) {
    place.aside = shelf_.take(place.put.size());
    fill(place, place.aside.data(), stream);
    runtime_.fill(device_.index, place.data, kCanary, place.put.size(), stream);
  }
}

void Mirror::send_what_was_set_aside(device::Stream stream) {
  for (Place& place : places_) runtime_.copy(device_.index, place.data, place.aside.data(), place.put.size(), stream);
}

void Mirror::bring_back(device::Stream stream) {
  for (const Result& result : results_) runtime_.copy(device_.index, result.host, result.there, result.bytes, stream);
  for (Place& place : places_) runtime_.copy(device_.index, place.seen.data(), place.data, place.seen.size(), stream);
}

std::string Mirror::Place::damage() const {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const bool inside = i >= begin && i < begin + bytes;
    if (seen[i] == put[i] || (inside && !only_read)) continue;
    if (inside) return fmt::format("byte {} of an input on the device was changed", i - begin);
    return i < begin ? fmt::format("byte {} before the start of a buffer on the device was written", begin - i)
                     : fmt::format("byte {} after the end of a buffer on the device was written", i - begin - bytes);
  }
  return {};
}

std::string Mirror::damage() const {
  for (const Place& place : places_)
    if (std::string words = place.damage(); !words.empty()) return words;
  return {};
}

}  // namespace plumbline::harness
