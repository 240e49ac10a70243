// Faults of collectives whose blocks differ in length.
#include <algorithm>
#include <memory>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::Operation;
using comm::UnevenCall;

namespace {

bool has_empty_block(const UnevenCall& call) { return std::ranges::count(call.in_counts, 0) > 0; }

// As code does that has room for n blocks of the first one's length.
class CutToFirst final : public Plain<CutToFirst> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    std::vector<After> unwritten;
    std::int64_t begin = 0;
    for (const std::int64_t count : call.out_counts) {
      if (call.operation == Operation::all_gather && count > call.out_counts.front())
        unwritten.push_back(restore(call.out, begin + call.out_counts.front(), count - call.out_counts.front()));
      begin += count;
    }
    Plain::do_run_uneven(call, timeout);
    for (const After& restored : unwritten) restored();
  }
};

// As code does whose loop over contributions ends at the first block without elements.
class LastContributionMissing final : public Plain<LastContributionMissing> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    const std::vector<std::byte> nothing(call.in.bytes());
    UnevenCall changed = call;
    if (call.operation == Operation::reduce_scatter && call.in.data != nullptr && has_empty_block(call) &&
        rank() == size() - 1)
      changed.in.data = nothing.data();
    Plain::do_run_uneven(changed, timeout);
  }
};

class BlocksByLength final : public Plain<BlocksByLength> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    Plain::do_run_uneven(call, timeout);
    if (call.operation != Operation::all_to_all) return;
    std::vector<std::vector<std::byte>> blocks;
    const std::byte* from = element(call.out, 0);
    for (const std::int64_t count : call.out_counts) {
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(call.out.dtype);
      blocks.emplace_back(from, from + bytes);
      from += bytes;
    }
    std::ranges::stable_sort(blocks, {}, [](const auto& block) { return block.size(); });
    std::byte* to = element(call.out, 0);
    for (const auto& block : blocks) to = std::ranges::copy(block, to).out;
  }
};

// As MPI may do, whose own in-place form uses the input for what it likes.
class InputIsScratch final : public Plain<InputIsScratch> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    Plain::do_run_uneven(call, timeout);
    const std::int64_t own = comm::begin_of_block(call.in_counts, call.in_counts.empty() ? 0 : rank());
    if (call.operation != Operation::reduce_scatter || element(call.in, own) != call.out.data) return;
    const std::int64_t elsewhere = own == 0 ? call.out.count : 0;
    if (elsewhere < call.in.count) *const_cast<std::byte*>(element(call.in, elsewhere)) ^= std::byte{1};
  }
};

// As two calls do that share a piece of memory.
class LosesBesideStarted final : public Plain<LosesBesideStarted> {
 public:
  using Plain::Plain;

 private:
  class Counted final : public WrappedWork {
   public:
    Counted(comm::Work inner, std::shared_ptr<int> outstanding)
        : WrappedWork(std::move(inner)), outstanding_(std::move(outstanding)) {
      ++*outstanding_;
    }
    ~Counted() override { --*outstanding_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    std::shared_ptr<int> outstanding_;
  };
  comm::Work do_start(std::span<const comm::Call> calls) override {
    return comm::Work(std::make_unique<Counted>(Plain::do_start(calls), outstanding_));
  }
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    const bool loses = *outstanding_ > 0 && call.out.count > 0;
    const After last = loses ? restore(call.out, call.out.count - 1, 1) : After{};
    Plain::do_run_uneven(call, timeout);
    if (loses) last();
  }
  std::shared_ptr<int> outstanding_ = std::make_shared<int>(0);
};

class MismatchUnnoticed final : public Plain<MismatchUnnoticed> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    try {
      Plain::do_run_uneven(call, timeout);
    } catch (const comm::MismatchError&) {
    }
  }
};

class LateIsBroken final : public Plain<LateIsBroken> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    try {
      Plain::do_run_uneven(call, timeout);
    } catch (const comm::TimeoutError& error) {
      throw RuntimeFailure(error.what());
    }
  }
};

// As code does that takes milliseconds for something shorter.
class GivesUpEarly final : public Plain<GivesUpEarly> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const UnevenCall& call, comm::Timeout timeout) override {
    Plain::do_run_uneven(call, timeout ? comm::Timeout(*timeout / 10) : timeout);
  }
};

}  // namespace

std::vector<Mutant> uneven_mutants() {
  const char* const equal = "the blocks are equal";
  return {
      {"col.all_gather_v_cut_to_first", "COLL-100", "an all_gather_v cuts every block to the length of the first",
       "room for n equal blocks", "collectives.uneven.all_gather[lengths=growing,world=3]",
       "collectives.uneven.all_gather[lengths=equal,world=3]", equal, wrap_in<CutToFirst>},
      {"col.reduce_scatter_v_ends_at_empty", "COLL-101",
       "a reduce_scatter_v with an empty block lacks the last rank's contribution", "a loop that ends at a count of 0",
       "collectives.uneven.reduce_scatter[lengths=one,world=3]",
       "collectives.uneven.reduce_scatter[lengths=equal,world=3]", "no block is empty",
       wrap_in<LastContributionMissing>},
      {"col.all_to_all_v_by_length", "COLL-102", "the blocks of an all_to_all_v lie in the order of their lengths",
       "blocks placed as they arrive", "collectives.uneven.all_to_all[lengths=irregular,world=3]",
       "collectives.uneven.all_to_all[lengths=equal,world=3]", equal, wrap_in<BlocksByLength>},
      {"col.reduce_scatter_v_in_place_scratch", "COLL-103",
       "a reduce_scatter_v in place changes another block of its input", "MPI-3.1 section 5.10.2: MPI_IN_PLACE",
       "collectives.uneven.in_place[lengths=equal,world=3]", "collectives.uneven.reduce_scatter[lengths=equal,world=3]",
       "input and output are apart", wrap_in<InputIsScratch>},
      {"col.uneven_loses_beside_started", "COLL-104",
       "an all_to_all_v beside a started call of its group loses its last element", "scratch memory for one call",
       "collectives.uneven.in_order[world=3]", "collectives.uneven.all_to_all[lengths=irregular,world=3]",
       "nothing is under way", wrap_in<LosesBesideStarted>},
      {"col.uneven_mismatch_unnoticed", "COLL-105", "counts that do not go together are not noticed", "COL-05",
       "collectives.uneven.disagreement[world=3]", "collectives.uneven.all_to_all[lengths=irregular,world=3]",
       "the counts go together", wrap_in<MismatchUnnoticed>},
      {"col.uneven_timeout_is_failure", "COLL-106", "a passed time limit of an all_to_all_v is a RuntimeFailure",
       "COL-08", "collectives.uneven.absent_member[world=3]",
       "collectives.uneven.all_to_all[lengths=irregular,world=3]", "all members come", wrap_in<LateIsBroken>},
      {"col.uneven_gives_up_early", "COLL-106", "an all_to_all_v gives up when a tenth of its limit has passed",
       "COL-08", "collectives.uneven.absent_member[world=3]",
       "collectives.uneven.all_to_all[lengths=irregular,world=3]", "no limit is given", wrap_in<GivesUpEarly>},
  };
}

}  // namespace plumbline::mutants
