// harness/subject/nccl/work.hpp: calls under way.
//
// Model   A wait ends when all members have made the call and it is in the stream: what the caller puts into the stream
//         that is its then comes after it, also at a further wait. Only a barrier waits for the device, too.
//         Whom a wait is for is known from the board: collectives are counted there, messages offered and taken.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/subject/nccl/group.hpp"

namespace plumbline::subject::nccl {

class NcclWork final : public comm::Work::State {
 public:
  /// `stream`: the caller's, as it is at each moment.
  NcclWork(std::shared_ptr<Group> group, std::shared_ptr<const device::Stream> stream)
      : group_(std::move(group)), stream_(std::move(stream)) {}
  ~NcclWork() override;
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  /// Begins validated calls of memory that is the device's. Throws PeerFailed, RuntimeFailure, DeviceFailure.
  void post(std::span<const comm::Call> calls) { post(calls, std::nullopt); }
  /// The same of one sum, of which this rank multiplies its input by the factor.
  void post(const comm::Call& sum, double factor) { post(std::span(&sum, 1), factor); }
  bool test() override;
  void wait(comm::Timeout timeout) override;
  [[nodiscard]] bool outlasts_wait() const override { return true; }

 private:
  /// Collectives that were put into the lane together, or a message.
  struct Part {
    comm::Call call;  // the first
    std::shared_ptr<Batch> batch;
    std::uint64_t number = 0;  // of the last, among the collectives of this member; 0 of a message
    std::shared_ptr<Message> message;
  };
  enum class Extent { host, device };

  void post(std::span<const comm::Call> calls, std::optional<double> factor);
  void post_message(const comm::Call& call);
  /// Looks once. Whether all parts are complete: for the host, or on the device. Throws what a call that ended badly
  /// has to.
  bool look(Extent extent);
  [[nodiscard]] bool is_met(const Part& part) const;
  [[nodiscard]] bool is_done() const;
  /// The caller's stream goes on when the device is through.
  void hold_back_caller() const;
  [[nodiscard]] std::vector<int> missing(const Part& part) const;
  /// Throws where the members' news mean that this will not end well.
  void judge(const Group::News& news);
  /// Throws where a message has failed, or another one was sent.
  void expect_message(const Part& part);
  void time_out(std::chrono::nanoseconds limit);
  [[nodiscard]] const Part& first_unmet() const;
  [[noreturn]] void give_up(const Failure& failure);
  template <class E>
  [[noreturn]] void give_up(Status status, const std::string& words);
  void withdraw() noexcept;

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<const device::Stream> stream_;
  std::vector<Part> parts_;
  bool has_ended_ = false;
};

}  // namespace plumbline::subject::nccl
