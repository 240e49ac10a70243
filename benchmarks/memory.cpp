#include "benchmarks/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "reference/comm/call.hpp"

namespace plumbline::bench {
namespace {

constexpr std::int64_t kPiece = 1 << 18;  // values

}  // namespace

Memory::Memory(const device::MemorySpace& place, std::int64_t elements, comm::DType dtype)
    : place_(place), elements_(elements), dtype_(dtype) {
  if (place.is_host())
    on_host_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes() + 4096) / 4096 * 4096)));
  else
    on_device_ = device::Memory(place.use().runtime, place.index(), bytes());
  if (place.is_host() && on_host_ == nullptr) throw std::bad_alloc();
  place.fill(data(), std::byte{}, bytes());
}

comm::Buffer Memory::part(std::int64_t first, std::int64_t count) const {
  return {data() + static_cast<std::size_t>(first) * comm::size_of(dtype_), count, dtype_, place_.device()};
}

template <class Body>
bool Memory::in_pieces(const comm::Buffer& of, const Body& body) {
  for (std::int64_t first = 0; first < of.count; first += kPiece) {
    if (!body(comm::part_of(of, first, std::min(kPiece, of.count - first)), first)) return false;
  }
  return true;
}

namespace {

// What repeats the period, beginning with its byte `at`.
std::span<const std::byte> repeated(std::span<const std::byte> period, std::size_t at, std::span<std::byte> to) {
  at %= period.size();
  for (std::size_t done = 0; done < to.size(); at = 0) {
    const std::size_t step = std::min(to.size() - done, period.size() - at);
    std::memcpy(to.data() + done, period.data() + at, step);
    done += step;
  }
  return to;
}

}  // namespace

void Memory::put(std::int64_t first, std::int64_t count, std::span<const std::byte> period, std::int64_t from) const {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, count)) * comm::size_of(dtype_));
  in_pieces(part(first, count), [&](const comm::Buffer& part, std::int64_t at) {
    const std::size_t begin = static_cast<std::size_t>(from + at) * comm::size_of(dtype_);
    place_.copy(part.data, repeated(period, begin, std::span(piece).first(part.bytes())).data(), part.bytes());
    place_.synchronize();  // the piece is free again
    return true;
  });
}

bool Memory::has(std::int64_t first, std::int64_t count, std::span<const std::byte> period, std::int64_t from) const {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, count)) * comm::size_of(dtype_));
  return in_pieces(part(first, count), [&](const comm::Buffer& part, std::int64_t at) {
    const std::size_t begin = static_cast<std::size_t>(from + at) * comm::size_of(dtype_);
    const auto expected = repeated(period, begin, std::span(piece).first(part.bytes()));
    return std::memcmp(bytes_of(place_, part).data(), expected.data(), part.bytes()) == 0;
  });
}

bool Memory::all_are_near(double value, double share, std::span<const float> factors) const {
  return in_pieces(buffer(), [&](const comm::Buffer& part, std::int64_t first) {
    const std::vector<std::byte> found = bytes_of(place_, part);
    std::size_t index = static_cast<std::size_t>(first) % factors.size();
    for (std::size_t at = 0; at < found.size(); at += sizeof(float)) {
      float one = 0;
      std::memcpy(&one, found.data() + at, sizeof one);
      const double expected = value * factors[index++];
      if (!(std::abs(one - expected) <= share * expected)) return false;
      if (index == factors.size()) index = 0;
    }
    return true;
  });
}

float Memory::at(std::int64_t element) const {
  float value = 0;
  std::memcpy(&value, bytes_of(place_, part(element, 1)).data(), sizeof value);
  return value;
}

}  // namespace plumbline::bench
