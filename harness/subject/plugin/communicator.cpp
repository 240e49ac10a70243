#include "harness/subject/plugin/communicator.hpp"

#include <fmt/format.h>

#include "harness/subject/plugin/reply.hpp"
#include "harness/subject/plugin/translation.hpp"
#include "harness/subject/plugin/work.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {

using comm::Call;

PluginCommunicator::PluginCommunicator(std::shared_ptr<Group> group)
    : Communicator(group->rank, group->identity), group_(std::move(group)) {}

void PluginCommunicator::expect_supported(const Call& call) const {
  const plumbline_backend& plugin = *group_->job->library;
  const auto expect = [&](std::uint32_t mask, std::int32_t number, const std::string& what) {
    if ((mask & PLUMBLINE_BIT(number)) == 0) [[unlikely]]
      throw Unsupported(fmt::format("{}: {} is not supported by backend {}", group_->where(call), what,
                                    group_->job->capabilities.backend));
  };
  expect(plugin.operations, number_of(call.operation), "the operation");
  if (call.operation == comm::Operation::barrier) return;
  expect(plugin.dtypes, number_of(call.dtype()), "its dtype");
  if (is_reduction(call.operation)) expect(plugin.reductions, number_of(call.op), "the reduction");
  if (call.device().kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("{}: memory on {} is not supported by backend {}, only the host's",
                                  group_->where(call), name_of(call.device()), group_->job->capabilities.backend));
}

// Operations are claims (translation.hpp), which have been looked at.
void PluginCommunicator::expect_supported(const comm::UnevenCall& call) const {
  const plumbline_backend& plugin = *group_->job->library;
  const auto refuse = [&](const std::string& what) {
    throw Unsupported(fmt::format("{}: {} is not supported by backend {}", group_->where(describe(call)), what,
                                  group_->job->capabilities.backend));
  };
  if ((plugin.dtypes & PLUMBLINE_BIT(number_of(call.in.dtype))) == 0) refuse("its dtype");
  if (is_reduction(call.operation) && (plugin.reductions & PLUMBLINE_BIT(number_of(call.op))) == 0)
    refuse("the reduction");
  if (call.in.device.kind != comm::Device::Kind::cpu) refuse("memory on " + name_of(call.in.device));
}

void PluginCommunicator::do_run(const Call& one, comm::Timeout timeout) {
  expect_supported(one);
  group_->expect_sound();
  const plumbline_call translation = translated(one, rank(), size());
  call([&] { return group_->where(one); },
       [&](plumbline_error* error) {
         return group_->job->library->run(group_->handle(), &translation, nanoseconds_of(timeout), error);
       },
       group_->job->names_ended());
}

void PluginCommunicator::do_run_uneven(const comm::UnevenCall& one, comm::Timeout timeout) {
  expect_supported(one);
  group_->expect_sound();
  const plumbline_uneven_call translation = translated(one);
  call([&] { return group_->where(describe(one)); },
       [&](plumbline_error* error) {
         return group_->job->library->run_uneven(group_->handle(), &translation, nanoseconds_of(timeout), error);
       },
       group_->job->names_ended());
}

void PluginCommunicator::do_run_scaled(const Call& one, double factor, comm::Timeout timeout) {
  expect_supported(one);
  group_->expect_sound();
  const plumbline_call translation = translated(one, rank(), size());
  call([&] { return group_->where(one) + " with a factor"; },
       [&](plumbline_error* error) {
         return group_->job->library->run_scaled(group_->handle(), &translation, factor, nanoseconds_of(timeout),
                                                 error);
       },
       group_->job->names_ended());
}

void PluginCommunicator::do_run_strided(const comm::StridedCall& one, comm::Timeout timeout) {
  expect_supported(one.call);
  group_->expect_sound();
  const plumbline_call translation = translated(one.call, rank(), size());
  const plumbline_rows in = translated(one.in, one.call.in.count), out = translated(one.out, one.call.out.count);
  call([&] { return group_->where(describe(one, size())); },
       [&](plumbline_error* error) {
         return group_->job->library->run_strided(group_->handle(), &translation, &in, &out, nanoseconds_of(timeout),
                                                  error);
       },
       group_->job->names_ended());
}

comm::Work PluginCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) expect_supported(call);
  if (calls.empty()) return {};
  const std::string& name = group_->job->capabilities.backend;
  if (!capabilities().has(comm::Capability::nonblocking))
    throw Unsupported(fmt::format("{}: backend {} starts no calls", group_->where(calls.front()), name));
  if (calls.size() > 1 && !capabilities().has(comm::Capability::coalescing))
    throw Unsupported(fmt::format("{} calls, the first {}: backend {} starts one call at a time", calls.size(),
                                  group_->where(calls.front()), name));
  group_->expect_sound();
  return comm::Work(std::make_unique<PluginWork>(group_, calls));
}

std::unique_ptr<comm::Communicator> PluginCommunicator::do_create_group(std::span<const int> ranks) {
  return std::make_unique<PluginCommunicator>(group_->create(ranks));
}

std::unique_ptr<comm::Communicator> PluginCommunicator::do_shrink(std::span<const int> excluded) {
  return std::make_unique<PluginCommunicator>(group_->shrink(ranks_without(excluded)));
}

std::unique_ptr<comm::Communicator> PluginCommunicator::do_grow(const std::string& invitation,
                                                                std::span<const int> newcomers) {
  return std::make_unique<PluginCommunicator>(group_->grow(Invitation::parse(invitation), newcomers));
}

std::unique_ptr<comm::Communicator> PluginCommunicator::do_join(const std::string& invitation,
                                                                std::span<const int> newcomers) {
  return std::make_unique<PluginCommunicator>(Group::join(group_->job, Invitation::parse(invitation), newcomers));
}

comm::Registration PluginCommunicator::do_register(comm::Buffer memory) {
  if (memory.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("register_memory: memory on {} is not supported by backend {}, only the host's",
                                  name_of(memory.device), group_->job->capabilities.backend));
  return group_->register_memory(memory.data, memory.bytes());
}

}  // namespace plumbline::subject::plugin
