// harness/subject/c10d/work.hpp: calls that c10d has started.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/subject/c10d/group.hpp"

namespace plumbline::subject::c10d_backend {

class C10dWork final : public comm::Work::State {
 public:
  /// Starts the calls. A blocking call's limit goes with it; `is_async` says whether the caller waits at once.
  C10dWork(std::shared_ptr<Group> group, std::span<const comm::Call> calls, comm::Timeout limit, bool is_async,
           std::optional<double> factor = {});
  /// Starts an all_to_all of blocks of different lengths, which the caller waits for at once.
  C10dWork(std::shared_ptr<Group> group, const comm::UnevenCall& call, comm::Timeout limit);
  ~C10dWork() override;
  C10dWork(const C10dWork&) = delete;
  C10dWork& operator=(const C10dWork&) = delete;

  bool test() override;
  void wait(comm::Timeout timeout) override;

 private:
  class Waiter;
  struct Posted;
  void post(Posted& posted, const auto& issue);
  /// Fails the group, but for an Unsupported, and throws what the exception stands for.
  [[noreturn]] void raise(const std::exception& error, const Posted& posted, bool has_begun);

  /// What has not been waited for may still be at its memory: it is kept until the process ends.
  void abandon() noexcept;

  const std::shared_ptr<Group> group_;
  std::vector<std::unique_ptr<Posted>> posted_;
  std::size_t done_ = 0;
};

}  // namespace plumbline::subject::c10d_backend
