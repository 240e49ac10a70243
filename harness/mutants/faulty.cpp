#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;

namespace {

class SpoiledWork final : public WrappedWork {
 public:
  SpoiledWork(comm::Work inner, std::vector<After> after) : WrappedWork(std::move(inner)), after_(std::move(after)) {}
  bool test() override {
    if (!WrappedWork::test()) return false;
    spoil();
    return true;
  }
  void wait(comm::Timeout timeout) override {
    WrappedWork::wait(timeout);
    spoil();
  }

 private:
  void spoil() {
    for (const After& after : after_)
      if (after) after();
    after_.clear();
  }
  std::vector<After> after_;
};

class Faulty final : public comm::CommunicatorDecorator {
 public:
  Faulty(std::unique_ptr<Communicator> inner, Fault fault)
      : CommunicatorDecorator(std::move(inner)), fault_(std::move(fault)) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    Call changed = call;
    const After after = fault_(changed, {*this, false, ++calls_});
    CommunicatorDecorator::do_run(changed, timeout);
    if (after) after();
  }
  comm::Work do_start(std::span<const Call> calls) override {
    std::vector<Call> changed(calls.begin(), calls.end());
    std::vector<After> after;
    for (Call& call : changed) after.push_back(fault_(call, {*this, true, ++calls_}));
    return comm::Work(std::make_unique<SpoiledWork>(CommunicatorDecorator::do_start(changed), std::move(after)));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Faulty>(std::move(group), fault_);
  }

  Fault fault_;
  int calls_ = 0;
};

}  // namespace

Wrap with_fault(Fault fault) {
  return [fault = std::move(fault)](std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
    return std::make_unique<Faulty>(std::move(inner), fault);
  };
}

After restore(const comm::Buffer& out, std::int64_t first, std::int64_t count) {
  if (count <= 0) return {};
  std::byte* const at = element(out, first);
  std::vector<std::byte> before(at, at + static_cast<std::size_t>(count) * size_of(out.dtype));
  return [at, before = std::move(before)] { std::memcpy(at, before.data(), before.size()); };
}

}  // namespace plumbline::mutants
