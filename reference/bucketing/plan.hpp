// reference/bucketing/plan.hpp: which gradients are reduced together, in what order, and where each lies in its bucket.
//
// Model   A plan is a list of buckets in the order in which their reductions start. A bucket is one buffer of one type on one
//         device that is reduced over one group; its members are gradients, each at its own place. Gradients are known by
//         their index in the list that the plan was made of, the order of registration. What no bucket holds, such as frozen
//         parameters, is not reduced.
// Units   Elements, unless a name says bytes. The element of a complex type is two numbers.
// Cost    Two flat arrays; planning is linear in the gradients.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::bucketing {

/// What a plan needs to know of a gradient.
struct Gradient {
  std::int64_t elements = 0;
  comm::DType dtype = comm::DType::f32;
  std::int8_t numbers = 1;  // in an element: 2 of complex types
  bool sparse = false;      // lies in a bucket of its own
  comm::Device device{};
  int group =
      0;  // that it is reduced over, by a number that the caller gives: gradients of different groups do not mix
  friend bool operator==(const Gradient&, const Gradient&) = default;
};

/// A gradient's place in its bucket.
struct Member {
  int gradient = 0;        // its index in the list of gradients
  std::int64_t begin = 0;  // its first element in the bucket
  friend bool operator==(const Member&, const Member&) = default;
};

struct Bucket {
  std::int64_t elements = 0;     // of the buffer, what lies between members and behind them included
  std::int64_t limit_bytes = 0;  // that closed it, 0 for none
  int first_member = 0;          // in Plan::members
  int members = 0;
  comm::DType dtype = comm::DType::f32;
  std::int8_t numbers = 1;
  bool sparse = false;
  comm::Device device{};
  int group = 0;
  [[nodiscard]] std::int64_t bytes() const {
    return elements * numbers * static_cast<std::int64_t>(comm::size_of(dtype));
  }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

/// Plain data: equal plans compare equal on every rank.
struct Plan {
  std::vector<Bucket> buckets;  // in launch order
  std::vector<Member> members;  // of the first bucket, of the second, …
  [[nodiscard]] std::span<const Member> members_of(const Bucket& bucket) const {
    return std::span(members).subspan(static_cast<std::size_t>(bucket.first_member),
                                      static_cast<std::size_t>(bucket.members));
  }
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace plumbline::bucketing
