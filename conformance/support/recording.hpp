// conformance/support/recording.hpp: which collectives were started, seen from outside of who started them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

struct RecordedCall {
  comm::Operation operation = comm::Operation::barrier;
  comm::DType dtype = comm::DType::f32;
  std::int64_t elements = 0;
  bool waits = false;          // blocking
  bool has_no_number = false;  // its input, in host memory, has a float that is none
  int after = 0;               // what `now` said
};

/// Notes every collective of a group.
class RecordingCommunicator final : public comm::CommunicatorDecorator {
 public:
  explicit RecordingCommunicator(std::unique_ptr<comm::Communicator> inner) : CommunicatorDecorator(std::move(inner)) {}

  std::vector<RecordedCall> calls;
  int now = 0;  // set by who wants to know what came before a call

 protected:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override;

 private:
  void note(const comm::Call& call, bool waits);
};

}  // namespace plumbline::conformance
