// reference/bucketing/detail/torch_table.hpp: in which order PyTorch's table of types and devices is walked.
//
// Model   The buckets that are not full at the end come in the order of a hash table: std::unordered_map, the hash of a
//         type and a device being c10's. With few types on one device that is the order of entering turned round. It is
//         the standard library's own table that is walked here, so that the order is PyTorch's where both are built
//         with the same one, as with libstdc++ on Linux.
// Source  torch 2.13, c10/util/hash.h. Equal, with libstdc++, to what torch answers for any types on several
//         devices.
#pragma once

#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

/// The order in which gradients of these types and devices are found, `entered` being the order of entering, without
/// repetition: positions in it. A cuda device of an index below 0 stands for another kind of device: that of PyTorch's
/// number -index.
[[nodiscard]] std::vector<int> torch_table_order(const std::vector<Gradient>& entered);

}  // namespace plumbline::bucketing
