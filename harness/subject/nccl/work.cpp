#include "harness/subject/nccl/work.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {

using comm::Call;
using comm::Operation;

void NcclWork::post(std::span<const Call> calls, std::optional<double> factor) {
  group_->expect_sound();
  const Process::Turn turn(group_->job->process);
  for (std::size_t i = 0; i < calls.size();) {
    if (is_point_to_point(calls[i].operation)) {
      post_message(calls[i++]);
      continue;
    }
    auto batch = std::make_shared<Batch>(group_->job->process);
    batch->factor = factor;
    const Call& first = calls[i];
    const auto fits = [&](const Call& call) {
      return !is_point_to_point(call.operation) && std::ranges::all_of(batch->calls, [&](const Call& earlier) {
        return may_go_together(earlier, call, group_->size);
      });
    };
    while (i < calls.size() && fits(calls[i])) batch->calls.push_back(calls[i++]);
    batch->ready.record(*stream_);
    const std::uint64_t number = group_->post(batch);
    parts_.push_back({.call = first, .batch = std::move(batch), .number = number});
  }
  group_->pump();
  group_->job->go_on();
}

void NcclWork::post_message(const Call& call) {
  const int peer = group_->identity.ranks[static_cast<std::size_t>(call.root)];
  auto message =
      std::make_shared<Message>(group_->job->process, group_->identity.id, group_->lineage(), call, peer, *stream_);
  group_->job->messages.post(message);
  parts_.push_back({.call = call, .batch = message->batch, .message = std::move(message)});
}

// Each part, once it is met, stays so.
bool NcclWork::is_met(const Part& part) const {
  if (!part.batch->is_issued || !missing(part).empty()) return false;
  return part.call.operation != Operation::barrier || part.batch->done.is_reached();
}

bool NcclWork::is_done() const {
  return std::ranges::all_of(parts_,
                             [](const Part& part) { return part.batch->is_issued && part.batch->done.is_reached(); });
}

std::vector<int> NcclWork::missing(const Part& part) const {
  if (part.message == nullptr) return group_->missing(part.number);
  return part.message->is_taken || part.batch->is_issued ? std::vector<int>{} : std::vector{part.call.root};
}

bool NcclWork::test() { return has_ended_ ? is_done() : look(Extent::device); }

void NcclWork::wait(comm::Timeout timeout) {
  if (has_ended_) return hold_back_caller();
  Patience patience(timeout);
  while (!look(Extent::host)) {
    if (patience.is_over()) time_out(*timeout);
    patience.pause();
  }
}

bool NcclWork::look(Extent extent) {
  const Group::News news = group_->look();  // before the calls are: who left after making them has made them
  group_->expect_sound();
  const Process::Turn turn(group_->job->process);
  group_->pump();
  for (const Part& part : parts_) expect_message(part);
  if (group_->has_ended()) judge(group_->look());
  const bool has_bad_news = news.worst > Status::left;
  const bool is_met_by_all = std::ranges::all_of(parts_, [this](const Part& part) { return is_met(part); });
  // A member that failed may have ended what was under way on its device.
  if (has_bad_news || !is_met_by_all || extent == Extent::device) {
    if (!is_met_by_all || !is_done()) {
      judge(news);
      return false;
    }
  }
  hold_back_caller();
  has_ended_ = true;
  return true;
}

void NcclWork::hold_back_caller() const {
  for (const Part& part : parts_) group_->job->process.hold_back(*stream_, part.batch->done);
}

const NcclWork::Part& NcclWork::first_unmet() const {
  const auto unmet = std::ranges::find_if(parts_, [this](const Part& part) { return !is_met(part); });
  return unmet == parts_.end() ? parts_.front() : *unmet;
}

void NcclWork::judge(const Group::News& news) {
  const Part& part = first_unmet();
  const std::vector<int> absent = missing(part);
  if (news.worst == Status::timed_out && !absent.empty())
    give_up<comm::TimeoutError>(Status::timed_out, fmt::format("{}: another member gave up waiting for {}",
                                                               group_->place(part.call), Group::name_ranks(absent)));
  if (news.worst > Status::left)
    give_up<comm::PeerFailed>(Status::failed,
                              fmt::format("{}: the group has failed: {}", group_->place(part.call), news.words));
  for (const int member : absent)
    if (news.status[static_cast<std::size_t>(member)] == Status::left)
      give_up<comm::PeerFailed>(Status::failed,
                                fmt::format("{}: rank {} has left the group", group_->place(part.call), member));
}

void NcclWork::expect_message(const Part& part) {
  if (part.message == nullptr) return;
  if (const Failure& failure = group_->job->messages.failure(*part.message))
    give_up(failure.at(group_->place(part.call)));
  if (part.message->mismatch.empty()) return;
  give_up<comm::MismatchError>(Status::failed, fmt::format("{}: rank {} sent {}", group_->place(part.call),
                                                           part.call.root, part.message->mismatch));
}

void NcclWork::time_out(std::chrono::nanoseconds limit) {
  const Process::Turn turn(group_->job->process);
  const Part& part = first_unmet();
  const std::vector<int> absent = missing(part);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  give_up<comm::TimeoutError>(
      Status::timed_out, absent.empty() ? fmt::format("{}: all ranks have arrived; waited {} ms for the device",
                                                      group_->place(part.call), milliseconds)
                                        : fmt::format("{}: waited {} ms for {}", group_->place(part.call), milliseconds,
                                                      Group::name_ranks(absent)));
}

void NcclWork::give_up(const Failure& failure) {
  withdraw();
  group_->fail(Status::failed, failure.words());
  failure.raise();
}

template <class E>
void NcclWork::give_up(Status status, const std::string& words) {
  withdraw();
  group_->fail(status, words);
  throw E(words);
}

void NcclWork::withdraw() noexcept {
  const Job& job = *group_->job;
  for (const Part& part : parts_) {
    if (part.message == nullptr) continue;
    if (!part.batch->is_issued) group_->job->messages.withdraw(*part.message);
    try {  // as after a wait: what the caller puts into its stream from now on comes after the bytes were read
      job.process.hold_back(*stream_, part.batch->is_issued ? part.batch->done : part.batch->ready);
    } catch (const std::exception&) {
      // The device is lost; what it was doing is, too.
    }
  }
}

NcclWork::~NcclWork() {
  if (has_ended_ || parts_.empty()) return;
  const Process::Turn turn(group_->job->process);
  if (group_->has_failed() || !std::ranges::all_of(parts_, [this](const Part& part) { return is_met(part); })) {
    withdraw();
    group_->fail(Status::failed, fmt::format("rank {} dropped an unfinished call", group_->rank));
    return;
  }
  try {  // nobody waited, and the buffers are in use
    hold_back_caller();
  } catch (const std::exception&) {
    // The device is lost; the next call says so.
  }
}

}  // namespace plumbline::subject::nccl
