#include "harness/subject/c10d/work.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/c10d/issue.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {
namespace {

using comm::Call;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool has_one_of(const std::string& words, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return words.find(part) != words.npos; });
}

// c10d has types for few of its errors, and backends use fewer: what is left is what they say.
constexpr std::array<std::string_view, 4> kTimeout{"imed out", "imeout", "TimeoutError", "deadline"};
constexpr std::array<std::string_view, 8> kPeer{"losed by peer", "onnection reset",   "onnection closed", "roken pipe",
                                                "pair closure",  "onnection refused", "aborted",          "eer failed"};
constexpr std::array<std::string_view, 7> kUnsupported{"not supported",      "does not support", "not implemented",
                                                       "NotImplemented",     "nsupported",       "Invalid scalar type",
                                                       "Cannot use ReduceOp"};

// The first line; what follows is a stack.
std::string first_line(const std::string& words) { return words.substr(0, words.find('\n')); }

// 0 is c10d's word for no limit. Who waits adds the limit to the time, which must not overflow.
milliseconds milliseconds_of(std::chrono::nanoseconds limit) {
  constexpr auto kLongest = std::chrono::hours(24 * 365 * 100);
  return std::clamp(std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(limit, kLongest)),
                    milliseconds(1), milliseconds(kLongest));
}

}  // namespace

// A wait in a thread of its own, which tells when it ended.
class C10dWork::Waiter {
 public:
  static std::shared_ptr<Waiter> begin(c10::intrusive_ptr<::c10d::Work> work) {
    auto waiter = std::make_shared<Waiter>();
    std::thread([waiter, work = std::move(work)] {
      std::exception_ptr error;
      try {
        if (!work->wait()) throw std::runtime_error("aborted");
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard hold(waiter->mutex_);
      waiter->error_ = error;
      waiter->has_ended_ = true;
      waiter->end_.notify_all();
    }).detach();
    return waiter;
  }
  /// Whether it has ended; throws what the wait threw.
  bool test() {
    const std::lock_guard hold(mutex_);
    if (error_) std::rethrow_exception(error_);
    return has_ended_;
  }
  void wait(milliseconds limit) {
    std::unique_lock hold(mutex_);
    const auto ended = [this] { return has_ended_; };
    if (limit == kNoTimeout)
      end_.wait(hold, ended);
    else if (!end_.wait_for(hold, limit, ended))
      throw std::runtime_error(fmt::format("timed out after {} ms", limit.count()));
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool has_ended_ = false;
  std::exception_ptr error_;
};

struct C10dWork::Posted {
  Call call;
  std::string words;  // what it is called in errors
  std::vector<std::byte> scratch{};
  std::vector<std::int64_t> in_counts{}, out_counts{};  // of blocks of different lengths
  c10::intrusive_ptr<::c10d::Work> work{};
  std::shared_ptr<Waiter> waiter = nullptr;

  bool test(Polling polling) {
    if (waiter == nullptr && work->isCompleted()) {
      wait(kNoTimeout);
      return true;
    }
    if (polling == Polling::is_completed) return false;
    if (waiter == nullptr) waiter = Waiter::begin(work);
    return waiter->test();
  }
  void wait(milliseconds limit) {
    if (waiter != nullptr) return waiter->wait(limit);
    if (!work->wait(limit)) throw std::runtime_error("aborted");
  }
};

C10dWork::C10dWork(std::shared_ptr<Group> group, std::span<const Call> calls, comm::Timeout limit, bool is_async,
                   std::optional<double> factor)
    : group_(std::move(group)) {
  for (const Call& call : calls) {
    Posted& posted = *posted_.emplace_back(std::make_unique<Posted>(call, describe(call, group_->size)));
    post(posted, Issue{.call = posted.call,
                       .rank = group_->rank,
                       .size = group_->size,
                       .timeout = limit ? milliseconds_of(*limit) : ::c10d::kUnsetTimeout,
                       .is_async = is_async,
                       .scratch = posted.scratch,
                       .factor = factor});
  }
}

C10dWork::C10dWork(std::shared_ptr<Group> group, const comm::UnevenCall& call, comm::Timeout limit)
    : group_(std::move(group)) {
  Posted& posted = *posted_.emplace_back(std::make_unique<Posted>(Call{.operation = call.operation}, describe(call)));
  posted.in_counts.assign(call.in_counts.begin(), call.in_counts.end());
  posted.out_counts.assign(call.out_counts.begin(), call.out_counts.end());
  for (auto* const counts : {&posted.in_counts, &posted.out_counts})
    for (std::int64_t& count : *counts) count *= components_of(call.in.dtype);
  post(posted, UnevenIssue{.call = call,
                           .in_counts = posted.in_counts,
                           .out_counts = posted.out_counts,
                           .timeout = limit ? milliseconds_of(*limit) : ::c10d::kUnsetTimeout});
}

void C10dWork::post(Posted& posted, const auto& what) {
  try {
    posted.work = issue(group_->process_group(), what);
  } catch (const std::exception& error) {
    raise(error, posted, posted_.size() > 1);
  }
  if (posted.work == nullptr)
    throw RuntimeFailure(fmt::format("{}: the process group returned no Work", group_->where(posted.words)));
}

bool C10dWork::test() {
  for (; done_ < posted_.size(); ++done_) {
    group_->expect_sound();
    Posted& posted = *posted_[done_];
    try {
      if (!posted.test(group_->job->polling)) return false;
    } catch (const std::exception& error) {
      raise(error, posted, true);
    }
  }
  return true;
}

void C10dWork::wait(comm::Timeout timeout) {
  const Clock::time_point begin = Clock::now();
  for (; done_ < posted_.size(); ++done_) {
    group_->expect_sound();
    Posted& posted = *posted_[done_];
    try {
      posted.wait(timeout ? milliseconds_of(*timeout - (Clock::now() - begin)) : kNoTimeout);
    } catch (const std::exception& error) {
      raise(error, posted, true);
    }
  }
}

void C10dWork::raise(const std::exception& error, const Posted& posted, bool has_begun) {
  const Call& call = posted.call;
  const std::string words = first_line(error.what());
  const std::string message = fmt::format("{}: {}", group_->where(posted.words), words);
  if (!has_begun && has_one_of(words, kUnsupported)) throw Unsupported(message);
  group_->fail(message);
  abandon();
  if (has_one_of(words, kTimeout)) {
    std::vector<int> others;
    for (int rank = 0; rank < group_->size; ++rank)
      if (is_point_to_point(call.operation) ? rank == call.root : rank != group_->rank) others.push_back(rank);
    throw comm::TimeoutError(fmt::format("{}; waited for one of ranks {}", message, fmt::join(others, ", ")));
  }
  if (has_one_of(words, kPeer)) throw comm::PeerFailed(message);
  throw RuntimeFailure(message);
}

void C10dWork::abandon() noexcept {
  for (std::size_t index = done_; index < posted_.size(); ++index) (void)posted_[index].release();
}

C10dWork::~C10dWork() {
  if (done_ == posted_.size()) return;
  group_->fail(fmt::format("rank {} dropped an unfinished call", group_->rank));
  abandon();
}

}  // namespace plumbline::subject::c10d_backend
