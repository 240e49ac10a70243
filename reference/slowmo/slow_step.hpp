// reference/slowmo/slow_step.hpp: slow momentum, an element at a time.
//
// Model   Of a SlowMo rule; options.hpp has the others. x is where the ranks have come to (their average), `old` where
//         they were after the slow step before, gamma the fast learning rate, beta slow momentum, alpha the slow
//         learning rate:
//           u = beta u + (old - x) / gamma
//           old = old - alpha gamma u,  x = old
//         gamma is the current rate: where it has changed since the slow step before, u counts for more or less.
// Numbers plumbline: in that order, the difference first. fairscale: u = u beta; u = u - (1/gamma) x; u = u + (1/gamma)
//         old; old = old + (-gamma alpha) u, scalars formed in double and then rounded. The results differ by the
//         rounding of x / gamma, which is more than that of the difference.
// Source  Wang et al., SlowMo (ICLR 2020), algorithm 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/slowmo/options.hpp"

namespace plumbline::slowmo {

struct SlowRule {
  OuterRule outer{};
  double fast_learning_rate;  // gamma
  gossip::Convention convention = gossip::Convention::plumbline;
};

/// All of one type, f32 or f64, and of one length.
void slow_step(const SlowRule& rule, comm::Buffer x, comm::Buffer old, comm::Buffer momentum);

/// Of one tensor, f32 or f64, and of one length: parameters, what they were at the slow step before, and slow momentum.
struct SlowTensor {
  comm::Buffer x, old, momentum;
};

/// All of them, at the place: on a device in one launch, in the order of its stream, with the bits of the host. Throws
/// there InvalidArgument and Unsupported for what does not go together, and what the runtime throws.
void slow_steps(const device::MemorySpace& place, const SlowRule& rule, std::span<const SlowTensor> tensors);

/// A learning rate of the optimizer's, and what it is the rate of.
struct ParameterGroup {
  std::vector<comm::Buffer> parameters;
  double learning_rate = 0;
};

}  // namespace plumbline::slowmo
