// harness/subject/plugin/work.hpp: calls that the plugin has started.
#pragma once

#include <memory>
#include <span>

#include "harness/subject/plugin/group.hpp"

namespace plumbline::subject::plugin {

class PluginWork final : public comm::Work::State {
 public:
  /// Starts the calls, which the plugin supports; one at least.
  PluginWork(std::shared_ptr<Group> group, std::span<const comm::Call> calls);
  ~PluginWork() override;
  PluginWork(const PluginWork&) = delete;
  PluginWork& operator=(const PluginWork&) = delete;

  bool test() override;
  void wait(comm::Timeout timeout) override;

 private:
  /// Names the first of the calls; a plugin does not say which of a batch its error is about.
  [[nodiscard]] std::string where() const;

  const std::shared_ptr<Group> group_;
  const comm::Call first_;
  const std::size_t count_;
  plumbline_work* handle_ = nullptr;
};

}  // namespace plumbline::subject::plugin
