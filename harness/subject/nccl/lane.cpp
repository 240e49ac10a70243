#include "harness/subject/nccl/lane.hpp"

#include <algorithm>

#include "harness/subject/nccl/issue.hpp"

namespace plumbline::subject::nccl {
namespace {

// What a call touches, as bytes.
struct Span {
  const std::byte* begin;
  std::size_t bytes;
};

Span in_of(const comm::Call& call) { return {static_cast<const std::byte*>(call.in.data), call.in.bytes()}; }
Span out_of(const comm::Call& call) { return {static_cast<const std::byte*>(call.out.data), call.out.bytes()}; }

bool overlap(Span a, Span b) {
  return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

}  // namespace

bool may_go_together(const comm::Call& earlier, const comm::Call& later, int ranks) {
  for (const comm::Call* call : {&earlier, &later})
    if (call->operation == comm::Operation::barrier || (ranks > 1 && is_made_of_messages(call->operation)))
      return false;
  return !overlap(out_of(earlier), in_of(later)) && !overlap(out_of(earlier), out_of(later)) &&
         !overlap(in_of(earlier), out_of(later));
}

std::byte* Scratch::reserve(std::size_t bytes) {
  const std::size_t largest = blocks_.empty() ? 0 : blocks_.back().bytes();
  if (bytes > largest) blocks_.emplace_back(runtime_, device_, std::max(bytes, 2 * largest));
  return blocks_.back().data();
}

Lane::Lane(Process& process, int rank, int size)
    : process_(process), rank_(rank), size_(size), stream_(process.runtime, process.device), scratch_(process) {}

Lane::~Lane() {
  if (comm_ != nullptr) abort();
  if (!scratch_.is_used()) return;
  try {
    stream_.synchronize();
  } catch (const std::exception&) {
    // The device is lost; what it was doing is, too.
  }
}

void Lane::die(Result result, const char* what) {
  failure_ = process_.library.failure(result, what, comm_);
  abort();
  failure_.raise();
}

void Lane::join(const UniqueId& id) {
  Config config = Process::configuration();
  const Result result = process_.library->CommInitRankConfig(&comm_, size_, id, rank_, &config);
  if (is_error(result)) die(result, "ncclCommInitRankConfig");
}

void Lane::split(Lane& parent) {
  Config config = Process::configuration();
  const Result result = process_.library->CommSplit(parent.comm_, 0, rank_, &comm_, &config);
  if (is_error(result)) die(result, "ncclCommSplit");
}

bool Lane::is_settled() {
  if (failure_) failure_.raise();
  if (is_dead_ || comm() == nullptr) return false;
  Result state = Result::success;
  const Result asked = process_.library->CommGetAsyncError(comm_, &state);
  if (is_error(asked)) die(asked, "ncclCommGetAsyncError");
  if (is_error(state)) die(state, "NCCL reports");
  return state == Result::success;
}

comm::Registration Lane::register_memory(void* memory, std::size_t bytes) {
  static comm::Registration last = 0;  // in a Turn
  if (is_dead_) return 0;
  void* handle = nullptr;
  process_.library.check(process_.library->CommRegister(comm_, memory, bytes, &handle), "ncclCommRegister", comm_);
  registered_.emplace(++last, handle);
  return last;
}

bool Lane::deregister(comm::Registration registration) {
  const auto found = registered_.find(registration);
  if (found == registered_.end()) return false;
  void* const handle = found->second;
  registered_.erase(found);
  if (!is_dead_) process_.library.check(process_.library->CommDeregister(comm_, handle), "ncclCommDeregister", comm_);
  return true;
}

void Lane::push(std::shared_ptr<Batch> batch) { waiting_.push_back(std::move(batch)); }

void Lane::pump() {
  try {
    advance();
  } catch (const std::exception& error) {
    if (!failure_) {  // of the device's, not NCCL's: nobody knows what was put in
      failure_ = Failure(error);
      abort();
    }
    throw;
  }
}

void Lane::advance() {
  while (is_settled()) {
    if (going_in_ != nullptr) {
      going_in_->done.record(stream_.get());
      going_in_->is_issued = true;
      last_ = std::move(going_in_);
    }
    if (waiting_.empty()) break;
    going_in_ = std::move(waiting_.front());
    waiting_.pop_front();
    issue(*going_in_);
  }
  if (last_ != nullptr && last_->done.is_reached()) last_.reset();
}

Left Lane::left() const {
  if (is_dead_) return Left::nothing;
  if (!waiting_.empty()) return Left::nccl;
  return going_in_ != nullptr || last_ != nullptr ? Left::running : Left::nothing;
}

void Lane::issue(Batch& batch) {
  process_.hold_back(stream_.get(), batch.ready);
  std::vector<Issue> parts;
  for (const comm::Call& call : batch.calls) parts.emplace_back(*this, call, batch.factor);
  for (Issue& part : parts) {
    part.copies();
    if (batch.is_empty) part.use_own_memory();
  }
  Result result = process_.library->GroupStart();
  for (std::size_t i = 0; i < parts.size() && !is_error(result); ++i) result = parts[i].calls();
  const Result end = process_.library->GroupEnd();  // also where a call was refused: it closes the group
  if (is_error(result)) die(result, "a call of NCCL");
  if (is_error(end)) die(end, "ncclGroupEnd");
}

void Lane::abort() noexcept {
  is_dead_ = true;
  waiting_.clear();
  going_in_.reset();
  if (comm_ != nullptr) (void)process_.library->CommAbort(std::exchange(comm_, nullptr));
}

bool Lane::end() noexcept {
  if (comm() == nullptr || !waiting_.empty() || going_in_ != nullptr) abort();
  if (comm_ == nullptr) return true;
  try {
    // The device may still be at work on that memory.
    if (!registered_.empty() && last_ != nullptr && !last_->done.is_reached()) return false;
    while (!registered_.empty()) (void)deregister(registered_.begin()->first);
    if (!is_finalizing_) {
      if (process_.library->CommFinalize != nullptr)  // else destroying it waits for what is under way
        if (const Result result = process_.library->CommFinalize(comm_); is_error(result))
          die(result, "ncclCommFinalize");
      is_finalizing_ = true;
    }
    if (!is_settled() || (last_ != nullptr && !last_->done.is_reached())) return false;
  } catch (const std::exception&) {
    abort();
    return true;
  }
  (void)process_.library->CommDestroy(std::exchange(comm_, nullptr));
  return true;
}

}  // namespace plumbline::subject::nccl
