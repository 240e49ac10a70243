#include "harness/subject/plugin/work.hpp"

#include <fmt/format.h>

#include "harness/subject/plugin/reply.hpp"
#include "harness/subject/plugin/translation.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {

PluginWork::PluginWork(std::shared_ptr<Group> group, std::span<const comm::Call> calls)
    : group_(std::move(group)), first_(calls.front()), count_(calls.size()) {
  std::vector<plumbline_call> list;
  for (const comm::Call& one : calls) list.push_back(translated(one, group_->rank, group_->size));
  call([this] { return where(); },
       [&](plumbline_error* error) {
         return group_->job->library->start(group_->handle(), list.data(), list.size(), &handle_, error);
       },
       group_->job->names_ended());
  if (handle_ == nullptr) throw RuntimeFailure(fmt::format("{}: the plugin returned status 0 and no work", where()));
}

PluginWork::~PluginWork() {
  if (handle_ != nullptr) group_->job->library->drop(handle_);
}

bool PluginWork::test() {
  group_->expect_sound();
  std::int32_t complete = 0;
  call([this] { return where(); },
       [&](plumbline_error* error) { return group_->job->library->test(handle_, &complete, error); },
       group_->job->names_ended());
  return complete != 0;
}

void PluginWork::wait(comm::Timeout timeout) {
  group_->expect_sound();
  call([this] { return where(); },
       [&](plumbline_error* error) { return group_->job->library->wait(handle_, nanoseconds_of(timeout), error); },
       group_->job->names_ended());
}

std::string PluginWork::where() const {
  if (count_ == 1) return group_->where(first_);
  return fmt::format("{} calls, the first {}", count_, group_->where(first_));
}

}  // namespace plumbline::subject::plugin
