#include "benchmarks/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

namespace plumbline::bench {
namespace {

constexpr std::int64_t kPiece = 1 << 18;  // values

}  // namespace

Memory::Memory(const device::Place& place, std::int64_t elements, comm::DType dtype)
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
bool Memory::in_pieces(const Body& body) const {
  for (std::int64_t first = 0; first < elements_; first += kPiece)
    if (!body(part(first, std::min(kPiece, elements_ - first)))) return false;
  return true;
}

void Memory::fill(float value) const {
  const std::vector<float> piece(static_cast<std::size_t>(std::min(kPiece, elements_)), value);
  in_pieces([&](const comm::Buffer& part) {
    place_.copy(part.data, piece.data(), part.bytes());
    return true;
  });
  place_.synchronize();
}

bool Memory::all_are(float value) const {
  const std::vector<float> piece(static_cast<std::size_t>(std::min(kPiece, elements_)), value);
  return in_pieces([&](const comm::Buffer& part) {
    return std::memcmp(bytes_of(place_, part).data(), piece.data(), part.bytes()) == 0;
  });
}

bool Memory::all_are_near(double value, double share) const {
  return in_pieces([&](const comm::Buffer& part) {
    const std::vector<std::byte> found = bytes_of(place_, part);
    for (std::size_t at = 0; at < found.size(); at += sizeof(float)) {
      float one = 0;
      std::memcpy(&one, found.data() + at, sizeof one);
      if (!(std::abs(one - value) <= share * value)) return false;
    }
    return true;
  });
}

float Memory::at(std::int64_t element) const {
  float value = 0;
  std::memcpy(&value, bytes_of(place_, part(element, 1)).data(), sizeof value);
  return value;
}

void Memory::set(std::int64_t element, float value) const {
  set_bytes(place_, part(element, 1), std::as_bytes(std::span(&value, 1)));
}

}  // namespace plumbline::bench
