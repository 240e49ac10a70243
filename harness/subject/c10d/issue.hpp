// harness/subject/c10d/issue.hpp: a call as one of c10d's, on tensors over the caller's memory.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "reference/comm/communicator.hpp"

namespace plumbline::subject::c10d_backend {

struct Issue {
  const comm::Call& call;
  int rank;
  int size;
  std::chrono::milliseconds timeout;  // ::c10d::kUnsetTimeout: the group's own
  bool is_async;
  std::vector<std::byte>& scratch;  // lasts as long as the call
  std::optional<double> factor;     // of a sum: this rank's (ReduceOp.PREMUL_SUM)
};

/// Starts a validated call. Throws what the process group throws.
[[nodiscard]] c10::intrusive_ptr<::c10d::Work> issue(::c10d::ProcessGroup& group, const Issue& issue);

/// An all_to_all of blocks of different lengths, whose counts, of components, last as long as the call.
struct UnevenIssue {
  const comm::UnevenCall& call;
  std::vector<std::int64_t>& in_counts;
  std::vector<std::int64_t>& out_counts;
  std::chrono::milliseconds timeout;
};
[[nodiscard]] c10::intrusive_ptr<::c10d::Work> issue(::c10d::ProcessGroup& group, const UnevenIssue& issue);

}  // namespace plumbline::subject::c10d_backend
