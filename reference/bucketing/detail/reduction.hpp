// reference/bucketing/detail/reduction.hpp: a question of bucketing.reduce, as it is read, and a rank that answers it.
//
// Model   Every rank of a world in this process has a reducer; a step is its backward passes, and the last one reduces.
//         Gradients are in the rank's own memory, where passes accumulate them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/adapter/arguments.hpp"
#include "reference/bucketing/compression.hpp"

namespace plumbline::adapter {

/// A gradient that a pass produces, or marks as unused.
struct Produced {
  int gradient = 0;
  std::vector<double> values;
  std::optional<std::vector<std::int64_t>> rows;  // of a sparse gradient; values are theirs
  std::optional<comm::DType> dtype;               // where it is handed in as another one
  bool is_unused = false;
};

/// A rank's step; without passes the rank has run out of rows.
struct RankStep {
  std::vector<std::vector<Produced>> passes;
  std::vector<std::vector<double>> buffers;  // before each pass
};

/// An exchange in place of the reduction, as a caller would write one.
enum class Exchange { none, sum, first_rank, sum_twice };

struct RankPlan {
  std::vector<bucketing::Gradient> gradients;
  bucketing::Plan plan;
};

struct Reduction {
  comm::DType dtype = comm::DType::f32;  // of all gradients
  RankPlan common;
  std::vector<RankPlan> own_plans;  // of each rank, where they differ
  bucketing::ReducerOptions options;
  bool in_views = false;                      // gradients lie in buckets, and not in the caller's memory
  std::optional<std::int64_t> rebuild_bytes;  // of buckets that are made again after the first pass
  std::vector<std::vector<double>> initial;   // of each rank, where they are there
  std::size_t buffer = 0;                     // elements; 0: steps have no buffers
  std::optional<Arguments> compression;
  Exchange exchange = Exchange::none;
  std::vector<std::int64_t> positions;  // of gradients in the rank's memory, in elements; empty: each lies alone
  int instance = 0;                     // ranks of one; 0: there are none
  bool calls_back = false;              // when a bucket is reduced
  bool goes_on = false;                 // after a call that is rejected
  bool records = false;                 // collectives
  std::vector<std::vector<RankStep>> steps;

  [[nodiscard]] const RankPlan& of(int rank) const {
    return own_plans.empty() ? common : own_plans[static_cast<std::size_t>(rank)];
  }
};

[[nodiscard]] Reduction reduction_in(const Arguments& arguments, int world);
/// As the question's `compression` says; `sgd` keeps what it has from step to step.
[[nodiscard]] bucketing::CommunicationHook hook_of(const Arguments& asked, std::unique_ptr<bucketing::PowerSgd>& sgd);

/// A collective that a rank began.
struct CollectiveCall {
  std::string operation;
  int ranks = 0;
  std::int64_t bytes = 0;  // that the rank gives
  int completed = 0;       // of those that it began earlier, those that were complete then
};
struct CollectiveLog {
  std::vector<CollectiveCall> calls;
  int completed = 0;
};
/// The group, with what is begun on it, and on groups made from it, noted in a log.
[[nodiscard]] std::unique_ptr<comm::Communicator> logged(std::unique_ptr<comm::Communicator> group,
                                                         std::shared_ptr<CollectiveLog> log);

class ReducingRank {
 public:
  ReducingRank(const Reduction& all, comm::Communicator& world);
  ~ReducingRank();
  /// The answer's row, with the error that ends the run where there is one.
  [[nodiscard]] nlohmann::json step(std::size_t at);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::adapter
