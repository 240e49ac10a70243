// harness/suite/rank_ended.hpp: how a rank that is a thread ends in the middle of a case.
#pragma once

namespace plumbline::suite {

/// Context::end_rank() throws it. No check catches it, for it is no std::exception; what runs the rank counts it as
/// passed, unless an assertion has failed before.
struct RankEnded {};

}  // namespace plumbline::suite
