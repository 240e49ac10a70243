// reference/training/pipeline/counting.hpp: counts what LibTorch computes on this thread.
#pragma once

#include <map>
#include <string>

#include <ATen/record_function.h>

namespace plumbline::training {

/// Operations by name while it lives, such as "aten::mm". One at a time on a thread.
class OperationCounter {
 public:
  OperationCounter() {
    counts().clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          ++counts()[function.name()];
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~OperationCounter() { at::removeCallback(handle_); }
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

  [[nodiscard]] int count(const std::string& name) const {
    const auto found = counts().find(name);
    return found == counts().end() ? 0 : found->second;
  }
  /// Products of two matrices.
  [[nodiscard]] int products() const { return count("aten::mm") + count("aten::addmm") + count("aten::bmm"); }

 private:
  // A callback has no state of its own.
  static std::map<std::string, int>& counts() {
    static thread_local std::map<std::string, int> counts;
    return counts;
  }
  at::CallbackHandle handle_{};
};

}  // namespace plumbline::training
